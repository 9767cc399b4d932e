//! Child and normal tables: by name, by uid, and as they were at any version that the log still has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::{SchemaVersion, TableInfo, TableKind, TableUid, Value, Version};
use serde::{Deserialize, Serialize};

/// A table, also for as long as the log still has records of it after it was dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableEntry {
    /// As it is now, or was last. Tags are in the order of `tags_schema`.
    pub info: Arc<TableInfo>,
    /// Schema version of the super table whose order the tags are in.
    pub tags_schema: SchemaVersion,
    /// From which version on the tags are these.
    pub since: Version,
    /// What they were before, oldest first.
    pub older: Vec<OlderTags>,
    /// When it was dropped.
    pub dropped_at: Option<Version>,
}

/// Tags that a table had once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OlderTags {
    /// From this version on, until the next.
    pub since: Version,
    /// Values.
    pub tags: Arc<[Value]>,
    /// Schema version whose order they are in.
    pub tags_schema: SchemaVersion,
}

/// A table as it was at some version.
#[derive(Clone, Debug)]
pub struct TableAt<'a> {
    /// Identity, name, super table: these never change.
    pub info: &'a Arc<TableInfo>,
    /// Tags at that version; empty for a normal table.
    pub tags: Arc<[Value]>,
    /// Schema version whose order they are in.
    pub tags_schema: SchemaVersion,
}

impl TableEntry {
    /// The super table, `None` for a normal table.
    #[must_use]
    pub fn stable(&self) -> Option<TableUid> {
        match &self.info.kind {
            TableKind::Child { stable, .. } => Some(*stable),
            TableKind::Normal { .. } => None,
        }
    }

    /// The super table, or the table itself.
    #[must_use]
    pub fn owner(&self) -> TableUid {
        self.stable().unwrap_or(self.info.uid)
    }

    /// As it was at `version`; `None` before it was made. A table that was dropped by then is shown as it was last.
    #[must_use]
    pub fn at(&self, version: Version) -> Option<TableAt<'_>> {
        if version < self.info.created_at {
            return None;
        }
        if version < self.since
            && let Some(older) = self.older.iter().rev().find(|older| older.since <= version)
        {
            let tags = Arc::clone(&older.tags);
            return Some(TableAt { info: &self.info, tags, tags_schema: older.tags_schema });
        }
        let tags = match &self.info.kind {
            TableKind::Child { tags, .. } => Arc::clone(tags),
            TableKind::Normal { .. } => Arc::default(),
        };
        Some(TableAt { info: &self.info, tags, tags_schema: self.tags_schema })
    }
}

/// Child and normal tables.
#[derive(Debug, Default)]
pub struct Tables {
    by_uid: BTreeMap<TableUid, TableEntry>,
    by_name: HashMap<String, TableUid>,
    children: BTreeMap<TableUid, BTreeSet<TableUid>>,
    /// Entries that hold something which pruning takes one day.
    aging: BTreeSet<TableUid>,
    normal: usize,
}

impl Tables {
    /// A table that exists.
    #[must_use]
    pub fn get(&self, uid: TableUid) -> Option<&TableEntry> {
        self.by_uid.get(&uid).filter(|entry| entry.dropped_at.is_none())
    }

    /// A table that exists or is still in the log.
    #[must_use]
    pub fn entry(&self, uid: TableUid) -> Option<&TableEntry> {
        self.by_uid.get(&uid)
    }

