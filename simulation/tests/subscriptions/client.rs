//! Applications and their consumers: the SDK's core, with the driver (`client/src/consumer/driver.rs`) played here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use client::sim::{SimCommits, SimConsumer};
use client::{AutoOffsetReset, ConsumerConfig};
use mnode::ConsumerAssignment;
use model::{Code, ConsumerId, Epoch, Error, Result, TopicId, VgroupId};
use proto::v1;
use proto::v1::consume_response::Event;
use rand::Rng;

use crate::calls::{Flight, Stage, Then, Unary};
use crate::leader::unreachable;
use crate::oracle::Place;
use crate::rows;
use crate::shard::Stream;
use crate::world::{Planted, World};

/// A process with one consumer.
#[derive(Debug)]
pub struct Client {
    pub group: &'static str,
    pub core: SimConsumer,
    auto_commit: bool,
    /// Stopped for a while: nothing reaches it and it does nothing.
    pub paused: bool,
    pub wants: BTreeSet<String>,
    asking: bool,
    leaving: bool,
    session: Option<Session>,
    /// Records of the message that the application has in its hands.
    in_hands: Option<(Place, Vec<u64>)>,
    topics: BTreeMap<String, TopicId>,
    tokens: BTreeMap<(u64, u32), Epoch>,
    /// Ends of what has arrived, for planted faults.
    arrived: BTreeMap<(u64, u32), u64>,
    pub beat_due_ns: i64,
}

#[derive(Debug)]
struct Session {
    up: VecDeque<v1::ConsumeRequest>,
    stream: Option<Stream>,
    watch: VecDeque<v1::Assignment>,
    known: ConsumerAssignment,
    /// The server has ended it: it does not know the consumer.
    ended: bool,
}

impl Client {
    pub fn stream(&mut self) -> Option<&mut Stream> {
        self.session.as_mut()?.stream.as_mut()
    }

    pub fn take_stream(&mut self) -> Option<Stream> {
        self.session.as_mut()?.stream.take()
    }

    pub fn put_stream(&mut self, stream: Stream) {
        if let Some(session) = &mut self.session {
            session.stream = Some(stream);
        }
    }

    /// What can happen on its streams.
    pub fn moves(&self) -> (bool, bool, bool, Vec<(u64, u32)>) {
        let Some(session) = &self.session else { return (false, false, false, Vec::new()) };
        let up = !session.up.is_empty();
        let down = session.stream.as_ref().is_some_and(|stream| !stream.down.is_empty()) && !self.paused;
        let watch = (!session.watch.is_empty() || session.ended) && !self.paused;
        let readers = session.stream.as_ref().filter(|_| !session.ended);
        (up, down, watch, readers.map_or_else(Vec::new, |stream| stream.ready().collect()))
    }

    /// The application has done with what it was handed.
    fn done(&mut self) -> Option<(Place, Vec<u64>)> {
        self.in_hands.take()
    }

    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }
}

fn assignment_to_wire(assignment: &ConsumerAssignment) -> v1::Assignment {
    let topics = assignment.topics.iter().map(|assigned| {
        let hand_over = assigned.hand_over.as_ref();
        let vgroups = assigned.vgroups.iter().map(|(vgroup, epoch)| v1::AssignedVgroup {
            vgroup: vgroup.0,
            epoch: epoch.0,
            revoked: hand_over.is_some_and(|hand_over| hand_over.revoked.contains(vgroup)),
        });
        v1::AssignedTopic {
            id: assigned.topic.id.0,
            name: assigned.topic.name.clone(),
            database: assigned.topic.database_name.clone(),
            vgroups: vgroups.collect(),
            hand_over: hand_over.map(|hand_over| hand_over.epoch.0),
            ..v1::AssignedTopic::default()
        }
    });
    v1::Assignment {
        consumer_epoch: assignment.epoch,
        ready: assignment.state == mnode::ConsumerState::Ready,
        topics: topics.collect(),
    }
}

