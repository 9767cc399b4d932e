//! Shards, and the server's side of consume streams.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use model::{Code, ConsumerId, DatabaseInfo, Epoch, Error, Result, TopicId, Version, VgroupId};
use proto::status::to_detail;
use proto::v1;
use proto::v1::consume_request::Action;
use proto::v1::consume_response::Event;
use rand::Rng;
use vnode::sim::{SimReader, SimShard, Ticket};
use vnode::subscribe::{Batch, OffsetReset, Range, Read, ReadOptions, SubscribeRequest};

use crate::leader::{Ask, ShardCall, to_shard, unreachable};
use crate::rows::{self, Filter, Row};
use crate::world::{Planted, World};

#[derive(Debug)]
pub struct Shard {
    pub sim: SimShard,
    /// Refuses every change.
    pub broken: bool,
    /// Rows queued, by ticket.
    rows: BTreeMap<Ticket, Vec<Row>>,
}

/// One vgroup on a stream.
#[derive(Debug)]
struct Reader {
    start: v1::ConsumeStart,
    sim: Option<SimReader>,
    told: Option<Range>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reading,
    /// Found nothing, is about to wait.
    Parking,
    Parked,
}

/// The server's side of a consume stream.
#[derive(Debug)]
pub struct Stream {
    open: v1::ConsumeOpen,
    credit: u32,
    readers: BTreeMap<(u64, u32), Reader>,
    schemas: u32,
    pub down: VecDeque<v1::ConsumeResponse>,
}

impl Stream {
    pub fn new(open: v1::ConsumeOpen) -> Self {
        Self { open, credit: 0, readers: BTreeMap::new(), schemas: 0, down: VecDeque::new() }
    }

    /// Takes a request of the client.
    pub fn take(&mut self, request: v1::ConsumeRequest) {
        match request.action {
            Some(Action::Start(start)) => {
                let key = (start.topic, start.vgroup);
                let reader = Reader { start, sim: None, told: None, phase: Phase::Reading };
                self.readers.insert(key, reader);
            }
            Some(Action::Stop(stop)) => drop(self.readers.remove(&(stop.topic, stop.vgroup))),
            Some(Action::Credit(credit)) => self.credit += credit.messages,
            Some(Action::Open(_)) | None => {}
        }
    }

    /// Readers that have something to do.
    pub fn ready(&self) -> impl Iterator<Item = (u64, u32)> {
        let can = |reader: &Reader| match reader.phase {
            Phase::Reading => self.credit > 0 || reader.sim.is_none(),
            Phase::Parking => true,
            Phase::Parked => false,
        };
        self.readers.iter().filter(move |(_, reader)| can(reader)).map(|(key, _)| *key)
    }

    fn fault(&mut self, key: (u64, u32), error: &Error) {
        let Some(reader) = self.readers.remove(&key) else { return };
        let v1::ConsumeStart { topic, vgroup, generation, .. } = reader.start;
        let error = Some(to_detail(error));
        self.push(Event::Fault(v1::ConsumeFault { topic, vgroup, generation, error }));
    }

    fn push(&mut self, event: Event) {
        self.down.push_back(v1::ConsumeResponse { event: Some(event) });
    }

    fn push_batch(&mut self, start: &v1::ConsumeStart, batch: &Batch) {
        let mut blocks = Vec::new();
        for block in &batch.blocks {
            let columns = block.schema.columns.iter().map(|(name, of)| v1::ResultColumn {
                name: name.clone(),
                r#type: u32::from(of.wire_id()),
                length: u32::from(of.length()),
                precision: 0,
            });
            self.schemas += 1;
            let id = self.schemas;
            self.push(Event::Schema(v1::StreamSchema { id, columns: columns.collect() }));
            let mut frame = Vec::new();
            proto::frame::encode(&block.columns, &mut frame).unwrap();
            blocks.push(v1::RowBlock {
                table: block.table.as_deref().unwrap_or_default().to_owned(),
                schema: id,
                rows: u32::try_from(block.rows()).unwrap(),
                frame: Bytes::from(frame),
            });
        }
        self.push(Event::Message(v1::Message {
            topic: start.topic,
            vgroup: start.vgroup,
            generation: start.generation,
            begin: batch.begin.0,
            next: batch.next.0,
            blocks,
            log_first: batch.range.first.0,
            log_end: batch.range.end.0,
            record_versions: batch.records.iter().map(|run| run.version.0).collect(),
            record_rows: batch.records.iter().map(|run| u32::try_from(run.rows).unwrap()).collect(),
            ..v1::Message::default()
        }));
    }
}

impl World {
    pub fn add_shard(&mut self, vgroup: VgroupId, mut info: DatabaseInfo) {
        // Every name is placed here.
        info.vgroups = vec![vgroup];
        let sim = SimShard::new(vgroup, info.into(), self.clock.clone(), &self.topics).unwrap();
        let mut shard = Shard { sim, broken: false, rows: BTreeMap::new() };
        shard.sim.apply_stable(vnode::StableDdl::Create(rows::meter())).unwrap();
        self.shards.insert(vgroup, shard);
    }

