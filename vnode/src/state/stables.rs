//! Super tables, and every schema that rows in the log or in files may still have.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{SchemaVersion, StableInfo, TableSchema, TableUid, Value, Version};
use serde::{Deserialize, Serialize};

/// A super table, also for as long as the log still has records of it after it was dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StableEntry {
    /// As it is now, or was last.
    pub info: Arc<StableInfo>,
    /// Schema version at which the list of tags last changed: children whose tags are in the order of this version or
    /// a later one need no rearranging.
    pub tags_since: SchemaVersion,
    /// When it was dropped.
    pub dropped_at: Option<Version>,
}

/// Super tables and schemas.
#[derive(Debug, Default)]
pub struct Stables {
    by_uid: BTreeMap<TableUid, StableEntry>,
    by_name: HashMap<String, TableUid>,
    schemas: BTreeMap<(TableUid, SchemaVersion), Arc<TableSchema>>,
}

impl Stables {
    /// A super table that exists.
    #[must_use]
    pub fn get(&self, uid: TableUid) -> Option<&Arc<StableInfo>> {
        self.by_uid.get(&uid).filter(|entry| entry.dropped_at.is_none()).map(|entry| &entry.info)
    }

    /// A super table that exists or is still in the log.
    #[must_use]
    pub fn entry(&self, uid: TableUid) -> Option<&StableEntry> {
        self.by_uid.get(&uid)
    }

    /// The super table called `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<StableInfo>> {
        self.by_name.get(name).and_then(|uid| self.get(*uid))
    }

    /// All that exist, in uid order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<StableInfo>> {
        self.by_uid.values().filter(|entry| entry.dropped_at.is_none()).map(|entry| &entry.info)
    }

    /// The schema that `owner` (a super table or normal table) had at `version`.
    #[must_use]
    pub fn schema(&self, owner: TableUid, version: SchemaVersion) -> Option<&Arc<TableSchema>> {
        self.schemas.get(&(owner, version))
    }

    /// Takes in a schema, of a normal table too.
    pub(crate) fn put_schema(&mut self, owner: TableUid, schema: Arc<TableSchema>) {
        self.schemas.insert((owner, schema.version), schema);
    }

    /// Takes in an entry as a checkpoint has it.
    pub(crate) fn restore(&mut self, uid: TableUid, entry: StableEntry) {
        if entry.dropped_at.is_none() {
            self.by_name.insert(entry.info.name.clone(), uid);
        }
        self.by_uid.insert(uid, entry);
    }

    /// CREATE and ALTER.
    pub(super) fn put(&mut self, info: StableInfo) {
        let tags_since = match self.by_uid.get(&info.uid) {
            Some(old) if same_tags(&old.info.schema, &info.schema) => old.tags_since,
            _ => info.schema.version,
        };
        self.put_schema(info.uid, Arc::clone(&info.schema));
        self.restore(info.uid, StableEntry { info: Arc::new(info), tags_since, dropped_at: None });
    }

    pub(super) fn drop(&mut self, uid: TableUid, version: Version) {
        let Some(entry) = self.by_uid.get_mut(&uid).filter(|entry| entry.dropped_at.is_none()) else {
            return;
        };
        entry.dropped_at = Some(version);
        if self.by_name.get(&entry.info.name) == Some(&uid) {
            self.by_name.remove(&entry.info.name);
        }
    }

    /// Forgets what only records before `first` needed. Answers what went.
    pub(super) fn prune(&mut self, first: Version) -> Vec<TableUid> {
        let gone: Vec<_> = self
            .by_uid
            .iter()
            .filter(|(_, e)| e.dropped_at.is_some_and(|at| at < first))
            .map(|(uid, _)| *uid)
            .collect();
        for uid in &gone {
            self.by_uid.remove(uid);
            self.forget_schemas(*uid);
        }
        gone
    }

    pub(super) fn forget_schemas(&mut self, owner: TableUid) {
        let all = (owner, SchemaVersion(0))..=(owner, SchemaVersion(u32::MAX));
        let keys: Vec<_> = self.schemas.range(all).map(|(key, _)| *key).collect();
        for key in keys {
            self.schemas.remove(&key);
        }
    }

    /// `tags`, which are in the order of the schema `from`, in the order of the schema `to`: new tags are NULL.
    #[must_use]
    pub fn arrange(
        &self,
        stable: TableUid,
        tags: &Arc<[Value]>,
        from: SchemaVersion,
        to: SchemaVersion,
    ) -> Arc<[Value]> {
        let (Some(from), Some(to)) = (self.schema(stable, from), self.schema(stable, to)) else {
            return Arc::clone(tags);
        };
        if same_tags(from, to) {
            return Arc::clone(tags);
        }
        let place = |tag: &model::ColumnDef| from.tags.iter().position(|old| old.id == tag.id);
        to.tags
            .iter()
            .map(|tag| place(tag).and_then(|at| tags.get(at)).cloned().unwrap_or_default())
            .collect()
    }
}

fn same_tags(one: &TableSchema, other: &TableSchema) -> bool {
    one.tags.iter().map(|tag| tag.id).eq(other.tags.iter().map(|tag| tag.id))
}
