//! The example `effectively_once` is killed at random moments, and its sink holds every row once all the same.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rusqlite::OpenFlags;

use crate::support::{Server, connect, query};

const SEED: u64 = 0x71de;
const KILLS: usize = 12;
const CHILDREN: i64 = 5;
const WRITES: i64 = 150;

/// The example, which is built with the tests.
fn example() -> Command {
    let binaries = Path::new(env!("CARGO_BIN_EXE_tidemark")).parent().expect("a folder");
    let path = binaries.join("examples/effectively_once");
    assert!(
        path.exists(),
        "{} is missing: build it with `cargo build --workspace --examples`",
        path.display()
    );
    Command::new(path)
}

fn spawn(server: &Server, sink: &Path) -> Child {
    let mut command = example();
    command.args([server.address(), "t", "g"]).arg(sink).stdout(Stdio::piped());
    command.spawn().expect("the example starts")
}

/// What a process says, line by line.
fn said(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().expect("stdout")).lines().map_while(Result::ok)
}

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

/// All rows of the sink, and how many differ.
fn counts(sink: &Path) -> (i64, i64) {
    let db =
        rusqlite::Connection::open_with_flags(sink, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("the sink");
    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql);
    (
        one("SELECT count(*) FROM readings"),
        one("SELECT count(*) FROM (SELECT DISTINCT tbname, ts, value FROM readings)"),
    )
}

/// A server with a topic `t` over a super table of three vgroups, and rows in it.
async fn prepared() -> (Server, PathBuf) {
    let server = Server::start_on_held_clock();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 3").await;
    query(&connection, "CREATE STABLE d.st (ts TIMESTAMP, v INT) TAGS (g INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT tbname, ts, v FROM d.st").await;
    for n in 0..WRITES {
        let row = |c: i64| format!("d.c{c} USING d.st TAGS ({c}) VALUES ({}, {n})", 1_700_000_000_000 + n);
        let rows: Vec<_> = (0..CHILDREN).map(row).collect();
        query(&connection, &format!("INSERT INTO {}", rows.join(" "))).await;
    }
    let sink = server.scratch().join("sink.db");
    (server, sink)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_keeps_the_offset_holds_every_row_once() {
    let (server, sink) = prepared().await;
    let mut random = StdRng::seed_from_u64(SEED);
    let mut kills = 0;
    for _ in 0..KILLS {
        // Three lines a message, so this ends before, between and behind the two commits.
        let lines = random.random_range(1..40);
        let mut child = spawn(&server, &sink);
        let mut said = said(&mut child);
        let mut read = said.by_ref().take(1).count();
        // Often another process joins meanwhile and takes a share of the vgroups.
        let other = random.random_bool(0.4).then(|| spawn(&server, &sink));
        read += said.by_ref().take(lines - 1).count();
        kill(child);
        other.into_iter().for_each(kill);
        kills += usize::from(read == lines);
        // The group notices that they are gone.
        server.advance(Duration::from_secs(13));
    }
    assert!(kills > KILLS / 2, "seed={SEED}: only {kills} kills hit a process at work");
    let mut last = spawn(&server, &sink);
    assert!(last.wait().expect("waited for").success(), "seed={SEED}");
    let (all, distinct) = counts(&sink);
    assert_eq!((all, distinct), (CHILDREN * WRITES, CHILDREN * WRITES), "seed={SEED}");
}
