//! A table `d.n (ts, v)` behind a topic `t`: rows numbered by `v`, and those who read them.

use client::{Connection, Consumer, Message};

use super::{consumer, query};

/// Instant of the row 0.
pub const START_MS: i64 = 1_700_000_000_000;

/// Writes a row a statement.
pub async fn write(connection: &Connection, values: std::ops::Range<i64>) {
    for v in values {
        query(connection, &format!("INSERT INTO d.n VALUES ({}, {v})", START_MS + v)).await;
    }
}

/// A consumer that gets a message for each write and commits by hand.
pub async fn reading(connection: &Connection, group: &str, reset: &str) -> Consumer {
    let parameters = [("auto.offset.reset", reset), ("enable.auto.commit", "false"), ("min.poll.rows", "1")];
    let consumer = consumer(connection, group, &parameters);
    consumer.subscribe(["t"]).await.expect("subscribe");
    consumer
}

pub fn values(messages: &[Message]) -> Vec<i64> {
    messages.iter().flat_map(Message::rows).map(|row| row.get(1).expect("v")).collect()
}
