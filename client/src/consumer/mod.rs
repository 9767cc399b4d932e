//! Consumers of topics.

mod config;
mod driver;
mod hand_over;
#[cfg(test)]
mod hand_over_tests;
mod membership;
mod message;
mod offsets;
#[doc(hidden)]
pub mod sim;
mod state;
#[cfg(test)]
mod state_tests;
mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use model::{Code, Error, Result};
use parking_lot::Mutex;
use proto::v1;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use config::{AutoOffsetReset, ConfigError, ConsumerConfig};
pub use hand_over::OfflineVgroup;
pub use membership::Membership;
pub use message::{Block, Message, MessageKind, Skipped};
pub use offsets::VgroupAssignment;

use crate::connection::{Connection, Repeat};
use crate::retry::RetryPolicy;
use driver::Shared;
use offsets::Commit;
use state::{Settings, State, Step};

/// Told how a commit ended, exactly once; when the consumer is dropped first, of that.
pub type CommitCallback = Arc<dyn Fn(Result<()>) + Send + Sync>;

/// Messages as a stream, see [`Consumer::stream`].
pub type Messages<'a> = BoxStream<'a, Result<Message>>;

/// Where a consumer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerState {
    /// Not subscribed.
    Init,
    /// Subscribed.
    Ready,
    /// Closed, or no longer known to its group: subscribing again helps in the second case.
    Closed,
}

/// How long one poll of a stream waits.
const STREAM_POLL: Duration = Duration::from_secs(1);
const TOPIC_BYTES_MAX: usize = 192;
/// TMQ's budget: 240 attempts, half a second apart.
const SUBSCRIBE_BUDGET: Duration = Duration::from_secs(120);
const SUBSCRIBE_RETRY: RetryPolicy = RetryPolicy {
    attempts: 240,
    pause_first: Duration::from_millis(20),
    pause_max: Duration::from_millis(500),
};
/// How long a leaving consumer waits for the coordinator to confirm.
const LEAVE_BUDGET: Duration = Duration::from_secs(10);

/// A member of a consumer group. It reads the vgroups that the group's coordinator gives it, in the order of their logs,
/// each message at least once.
///
/// Messages are pushed by the server into a small local queue, from which [`poll`](Self::poll) takes. When the
/// connection breaks, the consumer connects, subscribes again by itself and goes on from its positions. All calls take
/// `&self`: another task may commit while one polls.
///
/// When another member joins, it gets some of this one's vgroups. Of these nothing more is handed out; once the
/// application polls again, and so has done with what it was handed, the position is committed, if that is automatic, and
/// the other one goes on behind it. An application that commits by hand does so before it polls on, for the same. Nobody
/// waits for that longer than some seconds: what is handled for longer, and what a member that crashed had not committed,
/// is delivered again.
///
/// [`close`](Self::close) leaves the group and commits; merely dropping the consumer is as good as a crash: the group
/// notices when the session timeout has passed.
///
/// ```no_run
/// use std::time::Duration;
/// use client::{AutoOffsetReset, Consumer, ConsumerConfig};
///
/// # #[tokio::main]
/// # async fn main() -> client::Result<()> {
/// let mut config = ConsumerConfig::new("billing");
/// config.auto_offset_reset = AutoOffsetReset::Earliest;
/// let consumer = Consumer::new(config).await?;
/// consumer.subscribe(["alarms"]).await?;
/// while let Some(message) = consumer.poll(Duration::from_secs(5)).await? {
///     for (row, version) in message.rows().zip(message.row_versions()) {
///         println!("vgroup {} version {version}: {:?}", message.vgroup(), row.value(0));
///     }
///     consumer.commit_sync(&message).await?;
/// }
/// consumer.close().await
/// # }
/// ```
pub struct Consumer {
    shared: Arc<Shared>,
    driver: Mutex<Option<JoinHandle<()>>>,
    /// Subscribing, unsubscribing and closing happen one at a time.
    membership: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("id", &self.id_text())
            .field("group", &self.shared.config.group)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // What a driver that is at work just now sees of the end is no lost connection.
        self.shared.state.lock().leaving();
        self.stop_driver();
    }
}

