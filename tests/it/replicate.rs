//! `tidemark replicate`: a database is built again on another server, and both answer alike.

use std::process::{Child, Output, Stdio};
use std::time::Duration;

use client::{Connection, Rows};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::support::{Server, connect, number, query, tidemark, wait_for};

const START_MS: i64 = 1_700_000_000_000;

fn command(from: &Server, to: &Server, args: &[&str]) -> std::process::Command {
    let mut command = tidemark();
    command.args(["replicate", "--from", from.address(), "--to", to.address()]).args(args);
    command
}

/// Runs it until the end of the log, which must go well.
fn replicate(from: &Server, to: &Server, args: &[&str]) {
    let output = command(from, to, args).arg("--until-end").output().expect("the command runs");
    assert!(output.status.success(), "{}", text(&output));
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn spawn(from: &Server, to: &Server, args: &[&str]) -> Child {
    let mut command = command(from, to, args);
    command.stdout(Stdio::null()).spawn().expect("the command starts")
}

fn end(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

async fn run(connection: &Connection, statements: &[&str]) {
    for statement in statements {
        query(connection, statement).await;
    }
}

fn lines(rows: &Rows) -> Vec<String> {
    let line = |row: client::Row<'_>| row.values().map(|v| v.to_string()).collect::<Vec<_>>().join(",");
    let mut lines: Vec<_> = rows.iter().map(line).collect();
    lines.sort();
    lines
}

/// Everything that a database answers: which tables there are, what they are like, their tags and rows.
async fn everything(connection: &Connection, database: &str) -> Vec<String> {
    let mut all = Vec::new();
    let stables =
        format!("SELECT stable_name FROM information_schema.ins_stables WHERE db_name = '{database}'");
    let tables = format!(
        "SELECT table_name, stable_name FROM information_schema.ins_tables WHERE db_name = '{database}'"
    );
    all.extend(lines(&query(connection, &tables).await));
    let mut names = Vec::new();
    for (sql, is_stable) in [(&stables, true), (&tables, false)] {
        for row in query(connection, sql).await.iter() {
            names.push((row.get::<String>(0).expect("a name"), is_stable));
        }
    }
    names.sort();
    for (name, is_stable) in names {
        all.push(format!("-- {name}"));
        all.extend(lines(&query(connection, &format!("DESCRIBE {database}.`{name}`")).await));
        let what = if is_stable { "tbname, *" } else { "*" };
        all.extend(lines(&query(connection, &format!("SELECT {what} FROM {database}.`{name}`")).await));
    }
    all
}

async fn assert_equal(from: &Connection, to: &Connection) {
    let (wanted, found) = (everything(from, "d").await, everything(to, "d").await);
    assert!(wanted.len() > 5, "there is something to compare: {wanted:?}");
    assert_eq!(found, wanted);
}

async fn source(vgroups: usize) -> (Server, Connection) {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, &format!("CREATE DATABASE d VGROUPS {vgroups} PRECISION 'us'")).await;
    query(&connection, "CREATE TOPIC t WITH META AS DATABASE d").await;
    (server, connection)
}

fn row(child: &str, at: i64, values: &str) -> String {
    format!("INSERT INTO d.{child} VALUES ({}, {values})", (START_MS + at) * 1_000)
}

/// Without the key in the copy, rows of one instant would be one row there.
#[tokio::test(flavor = "multi_thread")]
async fn a_composite_key_is_one_in_the_copy_too() {
    let (a, from) = source(2).await;
    let b = Server::start();
    let to = connect(&b).await;
    run(
        &from,
        &[
            "CREATE STABLE d.st (ts TIMESTAMP, k VARCHAR(9) PRIMARY KEY, v INT) TAGS (g INT)",
            "CREATE TABLE d.n (ts TIMESTAMP, k INT PRIMARY KEY, v INT)",
            "CREATE TABLE d.a1 USING d.st TAGS (1)",
            &row("a1", 0, "'x', 1"),
            &row("a1", 0, "'y', 2"),
            &row("n", 0, "-1, 1"),
            &row("n", 0, "7, 2"),
            &row("n", 0, "7, 3"),
        ],
    )
    .await;
    replicate(&a, &b, &["--topic", "t"]);
    assert_equal(&from, &to).await;
    assert_eq!(number(&to, "SELECT COUNT(*) FROM d.n").await, 2);
    // The whole log once more: the tables that are there are the same ones.
    replicate(&a, &b, &["--topic", "t", "--group", "again"]);
    assert_equal(&from, &to).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_change_is_made_again() {
    let (a, from) = source(3).await;
    let b = Server::start();
    let to = connect(&b).await;
    run(
        &from,
        &[
            "CREATE STABLE d.st (ts TIMESTAMP, c1 INT, c2 VARCHAR(8)) \
             TAGS (g INT, name NCHAR(16), big BIGINT UNSIGNED, x DOUBLE, b BOOL, bin VARBINARY(8), at TIMESTAMP)",
            "CREATE STABLE d.places (ts TIMESTAMP, v FLOAT) TAGS (spot GEOMETRY(64))",
            "CREATE STABLE d.loose (ts TIMESTAMP, v FLOAT) TAGS (j JSON)",
            r#"CREATE TABLE d.l1 USING d.loose TAGS ('{"k":"it''s \\\\ 1"}')"#,
            "CREATE TABLE d.p1 USING d.places TAGS ('POINT(1.5 2.5)')",
            r"CREATE TABLE d.a1 USING d.st TAGS (1, 'it''s \\ \x', 18446744073709551615, 0.1, true, '\x00FF', 17) d.a2 USING d.st (g) TAGS (2) d.a3 USING d.st TAGS (3, '', 1, -1e300, false, NULL, NULL)",
            "CREATE TABLE d.n (ts TIMESTAMP, v INT, w VARCHAR(4))",
            "CREATE TABLE d.gone (ts TIMESTAMP, v INT)",
        ],
    )
    .await;
    for n in 0..20 {
        for child in ["a1", "a2", "a3"] {
            query(&from, &row(child, n, &format!("{n}, 'r{n}'"))).await;
        }
        query(&from, &row("n", n, &format!("{n}, NULL"))).await;
        query(
            &from,
            &format!(
                "INSERT INTO d.auto{n} USING d.st (g, name) TAGS ({n}, 'auto') VALUES ({}, {n}, '')",
                START_MS * 1_000
            ),
        )
        .await;
    }
    replicate(&a, &b, &["--topic", "t"]);
    assert_equal(&from, &to).await;

    // A column left out keeps its value, one that is NULL loses it.
    let at = START_MS * 1_000;
    run(
        &from,
        &[
            &format!("INSERT INTO d.a1 (ts, c1) VALUES ({at}, 100)"),
            &format!("INSERT INTO d.a2 (ts, c1) VALUES ({at}, NULL)"),
            "ALTER STABLE d.st ADD COLUMN c3 BIGINT",
            "ALTER STABLE d.st MODIFY COLUMN c2 VARCHAR(32)",
            "ALTER STABLE d.st ADD TAG h VARCHAR(8)",
            "ALTER STABLE d.st RENAME TAG name label",
            "ALTER STABLE d.st DROP TAG x",
            "ALTER STABLE d.st MODIFY TAG h VARCHAR(20)",
            "ALTER TABLE d.a1 SET TAG h = 'h \\\\ \\'1\\''",
            "ALTER TABLE d.a2 SET TAG g = NULL",
            "ALTER TABLE d.a3 SET TAG g = -7, label = 'x', bin = '\\xDEAD'",
            "ALTER TABLE d.p1 SET TAG spot = 'LINESTRING(0 0, 1 1)'",
            "ALTER TABLE d.n ADD COLUMN u DOUBLE",
            "ALTER TABLE d.n RENAME COLUMN v vv",
            "ALTER TABLE d.n MODIFY COLUMN w VARCHAR(9)",
            "ALTER TABLE d.n DROP COLUMN w",
            &row("a1", 30, "1, 'a longer text than 8', 5"),
            "ALTER STABLE d.st DROP COLUMN c1",
            "ALTER STABLE d.st ADD COLUMN c1 DOUBLE",
            &row("a1", 31, "'again', 6, 0.5"),
            &row("n", 31, "1, 0.25"),
            "DROP TABLE d.gone",
            "DROP TABLE d.auto1, d.auto2",
            &format!("DELETE FROM d.a1 WHERE ts <= {}", at + 5_000),
            &format!("DELETE FROM d.st WHERE ts >= {} AND ts <= {}", at + 7_000, at + 8_000),
            &format!("DELETE FROM d.st WHERE g = 3 AND ts > {}", at + 15_000),
            &row("a2", 8, "'back', 7, 1.5"),
            "CREATE TABLE d.gone USING d.st (g) TAGS (99)",
            "DROP STABLE d.loose",
            "CREATE STABLE d.loose (ts TIMESTAMP, other INT) TAGS (g INT)",
            &format!("INSERT INTO d.l1 USING d.loose TAGS (5) VALUES ({at}, 5)"),
        ],
    )
    .await;
    replicate(&a, &b, &["--topic", "t"]);
    assert_equal(&from, &to).await;

    // And all of it at once, under another name, from the same log.
    replicate(&a, &b, &["--topic", "t", "--group", "other", "--into", "e"]);
    let (wanted, found) = (everything(&from, "d").await, everything(&to, "e").await);
    assert_eq!(found, wanted);
}

/// Changes whose order matters: of super tables, of rows, deletes, tables dropped and made again.
async fn change(connection: &Connection, random: &mut StdRng, step: i64) {
    let child = random.random_range(0..6);
    let at = (START_MS + random.random_range(0..50)) * 1_000;
    let sql = match random.random_range(0..12) {
        0 => format!("ALTER STABLE d.st ADD COLUMN x{step} INT"),
        1 => format!("ALTER STABLE d.st ADD TAG y{step} INT"),
        2 => format!("DROP TABLE IF EXISTS d.c{child}"),
        3 => format!("DELETE FROM d.st WHERE ts <= {at}"),
        4 => "DROP STABLE IF EXISTS d.other".to_owned(),
        5 => "CREATE STABLE IF NOT EXISTS d.other (ts TIMESTAMP, v INT) TAGS (g INT)".to_owned(),
        6 => format!("CREATE TABLE IF NOT EXISTS d.c{child} USING d.st (g) TAGS ({step})"),
        _ => format!(
            "INSERT INTO d.c{child} USING d.st (g) TAGS ({child}) (ts, v) VALUES ({at}, {step}) ({}, {step})",
            at + 1
        ),
    };
    query(connection, &sql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_may_be_killed_at_any_moment() {
    const SEED: u64 = 0x7e91;
    const STEPS: i64 = 40;
    let mut random = StdRng::seed_from_u64(SEED);
    let a = Server::start_on_held_clock();
    let from = connect(&a).await;
    query(&from, "CREATE DATABASE d VGROUPS 3 PRECISION 'us'").await;
    query(&from, "CREATE TOPIC t WITH META AS DATABASE d").await;
    query(&from, "CREATE STABLE d.st (ts TIMESTAMP, v INT) TAGS (g INT)").await;
    let b = Server::start();
    let to = connect(&b).await;
    query(&to, "CREATE DATABASE d VGROUPS 2 PRECISION 'us'").await;
    query(&to, "CREATE TOPIC seen WITH META AS DATABASE d").await;
    query(&from, "CREATE TABLE d.steps (ts TIMESTAMP, v INT)").await;
    let copied = async || match to.sql("SELECT count(*) FROM d.steps").await {
        Ok(rows) => rows.rows().await.ok().and_then(|rows| rows.iter().next()?.get::<i64>(0).ok()),
        Err(_) => None,
    };
    for round in 0..8 {
        for step in 0..STEPS {
            change(&from, &mut random, round * 100 + step).await;
            query(&from, &row("steps", round * 100 + step, "0")).await;
        }
        let child = spawn(&a, &b, &["--topic", "t"]);
        let kill_at = round * STEPS + random.random_range(1..STEPS);
        wait_for("the copy gets on", async || copied().await >= Some(kill_at)).await;
        end(child);
        // The group notices.
        a.advance(Duration::from_secs(13));
    }
    replicate(&a, &b, &["--topic", "t"]);
    assert_equal(&from, &to).await;
}

/// A crash between the commits of a change of a super table leaves one vgroup behind it and the other in front of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_made_and_half_committed_is_completed() {
    let (a, from) = source(2).await;
    let b = Server::start();
    let to = connect(&b).await;
    run(&from, &["CREATE STABLE d.st (ts TIMESTAMP, v INT) TAGS (g INT)"]).await;
    let insert = async |n: i64| {
        for c in 0..6 {
            let at = (START_MS + n) * 1_000;
            query(&from, &format!("INSERT INTO d.c{c} USING d.st (g) TAGS ({c}) (ts, v) VALUES ({at}, {n})"))
                .await;
        }
    };
    insert(1).await;
    replicate(&a, &b, &["--topic", "t"]);
    run(&from, &["ALTER STABLE d.st ADD COLUMN w INT"]).await;
    insert(2).await;
    run(&from, &["ALTER STABLE d.st DROP COLUMN v", "ALTER STABLE d.st ADD COLUMN v INT"]).await;
    insert(3).await;
    run(&to, &["ALTER STABLE d.st ADD COLUMN w INT"]).await;
    let parameters = [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    let consumer = crate::support::consumer(&from, "replicate", &parameters);
    consumer.subscribe(["t"]).await.expect("subscribe");
    let messages = crate::support::read_to_the_end(&consumer).await.expect("poll");
    let changes = messages.iter().filter(|m| m.json().is_some_and(|json| json.contains("\"colName\":\"w\"")));
    let changes: Vec<_> = changes.collect();
    assert_eq!(changes.len(), 2, "one a vgroup");
    for (change, behind) in changes.iter().zip([0, 1]) {
        let offset = change.last_version() + behind;
        consumer.commit_offset_sync("t", change.vgroup(), offset).await.expect("committed");
    }
    consumer.close().await.expect("closed");
    let mut child = command(&a, &b, &["--topic", "t", "--until-end"]).spawn().expect("the command starts");
    wait_for("it ends", || std::future::ready(child.try_wait().expect("looked").is_some())).await;
    assert!(child.wait().expect("ended").success());
    assert_equal(&from, &to).await;
}

/// Records in the logs of a server's database, by the ends of a consumer that has read them.
async fn records(connection: &Connection) -> i64 {
    let consumer = crate::support::consumer(
        connection,
        "looking",
        &[("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")],
    );
    consumer.subscribe(["t"]).await.expect("subscribe");
    let messages = crate::support::read_to_the_end(&consumer).await.expect("poll");
    consumer.close().await.expect("closed");
    messages.iter().map(|message| message.row_versions().count().max(1) as i64).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_that_replicate_to_each_other_do_not_go_round_in_circles() {
    let (a, at_a) = source(2).await;
    let (b, at_b) = source(3).await;
    let one = spawn(&a, &b, &["--topic", "t", "--group", "to_b"]);
    let other = spawn(&b, &a, &["--topic", "t", "--group", "to_a"]);
    run(
        &at_a,
        &["CREATE STABLE d.st (ts TIMESTAMP, v INT) TAGS (g INT)", "CREATE TABLE d.x USING d.st TAGS (1)"],
    )
    .await;
    let has = async |connection: &Connection, wanted: &str| {
        query(connection, "SELECT table_name FROM information_schema.ins_tables WHERE db_name = 'd'")
            .await
            .iter()
            .any(|row| row.get::<String>(0).is_ok_and(|name| name == wanted))
    };
    wait_for("the table is at b", async || has(&at_b, "x").await).await;
    run(
        &at_b,
        &[
            "CREATE TABLE d.n (ts TIMESTAMP, v INT)",
            "ALTER STABLE d.st ADD COLUMN w INT",
            "ALTER TABLE d.x SET TAG g = 2",
        ],
    )
    .await;
    for n in 0..10 {
        query(&at_a, &format!("INSERT INTO d.x (ts, v) VALUES ({}, {n})", (START_MS + n) * 1_000)).await;
    }
    for n in 0..10 {
        query(&at_b, &row("n", n, &format!("{n}"))).await;
        query(
            &at_b,
            &format!("INSERT INTO d.y USING d.st TAGS (3) (ts, v) VALUES ({}, {n})", (START_MS + n) * 1_000),
        )
        .await;
    }
    query(&at_b, &format!("DELETE FROM d.n WHERE ts = {}", START_MS * 1_000)).await;
    query(&at_b, "CREATE TABLE d.done (ts TIMESTAMP, v INT)").await;
    query(&at_a, "CREATE TABLE d.done_too (ts TIMESTAMP, v INT)").await;
    wait_for("both have all", async || {
        has(&at_a, "done").await
            && has(&at_b, "done_too").await
            && everything(&at_a, "d").await == everything(&at_b, "d").await
    })
    .await;
    assert_equal(&at_a, &at_b).await;
    // What each log holds beyond its own and one copy of the other's would be a circle.
    let (before_a, before_b) = (records(&at_a).await, records(&at_b).await);
    query(&at_a, &row("x", 99, "99, 99")).await;
    wait_for("the row is at b", async || number(&at_b, "SELECT count(*) FROM d.x").await == 11).await;
    query(&at_b, &row("n", 99, "99")).await;
    wait_for("the row is at a", async || number(&at_a, "SELECT count(*) FROM d.n").await == 10).await;
    assert_eq!((records(&at_a).await, records(&at_b).await), (before_a + 2, before_b + 2));
    end(one);
    end(other);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_calls_are_told() {
    let (a, from) = source(1).await;
    let b = Server::start();
    let to = connect(&b).await;
    run(
        &from,
        &[
            "CREATE TABLE d.n (ts TIMESTAMP, v INT)",
            "CREATE TOPIC q AS SELECT * FROM d.n",
            "CREATE TOPIC bare AS DATABASE d",
        ],
    )
    .await;
    run(
        &to,
        &[
            "CREATE DATABASE ms PRECISION 'ms'",
            "CREATE DATABASE d PRECISION 'us'",
            "CREATE TABLE d.n (ts TIMESTAMP, other INT)",
        ],
    )
    .await;
    let refused = |to: &Server, args: &[&str]| {
        let output = command(&a, to, args).arg("--until-end").output().expect("the command runs");
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output));
        text(&output)
    };
    let told = refused(&b, &["--topic", "nope"]);
    assert!(told.contains("error[0x03e1]"), "{told}");
    for topic in ["q", "bare"] {
        let told = refused(&b, &["--topic", topic]);
        assert!(told.contains("WITH META AS DATABASE d"), "{told}");
    }
    assert!(refused(&a, &["--topic", "t"]).contains("into itself"));
    assert!(refused(&b, &["--topic", "t", "--into", "ms"]).contains("precision"));
    let told = refused(&b, &["--topic", "t"]);
    assert!(told.contains("error[0x0603]") && told.contains("other columns"), "{told}");
    assert!(refused(&b, &["--topic", "t", "--to-password", "wrong"]).contains("error[0x0357]"));
}
