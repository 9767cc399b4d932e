//! State, coordinator and shards in one place on virtual time, driven by hand: what the async shell does, without it.

use std::collections::{BTreeMap, BTreeSet};

use model::{Code, ConsumerId, DatabaseOptions, Epoch, Error, Result, TopicId, Version, VgroupId};

use super::{Coordinator, Heartbeat};
use crate::shards::OwnerChange;
use crate::spec::{
    ConsumerParameters, ConsumerSpec, DatabaseSpec, DropGroupSpec, DropTopicSpec, TopicKind, TopicMeta,
    TopicSpec,
};
use crate::state::{Command, Event, Group, GroupKey, MnodeState, Owner, Snapshot};

pub(crate) const TICK_NS: i64 = 2_000_000_000;

/// What a shard holds of a group: who may poll and commit, with which token.
pub(super) type Fence = BTreeMap<(VgroupId, TopicId, String), (Epoch, Option<ConsumerId>)>;

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) state: MnodeState,
    pub(super) coordinator: Coordinator,
    pub(super) now_ns: i64,
    pub(super) fence: Fence,
    /// Every owner ever told to a shard, by token: a token has one owner for ever.
    told: BTreeMap<(VgroupId, TopicId, String, Epoch), Option<ConsumerId>>,
    /// Shards that refuse everything.
    pub(super) broken: BTreeSet<VgroupId>,
    /// Owner records left before the next one is lost: a crash in the middle of a switch.
    pub(super) owner_budget: Option<u32>,
    /// How often shards were told an owner.
    pub(super) owner_calls: u32,
    version: u64,
}

impl World {
    /// Database `d` with `vgroups` vgroups and topic `t` over it.
    pub(super) fn new(vgroups: u32) -> Self {
        let mut world = Self::default();
        world.run(Command::Bootstrap { root_hash: "h".into() }).unwrap();
        world.database("d", vgroups);
        world.topic("t", "d").unwrap();
        world
    }

    pub(super) fn run(&mut self, command: Command) -> Result<Vec<Event>> {
        // Through the bytes of the log, as in life.
        let command = Command::decode(&command.encode().unwrap()).unwrap();
        self.state.check(&command)?;
        self.version += 1;
        let events = self.state.apply(Version(self.version), &command, self.now_ns);
        for event in &events {
            match event {
                Event::Refused(error) => return Err(error.clone()),
                Event::Subscribed(id) => self.coordinator.subscribed(*id),
                Event::Dropped(consumers) => consumers
                    .iter()
                    .for_each(|(id, farewell)| self.coordinator.removed(*id, farewell.clone())),
                Event::Pending(key) => self.coordinator.switch_replaced(key),
                _ => {}
            }
        }
        Ok(events)
    }

    pub(super) fn database(&mut self, name: &str, vgroups: u32) {
        let options = DatabaseOptions { vgroups, ..DatabaseOptions::default() };
        let spec = DatabaseSpec { name: name.into(), if_not_exists: false, options };
        self.run(Command::CreateDatabase { by: "root".into(), spec }).unwrap();
        self.finish_intents();
    }

    pub(super) fn topic(&mut self, name: &str, database: &str) -> Result<TopicId> {
        let spec = TopicSpec {
            name: name.into(),
            if_not_exists: false,
            database: database.into(),
            kind: TopicKind::Query { of_stable: false },
            meta: TopicMeta::Without,
            sql: format!("create topic {name}"),
            schema_json: None,
            definition: String::new(),
        };
        self.run(Command::CreateTopic { by: "root".into(), spec })?;
        self.finish_intents();
        Ok(self.state.catalog().topic(name)?.id)
    }

    pub(super) fn drop_topic(&mut self, name: &str, force: bool) -> Result<()> {
        let spec = DropTopicSpec { name: name.into(), if_exists: false, force };
        self.run(Command::DropTopic { by: "root".into(), spec })?;
        self.finish_intents();
        Ok(())
    }

    pub(super) fn drop_group(&mut self, group: &str, topic: &str, force: bool) -> Result<()> {
        let spec = DropGroupSpec { group: group.into(), topic: topic.into(), if_exists: false, force };
        self.run(Command::DropGroup { by: "root".into(), spec })?;
        self.finish_intents();
        Ok(())
    }

    pub(super) fn finish_intents(&mut self) {
        let ids: Vec<u64> = self.state.intents().map(|i| i.id).collect();
        for id in ids {
            self.run(Command::FinishIntent { id }).unwrap();
        }
    }

    pub(super) fn spec(id: u64, group: &str) -> ConsumerSpec {
        ConsumerSpec {
            id: ConsumerId(id),
            group: group.into(),
            client_id: String::new(),
            user: "root".into(),
            host: "host".into(),
            end_point: String::new(),
            parameters: ConsumerParameters::default(),
        }
    }

    /// Subscribe of a consumer of group `g`.
    pub(super) fn subscribe(&mut self, id: u64, topics: &[&str]) -> Result<()> {
        self.subscribe_as(Self::spec(id, "g"), topics)
    }

    pub(super) fn subscribe_as(&mut self, consumer: ConsumerSpec, topics: &[&str]) -> Result<()> {
        let topics = topics.iter().map(|t| (*t).to_owned()).collect();
        self.run(Command::Subscribe { consumer, topics }).map(|_| ())
    }

    pub(super) fn heartbeat(&mut self, id: u64, polled: bool) -> Result<()> {
        let heartbeat = Heartbeat { consumer: ConsumerId(id), polled, places: Vec::new() };
        self.coordinator.heartbeat(&self.state, &heartbeat, self.now_ns).map(|_| ())
    }

