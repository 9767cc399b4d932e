//! Consumers: subscribe, heartbeat, assignment.

use std::sync::Arc;

use model::{Code, ConsumerId, Epoch, Error, Result, VgroupId};

use super::{Inner, Mnode};
use crate::coordinator::{Heartbeat, HeartbeatReply};
use crate::shards::TopicInfo;
use crate::spec::{ConsumerSpec, OffsetReset};
use crate::state::{Command, ConsumerState, GroupKey, MnodeState};

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
    /// Without the right the consumer stays a member and gets nothing of the topic.
    pub permitted: bool,
}

/// Consumers. The server sees to it that a session only speaks for consumers of its own user.
impl Mnode {
    /// Replaces the whole topic set of a consumer, all or nothing; an empty list unsubscribes. Returns once the request is
    /// accepted; [`wait_ready`](Self::wait_ready) once it is applied. The same set again changes nothing.
    ///
    /// # Errors
    /// 0x03EE parameters; 0x0118 over-long name; 0x03E1; 0x0303; 0x4014, 0x4013 replay; 0x4005; 0x03EA while an earlier,
    /// different subscribe is being applied. The earlier subscription runs on.
    pub async fn subscribe(&self, consumer: ConsumerSpec, topics: Vec<String>) -> Result<()> {
        self.inner.submit(&Command::Subscribe { consumer, topics }).await.map(|_| ())
    }

    /// The empty subscription: success also for a consumer that is gone.
    ///
    /// # Errors
    /// Of the log.
    pub async fn unsubscribe(&self, id: ConsumerId) -> Result<()> {
        let spec = self.inner.read(|state| {
            state.consumer_or_expired(id).map(|c| ConsumerSpec {
                id,
                group: c.group.clone(),
                client_id: c.client_id.clone(),
                user: c.user.clone(),
                host: c.host.clone(),
                end_point: c.end_point.clone(),
                parameters: c.parameters.clone(),
            })
        });
        match spec {
            Some(spec) => self.subscribe(spec, Vec::new()).await,
            None => Ok(()),
        }
    }

    /// Takes in a heartbeat. Touches no disk.
    ///
    /// # Errors
    /// 0x03E6
    pub fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<HeartbeatReply> {
        let now_ns = self.inner.clock.now_ns();
        let machine = self.inner.machine.read();
        self.inner.notices.coordinator.lock().heartbeat(&machine.state, heartbeat, now_ns)
    }

    /// The assignment in force.
    ///
    /// # Errors
    /// 0x03E6
    pub fn assignment(&self, id: ConsumerId) -> Result<ConsumerAssignment> {
        self.inner.read(|state| assignment(state, id))
    }

    /// Waits until the consumer's epoch is another than `known_epoch`. The caller bounds the wait; dropping the future
    /// costs nothing.
    ///
    /// # Errors
    /// 0x03E6 also when the consumer goes while this waits; 0x0131 at shutdown.
    pub async fn wait_assignment(&self, id: ConsumerId, known_epoch: u64) -> Result<ConsumerAssignment> {
        self.inner.wait(id, |a| a.epoch != known_epoch).await
    }

    /// Waits until the last subscribe is applied on every topic.
    ///
    /// # Errors
    /// As [`wait_assignment`](Self::wait_assignment).
    pub async fn wait_ready(&self, id: ConsumerId) -> Result<ConsumerAssignment> {
        self.inner.wait(id, |a| a.state == ConsumerState::Ready).await
    }

    /// The user that a consumer belongs to.
    ///
    /// # Errors
    /// 0x03E6
    pub fn consumer_user(&self, id: ConsumerId) -> Result<String> {
        self.inner.read(|state| state.consumer(id).map(|c| c.user.clone()))
    }
}

impl Inner {
    async fn wait(
        &self,
        id: ConsumerId,
        enough: impl Fn(&ConsumerAssignment) -> bool,
    ) -> Result<ConsumerAssignment> {
        let mut stop = self.stop.subscribe();
        loop {
            self.is_stopping()?;
            // Known first, so that unknown ids cost no memory; then register, then look: no change falls in between.
            self.read(|state| state.consumer(id).map(|_| ()))?;
            let mut woken = self.notices.of_consumer(id);
            let assignment = self.read(|state| assignment(state, id))?;
            if enough(&assignment) {
                return Ok(assignment);
            }
            tokio::select! {
                // An error says that the consumer went: the next look tells.
                _ = woken.changed() => {}
                stopped = stop.changed() => stopped.map_err(|_| Error::of(Code::ShuttingDown))?,
            }
        }
    }
}

fn assignment(state: &MnodeState, id: ConsumerId) -> Result<ConsumerAssignment> {
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
                vgroups: group.owned_by(id).collect(),
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
