//! CREATE, RELOAD and DROP TOPIC, DROP CONSUMER GROUP.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Code, Error, Result, TopicId};

use super::settings::TOPICS_MAX;
use super::{Consumer, Event, Farewell, GroupKey, IntentKind, MnodeState};
use crate::shards::{TopicDdl, TopicInfo};
use crate::spec::{Access, DropGroupSpec, DropTopicSpec, ReloadSpec, TopicKind, TopicMeta, TopicSpec};

pub(super) const NAME_BYTES_MAX: usize = 192;

impl MnodeState {
    /// In the order of tmq.md 1.6.
    pub(super) fn check_create_topic(&self, by: &str, spec: &TopicSpec) -> Result<()> {
        if spec.name.is_empty() || spec.name.len() > NAME_BYTES_MAX {
            return Err(Error::with(Code::InvalidIdentifier, &spec.name));
        }
        let taken = self.catalog.topic(&spec.name).ok();
        let exists = || Error::with(Code::TopicExists, &spec.name);
        if taken.is_some_and(|topic| self.sees_topic(by, topic)) {
            return if spec.if_not_exists { Ok(()) } else { Err(exists()) };
        }
        let database = self.database_seen(by, &spec.database)?;
        if database.info.options.wal.retention_period_s == 0 {
            return Err(Error::of(Code::WalRetentionZero));
        }
        let being_made = self.intents.values().filter_map(|i| match &i.kind {
            IntentKind::Topic(TopicDdl::Create(topic)) if !i.undo => Some(topic),
            _ => None,
        });
        if being_made.clone().any(|t| t.name == spec.name) {
            return Err(Error::of(Code::Conflict));
        }
        let topics = i64::try_from(self.catalog.topic_count() + being_made.count()).unwrap_or(i64::MAX);
        if topics >= self.setting(TOPICS_MAX) {
            return Err(Error::of(Code::TopicLimit));
        }
        self.require_access(by, database, Access { read: true, write: false })?;
        // Names are one space for all: who may make topics learns that one is taken, and nothing more of it.
        if taken.is_some() {
            return Err(exists());
        }
        if matches!(spec.kind, TopicKind::Query { .. }) && spec.meta != TopicMeta::Without {
            return Err(Error::of(Code::TopicOptionInvalid));
        }
        if let TopicKind::Stable(stable) = &spec.kind {
            database.stable(stable)?;
        }
        self.check_free(database.info.id)
    }

    pub(super) fn apply_create_topic(&mut self, by: &str, spec: &TopicSpec, time_ns: i64) -> Vec<Event> {
        if self.catalog.topic(&spec.name).is_ok() {
            return vec![Event::Unchanged];
        }
        let Ok(database) = self.catalog.database(&spec.database) else { return Vec::new() };
        let stable = match &spec.kind {
            TopicKind::Stable(name) => database.stable(name).ok().map(|s| s.uid),
            _ => None,
        };
        let topic = Arc::new(TopicInfo {
            id: TopicId(self.counters.topic),
            name: spec.name.clone(),
            database: database.info.id,
            database_name: database.info.name.clone(),
            kind: spec.kind.clone(),
            stable,
            meta: spec.meta,
            sql: spec.sql.clone(),
            schema_json: spec.schema_json.clone(),
            definition: spec.definition.clone(),
            definition_version: 1,
            creator: by.to_owned(),
            create_time_ns: time_ns,
        });
        self.counters.topic += 1;
        self.log_intent(topic.database, IntentKind::Topic(TopicDdl::Create(topic)), time_ns)
    }

    pub(super) fn check_reload_topic(&self, by: &str, spec: &ReloadSpec) -> Result<()> {
        let topic = match self.topic_seen(by, &spec.name) {
            Err(_) if spec.if_exists => return Ok(()),
            found => found?,
        };
        self.require_owner(by, &topic.creator)?;
        if !matches!(topic.kind, TopicKind::Query { .. }) {
            return Err(Error::of(Code::TopicOptionInvalid));
        }
        if topic.database_name != spec.database {
            return Err(Error::with(
                Code::TopicOptionInvalid,
                format_args!("topic {} reads database {}", topic.name, topic.database_name),
            ));
        }
        self.check_free(topic.database)
    }

    pub(super) fn apply_reload_topic(&mut self, by: &str, spec: &ReloadSpec, time_ns: i64) -> Vec<Event> {
        let Ok(topic) = self.topic_seen(by, &spec.name) else { return vec![Event::Unchanged] };
        let mut topic = (**topic).clone();
        topic.kind = TopicKind::Query { of_stable: spec.of_stable };
        topic.sql.clone_from(&spec.sql);
        topic.schema_json.clone_from(&spec.schema_json);
        topic.definition.clone_from(&spec.definition);
        topic.definition_version = topic.definition_version.saturating_add(1);
        self.log_intent(topic.database, IntentKind::Topic(TopicDdl::Reload(Arc::new(topic))), time_ns)
    }