    /// The table called `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&TableEntry> {
        self.by_name.get(name).and_then(|uid| self.by_uid.get(uid))
    }

    /// Children of a super table, in uid order.
    pub fn children(&self, stable: TableUid) -> impl Iterator<Item = &TableEntry> {
        self.children.get(&stable).into_iter().flatten().filter_map(|uid| self.by_uid.get(uid))
    }

    /// Every table that exists, in uid order.
    pub fn live(&self) -> impl Iterator<Item = &TableEntry> {
        self.by_uid.values().filter(|entry| entry.dropped_at.is_none())
    }

    /// Normal tables, in uid order.
    pub fn normal(&self) -> impl Iterator<Item = &TableEntry> {
        self.live().filter(|entry| entry.stable().is_none())
    }

    /// Number of normal tables.
    #[must_use]
    pub const fn normal_count(&self) -> usize {
        self.normal
    }

    /// Number of children of a super table.
    #[must_use]
    pub fn child_count(&self, stable: TableUid) -> usize {
        self.children.get(&stable).map_or(0, BTreeSet::len)
    }

    /// Number of tables that exist.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Takes in a new table, or one from a checkpoint.
    pub(crate) fn put(&mut self, entry: TableEntry) {
        let uid = entry.info.uid;
        if entry.dropped_at.is_none() {
            self.by_name.insert(entry.info.name.clone(), uid);
            match entry.stable() {
                Some(stable) => {
                    self.children.entry(stable).or_default().insert(uid);
                }
                None => self.normal += 1,
            }
        }
        if entry.dropped_at.is_some() || !entry.older.is_empty() {
            self.aging.insert(uid);
        }
        self.by_uid.insert(uid, entry);
    }

    /// Changes what is known of a table that exists.
    pub(super) fn change(&mut self, uid: TableUid, change: impl FnOnce(&mut TableInfo)) {
        if let Some(entry) = self.by_uid.get_mut(&uid).filter(|entry| entry.dropped_at.is_none()) {
            change(Arc::make_mut(&mut entry.info));
        }
    }

    /// SET TAG.
    pub(super) fn set_tags(
        &mut self,
        uid: TableUid,
        tags: Arc<[Value]>,
        tags_schema: SchemaVersion,
        version: Version,
    ) {
        let Some(entry) = self.by_uid.get_mut(&uid).filter(|entry| entry.dropped_at.is_none()) else {
            return;
        };
        if let TableKind::Child { tags: current, .. } = &mut Arc::make_mut(&mut entry.info).kind {
            let old = std::mem::replace(current, tags);
            entry.older.push(OlderTags { since: entry.since, tags: old, tags_schema: entry.tags_schema });
            entry.tags_schema = tags_schema;
            entry.since = version;
            self.aging.insert(uid);
        }
    }

    /// DROP TABLE. Answers the owner of its rows.
    pub(super) fn drop(&mut self, uid: TableUid, version: Version) -> Option<TableUid> {
        let entry = self.by_uid.get_mut(&uid).filter(|entry| entry.dropped_at.is_none())?;
        entry.dropped_at = Some(version);
        let (owner, stable) = (entry.owner(), entry.stable());
        if self.by_name.get(&entry.info.name) == Some(&uid) {
            self.by_name.remove(&entry.info.name);
        }
        match stable {
            Some(stable) => {
                if let Some(children) = self.children.get_mut(&stable) {
                    children.remove(&uid);
                }
            }
            None => self.normal = self.normal.saturating_sub(1),
        }
        self.aging.insert(uid);
        Some(owner)
    }

    /// DROP STABLE: its children go. Answers which.
    pub(super) fn drop_children(&mut self, stable: TableUid, version: Version) -> Vec<TableUid> {
        let children: Vec<_> = self.children.remove(&stable).into_iter().flatten().collect();
        for uid in &children {
            self.drop(*uid, version);
        }
        children
    }

    /// Forgets what only records before `first` needed. Answers the tables that went altogether, and those that changed.
    pub(super) fn prune(&mut self, first: Version) -> Pruned {
        let mut pruned = Pruned::default();
        for uid in std::mem::take(&mut self.aging) {
            let Some(entry) = self.by_uid.get_mut(&uid) else { continue };
            if entry.dropped_at.is_some_and(|at| at < first) {
                self.by_uid.remove(&uid);
                pruned.gone.push(uid);
                continue;
            }
            // What held from `since` on until the next entry is not needed once that next one begins by `first`.
            let held = entry.older.len();
            let mut next = entry.since;
            let mut keep = entry.older.len();
            for (at, older) in entry.older.iter().enumerate().rev() {
                if next <= first {
                    break;
                }
                keep = at;
                next = older.since;
            }
            entry.older.drain(..keep);
            if entry.older.len() < held {
                pruned.changed.push(uid);
            }
            if !entry.older.is_empty() || entry.dropped_at.is_some() {
                self.aging.insert(uid);
            }
        }
        pruned
    }
}

/// What pruning did.
#[derive(Debug, Default)]
pub(super) struct Pruned {
    pub(super) gone: Vec<TableUid>,
    pub(super) changed: Vec<TableUid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(uid: u64, name: &str, created_at: u64) -> TableEntry {
        let tags: Arc<[Value]> = vec![Value::Int(0)].into();
        let info = TableInfo {
            uid: TableUid(uid),
            name: name.into(),
            kind: TableKind::Child { stable: TableUid(1), tags },
            create_time_ns: 0,
            created_at: Version(created_at),
            ttl_days: 0,
            comment: None,
        };
        TableEntry {
            info: Arc::new(info),
            tags_schema: SchemaVersion(1),
            since: Version(created_at),
            older: vec![],
            dropped_at: None,
        }
    }

    fn tag_at(tables: &Tables, version: u64) -> Option<Value> {
        tables.entry(TableUid(10))?.at(Version(version)).map(|at| at.tags[0].clone())
    }

    #[test]
    fn remembers_tags_by_version_and_forgets_them_with_the_log() {
        let mut tables = Tables::default();
        tables.put(child(10, "a", 5));
        for (version, tag) in [(7, 1), (9, 2)] {
            tables.set_tags(TableUid(10), vec![Value::Int(tag)].into(), SchemaVersion(1), Version(version));
        }
        let seen: Vec<_> = [4, 5, 6, 7, 8, 9, 99].map(|v| tag_at(&tables, v)).into();
        let int = |v| Some(Value::Int(v));
        assert_eq!(seen, [None, int(0), int(0), int(1), int(1), int(2), int(2)]);

        assert!(tables.prune(Version(6)).changed.is_empty(), "version 6 still needs the first tags");
        assert_eq!(tables.prune(Version(7)).changed, [TableUid(10)]);
        assert_eq!((tag_at(&tables, 7), tag_at(&tables, 8)), (int(1), int(1)));
        tables.prune(Version(9));
        assert_eq!(tag_at(&tables, 9), int(2));
        assert!(tables.aging.is_empty());
    }

    #[test]
    fn a_dropped_table_stays_known_until_the_log_has_gone_past_it() {
        let mut tables = Tables::default();
        tables.put(child(10, "a", 5));
        assert_eq!(tables.drop(TableUid(10), Version(8)), Some(TableUid(1)));
        tables.put(child(11, "a", 9));
        assert_eq!(tables.named("a").unwrap().info.uid, TableUid(11));
        assert!(tables.get(TableUid(10)).is_none() && tables.entry(TableUid(10)).is_some());
        assert!(tables.prune(Version(8)).gone.is_empty());
        assert_eq!(tables.prune(Version(9)).gone, [TableUid(10)]);
        assert_eq!((tables.len(), tables.child_count(TableUid(1))), (1, 1));
    }
}
