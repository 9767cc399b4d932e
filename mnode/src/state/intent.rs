//! Statements that several shards must carry out: logged before the first shard hears of it, finished when the last
//! one has applied it, and found again after a crash in between.

use std::sync::Arc;

use model::{Code, DatabaseId, DatabaseInfo, Error, Origin, Result, VgroupId};
use serde::{Deserialize, Serialize};

use super::{Event, GroupKey, MnodeState};
use crate::shards::{StableDdl, TopicDdl};

/// A statement under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Never reused.
    pub id: u64,
    /// The database concerned: one statement at a time.
    pub database: DatabaseId,
    /// What.
    pub kind: IntentKind,
    /// Whether it is being taken back.
    pub undo: bool,
    /// When it was logged, nanoseconds since the epoch.
    pub create_time_ns: i64,
}

/// What every shard of the database has to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum IntentKind {
    /// CREATE DATABASE. Not in the catalogue before it is finished.
    CreateDatabase {
        /// The new database.
        database: Arc<DatabaseInfo>,
        /// Who makes it.
        creator: String,
    },
    /// ALTER DATABASE.
    AlterDatabase {
        /// With the new options.
        database: Arc<DatabaseInfo>,
    },
    /// DROP DATABASE. No longer in the catalogue.
    DropDatabase {
        /// The old database.
        database: Arc<DatabaseInfo>,
    },
    /// CREATE, ALTER, DROP STABLE.
    Stable(StableDdl),
    /// CREATE, RELOAD, DROP TOPIC.
    Topic(TopicDdl),
    /// DROP CONSUMER GROUP.
    DropGroup {
        /// Which.
        key: GroupKey,
    },
    /// The same as `Stable`, brought by replication: the shards mark their records so.
    ReplicatedStable(StableDdl),
}

impl IntentKind {
    pub(super) const fn stable(ddl: StableDdl, origin: Origin) -> Self {
        match origin {
            Origin::Client => Self::Stable(ddl),
            Origin::Replication => Self::ReplicatedStable(ddl),
        }
    }
}

impl Intent {
    /// Whether it can be taken back. What removes or replaces something has already been seen and goes on to its end.
    #[must_use]
    pub fn can_undo(&self) -> bool {
        matches!(
            self.kind,
            IntentKind::CreateDatabase { .. }
                | IntentKind::Stable(StableDdl::Create(_))
                | IntentKind::ReplicatedStable(StableDdl::Create(_))
                | IntentKind::Topic(TopicDdl::Create(_))
        )
    }
}

impl MnodeState {
    /// Statements under way, oldest first.
    pub fn intents(&self) -> impl Iterator<Item = &Intent> {
        self.intents.values()
    }

    /// The statement with this number, while it is under way.
    #[must_use]
    pub fn intent(&self, id: u64) -> Option<&Intent> {
        self.intents.get(&id)
    }

    /// The shards that an intent has to visit.
    #[must_use]
    pub fn intent_vgroups(&self, intent: &Intent) -> Vec<VgroupId> {
        match &intent.kind {
            IntentKind::CreateDatabase { database, .. }
            | IntentKind::AlterDatabase { database }
            | IntentKind::DropDatabase { database } => database.vgroups.clone(),
            _ => {
                self.catalog.database_by_id(intent.database).map_or_else(Vec::new, |d| d.info.vgroups.clone())
            }
        }
    }

    /// 0x03D3 while another statement is under way on this database.
    pub(super) fn check_free(&self, database: DatabaseId) -> Result<()> {
        if self.intents.values().any(|i| i.database == database) {
            return Err(Error::of(Code::Conflict));
        }
        Ok(())
    }

    pub(super) fn log_intent(&mut self, database: DatabaseId, kind: IntentKind, time_ns: i64) -> Vec<Event> {
        let id = self.counters.intent;
        self.counters.intent += 1;
        self.intents.insert(id, Intent { id, database, kind, undo: false, create_time_ns: time_ns });
        vec![Event::Intent(id)]
    }

    pub(super) fn check_intent(&self, id: u64, undo: bool) -> Result<()> {
        let intent = self.intents.get(&id).ok_or_else(|| stale("intent"))?;
        if undo && !intent.can_undo() {
            return Err(Error::internal("this statement cannot be taken back"));
        }
        Ok(())
    }

    pub(super) fn finish_intent(&mut self, id: u64) -> Vec<Event> {
        let Some(intent) = self.intents.remove(&id) else { return Vec::new() };
        let mut events = vec![Event::IntentDone { id, undone: intent.undo }];
        if intent.undo {
            return events;
        }
        match intent.kind {
            IntentKind::CreateDatabase { database, creator } => {
                self.finish_create_database(database, creator)
            }
            IntentKind::AlterDatabase { database } => self.finish_alter_database(database),
            IntentKind::Stable(ddl) | IntentKind::ReplicatedStable(ddl) => {
                self.finish_stable(intent.database, &ddl);
            }
            IntentKind::Topic(ddl) => events.extend(self.finish_topic(ddl)),
            IntentKind::DropDatabase { .. } | IntentKind::DropGroup { .. } => {}
        }
        events.push(Event::Catalog);
        events
    }

    pub(super) fn undo_intent(&mut self, id: u64) -> Vec<Event> {
        if let Some(intent) = self.intents.get_mut(&id) {
            intent.undo = true;
        }
        vec![Event::Intent(id)]
    }
}

/// A command of the coordinator that came too late: what it rests on has changed. Never shown to a user.
pub(super) fn stale(what: &str) -> Error {
    Error::with(Code::Conflict, format_args!("stale {what}"))
}
