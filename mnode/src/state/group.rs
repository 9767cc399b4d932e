//! A consumer group on one topic: members, owners, epoch, and the switch under way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::{ConsumerId, Epoch, TopicId, VgroupId};
use serde::{Deserialize, Serialize};

use crate::rebalance::Assignment;
use crate::spec::OffsetReset;

/// Names a group on a topic. Each is balanced, fenced and shown on its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupKey {
    /// The topic.
    pub topic: TopicId,
    /// The group's name.
    pub group: String,
}

/// Who owns a vgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The consumer; `None` is the pool.
    pub consumer: Option<ConsumerId>,
    /// Epoch of the rebalance that gave it: the consumer's fencing token for this vgroup. Stays while it keeps it.
    pub epoch: Epoch,
    /// Whether the shard is known to hold just this. Not after it could not be reached in the middle of a switch.
    pub settled: bool,
}

/// The position of a group in a vgroup's log as a consumer reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportedOffset {
    /// Nothing was polled: the policy stands.
    Policy(OffsetReset),
    /// Next version to read.
    Log(u64),
}

impl fmt::Display for ReportedOffset {
    /// As SHOW SUBSCRIPTIONS prints it: `wal:105`, `earliest`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(reset) => f.write_str(reset.as_str()),
            Self::Log(version) => write!(f, "wal:{version}"),
        }
    }
}

/// Position and log end, read by the consumer at one moment, so that the position is never beyond the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Where it is.
    pub offset: ReportedOffset,
    /// Last version + 1; 0 while nothing was polled.
    pub end: u64,
}

/// What was delivered of one vgroup under owners that have it no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Rows.
    pub rows: u64,
    /// The last place reported.
    pub place: Option<Place>,
}

/// An assignment that is fixed and not in force: the shards are being told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Its epoch.
    pub epoch: Epoch,
    /// Members after it.
    pub members: BTreeSet<ConsumerId>,
    /// Owners after it, of every vgroup that can be reached.
    pub next: Assignment,
    /// Vgroups whose shard has to be told: the owner changes, or an earlier switch may have reached it.
    pub moved: BTreeSet<VgroupId>,
}

/// A consumer group on one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Of the assignment in force; before the first, the version of the log at which the group was made.
    pub epoch: Epoch,
    /// Members of the assignment in force.
    pub members: BTreeSet<ConsumerId>,
    /// Owners in force.
    pub owners: BTreeMap<VgroupId, Owner>,
    /// The switch under way.
    pub pending: Option<Pending>,
    /// Totals of former owners.
    pub settled: BTreeMap<VgroupId, Settled>,
}

impl Group {
    /// The latest epoch given out, pending or in force.
    #[must_use]
    pub fn last_epoch(&self) -> Epoch {
        self.pending.as_ref().map_or(self.epoch, |p| p.epoch)
    }

    /// The assignment in force, as the rebalance takes it.
    #[must_use]
    pub fn assignment(&self) -> Assignment {
        Assignment { owners: self.owners.iter().map(|(vgroup, owner)| (*vgroup, owner.consumer)).collect() }
    }

    /// What the switch under way takes from members that stay, by member. Those that leave have finished before.
    #[must_use]
    pub fn revoked(&self) -> BTreeMap<ConsumerId, BTreeSet<VgroupId>> {
        let mut revoked: BTreeMap<ConsumerId, BTreeSet<VgroupId>> = BTreeMap::new();
        let Some(pending) = &self.pending else { return revoked };
        for vgroup in &pending.moved {
            if let Some(Owner { consumer: Some(consumer), settled: true, .. }) = self.owners.get(vgroup)
                && pending.members.contains(consumer)
            {
                revoked.entry(*consumer).or_default().insert(*vgroup);
            }
        }
        revoked
    }

    /// Whether anybody is, or is about to be, a member.
    #[must_use]
    pub fn is_used(&self) -> bool {
        !self.members.is_empty() || self.pending.is_some()
    }

    /// What `consumer` owns, with its token for each.
    pub fn owned_by(&self, consumer: ConsumerId) -> impl Iterator<Item = (VgroupId, Epoch)> + '_ {
        self.owners
            .iter()
            .filter(move |(_, owner)| owner.consumer == Some(consumer))
            .map(|(vgroup, owner)| (*vgroup, owner.epoch))
    }
}
