//! Replay: the gaps between the original writes come back, on a clock that the test moves.

use std::time::Duration;

use client::{Code, Consumer, Message};

use super::{column, prepared, run};
use crate::support::{Server, consumer, query};

const MINUTE: Duration = Duration::from_secs(60);

async fn next(consumer: &Consumer) -> Message {
    consumer.poll(crate::support::PATIENCE).await.expect("poll").expect("a message")
}

/// A minute for each second of the specification's example, so that no machine is slow enough to get there by itself.
#[tokio::test(flavor = "multi_thread")]
async fn s15_72_writes_come_back_with_their_gaps() {
    let server = Server::start_on_held_clock();
    let connection = prepared(&server, "VGROUPS 1").await;
    // Checks of consumers do not matter here: none is due in these minutes.
    query(&connection, "ALTER ALL DNODES 'mqRebalanceInterval' '10000'").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st WHERE c1 >= 0").await;
    query(&connection, "CREATE TABLE d.w USING d.st TAGS (1, 'w')").await;
    for (v, minutes) in [(0, 0), (1, 5), (-1, 1), (2, 2)] {
        server.advance(minutes * MINUTE);
        query(&connection, &format!("INSERT INTO d.w VALUES ({}, {v}, 'x')", super::START_MS + v)).await;
    }
    let consumer =
        consumer(&connection, "g", &[("enable.replay", "true"), ("auto.offset.reset", "earliest")]);
    consumer.subscribe(["t"]).await.expect("subscribe");
    let mut messages = vec![next(&consumer).await];
    for minutes in [5, 3] {
        assert!(consumer.poll(Duration::from_millis(100)).await.expect("poll").is_none(), "not yet");
        server.advance((minutes - 1) * MINUTE);
        assert!(consumer.poll(Duration::from_millis(100)).await.expect("poll").is_none(), "a minute early");
        server.advance(MINUTE);
        messages.push(next(&consumer).await);
    }
    assert_eq!(column::<i64>(&messages, "c1"), [0, 1, 2], "one write a message, whatever min.poll.rows says");
    let gaps = messages.windows(2).map(|pair| pair[1].written_ns() - pair[0].written_ns());
    let minutes: Vec<_> = gaps.map(|gap| gap as u128 / MINUTE.as_nanos()).collect();
    assert_eq!(minutes, [5, 3]);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_73_what_cannot_be_replayed_is_refused() {
    let server = Server::start();
    let connection = prepared(&server, "VGROUPS 2").await;
    run(
        &connection,
        &[
            "CREATE TOPIC whole AS DATABASE d",
            "CREATE TOPIC of_stable AS STABLE d.st",
            "CREATE TOPIC wide AS SELECT ts, c1 FROM d.st",
            "CREATE TOPIC of_child AS SELECT ts, c1 FROM d.c",
        ],
    )
    .await;
    let consumer = consumer(&connection, "g", &[("enable.replay", "true")]);
    for (topic, refused) in
        [("whole", Code::ReplayKind), ("of_stable", Code::ReplayKind), ("wide", Code::ReplayVgroups)]
    {
        assert_eq!(consumer.subscribe([topic]).await.expect_err(topic).code(), refused);
    }
    consumer.subscribe(["of_child"]).await.expect("a child table lies in one vgroup");
    consumer.close().await.expect("close");
}
