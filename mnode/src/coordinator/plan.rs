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
            let readers = readers(state, key, members);
            let due = match group.pending {
                Some(_) => self.has_failed(key),
                None => {
                    unapplied.contains(key)
                        || group.members != *members
                        || !group.fits(members, &vgroups, &served, &reached)
                        || !group.is_shared_among(&readers, &reached)
                }
            };
            if due {
                commands.push(Command::Rebalance(Rebalance {
                    key: key.clone(),
                    from_epoch: group.last_epoch(),
                    members: members.clone(),
                    next: rebalance(&group.assignment(), &readers, &reached),
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

    /// Whether each of `readers` has its share of the vgroups that can be reached and nobody else has any. Only a right
    /// that was given or taken makes this untrue of a group whose members are what they were.
    fn is_shared_among(&self, readers: &BTreeSet<ConsumerId>, reached: &BTreeSet<VgroupId>) -> bool {
        let mut shares: BTreeMap<ConsumerId, u32> = readers.iter().map(|reader| (*reader, 0)).collect();
        let owned = self.owners.iter().filter(|(vgroup, _)| reached.contains(vgroup));
        for owner in owned.filter_map(|(_, owner)| owner.consumer) {
            match shares.get_mut(&owner) {
                Some(share) => *share += 1,
                None => return false,
            }
        }
        let (least, most) = (shares.values().min(), shares.values().max());
        least.zip(most).is_none_or(|(least, most)| most - least <= 1)
    }
}

/// The members that vgroups are for. One whose right to read was taken stays a member and gives its vgroups up to those
/// that may read; where nobody may, all keep what they have until somebody is given the right back.
fn readers(state: &MnodeState, key: &GroupKey, members: &BTreeSet<ConsumerId>) -> BTreeSet<ConsumerId> {
    let Some(topic) = state.catalog().topic_by_id(key.topic) else { return members.clone() };
    let may_read = |id: &&ConsumerId| state.consumer(**id).is_ok_and(|c| state.may_subscribe(&c.user, topic));
    let readers: BTreeSet<ConsumerId> = members.iter().filter(may_read).copied().collect();
    if readers.is_empty() { members.clone() } else { readers }
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
