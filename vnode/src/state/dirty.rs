//! What changed since the last checkpoint, so that a checkpoint of a million tables writes only those few.

use std::collections::BTreeSet;

use model::{SchemaVersion, TableUid, TopicId};

use super::{GroupKey, VnodeState};

/// Keys of what changed; whether it still exists is looked up when it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) tables: BTreeSet<TableUid>,
    pub(crate) stables: BTreeSet<TableUid>,
    pub(crate) schemas: BTreeSet<(TableUid, SchemaVersion)>,
    /// Owners whose entry and schemas are forgotten.
    pub(crate) gone: BTreeSet<TableUid>,
    pub(crate) groups: BTreeSet<GroupKey>,
    pub(crate) topics: BTreeSet<TopicId>,
}

impl Dirty {
    pub(super) fn table(&mut self, uid: TableUid) {
        self.tables.insert(uid);
    }

    pub(super) fn stable(&mut self, uid: TableUid) {
        self.stables.insert(uid);
    }

    pub(super) fn schema(&mut self, owner: TableUid, version: SchemaVersion) {
        self.schemas.insert((owner, version));
    }

    pub(super) fn owner_gone(&mut self, uid: TableUid) {
        self.gone.insert(uid);
    }
}

impl VnodeState {
    /// Takes the keys of what changed since this was called last. If the checkpoint is then not stored, give them back
    /// with [`still_dirty`](Self::still_dirty).
    pub(crate) fn take_dirty(&mut self) -> Dirty {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.groups = std::mem::take(&mut self.groups.dirty);
        dirty.topics = std::mem::take(&mut self.topics.dirty);
        dirty
    }

    /// These were not stored after all.
    pub(crate) fn still_dirty(&mut self, dirty: Dirty) {
        self.dirty.tables.extend(dirty.tables);
        self.dirty.stables.extend(dirty.stables);
        self.dirty.schemas.extend(dirty.schemas);
        self.dirty.gone.extend(dirty.gone);
        self.groups.dirty.extend(dirty.groups);
        self.topics.dirty.extend(dirty.topics);
    }
}
