//! Replay: the gaps between the original writes come back.

use std::time::{Duration, Instant};

use client::Code;

use crate::support::{Server, connect, consumer, query};

#[tokio::test(flavor = "multi_thread")]
async fn writes_come_back_with_their_gaps() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.n WHERE v >= 0").await;
    // 5 s and 3 s, scaled down.
    for (v, pause_ms) in [(0, 0), (1, 500), (-1, 100), (2, 200)] {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        query(&connection, &format!("INSERT INTO d.n VALUES (now, {v})")).await;
    }
    let consumer =
        consumer(&connection, "g", &[("enable.replay", "true"), ("auto.offset.reset", "earliest")]);
    consumer.subscribe(["t"]).await.expect("subscribe");
    let mut arrivals = Vec::new();
    let mut written = Vec::new();
    for v in 0..3 {
        let message = consumer.poll(Duration::from_secs(20)).await.expect("poll").expect("a message");
        let values: Vec<i64> = message.rows().map(|row| row.get(1).expect("v")).collect();
        assert_eq!(values, [v], "one write a message, whatever min.poll.rows says");
        arrivals.push(Instant::now());
        written.push(message.written_ns());
    }
    for (arrived, written) in arrivals.windows(2).zip(written.windows(2)) {
        let (gap, meant) = (arrived[1] - arrived[0], Duration::from_nanos((written[1] - written[0]) as u64));
        // Never early; how late is the machine's affair and measured elsewhere.
        assert!(gap + Duration::from_millis(60) >= meant, "{gap:?} for {meant:?}");
    }
    assert!(written[1] - written[0] >= 500_000_000 && written[2] - written[1] >= 300_000_000);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_replayed_is_refused() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    query(&connection, "CREATE TOPIC whole AS DATABASE d").await;
    query(&connection, "CREATE TOPIC wide AS SELECT ts, v FROM d.s").await;
    let consumer = consumer(&connection, "g", &[("enable.replay", "true")]);
    assert_eq!(consumer.subscribe(["whole"]).await.expect_err("database").code(), Code::ReplayKind);
    assert_eq!(consumer.subscribe(["wide"]).await.expect_err("two vgroups").code(), Code::ReplayVgroups);
    consumer.close().await.expect("close");
}
