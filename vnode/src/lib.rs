//! One shard of a database: a Raft group over its log, the state that the log makes (tables, tags, rows, committed
//! offsets, owners), Parquet files, scans, and the reader that serves subscriptions.
//!
//! Not for: the catalogue, placement, or deciding who owns what (that is the mnode's), nor for SQL.
//!
//! [`Vnode`] is the shard: open it, write, scan (it is a [`query::source::Shard`]), subscribe, close. Inside, each layer
//! knows those before it: `block` and [`record`] (what lies in the log) > `store` (rows: memtable and files) > `state`
//! (what the log amounts to; deterministic) > `checkpoint` (the state on disk), [`propose`] (what may enter the log) and
//! [`subscribe`] (what consumers read) > `vnode`. `docs/positions.md` names every position.

pub mod block;
mod checkpoint;
mod compaction;
mod keep;
mod maintenance;
pub mod propose;
pub mod record;
mod scan;
#[doc(hidden)]
pub mod sim;
pub mod state;
pub mod store;
pub mod subscribe;
mod verify;
mod vnode;

pub use keep::KeepVersion;
pub use propose::{
    CommitRequest, CreateTable, CreateTableKind, DeleteOutcome, DeleteRequest, DeleteTarget, DropTable,
    OwnerChange, StableDdl, TableChange, TableDdl, TopicDdl, WriteOutcome, WriteRequest,
};
pub use verify::{FileReport, verify_files};
pub use vnode::{GroupOffsets, PendingWrite, Vnode, VnodeCounts, VnodeOptions, VnodePositions};

#[cfg(test)]
mod tests;
