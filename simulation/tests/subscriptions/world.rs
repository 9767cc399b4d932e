//! Everything in one place on virtual time, and what happens to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mnode::{
    Command, DatabaseSpec, DropGroupSpec, DropTopicSpec, GroupKey, ReloadSpec, TopicKind, TopicMeta,
    TopicSpec,
};
use model::{ConsumerId, DatabaseOptions, ManualClock, Result, TopicId, Version, VgroupId};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use vnode::sim::SimTopics;

use crate::calls::Flight;
use crate::client::Client;
use crate::leader::{Ask, Leader, ShardCall, unreachable};
use crate::oracle::{Oracle, Place};
use crate::rows::{Filter, START_NS};
use crate::shard::Shard;

const TICK_NS: i64 = 2_000_000_000;
const MS: i64 = 1_000_000;
/// Topic and database.
const TOPICS: [(&str, &str); 3] = [("t", "d"), ("u", "d"), ("w", "e")];
const CLIENTS_MAX: usize = 50;

/// A fault of ours that the simulation must notice, or it shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A shard takes commits of whoever sends one.
    CommitsUnfenced,
    /// A shard looks at the consumer and not at the token.
    IgnoresTokens,
    /// A shard takes any Owner record, also one that was overtaken.
    TakesOldOwners,
    /// An assignment is put in force before the shards have it.
    OwnersNotAwaited,
    /// One of the shards is not told.
    ForgetsOneShard,
    /// A commit before a hand-over covers what has arrived and was not handed out.
    HandsOverTooMuch,
    /// So does every commit.
    CommitsPrefetched,
    /// A reader parks without looking again.
    LosesWakeUps,
    /// A tick moves vgroups though nothing has changed.
    MovesWithoutNeed,
    /// A consumer is removed that is not overdue.
    RemovesUnlisted,
}

#[derive(Debug)]
pub struct World {
    pub planted: Option<Planted>,
    pub rng: ChaCha8Rng,
    pub clock: Arc<ManualClock>,
    pub now_ns: i64,
    next_tick_ns: i64,
    pub step: u64,
    /// Whether faults happen.
    pub storm: bool,
    pub leader: Leader,
    pub shards: BTreeMap<VgroupId, Shard>,
    pub topics: SimTopics,
    pub clients: BTreeMap<u64, Client>,
    pub ids: u64,
    pub groups_of: BTreeMap<u64, &'static str>,
    pub flights: BTreeMap<u64, Flight>,
    pub calls: u64,
    pub shard_calls: Vec<ShardCall>,
    /// Last heartbeat and last poll that the leader knows of.
    pub heard: BTreeMap<u64, (i64, i64)>,
    pub starts: BTreeMap<Place, Version>,
    pub filters: BTreeMap<(TopicId, u32), Filter>,
    pub oracle: Oracle,
    rows: i64,
    history: Option<Vec<String>>,
}

/// Something that can happen next.
#[derive(Clone, Copy, Debug)]
enum Move {
    Flight(u64),
    ShardCall(usize),
    Apply(VgroupId),
    Up(u64),
    Down(u64),
    Watch(u64),
    Tell(u64),
    Read(u64, (u64, u32)),
}

