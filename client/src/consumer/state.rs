//! What a consumer decides, without clock, tasks or sockets: events and the time go in, requests, messages and errors
//! come out. Rules and numbers are those of TMQ (sections 3, 5, 6 of its page).
//!
//! `offsets` holds the calls about positions and commits, `hand_over` what is taken away, `driver` carries this out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::{Code, Error, ErrorKind, Precision, Result};
use proto::v1;

use super::config::AutoOffsetReset;
use super::hand_over::{Exceptions, OfflineVgroup};
use super::membership::Membership;
use super::message::{Block, Message, MessageKind, RecordRun, Skipped};
use super::offsets::Commit;

/// One vgroup of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) topic: u64,
    pub(crate) vgroup: u32,
}

impl Key {
    /// Of what concerns a topic as a whole, whatever the consumer has of it. No vgroup has this number.
    const fn of_topic(topic: u64) -> Self {
        Self { topic, vgroup: 0 }
    }
}

/// A topic subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicInfo {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) database: String,
    pub(crate) precision: Precision,
}

/// What the consumer was configured with, as far as it decides by it.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) reset: AutoOffsetReset,
    /// `None`: off.
    pub(crate) auto_commit_interval: Option<Duration>,
    pub(crate) replay: bool,
    pub(crate) messages_ahead: u32,
}

/// Versions a log holds: `first..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRange {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// A message as it came, checked and decoded.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) begin: u64,
    pub(crate) next: u64,
    pub(crate) kind: MessageKind,
    pub(crate) blocks: Vec<Block>,
    pub(crate) json: Option<String>,
    pub(crate) skipped: Option<Skipped>,
    pub(crate) log: LogRange,
    pub(crate) written_ns: i64,
    pub(crate) records: Vec<RecordRun>,
}

/// What arrives on the consume stream.
#[derive(Debug)]
pub(crate) enum Event {
    Message(Box<Received>),
    /// Nothing to give up to `position`; there the reader goes on, or waits for the log to grow.
    CaughtUp {
        position: u64,
        log: LogRange,
        reading_on: bool,
        /// The topic's table is in no shard.
        no_table: bool,
    },
    Fault(Error),
}

/// What is to be sent on the consume stream, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Start { key: Key, epoch: u64, generation: u64, position: Option<u64> },
    Stop(Key),
    Credit(u32),
}

/// What [`State::next_request`] has for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    Request(Request),
    Nothing,
    /// Another session is the current one.
    Ended,
}

/// What a poll does next.
#[derive(Debug)]
pub(crate) enum Step {
    Message(Box<Message>),
    /// Nothing yet: look again after the next event, or at `until`.
    Wait {
        until: Option<Duration>,
    },
}

/// A vgroup that answered with an error rests this long.
const REST: Duration = Duration::from_millis(100);
/// One whose shard cannot read its log rests longer: only an operator, or retention, mends that.
const REST_BROKEN: Duration = Duration::from_secs(5);
/// Records that nobody sees and that come after a commit move the position only by this many at once: a commit is such
/// a record itself, and else an idle consumer would commit for ever.
const IDLE_VERSIONS_MAX: i64 = 1_024;

/// Whether an error says that the shard cannot read its log on, whoever asks: damage, an unreadable disk, a fault of ours.
fn is_broken(error: &Error) -> bool {
    matches!(error.code().kind(), ErrorKind::Damaged | ErrorKind::Internal) || error.code() == Code::Io
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Never subscribed.
    Init,
    /// Unsubscribed, or waiting for the first assignment.
    Idle,
    Ready,
    /// The group's coordinator no longer knows the consumer, or the application closed it.
    Closed(Closed),
}

/// Why a consumer is closed: what of an error can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    code: Code,
    text: String,
    help: String,
}

impl Closed {
    fn by(error: &Error) -> Self {
        Self { code: error.code(), text: error.message().to_owned(), help: error.help().to_owned() }
    }

