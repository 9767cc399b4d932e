//! `tidemark subscribe`, and the statement of that name in `tidemark sql`: what is printed where, and when it ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

use serde_json::Value;

use crate::support::{PATIENCE, Server, connect, query, tidemark, wait_for};

fn start(options: &str) -> Server {
    let server = Server::start();
    server.sql(&format!(
        "CREATE DATABASE d VGROUPS 1 {options}; CREATE TABLE d.n (ts TIMESTAMP, v BIGINT); \
         CREATE TOPIC t AS SELECT ts, v FROM d.n"
    ));
    server
}

fn insert(server: &Server, values: std::ops::Range<i64>) {
    for v in values {
        server.sql(&format!("INSERT INTO d.n VALUES ({}, {v})", 1_700_000_000_000 + v));
    }
}

fn lines(output: &std::process::Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_version_is_that_of_the_rows_record() {
    let mut server = start("");
    server.sql("INSERT INTO d.n VALUES (1700000000000, 0) (1700000000001, 1)");
    insert(&server, 2..5);
    let rows = lines(&server.run("subscribe", &["t", "-g", "g", "--from", "earliest", "--limit", "5"]));
    let versions: Vec<u64> = rows.iter().map(|row| row["version"].as_u64().expect("a version")).collect();
    server.terminate();
    // What the log itself says.
    let dump =
        tidemark().args(["wal", "dump"]).arg(server.data_dir().join("vnode")).output().expect("it runs");
    let data: Vec<(u64, u64)> = lines(&dump)
        .iter()
        .filter(|record| record["kind"] == "data")
        .map(|record| (record["version"].as_u64().expect("version"), record["rows"].as_u64().expect("rows")))
        .collect();
    assert_eq!(data.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [2, 1, 1, 1]);
    let of_rows: Vec<u64> = data.iter().flat_map(|(version, rows)| vec![*version; *rows as usize]).collect();
    assert_eq!(versions, of_rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_group_learns_what_the_log_no_longer_has() {
    let server = start("WAL_RETENTION_PERIOD 1");
    insert(&server, 0..5);
    let connection = connect(&server).await;
    wait_for("the first segment is gone", || async {
        query(&connection, "FLUSH DATABASE d").await;
        let rows = query(&connection, "SHOW d.VGROUPS").await;
        rows.iter().next().expect("a vgroup").by_name::<i64>("wal_first").expect("wal_first") > 0
    })
    .await;
    insert(&server, 10..11);
    let args = ["t", "-g", "new", "--from", "earliest", "--limit", "1"];
    let output = server.run("subscribe", &args);
    let lines = lines(&output);
    let (from, to) = (&lines[0]["skipped"]["from"], lines[0]["skipped"]["to"].as_i64().expect("to"));
    assert_eq!(from, 0, "from the log's very first record");
    assert!(lines[1]["version"].as_i64().expect("a version") > to, "both ends are gone: {lines:?}");
    let said = stderr(&output);
    assert!(said.contains(&format!("records 0 to {to} are gone from the log: ")), "{said}");
    let again = server.run("sql", &["-s", "subscribe t -g other -o earliest -n 1"]);
    assert!(stderr(&again).contains(&format!("records 0 to {to} are gone")), "{}", stderr(&again));
}

#[test]
fn replay_does_not_end_in_a_pause_and_never_commits() {
    let server = start("");
    server.sql("CREATE TABLE d.marks (ts TIMESTAMP, v BIGINT)");
    insert(&server, 0..1);
    let written = std::time::Instant::now();
    // The pause on the tape: three times as long as --timeout. What fills it is work, not a sleep.
    let mut n = 0;
    while written.elapsed() < std::time::Duration::from_millis(1_500) {
        server.sql(&format!("INSERT INTO d.marks VALUES ({}, {n})", 1_700_000_000_000_i64 + n));
        n += 1;
    }
    insert(&server, 1..2);
    let args = ["t", "-g", "g", "--replay", "--from", "earliest", "--timeout", "500ms"];
    for run in 0..2 {
        let rows = lines(&server.run("subscribe", &args));
        let values: Vec<_> = rows.iter().map(|row| row["row"]["v"].as_i64().expect("v")).collect();
        assert_eq!(
            values,
            [0, 1],
            "run {run}: the pause is no end, and no commit lets a run go on elsewhere"
        );
    }
}

#[test]
fn options_that_contradict_each_other_are_wrong_use() {
    let server = start("");
    for args in [
        &["t", "-g", "g", "--set", "group.id=other"][..],
        &["t", "-g", "g", "--from", "latest", "--set", "auto.offset.reset=earliest"],
        &["t", "-g", "g", "--replay", "--commit", "end"],
        &["t", "-g", "g", "--set", "session.timeout.ms=1"],
    ] {
        let output = server.run("subscribe", args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("error["), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    assert_eq!(server.sql("SHOW CONSUMERS").lines().count(), 1, "nobody came as far as the server");
}

#[test]
fn s15_75_the_statement_tells_a_fault_once_and_on_stderr() {
    let server = start("");
    let faults = [
        ("subscribe t -g g --form earliest", "Error: unexpected argument '--form' found"),
        (
            "subscribe t --limit 1",
            "Error: the following required arguments were not provided: --group <GROUP>",
        ),
        ("subscribe t -g g --host x:1", "Error: unknown option '--host': the statement takes "),
        ("subscribe -x 5 -g g", "Error: unknown option '-x': "),
        ("subscribe t", "Error: group_id is required. Use -g <group_id>."),
        ("subscribe nix -g g", "Error: failed to subscribe: "),
        ("subscribe t -g g -o soon", "Error: failed to set auto.offset.reset to 'soon'"),
        ("subscribe t -g a:b", "Error: failed to create consumer: "),
    ];
    for (statement, text) in faults {
        let output = server.run("sql", &["-s", &format!("{statement}; SELECT 1")]);
        assert_eq!(output.status.code(), Some(1), "{statement}");
        assert_eq!(stderr(&output).matches("Error").count(), 1, "{}", stderr(&output));
        assert!(
            stderr(&output).starts_with(text) && !stderr(&output).contains("error["),
            "{}",
            stderr(&output)
        );
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!stdout.contains("rror") && !stdout.contains('1'), "{statement}: {stdout}");
    }
    let went_on = server.run("sql", &["--continue", "-o", "csv", "-s", "subscribe t; SELECT 1"]);
    assert_eq!(went_on.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&went_on.stdout), "1\r\n1\r\n");
    let usage = server.run("sql", &["-s", "subscribe -h"]);
    assert!(usage.status.success() && usage.stderr.is_empty());
    assert!(String::from_utf8_lossy(&usage.stdout).starts_with("Usage: subscribe <topic> -g <group_id>"));
}

#[test]
fn leaving_on_purpose_is_no_lost_connection() {
    let server = start("");
    insert(&server, 0..3);
    // Who wins the race between the end of the streams and that of the client shows in some runs only.
    for run in 0..12 {
        let group = format!("g{run}");
        let args = ["t", "-g", &group, "--from", "earliest", "--limit", "3"];
        let output = server.run("subscribe", &args);
        assert!(output.status.success(), "run {run}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "run {run}");
    }
}

fn numbers(output: &std::process::Output) -> Vec<i64> {
    lines(output).iter().map(|line| line["row"]["v"].as_i64().expect("v")).collect()
}

/// What is not printed is not committed: a message that the limit cuts comes again.
#[test]
fn a_message_that_was_cut_is_not_committed() {
    let server = start("");
    insert(&server, 0..2);
    let rows: Vec<_> = (2..7).map(|v| format!("({}, {v})", 1_700_000_000_000_i64 + v)).collect();
    server.sql(&format!("INSERT INTO d.n VALUES {}", rows.join(" ")));
    insert(&server, 7..9);
    for (group, commit) in [("a", "auto"), ("e", "end")] {
        let limited = ["t", "-g", group, "--from", "earliest", "--limit", "4", "--commit", commit];
        let first = server.run("subscribe", &[&limited[..], &["--set", "min.poll.rows=1"]].concat());
        assert_eq!((numbers(&first), first.status.code()), (vec![0, 1, 2, 3], Some(0)));
        let said = stderr(&first);
        assert_eq!(said, "--limit shows 2 of the 5 rows of the last message: it is not committed\n");
        let rest = server.run("subscribe", &["t", "-g", group, "--timeout", "1s"]);
        assert_eq!(numbers(&rest), (2..9).collect::<Vec<_>>(), "{commit}");
        assert_eq!(stderr(&rest), "");
    }
}

fn spawn(server: &Server, args: &[&str]) -> Child {
    let mut command = tidemark();
    command.arg("subscribe").args(args).args(["-h", server.address()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
}

/// How it ends, when it does so by itself.
fn ended(child: Child) -> std::process::Output {
    let pid = rustix::process::Pid::from_child(&child);
    let (says, said) = sync_channel(1);
    std::thread::spawn(move || says.send(child.wait_with_output()));
    said.recv_timeout(PATIENCE).map_or_else(
        |_| {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("it did not end by itself")
        },
        |output| output.expect("its output"),
    )
}

/// As with `| head -1`: it ends though nothing more comes, and quietly; what could not be printed whole comes again.
#[test]
fn it_ends_with_whoever_reads_it() {
    let server = start("");
    insert(&server, 0..1);
    for args in [
        &["t", "-g", "idle", "--from", "earliest"][..],
        &["t", "-g", "end", "--from", "earliest", "--commit", "end"],
    ] {
        let mut child = spawn(&server, args);
        let mut line = String::new();
        // The pipe closes with the reader.
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
        assert!(line.contains("\"v\":0"), "{line}");
        let output = ended(child);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
        let again = server.run("subscribe", &["t", "-g", args[2], "--timeout", "1s"]);
        assert_eq!(numbers(&again), [0; 0], "what was printed is committed");
    }
    // A message that no pipe holds.
    server.sql("CREATE TABLE d.wide (ts TIMESTAMP, v BIGINT, s VARCHAR(9000)); CREATE TOPIC wide AS SELECT v, s FROM d.wide");
    let text = "x".repeat(8_000);
    let rows: Vec<_> = (0..15).map(|v| format!("({}, {v}, '{text}')", 1_700_000_000_000_i64 + v)).collect();
    server.sql(&format!("INSERT INTO d.wide VALUES {}", rows.join(" ")));
    let mut child = spawn(&server, &["wide", "-g", "g", "--from", "earliest"]);
    let mut line = String::new();
    BufReader::with_capacity(100, child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
    let output = ended(child);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let again = server.run("subscribe", &["wide", "-g", "g", "--timeout", "1s"]);
    assert_eq!(numbers(&again), (0..15).collect::<Vec<_>>(), "it was not printed whole");
}

/// Lines of a stream as they come; the thread ends with it.
fn lines_of(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (says, said) = sync_channel(64);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if says.send(line).is_err() {
                return;
            }
        }
    });
    said
}

#[test]
fn rebalances_and_broken_connections_are_told() {
    let mut server = Server::start();
    server.sql(
        "CREATE DATABASE d VGROUPS 2; CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT); \
         CREATE TOPIC t AS SELECT ts, v FROM d.s",
    );
    let mut child = spawn(&server, &["t", "-g", "g", "--from", "earliest"]);
    let said = lines_of(child.stderr.take().expect("stderr"));
    let printed = lines_of(child.stdout.take().expect("stdout"));
    let next = || said.recv_timeout(PATIENCE).expect("a line on stderr");
    server.sql("INSERT INTO d.c USING d.s TAGS (1) VALUES (now, 7)");
    assert!(printed.recv_timeout(PATIENCE).expect("a row").contains("\"v\":7"), "it reads");
    let other = server.run("subscribe", &["t", "-g", "g", "--timeout", "2s"]);
    assert!(other.status.success(), "{}", stderr(&other));
    let (lost, back) = (next(), next());
    assert!(lost.starts_with("rebalanced: reads vgroups ") && lost.ends_with(" now, before 2, 3"), "{lost}");
    assert!(back.starts_with("rebalanced: reads vgroups 2, 3 now, before "), "{back}");
    server.kill_and_restart_on_the_same_port();
    // Whether it was away long enough to be seen is chance; that it is back is not.
    let line = next();
    let back = if line.starts_with("lost the connection") { next() } else { line };
    assert_eq!(back, "connected again");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .expect("Ctrl-C");
    assert!(child.wait().expect("it ends").success());
    assert!(printed.recv().is_err(), "nothing of it on stdout");
}
