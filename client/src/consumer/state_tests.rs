//! The consumer's decisions on virtual time: no server, no sleeping.

use std::collections::BTreeSet;
use std::time::Duration;

use model::{Code, Error};
use proto::v1;

use super::config::AutoOffsetReset;
use super::message::{Message, MessageKind, Skipped};
use super::offsets::Commit;
use super::state::{Event, Key, LogRange, Outgoing, Received, Request, Settings, State, Step};

pub(super) const TOPIC: u64 = 7;

/// Name, id, and vgroups with their epochs.
type Assigned<'a> = (&'a str, u64, &'a [(u32, u64)]);

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn key(vgroup: u32) -> Key {
    Key { topic: TOPIC, vgroup }
}

pub(super) fn settings() -> Settings {
    Settings {
        reset: AutoOffsetReset::Earliest,
        auto_commit_interval: Some(ms(5_000)),
        replay: false,
        messages_ahead: 4,
    }
}

/// A state with a server's side to it: what was sent, and what to answer.
pub(super) struct Rig {
    pub(super) state: State,
    pub(super) now: Duration,
    session: u64,
    pub(super) sent: Vec<Request>,
}

impl Rig {
    fn new(settings: Settings) -> Self {
        Self { state: State::new(settings), now: ms(0), session: 0, sent: Vec::new() }
    }

    /// Subscribed to `t` with `vgroups` of epoch 1, connected, polled once.
    pub(super) fn reading(settings: Settings, vgroups: &[u32]) -> Self {
        let mut rig = Self::new(settings);
        rig.subscribe();
        rig.connect();
        rig.assign(&vgroups.iter().map(|v| (*v, 1)).collect::<Vec<_>>());
        assert!(rig.state.is_assigned());
        assert!(rig.poll().is_none());
        rig
    }

    fn subscribe(&mut self) {
        self.state.accepted(BTreeSet::from(["t".to_owned()]), self.now);
    }

    pub(super) fn connect(&mut self) {
        self.session = self.state.connected();
        self.pump();
    }

    fn assign(&mut self, vgroups: &[(u32, u64)]) {
        self.assign_topics(true, &[("t", TOPIC, vgroups)]);
    }

    fn assign_topics(&mut self, ready: bool, topics: &[Assigned<'_>]) {
        let topic = |(name, id, vgroups): &Assigned<'_>| v1::AssignedTopic {
            id: *id,
            name: (*name).to_owned(),
            database: "d".into(),
            precision: 0,
            kind: 0,
            vgroups: vgroups
                .iter()
                .map(|(vgroup, epoch)| v1::AssignedVgroup { vgroup: *vgroup, epoch: *epoch, revoked: false })
                .collect(),
            ..Default::default()
        };
        let topics = topics.iter().map(topic).collect();
        self.state.assign(v1::Assignment { consumer_epoch: 1, ready, topics }).unwrap();
        self.pump();
    }

    pub(super) fn pump(&mut self) {
        while let Outgoing::Request(request) = self.state.next_request(self.session) {
            self.sent.push(request);
        }
    }

    /// The latest start of a vgroup: its generation and position.
    pub(super) fn started(&self, vgroup: u32) -> Option<(u64, Option<u64>)> {
        self.sent.iter().rev().find_map(|request| match request {
            Request::Start { key, generation, position, .. } if key.vgroup == vgroup => {
                Some((*generation, *position))
            }
            _ => None,
        })
    }

    fn event(&mut self, vgroup: u32, event: Event) {
        self.event_news(vgroup, event);
    }

    /// The same; whether it is the news that nothing comes of the vgroup.
    fn event_news(&mut self, vgroup: u32, event: Event) -> bool {
        let generation = self.started(vgroup).expect("not started").0;
        let news = self.state.received(key(vgroup), generation, event, self.now);
        self.pump();
        news.is_some()
    }

    pub(super) fn message(&mut self, vgroup: u32, begin: u64, next: u64) {
        self.event(vgroup, message(begin, next));
    }

