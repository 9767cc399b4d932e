//! Connect, create, insert, query.
//!
//! Needs a server (`tidemark serve`); `TIDEMARK_HOST` names another than the local one. The integration tests run
//! [`run`] against an embedded server.
#![allow(clippy::print_stdout, reason = "an example talks")]

use client::{ConnectOptions, Connection, Result};

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
    connection.sql("DROP DATABASE IF EXISTS quickstart").await?;
    connection.sql("CREATE DATABASE quickstart VGROUPS 2").await?;
    connection.sql("USE quickstart").await?;
    connection
        .sql("CREATE STABLE meters (ts TIMESTAMP, amps FLOAT, volts INT) TAGS (site VARCHAR(16))")
        .await?;
    let written = connection
        .sql(
            "INSERT INTO d1 USING meters TAGS ('north') VALUES (now, 10.3, 219) (now + 1s, 12.6, 218) \
             d2 USING meters TAGS ('south') VALUES (now, 11.8, 221)",
        )
        .await?;
    assert_eq!(written.affected_rows(), 3);

    // Rows as columns, batch by batch, while the server still reads ...
    let mut result = connection.sql("SELECT ts, volts FROM meters ORDER BY volts").await?;
    while let Some(batch) = result.next_batch().await? {
        println!("{} rows in one batch", batch.num_rows());
    }
    println!("{:?}", result.summary());

    // ... or row by row.
    let rows =
        connection.sql("SELECT site, count(*), max(volts) FROM meters GROUP BY site ORDER BY site").await?;
    let rows = rows.rows().await?;
    for row in &rows {
        let (site, count, volts) = (row.get::<String>(0)?, row.get::<i64>(1)?, row.get::<i32>(2)?);
        println!("{site}: {count} rows, at most {volts} V");
    }
    assert_eq!(rows.len(), 2);
    connection.sql("DROP DATABASE quickstart").await?;
    Ok(())
}
