//! openraft's types, filled in. The aliases are what the rest of the crate says.

use model::Version;
use openraft::impls::{EmptyNode, TokioRuntime};

use crate::entry::{Answer, Command, Entry};

/// Everything openraft wants to know at compile time.
///
/// The runtime is tokio's as it comes: openraft 0.9 takes chance from its runtime in one place only, the election
/// timeout, and `core` leaves it a range of one value there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeConfig;

impl openraft::RaftTypeConfig for TypeConfig {
    type D = Command;
    type R = ();
    type NodeId = u64;
    type Node = EmptyNode;
    type Entry = Entry;
    type SnapshotData = Marker;
    type AsyncRuntime = TokioRuntime;
    type Responder = Answer;
}

/// Stands for a checkpoint that the state machine has stored. It carries nothing: moving a checkpoint to another node
/// comes with replicas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker;

pub(crate) type Raft = openraft::Raft<TypeConfig>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type Membership = openraft::Membership<u64, EmptyNode>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, EmptyNode>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, EmptyNode>;
pub(crate) type Snapshot = openraft::Snapshot<TypeConfig>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type StorageIOError = openraft::StorageIOError<u64>;

/// The id of the record at `version` that a leader of `term` proposed.
pub(crate) fn log_id(version: Version, term: u64) -> LogId {
    LogId::new(openraft::CommittedLeaderId::new(term, 0), version.get())
}