    pub fn shard_ready(&self, vgroup: VgroupId) -> Result<()> {
        if self.shards.get(&vgroup).is_some_and(|shard| !shard.broken) { Ok(()) } else { Err(unreachable()) }
    }

    /// A row or some into a shard.
    pub fn write(&mut self, vgroup: VgroupId) {
        let count = self.rng.random_range(1..4);
        let kinds: Vec<i32> = (0..count).map(|_| self.rng.random_range(0..3)).collect();
        let rows: Vec<Row> = kinds.iter().map(|kind| (self.next_row(), *kind)).collect();
        let Some(shard) = self.shards.get_mut(&vgroup).filter(|shard| !shard.broken) else { return };
        let ticket = shard.sim.write(rows::write(&rows)).unwrap();
        shard.rows.insert(ticket, rows);
    }

    /// Agrees on the oldest record of a shard.
    pub fn apply_one(&mut self, vgroup: VgroupId) {
        let Some(shard) = self.shards.get_mut(&vgroup) else { return };
        let Some(ticket) = shard.sim.apply_next().unwrap() else { return };
        self.applied(vgroup, ticket);
        self.look_at(vgroup);
    }

    fn applied(&mut self, vgroup: VgroupId, ticket: Ticket) {
        let Some(shard) = self.shards.get_mut(&vgroup) else { return };
        let version = shard.sim.state().applied();
        if let Some(rows) = shard.rows.remove(&ticket) {
            self.oracle.written(vgroup, version, rows);
        }
        self.landed(vgroup, ticket, &Ok(()));
    }

    fn apply_all(&mut self, vgroup: VgroupId) {
        while self.shards.get(&vgroup).is_some_and(|shard| shard.sim.queued() > 0) {
            self.apply_one(vgroup);
        }
    }

    /// Whoever waits for the log looks again, and so does the oracle.
    fn look_at(&mut self, vgroup: VgroupId) {
        let Some(shard) = self.shards.get(&vgroup) else { return };
        let state = shard.sim.state();
        assert!(state.fault().is_none(), "{vgroup}: {:?}", state.fault());
        let applied = state.applied();
        for stream in self.clients.values_mut().filter_map(|client| client.stream()) {
            for ((_, of), reader) in &mut stream.readers {
                let is_passed = reader.sim.as_ref().is_some_and(|sim| sim.seen() < applied);
                if *of == vgroup.0 && reader.phase == Phase::Parked && is_passed {
                    reader.phase = Phase::Reading;
                }
            }
        }
        for topic in state.topics.iter() {
            for (group, held) in state.groups.of_topic(topic.id) {
                let place = (topic.id, group.clone(), vgroup);
                if let Some(start) = held.start
                    && self.starts.insert(place.clone(), start) != Some(start)
                {
                    self.oracle.starts(place.clone(), start);
                }
                if held.start.is_none() {
                    self.starts.remove(&place);
                }
                if let Some(committed) = &held.committed {
                    self.oracle.committed(&place, committed.offset);
                }
            }
        }
    }

    /// With nothing under way no reader waits for what is there already.
    pub fn check_nobody_sleeps(&mut self) {
        for (id, client) in &mut self.clients {
            for ((topic, vgroup), reader) in client.stream().iter().flat_map(|stream| &stream.readers) {
                let Some(sim) = reader.sim.as_ref().filter(|_| reader.phase == Phase::Parked) else {
                    continue;
                };
                let applied = self.shards[&VgroupId(*vgroup)].sim.state().applied();
                let seen = sim.seen();
                assert!(
                    seen >= applied,
                    "{id} sleeps at {seen} of {vgroup} topic {topic}, which is at {applied}"
                );
            }
        }
    }

    /// Another leader of the shard, which has the first `kept` of what was queued.
    pub fn restart_shard(&mut self, vgroup: VgroupId) {
        let kept = self.rng.random_range(0..4);
        self.note(|_| format!("{vgroup} restarts, {kept} kept"));
        (0..kept).for_each(|_| self.apply_one(vgroup));
        let Some(shard) = self.shards.get_mut(&vgroup) else { return };
        shard.sim.restart().unwrap();
        shard.rows.clear();
        let error = Error::of(Code::ShuttingDown);
        for stream in self.clients.values_mut().filter_map(|client| client.stream()) {
            let keys: Vec<_> = stream.readers.keys().filter(|key| key.1 == vgroup.0).copied().collect();
            keys.into_iter().for_each(|key| stream.fault(key, &error));
        }
        self.lost(vgroup, &error);
        self.look_at(vgroup);
    }