    fn caught_up(&mut self, vgroup: u32, position: u64) {
        let log = LogRange { first: 1, end: position };
        self.event(vgroup, Event::CaughtUp { position, log, reading_on: false, no_table: false });
    }

    /// Entry and look of one poll with timeout 0: the commits it sends and what it returns.
    pub(super) fn poll_full(&mut self) -> (Vec<Commit>, Result<Option<Message>, Error>) {
        let commits = match self.state.enter_poll(self.now) {
            Ok(commits) => commits,
            Err(error) => return (Vec::new(), Err(error)),
        };
        let step = self.state.take(self.now);
        self.pump();
        let found = step.map(|step| match step {
            Step::Message(message) => Some(*message),
            Step::Wait { .. } => None,
        });
        (commits, found)
    }

    pub(super) fn poll(&mut self) -> Option<Message> {
        self.poll_full().1.unwrap()
    }

    fn poll_error(&mut self) -> Code {
        self.poll_full().1.unwrap_err().code()
    }

    pub(super) fn position(&self, vgroup: u32) -> i64 {
        self.state.position("t", vgroup).unwrap()
    }
}

fn message(begin: u64, next: u64) -> Event {
    Event::Message(Box::new(Received {
        begin,
        next,
        kind: MessageKind::Data,
        blocks: Vec::new(),
        json: None,
        skipped: None,
        log: LogRange { first: 1, end: next },
        written_ns: 0,
        records: Vec::new(),
    }))
}

pub(super) fn offsets_of(commits: &[Commit]) -> Vec<(u32, i64)> {
    commits.iter().map(|commit| (commit.key.vgroup, commit.offset)).collect()
}

// ------------------------------------------------------------------------------------------------------------ states

#[test]
fn polling_without_a_subscription_is_an_error_only_before_the_first() {
    let mut rig = Rig::new(settings());
    assert_eq!(rig.poll_error(), Code::SubscribeFirst);
    rig.subscribe();
    assert!(rig.poll().is_none());
    rig.state.unsubscribed();
    assert!(rig.poll().is_none(), "nothing, and no error, after unsubscribe");
    rig.state.shut();
    assert_eq!(rig.poll_error(), Code::ConsumerClosed);
    assert_eq!(rig.state.seek("t", 2, 1).unwrap_err().code(), Code::ConsumerClosed);
}

#[test]
fn a_removed_consumer_answers_so_until_it_subscribes_again() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 2);
    rig.state.gone(&Error::of(Code::ConsumerNotExist));
    assert_eq!(rig.poll_error(), Code::ConsumerNotExist, "what was fetched is dropped");
    assert_eq!(rig.poll_error(), Code::ConsumerNotExist, "at every poll");
    rig.state.unsubscribed();
    assert_eq!(rig.poll_error(), Code::ConsumerNotExist, "unsubscribing changes nothing");
    rig.subscribe();
    rig.connect();
    rig.assign(&[(2, 5)]);
    assert!(rig.poll().is_none());
    assert_eq!(rig.started(2).unwrap().1, None, "starts at the committed offset");
}

#[test]
fn rule_15_being_forgotten_while_leaving_is_success() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.state.leaving();
    assert!(!rig.state.has_left());
    rig.state.gone(&Error::of(Code::ConsumerNotExist));
    assert!(rig.state.has_left());
    rig.state.unsubscribed();
    assert!(rig.poll().is_none());
    let mut rig = Rig::reading(settings(), &[2]);
    rig.state.leaving();
    rig.assign_topics(true, &[]);
    assert!(rig.state.has_left());
}

#[test]
fn the_same_set_again_needs_no_assignment() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.subscribe();
    assert!(rig.state.is_assigned());
    rig.state.accepted(BTreeSet::from(["t".to_owned(), "u".to_owned()]), rig.now);
    assert!(!rig.state.is_assigned());
    rig.assign_topics(false, &[("t", TOPIC, &[(2, 1)]), ("u", 8, &[])]);
    assert!(!rig.state.is_assigned(), "still rebalancing");
    rig.assign_topics(true, &[("t", TOPIC, &[(2, 1)]), ("u", 8, &[])]);
    assert!(rig.state.is_assigned(), "a topic without vgroups counts");
    assert_eq!(rig.state.subscription(), ["t", "u"]);
}

