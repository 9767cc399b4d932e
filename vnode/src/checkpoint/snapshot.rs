//! What one checkpoint writes: the header, and of everything else what changed since the one before.

use std::sync::Arc;

use model::{SchemaVersion, TableSchema, TableUid, TopicId, Version, VgroupId};
use serde::{Deserialize, Serialize};

use crate::keep::KeepVersion;
use crate::record::TopicDefinition;
use crate::state::{Dirty, GroupKey, GroupState, StableEntry, TableEntry, VnodeState};
use crate::store::Manifest;

/// Small and written with every checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Whose it is: a file copied from elsewhere is refused.
    pub(crate) vgroup: VgroupId,
    /// Where the replay begins.
    pub(crate) raft: raft::Checkpoint,
    /// Data files.
    pub(crate) manifest: Manifest,
    /// Receive time of the last record.
    pub(crate) received_ns: i64,
    /// Number that the next table gets.
    pub(crate) next_table: u64,
}

/// Places in the log, as they were when the checkpoint was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    /// Version after the last record of a kind that topics show.
    pub(crate) shown_end: Version,
    /// From where on the log survives retention.
    pub(crate) keep: Option<KeepVersion>,
}

/// Entries by key; `None` for one that is gone.
type Changes<K, V> = Vec<(K, Option<V>)>;

/// What changed.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// `None` leaves those of the checkpoint before.
    pub(crate) marks: Option<Marks>,
    pub(crate) tables: Changes<TableUid, TableEntry>,
    pub(crate) stables: Changes<TableUid, StableEntry>,
    pub(crate) schemas: Changes<(TableUid, SchemaVersion), Arc<TableSchema>>,
    /// Owners of which no schema is kept.
    pub(crate) gone: Vec<TableUid>,
    pub(crate) groups: Changes<GroupKey, GroupState>,
    pub(crate) topics: Changes<TopicId, Arc<TopicDefinition>>,
}

impl Snapshot {
    /// What `dirty` names, as it is now.
    pub(crate) fn of(state: &VnodeState, dirty: &Dirty) -> Self {
        let schema = |key: &(TableUid, SchemaVersion)| (*key, state.stables.schema(key.0, key.1).cloned());
        let group = |key: &GroupKey| (key.clone(), state.groups.get(key.0, &key.1).cloned());
        Self {
            marks: Some(Marks { shown_end: state.shown_end(), keep: state.keep_version() }),
            tables: dirty.tables.iter().map(|uid| (*uid, state.tables.entry(*uid).cloned())).collect(),
            stables: dirty.stables.iter().map(|uid| (*uid, state.stables.entry(*uid).cloned())).collect(),
            schemas: dirty.schemas.iter().map(schema).collect(),
            gone: dirty.gone.iter().copied().collect(),
            groups: dirty.groups.iter().map(group).collect(),
            topics: dirty.topics.iter().map(|id| (*id, state.topics.get(*id).cloned())).collect(),
        }
    }
}
