//! Random lives of consumers, shards and servers on virtual time, from a seed. At every step one owner per vgroup and
//! epoch, and nobody told of a vgroup whose shard would not serve it; after the storm even shares, within two ticks. Some
//! clients release what they lose, some never do.
//!
//! `SEED=n` replays one seed, `SEEDS=n` runs that many.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::AssertUnwindSafe;

use model::{Code, ConsumerId, TopicId, VgroupId};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::world::{Planted, World};
use crate::state::{ConsumerState, GroupKey};

const SEEDS: Range<u64> = 0..3_000;
const STEPS: usize = 60;
const IDS: Range<u64> = 1..13;
const TOPICS: [&str; 3] = ["t", "u", "v"];

/// A client process.
#[derive(Clone, Debug, Default)]
struct Client {
    /// Topics it subscribed to; none: it closed, or was told that it is gone.
    topics: BTreeSet<&'static str>,
    /// Sends heartbeats.
    beats: bool,
    /// Polls.
    polls: bool,
    /// Watches its assignment: hand-overs wait for it.
    listens: bool,
    /// What it was last told, with tokens: it goes on using this until it asks again.
    known: BTreeMap<(TopicId, VgroupId), model::Epoch>,
}

fn group_of(id: u64) -> &'static str {
    if id.is_multiple_of(3) { "h" } else { "g" }
}