#[test]
fn an_assignment_may_be_faster_than_the_answer_to_the_request() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.assign_topics(true, &[("t", TOPIC, &[(2, 1)]), ("u", 8, &[(9, 1)])]);
    rig.state.accepted(BTreeSet::from(["t".to_owned(), "u".to_owned()]), rig.now);
    assert!(rig.state.is_assigned(), "no other assignment will come");
}

// -------------------------------------------------------------------------------------------------------------- poll

#[test]
fn reading_starts_with_the_first_poll() {
    let mut rig = Rig::new(Settings { reset: AutoOffsetReset::Latest, ..settings() });
    rig.subscribe();
    rig.connect();
    rig.assign(&[(2, 1), (3, 1)]);
    assert_eq!(rig.sent, [Request::Credit(4)], "`latest` is resolved when a poll reaches the vgroup");
    rig.poll();
    assert_eq!(
        rig.sent[1..],
        [
            Request::Start { key: key(2), epoch: 1, generation: 1, position: None },
            Request::Start { key: key(3), epoch: 1, generation: 2, position: None },
        ]
    );
    rig.poll();
    assert_eq!(rig.sent.len(), 3, "once");
}

#[test]
fn one_message_a_poll_and_positions_move_when_it_is_handed_out() {
    let mut rig = Rig::reading(settings(), &[2, 3]);
    rig.caught_up(3, 9);
    rig.message(2, 1, 4);
    rig.message(2, 4, 6);
    rig.message(3, 9, 10);
    assert_eq!(rig.position(2), 1, "arrived is not handed out: the policy, resolved");
    assert_eq!(rig.position(3), 9);
    let first = rig.poll().unwrap();
    assert_eq!((first.vgroup(), first.begin(), first.next()), (2, 1, 4));
    assert_eq!((rig.position(2), rig.position(3)), (4, 9));
    assert_eq!(rig.poll().unwrap().next(), 6);
    assert_eq!(rig.poll().unwrap().vgroup(), 3);
    assert!(rig.poll().is_none());
    let assigned = rig.state.assignment("t").unwrap();
    assert_eq!(assigned.iter().map(|a| a.current).collect::<Vec<_>>(), [4, 9], "where the latest began");
}

#[test]
fn the_server_is_allowed_no_more_than_there_is_room_for() {
    let mut rig = Rig::reading(settings(), &[2]);
    let granted =
        |rig: &Rig| rig.sent.iter().map(|r| if let Request::Credit(n) = r { *n } else { 0 }).sum::<u32>();
    for n in 1..=4 {
        rig.message(2, n, n + 1);
    }
    assert_eq!(granted(&rig), 4, "full: four granted, four here");
    for n in 1..=4 {
        rig.poll().unwrap();
        assert!(granted(&rig) <= 4 + n);
    }
    assert_eq!(granted(&rig), 7, "one at once, then two together");
}

#[test]
fn a_caught_up_mark_takes_effect_behind_the_messages_before_it() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 4);
    rig.caught_up(2, 8);
    assert_eq!(rig.position(2), 1);
    rig.poll().unwrap();
    assert_eq!(rig.position(2), 8, "invisible records behind the message are read too");
    rig.caught_up(2, 20);
    assert_eq!(rig.position(2), 20);
}

// ------------------------------------------------------------------------------------------------------------ commit

#[test]
fn rule_12_automatic_commits_cover_earlier_polls_only() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 4);
    rig.message(2, 4, 6);
    rig.now = ms(4_999);
    assert_eq!(offsets_of(&rig.poll_full().0), [], "not due");
    rig.now = ms(5_000);
    let (commits, second) = rig.poll_full();
    assert_eq!(offsets_of(&commits), [(2, 4)], "not what this very poll hands out");
    assert_eq!(second.unwrap().unwrap().next(), 6);
    rig.state.commit_done(&commits[0], &Ok(()));
    rig.now = ms(9_999);
    assert_eq!(offsets_of(&rig.poll_full().0), []);
    rig.now = ms(60_000);
    let (commits, _) = rig.poll_full();
    assert_eq!(offsets_of(&commits), [(2, 6)], "late, but once");
    assert!(rig.poll_full().0.is_empty());
}

