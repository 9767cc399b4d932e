//! One shard of a database: a Raft group over its log, the state that the log makes (tables, tags, rows, committed
//! offsets, owners), Parquet files, scans, and the reader that serves subscriptions.
//!
//! Not for: the catalogue, placement, or deciding who owns what (that is the mnode's), nor for SQL.

pub mod block;
