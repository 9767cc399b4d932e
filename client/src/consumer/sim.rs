//! A consumer without a connection, driven call by call: for simulations that join it to a server's parts on virtual time.
//!
//! What decides is the consumer's own state, behind its own reading and writing of the wire; the simulation carries what is
//! sent and plays the driver.

use std::collections::BTreeSet;
use std::time::Duration;

use model::{Error, Result};
use proto::v1;

use super::config::ConsumerConfig;
use super::message::Message;
use super::offsets::Commit;
use super::settings;
use super::state::{Outgoing, State, Step};
use super::wire::{self, Decoder};

/// The consumer.
#[derive(Debug)]
pub struct SimConsumer {
    id: u64,
    config: ConsumerConfig,
    state: State,
    decoder: Decoder,
    session: u64,
}

/// Commits to send, with what is to be known of them once they are answered.
#[derive(Clone, Debug)]
pub struct SimCommits(Vec<Commit>);

impl SimConsumer {
    /// Not subscribed.
    #[must_use]
    pub fn new(id: u64, config: ConsumerConfig) -> Self {
        let state = State::new(settings(&config));
        Self { id, config, state, decoder: Decoder::default(), session: 0 }
    }

    /// The request for a set of topics.
    #[must_use]
    pub fn subscription(&self, topics: Vec<String>) -> v1::SubscribeRequest {
        wire::subscription(self.id, &self.config, topics, String::new())
    }

    /// The set in force, to ask for again.
    #[must_use]
    pub fn requested(&self) -> Vec<String> {
        self.state.requested()
    }

    /// The coordinator has taken the set.
    pub fn accepted(&mut self, topics: BTreeSet<String>, now: Duration) {
        self.state.accepted(topics, now);
    }

    /// Whether this set leaves out topics of the one in force.
    #[must_use]
    pub fn leaves_topics(&self, topics: &BTreeSet<String>) -> bool {
        self.state.leaves_topics(topics)
    }

    /// Whether it has its assignment.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state.is_ready()
    }

    /// It asks to leave.
    pub fn leaving(&mut self) {
        self.state.leaving();
    }

    /// Whether it was let go.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.state.has_left()
    }

    /// It is no longer a member.
    pub fn unsubscribed(&mut self) {
        self.state.unsubscribed();
    }

    /// The coordinator does not know it.
    pub fn gone(&mut self, error: &Error) {
        self.state.gone(error);
    }

    /// A new stream; its first request.
    pub fn connected(&mut self) -> v1::ConsumeRequest {
        self.decoder = Decoder::default();
        self.session = self.state.connected();
        wire::open(self.id, &self.config)
    }

    /// The stream has ended.
    pub fn disconnected(&mut self) {
        self.state.disconnected();
    }

    /// The next request of the stream.
    pub fn next_request(&mut self) -> Option<v1::ConsumeRequest> {
        match self.state.next_request(self.session) {
            Outgoing::Request(request) => Some(wire::to_wire(request, self.config.auto_offset_reset)),
            Outgoing::Nothing | Outgoing::Ended => None,
        }
    }

    /// An answer of the stream.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn received(&mut self, response: v1::ConsumeResponse, now: Duration) -> Result<()> {
        if let Some(incoming) = self.decoder.decode(response)? {
            self.state.received(incoming.key, incoming.generation, incoming.event, now);
        }
        Ok(())
    }

    /// A new assignment.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn assign(&mut self, assignment: v1::Assignment) -> Result<()> {
        self.state.assign(assignment).map(drop)
    }

    /// A poll begins: the commits that are due.
    ///
    /// # Errors
    /// As [`Consumer::poll`](super::Consumer::poll).
    pub fn enter_poll(&mut self, now: Duration) -> Result<SimCommits> {
        self.state.enter_poll(now).map(SimCommits)
    }

    /// The next message, if one is here.
    ///
    /// # Errors
    /// As [`Consumer::poll`](super::Consumer::poll).
    pub fn take(&mut self, now: Duration) -> Result<Option<Message>> {
        match self.state.take(now)? {
            Step::Message(message) => Ok(Some(*message)),
            Step::Wait { .. } => Ok(None),
        }
    }

    /// Commits where a message ends.
    ///
    /// # Errors
    /// As [`Consumer::commit_sync`](super::Consumer::commit_sync).
    pub fn commit_message(&mut self, message: &Message) -> Result<SimCommits> {
        self.state.commit_message(message).map(|commit| SimCommits(commit.into_iter().collect()))
    }

    /// Commits all positions.
    ///
    /// # Errors
    /// As [`Consumer::commit_all_sync`](super::Consumer::commit_all_sync).
    pub fn commit_all(&mut self) -> Result<SimCommits> {
        self.state.commit_all().map(SimCommits)
    }

    /// The request for commits.
    #[must_use]
    pub fn commit_request(&self, commits: &SimCommits) -> v1::CommitRequest {
        wire::commits(self.id, &self.config, &commits.0)
    }

    /// How each of them ended.
    pub fn committed(&mut self, commits: &SimCommits, results: &[Result<()>]) {
        for (commit, result) in commits.0.iter().zip(results) {
            self.state.commit_done(commit, result);
        }
    }

    /// A hand-over that it is done with: the commits first, then the answer.
    pub fn next_release(&mut self) -> Option<(SimCommits, v1::ReleaseRequest)> {
        let release = self.state.next_release()?;
        let (topic, hand_over) = (release.topic, release.hand_over);
        Some((SimCommits(release.commits), v1::ReleaseRequest { consumer: self.id, topic, hand_over }))
    }

    /// What the next heartbeat says.
    pub fn heartbeat(&mut self) -> v1::HeartbeatRequest {
        self.state.heartbeat(self.id)
    }

    /// How it ended.
    pub fn heartbeat_done(&mut self, request: &v1::HeartbeatRequest, answer: Option<&v1::HeartbeatResponse>) {
        match answer {
            Some(answer) => self.state.denied(&answer.denied_topics),
            None => self.state.heartbeat_failed(request),
        }
    }
}

impl SimCommits {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
