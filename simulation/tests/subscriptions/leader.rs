//! The metadata group's leader: its state, its coordinator, and the driver that carries decisions to shards. The driver is
//! a copy in small of `mnode/src/node/driver.rs` and `jobs.rs`; what it decides by is theirs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mnode::{
    Command, Coordinator, Event, Intent, IntentKind, MnodeState, OwnerChange, TopicDdl, TopicInfo, Work,
};
use model::{Code, Epoch, Error, Result, TopicId, Version, VgroupId};

use crate::world::{Planted, World};

/// What a shard is asked.
#[derive(Clone, Debug)]
pub enum Ask {
    Owner(OwnerChange),
    Topic(TopicDdl),
    DropGroup(TopicId, String),
}

/// A question under way to a shard, or its answer on the way back.
#[derive(Clone, Debug)]
pub struct ShardCall {
    /// `None`: whoever asked has gone, or has given up waiting.
    pub job: Option<u64>,
    pub vgroup: VgroupId,
    pub ask: Ask,
    pub answer: Option<Result<()>>,
}

#[derive(Debug)]
pub struct Job {
    work: Work,
    epoch: Option<Epoch>,
    left: usize,
    failed: bool,
}

#[derive(Debug, Default)]
pub struct Leader {
    pub state: MnodeState,
    pub coordinator: Coordinator,
    pub version: u64,
    membership: bool,
    jobs: BTreeMap<u64, Job>,
    jobs_begun: u64,
    /// Failed since the last tick.
    resting: BTreeSet<Work>,
    /// Consumers to be told of their assignment.
    pub woken: BTreeSet<u64>,
    pub gone: VecDeque<u64>,
}

impl World {
    /// Has the log agree on a command, and acts on what came of it.
    pub fn run(&mut self, command: Command) -> Result<Vec<Event>> {
        let leader = &mut self.leader;
        leader.state.check(&command)?;
        // Through the bytes of the log, as in life.
        let command = Command::decode(&command.encode().unwrap()).unwrap();
        leader.version += 1;
        let events = leader.state.apply(Version(leader.version), &command, self.now_ns);
        for event in &events {
            match event {
                Event::Refused(error) => return Err(error.clone()),
                Event::Subscribed(id) => {
                    leader.coordinator.subscribed(*id);
                    leader.woken.insert(id.0);
                }
                Event::Dropped(consumers) => {
                    for (id, farewell) in consumers {
                        leader.coordinator.removed(*id, farewell.clone());
                    }
                }
                Event::Pending(key) => leader.coordinator.switch_replaced(key),
                Event::Membership | Event::Users => leader.membership = true,
                Event::Assigned(ids) => leader.woken.extend(ids.iter().map(|id| id.0)),
                Event::Gone(ids) => leader.gone.extend(ids.iter().map(|id| id.0)),
                Event::Unchanged
                | Event::Catalog
                | Event::Settings
                | Event::Intent(_)
                | Event::IntentDone { .. } => {}
            }
        }
        Ok(events)
    }

    /// One check of consumers.
    pub fn tick(&mut self) {
        self.note(|_| "tick".into());
        self.leader.resting.clear();
        let mut commands = self.leader.coordinator.tick(&self.leader.state);
        if self.planted == Some(Planted::RemovesUnlisted)
            && let Some(victim) = self.leader.state.consumers().find(|c| !c.expired && !c.is_clear())
            && self.step.is_multiple_of(7)
        {
            commands.push(Command::Expire { consumers: [(victim.id, victim.subscription)].into() });
        }
        for command in commands {
            if let Command::Expire { consumers } = &command {
                consumers.keys().for_each(|id| self.check_overdue(id.0));
            }
            let _ = self.run(command);
        }
        for vgroup in self.leader.coordinator.probes() {
            self.probe(vgroup);
        }
        if self.planted == Some(Planted::MovesWithoutNeed) {
            self.rotate();
        }
        self.leader.membership = true;
        self.drive();
    }

