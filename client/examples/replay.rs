//! A topic read with the gaps of the original writes.
//!
//! Needs a server (`tidemark serve`); `TIDEMARK_HOST` names another than the local one. The integration tests run
//! [`run`] against an embedded server.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::time::Duration;

use client::{AutoOffsetReset, ConnectOptions, Connection, ConsumerConfig, Result};

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
    connection.sql("DROP TOPIC IF EXISTS replay_example").await?;
    connection.sql("DROP DATABASE IF EXISTS replay_example").await?;
    connection.sql("CREATE DATABASE replay_example VGROUPS 1").await?;
    connection.sql("CREATE TABLE replay_example.door (ts TIMESTAMP, opened BOOL)").await?;
    connection.sql("CREATE TOPIC replay_example AS SELECT * FROM replay_example.door").await?;
    for opened in [true, false] {
        connection.sql(&format!("INSERT INTO replay_example.door VALUES (now, {opened})")).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    let mut config = ConsumerConfig::new("watchers").with("enable.replay", "true")?;
    config.auto_offset_reset = AutoOffsetReset::Earliest;
    let consumer = connection.consumer(config)?;
    consumer.subscribe(["replay_example"]).await?;
    let mut arrived = Vec::new();
    while arrived.len() < 2 {
        if let Some(message) = consumer.poll(Duration::from_secs(10)).await? {
            arrived.push((tokio::time::Instant::now(), message.written_ns()));
        }
    }
    if let [(first, first_ns), (second, second_ns)] = arrived[..] {
        let written = Duration::from_nanos(second_ns.abs_diff(first_ns));
        println!("written {written:?} apart, delivered {:?} apart", second - first);
        assert!((second - first).abs_diff(written) < Duration::from_millis(100));
    }
    consumer.close().await?;
    connection.sql("DROP TOPIC replay_example").await?;
    connection.sql("DROP DATABASE replay_example").await?;
    Ok(())
}
