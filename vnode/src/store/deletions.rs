//! Rows that are gone although a memtable or a file still holds them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{TableUid, Version};
use query::source::TimeRange;

use super::file::DataFile;
use super::manifest::{DeleteScope, FileMeta, Tombstone};
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
            let needed = |table: TableUid, version: Version| {
                version > since || metas().any(|meta| may_hold(meta, *owner, table, version))
            };
            if tables.iter().any(|(table, version)| !needed(*table, *version)) {
                Arc::make_mut(tables).retain(|table, version| needed(*table, *version));
            }
        }
        self.dropped.retain(|_, tables| !tables.is_empty());
    }

    /// Those up to a version.
    pub(super) fn until(&self, version: Version) -> Self {
        let dropped = self.dropped.iter().map(|(owner, tables)| {
            let before = tables.iter().filter(|(_, at)| **at <= version).map(|(table, at)| (*table, *at));
            (*owner, Arc::new(before.collect()))
        });
        Self {
            tombstones: self.tombstones.iter().filter(|t| t.version <= version).cloned().collect(),
            dropped: dropped.collect(),
            dropped_owners: self.dropped_owners.clone(),
        }
    }

    /// Whether some row of the file may be hidden.
    pub(super) fn concern(&self, file: &FileMeta) -> bool {
        self.tombstones.iter().any(|t| t.concerns(file)) || self.dropped_within(file) > 0
    }

    /// Whether all rows of the file are hidden for certain.
    pub(super) fn hide_all(&self, file: &FileMeta) -> bool {
        self.tombstones.iter().any(|t| {
            t.scope == DeleteScope::All && t.concerns(file) && t.time().intersect(file.time()) == file.time()
        })
    }

    /// Number of dropped tables that a file may hold rows of.
    pub(super) fn dropped_within(&self, file: &FileMeta) -> u64 {
        let tables = self.dropped.get(&file.owner).into_iter().flat_map(|tables| tables.iter());
        tables.filter(|(table, version)| may_hold(file, file.owner, **table, **version)).count() as u64
    }

    /// What concerns one owner within a time range.
    pub(super) fn of(&self, owner: TableUid, time: TimeRange) -> OwnerDeletions {
        let mut found = OwnerDeletions::default();
        for tombstone in self.tombstones.iter().filter(|t| t.owner == owner) {
            let range = tombstone.time().intersect(time);
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

/// Whether a file may hold rows of a table that was dropped at `version`. What is written later leaves them out.
fn may_hold(file: &FileMeta, owner: TableUid, table: TableUid, version: Version) -> bool {
    file.owner == owner
        && version > file.last_version
        && (file.first_table..=file.last_table).contains(&table)
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
