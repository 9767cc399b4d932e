//! Cases from the field: what people who run databases and message logs have met. Each test carries the case's id.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use client::{Code, Connection, Consumer, Message, Skipped, Value};
use parking_lot::Mutex;

use crate::support::one_table::{START_MS, reading, values, write};
use crate::support::{PATIENCE, Server, connect, drain, query, refusal, tidemark, wait_for};

const QUIET: Duration = Duration::from_millis(500);

/// One vgroup, a table, a topic; `options` of the database.
async fn start(options: &str) -> (Server, Connection) {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, &format!("CREATE DATABASE d VGROUPS 1 {options}")).await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.n").await;
    (server, connection)
}

/// Everything in the topic, read by a group of its own.
async fn topic_from_the_start(connection: &Connection, group: &str) -> Vec<i64> {
    let consumer = reading(connection, group, "earliest").await;
    let found = values(&drain(&consumer, QUIET).await);
    consumer.close().await.expect("close");
    found
}

async fn table(connection: &Connection) -> Vec<i64> {
    let rows = query(connection, "SELECT v FROM d.n ORDER BY ts").await;
    rows.iter().map(|row| row.get(0).expect("v")).collect()
}

/// A cell of the only row of SHOW SUBSCRIPTIONS that is of this group.
async fn subscription<T: client::FromValue>(connection: &Connection, group: &str, column: &str) -> T {
    let rows = query(connection, "SHOW SUBSCRIPTIONS").await;
    let row = rows.iter().find(|row| row.by_name::<String>("consumer_group").expect("a group") == group);
    row.expect("the group").by_name(column).expect(column)
}

/// `wal_first` or `wal_end` of the only vgroup.
async fn vgroup(connection: &Connection, column: &str) -> i64 {
    let rows = query(connection, "SHOW d.VGROUPS").await;
    rows.iter().next().expect("a vgroup").by_name(column).expect(column)
}

/// C017: a group comes back after retention has taken what it had not read.
#[tokio::test(flavor = "multi_thread")]
async fn c017_s15_68_a_group_that_fell_behind_is_told() {
    let (_server, connection) = start("WAL_RETENTION_PERIOD 1").await;
    write(&connection, 0..5).await;
    let first = reading(&connection, "g", "earliest").await;
    assert_eq!(values(&drain(&first, QUIET).await), [0, 1, 2, 3, 4]);
    first.commit_all_sync().await.expect("commit");
    let assigned = first.assignment("t").await.expect("assignment")[0].vgroup;
    let committed = first.committed("t", assigned).await.expect("committed");
    first.close().await.expect("close");
    let unread = vgroup(&connection, "wal_end").await;
    write(&connection, 5..10).await;
    // Each flush closes the segment; the ones before it go once they are past their second.
    wait_for("rows that the group has not read are gone", || async {
        query(&connection, "FLUSH DATABASE d").await;
        vgroup(&connection, "wal_first").await > committed + 5
    })
    .await;
    write(&connection, 10..12).await;
    let told: String = subscription(&connection, "g", "committed").await;
    assert_eq!(told, format!("wal:{committed}"), "the committed offset is still there");
    assert!(subscription::<i64>(&connection, "g", "skipped").await >= 5, "shown before anybody reads");

    let none = reading(&connection, "g", "none").await;
    assert_eq!(
        refusal(&none, QUIET).await.code(),
        Code::OffsetOutOfRange,
        "the rows behind its offset are gone"
    );
    none.close().await.expect("close");

    let back = reading(&connection, "g", "earliest").await;
    let messages = drain(&back, QUIET).await;
    assert_eq!(values(&messages), [10, 11], "neither read again nor skipped in silence");
    let Some(Skipped { from, to }) = messages[0].skipped() else { panic!("no gap in {messages:?}") };
    assert!((committed..=unread).contains(&from), "{committed} {from} {unread}");
    assert!(to >= unread + 5 && to <= messages[0].next(), "{from}..{to} {messages:?}");
    assert!(messages[1..].iter().all(|message| message.skipped().is_none()), "told once");
    let below = back.seek("t", assigned, committed).expect_err("those versions are gone");
    assert_eq!(below.code(), Code::OffsetOutOfRange);
    back.commit_all_sync().await.expect("commit");
    assert_eq!(subscription::<i64>(&connection, "g", "skipped").await, to - from);
    back.close().await.expect("close");
    assert_eq!(subscription::<i64>(&connection, "g", "lag").await, 0, "nothing is left to read");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).expect("copied");
        }
    }
}

