//! Tidemark's only door to openraft: one Raft group over one write-ahead log.
//!
//! Both the vnode and the mnode are state machines over the records of a [`wal`] log. A [`Group`] gives either of them
//! a log that is agreed upon: it owns the log's writer, orders [`Proposal`]s, hands every committed record to the
//! [`StateMachine`], and says what an answer rests on ([`Fsync`]). A log version *is* the Raft index.
//!
//! What this crate is not for: it knows no tables, no topics and no SQL, makes no snapshots (a snapshot is a checkpoint
//! of the state machine, which writes it), and decides no retention (it is told). No type of openraft appears in a
//! public signature, so that replacing it is one crate's work.
//!
//! A group has one voter today. What several need (a network, moving a checkpoint) fails with "not supported" rather
//! than being half there.
//!
//! Inside, from the top: `group` (the public face) and `upkeep` (its log's owner) > `core` (one life of an openraft core, and the next after a storage
//! error) > `log_store`, `machine`, `network` (what openraft asks for) > `format` (bytes on disk). `syncer` is beside
//! them: one fsync for all who wait.

mod checkpoint;
mod core;
mod entry;
mod error;
mod floor;
mod format;
mod group;
mod log_store;
mod machine;
mod network;
mod options;
mod proposal;
mod shared;
mod syncer;
mod types;
mod upkeep;

#[cfg(test)]
mod tests;

pub use checkpoint::{Checkpoint, LogPosition};
pub use floor::{floor_next, verify_files};
pub use group::{Group, Pending, Positions};
pub use options::{Fsync, GroupOptions};
pub use proposal::{Proposal, StateMachine};
pub use wal::Version;
