//! What users may see and do, for whoever serves them. See [`crate::MnodeState::may_subscribe`] and its neighbours for the
//! rules.

use std::sync::Arc;

use model::{Code, ConsumerId, Result, TopicId, VgroupId};

use super::Mnode;
use crate::shards::TopicInfo;
use crate::spec::Access;
use crate::state::Database;

/// Rights.
impl Mnode {
    /// What a user may do with a database of which they may know.
    ///
    /// # Errors
    /// 0x2644, to everybody but super users also where there is none; to those 0x0388.
    pub fn access(&self, by: &str, database: &str) -> Result<Access> {
        self.inner.read(|state| Ok(state.access(by, state.database_seen(by, database)?)))
    }

    /// That a user has made the database or is a super user: for what else only ALTER DATABASE could bring about.
    ///
    /// # Errors
    /// 0x2644, to everybody but super users also where there is none; to those 0x0388. 0x0303 for others.
    pub fn check_owner(&self, by: &str, database: &str) -> Result<()> {
        self.inner.read(|state| state.require_owner(by, &state.database_seen(by, database)?.creator))
    }

    /// The databases that a user may know of, by name, and what they may do with each.
    #[must_use]
    pub fn databases(&self, by: &str) -> Vec<(Arc<Database>, Access)> {
        self.inner.read(|state| {
            let seen = state.catalog().databases().filter(|database| state.sees_database(by, database));
            seen.map(|database| (Arc::clone(database), state.access(by, database))).collect()
        })
    }

    /// The topic called `name`, if `by` may know of it.
    ///
    /// # Errors
    /// 0x0303, to everybody but super users also where there is none; to those 0x03E1.
    pub fn topic_seen(&self, by: &str, name: &str) -> Result<Arc<TopicInfo>> {
        self.inner.read(|state| state.topic_seen(by, name).cloned())
    }

    /// Whether consumer `id` of user `by` may read a topic now, and commit what it has read.
    ///
    /// # Errors
    /// 0x03E6 no such consumer of theirs; 0x4001 it has not subscribed to the topic; 0x0303 the right was taken.
    pub fn check_consume(&self, by: &str, id: ConsumerId, topic: TopicId) -> Result<()> {
        let checked = self.inner.read(|state| state.check_consume(by, id, topic));
        checked.map_err(|error| match error.code() {
            Code::ConsumerNotExist => self.why_removed(by, id).unwrap_or(error),
            _ => error,
        })
    }

    /// Whether `by` may look at the offsets of a topic in one of its vgroups.
    ///
    /// # Errors
    /// 0x0303, to everybody but super users also where there is no such topic; to those 0x03E1. 0x0503 for a vgroup that
    /// has no part in the topic.
    pub fn check_offsets(&self, by: &str, topic: TopicId, vgroup: VgroupId) -> Result<()> {
        self.inner.read(|state| state.check_offsets(by, topic, vgroup))
    }
}