    fn error(&self) -> Error {
        Error::text(self.code, self.text.clone()).hint(self.help.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Starts at the next poll.
    Idle,
    Active,
    Resting {
        until: Duration,
    },
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) epoch: u64,
    /// Of the latest start: answers to earlier ones are stale.
    pub(super) generation: u64,
    pub(super) reading: Reading,
    /// Next version to read; `None` while the policy is not resolved. -1 is what a caller sought.
    pub(super) position: Option<i64>,
    /// How far the log was read, invisible records included.
    pub(super) read_to: u64,
    pub(super) current: Option<i64>,
    pub(super) committed: Option<i64>,
    /// Sent, not answered.
    pub(super) committing: Option<i64>,
    /// Of the commit that `committed` is from: answers may overtake each other.
    pub(super) committed_sequence: u64,
    pub(super) log: Option<LogRange>,
    pub(super) rows: u64,
    /// The application was handed something of it and has not polled since.
    pub(super) in_hands: bool,
    /// About to be another member's: nothing more is delivered.
    pub(super) revoked: bool,
    /// Why nothing comes of it though it is this consumer's: its shard cannot read on. Until something comes.
    pub(super) broken: Option<Error>,
    /// The application wants nothing of it for now.
    paused: bool,
    /// The reader waits for the log to grow: it has nothing that could still come.
    at_end: bool,
}

impl Part {
    fn new(epoch: u64) -> Self {
        Self {
            epoch,
            generation: 0,
            reading: Reading::Idle,
            position: None,
            read_to: 0,
            current: None,
            committed: None,
            committing: None,
            committed_sequence: 0,
            log: None,
            rows: 0,
            in_hands: false,
            revoked: false,
            broken: None,
            paused: false,
            at_end: false,
        }
    }

    /// Whether messages of it are wanted, and the consumer's.
    const fn is_wanted(&self) -> bool {
        !self.revoked && !self.paused
    }

    /// Nothing visible up to `to`.
    fn caught_up(&mut self, to: u64) {
        let to = super::message::offset(to);
        let settled = self.position.is_some() && (self.position == self.committing.or(self.committed));
        match self.position {
            Some(at) if to <= at || (settled && to - at < IDLE_VERSIONS_MAX) => {}
            _ => self.position = Some(to),
        }
    }
}

#[derive(Debug)]
pub(super) struct Queued {
    pub(super) key: Key,
    message: Box<Received>,
    /// Nothing visible follows up to here.
    trailing: Option<u64>,
}

/// A consumer's whole state.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) settings: Settings,
    pub(super) phase: Phase,
    requested: BTreeSet<String>,
    pub(super) topics: BTreeMap<u64, Arc<TopicInfo>>,
    pub(super) parts: BTreeMap<Key, Part>,
    pub(super) exceptions: Exceptions,
    pub(super) denied: BTreeSet<u64>,
    pub(super) queue: VecDeque<Queued>,
    /// What ended the messages of a vgroup. It stands behind those that came before it.
    pub(super) errors: VecDeque<(Key, Error)>,
    pub(super) requests: VecDeque<Request>,
    connected: bool,
    /// Messages that the server may still send.
    credit: u32,
    pub(super) generation: u64,
    pub(super) sequence: u64,
    polled: bool,
    /// Polls that wait now: they count as liveness for as long as they wait.
    waiting: u32,
    auto_commit_due: Duration,
    ready: bool,
    left: bool,
    leaving: bool,
    /// Number of the current consume stream.
    session: u64,
    /// Sessions that the server has answered.
    connections: u64,
    /// Why there is no connection now, where there was one.
    lost: Option<Error>,
    /// Topics whose table is in no shard.
    without_table: BTreeSet<u64>,
}