/// C023: a machine loses what was not synced, and with it commits and rows alike.
#[tokio::test(flavor = "multi_thread")]
async fn c023_offsets_are_cut_back_with_the_log() {
    let (mut server, connection) = start("WAL_LEVEL 1 WAL_FSYNC_PERIOD 180000").await;
    write(&connection, 0..50).await;
    let first = reading(&connection, "g", "earliest").await;
    assert_eq!(drain(&first, QUIET).await.len(), 50);
    first.commit_all_sync().await.expect("commit");
    first.close().await.expect("close");
    query(&connection, "FLUSH DATABASE d").await;
    // What a disk holds for certain at this point.
    let synced = server.scratch().join("synced");
    copy(&server.data_dir(), &synced);
    let second = reading(&connection, "g", "earliest").await;
    write(&connection, 50..100).await;
    assert_eq!(drain(&second, QUIET).await.len(), 50);
    second.commit_all_sync().await.expect("commit");
    drop(second);
    server.kill();
    std::fs::remove_dir_all(server.data_dir()).expect("removed");
    copy(&synced, &server.data_dir());
    server.start_again();

    let connection = connect(&server).await;
    let committed: String = subscription(&connection, "g", "committed").await;
    let committed: i64 = committed.strip_prefix("wal:").expect("an offset").parse().expect("a version");
    let end = vgroup(&connection, "wal_end").await;
    assert!(committed <= end, "committed={committed} end={end}");
    write(&connection, 200..210).await;
    let third = reading(&connection, "g", "earliest").await;
    assert_eq!(values(&drain(&third, QUIET).await), (200..210).collect::<Vec<_>>());
    third.close().await.expect("close");
    assert_eq!(table(&connection).await, (0..50).chain(200..210).collect::<Vec<_>>());
}

fn verified(server: &Server) -> Vec<String> {
    let output =
        tidemark().args(["wal", "verify"]).arg(server.data_dir().join("vnode/2")).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

/// Last version in the log of the stopped server's first vgroup.
fn last_version(server: &Server) -> u64 {
    let last = |line: &String| line.split(" last=").nth(1)?.split(' ').next()?.parse().ok();
    verified(server).iter().filter_map(last).max().expect("records")
}

/// C071: files without content at the end of a log are a normal sight after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn c071_blank_files_at_the_end_are_ignored() {
    let (mut server, connection) = start("").await;
    let mut written = 0;
    for blank in ["", "idx", "tmp", "zeros"] {
        let connection = if written == 0 { connection.clone() } else { connect(&server).await };
        write(&connection, written..written + 10).await;
        written += 10;
        if blank == "zeros" {
            server.kill()
        } else {
            assert!(server.terminate().success());
        }
        let last = last_version(&server);
        let folder = server.data_dir().join("vnode/2/wal");
        let name = |ending: &str| folder.join(format!("{:020}.{ending}", last + 1));
        let (file, content) = match blank {
            "idx" => (name("idx"), Vec::new()),
            "tmp" => (name("log.tmp"), Vec::new()),
            "zeros" => (name("log"), vec![0; 4_096]),
            _ => (name("log"), Vec::new()),
        };
        let alike = std::fs::read_dir(&folder).expect("the log").flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.len() == "00000000000000000000.log".len() && name.ends_with(".log")
        });
        assert!(alike, "segments have such names");
        if !file.exists() {
            std::fs::write(&file, content).expect("written");
        }
        if blank == "tmp" {
            std::fs::write(server.data_dir().join("mnode/mnode.snapshot.tmp"), b"").expect("written");
        }
        server.start_again();
        let connection = connect(&server).await;
        assert_eq!(table(&connection).await, (0..written).collect::<Vec<_>>(), "{blank}");
        write(&connection, written..written + 1).await;
        written += 1;
        server.kill();
        assert!(last_version(&server) > last, "{blank}: versions go on");
        server.start_again();
    }
    let connection = connect(&server).await;
    assert_eq!(topic_from_the_start(&connection, "after").await, (0..written).collect::<Vec<_>>());
}