    pub(super) fn key(&self, group: &str, topic: &str) -> GroupKey {
        GroupKey { topic: self.state.catalog().topic(topic).unwrap().id, group: group.into() }
    }

    pub(super) fn group(&self, topic: &str) -> &Group {
        self.state.group(&self.key("g", topic)).unwrap()
    }

    /// Vgroups that the consumer owns of a topic, as counted by group `g`.
    pub(super) fn count(&self, id: u64, topic: &str) -> usize {
        self.group(topic).owned_by(ConsumerId(id)).count()
    }

    /// What a shard does with an Owner record.
    pub(super) fn set_owner(&mut self, vgroup: VgroupId, change: &OwnerChange) -> Result<()> {
        if self.broken.contains(&vgroup) {
            return Err(Error::of(Code::InvalidVgroup));
        }
        if let Some(budget) = &mut self.owner_budget {
            *budget = budget.checked_sub(1).ok_or_else(|| Error::of(Code::ShuttingDown))?;
        }
        self.owner_calls += 1;
        let token = (vgroup, change.topic, change.group.clone(), change.epoch);
        let told = *self.told.entry(token).or_insert(change.owner);
        assert_eq!(told, change.owner, "one owner per vgroup and epoch: {change:?} at {vgroup}");
        let fence = self.fence.entry((vgroup, change.topic, change.group.clone()));
        let fence = fence.or_insert((Epoch(0), None));
        if change.epoch > fence.0 {
            *fence = (change.epoch, change.owner);
        }
        Ok(())
    }

    /// Whether a shard would serve this consumer with this token.
    pub(super) fn accepts(
        &self,
        vgroup: VgroupId,
        key: &GroupKey,
        consumer: ConsumerId,
        token: Epoch,
    ) -> bool {
        let held = self.fence.get(&(vgroup, key.topic, key.group.clone()));
        held == Some(&(token, Some(consumer)))
    }

    /// Tells the shards a pending assignment and puts it in force, if they all take it.
    pub(super) fn switch(&mut self, key: &GroupKey) -> Result<()> {
        let mut failed = None;
        for (vgroup, change) in self.state.owner_changes(key) {
            match self.set_owner(vgroup, &change) {
                Ok(()) => self.coordinator.switched(vgroup),
                Err(e) if e.code() == Code::ShuttingDown => return Err(e),
                Err(e) => {
                    let _ = self.coordinator.switch_failed(key, vgroup, e.clone());
                    failed = Some(e);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some(activate) = self.coordinator.activation(&self.state, key) {
            self.run(activate)?;
        }
        self.check_fences(key);
        Ok(())
    }

    /// Whoever is told that it owns a vgroup can use it, and so nobody else can.
    pub(super) fn check_fences(&self, key: &GroupKey) {
        let Some(group) = self.state.group(key) else { return };
        assert!(group.pending.is_none());
        for (vgroup, owner) in &group.owners {
            if let Owner { consumer: Some(consumer), epoch, settled: true } = owner {
                assert!(self.accepts(*vgroup, key, *consumer, *epoch), "{key:?} {vgroup} {owner:?}");
            }
        }
    }

    pub(super) fn pending(&self) -> Vec<GroupKey> {
        self.state.groups().filter(|(_, g)| g.pending.is_some()).map(|(k, _)| k.clone()).collect()
    }

    pub(super) fn plan(&mut self) {
        for command in self.coordinator.plan(&self.state) {
            self.run(command).unwrap();
        }
    }

    /// Everything that is due, to its end.
    pub(super) fn drive(&mut self) {
        for _ in 0..100 {
            self.finish_intents();
            self.plan();
            let pending = self.pending();
            if pending.is_empty() {
                return;
            }
            let pending: Vec<_> =
                pending.into_iter().filter(|key| self.coordinator.may_switch(&self.state, key)).collect();
            if pending.is_empty() {
                // All wait for consumers to release what they lose.
                return;
            }
            for key in pending {
                if self.switch(&key).is_err_and(|e| e.code() == Code::ShuttingDown) {
                    return;
                }
            }
        }
        panic!("does not come to rest");
    }

    /// Asks a shard whether it serves.
    pub(super) fn probe(&mut self, vgroup: VgroupId) {
        let broken = self.broken.contains(&vgroup);
        let ready = if broken { Err(Error::of(Code::InvalidVgroup)) } else { Ok(()) };
        let _ = self.coordinator.probed(vgroup, ready);
    }

    /// One check with what follows from it.
    pub(super) fn tick(&mut self) {
        self.now_ns += TICK_NS;
        for command in self.coordinator.tick(&self.state) {
            self.run(command).unwrap();
        }
        for vgroup in self.coordinator.probes() {
            self.probe(vgroup);
        }
        self.drive();
    }

    /// A tick in which these consumers live and poll.
    pub(super) fn tick_with(&mut self, alive: &[u64]) {
        for id in alive {
            self.heartbeat(*id, true).unwrap();
        }
        self.tick();
    }

    /// The server's end and a new start from its snapshot: what only the leader knew is gone.
    pub(super) fn restart(&mut self) {
        let snapshot = Snapshot { checkpoint: self.version, state: self.state.clone() };
        let bytes = snapshot.encode().unwrap();
        self.state = Snapshot::<u64>::decode(&bytes).unwrap().state;
        self.coordinator = Coordinator::default();
        self.owner_budget = None;
    }
}