#[test]
fn an_idle_consumer_does_not_commit_for_ever() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.caught_up(2, 10);
    let mut sent = 0;
    for round in 1..=100 {
        rig.now = ms(5_000 * round);
        for commit in rig.poll_full().0 {
            rig.state.commit_done(&commit, &Ok(()));
            sent += 1;
        }
        // The commit is itself a record of the log.
        rig.caught_up(2, 10 + round);
    }
    assert_eq!(sent, 1);
    assert_eq!((rig.position(2), rig.state.committed(key(2))), (10, Some(10)), "position and commit agree");
    let heartbeat = rig.state.heartbeat(1);
    assert_eq!(heartbeat.progress[0].position, Some(110), "what is shown is how far it has read");
    rig.caught_up(2, 5_000);
    assert_eq!(rig.position(2), 5_000, "far enough to be worth a commit");
}

#[test]
fn commits_are_known_in_the_order_they_were_sent() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 4);
    rig.message(2, 4, 6);
    let (first, second) = (rig.poll().unwrap(), rig.poll().unwrap());
    let one = rig.state.commit_message(&first).unwrap().unwrap();
    let two = rig.state.commit_message(&second).unwrap().unwrap();
    assert!(one.sequence < two.sequence);
    rig.state.commit_done(&two, &Ok(()));
    rig.state.commit_done(&one, &Ok(()));
    assert_eq!(rig.state.committed(key(2)), Some(6), "the answer of the older came late");
    assert_eq!(rig.state.commit_message(&second).unwrap(), None, "equal is success without asking");
    let back = rig.state.commit_message(&first).unwrap().unwrap();
    rig.state.commit_done(&back, &Ok(()));
    assert_eq!(rig.state.committed(key(2)), Some(4), "may go backwards when told to");
}

#[test]
fn a_failed_commit_is_tried_again_by_the_next() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 4);
    rig.poll().unwrap();
    let commits = rig.state.commit_all().unwrap();
    rig.state.commit_done(&commits[0], &Err(Error::of(Code::Unreachable)));
    assert_eq!(rig.state.committed(key(2)), None);
    assert_eq!(offsets_of(&rig.state.commit_all().unwrap()), [(2, 4)]);
}

#[test]
fn replay_commits_nothing() {
    let replay = Settings { replay: true, auto_commit_interval: None, ..settings() };
    let mut rig = Rig::reading(replay, &[2]);
    rig.message(2, 1, 4);
    let message = rig.poll().unwrap();
    assert_eq!(rig.state.commit_message(&message).unwrap(), None);
    assert_eq!(rig.state.commit_all().unwrap(), []);
    assert_eq!(rig.state.commit_offset("t", 2, 2).unwrap(), None);
}

// --------------------------------------------------------------------------------------------------- seek and checks

#[test]
fn rule_13_seeking_makes_what_is_under_way_stale() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 4);
    rig.poll().unwrap();
    rig.message(2, 4, 6);
    let old = rig.started(2).unwrap().0;
    rig.state.seek("t", 2, 2).unwrap();
    rig.pump();
    assert_eq!(rig.started(2), Some((old + 1, Some(2))));
    assert_eq!((rig.position(2), rig.state.committed(key(2))), (2, None), "at once, and nothing committed");
    rig.state.received(key(2), old, message(6, 7), rig.now);
    assert!(rig.poll().is_none(), "neither the queued message nor the late one");
    assert_eq!(rig.state.assignment("t").unwrap()[0].current, 2);
    rig.message(2, 2, 4);
    assert_eq!(rig.poll().unwrap().begin(), 2);
    rig.now = ms(5_000);
    assert_eq!(offsets_of(&rig.poll_full().0), [(2, 4)]);
}