/// C075: flush, overwrite, restart: rows count once, the later value wins, the topic shows each record once.
#[tokio::test(flavor = "multi_thread")]
async fn c075_an_overwritten_row_counts_once() {
    let (mut server, _) = start("").await;
    let rounds = 4;
    for round in 0..rounds {
        let connection = connect(&server).await;
        query(&connection, &format!("INSERT INTO d.n VALUES ({START_MS}, {})", 2 * round)).await;
        query(&connection, "FLUSH DATABASE d").await;
        query(&connection, &format!("INSERT INTO d.n VALUES ({START_MS}, {})", 2 * round + 1)).await;
        if round % 2 == 0 {
            server.kill()
        } else {
            assert!(server.terminate().success());
        }
        server.start_again();
        let connection = connect(&server).await;
        let counted = query(&connection, "SELECT COUNT(*), LAST(v) FROM d.n").await;
        let counted = counted.iter().next().expect("a row");
        assert_eq!((counted.get::<i64>(0).unwrap(), counted.get::<i64>(1).unwrap()), (1, 2 * round + 1));
    }
    let connection = connect(&server).await;
    assert_eq!(topic_from_the_start(&connection, "g").await, (0..2 * rounds).collect::<Vec<_>>());
}

/// C077: batches that were begun under an older schema.
#[tokio::test(flavor = "multi_thread")]
async fn c077_batches_of_the_schema_before() {
    let mut server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    let writer = connection.writer("d", "s").await.expect("a writer");
    let mut batches = Vec::new();
    for n in 0..100 {
        let mut batch = writer.batch().expect("a batch");
        let child = batch.child("c", &[Value::Int(1)]).expect("a child");
        batch.push(child, &[Value::Timestamp(START_MS + n), Value::Int(n)]).expect("a row");
        batches.push(batch);
    }
    let other = connect(&server).await;
    query(&other, "ALTER STABLE d.s ADD COLUMN w INT").await;
    query(&other, "CREATE TOPIC t AS SELECT ts, v, w FROM d.s").await;
    for batch in batches {
        writer.write(batch).await.expect("taken");
    }
    assert_eq!(writer.flush().await.expect("written"), 100);
    server.kill();
    server.start_again();

    let connection = connect(&server).await;
    let expected: Vec<(i64, Option<i64>)> = (0..100).map(|v| (v, None)).collect();
    let rows = query(&connection, "SELECT v, w FROM d.s ORDER BY ts").await;
    let selected: Vec<_> = rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect();
    assert_eq!(selected, expected);
    let consumer = reading(&connection, "g", "earliest").await;
    let messages = drain(&consumer, QUIET).await;
    let rows = messages.iter().flat_map(Message::rows);
    let consumed: Vec<_> = rows.map(|row| (row.get(1).unwrap(), row.get(2).unwrap())).collect();
    assert_eq!(consumed, expected);
    consumer.close().await.expect("close");
}

/// C079: rows stay, once each, through sessions that end right after the answer.
#[tokio::test(flavor = "multi_thread")]
async fn c079_three_sessions() {
    let (mut server, _) = start("").await;
    let mut written = 0;
    for count in [1, 2, 1] {
        let connection = connect(&server).await;
        write(&connection, written..written + count).await;
        assert_eq!(server.terminate().code(), Some(0));
        written += count;
        server.start_again();
        let connection = connect(&server).await;
        let all: Vec<i64> = (0..written).collect();
        assert_eq!(table(&connection).await, all);
        let counted = query(&connection, "SELECT COUNT(*) FROM d.n").await;
        assert_eq!(counted.iter().next().expect("a row").get::<i64>(0).unwrap(), written);
        assert_eq!(topic_from_the_start(&connection, &format!("after{written}")).await, all);
    }
}

