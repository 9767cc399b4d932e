//! Cases from the field, of subscriptions: members that come and go, offsets, tables that go. Each test carries the case's
//! id; what takes minutes there runs on a clock that the test moves, or on fewer rows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use client::{Connection, Consumer, Message, Value};

use crate::support::one_table::{START_MS, reading, values, write};
use crate::support::{
    PATIENCE, Server, connect, consumer, drain, query, read_to_the_end, refusal, sql_refusal, wait_for,
};

const QUIET: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_secs(2);
const CHILDREN: i64 = 10;

/// One vgroup, the table of [`crate::support::one_table`], a topic.
async fn one_table(server: &Server) -> Connection {
    let connection = connect(server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.n").await;
    connection
}

/// A super table over `vgroups`, and a topic.
async fn children(server: &Server, vgroups: u32) -> Connection {
    let connection = connect(server).await;
    query(&connection, &format!("CREATE DATABASE d VGROUPS {vgroups}")).await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v BIGINT) TAGS (n INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.s").await;
    connection
}

/// One statement with the rows `values`, spread over the children.
async fn spread(connection: &Connection, values: std::ops::Range<i64>) {
    let row = |v: i64| {
        let child = v % CHILDREN;
        format!("d.c{child} USING d.s TAGS ({child}) VALUES ({}, {v})", START_MS + v)
    };
    query(connection, &format!("INSERT INTO {}", values.map(row).collect::<Vec<_>>().join(" "))).await;
}

async fn consumers(connection: &Connection) -> usize {
    query(connection, "SHOW CONSUMERS").await.len()
}

/// Polls until so many rows are there.
async fn rows(consumer: &Consumer, count: usize) -> Vec<i64> {
    let mut found = Vec::new();
    while found.len() < count {
        let message = consumer.poll(PATIENCE).await.expect("poll").expect("a message");
        found.extend(values(&[message]));
    }
    found
}

/// C008: what a killed member had read and not committed comes to the other; what that one commits comes to nobody.
#[tokio::test(flavor = "multi_thread")]
async fn c008_uncommitted_work_of_a_killed_member_comes_once_more() {
    let server = Server::start_on_held_clock();
    let connection = children(&server, 2).await;
    let member = async |session_ms: &str| {
        let parameters = [
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
            ("session.timeout.ms", session_ms),
        ];
        let consumer = consumer(&connection, "g", &parameters);
        consumer.subscribe(["t"]).await.expect("subscribe");
        consumer
    };
    let a = member("6000").await;
    let b = member("1800000").await;
    spread(&connection, 0..CHILDREN).await;
    let ours = |message: &Message| values(std::slice::from_ref(message));
    let (of_a, of_b) = (drain(&a, QUIET).await, drain(&b, QUIET).await);
    let (of_a, of_b): (Vec<i64>, Vec<i64>) =
        (of_a.iter().flat_map(ours).collect(), of_b.iter().flat_map(ours).collect());
    assert!(!of_a.is_empty() && !of_b.is_empty(), "a row in each vgroup: {of_a:?} {of_b:?}");
    drop(a);
    wait_for("the killed one is gone", || async {
        server.advance(TICK);
        consumers(&connection).await == 1
    })
    .await;
    let mut again = rows(&b, of_a.len()).await;
    again.sort_unstable();
    let mut wanted = of_a;
    wanted.sort_unstable();
    assert_eq!(again, wanted);
    b.commit_all_sync().await.expect("commit");
    b.close().await.expect("close");
    let a = member("6000").await;
    assert_eq!(values(&read_to_the_end(&a).await.expect("poll")), [0; 0], "all of it was committed");
    a.close().await.expect("close");
}

/// C014: restarts without news deliver nothing, with commits by hand and by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn c014_restarts_deliver_what_is_new_and_nothing_twice() {
    let server = Server::start();
    let connection = one_table(&server).await;
    write(&connection, 1..3).await;
    for (group, automatic) in [("by hand", "false"), ("automatic", "true")] {
        let start = async || {
            let parameters = [("auto.offset.reset", "earliest"), ("enable.auto.commit", automatic)];
            let consumer = consumer(&connection, group, &parameters);
            consumer.subscribe(["t"]).await.expect("subscribe");
            consumer
        };
        let first = start().await;
        let all = (1..connection_rows(&connection).await + 1).collect::<Vec<_>>();
        assert_eq!(rows(&first, all.len()).await, all);
        first.commit_all_sync().await.expect("commit");
        first.close().await.expect("close");
        for restart in 0..3 {
            let again = start().await;
            assert_eq!(values(&read_to_the_end(&again).await.expect("poll")), [0; 0], "restart {restart}");
            again.close().await.expect("close");
        }
        let next = i64::try_from(all.len()).expect("few") + 1;
        write(&connection, next..next + 2).await;
        let last = start().await;
        assert_eq!(values(&read_to_the_end(&last).await.expect("poll")), [next, next + 1], "{group}");
        last.close().await.expect("close");
    }
}