#[test]
fn a_sought_position_is_committed_by_the_timer() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 9);
    rig.poll().unwrap();
    rig.state.seek("t", 2, 3).unwrap();
    rig.now = ms(5_000);
    assert_eq!(offsets_of(&rig.poll_full().0), [(2, 3)]);
}

#[test]
fn checks_come_in_their_order() {
    let mut rig = Rig::new(settings());
    rig.subscribe();
    rig.connect();
    rig.assign(&[(2, 1)]);
    let code = |rig: &mut Rig, topic: &str, vgroup: u32, offset: i64| {
        let seek = rig.state.seek(topic, vgroup, offset).err().map(|e| e.code());
        let commit = rig.state.commit_offset(topic, vgroup, offset).err().map(|e| e.code());
        assert_eq!(seek, commit, "seek and commit_offset check alike");
        seek
    };
    assert_eq!(code(&mut rig, "zz", 99, -7), Some(Code::TopicNotAssigned));
    assert_eq!(code(&mut rig, "t", 99, -7), Some(Code::VgroupNotAssigned));
    assert_eq!(code(&mut rig, "t", 2, -7), Some(Code::NeedAssignment));
    assert_eq!(rig.state.position("t", 2).unwrap_err().code(), Code::NeedAssignment);
    rig.state.learn(key(2), &v1::Offsets { committed: None, log_first: 3, log_end: 10 });
    for (offset, expected) in [
        (2, Some(Code::OffsetOutOfRange)),
        (11, Some(Code::OffsetOutOfRange)),
        (-2, Some(Code::OffsetOutOfRange)),
        (3, None),
        (10, None),
        (-1, None),
    ] {
        assert_eq!(code(&mut rig, "t", 2, offset), expected, "offset {offset}");
    }
    assert_eq!(rig.position(2), -1, "kept as it was given");
    rig.poll();
    assert_eq!(rig.started(2).unwrap().1, Some(3), "and means the begin");
}

#[test]
fn positions_before_any_message_are_those_of_commit_or_policy() {
    for (reset, expected) in [(AutoOffsetReset::Earliest, 3), (AutoOffsetReset::Latest, 10)] {
        let mut rig = Rig::new(Settings { reset, ..settings() });
        rig.subscribe();
        rig.assign(&[(2, 1), (4, 1)]);
        rig.state.learn(key(2), &v1::Offsets { committed: None, log_first: 3, log_end: 10 });
        rig.state.learn(key(4), &v1::Offsets { committed: Some(5), log_first: 3, log_end: 10 });
        let current: Vec<_> = rig.state.assignment("t").unwrap().iter().map(|a| a.current).collect();
        assert_eq!(current, [expected, 5]);
        assert_eq!((rig.position(2), rig.position(4)), (expected, 5));
    }
}

// --------------------------------------------------------------------------------------------------------- rebalance

#[test]
fn a_kept_vgroup_keeps_its_position_and_what_was_fetched() {
    let mut rig = Rig::reading(settings(), &[2, 3]);
    rig.message(2, 1, 4);
    rig.message(2, 4, 6);
    rig.message(3, 1, 2);
    rig.poll().unwrap();
    rig.assign(&[(2, 1)]);
    assert!(rig.sent.contains(&Request::Stop(key(3))));
    assert_eq!(rig.position(2), 4);
    assert_eq!(rig.poll().unwrap().next(), 6);
    assert!(rig.poll().is_none(), "what was fetched of the lost vgroup is dropped");
    assert_eq!(rig.state.seek("t", 3, 1).unwrap_err().code(), Code::VgroupNotAssigned);
}

#[test]
fn a_vgroup_that_was_somebody_elses_meanwhile_starts_at_the_committed_offset() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 4);
    let message = rig.poll().unwrap();
    let old = rig.started(2).unwrap().0;
    rig.assign(&[(2, 3)]);
    rig.poll();
    assert_eq!(rig.started(2).unwrap().1, None);
    rig.state.received(key(2), old, self::message(4, 6), rig.now);
    assert!(rig.poll().is_none(), "an answer to the old start");
    let commit = rig.state.commit_message(&message).unwrap().unwrap();
    assert_eq!(commit.epoch, 1, "the shard refuses it: read before the vgroup was another's");
    rig.state.commit_done(&commit, &Ok(()));
    assert_eq!(rig.state.committed(key(2)), None);
}