struct Simulation {
    rng: ChaCha8Rng,
    world: World,
    clients: BTreeMap<u64, Client>,
    log: Vec<String>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut world = World::new(rng.random_range(1..9));
        world.database("e", rng.random_range(1..5));
        world.topic("u", "d").unwrap();
        world.topic("v", "e").unwrap();
        Self { rng, world, clients: BTreeMap::new(), log: Vec::new() }
    }

    fn note(&mut self, what: impl Into<String>) {
        self.log.push(what.into());
    }

    fn step(&mut self) {
        let id = self.rng.random_range(IDS);
        match self.rng.random_range(0..100) {
            0..30 => self.subscribe(id),
            30..38 => self.close(id),
            38..46 => {
                self.note(format!("crash {id}"));
                self.listen(id, false);
                if let Some(c) = self.clients.get_mut(&id) {
                    (c.beats, c.polls) = (false, false);
                }
            }
            46..50 => {
                self.note(format!("stall {id}"));
                self.clients.entry(id).or_default().polls = false;
            }
            50..54 => {
                self.note(format!("wake {id}"));
                let client = self.clients.entry(id).or_default();
                (client.beats, client.polls) = (true, true);
            }
            54..57 => {
                let vgroup = VgroupId(self.rng.random_range(2..12));
                self.note(format!("break {vgroup}"));
                self.world.broken.insert(vgroup);
            }
            57..61 => self.world.broken.clear(),
            61..64 => self.recreate_topic(),
            64..66 => {
                let database = if self.rng.random_bool(0.5) { "d" } else { "e" };
                let vgroup = self.world.add_vgroup(database);
                self.note(format!("add {vgroup} to {database}"));
            }
            66..70 => {
                self.note("restart");
                self.restart();
            }
            70..76 => {
                // The server dies in the middle of telling owners.
                let told = self.rng.random_range(0..4);
                self.note(format!("die after {told} owners"));
                self.world.owner_budget = Some(told);
                self.world.drive();
                self.restart();
            }
            76..86 => {
                self.note("switch one");
                self.world.plan();
                let pending = self.world.pending();
                if let Some(key) = pending.get(self.rng.random_range(0..pending.len().max(1))) {
                    let _ = self.world.switch(key);
                }
            }
            86..90 => {
                // An answer was lost: the same Owner record comes once more, maybe after later ones.
                self.note("late owner record");
                self.world.deliver_late();
            }
            90..92 => {
                let listens = self.rng.random_bool(0.7);
                self.note(format!("listen {id} {listens}"));
                self.listen(id, listens);
            }
            92..95 => {
                self.note(format!("release {id}"));
                if self.release(id) && self.rng.random_bool(0.7) {
                    self.world.drive();
                }
            }
            _ => self.tick(),
        }
        self.zombies_are_fenced();
    }

    /// Every connection breaks.
    fn restart(&mut self) {
        self.world.restart();
        self.clients.values_mut().for_each(|client| client.listens = false);
    }

    fn listen(&mut self, id: u64, listens: bool) {
        if let Some(client) = self.clients.get_mut(&id).filter(|client| client.listens != listens) {
            client.listens = listens;
            self.world.coordinator.listens(ConsumerId(id), listens);
        }
    }

    /// Gives up whatever is to be given up; whether there was anything.
    fn release(&mut self, id: u64) -> bool {
        let id = ConsumerId(id);
        let World { state, coordinator, .. } = &mut self.world;
        let asked = state.groups().filter(|(_, group)| group.revoked().contains_key(&id));
        let asked: Vec<_> = asked.map(|(key, group)| (key.topic, group.last_epoch())).collect();
        asked
            .iter()
            .fold(false, |any, (topic, epoch)| coordinator.released(state, id, *topic, *epoch).is_ok() || any)
    }

    fn subscribe(&mut self, id: u64) {
        let topics: BTreeSet<&'static str> =
            TOPICS.into_iter().filter(|_| self.rng.random_bool(0.5)).collect();
        if topics.is_empty() {
            return;
        }
        self.note(format!("subscribe {id} {topics:?}"));
        let mut spec = World::spec(id, group_of(id));
        spec.parameters.max_poll_interval_ms = 10_000;
        let list: Vec<&str> = topics.iter().copied().collect();
        match self.world.subscribe_as(spec, &list) {
            Ok(()) => {
                let client = self.clients.entry(id).or_default();
                (client.topics, client.beats, client.polls) = (topics, true, true);
            }
            Err(e) => assert_eq!(e.code(), Code::ConsumerNotReady),
        }
        if self.rng.random_bool(0.7) {
            self.world.drive();
        }
    }

    fn close(&mut self, id: u64) {
        self.note(format!("close {id}"));
        let group = group_of(id);
        self.listen(id, false);
        self.world.subscribe_as(World::spec(id, group), &[]).unwrap();
        self.clients.remove(&id);
    }

    fn recreate_topic(&mut self) {
        let name = TOPICS[self.rng.random_range(0..TOPICS.len())];
        let force = self.rng.random_bool(0.7);
        self.note(format!("recreate {name} force={force}"));
        if self.world.drop_topic(name, force).is_ok() {
            self.world.topic(name, if name == "v" { "e" } else { "d" }).unwrap();
        }
    }

    fn tick(&mut self) {
        self.note("tick");
        let mut gone = Vec::new();
        for (id, client) in &mut self.clients {
            // Some heartbeats are lost, some come twice.
            for _ in 0..self.rng.random_range(0..3) {
                if client.beats && self.world.heartbeat(*id, client.polls).is_err() {
                    gone.push(*id);
                    break;
                }
            }
        }
        for id in gone {
            // It learns that it was removed and gives up what it had.
            if let Some(client) = self.clients.get_mut(&id) {
                (client.topics, client.known) = (BTreeSet::new(), BTreeMap::new());
            }
        }
        self.world.tick();
        // Only some ask for their assignment: the others are the zombies.
        let ids: Vec<u64> = self.clients.keys().copied().collect();
        for id in ids {
            if self.rng.random_bool(0.6) {
                self.learn(id);
            }
        }
    }

    fn learn(&mut self, id: u64) {
        let Ok(consumer) = self.world.state.consumer(ConsumerId(id)) else { return };
        let mut known = BTreeMap::new();
        for topic in &consumer.topics {
            let key = GroupKey { topic: *topic, group: consumer.group.clone() };
            let Some(group) = self.world.state.group(&key) else { continue };
            known.extend(group.owned_by(consumer.id).map(|(vgroup, token)| ((*topic, vgroup), token)));
        }
        self.clients.entry(id).or_default().known = known;
    }

    /// Of all who believe that they own a vgroup, the shard serves one at most, and that one by its latest token.
    fn zombies_are_fenced(&self) {
        let mut served: BTreeMap<(GroupKey, VgroupId), u64> = BTreeMap::new();
        for (id, client) in &self.clients {
            let group = group_of(*id);
            for ((topic, vgroup), token) in &client.known {
                let key = GroupKey { topic: *topic, group: group.into() };
                if self.world.accepts(*vgroup, &key, ConsumerId(*id), *token) {
                    let held = self.world.fence[&(*vgroup, *topic, key.group.clone())].0;
                    assert_eq!(held, *token, "{vgroup} serves a token of an earlier time");
                    let other = served.insert((key, *vgroup), *id);
                    assert_eq!(other, None, "two owners of {vgroup}: {id} and {other:?}");
                }
            }
        }
    }

    /// A tick in which everybody does what is asked.
    fn quiet_tick(&mut self, alive: &[u64]) {
        self.world.tick_with(alive);
        for _ in 0..100 {
            let asked = alive.iter().filter(|id| self.release(**id)).count();
            if asked == 0 {
                return;
            }
            self.world.drive();
        }
        panic!("does not come to rest");
    }

    /// All faults end; who is silent times out; then a last change must come to rest at once and stay.
    fn calm(&mut self) {
        self.note("calm");
        self.world.broken.clear();
        for _ in 0..24 {
            let alive = self.alive();
            self.quiet_tick(&alive);
        }
        self.world.subscribe(99, &["t"]).unwrap();
        let mut alive = self.alive();
        alive.push(99);
        for _ in 0..2 {
            self.quiet_tick(&alive);
        }
        assert!(self.world.pending().is_empty(), "quiet within two ticks");
        self.shares_are_even(&alive);
        let epochs = self.epochs();
        for _ in 0..5 {
            self.quiet_tick(&alive);
        }
        assert_eq!(self.epochs(), epochs, "nothing moves while nothing changes");
    }

    fn alive(&self) -> Vec<u64> {
        let known = |id: &u64| self.world.state.consumer(ConsumerId(*id)).is_ok();
        self.clients.iter().filter(|(id, c)| c.beats && c.polls && known(id)).map(|(id, _)| *id).collect()
    }

    fn epochs(&self) -> Vec<u64> {
        self.world.state.groups().map(|(_, g)| g.epoch.0).collect()
    }

    fn shares_are_even(&self, alive: &[u64]) {
        for consumer in self.world.state.consumers() {
            assert_eq!(consumer.state(), ConsumerState::Ready);
            assert!(alive.contains(&consumer.id.0), "{consumer:?} is gone");
        }
        for (key, group) in self.world.state.groups() {
            self.world.check_fences(key);
            let members: BTreeSet<ConsumerId> = self
                .world
                .state
                .consumers()
                .filter(|c| c.group == key.group && c.target.contains(&key.topic))
                .map(|c| c.id)
                .collect();
            assert_eq!(group.members, members, "{key:?}");
            let counts: Vec<_> = members.iter().map(|m| group.owned_by(*m).count()).collect();
            if let Some((max, min)) = counts.iter().max().zip(counts.iter().min()) {
                assert!(max - min <= 1, "{key:?} {counts:?}");
                assert_eq!(
                    counts.iter().sum::<usize>(),
                    self.world.state.catalog().topic_vgroups(key.topic).len()
                );
            }
        }
    }

    fn run(mut self) -> (World, Vec<String>) {
        for _ in 0..STEPS {
            self.step();
        }
        self.calm();
        (self.world, self.log)
    }
}