/// What the state is to know of a configuration.
fn settings(config: &ConsumerConfig) -> Settings {
    Settings {
        reset: config.auto_offset_reset,
        auto_commit_interval: config
            .commits_automatically()
            .then(|| Duration::from_millis(config.auto_commit_interval_ms.into())),
        replay: config.enable_replay,
        messages_ahead: config.messages_ahead.max(1),
    }
}

impl Connection {
    /// A consumer over this connection; `td.connect.*` of the configuration is not looked at.
    ///
    /// # Errors
    /// [`Code::InvalidParameters`] without a group.
    pub fn consumer(&self, config: ConsumerConfig) -> Result<Consumer> {
        config.check()?;
        let shared = Shared {
            connection: self.clone(),
            consumer: rand::random_range(1..=u64::MAX),
            started: Instant::now(),
            state: Mutex::new(State::new(settings(&config))),
            config,
            changed: Notify::new(),
            outgoing: Notify::new(),
        };
        Ok(Consumer {
            shared: Arc::new(shared),
            driver: Mutex::new(None),
            membership: tokio::sync::Mutex::new(()),
        })
    }
}

impl Consumer {
    /// Connects, logs in, and chooses the consumer's id. The group does not know it before [`Self::subscribe`].
    ///
    /// # Errors
    /// Those of [`Connection::connect`]; [`Code::InvalidParameters`] without a group.
    pub async fn new(config: ConsumerConfig) -> Result<Self> {
        config.check()?;
        Connection::connect(config.connect.clone()).await?.consumer(config)
    }