#[test]
fn rule_24_a_consumer_without_vgroups_keeps_polling() {
    let mut rig = Rig::reading(settings(), &[]);
    assert!(rig.state.is_assigned());
    assert!(rig.poll().is_none());
    assert!(rig.state.heartbeat(1).polled);
    rig.assign(&[(5, 9)]);
    rig.poll();
    rig.message(5, 3, 4);
    assert_eq!(rig.poll().unwrap().epoch, 9);
}

#[test]
fn an_assignment_that_is_not_ready_takes_nothing_away() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 4);
    rig.assign_topics(false, &[]);
    assert_eq!(rig.poll().unwrap().next(), 4);
}

// ------------------------------------------------------------------------------------------------ faults, connection

#[test]
fn losing_a_vgroup_is_not_an_error_of_poll() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.event(2, Event::Fault(Error::of(Code::ConsumerMismatch)));
    assert!(rig.poll().is_none());
    let started = rig.started(2);
    rig.now = ms(99);
    rig.poll();
    assert_eq!(rig.started(2), started, "rests");
    rig.now = ms(100);
    rig.poll();
    assert_ne!(rig.started(2), started, "still assigned: tried again");
}

#[test]
fn errors_are_told_once_an_occurrence() {
    let mut rig = Rig::reading(Settings { reset: AutoOffsetReset::None, ..settings() }, &[2]);
    for _ in 0..3 {
        rig.event(2, Event::Fault(Error::of(Code::NoCommittedOffset)));
        assert_eq!(rig.poll_error(), Code::NoCommittedOffset);
        assert!(rig.poll().is_none());
        rig.now += ms(100);
        assert!(rig.poll().is_none(), "asks the shard again");
    }
    rig.event(2, Event::Fault(Error::of(Code::FetchTimeout)));
    assert_eq!(rig.poll_error(), Code::FetchTimeout);
    rig.now += ms(100);
    rig.poll();
    rig.event(2, Event::Fault(Error::of(Code::InvalidVgroup)));
    assert!(rig.poll().is_none(), "a vgroup that moved is looked for again");
}

#[test]
fn a_waiting_poll_wakes_when_a_resting_vgroup_may_start() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.now = ms(500);
    rig.event(2, Event::Fault(Error::of(Code::InvalidVgroup)));
    assert!(matches!(rig.state.take(rig.now).unwrap(), Step::Wait { until: Some(at) } if at == ms(600)));
}

#[test]
fn after_a_break_reading_goes_on_from_the_positions() {
    let mut rig = Rig::reading(settings(), &[2, 3]);
    rig.message(2, 1, 4);
    rig.message(2, 4, 6);
    let old = rig.session;
    rig.poll().unwrap();
    rig.state.disconnected();
    assert_eq!(rig.poll().unwrap().next(), 6, "what was fetched is still good");
    rig.sent.clear();
    rig.connect();
    let starts: Vec<_> = rig.sent.iter().filter(|r| matches!(r, Request::Start { .. })).cloned().collect();
    assert_eq!(starts.len(), 2, "without waiting for a poll");
    assert_eq!((rig.started(2).unwrap().1, rig.started(3).unwrap().1), (Some(6), None));
    assert!(rig.sent.contains(&Request::Credit(4)));
    assert_eq!(rig.state.next_request(old), Outgoing::Ended);
    rig.assign(&[(2, 1), (3, 1)]);
    assert_eq!(rig.position(2), 6, "the same assignment again changes nothing");
}