/// Every file below a folder, with its length.
fn files(folder: &Path, found: &mut BTreeMap<std::path::PathBuf, u64>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            files(&entry.path(), found);
        } else {
            found.insert(entry.path(), entry.metadata().expect("a file").len());
        }
    }
}

/// C083: one server a directory, whatever becomes of the one before.
#[tokio::test(flavor = "multi_thread")]
async fn c083_the_lock_goes_with_its_process() {
    let (mut server, connection) = start("").await;
    write(&connection, 0..3).await;
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    files(&server.data_dir(), &mut before);
    let mut second = tidemark();
    second.args(["serve", "--grpc", "127.0.0.1:0", "--data-dir"]).arg(server.data_dir());
    let refused = second.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("error[0x6f03]") && stderr.contains(&format!("pid={}", server.pid())),
        "{stderr}"
    );
    files(&server.data_dir(), &mut after);
    assert_eq!(before, after, "it has written nothing");

    // While the old one is still stopping a new one is refused, or waits for nobody; then it starts.
    let pid = i32::try_from(server.pid()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told to stop");
    let begun = std::time::Instant::now();
    while let Err(refused) = server.try_start_again() {
        assert!(refused.contains("error[0x6f03]"), "{refused}");
        assert!(begun.elapsed() < PATIENCE, "it never stops");
    }
    for _ in 0..20 {
        server.kill();
        server.start_again();
    }
    let connection = connect(&server).await;
    assert_eq!(table(&connection).await, [0, 1, 2]);
    assert_eq!(topic_from_the_start(&connection, "g").await, [0, 1, 2]);
}

const GROUPS: [&str; 3] = ["red", "green", "blue"];

/// What C085 knows of one group.
#[derive(Default)]
struct Progress {
    /// Answered commits, by vgroup.
    committed: Mutex<BTreeMap<u32, i64>>,
    rows: Mutex<BTreeSet<i64>>,
    repeated: Mutex<Vec<String>>,
}

/// An application that knows of nothing but its poll loop.
async fn application(consumer: Arc<Consumer>, progress: Arc<Progress>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let committed = progress.committed.lock().clone();
        let Ok(Some(message)) = consumer.poll(Duration::from_millis(200)).await else { continue };
        let (vgroup, begin, next) = (message.vgroup(), message.begin(), message.next());
        if committed.get(&vgroup).is_some_and(|committed| begin < *committed) {
            progress.repeated.lock().push(format!("vgroup={vgroup} begin={begin} committed={committed:?}"));
        }
        progress.rows.lock().extend(values(std::slice::from_ref(&message)));
        if consumer.commit_sync(&message).await.is_ok() {
            let mut committed = progress.committed.lock();
            let last = committed.entry(vgroup).or_insert(next);
            *last = next.max(*last);
        }
    }
}