    /// Asks a shard whether it serves.
    fn probe(&mut self, vgroup: VgroupId) {
        let ready = self.shard_ready(vgroup);
        if self.leader.coordinator.probed(vgroup, ready) {
            self.leader.woken.extend(self.clients.keys());
        }
    }

    /// A rebalance that nobody needs.
    fn rotate(&mut self) {
        let state = &self.leader.state;
        let group = state.groups().find(|(_, g)| g.pending.is_none() && g.members.len() > 1);
        let Some((key, group)) = group else { return };
        let mut next = group.assignment();
        let owners: Vec<_> = next.owners.values().copied().collect();
        next.owners.values_mut().zip(owners.into_iter().cycle().skip(1)).for_each(|(to, from)| *to = from);
        let rebalance = mnode::Rebalance {
            key: key.clone(),
            from_epoch: group.last_epoch(),
            members: group.members.clone(),
            next,
        };
        let _ = self.run(Command::Rebalance(rebalance));
    }

    /// Hands out what is due.
    pub fn drive(&mut self) {
        if std::mem::take(&mut self.leader.membership) {
            for command in self.leader.coordinator.plan(&self.leader.state) {
                let _ = self.run(command);
            }
        }
        let works = self.leader.coordinator.work(&self.leader.state);
        for work in works {
            let leader = &self.leader;
            let must_wait = leader.resting.contains(&work)
                || leader.jobs.values().any(|job| job.work == work || work.waits_for(&job.work));
            if !must_wait {
                self.begin(work);
            }
        }
    }

    fn begin(&mut self, work: Work) {
        let state = &self.leader.state;
        let (mut asks, epoch): (Vec<(VgroupId, Ask)>, _) = match &work {
            Work::Intent { id, .. } => {
                let Some(intent) = state.intent(*id) else { return };
                let vgroups = state.intent_vgroups(intent).into_iter();
                (vgroups.filter_map(|v| Some((v, question(intent)?))).collect(), None)
            }
            Work::Switch(key) => {
                let changes = state.owner_changes(key).into_iter();
                let epoch = state.group(key).map(|group| group.last_epoch());
                (changes.map(|(v, change)| (v, Ask::Owner(change))).collect(), epoch)
            }
        };
        if self.planted == Some(Planted::ForgetsOneShard) && matches!(work, Work::Switch(_)) {
            asks.pop();
        }
        self.leader.jobs_begun += 1;
        let id = self.leader.jobs_begun;
        let job = Job { work, epoch, left: asks.len(), failed: false };
        self.note(|_| format!("job {id} {job:?}"));
        self.leader.jobs.insert(id, job);
        let asks = asks.into_iter();
        self.shard_calls.extend(asks.map(|(vgroup, ask)| ShardCall {
            job: Some(id),
            vgroup,
            ask,
            answer: None,
        }));
        if self.planted == Some(Planted::OwnersNotAwaited)
            && matches!(self.leader.jobs[&id].work, Work::Switch(_))
        {
            self.shard_calls.iter_mut().filter(|call| call.job == Some(id)).for_each(|call| call.job = None);
            self.leader.jobs.get_mut(&id).unwrap().left = 0;
        }
        self.end_if_done(id);
    }

    /// A shard has answered a job, or did not in time.
    pub fn answered(&mut self, id: u64, vgroup: VgroupId, answer: Result<()>) {
        let Leader { jobs, coordinator, .. } = &mut self.leader;
        let Some(job) = jobs.get_mut(&id) else { return };
        job.left -= 1;
        job.failed |= answer.is_err();
        if let Work::Switch(key) = &job.work {
            let is_news = match answer {
                Ok(()) => {
                    coordinator.switched(vgroup);
                    false
                }
                Err(error) => coordinator.switch_failed(key, vgroup, error),
            };
            if is_news {
                self.leader.woken.extend(self.clients.keys());
            }
        }
        self.end_if_done(id);
    }

