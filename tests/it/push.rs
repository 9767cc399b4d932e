//! A waiting consumer is woken by the write, not by a timer.

use std::time::Duration;

use crate::support::{PATIENCE, Server, connect, consumer, query};

#[tokio::test(flavor = "multi_thread")]
async fn a_row_reaches_a_waiting_poll() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    let kinds = [("q", "SELECT ts, v FROM d.s"), ("s", "STABLE d.s"), ("b", "DATABASE d")];
    for (topic, source) in kinds {
        query(&connection, &format!("CREATE TOPIC {topic} AS {source}")).await;
        // A fetch may rest as long as it likes: nothing but the write ends it.
        let config = [("auto.offset.reset", "latest"), ("fetch.max.wait.ms", "60000")];
        let consumer = consumer(&connection, topic, &config);
        consumer.subscribe([topic]).await.expect("subscribe");
        assert!(consumer.poll(Duration::from_millis(500)).await.expect("poll").is_none());
        let writer = connect(&server).await;
        for v in 0..20 {
            let waiting = consumer.poll(PATIENCE);
            let sql = format!("INSERT INTO d.c{} USING d.s TAGS ({v}) VALUES (now, {v})", v % 5);
            let (message, _) = tokio::join!(waiting, query(&writer, &sql));
            let message = message.expect("poll").expect("the row");
            let at = message.blocks()[0].columns().iter().position(|c| c.name == "v").expect("v");
            assert_eq!(
                message.rows().map(|row| row.get::<i64>(at).expect("v")).collect::<Vec<_>>(),
                [v],
                "{topic}"
            );
        }
        consumer.close().await.expect("close");
    }
}