impl State {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            phase: Phase::Init,
            requested: BTreeSet::new(),
            topics: BTreeMap::new(),
            parts: BTreeMap::new(),
            exceptions: Exceptions::default(),
            denied: BTreeSet::new(),
            queue: VecDeque::new(),
            errors: VecDeque::new(),
            requests: VecDeque::new(),
            connected: false,
            credit: 0,
            generation: 0,
            sequence: 0,
            polled: false,
            waiting: 0,
            auto_commit_due: Duration::ZERO,
            ready: false,
            left: false,
            leaving: false,
            session: 0,
            connections: 0,
            lost: None,
            without_table: BTreeSet::new(),
        }
    }

    // ------------------------------------------------------------------------------------------------ subscription

    /// The coordinator has taken `topics` as the new set.
    pub(crate) fn accepted(&mut self, topics: BTreeSet<String>, now: Duration) {
        if self.phase != Phase::Ready {
            self.phase = Phase::Idle;
            self.auto_commit_due = now + self.settings.auto_commit_interval.unwrap_or_default();
        }
        // The same set again changes nothing, so no assignment will follow; and that of another set may have been faster
        // than the answer to the request for it.
        self.ready = self.phase == Phase::Ready && self.names() == topics;
        self.requested = topics;
    }

    /// The consumer asks to leave its group: an assignment without topics will say that it has.
    pub(crate) fn leaving(&mut self) {
        self.left = false;
        self.leaving = true;
    }

    /// Whether it has asked to leave.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether the coordinator has let it go.
    pub(crate) fn has_left(&self) -> bool {
        self.left || matches!(self.phase, Phase::Closed(..))
    }

    /// Left the group: what was fetched is dropped, the handle may subscribe again.
    pub(crate) fn unsubscribed(&mut self) {
        self.forget_all();
        // Being forgotten by the coordinator is what leaving was for.
        let left = std::mem::take(&mut self.leaving) && !self.is_shut();
        if left || self.phase == Phase::Ready {
            self.phase = Phase::Idle;
        }
    }

    /// The coordinator no longer knows the consumer, or its connection is not to be mended.
    pub(crate) fn gone(&mut self, error: &Error) {
        self.forget_all();
        if !self.is_shut() {
            self.phase = Phase::Closed(Closed::by(error));
        }
    }

    /// Closed by the application, for good.
    pub(crate) fn shut(&mut self) {
        self.forget_all();
        self.phase = Phase::Closed(Closed::by(&Error::of(Code::ConsumerClosed)));
    }

    fn forget_all(&mut self) {
        self.topics.clear();
        self.parts.clear();
        self.exceptions = Exceptions::default();
        self.queue.clear();
        self.errors.clear();
        self.denied.clear();
        self.without_table.clear();
        self.requested.clear();
        self.requests.clear();
        self.connected = false;
        self.ready = false;
    }

    /// Whether the assignment is that of the latest `accepted`.
    pub(crate) fn is_assigned(&self) -> bool {
        self.ready
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    pub(crate) fn is_shut(&self) -> bool {
        matches!(&self.phase, Phase::Closed(closed) if closed.code == Code::ConsumerClosed)
    }

    /// Why calls fail, if they do.
    pub(crate) fn closed(&self) -> Option<Error> {
        match &self.phase {
            Phase::Closed(closed) => Some(closed.error()),
            _ => None,
        }
    }

    /// Whether a subscription to `topics` drops topics of the one in force.
    pub(crate) fn leaves_topics(&self, topics: &BTreeSet<String>) -> bool {
        self.is_ready() && !self.names().is_subset(topics)
    }

    fn names(&self) -> BTreeSet<String> {
        self.topics.values().map(|topic| topic.name.clone()).collect()
    }

    /// Topics asked for, to ask again after the connection broke.
    pub(crate) fn requested(&self) -> Vec<String> {
        self.requested.iter().cloned().collect()
    }

    /// A new assignment. A vgroup that stays with the same epoch keeps its position and what was fetched of it; one
    /// that came back with another was somebody else's meanwhile and starts at the committed offset. Returns what has gone
    /// off-line.
    pub(crate) fn assign(&mut self, assignment: v1::Assignment) -> Result<Vec<OfflineVgroup>> {
        self.left = assignment.ready && assignment.topics.is_empty();
        if !assignment.ready || self.requested.is_empty() {
            return Ok(Vec::new());
        }
        let mut exceptions = Exceptions::default();
        let mut topics = BTreeMap::new();
        let mut owned = BTreeMap::new();
        for topic in assignment.topics {
            exceptions.add(&topic);
            let precision = proto::convert::precision_from_wire(topic.precision)?;
            let info = TopicInfo { id: topic.id, name: topic.name, database: topic.database, precision };
            topics.insert(topic.id, Arc::new(info));
            owned.extend(topic.vgroups.iter().map(|v| (Key { topic: topic.id, vgroup: v.vgroup }, v.epoch)));
        }
        let lost = |(key, part): (&Key, &Part)| (owned.get(key) != Some(&part.epoch)).then_some(*key);
        let lost: Vec<_> = self.parts.iter().filter_map(lost).collect();
        for key in lost {
            self.parts.remove(&key);
            self.queue.retain(|queued| queued.key != key);
            self.errors.retain(|(of, _)| *of != key);
            self.requests.push_back(Request::Stop(key));
        }
        for (key, epoch) in owned {
            self.parts.entry(key).or_insert_with(|| Part::new(epoch));
        }
        let offline = self.except(exceptions);
        self.topics = topics;
        if self.names() == self.requested {
            self.ready = true;
            self.phase = Phase::Ready;
        }
        self.refill();
        Ok(offline)
    }

    // -------------------------------------------------------------------------------------------------- connection

    /// A new consume stream; its number. What was fetched but not handed out is fetched again.
    pub(crate) fn connected(&mut self) -> u64 {
        self.session += 1;
        self.requests.clear();
        self.queue.clear();
        self.credit = 0;
        self.connected = true;
        self.release_again();
        // Another server, or the same one after a repair, may read what the last one could not.
        let reads = |part: &Part| part.reading == Reading::Active || part.broken.is_some();
        let read: Vec<_> = self.parts.iter().filter(|(_, p)| reads(p)).map(|(key, _)| *key).collect();
        for key in read {
            self.start(key);
        }
        self.refill();
        self.session
    }

    /// The server has answered the new session.
    pub(crate) fn reached(&mut self) {
        self.connections += 1;
        self.lost = None;
    }

    /// The session ended by `error`, and another will be tried.
    pub(crate) fn lost(&mut self, error: &Error) {
        self.lost = Some(error.clone());
    }

    /// How the consumer stands.
    pub(crate) fn membership(&self) -> Membership {
        let topic = |key: &Key| Some((self.topics.get(&key.topic)?.name.clone(), key.vgroup));
        let name = |topic: &u64| Some(self.topics.get(topic)?.name.clone());
        Membership {
            vgroups: self.parts.keys().filter_map(topic).collect(),
            connections: self.connections,
            lost: self.lost.clone(),
            topics_without_table: self.without_table.iter().filter_map(name).collect(),
        }
    }

    /// The stream broke; what was fetched may still be handed out.
    pub(crate) fn disconnected(&mut self) {
        self.connected = false;
        self.requests.clear();
    }

    /// The next request for the stream of session `number`.
    pub(crate) fn next_request(&mut self, number: u64) -> Outgoing {
        if number != self.session {
            return Outgoing::Ended;
        }
        self.requests.pop_front().map_or(Outgoing::Nothing, Outgoing::Request)
    }

    /// Starts, or starts over, the messages of a vgroup at its position.
    pub(super) fn start(&mut self, key: Key) {
        let denied = self.denied.contains(&key.topic);
        let Some(part) = self.parts.get_mut(&key).filter(|part| part.is_wanted()) else { return };
        self.queue.retain(|queued| queued.key != key);
        self.errors.retain(|(of, _)| *of != key);
        self.generation += 1;
        part.generation = self.generation;
        part.reading = Reading::Active;
        part.at_end = false;
        if !self.connected || denied {
            return;
        }
        let first = part.log.map_or(0, |log| log.first);
        let position = part.position.map(|at| u64::try_from(at).unwrap_or(first));
        self.requests.push_back(Request::Start {
            key,
            epoch: part.epoch,
            generation: part.generation,
            position,
        });
    }

    /// Nothing more of a vgroup is handed out; what was fetched of it is dropped.
    pub(super) fn pause(&mut self, key: Key) {
        let Some(part) = self.parts.get_mut(&key).filter(|part| !part.paused) else { return };
        self.generation += 1;
        part.generation = self.generation;
        part.paused = true;
        part.reading = Reading::Idle;
        self.queue.retain(|queued| queued.key != key);
        self.errors.retain(|(of, _)| *of != key);
        self.requests.push_back(Request::Stop(key));
        self.refill();
    }

    /// The next poll goes on with a vgroup where it stood.
    pub(super) fn resume(&mut self, key: Key) {
        if let Some(part) = self.parts.get_mut(&key) {
            part.paused = false;
        }
    }

    /// Lets the server send as many messages as there is room for, in few requests.
    pub(super) fn refill(&mut self) {
        let queued = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let room = self.settings.messages_ahead.saturating_sub(self.credit).saturating_sub(queued);
        if self.connected && room > 0 && (room * 2 >= self.settings.messages_ahead || self.credit == 0) {
            self.requests.push_back(Request::Credit(room));
            self.credit += room;
        }
    }

    /// Something of the vgroup `key`, in answer to the start called `generation`. Returns the vgroup where this is the
    /// news that nothing comes of it.
    pub(crate) fn received(
        &mut self,
        key: Key,
        generation: u64,
        event: Event,
        now: Duration,
    ) -> Option<OfflineVgroup> {
        if matches!(event, Event::Message(_)) {
            self.credit = self.credit.saturating_sub(1);
        }
        let part = self.parts.get_mut(&key).filter(|part| part.generation == generation);
        let Some(part) = part.filter(|_| !self.denied.contains(&key.topic)) else {
            self.refill();
            return None;
        };
        if !matches!(event, Event::Fault(_)) {
            part.broken = None;
        }
        match event {
            Event::Message(message) => {
                part.log = Some(message.log);
                part.read_to = message.next;
                part.at_end = false;
                self.queue.push_back(Queued { key, message, trailing: None });
            }
            Event::CaughtUp { position, log, reading_on, no_table } => {
                match no_table {
                    true => self.without_table.insert(key.topic),
                    false => self.without_table.remove(&key.topic),
                };
                part.at_end = !reading_on;
                part.log = Some(log);
                part.read_to = position;
                match self.queue.iter_mut().rev().find(|queued| queued.key == key) {
                    Some(last) => last.trailing = Some(position),
                    None => part.caught_up(position),
                }
            }
            Event::Fault(error) => {
                part.reading = Reading::Resting { until: now + REST };
                match error.code() {
                    // Another consumer has it: the assignment says so in a moment.
                    Code::ConsumerMismatch => {}
                    Code::ConsumerNotExist => self.gone(&error),
                    // The next heartbeat's answer says it too, or that the right is back.
                    Code::NoPrivilege => self.deny(key.topic, error),
                    _ if is_broken(&error) => return self.broke(key, error, now),
                    _ if error.may_retry() && error.code() != Code::FetchTimeout => {}
                    _ => self.errors.push_back((key, error)),
                }
            }
        }
        None
    }

    /// The shard cannot read on: no error of a poll, which would end applications that the other vgroups have rows for.
    fn broke(&mut self, key: Key, error: Error, now: Duration) -> Option<OfflineVgroup> {
        let part = self.parts.get_mut(&key)?;
        part.reading = Reading::Resting { until: now + REST_BROKEN };
        let is_news = part.broken.as_ref().is_none_or(|known| known.message() != error.message());
        part.broken = Some(error);
        self.broken(key).filter(|_| is_news)
    }

    /// Why nothing comes of a vgroup of this consumer, if so.
    pub(super) fn broken(&self, key: Key) -> Option<OfflineVgroup> {
        let error = self.parts.get(&key)?.broken.clone()?;
        let topic = self.topics.get(&key.topic)?.name.clone();
        Some(OfflineVgroup { topic, vgroup: key.vgroup, error })
    }

    // -------------------------------------------------------------------------------------------------------- poll

    /// What a poll does on entry: is it allowed, and which commits are due. They cover what earlier polls handed out.
    ///
    /// # Errors
    /// Never subscribed, closed, or no longer known.
    pub(crate) fn enter_poll(&mut self, now: Duration) -> Result<Vec<Commit>> {
        if let Some(error) = self.closed() {
            return Err(error);
        }
        if self.phase == Phase::Init {
            return Err(Error::of(Code::SubscribeFirst));
        }
        self.polled = true;
        self.parts.values_mut().for_each(|part| part.in_hands = false);
        match self.settings.auto_commit_interval {
            Some(interval) if now >= self.auto_commit_due && self.phase == Phase::Ready => {
                self.auto_commit_due = now + interval;
                Ok(self.commit_changed())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether something may still come of what is in the log already: a message is here or on its way, or replay holds
    /// one back. Not while the connection is broken, which may take any time.
    pub(crate) fn is_reading(&self) -> bool {
        let reads = |(key, part): (&Key, &Part)| {
            let reads_on = !part.at_end && part.is_wanted() && part.broken.is_none();
            reads_on && !self.denied.contains(&key.topic)
        };
        !self.queue.is_empty() || (self.connected && self.parts.iter().any(reads))
    }

    /// A poll begins or ends to wait.
    pub(crate) fn waits(&mut self, begins: bool) {
        self.waiting = if begins { self.waiting + 1 } else { self.waiting.saturating_sub(1) };
    }

    /// The next message or error, or how long to wait for one. Starts vgroups that wait for a poll.
    ///
    /// # Errors
    /// What befell a vgroup, once; or the consumer, for good.
    pub(crate) fn take(&mut self, now: Duration) -> Result<Step> {
        if let Some(error) = self.closed() {
            return Err(error);
        }
        let waiting: BTreeSet<_> = self.queue.iter().map(|queued| queued.key).collect();
        let told = self.errors.iter().position(|(key, _)| !waiting.contains(key));
        if let Some((_, error)) = told.and_then(|at| self.errors.remove(at)) {
            return Err(error);
        }
        let due = |(key, part): &(&Key, &Part)| match part.reading {
            Reading::Idle => part.is_wanted(),
            Reading::Active => false,
            // What came before the error is handed out first.
            Reading::Resting { until } => until <= now && !waiting.contains(key),
        };
        let due: Vec<_> = self.parts.iter().filter(due).map(|(key, _)| *key).collect();
        if self.connected {
            for key in due {
                self.start(key);
            }
        }
        while let Some(queued) = self.queue.pop_front() {
            self.refill();
            if let Some(message) = self.hand_out(queued) {
                return Ok(Step::Message(message));
            }
        }
        let rest = |part: &Part| match part.reading {
            Reading::Resting { until } => Some(until),
            Reading::Idle | Reading::Active => None,
        };
        Ok(Step::Wait { until: self.parts.values().filter_map(rest).min().filter(|_| self.connected) })
    }

    fn hand_out(&mut self, queued: Queued) -> Option<Box<Message>> {
        let part = self.parts.get_mut(&queued.key)?;
        let topic = Arc::clone(self.topics.get(&queued.key.topic)?);
        let Received { begin, next, kind, blocks, json, skipped, log, written_ns, records } = *queued.message;
        let message = Message {
            topic,
            key: queued.key,
            epoch: part.epoch,
            begin,
            next,
            kind,
            blocks,
            json,
            skipped,
            log_end: log.end,
            written_ns,
            records,
        };
        part.position = Some(message.next());
        part.current = Some(message.begin());
        part.in_hands = true;
        part.rows += u64::try_from(message.rows_len()).unwrap_or(u64::MAX);
        if let Some(to) = queued.trailing {
            part.caught_up(to);
        }
        Some(Box::new(message))
    }

    // --------------------------------------------------------------------------------------------------- heartbeat

    /// What the next heartbeat reports.
    pub(crate) fn heartbeat(&mut self, consumer: u64) -> v1::HeartbeatRequest {
        let polled = std::mem::take(&mut self.polled) || self.waiting > 0;
        let waiting: BTreeSet<_> = self.queue.iter().map(|queued| queued.key).collect();
        let progress = self.parts.iter().map(|(key, part)| {
            let read = if waiting.contains(key) { 0 } else { part.read_to };
            let position = part.position.map(|at| u64::try_from(at).unwrap_or(0).max(read));
            // The range is that of the latest answer: a position sought since may lie at its end, never behind.
            let end = part.log.map_or(0, |log| log.end).max(position.unwrap_or(0));
            let (rows, epoch) = (part.rows, part.epoch);
            v1::Progress { topic: key.topic, vgroup: key.vgroup, position, end, rows, epoch }
        });
        v1::HeartbeatRequest { consumer, polled, progress: progress.collect() }
    }

    /// A heartbeat was not answered: the next one tells again that there were polls.
    pub(crate) fn heartbeat_failed(&mut self, request: &v1::HeartbeatRequest) {
        self.polled |= request.polled;
    }

    /// Topics that the user may no longer read. Their vgroups are skipped until that changes.
    pub(crate) fn denied(&mut self, topics: &[u64]) {
        let denied: BTreeSet<_> = topics.iter().copied().collect();
        let back: Vec<_> = self.denied.difference(&denied).copied().collect();
        self.denied.retain(|topic| denied.contains(topic));
        self.errors.retain(|(of, _)| !back.contains(&of.topic));
        let again = self.parts.keys().filter(|key| back.contains(&key.topic)).copied();
        for key in again.collect::<Vec<_>>() {
            self.start(key);
        }
        for topic in denied {
            let name = self.topics.get(&topic).map_or_else(String::new, |topic| topic.name.clone());
            self.deny(topic, Error::with(Code::NoPrivilege, format_args!("topic={name}")));
        }
        self.refill();
    }

    /// The right to read `topic` was taken: nothing more of it is handed out, and a poll tells `error`, once; also where
    /// other members have its vgroups already.
    fn deny(&mut self, topic: u64, error: Error) {
        if !self.denied.insert(topic) {
            return;
        }
        self.queue.retain(|queued| queued.key.topic != topic);
        self.errors.retain(|(of, _)| of.topic != topic);
        let keys: Vec<_> = self.parts.keys().filter(|key| key.topic == topic).copied().collect();
        self.requests.extend(keys.into_iter().map(Request::Stop));
        self.errors.push_back((Key::of_topic(topic), error));
    }
}
