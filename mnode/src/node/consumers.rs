//! Consumers: subscribe, heartbeat, assignment.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Code, ConsumerId, Epoch, Error, Result, TopicId, VgroupId};

use super::{Inner, Mnode};
use crate::coordinator::{Coordinator, Heartbeat, HeartbeatReply, OwnerCommit};
use crate::shards::TopicInfo;
use crate::spec::{ConsumerSpec, OffsetReset};
use crate::state::{Command, ConsumerState, Group, GroupKey, MnodeState};

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
/// answers with [`Mnode::release`].
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

/// A consumer that is told of every change of its assignment, for as long as this lives.
#[derive(Debug)]
pub struct Listening {
    mnode: Mnode,
    consumer: ConsumerId,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let notices = &self.mnode.inner.notices;
        notices.coordinator.lock().listens(self.consumer, false);
        // Hand-overs that waited for it wait no longer.
        notices.wake.notify_one();
    }
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
        let reply = self.inner.notices.coordinator.lock().heartbeat(&machine.state, heartbeat, now_ns);
        reply.map_err(|error| self.inner.why_removed(heartbeat.consumer, error))
    }

    /// A commit of this owner was stored: SHOW SUBSCRIPTIONS does not show it behind that until its next heartbeat.
    pub fn committed(&self, commit: &OwnerCommit) {
        let machine = self.inner.machine.read();
        self.inner.notices.coordinator.lock().committed(&machine.state, commit);
    }

    /// Why a consumer of `user` was removed, where that was by force or by a timeout and not long ago.
    #[must_use]
    pub fn why_removed(&self, user: &str, id: ConsumerId) -> Option<Error> {
        self.inner.notices.coordinator.lock().why_removed(id, Some(user))
    }

    /// The assignment in force.
    ///
    /// # Errors
    /// 0x03E6
    pub fn assignment(&self, id: ConsumerId) -> Result<ConsumerAssignment> {
        self.inner.assignment(id)
    }

    /// From now on hand-overs wait until this consumer has released what it loses by them: call it for one that watches
    /// its assignment.
    #[must_use]
    pub fn listen(&self, id: ConsumerId) -> Listening {
        self.inner.notices.coordinator.lock().listens(id, true);
        Listening { mnode: self.clone(), consumer: id }
    }

    /// The consumer has finished with what the hand-over `epoch` of `topic` takes from it. One that is over does no harm.
    ///
    /// # Errors
    /// 0x03E6
    pub fn release(&self, id: ConsumerId, topic: TopicId, epoch: Epoch) -> Result<()> {
        let machine = self.inner.machine.read();
        self.inner.notices.coordinator.lock().released(&machine.state, id, topic, epoch)?;
        self.inner.notices.wake.notify_one();
        Ok(())
    }

    /// Waits until the assignment is another than `known`. The caller bounds the wait; dropping the future costs nothing.
    ///
    /// # Errors
    /// 0x03E6 also when the consumer goes while this waits; 0x0131 at shutdown.
    pub async fn wait_assignment(
        &self,
        id: ConsumerId,
        known: &ConsumerAssignment,
    ) -> Result<ConsumerAssignment> {
        self.inner.wait(id, |a| a != known).await
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
    fn assignment(&self, id: ConsumerId) -> Result<ConsumerAssignment> {
        let assignment = self.read(|state| assignment(state, &self.notices.coordinator.lock(), id));
        assignment.map_err(|error| self.why_removed(id, error))
    }

    /// `error`, with its cause where it says that the consumer is not known.
    fn why_removed(&self, id: ConsumerId, error: Error) -> Error {
        let is_removed = error.code() == Code::ConsumerNotExist;
        let why = is_removed.then(|| self.notices.coordinator.lock().why_removed(id, None));
        why.flatten().unwrap_or(error)
    }

    async fn wait(
        &self,
        id: ConsumerId,
        enough: impl Fn(&ConsumerAssignment) -> bool,
    ) -> Result<ConsumerAssignment> {
        let mut stop = self.stop.subscribe();
        loop {
            self.is_stopping()?;
            // Known first, so that unknown ids cost no memory; then register, then look: no change falls in between.
            let known = self.read(|state| state.consumer(id).map(|_| ()));
            known.map_err(|error| self.why_removed(id, error))?;
            let mut woken = self.notices.of_consumer(id);
            let assignment = self.assignment(id)?;
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

fn assignment(state: &MnodeState, coordinator: &Coordinator, id: ConsumerId) -> Result<ConsumerAssignment> {
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
                vgroups: group.owned_by(id).filter(|(vgroup, _)| !coordinator.is_gone(*vgroup)).collect(),
                hand_over: hand_over(group, id),
                offline: offline(state, coordinator, &key, group),
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
