//! Consumer groups as this shard knows them: who reads, what was committed, where `latest` was.

use std::collections::{BTreeMap, BTreeSet};

use model::{ConsumerId, Epoch, TopicId, Version};
use serde::{Deserialize, Serialize};

use crate::record::OwnerRecord;

/// One group on one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// Who reads; `None` before the first owner and after the last.
    pub owner: Option<ConsumerId>,
    /// Epoch of the last Owner record.
    pub epoch: Epoch,
    /// The last commit.
    pub committed: Option<Committed>,
    /// Where `latest` was resolved, while the group has members and has not committed.
    pub start: Option<Version>,
}

/// A committed offset and the commit that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Next version to deliver.
    pub offset: Version,
    /// Who committed.
    pub consumer: ConsumerId,
    /// With which number.
    pub sequence: u64,
}

impl GroupState {
    /// Whether `consumer` with this token may read and commit.
    #[must_use]
    pub fn is_owned_by(&self, consumer: ConsumerId, epoch: Epoch) -> bool {
        self.owner == Some(consumer) && self.epoch == epoch
    }

    /// Whether a commit with this number comes after the last one. Numbers of different consumers do not compare: the
    /// token has settled which of them may commit.
    #[must_use]
    pub fn is_next_commit(&self, consumer: ConsumerId, sequence: u64) -> bool {
        self.committed.as_ref().is_none_or(|last| last.consumer != consumer || last.sequence < sequence)
    }

    /// Whether a change of owner is news. One with an older epoch has been overtaken, one with the same is a retry.
    #[must_use]
    pub fn is_new_owner(&self, epoch: Epoch) -> bool {
        epoch > self.epoch
    }
}

/// Name of a group on a topic.
pub type GroupKey = (TopicId, String);

/// All groups of all topics.
#[derive(Debug, Default)]
pub struct Groups {
    by_topic: BTreeMap<TopicId, BTreeMap<String, GroupState>>,
    /// Changed since the last checkpoint.
    pub(super) dirty: BTreeSet<GroupKey>,
}

impl Groups {
    /// What is known of a group.
    #[must_use]
    pub fn get(&self, topic: TopicId, group: &str) -> Option<&GroupState> {
        self.by_topic.get(&topic).and_then(|groups| groups.get(group))
    }

    /// All groups of a topic, by name.
    pub fn of_topic(&self, topic: TopicId) -> impl Iterator<Item = (&String, &GroupState)> {
        self.by_topic.get(&topic).into_iter().flatten()
    }

    /// Takes in a group from a checkpoint.
    pub(crate) fn restore(&mut self, key: GroupKey, state: GroupState) {
        self.by_topic.entry(key.0).or_default().insert(key.1, state);
    }

    fn entry(&mut self, topic: TopicId, group: &str) -> &mut GroupState {
        self.dirty.insert((topic, group.to_owned()));
        self.by_topic.entry(topic).or_default().entry(group.to_owned()).or_default()
    }

    pub(super) fn set_owner(&mut self, record: &OwnerRecord) {
        let state = self.entry(record.topic, &record.group);
        if state.is_new_owner(record.epoch) {
            state.owner = record.owner;
            state.epoch = record.epoch;
            if record.owner.is_none() {
                state.start = None;
            }
        }
    }

    pub(super) fn commit(
        &mut self,
        topic: TopicId,
        group: &str,
        epoch: Epoch,
        Committed { offset, consumer, sequence }: Committed,
    ) {
        // The proposer has checked this; checked again, since what follows from the log must not depend on who wrote it.
        let is_current = self.get(topic, group).is_some_and(|state| {
            state.is_owned_by(consumer, epoch) && state.is_next_commit(consumer, sequence)
        });
        if is_current {
            let state = self.entry(topic, group);
            state.committed = Some(Committed { offset, consumer, sequence });
            state.start = None;
        }
    }

    pub(super) fn start(&mut self, topic: TopicId, group: &str, at: Version) {
        let state = self.entry(topic, group);
        if state.committed.is_none() && state.start.is_none() {
            state.start = Some(at);
        }
    }

    pub(super) fn drop_group(&mut self, topic: TopicId, group: &str) {
        self.dirty.insert((topic, group.to_owned()));
        if let Some(groups) = self.by_topic.get_mut(&topic) {
            groups.remove(group);
        }
    }

    pub(super) fn drop_topic(&mut self, topic: TopicId) {
        for (group, _) in self.by_topic.remove(&topic).into_iter().flatten() {
            self.dirty.insert((topic, group));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TopicId = TopicId(1);

    fn owner(epoch: u64, owner: Option<u64>) -> OwnerRecord {
        OwnerRecord { topic: T, group: "g".into(), epoch: Epoch(epoch), owner: owner.map(ConsumerId) }
    }

    fn commit(groups: &mut Groups, consumer: u64, epoch: u64, sequence: u64, offset: u64) -> Option<Version> {
        let committed = Committed { offset: Version(offset), consumer: ConsumerId(consumer), sequence };
        groups.commit(T, "g", Epoch(epoch), committed);
        groups.get(T, "g").and_then(|state| state.committed.as_ref()).map(|committed| committed.offset)
    }

    #[test]
    fn only_the_owner_commits_and_late_retries_change_nothing() {
        let mut groups = Groups::default();
        assert_eq!(commit(&mut groups, 7, 1, 1, 100), None, "no owner yet");
        groups.set_owner(&owner(1, Some(7)));
        assert_eq!(commit(&mut groups, 7, 1, 1, 100), Some(Version(100)));
        assert_eq!(commit(&mut groups, 7, 1, 3, 220), Some(Version(220)));
        assert_eq!(commit(&mut groups, 7, 1, 2, 160), Some(Version(220)), "C021: an old request retried");
        assert_eq!(commit(&mut groups, 7, 1, 4, 130), Some(Version(130)), "going back on purpose");
        groups.set_owner(&owner(2, Some(8)));
        assert_eq!(commit(&mut groups, 7, 1, 9, 900), Some(Version(130)), "C006: a zombie");
        assert_eq!(commit(&mut groups, 8, 1, 1, 900), Some(Version(130)), "right consumer, old token");
        assert_eq!(
            commit(&mut groups, 8, 2, 1, 140),
            Some(Version(140)),
            "numbers of another consumer begin anew"
        );
    }

    #[test]
    fn an_overtaken_change_of_owner_changes_nothing() {
        let mut groups = Groups::default();
        groups.set_owner(&owner(5, Some(7)));
        groups.set_owner(&owner(4, Some(8)));
        assert!(groups.get(T, "g").unwrap().is_owned_by(ConsumerId(7), Epoch(5)));
    }

    #[test]
    fn latest_is_remembered_until_the_last_member_leaves() {
        let mut groups = Groups::default();
        groups.set_owner(&owner(1, Some(7)));
        groups.start(T, "g", Version(50));
        groups.start(T, "g", Version(60));
        groups.set_owner(&owner(2, Some(8)));
        assert_eq!(groups.get(T, "g").unwrap().start, Some(Version(50)));
        groups.set_owner(&owner(3, None));
        assert_eq!(groups.get(T, "g").unwrap().start, None);
    }
}