#[test]
fn a_topic_that_may_not_be_read_is_skipped_until_it_may() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.message(2, 1, 4);
    rig.poll().unwrap();
    rig.message(2, 4, 6);
    rig.state.denied(&[TOPIC]);
    rig.pump();
    assert!(rig.sent.contains(&Request::Stop(key(2))));
    assert_eq!(rig.state.take(Duration::ZERO).unwrap_err().code(), Code::NoPrivilege);
    rig.state.denied(&[TOPIC]);
    assert!(rig.poll().is_none(), "told once");
    rig.message(2, 6, 7);
    assert!(rig.poll().is_none(), "a message that was under way");
    assert_eq!(rig.state.commit_all().unwrap(), [], "what it had is not committed meanwhile");
    rig.state.denied(&[]);
    rig.pump();
    assert_eq!(rig.started(2).unwrap().1, Some(4), "from where it was");
}

#[test]
fn it_is_told_also_when_others_have_the_vgroups_already() {
    let mut rig = Rig::reading(settings(), &[2]);
    rig.assign(&[]);
    rig.state.denied(&[TOPIC]);
    assert_eq!(rig.state.take(Duration::ZERO).unwrap_err().code(), Code::NoPrivilege);
    rig.state.denied(&[]);
    rig.state.denied(&[TOPIC]);
    // Back before it was told: there is nothing to tell any more.
    rig.state.denied(&[]);
    assert!(rig.poll().is_none());
}

#[test]
fn heartbeats_tell_of_polls_and_of_consistent_positions() {
    let mut rig = Rig::reading(settings(), &[2]);
    assert!(rig.state.heartbeat(1).polled);
    let quiet = rig.state.heartbeat(1);
    assert!(!quiet.polled, "none since");
    rig.poll();
    let lost = rig.state.heartbeat(1);
    rig.state.heartbeat_failed(&lost);
    assert!(rig.state.heartbeat(1).polled, "told again when the first was lost");
    rig.state.waits(true);
    assert!(rig.state.heartbeat(1).polled && rig.state.heartbeat(1).polled, "a poll that waits is one");
    rig.state.waits(false);
    assert!(!rig.state.heartbeat(1).polled);
    assert_eq!(quiet.progress[0].position, None, "the policy is not resolved");
    rig.message(2, 1, 4);
    rig.caught_up(2, 8);
    assert_eq!(rig.state.heartbeat(1).progress[0].position, None, "arrived is not handed out");
    rig.poll().unwrap();
    let progress = rig.state.heartbeat(1).progress[0];
    assert_eq!((progress.position, progress.end), (Some(8), 8));
}

#[test]
fn a_gap_shows_in_the_message() {
    let mut rig = Rig::reading(settings(), &[2]);
    let Event::Message(mut received) = message(40, 41) else { unreachable!() };
    received.skipped = Some(Skipped { from: 5, to: 40 });
    received.log = LogRange { first: 40, end: 100 };
    rig.event(2, Event::Message(received));
    let message = rig.poll().unwrap();
    assert_eq!(message.skipped(), Some(Skipped { from: 5, to: 40 }));
    assert_eq!(message.lag(), 59);
}

#[test]
fn it_reads_until_every_vgroup_waits_for_new_writes() {
    let mut rig = Rig::reading(settings(), &[2, 3]);
    assert!(rig.state.is_reading(), "nothing was heard yet");
    rig.caught_up(2, 5);
    assert!(rig.state.is_reading(), "the other may still have something");
    let log = LogRange { first: 1, end: 9 };
    rig.event(3, Event::CaughtUp { position: 4, log, reading_on: true, no_table: false });
    assert!(rig.state.is_reading(), "only time was up");
    rig.message(3, 4, 9);
    rig.poll().unwrap();
    assert!(rig.state.is_reading(), "the next one may be held back by replay");
    rig.caught_up(3, 9);
    assert!(!rig.state.is_reading());
    rig.message(2, 5, 6);
    assert!(rig.state.is_reading(), "it waits to be polled");
    rig.poll().unwrap();
    rig.state.disconnected();
    assert!(!rig.state.is_reading(), "who knows when that is mended");
}

