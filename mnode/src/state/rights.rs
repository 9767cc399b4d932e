//! Who may see and who may do what, by the rights as they are at this moment.
//!
//! What a user may not see answers as what is not there: both with the code of a missing right, since that is all one can
//! be told without learning which of the two it is. Only super users, who see everything, are told that a name is nobody's.

use std::sync::Arc;

use model::{Code, ConsumerId, Error, Result, TopicId, VgroupId};

use super::{Database, MnodeState, ROOT};
use crate::shards::TopicInfo;
use crate::spec::Access;

impl MnodeState {
    fn is_super(&self, by: &str) -> bool {
        self.users.get(by).is_some_and(|user| user.super_user)
    }

    /// What `by` may do with a database: everything as super user or creator, else what was granted.
    #[must_use]
    pub fn access(&self, by: &str, database: &Database) -> Access {
        let Some(user) = self.users.get(by) else { return Access::default() };
        if user.super_user || database.creator == by {
            return Access { read: true, write: true };
        }
        let granted = user.databases.get(&database.info.id).copied().unwrap_or_default();
        Access { read: granted.read || user.everywhere.read, write: granted.write || user.everywhere.write }
    }

    /// Whether `by` may subscribe to a topic and read it: super user, its creator, or granted SUBSCRIBE. Rights on the
    /// database play no part: they were asked for when the topic was made.
    #[must_use]
    pub fn may_subscribe(&self, by: &str, topic: &TopicInfo) -> bool {
        let Some(user) = self.users.get(by) else { return false };
        user.super_user || user.topics.contains(&topic.id) || topic.creator == by
    }

    /// Whether `by` may know of a database: who may read or write it, or has a topic on it.
    #[must_use]
    pub fn sees_database(&self, by: &str, database: &Database) -> bool {
        let has_topic = || self.catalog.topics_of(database.info.id).any(|topic| topic.creator == by);
        self.users.contains_key(by) && (self.access(by, database).any() || has_topic())
    }

    /// Whether `by` may know of a topic: who may subscribe to it, and the creator of its database, in whose way it stands.
    #[must_use]
    pub fn sees_topic(&self, by: &str, topic: &TopicInfo) -> bool {
        let owns_database = || self.catalog.database(&topic.database_name).is_ok_and(|d| d.creator == by);
        self.may_subscribe(by, topic) || (self.users.contains_key(by) && owns_database())
    }

    /// The database called `name`, if `by` may know of it.
    ///
    /// # Errors
    /// 0x2644, to everybody but super users also where there is none; to those 0x0388.
    pub fn database_seen(&self, by: &str, name: &str) -> Result<&Arc<Database>> {
        match self.catalog.database(name) {
            Ok(database) if self.sees_database(by, database) => Ok(database),
            Err(missing) if self.is_super(by) => Err(missing),
            Ok(_) | Err(_) => Err(Error::with(Code::PermissionDenied, name)),
        }
    }

    /// The topic called `name`, if `by` may know of it.
    ///
    /// # Errors
    /// 0x0303, to everybody but super users also where there is none; to those 0x03E1.
    pub fn topic_seen(&self, by: &str, name: &str) -> Result<&Arc<TopicInfo>> {
        match self.catalog.topic(name) {
            Ok(topic) if self.sees_topic(by, topic) => Ok(topic),
            Err(missing) if self.is_super(by) => Err(missing),
            Ok(_) | Err(_) => Err(no_topic(name)),
        }
    }

    /// The topic called `name`, if `by` may subscribe to it.
    ///
    /// # Errors
    /// As [`topic_seen`](Self::topic_seen).
    pub(super) fn topic_to_subscribe(&self, by: &str, name: &str) -> Result<&Arc<TopicInfo>> {
        let topic = self.topic_seen(by, name)?;
        if self.may_subscribe(by, topic) { Ok(topic) } else { Err(no_topic(&topic.name)) }
    }

    /// Whether consumer `id` of user `by` may read a topic now, and commit what it has read.
    ///
    /// # Errors
    /// 0x03E6 no such consumer of theirs; 0x4001 it has not subscribed to the topic; 0x0303 the right was taken.
    pub fn check_consume(&self, by: &str, id: ConsumerId, topic: TopicId) -> Result<()> {
        let consumer = self.consumer(id)?;
        if consumer.user != by {
            return Err(Error::of(Code::ConsumerNotExist));
        }
        let topic = self.catalog.topic_by_id(topic).filter(|topic| consumer.concerns(topic.id));
        let topic = topic.ok_or_else(|| Error::of(Code::ConsumerMismatch))?;
        if self.may_subscribe(by, topic) { Ok(()) } else { Err(no_topic(&topic.name)) }
    }

    /// Whether `by` may look at the offsets of a topic in one of its vgroups.
    ///
    /// # Errors
    /// 0x0303, to everybody but super users also where there is no such topic; to those 0x03E1. 0x0503 for a vgroup that
    /// has no part in the topic.
    pub fn check_offsets(&self, by: &str, topic: TopicId, vgroup: VgroupId) -> Result<()> {
        match self.catalog.topic_by_id(topic) {
            Some(found) if self.may_subscribe(by, found) => {}
            None if self.is_super(by) => {
                return Err(Error::with(Code::TopicNotExist, format_args!("id={topic}")));
            }
            Some(_) | None => return Err(no_topic(&format!("id {topic}"))),
        }
        match self.catalog.topic_vgroups(topic).contains(&vgroup) {
            true => Ok(()),
            false => Err(Error::with(Code::InvalidVgroup, format_args!("vgroup={vgroup} topic={topic}"))),
        }
    }

    /// What cannot be dropped before a topic: its name is for those that may know of it.
    pub(super) fn topic_in_the_way(&self, by: &str, topic: &TopicInfo) -> Error {
        match self.sees_topic(by, topic) {
            true => Error::with(Code::TopicMustDrop, &topic.name),
            false => Error::of(Code::TopicMustDrop).hint("its owner or root drops it"),
        }
    }

    /// Who owns what `creator` asked for: root, if they are gone by the time that it is made.
    pub(super) fn owner_of(&self, creator: String) -> String {
        if self.users.contains_key(&creator) { creator } else { ROOT.to_owned() }
    }

    pub(super) fn require_super(&self, by: &str) -> Result<()> {
        if self.is_super(by) { Ok(()) } else { Err(Error::of(Code::NoPrivilege)) }
    }

    pub(super) fn require_createdb(&self, by: &str) -> Result<()> {
        let allowed = self.users.get(by).is_some_and(|u| u.super_user || u.createdb);
        if allowed { Ok(()) } else { Err(Error::of(Code::NoPrivilege)) }
    }

    pub(super) fn require_access(&self, by: &str, database: &Database, need: Access) -> Result<()> {
        let has = self.access(by, database);
        if (need.read && !has.read) || (need.write && !has.write) {
            return Err(Error::of(Code::NoPrivilege));
        }
        Ok(())
    }

    /// Super user or creator.
    pub(crate) fn require_owner(&self, by: &str, creator: &str) -> Result<()> {
        if by == creator && self.users.contains_key(by) { Ok(()) } else { self.require_super(by) }
    }
}

/// One and the same for a topic that is not there, is not seen, or may not be read.
fn no_topic(name: &str) -> Error {
    Error::with(Code::NoPrivilege, format_args!("topic={name}"))
        .hint("ask its owner or root for SUBSCRIBE on it; SHOW TOPICS lists those that you may read")
}
