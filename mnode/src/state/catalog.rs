//! Databases, super tables and topics: what statements look names up in. Copied on write, so that a reader's snapshot
//! costs one reference count and never blocks a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Code, DatabaseId, DatabaseInfo, Error, Result, StableInfo, TableUid, TopicId, VgroupId};
use serde::{Deserialize, Serialize};

use crate::shards::TopicInfo;

/// A database with its super tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// Options and vgroups.
    pub info: Arc<DatabaseInfo>,
    /// Who made it: owns it.
    pub creator: String,
    /// By name.
    pub stables: BTreeMap<String, Arc<StableInfo>>,
}

impl Database {
    /// The super table called `name`.
    ///
    /// # Errors
    /// 0x0362
    pub fn stable(&self, name: &str) -> Result<&Arc<StableInfo>> {
        self.stables.get(name).ok_or_else(|| Error::with(Code::StableNotExist, name))
    }

    /// The super table with this uid.
    #[must_use]
    pub fn stable_by_uid(&self, uid: TableUid) -> Option<&Arc<StableInfo>> {
        self.stables.values().find(|s| s.uid == uid)
    }
}

/// Everything that has a name, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    databases: BTreeMap<String, Arc<Database>>,
    topics: BTreeMap<TopicId, Arc<TopicInfo>>,
    topic_names: BTreeMap<String, TopicId>,
}

impl Catalog {
    /// Every database, by name.
    pub fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.databases.values()
    }

    /// The database called `name` (exact case).
    ///
    /// # Errors
    /// 0x0388
    pub fn database(&self, name: &str) -> Result<&Arc<Database>> {
        self.databases.get(name).ok_or_else(|| {
            let known = self.databases.keys().map(String::as_str);
            Error::with(Code::DatabaseNotExist, name).hint_case(name, known)
        })
    }

    /// The database with this id.
    #[must_use]
    pub fn database_by_id(&self, id: DatabaseId) -> Option<&Arc<Database>> {
        self.databases.values().find(|d| d.info.id == id)
    }

    /// The database that has this vgroup.
    #[must_use]
    pub fn database_of(&self, vgroup: VgroupId) -> Option<&Arc<Database>> {
        self.databases.values().find(|d| d.info.vgroups.contains(&vgroup))
    }

    /// The super table `database.name`.
    ///
    /// # Errors
    /// 0x0388, 0x0362
    pub fn stable(&self, database: &str, name: &str) -> Result<&Arc<StableInfo>> {
        self.database(database)?.stable(name)
    }

    /// Every topic, oldest first.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicInfo>> {
        self.topics.values()
    }

    /// The topic called `name` (exact case).
    ///
    /// # Errors
    /// 0x03E1
    pub fn topic(&self, name: &str) -> Result<&Arc<TopicInfo>> {
        self.topic_names
            .get(name)
            .and_then(|id| self.topics.get(id))
            .ok_or_else(|| Error::with(Code::TopicNotExist, name))
    }

    /// The topic with this id.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicInfo>> {
        self.topics.get(&id)
    }

    /// Vgroups that take part in the topic: all of its database.
    #[must_use]
    pub fn topic_vgroups(&self, id: TopicId) -> &[VgroupId] {
        let database = self.topics.get(&id).and_then(|t| self.database_by_id(t.database));
        database.map_or(&[], |d| &d.info.vgroups)
    }

    /// Topics over a database.
    pub fn topics_of(&self, database: DatabaseId) -> impl Iterator<Item = &Arc<TopicInfo>> {
        self.topics.values().filter(move |t| t.database == database)
    }

    pub(super) fn topic_count(&self) -> usize {
        self.topics.len()
    }

    pub(super) fn put_database(&mut self, database: Database) {
        self.databases.insert(database.info.name.clone(), Arc::new(database));
    }

    pub(super) fn remove_database(&mut self, id: DatabaseId) {
        self.databases.retain(|_, d| d.info.id != id);
    }

    /// Changes a database in place; one that is gone is not missed.
    pub(super) fn edit_database(&mut self, id: DatabaseId, edit: impl FnOnce(&mut Database)) {
        if let Some(database) = self.databases.values_mut().find(|d| d.info.id == id) {
            edit(Arc::make_mut(database));
        }
    }

    /// Makes `to` the owner of all that `from` owned.
    pub(super) fn hand_over(&mut self, from: &str, to: &str) {
        for database in self.databases.values_mut().filter(|database| database.creator == from) {
            to.clone_into(&mut Arc::make_mut(database).creator);
        }
        for topic in self.topics.values_mut().filter(|topic| topic.creator == from) {
            to.clone_into(&mut Arc::make_mut(topic).creator);
        }
    }

    pub(super) fn put_topic(&mut self, topic: Arc<TopicInfo>) {
        self.topic_names.insert(topic.name.clone(), topic.id);
        self.topics.insert(topic.id, topic);
    }

    pub(super) fn remove_topic(&mut self, id: TopicId) {
        self.topics.remove(&id);
        self.topic_names.retain(|_, i| *i != id);
    }
}