#[test]
fn what_came_before_an_error_is_handed_out_first() {
    let mut rig = Rig::reading(settings(), &[2, 3]);
    rig.message(2, 1, 2);
    rig.message(2, 2, 5);
    rig.event(2, Event::Fault(Error::of(Code::TopicNotExist)));
    rig.message(3, 1, 9);
    rig.now += Duration::from_secs(1);
    let begins: Vec<i64> = (0..2).map(|_| rig.poll().expect("a message").begin()).collect();
    assert_eq!(begins, [1, 2]);
    assert_eq!(rig.poll_error(), Code::TopicNotExist, "before messages of others: they may never end");
    assert_eq!(rig.poll().expect("a message").vgroup(), 3);
    // An error of before a seek is not of what is read after it.
    rig.event(2, Event::Fault(Error::of(Code::TopicNotExist)));
    rig.state.seek("t", 2, 1).unwrap();
    rig.pump();
    assert!(rig.poll().is_none());
}

/// C073: a vgroup whose log is damaged is told once, and holds back nobody.
#[test]
fn c073_what_cannot_be_read_holds_the_others_back_by_nothing() {
    let damage = |version| Event::Fault(Error::with(Code::Damaged, format!("version={version}")));
    let offline = |rig: &Rig| rig.state.offline().iter().map(|o| o.vgroup).collect::<Vec<_>>();
    let mut rig = Rig::reading(settings(), &[2, 3]);
    rig.message(2, 1, 2);
    assert!(rig.event_news(2, damage(2)));
    rig.message(3, 1, 9);
    assert_eq!(offline(&rig), [2]);
    let vgroups: Vec<_> = (0..2).map(|_| rig.poll().expect("no error").vgroup()).collect();
    assert_eq!(vgroups, [2, 3]);
    rig.caught_up(3, 9);
    assert!(!rig.state.is_reading(), "nothing more is to be waited for");
    // Tried again by and by, and not told again for the same.
    let started = rig.started(2);
    rig.now += Duration::from_secs(1);
    assert!(rig.poll().is_none());
    assert_eq!(rig.started(2), started);
    rig.now += Duration::from_secs(5);
    assert!(rig.poll().is_none());
    assert_ne!(rig.started(2), started);
    assert!(!rig.event_news(2, damage(2)));
    assert!(rig.event_news(2, damage(7)), "another place is news");
    // A seek goes on at once; a message says that it is over.
    rig.state.seek("t", 2, 1).unwrap();
    rig.pump();
    rig.message(2, 8, 9);
    assert_eq!((rig.poll().expect("a message").begin(), offline(&rig)), (8, vec![]));
    // A new session asks again at once: the server may have been repaired.
    assert!(rig.event_news(2, damage(9)));
    rig.state.disconnected();
    rig.connect();
    assert_eq!(rig.started(2).expect("started").1, Some(9));
    rig.caught_up(2, 9);
    assert_eq!(offline(&rig), [0; 0]);
}

#[test]
fn a_seek_gives_back_the_room_of_what_it_drops() {
    let mut rig = Rig::reading(settings(), &[2]);
    (1..=4).for_each(|version| rig.message(2, version, version + 1));
    rig.sent.clear();
    rig.state.seek("t", 2, 1).unwrap();
    rig.pump();
    assert!(matches!(rig.sent[..], [Request::Start { .. }, Request::Credit(4)]), "{:?}", rig.sent);
}

#[test]
fn a_paused_vgroup_hands_out_nothing_and_goes_on_where_it_stood() {
    let mut rig = Rig::reading(settings(), &[2, 3]);
    rig.message(2, 5, 6);
    rig.message(3, 7, 8);
    rig.message(2, 6, 7);
    assert_eq!(rig.poll().unwrap().vgroup(), 2);
    rig.state.pause(key(2));
    assert_eq!(rig.poll().unwrap().vgroup(), 3, "what was fetched of the other one is dropped");
    assert!(rig.poll().is_none());
    rig.message(2, 6, 7);
    assert!(rig.poll().is_none(), "what was under way is stale");
    assert!(rig.sent.contains(&Request::Stop(key(2))));
    rig.state.resume(key(2));
    assert!(rig.poll().is_none());
    assert_eq!(rig.started(2).and_then(|(_, position)| position), Some(6));
    rig.message(2, 6, 7);
    assert_eq!(rig.poll().unwrap().begin(), 6);
}