    pub(super) fn check_drop_topic(&self, by: &str, spec: &DropTopicSpec) -> Result<()> {
        let topic = match self.topic_seen(by, &spec.name) {
            Err(_) if spec.if_exists => return Ok(()),
            found => found?,
        };
        self.require_owner(by, &topic.creator)?;
        if !spec.force {
            if self.consumers.values().any(|c| c.concerns(topic.id)) {
                return Err(Error::with(Code::TopicInUse, &topic.name));
            }
            if self.groups_of(topic.id).any(|(_, g)| g.is_used()) {
                return Err(Error::with(Code::TopicRebalancing, &topic.name));
            }
        }
        self.check_free(topic.database)
    }

    /// Topic, groups and (with FORCE) consumers are out of sight at once; the shards' offsets follow.
    pub(super) fn apply_drop_topic(&mut self, by: &str, spec: &DropTopicSpec, time_ns: i64) -> Vec<Event> {
        let Ok(topic) = self.topic_seen(by, &spec.name).cloned() else { return vec![Event::Unchanged] };
        let hint = "create the topic again and subscribe, or subscribe to other topics";
        let cause = format!("DROP TOPIC FORCE topic={}", topic.name);
        let mut events = self.drop_consumers(&cause, hint, |c| c.concerns(topic.id));
        self.groups.retain(|key, _| key.topic != topic.id);
        self.catalog_mut().remove_topic(topic.id);
        self.forget_rights(Some(topic.id), None);
        events.extend(self.log_intent(topic.database, IntentKind::Topic(TopicDdl::Drop(topic.id)), time_ns));
        events.push(Event::Catalog);
        events
    }

    pub(super) fn check_drop_group(&self, by: &str, spec: &DropGroupSpec) -> Result<()> {
        // Of a topic that is not there no group is.
        let DropGroupSpec { group: name, topic, .. } = spec;
        let missing = || {
            Error::with(Code::GroupNotExist, name).hint(format!(
                "topic {topic} has no such group: SHOW SUBSCRIPTIONS lists those that there are"
            ))
        };
        let no_topic = || {
            Error::with(Code::GroupNotExist, name)
                .hint(format!("there is no topic {topic}: SHOW TOPICS lists those that there are"))
        };
        let topic = match self.topic_seen(by, &spec.topic) {
            Err(_) if spec.if_exists => return Ok(()),
            Err(error) if error.code() == Code::TopicNotExist => return Err(no_topic()),
            found => found?,
        };
        // Before the group is looked up: whether there is one is the owner's to know.
        self.require_owner(by, &topic.creator)?;
        let group = match self.groups.get(&GroupKey { topic: topic.id, group: spec.group.clone() }) {
            None if spec.if_exists => return Ok(()),
            found => found.ok_or_else(missing)?,
        };
        let user = |c: &&super::Consumer| c.group == spec.group && c.concerns(topic.id);
        if !spec.force && (group.is_used() || self.consumers.values().any(|c| user(&c))) {
            return Err(Error::with(Code::GroupInUse, &spec.group));
        }
        self.check_free(topic.database)
    }

    pub(super) fn apply_drop_group(&mut self, by: &str, spec: &DropGroupSpec, time_ns: i64) -> Vec<Event> {
        let Ok(topic) = self.topic_seen(by, &spec.topic).cloned() else { return vec![Event::Unchanged] };
        let key = GroupKey { topic: topic.id, group: spec.group.clone() };
        if self.groups.remove(&key).is_none() {
            return vec![Event::Unchanged];
        }
        let hint = "subscribe again: the group begins anew, by auto.offset.reset";
        let cause = format!("DROP CONSUMER GROUP FORCE topic={}", topic.name);
        let is_user = |c: &Consumer| c.group == spec.group && c.concerns(topic.id);
        let mut events = self.drop_consumers(&cause, hint, is_user);
        events.extend(self.log_intent(topic.database, IntentKind::DropGroup { key }, time_ns));
        events
    }

    /// Deletes consumers that a statement takes the ground from; each is told which one.
    fn drop_consumers(&mut self, cause: &str, hint: &str, which: impl Fn(&Consumer) -> bool) -> Vec<Event> {
        let farewell = |consumer: &Consumer| {
            let why = format!("removed by {cause} group={}", consumer.group);
            let error = Error::with(Code::ConsumerNotExist, why).hint(hint);
            (consumer.id, Farewell { user: consumer.user.clone(), error })
        };
        let dropped: BTreeMap<_, _> = self.consumers.values().filter(|c| which(c)).map(farewell).collect();
        let ids = dropped.keys().copied().collect();
        let mut events = vec![Event::Dropped(dropped)];
        events.extend(self.delete_consumers(&ids));
        events
    }

    pub(super) fn finish_topic(&mut self, ddl: TopicDdl) -> Vec<Event> {
        match ddl {
            TopicDdl::Create(mut topic) => {
                let creator = self.owner_of(topic.creator.clone());
                Arc::make_mut(&mut topic).creator = creator;
                self.catalog_mut().put_topic(topic);
                Vec::new()
            }
            TopicDdl::Reload(topic) => {
                let id = topic.id;
                self.catalog_mut().put_topic(topic);
                self.bump_members(id)
            }
            TopicDdl::Drop(_) => Vec::new(),
        }
    }
}