    /// Its id, random, as SHOW CONSUMERS shows it in hexadecimal.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.shared.consumer
    }

    fn id_text(&self) -> String {
        format!("{:#x}", self.shared.consumer)
    }

    /// Not subscribed, subscribed, or closed.
    #[must_use]
    pub fn state(&self) -> ConsumerState {
        self.shared.state.lock().shown()
    }

    // ------------------------------------------------------------------------------------------------ subscription

    /// Makes `topics` the whole set that the consumer reads and waits until it has its share of their vgroups. Vgroups
    /// that stay keep their positions; with automatic commits on, and topics left out, all positions are committed first. An empty set, or one of empty names, is [`Self::unsubscribe`]. A refused call leaves the earlier
    /// subscription as it was.
    ///
    /// # Errors
    /// The coordinator's: [`Code::TopicNotExist`], [`Code::NoPrivilege`], [`Code::GroupLimit`], those of replay;
    /// [`Code::ConsumerNotReady`] when no assignment came within two minutes; [`Code::InvalidParameters`] for a name of
    /// more than 192 bytes; [`Code::ConsumerClosed`] after close.
    pub async fn subscribe<T: Into<String>>(&self, topics: impl IntoIterator<Item = T>) -> Result<()> {
        // TDengine's clients take an empty name for none.
        let topics: BTreeSet<String> =
            topics.into_iter().map(Into::into).filter(|t: &String| !t.is_empty()).collect();
        if topics.is_empty() {
            return self.unsubscribe().await;
        }
        if let Some(long) = topics.iter().find(|topic| topic.len() > TOPIC_BYTES_MAX) {
            return Err(Error::with(Code::InvalidParameters, format!("topic name too long: {long}")));
        }
        let _one_at_a_time = self.membership.lock().await;
        if self.shared.state.lock().is_shut() {
            return Err(Error::of(Code::ConsumerClosed));
        }
        let deadline = Instant::now() + SUBSCRIBE_BUDGET;
        self.commit_before_change(&topics).await;
        self.request_topics(topics.iter().cloned().collect()).await?;
        if self.state() != ConsumerState::Ready {
            // The driver of an earlier subscription may be on its way out.
            self.stop_driver();
        }
        self.shared.state.lock().accepted(topics, self.shared.now());
        self.start_driver();
        let assigned = self.shared.wait_until(deadline, |state| match state.closed() {
            Some(error) => Some(Err(error)),
            None => state.is_assigned().then_some(Ok(())),
        });
        assigned.await.unwrap_or_else(|| Err(Error::of(Code::ConsumerNotReady)))
    }

    /// Whoever changes the set has done with what was handed out, as whoever polls on has; of topics that are left out
    /// nothing could be committed later.
    async fn commit_before_change(&self, topics: &BTreeSet<String>) {
        let changes = self.shared.state.lock().leaves_topics(topics);
        if changes && self.shared.config.commits_automatically() {
            let done = self.commit_all_sync().await;
            if let Err(error) = done {
                tracing::warn!(group = self.shared.config.group, %error, "automatic commit failed");
            }
        }
    }

    /// Tells the coordinator the set; tries again while it is busy with this consumer or with the database.
    async fn request_topics(&self, topics: Vec<String>) -> Result<()> {
        let mut failed = 0;
        loop {
            let error = match self.shared.request_topics(topics.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            failed += 1;
            let busy = matches!(error.code(), Code::ConsumerNotReady | Code::Conflict);
            match SUBSCRIBE_RETRY.pause_after(failed) {
                Some(pause) if busy => tokio::time::sleep(pause).await,
                _ => return Err(error),
            }
        }
    }

    /// Leaves the group: commits all positions if automatic commits are on, and drops what was fetched. Does nothing
    /// when not subscribed. The consumer may subscribe again.
    ///
    /// # Errors
    /// The commit's, after leaving all the same; or the coordinator's.
    pub async fn unsubscribe(&self) -> Result<()> {
        let _one_at_a_time = self.membership.lock().await;
        let left = self.leave().await;
        // The end of its streams is no lost connection while the state says that the consumer leaves: so the driver is
        // over before the state says something else.
        if let Some(driver) = self.stop_driver() {
            let _ = driver.await;
        }
        self.shared.state.lock().unsubscribed();
        self.shared.changed.notify_waiters();
        left
    }

    async fn leave(&self) -> Result<()> {
        if !self.shared.state.lock().is_ready() {
            return Ok(());
        }
        let committed = match self.shared.config.commits_automatically() {
            true => self.commit_all_sync().await,
            false => Ok(()),
        };
        self.shared.report().await;
        self.shared.state.lock().leaving();
        let gone = match self.request_topics(Vec::new()).await {
            Ok(()) => {
                let deadline = Instant::now() + LEAVE_BUDGET;
                self.shared.wait_until(deadline, |state| state.has_left().then_some(())).await;
                Ok(())
            }
            Err(error) if error.code() == Code::ConsumerNotExist => Ok(()),
            Err(error) => Err(error),
        };
        match committed {
            Err(error) if error.code() != Code::ConsumerNotExist => Err(error),
            _ => gone,
        }
    }

    /// Leaves the group and ends the consumer; every later call answers [`Code::ConsumerClosed`]. Closing twice is fine.
    ///
    /// # Errors
    /// As [`Self::unsubscribe`]; the consumer is closed all the same.
    pub async fn close(&self) -> Result<()> {
        let left = self.unsubscribe().await;
        self.shared.state.lock().shut();
        self.shared.changed.notify_waiters();
        left
    }

    /// Topics of the current assignment.
    #[must_use]
    pub fn subscription(&self) -> Vec<String> {
        self.shared.state.lock().subscription()
    }

    fn start_driver(&self) {
        let mut driver = self.driver.lock();
        if driver.as_ref().is_none_or(JoinHandle::is_finished) {
            *driver = Some(tokio::spawn(driver::drive(Arc::clone(&self.shared))));
        }
    }

    /// Aborts the driver, which may be at work for a moment yet.
    fn stop_driver(&self) -> Option<JoinHandle<()>> {
        let driver = self.driver.lock().take()?;
        driver.abort();
        Some(driver)
    }

    // -------------------------------------------------------------------------------------------------------- poll

    /// The next message, waiting up to `timeout` for it: [`Duration::ZERO`] only looks, [`Duration::MAX`] waits for
    /// ever. `None` when nothing came. A row that another client writes wakes a waiting poll at once.
    ///
    /// With automatic commits on, a poll first commits, when that is due, what earlier polls handed out. Dropping the
    /// call's future loses nothing.
    ///
    /// # Errors
    /// [`Code::SubscribeFirst`] before the first subscribe; [`Code::ConsumerNotExist`] from when the group has removed
    /// the consumer until it subscribes again; [`Code::ConsumerClosed`] after close; else what befell a vgroup or topic,
    /// told once, such as [`Code::NoCommittedOffset`], or [`Code::NoPrivilege`] when the right to read was taken: polling
    /// on is always right.
    pub async fn poll(&self, timeout: Duration) -> Result<Option<Message>> {
        let now = self.shared.now();
        let due = self.shared.state.lock().enter_poll(now)?;
        if !due.is_empty() {
            self.commit_in_background(due, self.shared.config.on_auto_commit.clone());
        }
        let deadline = now.checked_add(timeout);
        let _waiting = Waiting::new(&self.shared);
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let now = self.shared.now();
            let step = self.shared.state.lock().take(now);
            self.shared.outgoing.notify_waiters();
            let until = match step? {
                Step::Message(message) => return Ok(Some(*message)),
                Step::Wait { until } => until,
            };
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(None);
            }
            match until.into_iter().chain(deadline).min() {
                Some(wake) => {
                    // Either way the state is looked at again.
                    let _ = tokio::time::timeout(wake.saturating_sub(now), changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Whether more may come of what is in the log already: the backlog is not read to its end, or replay holds a message
    /// back until its time. False while the consumer merely waits for new writes, and while its connection is broken.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.shared.state.lock().is_reading()
    }

    /// Vgroups of the subscribed topics of which nothing is delivered because their shards do not serve: damaged, or their
    /// files are gone. Also those whose log cannot be read where this consumer stands; [`seek`](Self::seek) behind the
    /// place goes on. The others go on; once one is back it is left out here and its messages begin. Each is logged once,
    /// and is no error of [`poll`](Self::poll).
    #[must_use]
    pub fn offline(&self) -> Vec<OfflineVgroup> {
        self.shared.state.lock().offline()
    }

    /// Which vgroups this consumer has, and whether it is connected: for programs that tell people of rebalances and
    /// broken connections.
    #[must_use]
    pub fn membership(&self) -> Membership {
        self.shared.state.lock().membership()
    }

    /// Messages without end: the same as polling for ever. Ends behind an error that closes the consumer.
    pub fn stream(&self) -> Messages<'_> {
        let next = async move |open: bool| {
            if !open {
                return None;
            }
            loop {
                // Who waits for the next message has done with the one before: each round may commit it.
                if let Some(result) = self.poll(STREAM_POLL).await.transpose() {
                    let open = result.is_ok() || self.state() != ConsumerState::Closed;
                    return Some((result, open));
                }
            }
        };
        futures::stream::unfold(true, next).boxed()
    }

    // ------------------------------------------------------------------------------------------------------ commit

    /// Stores where `message` ends as the group's offset; returns when that is durable.
    ///
    /// # Errors
    /// [`Code::TopicNotAssigned`] or [`Code::VgroupNotAssigned`] when the vgroup is not the consumer's now,
    /// [`Code::ConsumerMismatch`] when it was another's since the message was read.
    pub async fn commit_sync(&self, message: &Message) -> Result<()> {
        let commit = self.shared.state.lock().commit_message(message)?;
        self.shared.commit(commit.into_iter().collect()).await
    }

    /// Stores the positions of all assigned vgroups: everything handed out so far.
    ///
    /// # Errors
    /// The first that a shard answered.
    pub async fn commit_all_sync(&self) -> Result<()> {
        let commits = self.shared.state.lock().commit_all()?;
        self.shared.commit(commits).await
    }

    /// Stores an offset of the application's choice: the next version that the group reads.
    ///
    /// # Errors
    /// In this order: [`Code::TopicNotAssigned`], [`Code::VgroupNotAssigned`], [`Code::NeedAssignment`] before a poll or
    /// [`Self::assignment`], [`Code::OffsetOutOfRange`]. -1 means the begin.
    pub async fn commit_offset_sync(&self, topic: &str, vgroup: u32, offset: i64) -> Result<()> {
        let commit = self.shared.state.lock().commit_offset(topic, vgroup, offset)?;
        self.shared.commit(commit.into_iter().collect()).await
    }

    /// [`Self::commit_sync`] without waiting; `callback` is told, once.
    pub fn commit_async(&self, message: &Message, callback: impl Fn(Result<()>) + Send + Sync + 'static) {
        let commit = self.shared.state.lock().commit_message(message);
        self.tell_later(commit.map(|commit| commit.into_iter().collect()), Arc::new(callback));
    }

    /// [`Self::commit_all_sync`] without waiting; `callback` is told, once.
    pub fn commit_all_async(&self, callback: impl Fn(Result<()>) + Send + Sync + 'static) {
        let commits = self.shared.state.lock().commit_all();
        self.tell_later(commits, Arc::new(callback));
    }

    /// [`Self::commit_offset_sync`] without waiting; `callback` is told, once.
    pub fn commit_offset_async(
        &self,
        topic: &str,
        vgroup: u32,
        offset: i64,
        callback: impl Fn(Result<()>) + Send + Sync + 'static,
    ) {
        let commit = self.shared.state.lock().commit_offset(topic, vgroup, offset);
        self.tell_later(commit.map(|commit| commit.into_iter().collect()), Arc::new(callback));
    }

    fn tell_later(&self, commits: Result<Vec<Commit>>, callback: CommitCallback) {
        match commits {
            Ok(commits) => self.commit_in_background(commits, Some(callback)),
            Err(error) => callback(Err(error)),
        }
    }

    fn commit_in_background(&self, commits: Vec<Commit>, callback: Option<CommitCallback>) {
        let shared = Arc::clone(&self.shared);
        let told = Told(callback);
        tokio::spawn(async move {
            let done = shared.commit(commits).await;
            if let (Err(error), None) = (&done, &told.0) {
                tracing::warn!(group = shared.config.group, %error, "automatic commit failed");
            }
            told.tell(done);
        });
    }

    // ----------------------------------------------------------------------------------------------------- offsets

    /// The group's committed offset on a vgroup: the last that this consumer stored, else asked of the shard.
    ///
    /// # Errors
    /// [`Code::NoCommitted`] where there is none; [`Code::TopicNotAssigned`], [`Code::VgroupNotAssigned`].
    pub async fn committed(&self, topic: &str, vgroup: u32) -> Result<i64> {
        let key = self.shared.state.lock().key(topic, vgroup)?;
        if let Some(known) = self.shared.state.lock().committed(key) {
            return Ok(known);
        }
        self.shared.ask_offsets(vec![key]).await?;
        self.shared.state.lock().committed(key).ok_or_else(|| Error::of(Code::NoCommitted))
    }

    /// The next version that this consumer reads of a vgroup.
    ///
    /// # Errors
    /// [`Code::NeedAssignment`] before a poll or [`Self::assignment`]; [`Code::TopicNotAssigned`],
    /// [`Code::VgroupNotAssigned`].
    pub fn position(&self, topic: &str, vgroup: u32) -> Result<i64> {
        self.shared.state.lock().position(topic, vgroup)
    }

    /// Where each vgroup of `topic` that is this consumer's stands; asks the shards. One whose shard does not serve at all is
    /// nobody's until it is back, and is listed by [`Self::offline`].
    ///
    /// # Errors
    /// [`Code::TopicNotAssigned`] when not subscribed to it.
    pub async fn assignment(&self, topic: &str) -> Result<Vec<VgroupAssignment>> {
        let keys = self.shared.state.lock().keys(topic)?;
        if !keys.is_empty() {
            self.shared.ask_offsets(keys).await?;
        }
        self.shared.state.lock().assignment(topic)
    }

    /// The next message of the vgroup begins at `offset`. Nothing is committed, and nothing fetched before is delivered.
    ///
    /// # Errors
    /// Those of [`Self::commit_offset_sync`].
    pub fn seek(&self, topic: &str, vgroup: u32, offset: i64) -> Result<()> {
        self.shared.state.lock().seek(topic, vgroup, offset)?;
        self.shared.outgoing.notify_waiters();
        Ok(())
    }

    /// Until [`Self::resume`] nothing of the vgroup is handed out, and nothing is sent of it; the consumer keeps it. Losing it
    /// to another member ends this too.
    ///
    /// # Errors
    /// [`Code::TopicNotAssigned`], [`Code::VgroupNotAssigned`].
    pub fn pause(&self, topic: &str, vgroup: u32) -> Result<()> {
        {
            let mut state = self.shared.state.lock();
            let key = state.key(topic, vgroup)?;
            state.pause(key);
        }
        self.shared.outgoing.notify_waiters();
        Ok(())
    }

    /// The next poll goes on with a vgroup that was paused, at its position.
    ///
    /// # Errors
    /// [`Code::TopicNotAssigned`], [`Code::VgroupNotAssigned`].
    pub fn resume(&self, topic: &str, vgroup: u32) -> Result<()> {
        {
            let mut state = self.shared.state.lock();
            let key = state.key(topic, vgroup)?;
            state.resume(key);
        }
        self.shared.changed.notify_waiters();
        Ok(())
    }

    /// What the consumer was configured with.
    #[must_use]
    pub fn config(&self) -> &ConsumerConfig {
        &self.shared.config
    }
}

/// A poll that waits; counted even if its future is dropped.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.state.lock().waits(true);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waits(false);
    }
}

