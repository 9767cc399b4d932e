//! A topic, a consumer group, commits, and a second look from the start.
//!
//! Needs a server (`tidemark serve`); `TIDEMARK_HOST` names another than the local one. The integration tests run
//! [`run`] against an embedded server.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use client::{AutoOffsetReset, ConnectOptions, Connection, ConsumerConfig, Result};
use futures::StreamExt as _;

#[tokio::main]
#[allow(dead_code, reason = "the tests call `run`")]
async fn main() -> Result<()> {
    let mut options = ConnectOptions::default();
    if let Ok(host) = std::env::var("TIDEMARK_HOST") {
        options.host = host;
    }
    run(options).await
}

/// The example.
///
/// # Errors
/// What the server says.
pub async fn run(options: ConnectOptions) -> Result<()> {
    let connection = Connection::connect(options).await?;
    connection.sql("DROP TOPIC IF EXISTS consumer_example").await?;
    connection.sql("DROP DATABASE IF EXISTS consumer_example").await?;
    connection.sql("CREATE DATABASE consumer_example VGROUPS 2").await?;
    connection.sql("CREATE STABLE consumer_example.meters (ts TIMESTAMP, volts INT) TAGS (n INT)").await?;
    connection
        .sql("CREATE TOPIC consumer_example AS SELECT tbname, ts, volts FROM consumer_example.meters WHERE volts > 215")
        .await?;
    for n in 0..4 {
        let (table, volts) = (format!("consumer_example.d{n}"), 210 + n * 4);
        connection
            .sql(&format!(
                "INSERT INTO {table} USING consumer_example.meters TAGS ({n}) VALUES (now, {volts})"
            ))
            .await?;
    }

    let mut config = ConsumerConfig::new("readers");
    config.auto_offset_reset = AutoOffsetReset::Earliest;
    config.enable_auto_commit = false;
    let consumer = connection.consumer(config)?;
    consumer.subscribe(["consumer_example"]).await?;

    // Poll, work, commit: what was not committed is delivered again after a crash.
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let Some(message) = consumer.poll(Duration::from_secs(10)).await? else { break };
        for row in message.rows() {
            seen.push((row.by_name::<String>("tbname")?, row.by_name::<i32>("volts")?));
        }
        consumer.commit_sync(&message).await?;
    }
    seen.sort();
    assert_eq!(seen, [("d2".to_owned(), 218), ("d3".to_owned(), 222)]);

    // Back to the start of every vgroup. Nothing is committed by it.
    for at in consumer.assignment("consumer_example").await? {
        println!("vgroup {}: read up to {} of {}", at.vgroup, at.current, at.end);
        consumer.seek("consumer_example", at.vgroup, at.begin)?;
    }

    // The same as a stream.
    let mut again = 0;
    let mut messages = consumer.stream();
    while again < 2 {
        let Some(message) = messages.next().await.transpose()? else { break };
        again += message.rows_len();
    }
    assert_eq!(again, 2);
    drop(messages);

    // Leaving is what tells the group at once; merely dropping the consumer is as good as a crash.
    consumer.close().await?;
    connection.sql("DROP TOPIC consumer_example").await?;
    connection.sql("DROP DATABASE consumer_example").await?;
    Ok(())
}