    /// A question of the metadata group reaches its shard; the answer is on its way.
    pub fn ask(&mut self, call: &mut ShardCall) {
        let vgroup = call.vgroup;
        if let Err(error) = self.shard_ready(vgroup) {
            call.answer = Some(Err(error));
            return;
        }
        self.note(|_| format!("{vgroup} is asked {:?}", call.ask));
        self.apply_all(vgroup);
        let Some(shard) = self.shards.get_mut(&vgroup) else { return };
        let asked = match &call.ask {
            Ask::Owner(change) => {
                let mut change = vnode::OwnerChange {
                    topic: change.topic,
                    group: change.group.clone(),
                    epoch: change.epoch,
                    owner: change.owner,
                };
                if self.planted == Some(Planted::TakesOldOwners) {
                    let state = shard.sim.state();
                    let held = state.groups.get(change.topic, &change.group);
                    let over = held.map(|held| held.epoch).filter(|held| *held > change.epoch);
                    change.epoch = over.map_or(change.epoch, |held| Epoch(held.0 + 1));
                }
                shard.sim.set_owner(change)
            }
            Ask::Topic(ddl) => {
                let asked = shard.sim.apply_topic(to_shard(ddl));
                let from = shard.sim.state().applied();
                if let mnode::TopicDdl::Create(topic) | mnode::TopicDdl::Reload(topic) = ddl {
                    let in_force = shard.sim.state().topics.get(topic.id).map(|t| t.definition_version);
                    if in_force == Some(topic.definition_version) {
                        self.oracle.shows(
                            vgroup,
                            topic.id,
                            from,
                            self.filters[&(topic.id, topic.definition_version)],
                        );
                    }
                }
                asked
            }
            Ask::DropGroup(topic, group) => {
                self.oracle.forgotten(&(*topic, group.clone(), vgroup));
                self.starts.remove(&(*topic, group.clone(), vgroup));
                shard.sim.drop_group(*topic, group)
            }
        };
        self.look_at(vgroup);
        call.answer = Some(asked);
    }

    /// One step of a reader.
    pub fn read(&mut self, client: u64, key: (u64, u32)) {
        let id = client;
        let (topic, vgroup) = (TopicId(key.0), VgroupId(key.1));
        let user_may = self.leader.state.check_consume("root", ConsumerId(id), topic);
        let Some(mut stream) = self.clients.get_mut(&id).and_then(|client| client.take_stream()) else {
            return;
        };
        let mut began = false;
        if let Err(error) =
            user_may.and_then(|()| self.step_reader(id, &mut stream, key, topic, vgroup, &mut began))
        {
            self.note(|_| format!("{id} {key:?} fault {error}"));
            stream.fault(key, &error);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.put_stream(stream);
        }
        if began {
            self.look_at(vgroup);
        }
    }

    fn step_reader(
        &mut self,
        id: u64,
        stream: &mut Stream,
        key: (u64, u32),
        topic: TopicId,
        vgroup: VgroupId,
        began: &mut bool,
    ) -> Result<()> {
        let Some(reader) = stream.readers.get_mut(&key) else { return Ok(()) };
        let Some(sim) = &mut reader.sim else {
            *began = true;
            // What `latest` puts into the log comes behind all that is queued.
            if reader.start.position.is_none() {
                self.apply_all(vgroup);
            }
            let start = reader.start;
            let shard = self.shards.get_mut(&vgroup).ok_or_else(unreachable)?;
            let request = SubscribeRequest {
                topic,
                group: stream.open.group.clone(),
                consumer: ConsumerId(id),
                epoch: Epoch(start.epoch),
                position: start.position.map(Version),
                reset: match start.reset() {
                    v1::ResetPolicy::Latest => OffsetReset::Latest,
                    v1::ResetPolicy::Earliest => OffsetReset::Earliest,
                    v1::ResetPolicy::None => OffsetReset::None,
                },
                options: ReadOptions { min_poll_rows: 5, ..ReadOptions::default() },
            };
            let opened = shard.sim.subscribe(request)?;
            if let Some(reader) = stream.readers.get_mut(&key) {
                reader.sim = Some(opened);
            }
            return Ok(());
        };
        if reader.phase == Phase::Parking {
            let shard = self.shards.get(&vgroup).ok_or_else(unreachable)?;
            let is_passed = sim.seen() < shard.sim.state().applied();
            let again = is_passed && self.planted != Some(Planted::LosesWakeUps);
            reader.phase = if again { Phase::Reading } else { Phase::Parked };
            return Ok(());
        }
        let read = sim.read()?;
        let no_table = matches!(read, Read::NoTable(_));
        match read {
            Read::Batch(batch) => {
                self.oracle.read(vgroup, topic, batch.begin, batch.next, &rows::of_batch(&batch));
                reader.told = None;
                let start = reader.start;
                stream.credit = stream.credit.saturating_sub(1);
                stream.push_batch(&start, &batch);
            }
            Read::CaughtUp(range) | Read::NoTable(range) | Read::Timeout(range) => {
                reader.phase = Phase::Parking;
                if reader.told != Some(range) {
                    reader.told = Some(range);
                    let caught_up = v1::CaughtUp {
                        topic: key.0,
                        vgroup: key.1,
                        generation: reader.start.generation,
                        position: range.position.0,
                        log_first: range.first.0,
                        log_end: range.end.0,
                        reading_on: false,
                        no_table,
                    };
                    stream.push(Event::CaughtUp(caught_up));
                }
            }
        }
        Ok(())
    }

    /// Which rows the query topic shows for this definition.
    pub fn knows_filter(&mut self, topic: TopicId, version: u32, filter: Filter) {
        self.filters.insert((topic, version), filter);
    }
}