/// C085: ten restarts under load. Applications only poll again; nothing comes twice after its commit was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c085_applications_only_retry_their_poll() {
    // A port of its own, so that clients find the server again.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number");
    let mut server = Server::start_with(&["--grpc", &free.to_string()]);
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 3").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.s").await;
    let mut consumers = Vec::new();
    for group in GROUPS {
        for _ in 0..3 {
            consumers.push((group, Arc::new(reading(&connection, group, "earliest").await)));
        }
    }
    wait_for("a vgroup for each consumer", || async {
        let rows = query(&connection, "SHOW SUBSCRIPTIONS").await;
        let owners: BTreeSet<Option<String>> =
            rows.iter().map(|row| row.by_name("consumer_id").unwrap()).collect();
        owners.len() == consumers.len() && !owners.contains(&None)
    })
    .await;
    let stop = Arc::new(AtomicBool::new(false));
    let progress: BTreeMap<&str, Arc<Progress>> =
        GROUPS.iter().map(|group| (*group, Arc::default())).collect();
    let applications: Vec<_> = consumers
        .iter()
        .map(|(group, consumer)| {
            tokio::spawn(application(Arc::clone(consumer), Arc::clone(&progress[group]), Arc::clone(&stop)))
        })
        .collect();
    let written = Arc::new(AtomicI64::new(0));
    let load = tokio::spawn({
        let (connection, stop, written) = (connection.clone(), Arc::clone(&stop), Arc::clone(&written));
        async move {
            while !stop.load(Ordering::Relaxed) {
                let v = written.load(Ordering::Relaxed);
                let (child, ts) = (v % 12, START_MS + v);
                let sql = format!("INSERT INTO d.c{child} USING d.s TAGS ({child}) VALUES ({ts}, {v})");
                // An error leaves it open whether the row is there; writing it again is safe.
                if connection.sql(&sql).await.is_ok() {
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    for round in 0..10 {
        let before = written.load(Ordering::Relaxed);
        wait_for("rows between two restarts", || async { written.load(Ordering::Relaxed) > before + 20 })
            .await;
        if round % 2 == 0 {
            assert!(server.terminate().success());
        } else {
            server.kill()
        }
        server.start_again();
    }
    let before = written.load(Ordering::Relaxed);
    wait_for("rows after the last", || async { written.load(Ordering::Relaxed) > before + 20 }).await;
    let end = written.load(Ordering::Relaxed);
    for (group, progress) in &progress {
        wait_for(&format!("every row at {group}"), || async {
            let rows = progress.rows.lock();
            (0..end).all(|v| rows.contains(&v))
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    load.await.expect("the load ends");
    for application in applications {
        application.await.expect("an application ends");
    }
    for (group, progress) in progress {
        assert_eq!(
            *progress.repeated.lock(),
            [""; 0],
            "{group}: delivered again after the commit was answered"
        );
    }
    for (_, consumer) in consumers {
        Arc::try_unwrap(consumer).expect("the last one").close().await.expect("close");
    }
}

/// C087: what is older than KEEP is refused with the range that is accepted, and the whole statement with it, wherever its
/// tables live; the future is open.
#[tokio::test(flavor = "multi_thread")]
async fn c087_a_row_past_keep_takes_its_statement_with_it() {
    const TABLES: usize = 8; // in both vgroups
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2 KEEP 10d DURATION 1d").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (g INT)").await;
    for table in 0..TABLES {
        query(&connection, &format!("CREATE TABLE d.c{table} USING d.s TAGS ({table})")).await;
    }
    let insert = |old: usize| {
        let mut sql = String::from("INSERT INTO");
        for table in 0..TABLES {
            sql += &format!(" d.c{table} VALUES (now - 239h, 1) (now + 1d, 2) (now + 400d, 3)");
            if table == old {
                sql += " (now - 241h, 4)";
            }
        }
        sql
    };
    for old in 0..TABLES {
        let error = connection.sql(&insert(old)).await.map(drop).expect_err("a row past KEEP");
        assert_eq!(error.code(), Code::TimestampOutOfRange, "{error}");
        let told = error.to_string();
        assert!(told.contains("accepted now: ") && told.contains(&format!("table=c{old}")), "{told}");
        let rows = query(&connection, "SELECT COUNT(*) FROM d.s").await;
        assert_eq!(
            rows.iter().next().and_then(|row| row.get::<i64>(0).ok()),
            Some(0),
            "c{old}: nothing is written"
        );
    }
    query(&connection, &insert(TABLES)).await;
    let rows = query(&connection, "SELECT COUNT(*) FROM d.s").await;
    assert_eq!(rows.iter().next().and_then(|row| row.get::<i64>(0).ok()), Some(3 * TABLES as i64));
}
