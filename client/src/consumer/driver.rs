//! The thin shell around a consumer's state: one task that keeps the streams to the server open and pumps them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use model::{Code, Error, Result};
use parking_lot::Mutex;
use proto::v1;
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::config::ConsumerConfig;
use super::hand_over::{OfflineVgroup, Release};
use super::offsets::Commit;
use super::state::{Outgoing, Request, State};
use super::wire::{self, Decoder};
use crate::connection::{Connection, Repeat};

/// What a consumer's calls and its driver share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) connection: Connection,
    pub(super) consumer: u64,
    pub(super) config: ConsumerConfig,
    pub(super) started: Instant,
    pub(super) state: Mutex<State>,
    /// Something arrived, or the state is another.
    pub(super) changed: Notify,
    /// There may be requests to send.
    pub(super) outgoing: Notify,
}

/// Why a session with the server ended.
enum End {
    /// The connection broke: open another.
    Broken(Error),
    /// The coordinator does not know the consumer any more, or refuses it.
    Gone(Error),
}

impl End {
    fn of(status: &Status) -> Self {
        let error = proto::status::from_status(status);
        let mends = matches!(error.code(), Code::Internal | Code::Terminated | Code::InvalidMessage);
        if mends || error.may_retry() { Self::Broken(error) } else { Self::Gone(error) }
    }

    fn ended(what: &str) -> Self {
        Self::Broken(Error::with(Code::Unreachable, what))
    }
}

/// Keeps the consumer connected until the group forgets it; aborted by unsubscribe, close and drop.
pub(super) async fn drive(shared: Arc<Shared>) {
    let mut failed = 0;
    let mut known = true;
    loop {
        let mut reached = false;
        let end = session(&shared, known, &mut reached).await;
        if reached {
            failed = 0;
        }
        known = false;
        let Some(error) = shared.end_session(end) else { return };
        failed += 1;
        let pause = shared.connection.options().retry.pause(failed);
        // A target of its own: a program that tells its users by itself mutes it.
        tracing::warn!(target: "client::connection", group = shared.config.group, %error, ?pause, "consumer lost its connection");
        tokio::time::sleep(pause).await;
    }
}

/// One session: from (re)subscribing to the first stream that ends. `reached` is set once the server has answered.
async fn session(shared: &Arc<Shared>, known: bool, reached: &mut bool) -> End {
    if !known {
        let topics = shared.state.lock().requested();
        if let Err(status) = shared.subscribe_once(topics).await {
            return End::of(&status);
        }
    }
    let watch = async |session: crate::connection::Session| {
        let request = session.request(v1::WatchAssignmentRequest { consumer: shared.consumer });
        Ok(session.subscription().watch_assignment(request).await?.into_inner())
    };
    let watch = match shared.connection.once(&watch).await {
        Ok(watch) => watch,
        Err(status) => return End::of(&status),
    };
    let consume = async |session: crate::connection::Session| {
        // Each attempt sends from the start: one that finds its login forgotten has already taken requests along.
        let number = shared.state.lock().connected();
        let request = session.request(requests(Arc::clone(shared), number));
        Ok(session.subscription().consume(request).await?.into_inner())
    };
    let consume = match shared.connection.once(&consume).await {
        Ok(consume) => consume,
        Err(status) => return End::of(&status),
    };
    *reached = true;
    shared.state.lock().reached();
    tokio::select! {
        biased;
        end = watch_assignment(shared, watch) => end,
        end = receive(shared, consume) => end,
        end = beat(shared) => end,
        never = hand_over(shared) => match never {},
    }
}

/// What goes up the consume stream: the opening, then the state's requests as they come, until another session begins.
fn requests(shared: Arc<Shared>, number: u64) -> impl Stream<Item = v1::ConsumeRequest> + Send + 'static {
    let open = wire::open(shared.consumer, &shared.config);
    futures::stream::unfold((Some(open), shared), move |(open, shared)| async move {
        if let Some(open) = open {
            return Some((open, (None, shared)));
        }
        let request = shared.next_request(number).await?;
        Some((wire::to_wire(request, shared.config.auto_offset_reset), (None, shared)))
    })
}

