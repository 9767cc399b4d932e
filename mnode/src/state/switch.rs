//! A hand-over of vgroups: fixed as pending, told to the shards, put in force.

use std::collections::{BTreeMap, BTreeSet};

use model::{ConsumerId, Epoch, Result, TopicId, VgroupId};

use super::command::Rebalance;
use super::group::{GroupKey, Owner, Pending, Settled};
use super::intent::stale;
use super::{Event, Group, MnodeState};
use crate::shards::OwnerChange;

impl MnodeState {
    /// Every group, topic by topic.
    pub fn groups(&self) -> impl Iterator<Item = (&GroupKey, &Group)> {
        self.groups.iter()
    }

    /// One group.
    #[must_use]
    pub fn group(&self, key: &GroupKey) -> Option<&Group> {
        self.groups.get(key)
    }

    pub(super) fn groups_of(&self, topic: TopicId) -> impl Iterator<Item = (&GroupKey, &Group)> {
        let first = GroupKey { topic, group: String::new() };
        self.groups.range(first..).take_while(move |(key, _)| key.topic == topic)
    }

    /// Consumers that want to be members, for every group that has any.
    #[must_use]
    pub fn wanted_members(&self) -> BTreeMap<GroupKey, BTreeSet<ConsumerId>> {
        let mut wanted: BTreeMap<GroupKey, BTreeSet<ConsumerId>> = BTreeMap::new();
        for consumer in self.consumers.values() {
            for topic in &consumer.target {
                let key = GroupKey { topic: *topic, group: consumer.group.clone() };
                wanted.entry(key).or_default().insert(consumer.id);
            }
        }
        wanted
    }

    pub(super) fn check_rebalance(&self, rebalance: &Rebalance) -> Result<()> {
        let group = self.groups.get(&rebalance.key).ok_or_else(|| stale("rebalance"))?;
        let wants = |id: &ConsumerId| {
            self.consumers
                .get(id)
                .is_some_and(|c| c.group == rebalance.key.group && c.target.contains(&rebalance.key.topic))
        };
        let vgroups = self.catalog.topic_vgroups(rebalance.topic());
        let owners = &rebalance.next.owners;
        let fits = group.last_epoch() == rebalance.from_epoch
            // Shares rest on who is really there: not on somebody that has gone or changed their mind meanwhile.
            && rebalance.members.iter().all(wants)
            && owners.keys().all(|v| vgroups.contains(v))
            && owners.values().flatten().all(|owner| rebalance.members.contains(owner));
        if fits { Ok(()) } else { Err(stale("rebalance")) }
    }

    pub(super) fn apply_rebalance(&mut self, rebalance: &Rebalance) -> Vec<Event> {
        let Some(group) = self.groups.get_mut(&rebalance.key) else { return Vec::new() };
        let maybe_told = group.pending.take().map(|p| p.moved).unwrap_or_default();
        let moved = |(vgroup, owner): (&VgroupId, &Option<ConsumerId>)| {
            let held = group.owners.get(vgroup);
            let same = held.is_some_and(|h| h.settled && h.consumer == *owner);
            // Nobody ever owned it and nobody will: its shard need not hear of the group.
            let never = held.is_none() && owner.is_none();
            ((!same && !never) || maybe_told.contains(vgroup)).then_some(*vgroup)
        };
        let moved = rebalance.next.owners.iter().filter_map(moved).collect();
        // A shard that could not be reached may still have been told by the switch that this one replaces.
        for vgroup in maybe_told.iter().filter(|v| !rebalance.next.owners.contains_key(v)) {
            let unknown = Owner { consumer: None, epoch: group.epoch, settled: false };
            group.owners.entry(*vgroup).or_insert(unknown).settled = false;
        }
        group.pending = Some(Pending {
            epoch: Epoch(rebalance.from_epoch.0.saturating_add(1)),
            members: rebalance.members.clone(),
            next: rebalance.next.clone(),
            moved,
        });
        let losers = group.revoked().into_keys().collect();
        vec![Event::Pending(rebalance.key.clone()), Event::Assigned(losers)]
    }