    fn end_if_done(&mut self, id: u64) {
        if self.leader.jobs.get(&id).is_none_or(|job| job.left > 0) {
            return;
        }
        let Some(job) = self.leader.jobs.remove(&id) else { return };
        match &job.work {
            Work::Intent { id, .. } => {
                let can_undo = self.leader.state.intent(*id).is_some_and(|i| i.can_undo() && !i.undo);
                if !job.failed {
                    let _ = self.run(Command::FinishIntent { id: *id });
                } else if can_undo {
                    let _ = self.run(Command::UndoIntent { id: *id });
                } else {
                    self.leader.resting.insert(job.work);
                }
            }
            Work::Switch(_) if job.failed => self.leader.membership = true,
            Work::Switch(key) => {
                let activation = self.leader.coordinator.activation(&self.leader.state, key);
                if let Some(command @ Command::Activate { epoch, .. }) = activation
                    && Some(epoch) == job.epoch
                {
                    let _ = self.run(command);
                    self.note(|_| format!("active {key:?} {epoch}"));
                }
            }
        }
        self.drive();
    }

    /// Another leader: what only the last one knew is gone. What it had asked may still arrive.
    pub fn change_leader(&mut self) {
        self.note(|_| "another leader".into());
        let Leader { state, version, .. } = std::mem::take(&mut self.leader);
        self.leader = Leader { state, version, membership: true, ..Leader::default() };
        self.shard_calls.retain(|call| call.answer.is_none() && matches!(call.ask, Ask::Owner(_)));
        self.shard_calls.iter_mut().for_each(|call| call.job = None);
        let asked: BTreeSet<VgroupId> = self
            .leader
            .state
            .groups()
            .flat_map(|(key, _)| self.leader.state.catalog().topic_vgroups(key.topic).to_vec())
            .collect();
        asked.into_iter().for_each(|vgroup| self.probe(vgroup));
        self.drive();
        let ids: Vec<u64> = self.clients.keys().copied().collect();
        ids.into_iter().for_each(|id| self.cut(id));
    }

    /// Whether nothing is under way and nothing is due.
    pub fn is_quiet(&self) -> bool {
        let state = &self.leader.state;
        state.intents().next().is_none()
            && state.groups().all(|(_, group)| group.pending.is_none())
            && self.leader.coordinator.plan(state).is_empty()
    }
}

fn question(intent: &Intent) -> Option<Ask> {
    Some(match (&intent.kind, intent.undo) {
        (IntentKind::Topic(TopicDdl::Create(topic)), true) => Ask::Topic(TopicDdl::Drop(topic.id)),
        (IntentKind::Topic(ddl), _) => Ask::Topic(ddl.clone()),
        (IntentKind::DropGroup { key }, _) => Ask::DropGroup(key.topic, key.group.clone()),
        _ => return None,
    })
}

/// A topic as its shards know it.
fn definition(topic: &Arc<TopicInfo>) -> vnode::record::TopicDefinition {
    let kind = match topic.kind {
        mnode::TopicKind::Query { .. } => vnode::record::TopicKind::Query,
        _ => vnode::record::TopicKind::Database,
    };
    vnode::record::TopicDefinition {
        id: topic.id,
        name: topic.name.clone(),
        kind,
        meta: vnode::record::TopicMeta::Without,
        definition: topic.definition.clone(),
        definition_version: topic.definition_version,
    }
}

/// The same change in the shards' words.
pub fn to_shard(ddl: &TopicDdl) -> vnode::TopicDdl {
    match ddl {
        TopicDdl::Create(topic) => vnode::TopicDdl::Create(definition(topic)),
        TopicDdl::Reload(topic) => vnode::TopicDdl::Reload(definition(topic)),
        TopicDdl::Drop(id) => vnode::TopicDdl::Drop(*id),
    }
}

/// A call that nobody answers.
pub fn unreachable() -> Error {
    Error::text(Code::InvalidVgroup, "shard did not answer in time")
}