/// A callback that is called once, whatever becomes of the task that holds it.
struct Told(Option<CommitCallback>);

impl Told {
    fn tell(mut self, done: Result<()>) {
        if let Some(callback) = self.0.take() {
            callback(done);
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(callback) = self.0.take() {
            callback(Err(Error::of(Code::ConsumerClosed)));
        }
    }
}

/// The request that asks the shards about `keys`.
fn offsets_request(group: &str, keys: &[state::Key]) -> v1::OffsetsRequest {
    let of = keys.iter().map(|key| v1::TopicVgroup { topic: key.topic, vgroup: key.vgroup }).collect();
    v1::OffsetsRequest { group: group.to_owned(), of }
}

impl Shared {
    /// Asks the shards about `keys` and takes their answers in.
    async fn ask_offsets(&self, keys: Vec<state::Key>) -> Result<()> {
        let request = offsets_request(&self.config.group, &keys);
        let answer = self.connection.call(Repeat::Always, |session| {
            let request = session.request(request.clone());
            async move { Ok(session.subscription().offsets(request).await?.into_inner()) }
        });
        let offsets = answer.await?.offsets;
        if offsets.len() != keys.len() {
            return Err(Error::with(Code::InvalidMessage, "not every vgroup was answered for"));
        }
        let mut state = self.state.lock();
        for (key, offsets) in keys.into_iter().zip(&offsets) {
            state.learn(key, offsets);
        }
        Ok(())
    }
}
