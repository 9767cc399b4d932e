//! What a consumer is told of its assignment.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{ConsumerId, Epoch, Error, Result, VgroupId};

use super::Coordinator;
use crate::shards::TopicInfo;
use crate::spec::OffsetReset;
use crate::state::{ConsumerState, Group, GroupKey, MnodeState};

/// What a consumer owns: everything, never a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerAssignment {
    /// The consumer's epoch. Another one than it knows: something changed.
    pub epoch: u64,
    /// `Rebalancing` until the last subscribe is applied on every topic.
    pub state: ConsumerState,
    /// Its group.
    pub group: String,
    /// Its policy for vgroups without a committed offset.
    pub offset_reset: OffsetReset,
    /// By topic name.
    pub topics: Vec<TopicAssignment>,
}

/// A consumer's part of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicAssignment {
    /// The topic, with its definition's version.
    pub topic: Arc<TopicInfo>,
    /// Epoch of the group's assignment.
    pub epoch: Epoch,
    /// Vgroups, each with the token that its shard holds for this consumer: polls and commits carry it. It stays while
    /// the consumer keeps the vgroup.
    pub vgroups: Vec<(VgroupId, Epoch)>,
    /// What is about to be taken from the consumer, while it may still commit.
    pub hand_over: Option<HandOver>,
    /// Vgroups of the topic that nobody of the group is given before they are back.
    pub offline: Vec<OfflineVgroup>,
    /// Without the right the consumer stays a member and gets nothing of the topic.
    pub permitted: bool,
}

/// A hand-over under way, as a consumer sees it that loses vgroups by it. It is waited for, some seconds at most, until it
/// answers with [`Mnode::release`](crate::Mnode::release).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// Of the assignment to come.
    pub epoch: Epoch,
    /// What the consumer loses.
    pub revoked: BTreeSet<VgroupId>,
}

/// A vgroup whose shard does not serve.
#[derive(Clone, Debug)]
pub struct OfflineVgroup {
    /// Which.
    pub vgroup: VgroupId,
    /// Why.
    pub error: Error,
}

impl PartialEq for OfflineVgroup {
    fn eq(&self, other: &Self) -> bool {
        let told = |of: &Self| (of.vgroup, of.error.code(), of.error.message().to_owned());
        told(self) == told(other)
    }
}

impl Eq for OfflineVgroup {}

impl Coordinator {
    /// The assignment in force of a consumer.
    ///
    /// # Errors
    /// 0x03E6
    pub fn assignment(&self, state: &MnodeState, id: ConsumerId) -> Result<ConsumerAssignment> {
        let consumer = state.consumer(id)?;
        let mut topics: Vec<_> = consumer
            .topics
            .iter()
            .filter_map(|topic| {
                let key = GroupKey { topic: *topic, group: consumer.group.clone() };
                let (topic, group) = (state.catalog().topic_by_id(*topic)?, state.group(&key)?);
                Some(TopicAssignment {
                    topic: Arc::clone(topic),
                    epoch: group.epoch,
                    // One that is gone is about to be taken away: its owner could only fail to read it.
                    vgroups: group.owned_by(id).filter(|(vgroup, _)| !self.is_gone(*vgroup)).collect(),
                    hand_over: hand_over(group, id),
                    offline: offline(state, self, &key, group),
                    permitted: state.may_subscribe(&consumer.user, topic),
                })
            })
            .collect();
        topics.sort_by(|a, b| a.topic.name.cmp(&b.topic.name));
        Ok(ConsumerAssignment {
            epoch: consumer.epoch,
            state: consumer.state(),
            group: consumer.group.clone(),
            offset_reset: consumer.parameters.offset_reset,
            topics,
        })
    }
}

/// Vgroups that nobody of the group has. One that took no new owner may go on being read by the one that it has.
fn offline(
    state: &MnodeState,
    coordinator: &Coordinator,
    key: &GroupKey,
    group: &Group,
) -> Vec<OfflineVgroup> {
    let is_owned = |vgroup: VgroupId| {
        let owner = group.owners.get(&vgroup).and_then(|owner| owner.consumer);
        owner.is_some() && !coordinator.is_gone(vgroup)
    };
    let vgroups = state.catalog().topic_vgroups(key.topic).iter().copied();
    let vgroups = vgroups.filter(|vgroup| !is_owned(*vgroup));
    let offline = vgroups.filter_map(|vgroup| {
        let error = coordinator.offline(vgroup)?.clone();
        Some(OfflineVgroup { vgroup, error })
    });
    offline.collect()
}

fn hand_over(group: &Group, id: ConsumerId) -> Option<HandOver> {
    let revoked = group.revoked().remove(&id)?;
    Some(HandOver { epoch: group.last_epoch(), revoked })
}
