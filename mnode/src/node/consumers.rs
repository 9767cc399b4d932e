//! Consumers: subscribe, heartbeat, assignment.

use model::{Code, ConsumerId, Epoch, Error, Result, TopicId};

use super::{Inner, Mnode};
use crate::coordinator::{ConsumerAssignment, Heartbeat, HeartbeatReply, OwnerCommit};
use crate::spec::ConsumerSpec;
use crate::state::{Command, ConsumerState};

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
        let assignment = self.read(|state| self.notices.coordinator.lock().assignment(state, id));
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
