//! What the leader knows besides the replicated state, and loses with it: who was heard of when, how far consumers say
//! they are, which shards cannot be reached. Counts ticks, reads no clock; decides by returning commands.

mod assignment;
mod farewell;
mod hand_over;
mod liveness;
mod plan;
mod progress;
mod reach;
#[cfg(test)]
mod rules;
mod work;
#[cfg(test)]
mod world;

use std::collections::BTreeMap;

use model::{ConsumerId, Result, TopicId};

use crate::state::{Command, GroupKey, MnodeState};

pub use assignment::{ConsumerAssignment, HandOver, OfflineVgroup, TopicAssignment};
pub use progress::{OwnerCommit, PlaceReport, Progress};
pub use work::Work;

/// The leader's volatile side of the consumer groups.
#[derive(Debug, Default)]
pub struct Coordinator {
    liveness: liveness::Liveness,
    progress: progress::Reports,
    reach: reach::Reach,
    hand_overs: hand_over::HandOvers,
    farewells: farewell::Farewells,
}

/// What a consumer says with each heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Who.
    pub consumer: ConsumerId,
    /// Whether the application has polled since the last heartbeat.
    pub polled: bool,
    /// Where it is in each vgroup that it owns.
    pub places: Vec<PlaceReport>,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The consumer's epoch: if it knows another one it has to fetch its assignment.
    pub epoch: u64,
    /// Topics that it may no longer read: a revoked consumer stays a member, its polls skip them, and members that may
    /// read have its vgroups.
    pub denied: Vec<TopicId>,
}

impl Coordinator {
    /// One check: counts everybody one tick further. Returns the removal of what is clear since the check before, and of
    /// what is overdue now; the rebalances that follow from these are the next [`plan`](Self::plan).
    pub fn tick(&mut self, state: &MnodeState) -> Vec<Command> {
        self.reach.tick();
        self.hand_overs.tick(state);
        let clear = state.consumers().filter(|c| c.is_clear()).map(|c| c.id).collect();
        let mut expired = BTreeMap::new();
        for overdue in self.liveness.tick(state) {
            expired.insert(overdue.consumer, overdue.subscription);
            self.removed(overdue.consumer, overdue.farewell);
        }
        self.progress.retain(state);
        let mut commands = Vec::new();
        let delete = Command::Delete { consumers: clear };
        commands.extend(
            matches!(&delete, Command::Delete { consumers } if !consumers.is_empty()).then_some(delete),
        );
        if !expired.is_empty() {
            commands.push(Command::Expire { consumers: expired });
        }
        commands
    }

    /// Takes in a heartbeat.
    ///
    /// # Errors
    /// 0x03E6 if the consumer is unknown or was removed.
    pub fn heartbeat(
        &mut self,
        state: &MnodeState,
        heartbeat: &Heartbeat,
        now_ns: i64,
    ) -> Result<HeartbeatReply> {
        let consumer = state.consumer(heartbeat.consumer)?;
        self.liveness.heard(consumer.id, heartbeat.polled, now_ns);
        for place in &heartbeat.places {
            let key = GroupKey { topic: place.topic, group: consumer.group.clone() };
            self.progress.report(state, consumer.id, key, place);
        }
        let denied = consumer.target.iter().filter_map(|id| state.catalog().topic_by_id(*id));
        let denied = denied.filter(|t| !state.may_subscribe(&consumer.user, t)).map(|t| t.id).collect();
        Ok(HeartbeatReply { epoch: consumer.epoch, denied })
    }

    /// A subscribe request was accepted: whatever was counted before no longer holds.
    pub fn subscribed(&mut self, consumer: ConsumerId) {
        self.liveness.reset(consumer);
        self.is_back(consumer);
    }

    /// The owner's commit was stored: it has read as far, though its next heartbeat is yet to come.
    pub fn committed(&mut self, state: &MnodeState, commit: &OwnerCommit) {
        if let Ok(consumer) = state.consumer(commit.consumer) {
            let key = GroupKey { topic: commit.topic, group: consumer.group.clone() };
            self.progress.committed(&key, commit);
        }
    }

    /// When the consumer was last known to poll, nanoseconds since the epoch.
    #[must_use]
    pub fn poll_time_ns(&self, consumer: ConsumerId) -> Option<i64> {
        self.liveness.poll_time_ns(consumer)
    }

    /// The command that puts a pending assignment in force, once the shards hold it.
    #[must_use]
    pub fn activation(&self, state: &MnodeState, key: &GroupKey) -> Option<Command> {
        let group = state.group(key)?;
        let pending = group.pending.as_ref()?;
        // Those that stay with their owner go on counting; those that cannot be reached lose theirs too.
        let moved = |vgroup: &&model::VgroupId| {
            pending.moved.contains(vgroup) || !pending.next.owners.contains_key(vgroup)
        };
        let settled: BTreeMap<_, _> = group
            .owners
            .keys()
            .filter(moved)
            .filter_map(|vgroup| Some((*vgroup, self.progress.of_owner(group, key, *vgroup)?)))
            .collect();
        Some(Command::Activate { key: key.clone(), epoch: pending.epoch, settled })
    }
}