async fn watch_assignment(shared: &Shared, mut watch: Streaming<v1::Assignment>) -> End {
    loop {
        match watch.message().await {
            Ok(Some(assignment)) => {
                let applied = shared.state.lock().assign(assignment);
                match applied {
                    Ok(offline) => offline.iter().for_each(tell_offline),
                    Err(error) => return End::Broken(error),
                }
                shared.changed.notify_waiters();
                shared.outgoing.notify_waiters();
            }
            Ok(None) => return End::ended("the assignment stream ended"),
            Err(status) => return End::of(&status),
        }
    }
}

/// A target of its own: a program that tells its users by itself mutes it.
fn tell_offline(offline: &OfflineVgroup) {
    let OfflineVgroup { topic, vgroup, error } = offline;
    tracing::warn!(target: "client::offline", topic, vgroup, %error, "vgroup is offline, nothing of it is delivered");
}

/// Gives up what hand-overs take, each once the application is done with it.
async fn hand_over(shared: &Arc<Shared>) -> Infallible {
    loop {
        let outgoing = shared.outgoing.notified();
        tokio::pin!(outgoing);
        outgoing.as_mut().enable();
        let release = shared.state.lock().next_release();
        match release {
            // By itself: a session that ends meanwhile must not leave a commit half done.
            Some(release) => drop(tokio::spawn({
                let shared = Arc::clone(shared);
                async move { shared.release(release).await }
            })),
            None => outgoing.await,
        }
    }
}

async fn receive(shared: &Shared, mut consume: Streaming<v1::ConsumeResponse>) -> End {
    let mut decoder = Decoder::default();
    loop {
        let response = match consume.message().await {
            Ok(Some(response)) => response,
            Ok(None) => return End::ended("the message stream ended"),
            Err(status) => return End::of(&status),
        };
        match decoder.decode(response) {
            Ok(None) => {}
            Ok(Some(incoming)) => {
                let now = shared.now();
                let broken =
                    shared.state.lock().received(incoming.key, incoming.generation, incoming.event, now);
                broken.iter().for_each(tell_offline);
                shared.changed.notify_waiters();
                shared.outgoing.notify_waiters();
            }
            Err(error) => return End::Broken(error),
        }
    }
}

async fn beat(shared: &Shared) -> End {
    let mut ticks = tokio::time::interval(shared.config.heartbeat_interval());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match shared.heartbeat().await {
            Ok(()) => {}
            Err(status) => match End::of(&status) {
                End::Gone(error) => return End::Gone(error),
                End::Broken(error) if error.code() == Code::Unreachable => return End::Broken(error),
                End::Broken(error) => tracing::warn!(group = shared.config.group, %error, "heartbeat failed"),
            },
        }
    }
}

impl Shared {
    /// Time since the consumer was made: what its state counts in.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells the state that a session ended. `None` where there shall be no other, else why.
    fn end_session(&self, end: End) -> Option<Error> {
        let mut state = self.state.lock();
        state.disconnected();
        match end {
            // Streams end in any order when the coordinator lets a consumer go.
            End::Broken(error) if self.config.reconnect && !state.is_leaving() => {
                state.lost(&error);
                Some(error)
            }
            End::Broken(error) | End::Gone(error) => {
                state.gone(&error);
                self.changed.notify_waiters();
                None
            }
        }
    }

    /// The next request for session `number`, when there is one; `None` once that is over.
    async fn next_request(&self, number: u64) -> Option<Request> {
        loop {
            let outgoing = self.outgoing.notified();
            tokio::pin!(outgoing);
            outgoing.as_mut().enable();
            match self.state.lock().next_request(number) {
                Outgoing::Request(request) => return Some(request),
                Outgoing::Ended => return None,
                Outgoing::Nothing => {}
            }
            outgoing.await;
        }
    }

