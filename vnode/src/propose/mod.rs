//! What may enter the log: one proposer per shard. It checks a request against the applied state and against its own
//! proposals in flight, fixes what must be the same on every replica (table ids, schema version, receive time), and
//! queues the record. Applying can then be total.
//!
//! Writes and commits are pipelined: the lock is held from the check to the place in the order, not to the answer. Of
//! what they change, only the children made on the way matter to a later check, and the `overlay` keeps those until
//! they are applied. Everything else (DDL, owners, topics) is rare and waits until nothing is in flight, so that the
//! applied state is all there is to check against.

pub(crate) mod control;
pub(crate) mod ddl;
pub(crate) mod delete;
mod overlay;
mod request;
mod rows;
mod shell;
mod tags;
pub(crate) mod write;

use std::sync::Arc;

use model::{Code, DatabaseInfo, Error, Origin, Precision, Result, TableUid, VgroupId};
use raft::Proposal;
use wal::{Kind, SchemaBlock};

use crate::record::{REPLICATED, RecordError};

pub(crate) use delete::DeletePlan;
pub(crate) use overlay::Overlay;
pub use request::{
    CommitRequest, CreateTable, CreateTableKind, DeleteOutcome, DeleteRequest, DeleteTarget, DropTable,
    OwnerChange, StableDdl, TableChange, TableDdl, TopicDdl, WriteOutcome, WriteRequest,
};
pub(crate) use rows::ticks;
pub(crate) use shell::{Flight, Proposer};

/// What checks depend on beside the state: nothing of it changes while one request is checked.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// This shard.
    pub(crate) vgroup: VgroupId,
    /// Its database, with the options in force.
    pub(crate) database: Arc<DatabaseInfo>,
    /// Receive time: now, and never below that of the request before.
    pub(crate) now_ns: i64,
}

impl Context {
    pub(crate) fn precision(&self) -> Precision {
        self.database.options.precision
    }

    /// Whether a table of this name lives in this shard. One that does not would never be found again.
    pub(crate) fn is_placed_here(&self, name: &str) -> bool {
        let slot = model::vgroup_slot(name, self.database.vgroups.len());
        slot.and_then(|slot| self.database.vgroups.get(slot)) == Some(&self.vgroup)
    }

    /// The uid that goes with a number of this shard.
    pub(crate) fn uid(&self, counter: u64) -> Result<TableUid> {
        TableUid::issued(self.vgroup.0, counter)
            .ok_or_else(|| model::Error::internal("table numbers are used up"))
    }
}

/// A record that has passed its checks.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) body: bytes::Bytes,
    pub(crate) schemas: Vec<SchemaBlock>,
}

impl Checked {
    pub(crate) fn new(kind: Kind, body: Result<bytes::Bytes, RecordError>) -> Result<Self> {
        Ok(Self { kind, flags: 0, body: body?, schemas: Vec::new() })
    }

    /// Marked as what replication brought, where it did.
    pub(crate) fn brought_by(self, origin: Origin) -> Self {
        Self { flags: if origin.is_replication() { REPLICATED } else { 0 }, ..self }
    }

    pub(crate) fn proposal(self, time_ns: i64) -> Proposal {
        Proposal { kind: self.kind, flags: self.flags, time_ns, body: self.body, schemas: self.schemas }
    }
}

/// A super table that the caller still knew and this shard does not: dropped in between.
pub(crate) fn no_stable(stable: TableUid) -> Error {
    Error::with(Code::StableNotExist, format_args!("uid={stable}, dropped in the meantime"))
}