impl World {
    /// Another process comes up and wants `topics`.
    pub fn new_client(&mut self, topics: BTreeSet<String>) -> u64 {
        self.ids += 1;
        let id = self.ids;
        let group = if id.is_multiple_of(4) { "late" } else { "early" };
        let mut config = ConsumerConfig::new(group);
        let reset = if group == "late" { AutoOffsetReset::Latest } else { AutoOffsetReset::Earliest };
        config.auto_offset_reset = reset;
        config.enable_auto_commit = self.rng.random_bool(0.8);
        config.auto_commit_interval_ms = if self.rng.random_bool(0.5) { 0 } else { 1_000 };
        (config.session_timeout_ms, config.max_poll_interval_ms) = (6_000, 10_000);
        config.messages_ahead = self.rng.random_range(1..6);
        self.note(|_| format!("{id} of {group} comes for {topics:?}"));
        let client = Client {
            group,
            auto_commit: config.enable_auto_commit,
            core: SimConsumer::new(id, config),
            paused: false,
            wants: topics,
            asking: false,
            leaving: false,
            session: None,
            in_hands: None,
            topics: BTreeMap::new(),
            tokens: BTreeMap::new(),
            arrived: BTreeMap::new(),
            beat_due_ns: self.now_ns,
        };
        self.clients.insert(id, client);
        self.nudge(id);
        id
    }

    fn send(&mut self, client: u64, unary: Unary) {
        self.calls += 1;
        self.flights.insert(self.calls, Flight { client, unary, stage: Stage::Up, silent: false });
    }

    /// Asks for the topics wanted, if they are not the ones in force; connects again where the connection broke.
    pub fn nudge(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.paused || client.asking || client.leaving || client.wants.is_empty() {
            return;
        }
        let requested: BTreeSet<String> = client.core.requested().into_iter().collect();
        if client.session.is_some() && requested == client.wants {
            return;
        }
        client.asking = true;
        if client.core.leaves_topics(&client.wants) && client.auto_commit {
            let handled = client.done();
            self.handled(handled);
            self.commit_all(id, Then::Subscribe);
            return;
        }
        let topics = client.wants.iter().cloned().collect();
        self.send(id, Unary::Subscribe(topics));
    }

