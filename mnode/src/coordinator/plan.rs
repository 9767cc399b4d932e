//! Which groups need a rebalance, and what it would make of them.

use std::collections::{BTreeMap, BTreeSet};

use model::{ConsumerId, VgroupId};

use super::Coordinator;
use crate::rebalance::rebalance;
use crate::state::{Command, Group, GroupKey, MnodeState, Owner, Rebalance};

impl Coordinator {
    /// The rebalances that are due. Nothing for groups whose switch is under way: who comes or goes meanwhile is found
    /// when it is over, so that a crowd that joins at once costs two hand-overs and not one each.
    #[must_use]
    pub fn plan(&self, state: &MnodeState) -> Vec<Command> {
        let wanted = state.wanted_members();
        let unapplied = unapplied(state);
        let nobody = BTreeSet::new();
        let mut commands = Vec::new();
        for (key, group) in state.groups() {
            let members = wanted.get(key).unwrap_or(&nobody);
            let vgroups: BTreeSet<VgroupId> =
                state.catalog().topic_vgroups(key.topic).iter().copied().collect();
            let reached: BTreeSet<VgroupId> =
                vgroups.iter().copied().filter(|v| self.offline(*v).is_none()).collect();
            let served: BTreeSet<VgroupId> = vgroups.iter().copied().filter(|v| !self.is_gone(*v)).collect();
            let due = match group.pending {
                Some(_) => self.has_failed(key),
                None => {
                    unapplied.contains(key)
                        || group.members != *members
                        || !group.fits(members, &vgroups, &served, &reached)
                }
            };
            if due {
                commands.push(Command::Rebalance(Rebalance {
                    key: key.clone(),
                    from_epoch: group.last_epoch(),
                    members: members.clone(),
                    next: rebalance(&group.assignment(), members, &reached),
                }));
            }
        }
        commands
    }
}

impl Group {
    /// Whether the owners in force are all that can be had: every vgroup that can be reached is known, settled, and
    /// owned if there is anybody to own it; none that is not served has an owner.
    fn fits(
        &self,
        members: &BTreeSet<ConsumerId>,
        vgroups: &BTreeSet<VgroupId>,
        served: &BTreeSet<VgroupId>,
        reached: &BTreeSet<VgroupId>,
    ) -> bool {
        let settled = |v: &VgroupId| match self.owners.get(v) {
            Some(owner) => owner.settled && owner.consumer.is_some() != members.is_empty(),
            // A group without members has nothing to do with a new vgroup.
            None => members.is_empty(),
        };
        let possible = |(v, owner): (&VgroupId, &Owner)| match owner.consumer {
            Some(_) => served.contains(v),
            None => vgroups.contains(v),
        };
        self.owners.iter().all(possible) && reached.iter().all(settled)
    }
}

/// Groups on whose topic some consumer's wish is not applied. Nearly always they show in the members too; not where the
/// group never listed a consumer that leaves, or still lists one that was deleted and has come back.
fn unapplied(state: &MnodeState) -> BTreeSet<GroupKey> {
    let mut keys = BTreeMap::new();
    for consumer in state.consumers() {
        for topic in consumer.topics.symmetric_difference(&consumer.target) {
            keys.insert(GroupKey { topic: *topic, group: consumer.group.clone() }, ());
        }
    }
    keys.into_keys().collect()
}