async fn connection_rows(connection: &Connection) -> i64 {
    crate::support::number(connection, "SELECT COUNT(*) FROM d.n").await
}

/// C026: a loop that ends at the first empty poll has all rows by then. 25 runs: a topic has a hundred groups at most, and
/// each run is one.
#[tokio::test(flavor = "multi_thread")]
async fn c026_a_poll_is_empty_only_where_nothing_is_left() {
    let server = Server::start();
    let connection = children(&server, 4).await;
    spread(&connection, 0..240).await;
    for run in 0..25 {
        let consumer = reading(&connection, &format!("g{run}"), "earliest").await;
        let mut found = BTreeSet::new();
        // The time given is for a busy machine; what counts is that rows there are never make an empty poll.
        while found.len() < 240 {
            let message = consumer.poll(Duration::from_secs(10)).await.expect("poll");
            let message = message.unwrap_or_else(|| panic!("run {run}: empty after {}", found.len()));
            found.extend(values(&[message]));
        }
        consumer.close().await.expect("close");
    }
}

/// C028: a member that has not polled for too long is told so at its next poll, until it subscribes again.
#[tokio::test(flavor = "multi_thread")]
async fn c028_who_did_not_poll_is_told_and_may_come_back() {
    let server = Server::start_on_held_clock();
    let connection = one_table(&server).await;
    write(&connection, 0..2).await;
    let parameters = [
        ("auto.offset.reset", "earliest"),
        ("session.timeout.ms", "1800000"),
        ("max.poll.interval.ms", "5000"),
    ];
    let job = consumer(&connection, "job", &parameters);
    job.subscribe(["t"]).await.expect("subscribe");
    wait_for("it is removed", || async {
        server.advance(TICK);
        consumers(&connection).await == 0
    })
    .await;
    for _ in 0..3 {
        let told = refusal(&job, QUIET).await;
        assert_eq!(told.code().number(), 0x03E6);
        let text = told.to_string();
        assert!(text.contains("group=job") && text.contains("max.poll.interval.ms=5000"), "{text}");
        assert!(text.contains("subscribe again"), "{text}");
    }
    job.subscribe(["t"]).await.expect("subscribe");
    assert_eq!(rows(&job, 2).await, [0, 1]);
    job.close().await.expect("close");
}

