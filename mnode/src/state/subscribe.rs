//! Consumers come, change their topics, time out and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Code, ConsumerId, Epoch, Error, Result, TopicId};

use super::topics::NAME_BYTES_MAX;
use super::{Consumer, ConsumerState, Event, Group, GroupKey, MnodeState};
use crate::shards::TopicInfo;
use crate::spec::{ConsumerParameters, ConsumerSpec, TopicKind};

/// Groups a topic may have.
pub const GROUPS_MAX: usize = 100;
const CLIENT_ID_BYTES_MAX: usize = 255;

impl MnodeState {
    /// Every consumer, by id.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.consumers.values()
    }

    /// The consumer with this id.
    ///
    /// # Errors
    /// 0x03E6 if it is unknown, or was removed by timeout and has not subscribed again.
    pub fn consumer(&self, id: ConsumerId) -> Result<&Consumer> {
        self.consumers.get(&id).filter(|c| !c.expired).ok_or_else(|| Error::of(Code::ConsumerNotExist))
    }

    pub(crate) fn consumer_or_expired(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(&id)
    }

    /// The topic's name for people; its number once it is dropped.
    pub(crate) fn topic_name(&self, id: TopicId) -> String {
        self.catalog.topic_by_id(id).map_or_else(|| id.to_string(), |topic| topic.name.clone())
    }

    /// All or nothing: any fault leaves the earlier subscription running.
    pub(super) fn check_subscribe(&self, spec: &ConsumerSpec, topics: &[String]) -> Result<()> {
        let known = self.consumers.get(&spec.id);
        if let Some(known) = known
            && (known.group != spec.group || known.user != spec.user)
        {
            return Err(Error::with(
                Code::SubscribeOptionInvalid,
                "this consumer id belongs to another consumer",
            ));
        }
        if topics.is_empty() {
            // Unsubscribe goes through in every state, so that closing never has to wait for a rebalance; and of a
            // consumer that was removed it is a success already.
            return Ok(());
        }
        check_spec(spec)?;
        let target = self.resolve(spec, topics)?;
        for topic in target.iter().map(|t| t.id) {
            let key = GroupKey { topic, group: spec.group.clone() };
            // An existing group never fails on the limit, or its members could not come back.
            if !self.groups.contains_key(&key) && self.groups_of(topic).count() >= GROUPS_MAX {
                return Err(Error::of(Code::GroupLimit));
            }
        }
        let target: BTreeSet<TopicId> = target.iter().map(|t| t.id).collect();
        match known {
            // The same set again is the answer to a lost reply, not a change.
            Some(c) if !c.expired && c.state() == ConsumerState::Rebalancing && c.target != target => {
                Err(Error::of(Code::ConsumerNotReady))
            }
            _ => Ok(()),
        }
    }

    /// The topics meant, each once, all of which the consumer may read in the way it asks for.
    fn resolve(&self, spec: &ConsumerSpec, topics: &[String]) -> Result<Vec<Arc<TopicInfo>>> {
        let names: BTreeSet<&String> = topics.iter().collect();
        if let Some(name) = names.iter().find(|n| n.len() > NAME_BYTES_MAX) {
            return Err(Error::with(
                Code::InvalidParameters,
                format_args!("topic name of {} bytes", name.len()),
            ));
        }
        let topics = names.iter().map(|name| self.topic_to_subscribe(&spec.user, name).cloned());
        let topics: Vec<_> = topics.collect::<Result<_>>()?;
        if spec.parameters.replay {
            for topic in &topics {
                match topic.kind {
                    TopicKind::Query { of_stable } => {
                        if of_stable && self.catalog.topic_vgroups(topic.id).len() != 1 {
                            return Err(Error::with(Code::ReplayVgroups, &topic.name));
                        }
                    }
                    _ => return Err(Error::with(Code::ReplayKind, &topic.name)),
                }
            }
        }
        Ok(topics)
    }

    pub(super) fn apply_subscribe(
        &mut self,
        spec: &ConsumerSpec,
        topics: &[String],
        time_ns: i64,
    ) -> Vec<Event> {
        if topics.is_empty() {
            return self.unsubscribe(spec.id, time_ns);
        }
        let Ok(topics) = self.resolve(spec, topics) else { return Vec::new() };
        let target: BTreeSet<TopicId> = topics.iter().map(|t| t.id).collect();
        // Each step of an epoch takes a record of this log, so epochs never overtake versions: what starts from the
        // version now is above every epoch that an earlier bearer of the same name had, and no token means two things.
        let first_epoch = self.applied.0;
        for topic in &target {
            let key = GroupKey { topic: *topic, group: spec.group.clone() };
            self.groups.entry(key).or_insert_with(|| Group { epoch: Epoch(first_epoch), ..Group::default() });
        }
        let consumer = self.consumers.entry(spec.id).or_insert_with(|| Consumer {
            id: spec.id,
            group: spec.group.clone(),
            client_id: String::new(),
            user: spec.user.clone(),
            host: String::new(),
            end_point: String::new(),
            parameters: ConsumerParameters::default(),
            epoch: first_epoch,
            topics: BTreeSet::new(),
            target: BTreeSet::new(),
            shown: BTreeSet::new(),
            subscription: 0,
            expired: false,
            up_time_ns: time_ns,
            subscribe_time_ns: time_ns,
            rebalance_time_ns: None,
        });
        consumer.client_id = cut(&spec.client_id, CLIENT_ID_BYTES_MAX);
        consumer.host.clone_from(&spec.host);
        consumer.end_point.clone_from(&spec.end_point);
        consumer.parameters = spec.parameters.clone();
        consumer.subscribe_time_ns = time_ns;
        consumer.subscription += 1;
        consumer.expired = false;
        consumer.shown.clone_from(&target);
        let changed = consumer.target != target;
        consumer.target = target;
        let mut events = vec![Event::Subscribed(spec.id)];
        if changed {
            events.push(Event::Membership);
        }
        events
    }

    fn unsubscribe(&mut self, id: ConsumerId, time_ns: i64) -> Vec<Event> {
        let Some(consumer) = self.consumers.get_mut(&id) else { return vec![Event::Unchanged] };
        let changed = !consumer.target.is_empty();
        consumer.subscribe_time_ns = time_ns;
        consumer.subscription += 1;
        consumer.target.clear();
        consumer.shown.clear();
        let mut events = vec![Event::Subscribed(id)];
        if changed {
            events.push(Event::Membership);
        }
        events
    }

    /// Timed-out consumers lose their topics like one that unsubscribes, but stay listed until they are deleted.
    pub(super) fn apply_expire(&mut self, ids: &BTreeMap<ConsumerId, u64>) -> Vec<Event> {
        let mut gone = BTreeSet::new();
        for (id, subscription) in ids {
            if let Some(consumer) = self.consumers.get_mut(id)
                && !consumer.expired
                && consumer.subscription == *subscription
            {
                consumer.expired = true;
                consumer.target.clear();
                gone.insert(*id);
            }
        }
        vec![Event::Gone(gone), Event::Membership]
    }

    /// Only what is still clear goes: a consumer that subscribed in between is none to delete.
    pub(super) fn apply_delete(&mut self, ids: &BTreeSet<ConsumerId>) -> Vec<Event> {
        let clear = |id: &&ConsumerId| self.consumers.get(id).is_some_and(Consumer::is_clear);
        let ids = ids.iter().filter(clear).copied().collect();
        self.delete_consumers(&ids)
    }

    /// Removes consumers as a whole. Groups that list them find them unknown at the rebalance that follows.
    pub(super) fn delete_consumers(&mut self, ids: &BTreeSet<ConsumerId>) -> Vec<Event> {
        self.consumers.retain(|id, _| !ids.contains(id));
        vec![Event::Gone(ids.clone()), Event::Membership]
    }
}

fn check_spec(spec: &ConsumerSpec) -> Result<()> {
    let invalid = |what: &str| Err(Error::with(Code::SubscribeOptionInvalid, what));
    let p = &spec.parameters;
    if spec.group.is_empty() || spec.group.len() > NAME_BYTES_MAX || spec.group.contains(':') {
        return invalid("group.id");
    }
    if !(6_000..=1_800_000).contains(&p.session_timeout_ms) {
        return invalid("session.timeout.ms");
    }
    if p.max_poll_interval_ms < 1_000 {
        return invalid("max.poll.interval.ms");
    }
    Ok(())
}

/// At most `bytes` bytes of `text`, whole characters.
fn cut(text: &str, bytes: usize) -> String {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default().to_owned()
}