impl World {
    /// Two databases and three topics. `tells` keeps a history.
    pub fn new(seed: u64, planted: Option<Planted>, tells: bool) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (d, e) = (rng.random_range(1..7), rng.random_range(1..3));
        let mut world = Self {
            planted,
            rng,
            clock: Arc::new(ManualClock::at(START_NS)),
            now_ns: START_NS,
            next_tick_ns: START_NS + TICK_NS,
            step: 0,
            storm: false,
            leader: Leader::default(),
            shards: BTreeMap::new(),
            topics: SimTopics::default(),
            clients: BTreeMap::new(),
            ids: 0,
            groups_of: BTreeMap::new(),
            flights: BTreeMap::new(),
            calls: 0,
            shard_calls: Vec::new(),
            heard: BTreeMap::new(),
            starts: BTreeMap::new(),
            filters: BTreeMap::new(),
            oracle: Oracle::default(),
            rows: 0,
            history: tells.then(Vec::new),
        };
        world.run(Command::Bootstrap { root_hash: "h".into() }).unwrap();
        for (name, vgroups) in [("d", d), ("e", e)] {
            let options = DatabaseOptions { vgroups, ..DatabaseOptions::default() };
            let spec = DatabaseSpec { name: name.into(), if_not_exists: false, options };
            world.run(Command::CreateDatabase { by: "root".into(), spec }).unwrap();
            world.drive();
            let info = Arc::clone(&world.leader.state.catalog().database(name).unwrap().info);
            for vgroup in &info.vgroups {
                world.add_shard(*vgroup, (*info).clone());
            }
        }
        for at in 0..TOPICS.len() {
            world.create_topic(at).unwrap();
            world.deliver_all();
        }
        world.storm = true;
        world
    }

    pub fn note(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.history.is_none() {
            return;
        }
        let line = format!("{:>7} ms  {}", (self.now_ns - START_NS) / MS, what(self));
        self.history.get_or_insert_default().push(line);
    }

    pub fn take_history(&mut self) -> Vec<String> {
        self.history.take().unwrap_or_default()
    }

    pub fn now(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.now_ns - START_NS).unwrap())
    }

    pub fn next_row(&mut self) -> i64 {
        self.rows += 1;
        self.rows
    }

    // ------------------------------------------------------------------------------------------------ statements

    fn create_topic(&mut self, at: usize) -> Result<()> {
        let (name, database) = TOPICS[at];
        let filter = if at == 0 { Filter::CHOICES[self.rng.random_range(0..3)] } else { Filter::All };
        let spec = TopicSpec {
            name: name.into(),
            if_not_exists: false,
            database: database.into(),
            kind: if at == 0 { TopicKind::Query { of_stable: true } } else { TopicKind::Database },
            meta: TopicMeta::Without,
            sql: String::new(),
            schema_json: None,
            definition: if at == 0 { filter.definition() } else { String::new() },
        };
        self.run(Command::CreateTopic { by: "root".into(), spec })?;
        let made = self.leader.state.intents().filter_map(|intent| match &intent.kind {
            mnode::IntentKind::Topic(mnode::TopicDdl::Create(topic)) => Some(topic.id),
            _ => None,
        });
        let made = made.max().unwrap();
        self.knows_filter(made, 1, filter);
        self.note(|_| format!("topic {name} is {made:?}, {filter:?}"));
        self.drive();
        Ok(())
    }

    fn recreate_topic(&mut self) {
        let at = self.rng.random_range(0..TOPICS.len());
        let (name, force) = (TOPICS[at].0, self.rng.random_bool(0.7));
        let spec = DropTopicSpec { name: name.into(), if_exists: false, force };
        let dropped = self.run(Command::DropTopic { by: "root".into(), spec });
        self.note(|_| format!("drop topic {name} force={force}: {dropped:?}"));
        self.drive();
        if self.rng.random_bool(0.5) {
            self.deliver(30);
        }
        let _ = self.create_topic(at);
    }

    fn reload_topic(&mut self) {
        let filter = Filter::CHOICES[self.rng.random_range(0..3)];
        let spec = ReloadSpec {
            name: "t".into(),
            if_exists: false,
            database: "d".into(),
            of_stable: true,
            sql: String::new(),
            schema_json: None,
            definition: filter.definition(),
        };
        if self.run(Command::ReloadTopic { by: "root".into(), spec }).is_ok() {
            let reloaded = self.leader.state.intents().find_map(|intent| match &intent.kind {
                mnode::IntentKind::Topic(mnode::TopicDdl::Reload(topic)) => Some(topic),
                _ => None,
            });
            let (id, version) = reloaded.map(|topic| (topic.id, topic.definition_version)).unwrap();
            self.knows_filter(id, version, filter);
            self.note(|_| format!("reload {id:?} version {version} {filter:?}"));
        }
        self.drive();
    }

    fn drop_group(&mut self) {
        let (topic, group) =
            (TOPICS[self.rng.random_range(0..3)].0, ["early", "late"][self.rng.random_range(0..2)]);
        let force = self.rng.random_bool(0.7);
        let spec = DropGroupSpec { group: group.into(), topic: topic.into(), if_exists: false, force };
        let dropped = self.run(Command::DropGroup { by: "root".into(), spec });
        self.note(|_| format!("drop group {group} on {topic}: {:?}", dropped.map(drop)));
        self.drive();
    }

    fn add_vgroup(&mut self) {
        let name = if self.rng.random_bool(0.5) { "d" } else { "e" };
        let database = Arc::clone(&self.leader.state.catalog().database(name).unwrap().info);
        if self.leader.state.intents().any(|intent| intent.database == database.id)
            || database.vgroups.len() > 9
        {
            return;
        }
        let vgroup = self.leader.state.add_vgroup(name).unwrap();
        self.note(|_| format!("{vgroup} comes to {name}"));
        self.add_shard(vgroup, (*database).clone());
        for (of, _) in TOPICS.iter().filter(|(_, of)| *of == name) {
            let Ok(topic) = self.leader.state.catalog().topic(of).cloned() else { continue };
            let ask = Ask::Topic(mnode::TopicDdl::Create(topic));
            self.ask(&mut ShardCall { job: None, vgroup, ask, answer: None });
        }
    }

    // ------------------------------------------------------------------------------------------------- the network

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        let flights = self.flights.iter().filter(|(_, flight)| flight.can_move(&self.clients));
        moves.extend(flights.map(|(number, _)| Move::Flight(*number)));
        moves.extend((0..self.shard_calls.len()).map(Move::ShardCall));
        moves.extend(self.shards.iter().filter(|(_, s)| s.sim.queued() > 0).map(|(v, _)| Move::Apply(*v)));
        for (id, client) in &self.clients {
            let (up, down, watch, readers) = client.moves();
            moves.extend(up.then_some(Move::Up(*id)));
            moves.extend(down.then_some(Move::Down(*id)));
            moves.extend(watch.then_some(Move::Watch(*id)));
            moves.extend(readers.into_iter().map(|key| Move::Read(*id, key)));
        }
        moves.extend(self.leader.woken.iter().map(|id| Move::Tell(*id)));
        moves.extend(self.leader.gone.iter().map(|id| Move::Tell(*id)));
        moves
    }

    fn take(&mut self, next: Move) {
        let is_lost = self.storm && self.rng.random_bool(0.02);
        match next {
            Move::Flight(number) => self.fly(number, is_lost),
            Move::ShardCall(at) => self.fly_to_shard(at),
            Move::Apply(vgroup) => self.apply_one(vgroup),
            Move::Up(id) => self.take_up(id),
            Move::Down(id) => self.take_down(id),
            Move::Watch(id) => self.take_watch(id),
            Move::Tell(id) => {
                self.leader.woken.remove(&id);
                self.leader.gone.retain(|other| *other != id);
                self.tell(id);
            }
            Move::Read(id, key) => self.read(id, key),
        }
    }

    fn fly_to_shard(&mut self, at: usize) {
        let mut call = self.shard_calls.swap_remove(at);
        if let Some(answer) = call.answer {
            if let Some(job) = call.job {
                self.answered(job, call.vgroup, answer);
            }
            return;
        }
        let may_be_late = self.storm && matches!(call.ask, Ask::Owner(_));
        if self.storm && self.rng.random_bool(0.05) && call.job.is_some() {
            // Whoever asks gives up. Of an owner the shard may hear later; what a statement asks is asked by a call
            // that goes with whoever gives up, or its record is in the log before that of the next try.
            let late = ShardCall { job: None, ..call.clone() };
            call.answer = Some(Err(unreachable()));
            self.shard_calls.push(call);
            self.shard_calls.extend(may_be_late.then_some(late));
            return;
        }
        if may_be_late && self.rng.random_bool(0.05) {
            self.shard_calls.push(ShardCall { job: None, ..call.clone() });
        }
        self.ask(&mut call);
        self.shard_calls.push(call);
    }

    /// Some of what can happen, in any order.
    fn deliver(&mut self, count: usize) {
        for _ in 0..count {
            let moves = self.moves();
            if moves.is_empty() {
                return;
            }
            let at = self.rng.random_range(0..moves.len());
            self.take(moves[at]);
        }
    }

    /// All of it, in any order.
    fn deliver_all(&mut self) {
        for _ in 0..10_000 {
            let moves = self.moves();
            if moves.is_empty() {
                self.check_nobody_sleeps();
                return;
            }
            let at = self.rng.random_range(0..moves.len());
            self.take(moves[at]);
        }
        panic!("does not come to rest: {:?}", self.moves());
    }

    fn advance(&mut self, by_ns: i64) {
        let until = self.now_ns + by_ns;
        while self.now_ns < until {
            let beats =
                self.clients.values().filter(|client| !client.paused).map(|client| client.beat_due_ns);
            let next = beats.chain([self.next_tick_ns]).min().unwrap_or(until).clamp(self.now_ns, until);
            self.clock.advance_ns(next - self.now_ns);
            self.now_ns = next;
            if next >= self.next_tick_ns {
                self.next_tick_ns += TICK_NS;
                self.tick();
            }
            let due = self.clients.iter().filter(|(_, client)| !client.paused && client.beat_due_ns <= next);
            let due: Vec<u64> = due.map(|(id, _)| *id).collect();
            for id in due {
                self.beat(id);
            }
        }
    }

    // --------------------------------------------------------------------------------------------------- the storm

    fn any_client(&mut self) -> Option<u64> {
        let at = self.rng.random_range(0..self.clients.len().max(1));
        self.clients.keys().nth(at).copied()
    }

    fn any_shard(&mut self) -> VgroupId {
        let at = self.rng.random_range(0..self.shards.len());
        *self.shards.keys().nth(at).unwrap()
    }

    fn some_topics(&mut self) -> BTreeSet<String> {
        let first = TOPICS[self.rng.random_range(0..3)].0.to_owned();
        let more = TOPICS.iter().filter(|_| self.rng.random_bool(0.3)).map(|(name, _)| (*name).to_owned());
        let mut topics: BTreeSet<String> = more.collect();
        topics.insert(first);
        topics
    }

    pub fn storm_step(&mut self, crowd: bool) {
        self.step += 1;
        let joins = if crowd { 22 } else { 6 };
        match self.rng.random_range(0..100) {
            n if n < joins && self.ids < CLIENTS_MAX as u64 => {
                let topics = self.some_topics();
                self.new_client(topics);
            }
            0..25 => {
                let vgroup = self.any_shard();
                self.write(vgroup);
            }
            25..60 => {
                for _ in 0..self.rng.random_range(1..6) {
                    if let Some(id) = self.any_client() {
                        self.poll(id);
                    }
                }
            }
            60..72 => {
                let by_ns = self.rng.random_range(1..1_500) * MS;
                self.advance(by_ns);
            }
            72..90 => self.fault(),
            _ => {
                if let Some(id) = self.any_client() {
                    self.nudge(id);
                }
            }
        }
        let count = self.rng.random_range(0..25);
        self.deliver(count);
    }

    fn fault(&mut self) {
        let client = self.any_client();
        let vgroup = self.any_shard();
        match (self.rng.random_range(0..16), client) {
            (0, Some(id)) => self.close(id),
            (1, Some(id)) => self.crash(id),
            (2..4, Some(id)) => {
                self.note(|_| format!("{id} stops"));
                self.clients.get_mut(&id).unwrap().paused = true;
            }
            (4..6, Some(_)) => self.clients.values_mut().for_each(|client| client.paused = false),
            (6..8, Some(id)) => {
                self.note(|_| format!("{id} is cut off"));
                self.cut(id);
            }
            (8, Some(id)) => {
                let topics = self.some_topics();
                self.note(|_| format!("{id} changes to {topics:?}"));
                self.clients.get_mut(&id).unwrap().wants = topics;
                self.nudge(id);
            }
            (9, _) => {
                self.note(|_| format!("{vgroup} breaks"));
                self.shards.get_mut(&vgroup).unwrap().broken = true;
            }
            (10, _) => self.shards.values_mut().for_each(|shard| shard.broken = false),
            (11, _) => self.restart_shard(vgroup),
            (12, _) => self.change_leader(),
            (13, _) if self.rng.random_bool(0.5) => self.recreate_topic(),
            (13, _) => self.drop_group(),
            (14, _) => self.reload_topic(),
            (15, _) => self.add_vgroup(),
            _ => {}
        }
    }

    /// Nobody is removed who was heard of in time.
    pub fn check_overdue(&self, id: u64) {
        let Some((beat, poll)) = self.heard.get(&id) else { return };
        let (beat, poll) = (self.now_ns - beat, self.now_ns - poll);
        let is_overdue = beat + TICK_NS >= 6_000 * MS || poll + TICK_NS >= 10_000 * MS;
        assert!(is_overdue, "{id} is removed: heartbeat {} ms ago, poll {} ms ago", beat / MS, poll / MS);
    }

    // ---------------------------------------------------------------------------------------------------- the calm

    /// A while in which everybody does what is asked.
    fn calm_while(&mut self, ms: i64) {
        let ids: Vec<u64> = self.clients.keys().copied().collect();
        ids.iter().for_each(|id| self.nudge(*id));
        self.deliver_all();
        for _ in 0..200 {
            let ids: Vec<u64> = self.clients.keys().copied().collect();
            let got = ids.into_iter().filter(|id| self.poll(*id)).count();
            self.deliver_all();
            if got == 0 {
                break;
            }
        }
        self.advance(ms * MS);
        self.deliver_all();
    }

    /// All faults end. Who is silent times out; then a last change comes to rest at once, and stays.
    pub fn calm(&mut self) {
        self.note(|_| "calm".into());
        self.storm = false;
        self.shards.values_mut().for_each(|shard| shard.broken = false);
        self.clients.values_mut().for_each(|client| client.paused = false);
        // The longest patience with a shard, in ticks, and a session timeout.
        for _ in 0..2 * (16 + 4) {
            self.calm_while(1_000);
        }
        for (at, (name, _)) in TOPICS.iter().enumerate() {
            if self.leader.state.catalog().topic(name).is_err() {
                self.create_topic(at).unwrap();
                self.deliver_all();
            }
        }
        self.new_client(["t".to_owned()].into());
        self.deliver_all();
        for _ in 0..2 * 4 {
            self.calm_while(500);
        }
        assert!(self.is_quiet(), "quiet within two ticks");
        self.check_shares();
        let epochs = self.epochs();
        let vgroups: Vec<VgroupId> = self.shards.keys().copied().collect();
        vgroups.into_iter().for_each(|vgroup| self.write(vgroup));
        for _ in 0..4 {
            self.calm_while(500);
        }
        assert_eq!(self.epochs(), epochs, "nothing moves while nothing changes");
        let ids: Vec<u64> = self.clients.keys().copied().collect();
        for id in ids {
            assert!(!self.poll(id), "there is more for {id}");
        }
        self.check_complete();
    }

    fn epochs(&self) -> Vec<(GroupKey, u64)> {
        self.leader.state.groups().map(|(key, group)| (key.clone(), group.last_epoch().0)).collect()
    }

    fn check_shares(&self) {
        let state = &self.leader.state;
        for consumer in state.consumers() {
            assert!(self.clients.contains_key(&consumer.id.0), "{consumer:?} is gone");
        }
        for (id, client) in &self.clients {
            assert!(client.core.is_ready() && client.has_session(), "{id} is not ready: {client:?}");
        }
        for (key, group) in state.groups() {
            let wanted: BTreeSet<ConsumerId> = state
                .consumers()
                .filter(|c| c.group == key.group && c.target.contains(&key.topic))
                .map(|c| c.id)
                .collect();
            assert_eq!(group.members, wanted, "{key:?}");
            let counts: Vec<usize> = wanted.iter().map(|m| group.owned_by(*m).count()).collect();
            if let Some((max, min)) = counts.iter().max().zip(counts.iter().min()) {
                assert!(max - min <= 1, "{key:?} {counts:?}");
                let vgroups = state.catalog().topic_vgroups(key.topic);
                assert_eq!(counts.iter().sum::<usize>(), vgroups.len(), "{key:?}");
            }
            for (vgroup, owner) in group.owners.iter().filter(|(_, owner)| owner.consumer.is_some()) {
                let shard = self.shards[vgroup].sim.state();
                let held = shard.groups.get(key.topic, &key.group);
                let held = held.map(|held| (held.owner, held.epoch));
                assert_eq!(held, Some((owner.consumer, owner.epoch)), "{key:?} {vgroup}");
            }
        }
    }

    fn check_complete(&self) {
        let state = &self.leader.state;
        for (key, group) in state.groups().filter(|(_, group)| !group.members.is_empty()) {
            for vgroup in group.owners.keys() {
                let place = (key.topic, key.group.clone(), *vgroup);
                if key.group == "early" || self.oracle.has_started(&place) {
                    self.oracle.complete(&place);
                }
            }
        }
    }
}