/// C030: a time is the same instant in SELECT, in the SDK's messages and in the command's JSON, with the digits of its
/// database.
#[tokio::test(flavor = "multi_thread")]
async fn c030_times_keep_their_precision() {
    let server = Server::start();
    let connection = connect(&server).await;
    for (precision, ticks, shown) in [
        ("ms", 1_709_251_199_123_i64, "2024-02-29T23:59:59.123Z"),
        ("us", 1_709_251_199_123_456, "2024-02-29T23:59:59.123456Z"),
        ("ns", 1_709_251_199_123_456_789, "2024-02-29T23:59:59.123456789Z"),
    ] {
        let database = format!("d{precision}");
        for statement in [
            format!("CREATE DATABASE {database} VGROUPS 1 PRECISION '{precision}'"),
            format!("CREATE TABLE {database}.n (ts TIMESTAMP, v INT)"),
            format!("CREATE TOPIC {database} AS SELECT * FROM {database}.n"),
            format!("INSERT INTO {database}.n VALUES ({ticks}, 1)"),
        ] {
            query(&connection, &statement).await;
        }
        let selected = query(&connection, &format!("SELECT ts FROM {database}.n")).await;
        let selected: Value = selected.iter().next().expect("a row").value(0);
        assert_eq!(selected, Value::Timestamp(ticks), "{precision}");
        let consumer = consumer(&connection, "sdk", &[("auto.offset.reset", "earliest")]);
        consumer.subscribe([database.as_str()]).await.expect("subscribe");
        let message = consumer.poll(PATIENCE).await.expect("poll").expect("a message");
        assert_eq!(message.rows().next().expect("a row").value(0), selected, "{precision}");
        assert_eq!(message.precision().to_string(), precision);
        consumer.close().await.expect("close");
        let args = [database.as_str(), "-g", "cli", "--from", "earliest", "--limit", "1"];
        let printed = String::from_utf8(server.run("subscribe", &args).stdout).expect("UTF-8");
        let told = server.run("sql", &["-o", "json", "-s", &format!("SELECT ts FROM {database}.n")]);
        let told = String::from_utf8(told.stdout).expect("UTF-8");
        let wanted = format!("\"ts\":\"{shown}\"");
        assert!(printed.contains(&wanted) && told.contains(&wanted), "{precision}: {printed} {told}");
    }
}

