//! Rust SDK of Tidemark: a [`Connection`] runs SQL, a [`Writer`] sends columns, a [`Consumer`] reads topics.
//!
//! Results and messages are Arrow record batches. Nothing of the server's query engine or of its replication shows here.
//!
//! It is *not* for: interpreting SQL (the server does), keeping data, or deciding who reads which vgroup (the group's
//! coordinator does).
//!
//! ```no_run
//! use client::{ConnectOptions, Connection};
//!
//! # #[tokio::main]
//! # async fn main() -> client::Result<()> {
//! let connection = Connection::connect(ConnectOptions::default()).await?;
//! connection.sql("CREATE DATABASE power VGROUPS 4").await?;
//! connection.sql("CREATE TABLE power.d1 (ts TIMESTAMP, current FLOAT)").await?;
//! connection.sql("INSERT INTO power.d1 VALUES (now, 10.3)").await?;
//! for row in &connection.sql("SELECT count(*) FROM power.d1").await?.rows().await? {
//!     println!("{} rows", row.get::<i64>(0)?);
//! }
//! # Ok(())
//! # }
//! ```

mod connection;
mod consumer;
mod decode;
mod retry;
mod row;
mod sql;
mod writer;

pub use connection::{ConnectOptions, Connection};
#[doc(hidden)]
pub use consumer::sim;
pub use consumer::{
    AutoOffsetReset, Block, CommitCallback, ConfigError, Consumer, ConsumerConfig, ConsumerState, Membership,
    Message, MessageKind, Messages, OfflineVgroup, Skipped, VgroupAssignment,
};
pub use decode::Column;
pub use model::{Code, DataType, Error, Precision, Result, TimeUnit, Value};
pub use retry::RetryPolicy;
pub use row::{FromValue, Row, Rows, value_at};
pub use sql::{QueryResult, Summary};
pub use writer::{Batch, ColumnBuilder, Table, Target, Writer, WriterOptions};
