//! Planned hand-overs: a member that is to give vgroups up gets the time to finish with them and to commit, so that their
//! next owner begins behind what it has handled. Nothing rests on its word: until the shards are told their next owner
//! they take its commits, from then on they refuse them, whatever was or was not said here.

use std::collections::{BTreeMap, BTreeSet};

use model::{ConsumerId, Epoch, Result, TopicId};

use crate::state::{GroupKey, IntentKind, MnodeState};

/// Ticks after which a hand-over goes on without those that have said nothing: a member that handles one message for
/// long delivers that one twice, and nobody waits for it any longer.
const PATIENCE_TICKS: u32 = 2;

#[derive(Debug)]
struct HandOver {
    epoch: Epoch,
    released: BTreeSet<ConsumerId>,
    ticks: u32,
}

impl HandOver {
    const fn new(epoch: Epoch) -> Self {
        Self { epoch, released: BTreeSet::new(), ticks: 0 }
    }
}

/// Who can be told of a hand-over, and who has answered.
#[derive(Debug, Default)]
pub(super) struct HandOvers {
    /// Watches of each consumer's assignment: one without any, a dead one say, is not waited for.
    listening: BTreeMap<ConsumerId, u32>,
    under_way: BTreeMap<GroupKey, HandOver>,
}

impl HandOvers {
    /// The entry of the group's switch under way: a switch that replaces another asks anew.
    fn of(&mut self, key: &GroupKey, epoch: Epoch) -> &mut HandOver {
        let found = self.under_way.entry(key.clone()).or_insert(HandOver::new(epoch));
        if found.epoch != epoch {
            *found = HandOver::new(epoch);
        }
        found
    }

    pub(super) fn tick(&mut self, state: &MnodeState) {
        self.under_way.retain(|key, _| state.group(key).is_some_and(|group| group.pending.is_some()));
        for (key, group) in state.groups() {
            if let Some(pending) = &group.pending {
                let ticks = &mut self.of(key, pending.epoch).ticks;
                *ticks = ticks.saturating_add(1);
            }
        }
    }
}

impl super::Coordinator {
    /// The consumer begins, or ceases, to watch its assignment.
    pub fn listens(&mut self, consumer: ConsumerId, begins: bool) {
        let watches = self.hand_overs.listening.entry(consumer).or_default();
        *watches = if begins { watches.saturating_add(1) } else { watches.saturating_sub(1) };
        if *watches == 0 {
            self.hand_overs.listening.remove(&consumer);
        }
    }

    /// The consumer is done with what the hand-over `epoch` of its group on `topic` takes from it. Without effect when
    /// that hand-over is over or was replaced.
    ///
    /// # Errors
    /// 0x03E6 if the consumer is unknown or was removed.
    pub fn released(
        &mut self,
        state: &MnodeState,
        consumer: ConsumerId,
        topic: TopicId,
        epoch: Epoch,
    ) -> Result<()> {
        let key = GroupKey { topic, group: state.consumer(consumer)?.group.clone() };
        let pending = state.group(&key).and_then(|group| group.pending.as_ref());
        if pending.is_some_and(|pending| pending.epoch == epoch) {
            self.hand_overs.of(&key, epoch).released.insert(consumer);
        }
        Ok(())
    }