/// Names the seed of a run that fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {0} failed; alone: SEED={0} cargo nextest run -p tidemark-mnode storms", self.0);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn storms_end_in_quiet_and_even_shares() {
    let seeds = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => SEEDS,
    };
    for seed in seeds {
        let _named = Named(seed);
        let (_, log) = Simulation::new(seed).run();
        if number("SEED").is_some() {
            println!("{}", log.join("\n"));
        }
    }
}

/// A simulation that cannot fail shows nothing.
#[test]
fn planted_faults_are_noticed() {
    for planted in [Planted::ForgetsOneShard, Planted::TakesOldOwners, Planted::IgnoresTokens] {
        let noticed = (0..300).find(|seed| {
            let mut simulation = Simulation::new(*seed);
            simulation.world.planted = Some(planted);
            std::panic::catch_unwind(AssertUnwindSafe(|| simulation.run())).is_err()
        });
        println!("{planted:?}: seed {noticed:?}");
        assert!(noticed.is_some(), "{planted:?}");
    }
}

#[test]
fn one_seed_is_one_life() {
    for seed in [3, 14, 159] {
        let (one, log) = Simulation::new(seed).run();
        let (two, log_again) = Simulation::new(seed).run();
        assert_eq!(log, log_again);
        assert_eq!(one.state, two.state);
        assert_eq!(one.fence, two.fence);
    }
}
