//! Rows that are gone although a memtable or a file still holds them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{TableUid, Version};
use query::source::TimeRange;

use super::file::DataFile;
use super::manifest::{DeleteScope, Tombstone};
use super::rows::Segment;

/// All deletions of a vnode. Shared with readers, copied when it changes under them.
#[derive(Clone, Debug, Default)]
pub(super) struct Deletions {
    /// DELETE statements in log order.
    pub(super) tombstones: Vec<Tombstone>,
    /// Dropped tables by owner, with the version that dropped them. Uids are never reused: all their rows are gone.
    pub(super) dropped: BTreeMap<TableUid, Arc<BTreeMap<TableUid, Version>>>,
    /// Dropped super and normal tables whose rows a memtable may still hold.
    pub(super) dropped_owners: BTreeMap<TableUid, Version>,
}

impl Deletions {
    /// Forgets what no file needs and no memtable, as all of their rows came after version `since`.
    pub(super) fn prune(&mut self, since: Version, files: &[Arc<DataFile>]) {
        let metas = || files.iter().map(|file| &file.meta);
        self.tombstones.retain(|t| t.version > since || metas().any(|meta| t.concerns(meta)));
        self.dropped_owners.retain(|_, version| *version > since);
        for (owner, tables) in &mut self.dropped {
            let held = |table: TableUid| {
                metas()
                    .any(|meta| meta.owner == *owner && meta.first_table <= table && table <= meta.last_table)
            };
            if tables.iter().any(|(table, version)| *version <= since && !held(*table)) {
                Arc::make_mut(tables).retain(|table, version| *version > since || held(*table));
            }
        }
        self.dropped.retain(|_, tables| !tables.is_empty());
    }

    /// What concerns one owner within a time range.
    pub(super) fn of(&self, owner: TableUid, time: TimeRange) -> OwnerDeletions {
        let mut found = OwnerDeletions::default();
        for tombstone in self.tombstones.iter().filter(|t| t.owner == owner) {
            let range =
                TimeRange { first: tombstone.first_tick, last_inclusive: tombstone.last_tick_inclusive }
                    .intersect(time);
            if range.is_empty() {
                continue;
            }
            let cut = Cut { version: tombstone.version, range };
            found.newest = found.newest.max(tombstone.version);
            match &tombstone.scope {
                DeleteScope::All => found.all.push(cut),
                DeleteScope::Tables(tables) => {
                    for table in tables.iter() {
                        found.by_table.entry(*table).or_default().push(cut);
                    }
                }
            }
        }
        found.dropped = self.dropped.get(&owner).cloned().unwrap_or_default();
        found
    }
}

/// A range that hides what is older than `version`.
#[derive(Clone, Copy, Debug)]
struct Cut {
    version: Version,
    range: TimeRange,
}

/// Deletions of one owner, made ready for lookups by table.
#[derive(Debug, Default)]
pub(super) struct OwnerDeletions {
    all: Vec<Cut>,
    by_table: HashMap<TableUid, Vec<Cut>>,
    dropped: Arc<BTreeMap<TableUid, Version>>,
    newest: Version,
}

impl OwnerDeletions {
    /// Whether the table is gone altogether.
    pub(super) fn is_dropped(&self, table: TableUid) -> bool {
        self.dropped.contains_key(&table)
    }

    /// Whether no range is hidden in rows that reflect the log up to `version`.
    pub(super) fn none_after(&self, version: Version) -> bool {
        self.newest <= version
    }

    /// Pushes what remains of `segment`, whose rows came with (or reflect the log up to) `version`.
    pub(super) fn cut(&self, table: TableUid, version: Version, segment: Segment, into: &mut Vec<Segment>) {
        if self.none_after(version) {
            into.push(segment);
            return;
        }
        let mut hidden: Vec<TimeRange> = self
            .all
            .iter()
            .chain(self.by_table.get(&table).into_iter().flatten())
            .filter(|cut| cut.version > version)
            .map(|cut| cut.range)
            .collect();
        hidden.sort_by_key(|range| range.first);
        let mut rest = Some(segment);
        for range in hidden {
            let Some(segment) = rest.take() else { return };
            if range.first > i64::MIN {
                into.extend(segment.clone().clip(i64::MIN, range.first - 1));
            }
            if range.last_inclusive < i64::MAX {
                rest = segment.clip(range.last_inclusive + 1, i64::MAX);
            }
        }
        into.extend(rest);
    }
}
