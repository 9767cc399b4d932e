//! What the leader has to do on shards, one job each, and which job waits for which.

use model::TopicId;

use super::Coordinator;
use crate::shards::TopicDdl;
use crate::state::{GroupKey, IntentKind, MnodeState};

/// Something that is done by one job at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A statement is to be carried out by the shards.
    Intent {
        /// Its number.
        id: u64,
        /// The topic whose groups it removes.
        removes: Option<TopicId>,
    },
    /// The shards are to be told a group's new owners.
    Switch(GroupKey),
}

impl Work {
    /// Whether it has to wait for another job: a shard that is told an owner after it has dropped the group would keep
    /// the group for ever.
    #[must_use]
    pub fn waits_for(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Intent { removes: Some(topic), .. }, Self::Switch(key)) => key.topic == *topic,
            _ => false,
        }
    }
}

fn removes(kind: &IntentKind) -> Option<TopicId> {
    match kind {
        IntentKind::Topic(TopicDdl::Drop(topic)) => Some(*topic),
        IntentKind::DropGroup { key } => Some(key.topic),
        _ => None,
    }
}

impl Coordinator {
    /// What the state says is under way, statements first.
    #[must_use]
    pub fn work(&self, state: &MnodeState) -> Vec<Work> {
        let switches = state.groups().filter(|(key, _)| self.may_switch(state, key));
        let switches = switches.map(|(key, _)| Work::Switch(key.clone()));
        let intents = state.intents().map(|i| Work::Intent { id: i.id, removes: removes(&i.kind) });
        intents.chain(switches).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::world::World;
    use crate::spec::DropGroupSpec;
    use crate::state::Command;

    /// A shard forgets a group by its name. Were it told the new group's owner before, nobody could read that vgroup.
    #[test]
    fn a_group_made_again_waits_for_the_drop_of_the_old_one() {
        let mut world = World::new(2);
        world.subscribe(1, &["t"]).unwrap();
        world.drive();
        let key = world.key("g", "t");
        let spec = DropGroupSpec { group: "g".into(), topic: "t".into(), if_exists: false, force: true };
        world.run(Command::DropGroup { by: "root".into(), spec }).unwrap();
        world.subscribe(2, &["t"]).unwrap();
        world.plan();
        let work = |world: &World| world.coordinator.work(&world.state);
        for _ in 0..3 {
            assert!(
                matches!(&work(&world)[..], [Work::Intent { removes: Some(_), .. }]),
                "however long it takes"
            );
            world.coordinator.tick(&world.state);
        }
        world.finish_intents();
        assert_eq!(work(&world), [Work::Switch(key)]);
    }
}