/// C032: a slow consumer that was away gets all of what was written meanwhile, in order and before what is new. Rows
/// for what 25 s, 70 s and 140 s would bring: the time itself changes nothing, so it is not waited for.
#[tokio::test(flavor = "multi_thread")]
async fn c032_who_was_away_reads_on_in_order() {
    let server = Server::start();
    let connection = children(&server, 2).await;
    let mut written = 0;
    let mut last: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for away in [25, 70, 140] {
        for v in written..written + away {
            spread(&connection, v..v + 1).await;
        }
        written += away;
        let parameters =
            [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false"), ("min.poll.rows", "5")];
        let slow = consumer(&connection, "g", &parameters);
        slow.subscribe(["t"]).await.expect("subscribe");
        let mut fresh = written;
        while i64::try_from(seen.len()).expect("few") < written + away {
            // Writers go on while it catches up.
            if fresh < written + away {
                spread(&connection, fresh..fresh + 1).await;
                fresh += 1;
            }
            let message = slow.poll(PATIENCE).await.expect("poll").expect("a message");
            let (version, v) = last.entry(message.vgroup()).or_insert((-1, -1));
            assert!(message.begin() >= *version, "{message:?} comes after {version}");
            for row in values(std::slice::from_ref(&message)) {
                assert!(row > *v, "{row} after {v}: what was written first comes first");
                *v = row;
                assert!(seen.insert(row), "{row} twice");
            }
            *version = message.next();
            slow.commit_sync(&message).await.expect("commit");
            let committed = slow.committed("t", message.vgroup()).await.expect("committed");
            assert_eq!(committed, message.next(), "never past what was delivered");
        }
        written += away;
        slow.close().await.expect("close");
    }
    assert_eq!(seen, (0..written).collect());
}

/// C034: single rows while six consumers wait, three on each of two connections. 25 rounds for 1,000; a wake-up that is
/// lost would leave a poll waiting for ever, because nothing but a write ends it.
#[tokio::test(flavor = "multi_thread")]
async fn c034_no_wake_up_is_lost_between_two_polls() {
    const ROWS: usize = 25 * 12;
    let server = Server::start();
    let connection = one_table(&server).await;
    let other = connect(&server).await;
    let mut reading = Vec::new();
    for n in 0..6 {
        let topic = format!("t{n}");
        query(&connection, &format!("CREATE TOPIC {topic} AS SELECT ts, v FROM d.n")).await;
        let parameters = [("auto.offset.reset", "earliest"), ("fetch.max.wait.ms", "600000")];
        let consumer = consumer(if n % 2 == 0 { &connection } else { &other }, &topic, &parameters);
        consumer.subscribe([topic]).await.expect("subscribe");
        reading.push(tokio::spawn(async move {
            let found = rows(&consumer, ROWS).await;
            consumer.close().await.expect("close");
            found
        }));
    }
    let all: Vec<i64> = (0..).take(ROWS).collect();
    for v in &all {
        write(&connection, *v..*v + 1).await;
    }
    for found in reading {
        assert_eq!(found.await.expect("it ends"), all);
    }
}

/// C036: a delete is a record that readers pass over.
#[tokio::test(flavor = "multi_thread")]
async fn c036_a_delete_does_not_spoil_the_position() {
    let server = Server::start();
    let connection = one_table(&server).await;
    write(&connection, 0..20).await;
    let first = reading(&connection, "g", "earliest").await;
    assert_eq!(rows(&first, 20).await, (0..20).collect::<Vec<_>>());
    first.commit_all_sync().await.expect("commit");
    query(&connection, "DELETE FROM d.n").await;
    write(&connection, 0..5).await;
    write(&connection, 100..105).await;
    let wanted: Vec<i64> = (0..5).chain(100..105).collect();
    assert_eq!(values(&read_to_the_end(&first).await.expect("poll")), wanted);
    first.close().await.expect("close");
    let second = reading(&connection, "g", "earliest").await;
    assert_eq!(values(&read_to_the_end(&second).await.expect("poll")), wanted, "behind the commit");
    second.close().await.expect("close");
}

/// C042: subscribing and unsubscribing over and over is no rebalance, and a name given twice is one.
#[tokio::test(flavor = "multi_thread")]
async fn c042_the_same_list_again_changes_nothing() {
    let server = Server::start();
    let connection = one_table(&server).await;
    write(&connection, 0..6).await;
    let consumer = consumer(&connection, "g", &[("auto.offset.reset", "earliest")]);
    let rebalanced = async || {
        let rows = query(&connection, "SHOW CONSUMERS").await;
        let times = rows.iter().map(|row| row.by_name::<Value>("rebalance_time").expect("a time"));
        times.collect::<Vec<_>>()
    };
    consumer.unsubscribe().await.expect("unsubscribe");
    consumer.unsubscribe().await.expect("unsubscribe");
    consumer.subscribe(["t"]).await.expect("subscribe");
    let once = rebalanced().await;
    assert_eq!(once.len(), 1);
    consumer.subscribe(["t"]).await.expect("subscribe");
    consumer.subscribe(["t", "t"]).await.expect("subscribe");
    assert_eq!(rebalanced().await, once, "the list is what it was");
    assert_eq!(rows(&consumer, 6).await, (0..6).collect::<Vec<_>>());
    assert_eq!(values(&read_to_the_end(&consumer).await.expect("poll")), [0; 0], "each once");
    consumer.close().await.expect("close");
}

/// A cell of a topic's row in the list of topics.
async fn note(connection: &Connection, topic: &str) -> Option<String> {
    let sql = format!("SELECT note FROM information_schema.ins_topics WHERE topic_name = '{topic}'");
    query(connection, &sql).await.iter().next().expect("the topic").get(0).expect("a note")
}

async fn lags(connection: &Connection, group: &str) -> Vec<Option<i64>> {
    let rows = query(connection, "SHOW SUBSCRIPTIONS").await;
    let of_group = |row: &client::Row<'_>| row.by_name::<String>("consumer_group").expect("a group") == group;
    rows.iter().filter(of_group).map(|row| row.by_name("lag").expect("lag")).collect()
}

/// C040: the source of a topic goes. Of a stable topic it may not; of a query topic it may, and everybody who looks is
/// told that nothing more comes.
#[tokio::test(flavor = "multi_thread")]
async fn c040_who_reads_a_dropped_table_is_told() {
    let server = Server::start();
    let connection = children(&server, 2).await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v BIGINT)").await;
    spread(&connection, 0..CHILDREN).await;
    for (topic, source) in
        [("meters", "STABLE d.s"), ("child", "SELECT ts, v FROM d.c0"), ("plain", "SELECT ts, v FROM d.n")]
    {
        query(&connection, &format!("CREATE TOPIC {topic} AS {source}")).await;
    }
    let start = async |topic: &str| {
        let consumer = consumer(&connection, topic, &[("auto.offset.reset", "earliest")]);
        consumer.subscribe([topic]).await.expect("subscribe");
        consumer
    };
    let (of_child, of_plain, other) = (start("child").await, start("plain").await, start("t").await);
    assert_eq!(rows(&of_child, 1).await, [0]);
    rows(&other, CHILDREN as usize).await;
    let refused = server.sql_error("DROP STABLE d.s");
    assert!(refused.contains("error[0x03ed]") && refused.contains("meters"), "named: {refused}");
    assert_eq!(sql_refusal(&connection, "DROP STABLE d.s").await.map(|code| code.number()), Some(0x03ED));
    assert_eq!((note(&connection, "child").await, note(&connection, "plain").await), (None, None));
    query(&connection, "DROP TABLE d.c0").await;
    query(&connection, "DROP TABLE d.n").await;
    for (consumer, topic) in [(&of_child, "child"), (&of_plain, "plain")] {
        wait_for("it is told", || async {
            assert!(consumer.poll(Duration::from_millis(50)).await.expect("no error").is_none());
            consumer.membership().topics_without_table.contains(topic)
        })
        .await;
        assert!(note(&connection, topic).await.is_some_and(|note| note.contains("dropped")), "{topic}");
    }
    assert_eq!(note(&connection, "t").await, None);
    // What others write is nothing that these wait for.
    for round in 1..4 {
        spread(&connection, CHILDREN * round + 1..CHILDREN * (round + 1)).await;
    }
    assert_eq!(rows(&other, 27).await.len(), 27, "not disturbed");
    assert!(other.membership().topics_without_table.is_empty());
    wait_for("positions are reported", || async {
        lags(&connection, "plain").await.iter().chain(&lags(&connection, "child").await).all(Option::is_some)
    })
    .await;
    assert_eq!(lags(&connection, "child").await, [Some(0), Some(0)]);
    assert_eq!(lags(&connection, "plain").await, [Some(0), Some(0)]);
    for consumer in [of_child, of_plain, other] {
        consumer.close().await.expect("close");
    }
    let said = server.run("subscribe", &["child", "-g", "late", "--from", "earliest", "--timeout", "2s"]);
    let said = String::from_utf8(said.stderr).expect("UTF-8");
    assert_eq!(said.matches("topic child: the table that it reads was dropped").count(), 1, "{said}");
}