    fn commit_all(&mut self, id: u64, then: Then) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        match client.core.commit_all() {
            Ok(commits) => self.commit(id, commits, then),
            Err(_) => self.follow(id, then),
        }
    }

    fn commit(&mut self, id: u64, commits: SimCommits, then: Then) {
        if commits.is_empty() {
            self.follow(id, then);
            return;
        }
        let Some(client) = self.clients.get(&id) else { return };
        let mut request = client.core.commit_request(&commits);
        let is_hand_over = matches!(then, Then::Release(_));
        if self.planted == Some(Planted::CommitsPrefetched)
            || (self.planted == Some(Planted::HandsOverTooMuch) && is_hand_over)
        {
            for offset in &mut request.offsets {
                let arrived = client.arrived.get(&(offset.topic, offset.vgroup)).copied().unwrap_or(0);
                offset.offset = offset.offset.max(arrived);
            }
        }
        self.note(|_| format!("{id} commits {:?}", request.offsets));
        self.send(id, Unary::Commit { commits, request, then });
    }

    fn follow(&mut self, id: u64, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Release(release) => self.send(id, Unary::Release(release)),
            Then::Leave => {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.core.leaving();
                    self.send(id, Unary::Subscribe(Vec::new()));
                }
            }
            Then::Subscribe => {
                if let Some(client) = self.clients.get(&id) {
                    let topics = client.wants.iter().cloned().collect();
                    self.send(id, Unary::Subscribe(topics));
                }
            }
        }
    }

    fn handled(&mut self, handled: Option<(Place, Vec<u64>)>) {
        if let Some((place, versions)) = handled {
            self.oracle.handled(place, versions.into_iter());
        }
    }

    /// The application polls; whether it got something.
    pub fn poll(&mut self, id: u64) -> bool {
        let now = self.now();
        let Some(client) = self.clients.get_mut(&id).filter(|client| !client.paused && !client.leaving)
        else {
            return false;
        };
        let handled = client.done();
        let entered = client.core.enter_poll(now);
        let taken = if entered.is_ok() { client.core.take(now) } else { Ok(None) };
        self.handled(handled);
        if let Ok(commits) = entered {
            self.commit(id, commits, Then::Nothing);
        }
        let message = match taken {
            Ok(message) => message,
            Err(error) => {
                self.note(|_| format!("{id} poll: {error}"));
                None
            }
        };
        if let Some(message) = &message {
            self.hand_out(id, message);
        }
        self.pump(id);
        message.is_some()
    }

    fn hand_out(&mut self, id: u64, message: &client::Message) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let topic = client.topics[message.topic()];
        let key = (topic.0, message.vgroup());
        let rows = rows::of_message(message);
        let range = (message.begin().cast_unsigned(), message.next().cast_unsigned());
        let place = (topic, client.group.to_owned(), VgroupId(key.1));
        let versions: Vec<u64> = rows.iter().map(|(version, _)| *version).collect();
        client.in_hands = Some((place, versions));
        let epoch = client.tokens[&key];
        self.oracle.handed_out(id, key, epoch, range, &rows);
        self.note(|_| format!("{id} gets {range:?} of {key:?}"));
        let by_hand = self.rng.random_bool(0.5);
        let Some(client) = self.clients.get_mut(&id).filter(|client| by_hand && !client.auto_commit) else {
            return;
        };
        let handled = client.done();
        let commits = client.core.commit_message(message);
        self.handled(handled);
        if let Ok(commits) = commits {
            self.commit(id, commits, Then::Nothing);
        }
    }

    /// Takes out what the core has to send.
    fn pump(&mut self, id: u64) {
        loop {
            let Some(client) = self.clients.get_mut(&id) else { return };
            let Some(session) = client.session.as_mut() else { return };
            while let Some(request) = client.core.next_request() {
                session.up.push_back(request);
            }
            match client.core.next_release() {
                Some((commits, release)) => {
                    self.note(|_| format!("{id} releases {release:?}"));
                    self.commit(id, commits, Then::Release(release));
                }
                None => return,
            }
        }
    }

    pub fn beat(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.beat_due_ns = self.now_ns + 1_000_000_000;
        if client.session.is_some() && !client.paused {
            let request = client.core.heartbeat();
            self.send(id, Unary::Heartbeat(request));
        }
    }

    /// The application closes its consumer.
    pub fn close(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id).filter(|client| !client.paused && !client.asking) else {
            return;
        };
        if !client.core.is_ready() {
            self.crash(id);
            return;
        }
        client.leaving = true;
        let auto = client.auto_commit;
        let handled = client.done();
        self.handled(handled);
        self.note(|_| format!("{id} closes"));
        if auto { self.commit_all(id, Then::Leave) } else { self.follow(id, Then::Leave) }
    }

    /// The process is no more. What it has sent is still under way.
    pub fn crash(&mut self, id: u64) {
        self.note(|_| format!("{id} crashes"));
        self.cut(id);
        self.clients.remove(&id);
    }

    /// The connection breaks.
    pub fn cut(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.asking = false;
        if client.session.take().is_some() {
            client.core.disconnected();
            self.leader.coordinator.listens(ConsumerId(id), false);
        }
        let left = client.leaving;
        for flight in self.flights.values_mut().filter(|flight| flight.client == id && !flight.silent) {
            flight.silent = true;
            match &flight.unary {
                Unary::Commit { commits, request, .. } => {
                    let failed: Vec<_> = request.offsets.iter().map(|_| Err(unreachable())).collect();
                    client.core.committed(commits, &failed);
                }
                Unary::Heartbeat(request) => client.core.heartbeat_done(request, None),
                Unary::Subscribe(_) | Unary::Release(_) => {}
            }
        }
        self.flights.retain(|_, flight| !(flight.silent && matches!(flight.stage, Stage::Down(..))));
        if left {
            // It gives up waiting: its session timeout says the rest.
            self.clients.remove(&id);
        }
        self.drive();
    }

    /// The server has let it go.
    fn gone(&mut self, id: u64) {
        self.cut(id);
        if let Some(client) = self.clients.get_mut(&id) {
            client.core.gone(&Error::of(Code::ConsumerNotExist));
            client.in_hands = None;
        }
    }

    /// Subscribed: the streams begin.
    fn open_session(&mut self, id: u64) {
        let known = match self.leader.coordinator.assignment(&self.leader.state, ConsumerId(id)) {
            Ok(known) => known,
            Err(_) => return self.gone(id),
        };
        let Some(client) = self.clients.get_mut(&id) else { return };
        self.leader.coordinator.listens(ConsumerId(id), true);
        let open = match client.core.connected().action {
            Some(v1::consume_request::Action::Open(open)) => open,
            other => panic!("{other:?}"),
        };
        client.session = Some(Session {
            up: VecDeque::new(),
            stream: Some(Stream::new(open)),
            watch: [assignment_to_wire(&known)].into(),
            known,
            ended: false,
        });
        self.pump(id);
    }

    /// The server looks whether it has to tell a consumer something.
    pub fn tell(&mut self, id: u64) {
        let Some(session) = self.clients.get_mut(&id).and_then(|client| client.session.as_mut()) else {
            return;
        };
        match self.leader.coordinator.assignment(&self.leader.state, ConsumerId(id)) {
            Ok(assignment) if assignment != session.known => {
                session.watch.push_back(assignment_to_wire(&assignment));
                session.known = assignment;
            }
            Ok(_) => {}
            Err(_) => session.ended = true,
        }
    }

    pub fn take_up(&mut self, id: u64) {
        let Some(session) = self.clients.get_mut(&id).and_then(|client| client.session.as_mut()) else {
            return;
        };
        if let (Some(request), Some(stream)) = (session.up.pop_front(), &mut session.stream) {
            stream.take(request);
        }
    }

    pub fn take_down(&mut self, id: u64) {
        let now = self.now();
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(response) = client.stream().and_then(|stream| stream.down.pop_front()) else { return };
        if let Some(Event::Message(message)) = &response.event {
            client.arrived.insert((message.topic, message.vgroup), message.next);
        }
        client.core.received(response, now).unwrap();
        self.pump(id);
    }

    pub fn take_watch(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(session) = client.session.as_mut() else { return };
        let Some(assignment) = session.watch.pop_front() else { return self.gone(id) };
        self.note(|_| format!("{id} is assigned {assignment:?}"));
        let Some(client) = self.clients.get_mut(&id) else { return };
        let group = client.group.to_owned();
        // The core passes over others.
        if assignment.ready && !client.core.requested().is_empty() {
            client.topics.clear();
            client.tokens.clear();
        }
        for topic in &assignment.topics {
            client.topics.insert(topic.name.clone(), TopicId(topic.id));
            for vgroup in &topic.vgroups {
                client.tokens.insert((topic.id, vgroup.vgroup), Epoch(vgroup.epoch));
                let place = (TopicId(topic.id), group.clone(), VgroupId(vgroup.vgroup));
                self.oracle.believes(place, Epoch(vgroup.epoch), ConsumerId(id));
            }
        }
        self.oracle.keeps(id, &client.tokens);
        client.core.assign(assignment).unwrap();
        self.pump(id);
    }

    pub fn answer(&mut self, id: u64, unary: Unary, answer: Result<Vec<Result<()>>>, denied: Vec<u64>) {
        let now = self.now();
        let Some(client) = self.clients.get_mut(&id) else { return };
        let is_gone = answer.as_ref().is_err_and(|error| error.code() == Code::ConsumerNotExist);
        match unary {
            Unary::Subscribe(topics) if topics.is_empty() => {
                self.leader.coordinator.listens(ConsumerId(id), false);
                self.flights.retain(|_, flight| flight.client != id || matches!(flight.stage, Stage::Up));
                self.clients.remove(&id);
                self.drive();
            }
            Unary::Subscribe(topics) => {
                client.asking = false;
                match answer {
                    Ok(_) => {
                        client.core.accepted(topics.into_iter().collect(), now);
                        if client.session.is_none() {
                            self.open_session(id);
                        }
                    }
                    Err(error) => self.note(|_| format!("{id} may not subscribe: {error}")),
                }
            }
            Unary::Heartbeat(request) => {
                let response = v1::HeartbeatResponse { denied_topics: denied };
                client.core.heartbeat_done(&request, answer.is_ok().then_some(&response));
                if is_gone {
                    self.gone(id);
                }
                self.pump(id);
            }
            Unary::Release(_) => {}
            Unary::Commit { commits, request, then } => {
                let results = answer
                    .unwrap_or_else(|error| request.offsets.iter().map(|_| Err(error.clone())).collect());
                client.core.committed(&commits, &results);
                self.follow(id, then);
                self.pump(id);
            }
        }
    }
}