    /// What the shards have to be told before a pending assignment may be put in force.
    #[must_use]
    pub fn owner_changes(&self, key: &GroupKey) -> Vec<(VgroupId, OwnerChange)> {
        let Some(pending) = self.groups.get(key).and_then(|g| g.pending.as_ref()) else { return Vec::new() };
        let change = |vgroup: &VgroupId| {
            let owner = pending.next.owners.get(vgroup).copied().flatten();
            let change =
                OwnerChange { topic: key.topic, group: key.group.clone(), epoch: pending.epoch, owner };
            (*vgroup, change)
        };
        pending.moved.iter().map(change).collect()
    }

    pub(super) fn check_activate(&self, key: &GroupKey, epoch: Epoch) -> Result<()> {
        let pending = self.groups.get(key).and_then(|g| g.pending.as_ref());
        if pending.is_some_and(|p| p.epoch == epoch) { Ok(()) } else { Err(stale("activation")) }
    }

    pub(super) fn apply_activate(
        &mut self,
        key: &GroupKey,
        settled: &BTreeMap<VgroupId, Settled>,
        time_ns: i64,
    ) -> Vec<Event> {
        let vgroups: BTreeSet<VgroupId> = self.catalog.topic_vgroups(key.topic).iter().copied().collect();
        let Some(group) = self.groups.get_mut(key) else { return Vec::new() };
        let Some(pending) = group.pending.take() else { return Vec::new() };
        for (vgroup, add) in settled {
            let total = group.settled.entry(*vgroup).or_default();
            total.rows = total.rows.saturating_add(add.rows);
            total.place = add.place.or(total.place);
        }
        let before = std::mem::replace(&mut group.members, pending.members);
        group.owners =
            next_owners(&group.owners, &pending.next.owners, &pending.moved, pending.epoch, &vgroups);
        group.settled.retain(|vgroup, _| vgroups.contains(vgroup));
        group.epoch = pending.epoch;
        let members = group.members.clone();
        self.settle_members(key, before, &members, time_ns)
    }

    /// Enters the outcome at every consumer that it concerns: members, former members, and those that asked to leave a
    /// group that never listed them, whose request would otherwise never be done.
    fn settle_members(
        &mut self,
        key: &GroupKey,
        before: BTreeSet<ConsumerId>,
        members: &BTreeSet<ConsumerId>,
        time_ns: i64,
    ) -> Vec<Event> {
        let mut concerned = before;
        for consumer in self.consumers.values_mut().filter(|c| c.group == key.group) {
            let member = members.contains(&consumer.id);
            let changed =
                if member { consumer.topics.insert(key.topic) } else { consumer.topics.remove(&key.topic) };
            if member || changed || concerned.contains(&consumer.id) {
                consumer.epoch += 1;
                consumer.rebalance_time_ns = Some(time_ns);
                concerned.insert(consumer.id);
            }
        }
        // Membership too: who leaves or joins during the switch is found by looking again.
        vec![Event::Assigned(concerned), Event::Membership]
    }

    /// Lets the members of every group of a topic ask for their assignment again.
    pub(super) fn bump_members(&mut self, topic: TopicId) -> Vec<Event> {
        let mut concerned = BTreeSet::new();
        for consumer in self.consumers.values_mut().filter(|c| c.topics.contains(&topic)) {
            consumer.epoch += 1;
            concerned.insert(consumer.id);
        }
        vec![Event::Assigned(concerned)]
    }
}

/// Owners in force after a switch: `next` for what was reached, the pool for what was not, nothing for vgroups that the
/// database no longer has.
fn next_owners(
    held: &BTreeMap<VgroupId, Owner>,
    next: &BTreeMap<VgroupId, Option<ConsumerId>>,
    moved: &BTreeSet<VgroupId>,
    epoch: Epoch,
    vgroups: &BTreeSet<VgroupId>,
) -> BTreeMap<VgroupId, Owner> {
    let mut owners = BTreeMap::new();
    for vgroup in vgroups {
        let before = held.get(vgroup).copied();
        let owner = match (next.get(vgroup), before) {
            (Some(_), Some(before)) if !moved.contains(vgroup) => before,
            (Some(consumer), _) => Owner { consumer: *consumer, epoch, settled: true },
            (None, Some(before)) => Owner { consumer: None, settled: false, ..before },
            (None, None) => continue,
        };
        owners.insert(*vgroup, owner);
    }
    owners
}
