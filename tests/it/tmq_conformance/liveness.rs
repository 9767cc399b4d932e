//! Consumers that die, hang or come back, on a clock that the test moves: a check of consumers every 2 s of it.

use std::process::{Command, Stdio};
use std::time::Duration;

use client::Code;
use proto::v1;

use super::{all, column, prepared, subscribed};
use crate::support::{ByHand, Server, patient, query, refusal, shares, wait_for};

const TICK: Duration = Duration::from_secs(2);

/// How many vgroups each owner has, fewest first.
async fn sizes(connection: &client::Connection) -> Vec<usize> {
    super::sorted(shares(connection, "g").await.values().map(Vec::len).collect())
}

async fn consumers(connection: &client::Connection) -> usize {
    query(connection, "SHOW CONSUMERS").await.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_33_the_vgroups_of_a_killed_process_move_when_its_session_ends() {
    let server = Server::start_on_held_clock();
    let connection = prepared(&server, "VGROUPS 4").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let mut stays = ByHand::log_in(&server, 1, "g").await;
    stays.subscribe(&["t"]).await.expect("subscribed");
    let kept = stays.assigned(4).await;
    let mut process = Command::new(env!("CARGO_BIN_EXE_tidemark"))
        .args(["subscribe", "t", "-g", "g", "-h", server.address()])
        .args(["--set", "session.timeout.ms=12000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a consumer process");
    wait_for("two each", || async { sizes(&connection).await == [2, 2] }).await;
    process.kill().expect("kill");
    process.wait().expect("wait");
    // Its last heartbeat was before the first check that it misses.
    for missed in 1..6 {
        server.advance(TICK);
        assert_eq!(sizes(&connection).await, [2, 2], "{missed} checks");
    }
    server.advance(TICK);
    wait_for("all four with the one that lives", || async { sizes(&connection).await == [4] }).await;
    assert_eq!(consumers(&connection).await, 2, "listed until the next check");
    server.advance(TICK);
    assert_eq!(consumers(&connection).await, 1);
    let now = stays.assigned(4).await;
    assert_eq!(now.iter().filter(|(vgroup, held)| kept[vgroup] == **held).count(), 2, "what it had, it has");
    // Whoever comes in its place has its share.
    stays.beside(2, "g").subscribe(&["t"]).await.expect("subscribed");
    wait_for("two each again", || async { sizes(&connection).await == [2, 2] }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_34_who_does_not_poll_is_removed_though_its_heart_beats() {
    let server = Server::start_on_held_clock();
    let connection = prepared(&server, "VGROUPS 2").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let mut polls = ByHand::log_in(&server, 1, "g").await;
    let mut hangs = polls.beside(2, "g");
    let short = v1::ConsumerParameters { max_poll_interval_ms: 20_000, ..patient() };
    polls.subscribe_with(&["t"], short).await.expect("subscribed");
    hangs.subscribe_with(&["t"], short).await.expect("subscribed");
    wait_for("one each", || async { sizes(&connection).await == [1, 1] }).await;
    for check in 1..=10 {
        assert_eq!(sizes(&connection).await, [1, 1], "before check {check}");
        polls.beat(true).await.expect("a member");
        hangs.beat(false).await.expect("still a member");
        server.advance(TICK);
    }
    wait_for("both with the one that polls", || async { sizes(&connection).await == [2] }).await;
    assert_eq!(hangs.beat(true).await, Err(Code::ConsumerNotExist));
    polls.beat(true).await.expect("a member");
    server.advance(TICK);
    assert_eq!(consumers(&connection).await, 1);
}

/// Of the client's keys: `s15_35_s15_36_ranges_are_those_of_the_keys`. This is the server's own check.
#[tokio::test(flavor = "multi_thread")]
async fn s15_35_the_server_checks_timeouts_too() {
    let server = Server::start_on_held_clock();
    let connection = prepared(&server, "VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let mut member = ByHand::log_in(&server, 1, "g").await;
    for (session_timeout_ms, accepted) in
        [(5_999, false), (6_000, true), (1_800_000, true), (1_800_001, false)]
    {
        let parameters = v1::ConsumerParameters { session_timeout_ms, ..patient() };
        let subscribed = member.subscribe_with(&["t"], parameters).await;
        assert_eq!(subscribed.is_ok(), accepted, "{session_timeout_ms}: {subscribed:?}");
    }
    for (max_poll_interval_ms, accepted) in [(999, false), (1_000, true)] {
        let parameters = v1::ConsumerParameters { max_poll_interval_ms, ..patient() };
        let subscribed = member.subscribe_with(&["t"], parameters).await;
        assert_eq!(subscribed.is_ok(), accepted, "{max_poll_interval_ms}: {subscribed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_37_a_removed_consumer_subscribes_again_and_goes_on() {
    let server = Server::start_on_held_clock();
    let connection = prepared(&server, "VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.n").await;
    for v in 0..3 {
        query(&connection, &format!("INSERT INTO d.n VALUES ({}, {v}, 'x')", super::START_MS + v)).await;
    }
    let consumer = subscribed(&connection, "g", &["t"], &[("min.poll.rows", "1")]).await;
    let messages = all(&consumer).await;
    assert_eq!(column::<i64>(&messages, "c1"), [0, 1, 2]);
    consumer.commit_sync(&messages[0]).await.expect("commit");
    // Checks come faster than its heart beats.
    wait_for("it is removed", || async {
        server.advance(4 * TICK);
        consumers(&connection).await == 0
    })
    .await;
    let told = refusal(&consumer, Duration::from_secs(10)).await;
    assert_eq!(told.code().number(), 0x03E6);
    assert_eq!(refusal(&consumer, Duration::ZERO).await.code().number(), 0x03E6, "until it subscribes again");
    consumer.unsubscribe().await.expect("unsubscribe");
    consumer.subscribe(["t"]).await.expect("subscribe");
    assert_eq!(column::<i64>(&all(&consumer).await, "c1"), [1, 2], "from the committed offset");
    consumer.close().await.expect("close");
}