    /// Whether the shards may be told the owners of the group's switch under way: everybody who loses vgroups by it has
    /// released them, cannot be asked, or took too long. Not while a group that had this name is being dropped: its shards
    /// would take the drop, or its next try, for one of the new group, or the new group for the old one's heir.
    #[must_use]
    pub fn may_switch(&self, state: &MnodeState, key: &GroupKey) -> bool {
        let Some(group) = state.group(key) else { return false };
        let Some(pending) = &group.pending else { return false };
        if state
            .intents()
            .any(|i| matches!(&i.kind, IntentKind::DropGroup { key: dropped } if dropped == key))
        {
            return false;
        }
        let asked = self.hand_overs.under_way.get(key).filter(|asked| asked.epoch == pending.epoch);
        let is_done = |consumer: &ConsumerId| {
            !self.hand_overs.listening.contains_key(consumer)
                || asked.is_some_and(|asked| asked.released.contains(consumer))
        };
        asked.is_some_and(|asked| asked.ticks >= PATIENCE_TICKS) || group.revoked().keys().all(is_done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::world::World;

    /// Consumer 1 owns all four and listens; consumer 2 comes.
    fn joining() -> (World, GroupKey) {
        let mut world = World::new(4);
        world.subscribe(1, &["t"]).unwrap();
        world.drive();
        world.coordinator.listens(ConsumerId(1), true);
        world.subscribe(2, &["t"]).unwrap();
        world.drive();
        let key = world.key("g", "t");
        (world, key)
    }

    fn release(world: &mut World, consumer: u64, key: &GroupKey, epoch: Epoch) -> Result<()> {
        let World { coordinator, state, .. } = world;
        coordinator.released(state, ConsumerId(consumer), key.topic, epoch)
    }

    #[test]
    fn the_owner_commits_until_it_has_released() {
        let (mut world, key) = joining();
        let group = world.group("t");
        let (epoch, token) = (group.last_epoch(), group.epoch);
        let revoked = group.revoked();
        assert_eq!(revoked.keys().collect::<Vec<_>>(), [&ConsumerId(1)]);
        assert_eq!(revoked[&ConsumerId(1)].len(), 2, "only what moves");
        let lost = *revoked[&ConsumerId(1)].first().unwrap();
        assert!(world.accepts(lost, &key, ConsumerId(1), token), "it may still commit");
        assert_eq!((world.count(1, "t"), world.count(2, "t")), (4, 0));
        release(&mut world, 1, &key, epoch).unwrap();
        world.drive();
        assert_eq!((world.count(1, "t"), world.count(2, "t")), (2, 2), "at once, without a tick");
        assert!(!world.accepts(lost, &key, ConsumerId(1), token), "and now no more");
        assert_eq!(release(&mut world, 9, &key, epoch).unwrap_err().code(), model::Code::ConsumerNotExist);
    }

    #[test]
    fn nobody_waits_long_for_one_that_says_nothing() {
        let (mut world, key) = joining();
        // Another switch's epoch, or another consumer's word, is no answer.
        let epoch = world.group("t").last_epoch();
        release(&mut world, 1, &key, Epoch(epoch.0 - 1)).unwrap();
        release(&mut world, 2, &key, epoch).unwrap();
        world.tick_with(&[1, 2]);
        assert_eq!(world.count(2, "t"), 0);
        world.tick_with(&[1, 2]);
        assert_eq!((world.count(1, "t"), world.count(2, "t")), (2, 2));
    }

    #[test]
    fn who_does_not_listen_is_not_waited_for() {
        let (mut world, _) = joining();
        world.coordinator.listens(ConsumerId(1), false);
        world.drive();
        assert_eq!((world.count(1, "t"), world.count(2, "t")), (2, 2));
    }

    #[test]
    fn who_leaves_has_nothing_to_release() {
        let (mut world, _) = joining();
        world.coordinator.listens(ConsumerId(1), false);
        world.drive();
        world.coordinator.listens(ConsumerId(1), true);
        world.subscribe(1, &[]).unwrap();
        world.drive();
        assert_eq!(world.count(2, "t"), 4);
    }

    #[test]
    fn a_switch_that_replaces_another_asks_anew() {
        let (mut world, key) = joining();
        let first = world.group("t").last_epoch();
        release(&mut world, 1, &key, first).unwrap();
        // A shard refuses, the switch is planned anew without it.
        let lost = *world.group("t").revoked()[&ConsumerId(1)].first().unwrap();
        world.broken.insert(lost);
        world.drive();
        let group = world.group("t");
        assert!(group.pending.is_some() && group.last_epoch() > first, "{group:?}");
        let second = group.last_epoch();
        release(&mut world, 1, &key, second).unwrap();
        world.drive();
        assert!(world.group("t").pending.is_none());
    }
}