    /// What `look` finds in the state, now or after a change, up to `deadline`.
    pub(super) async fn wait_until<T>(
        &self,
        deadline: Instant,
        look: impl Fn(&State) -> Option<T>,
    ) -> Option<T> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look(&self.state.lock()) {
                return Some(found);
            }
            tokio::time::timeout_at(deadline, changed).await.ok()?;
        }
    }

    fn subscription(&self, topics: Vec<String>) -> v1::SubscribeRequest {
        wire::subscription(self.consumer, &self.config, topics, host_name())
    }

    async fn subscribe_once(&self, topics: Vec<String>) -> Result<(), Status> {
        let message = self.subscription(topics);
        let call = async |session: crate::connection::Session| {
            session.subscription().subscribe(session.request(message.clone())).await.map(drop)
        };
        self.connection.once(&call).await
    }

    /// Tells the coordinator the whole set of topics; the same request twice does no harm.
    pub(super) async fn request_topics(&self, topics: Vec<String>) -> Result<()> {
        let message = self.subscription(topics);
        let call = self.connection.call(Repeat::Always, |session| {
            let request = session.request(message.clone());
            async move { session.subscription().subscribe(request).await.map(drop) }
        });
        call.await
    }

    async fn heartbeat(&self) -> Result<(), Status> {
        let message = self.state.lock().heartbeat(self.consumer);
        let call = async |session: crate::connection::Session| {
            let request = session.request(message.clone());
            Ok(session.subscription().heartbeat(request).await?.into_inner())
        };
        match self.connection.once(&call).await {
            Ok(answer) => {
                self.state.lock().denied(&answer.denied_topics);
                self.changed.notify_waiters();
                self.outgoing.notify_waiters();
                Ok(())
            }
            Err(status) => {
                self.state.lock().heartbeat_failed(&message);
                Err(status)
            }
        }
    }

    /// A last heartbeat, so that what SHOW SUBSCRIPTIONS keeps of this consumer is final. Nothing depends on it.
    pub(super) async fn report(&self) {
        if let Err(status) = self.heartbeat().await {
            tracing::debug!(error = %proto::status::from_status(&status), "last heartbeat failed");
        }
    }

    /// Commits what was handled of revoked vgroups, then lets their next owner have them. Should either fail, the next
    /// owner waits a little longer, or delivers some of it again.
    async fn release(&self, release: Release) {
        let Release { topic, hand_over, commits } = release;
        if !commits.is_empty() {
            let done = self.commit(commits).await;
            if let Err(error) = &done {
                tracing::info!(group = self.config.group, %error, "commit before a hand-over failed");
            }
            if let Some(told) = &self.config.on_auto_commit {
                told(done);
            }
        }
        let message = v1::ReleaseRequest { consumer: self.consumer, topic, hand_over };
        let call = async |session: crate::connection::Session| {
            session.subscription().release(session.request(message)).await.map(drop)
        };
        if let Err(status) = self.connection.once(&call).await {
            tracing::debug!(error = %proto::status::from_status(&status), "a hand-over was not answered");
        }
    }

    /// Sends commits and takes the answers in; the first error of any.
    pub(super) async fn commit(&self, commits: Vec<Commit>) -> Result<()> {
        if commits.is_empty() {
            return Ok(());
        }
        let message = wire::commits(self.consumer, &self.config, &commits);
        // Sequence numbers make repeating safe: an older commit changes nothing.
        let answer = self.connection.call(Repeat::Always, |session| {
            let request = session.request(message.clone());
            async move { Ok(session.subscription().commit(request).await?.into_inner()) }
        });
        let answer = answer.await.and_then(|answer| match answer.results.len() == commits.len() {
            true => Ok(answer.results),
            false => Err(Error::with(Code::InvalidMessage, "not every commit was answered")),
        });
        let results: Vec<Result<()>> = match answer {
            Ok(results) => results
                .into_iter()
                .map(|result| result.error.map_or(Ok(()), |e| Err(proto::status::from_detail(e))))
                .collect(),
            Err(error) => commits.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut state = self.state.lock();
        for (commit, result) in commits.iter().zip(&results) {
            state.commit_done(commit, result);
        }
        drop(state);
        // A hand-over may have waited for this.
        self.outgoing.notify_waiters();
        results.into_iter().collect()
    }
}

/// Name of this machine, for SHOW CONSUMERS.
fn host_name() -> String {
    let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    named.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_else(|| "localhost".to_owned())
}