/// Whoever is removed by force is told by what, of which topic and group.
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_drop_is_told_by_name() {
    let server = Server::start();
    let connection = one_table(&server).await;
    query(&connection, "CREATE TOPIC u AS SELECT ts, v FROM d.n").await;
    for (topic, statement, cause) in [
        ("u", "DROP TOPIC FORCE u", "DROP TOPIC FORCE topic=u group=of_u"),
        ("t", "DROP CONSUMER GROUP FORCE of_t ON t", "DROP CONSUMER GROUP FORCE topic=t group=of_t"),
    ] {
        let consumer = consumer(&connection, &format!("of_{topic}"), &[("auto.offset.reset", "earliest")]);
        consumer.subscribe([topic]).await.expect("subscribe");
        read_to_the_end(&consumer).await.expect("poll");
        query(&connection, statement).await;
        let told = refusal(&consumer, QUIET).await;
        assert_eq!(told.code().number(), 0x03E6);
        assert!(told.message().contains(cause), "{told}");
        assert!(told.help().contains("subscribe"), "{}", told.help());
        consumer.close().await.expect("close");
    }
}

/// An error of a vgroup says whose it is.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_vgroups_name_topic_group_and_vgroup() {
    let server = Server::start();
    let connection = one_table(&server).await;
    let none = reading(&connection, "g", "none").await;
    let told = refusal(&none, QUIET).await;
    let vgroup = none.assignment("t").await.expect("assignment")[0].vgroup;
    assert_eq!(told.code().number(), 0x0A0D);
    assert!(told.message().ends_with(&format!(": topic=t group=g vgroup={vgroup}")), "{told}");
    none.close().await.expect("close");
    let output = server.run("subscribe", &["t", "-g", "g", "--from", "none", "--timeout", "5s"]);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("error[0x0a0d]") && said.contains(&format!("topic=t group=g vgroup={vgroup}")),
        "{said}"
    );
}
