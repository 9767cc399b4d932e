//! Where a group goes on: after commits, without them, by its policy, and after the server was killed in between.

use std::time::Duration;

use client::{Code, Connection, Consumer, Message};

use crate::support::{Server, connect, consumer, drain, query, refusal, wait_for};

const QUIET: Duration = Duration::from_secs(1);

async fn start() -> (Server, Connection) {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.n").await;
    (server, connection)
}

async fn write(connection: &Connection, values: std::ops::Range<i64>) {
    for v in values {
        query(connection, &format!("INSERT INTO d.n VALUES ({}, {v})", 1_700_000_000_000 + v)).await;
    }
}

/// A consumer that gets a message for each write and commits by hand.
async fn subscribed(connection: &Connection, group: &str, reset: &str) -> Consumer {
    let parameters = [("auto.offset.reset", reset), ("enable.auto.commit", "false"), ("min.poll.rows", "1")];
    let consumer = consumer(connection, group, &parameters);
    consumer.subscribe(["t"]).await.expect("subscribe");
    consumer
}

fn values(messages: &[Message]) -> Vec<i64> {
    messages.iter().flat_map(Message::rows).map(|row| row.get(1).expect("v")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_goes_on_after_its_last_commit() {
    let (_server, connection) = start().await;
    write(&connection, 0..6).await;
    let first = subscribed(&connection, "g", "earliest").await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let message = first.poll(QUIET).await.expect("poll").expect("a message");
        seen.extend(values(std::slice::from_ref(&message)));
        first.commit_sync(&message).await.expect("commit");
    }
    first.close().await.expect("close");
    assert_eq!(seen, [0, 1, 2]);

    let second = subscribed(&connection, "g", "earliest").await;
    let rest = drain(&second, QUIET).await;
    assert_eq!(values(&rest), [3, 4, 5], "goes on with the record after the commit");
    second.close().await.expect("close");

    let third = subscribed(&connection, "g", "latest").await;
    assert_eq!(values(&drain(&third, QUIET).await), [3, 4, 5], "uncommitted work comes again");
    third.close().await.expect("close");

    let other = subscribed(&connection, "other", "earliest").await;
    assert_eq!(values(&drain(&other, QUIET).await), [0, 1, 2, 3, 4, 5], "groups are independent");
    other.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_count_while_there_is_no_commit() {
    let (_server, connection) = start().await;
    write(&connection, 0..3).await;
    let latest = subscribed(&connection, "late", "latest").await;
    assert_eq!(values(&drain(&latest, QUIET).await), [0; 0]);
    write(&connection, 3..5).await;
    assert_eq!(values(&drain(&latest, QUIET).await), [3, 4]);

    let none = subscribed(&connection, "none", "none").await;
    assert_eq!(refusal(&none, QUIET).await.code(), Code::NoCommittedOffset, "no offset to go on from");
    latest.close().await.expect("close");
    none.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_and_seek() {
    let (_server, connection) = start().await;
    write(&connection, 0..4).await;
    let consumer = subscribed(&connection, "g", "earliest").await;
    assert_eq!(consumer.position("t", 99).expect_err("not assigned").code(), Code::VgroupNotAssigned);
    let assigned = consumer.assignment("t").await.expect("assignment");
    let vgroup = assigned[0].vgroup;
    assert_eq!(consumer.committed("t", vgroup).await.expect_err("nothing yet").code(), Code::NoCommitted);
    let messages = drain(&consumer, QUIET).await;
    assert_eq!(values(&messages), [0, 1, 2, 3]);
    let second = messages.iter().find(|m| values(std::slice::from_ref(m)).contains(&1)).expect("row 1");
    consumer.seek("t", vgroup, second.begin()).expect("seek");
    assert_eq!(consumer.position("t", vgroup).expect("position"), second.begin());
    assert_eq!(values(&drain(&consumer, QUIET).await), [1, 2, 3]);
    let end = consumer.assignment("t").await.expect("assignment")[0].end;
    assert_eq!(consumer.seek("t", vgroup, end + 1).expect_err("beyond").code(), Code::OffsetOutOfRange);
    assert_eq!(consumer.seek("u", vgroup, 1).expect_err("topic").code(), Code::TopicNotAssigned);
    consumer.commit_all_sync().await.expect("commit");
    let position = consumer.position("t", vgroup).expect("position");
    assert_eq!(consumer.committed("t", vgroup).await.expect("committed"), position);
    consumer.close().await.expect("close");
    assert_eq!(consumer.poll(QUIET).await.expect_err("closed").code(), Code::ConsumerClosed);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_delivery_and_commit() {
    let (mut server, connection) = start().await;
    write(&connection, 0..4).await;
    let consumer = subscribed(&connection, "g", "earliest").await;
    let first = consumer.poll(QUIET).await.expect("poll").expect("a message");
    consumer.commit_sync(&first).await.expect("commit");
    let delivered = drain(&consumer, QUIET).await;
    assert_eq!(values(&delivered), [1, 2, 3]);
    drop(consumer);
    server.kill();
    server.start_again();

    let connection = connect(&server).await;
    wait_for("the dead consumer is gone", || async { query(&connection, "SHOW CONSUMERS").await.is_empty() })
        .await;
    let consumer = subscribed(&connection, "g", "earliest").await;
    assert_eq!(
        values(&drain(&consumer, QUIET).await),
        [1, 2, 3],
        "from the commit, which the kill did not take"
    );
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn seeking_again_and_again_does_not_use_up_the_flow() {
    let (_server, connection) = start().await;
    write(&connection, 0..40).await;
    let consumer = subscribed(&connection, "g", "earliest").await;
    let first = consumer.poll(QUIET).await.expect("poll").expect("a message");
    // Each seek stops a reader in the middle of what it sends.
    for _ in 0..200 {
        consumer.seek("t", first.vgroup(), first.next()).expect("seek");
        let message = consumer.poll(QUIET).await.expect("poll").expect("a message");
        assert_eq!(values(&[message]), [1]);
    }
    consumer.close().await.expect("close");
}
