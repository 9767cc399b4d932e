//! Columns instead of SQL text: many children, row by row and by whole arrays.
//!
//! Needs a server (`tidemark serve`); `TIDEMARK_HOST` names another than the local one. The integration tests run
//! [`run`] against an embedded server.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int32Array, TimestampMillisecondArray};
use client::{ConnectOptions, Connection, Result, Value};

#[tokio::main]
#[allow(dead_code, reason = "the tests call `run`")]
async fn main() -> Result<()> {
    let mut options = ConnectOptions::default();
    if let Ok(host) = std::env::var("TIDEMARK_HOST") {
        options.host = host;
    }
    run(options).await
}

const START_MS: i64 = 1_700_000_000_000;

/// The example.
///
/// # Errors
/// What the server says.
pub async fn run(options: ConnectOptions) -> Result<()> {
    let connection = Connection::connect(options).await?;
    connection.sql("DROP DATABASE IF EXISTS writer_example").await?;
    connection.sql("CREATE DATABASE writer_example VGROUPS 2").await?;
    connection
        .sql("CREATE STABLE writer_example.meters (ts TIMESTAMP, amps FLOAT, volts INT) TAGS (n INT, site VARCHAR(16))")
        .await?;
    let writer = connection.writer("writer_example", "meters").await?;

    // Values one by one; children that are missing are created with their tags.
    let mut batch = writer.batch()?;
    for n in 0..10 {
        let meter = batch.child(&format!("d{n}"), &[Value::Int(n), Value::Text("north".into())])?;
        batch.push(meter, &[Value::Timestamp(START_MS), Value::Double(10.3), Value::Int(220)])?;
    }
    writer.write(batch).await?;

    // Whole Arrow arrays of one child.
    let mut batch = writer.batch()?;
    let meter = batch.table("d0")?;
    let columns: [ArrayRef; 3] = [
        Arc::new(TimestampMillisecondArray::from_iter_values((1..=1_000).map(|n| START_MS + n))),
        Arc::new(Float32Array::from(vec![11.5; 1_000])),
        Arc::new(Int32Array::from_iter_values(0..1_000)),
    ];
    batch.push_arrays(meter, &columns)?;
    writer.write(batch).await?;

    // Only some columns: the others keep the value they had.
    let mut batch = writer.batch_of(&["ts", "volts"])?;
    let meter = batch.table("d1")?;
    batch.push(meter, &[Value::Timestamp(START_MS), Value::Int(231)])?;
    writer.write(batch).await?;

    // Nothing is promised before flush has answered.
    println!("{} rows written", writer.flush().await?);

    let rows = connection.sql("SELECT count(*) FROM writer_example.meters").await?.rows().await?;
    assert_eq!(rows.iter().next().map(|row| row.get::<i64>(0)).transpose()?, Some(1_010));
    let rows = connection.sql("SELECT amps, volts FROM writer_example.d1").await?.rows().await?;
    for row in &rows {
        assert_eq!((row.get::<f32>(0)?, row.get::<i32>(1)?), (10.3, 231));
    }
    connection.sql("DROP DATABASE writer_example").await?;
    Ok(())
}
