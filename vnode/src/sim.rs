//! One shard without a runtime, driven call by call: for simulations that join it to others on virtual time.
//!
//! What decides is the shard's own: the proposer's checks, the records and their bytes, a log (over a disk in memory), the
//! state machine, the reader of subscriptions. Modelled are the queue before the log and, instead of Raft, the moment at
//! which a queued record is agreed upon: [`SimShard::apply_next`].

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Clock, DatabaseInfo, Error, Result, TopicId, Version, VgroupId};
use parking_lot::{RwLock, RwLockReadGuard};
use wal::sim::SimDisk;
use wal::{Disk, NewRecord, Options, Wal};

use crate::propose::write::{self, SchemaBlocks};
use crate::propose::{self, Checked, Context, Overlay, control, ddl};
use crate::state::VnodeState;
use crate::store::{CompressionLevels, Manifest, Store, StoreOptions};
use crate::subscribe::{
    Core, Findings, Log, Read, Resolved, SubscribeRequest, TopicCache, known, remember, resolve,
};
use crate::{CommitRequest, OwnerChange, StableDdl, TopicDdl, WriteRequest};

/// A queued record, to ask after.
pub type Ticket = u64;

const DIR: &str = "shard";
/// As in a Raft group's log.
const FIRST: Version = Version(1);

/// The shard.
pub struct SimShard {
    vgroup: VgroupId,
    database: Arc<DatabaseInfo>,
    clock: Arc<dyn Clock>,
    wal: Wal,
    state: Arc<RwLock<VnodeState>>,
    /// Compiled once for all shards of a simulation: they key it alike.
    topics: Arc<TopicCache>,
    findings: Arc<Findings>,
    overlay: Overlay,
    schemas: SchemaBlocks,
    queue: VecDeque<(Ticket, Checked, i64)>,
    tickets: Ticket,
}

/// Compiled topics, shared by the shards of one simulation.
#[derive(Clone, Debug, Default)]
pub struct SimTopics(Arc<TopicCache>);

impl SimShard {
    /// Without tables.
    ///
    /// # Errors
    /// None is known.
    pub fn new(
        vgroup: VgroupId,
        database: Arc<DatabaseInfo>,
        clock: Arc<dyn Clock>,
        topics: &SimTopics,
    ) -> Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let options = Options { filler_bytes: 0, read_bytes: 4 << 10, ..Options::default() };
        let (wal, _) = Wal::open(disk, Path::new(DIR), options, clock.now_ns()).map_err(Error::internal)?;
        let state = Arc::new(RwLock::new(empty(&database)?));
        Ok(Self {
            vgroup,
            database,
            clock,
            wal,
            state,
            topics: Arc::clone(&topics.0),
            findings: Arc::new(Findings::new(vgroup)),
            overlay: Overlay::starting(1),
            schemas: SchemaBlocks::default(),
            queue: VecDeque::new(),
            tickets: 0,
        })
    }

    /// What the log amounts to.
    pub fn state(&self) -> RwLockReadGuard<'_, VnodeState> {
        self.state.read()
    }

    /// Queues rows.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn write(&mut self, request: WriteRequest) -> Result<Ticket> {
        let context = self.context();
        let shaped = write::shape(&self.state, &context, request)?;
        let resolved = {
            let state = self.state.read();
            self.overlay.settle(&state);
            write::resolve(&state, &self.overlay, &mut self.schemas, &context, shaped)?
        };
        let checked = resolved.checked()?;
        for (name, child) in resolved.children {
            self.overlay.add(name, child);
        }
        Ok(self.queue(checked, context.now_ns))
    }

    /// Queues a commit; none where there is nothing to do.
    ///
    /// # Errors
    /// As [`Vnode::commit`](crate::Vnode::commit).
    pub fn commit(&mut self, request: CommitRequest) -> Result<Option<Ticket>> {
        let is_quiet = self.queue.is_empty();
        let checked = control::commit(&self.state.read(), request, is_quiet)?;
        Ok(checked.map(|checked| self.queue(checked, self.clock.now_ns())))
    }

    /// As [`Vnode::set_owner`](crate::Vnode::set_owner).
    ///
    /// # Errors
    /// None is known.
    pub fn set_owner(&mut self, change: OwnerChange) -> Result<()> {
        self.exclusive(|state, _, _| control::owner(state, change)).map(drop)
    }

    /// As [`Vnode::apply_stable`](crate::Vnode::apply_stable).
    ///
    /// # Errors
    /// None is known.
    pub fn apply_stable(&mut self, change: StableDdl) -> Result<()> {
        self.exclusive(|state, _, _| ddl::stable(state, change)).map(drop)
    }

    /// As [`Vnode::apply_topic`](crate::Vnode::apply_topic).
    ///
    /// # Errors
    /// None is known.
    pub fn apply_topic(&mut self, change: TopicDdl) -> Result<()> {
        let (id, is_drop) = change.topic();
        let applied = self.exclusive(|state, _, _| control::topic(state, change))?;
        self.findings.topic_changed(id, is_drop, applied);
        Ok(())
    }

    /// As [`Vnode::drop_group`](crate::Vnode::drop_group).
    ///
    /// # Errors
    /// None is known.
    pub fn drop_group(&mut self, topic: TopicId, group: &str) -> Result<()> {
        self.exclusive(|state, _, _| control::drop_group(state, topic, group))?;
        self.findings.forget_group(topic, group);
        Ok(())
    }

    /// Agrees on the oldest queued record and applies it.
    ///
    /// # Errors
    /// Of the log.
    pub fn apply_next(&mut self) -> Result<Option<Ticket>> {
        let Some((ticket, checked, time_ns)) = self.queue.pop_front() else { return Ok(None) };
        let Checked { kind, flags, body, schemas } = checked;
        let version = self.wal.next_version().max(FIRST);
        let record = NewRecord { term: 1, time_ns, kind, flags, body: body.clone(), schemas };
        self.wal.append(version, &[record], time_ns).map_err(Error::internal)?;
        self.state.write().apply_record(version, time_ns, kind, &body);
        Ok(Some(ticket))
    }

    /// Number of queued records.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Another leader: the state is made anew from the log, and what is queued is gone.
    ///
    /// # Errors
    /// Of the log.
    pub fn restart(&mut self) -> Result<()> {
        let mut state = empty(&self.database)?;
        let mut reader = self.wal.reader(FIRST);
        while let Some(record) = reader.next().map_err(Error::internal)? {
            state.apply_record(record.version, record.time_ns, record.kind, &record.body);
        }
        self.overlay = Overlay::starting(state.next_table());
        self.state = Arc::new(RwLock::new(state));
        self.findings = Arc::new(Findings::new(self.vgroup));
        self.schemas = SchemaBlocks::default();
        self.queue.clear();
        Ok(())
    }

    /// As [`Vnode::subscribe`](crate::Vnode::subscribe).
    ///
    /// # Errors
    /// The same.
    pub fn subscribe(&mut self, request: SubscribeRequest) -> Result<SimReader> {
        let retained = self.wal.first_version();
        let resolved = resolve(&self.state.read(), &self.findings, retained, &request)?;
        let (position, skipped) = match resolved {
            Resolved::At { position, skipped } => (position, skipped),
            Resolved::Latest => (self.remember_latest(&request)?, None),
        };
        let log = Log {
            wal: self.wal.handle(),
            state: Arc::clone(&self.state),
            clock: Arc::clone(&self.clock),
            findings: Arc::clone(&self.findings),
        };
        Ok(SimReader { core: Core::new(log, request, position, skipped), topics: Arc::clone(&self.topics) })
    }

    fn remember_latest(&mut self, request: &SubscribeRequest) -> Result<Version> {
        let here = self.state.read().applied().next();
        let checked = remember(&self.state.read(), request)?;
        if let Some(checked) = checked {
            let ticket = self.queue(checked, self.clock.now_ns());
            while self.apply_next()?.is_some_and(|applied| applied != ticket) {}
        }
        Ok(known(&self.state.read(), request).unwrap_or(here))
    }

    /// With nothing else in flight before or after it.
    fn exclusive(
        &mut self,
        check: impl FnOnce(&VnodeState, &Context, &mut Overlay) -> Result<Option<Checked>>,
    ) -> Result<bool> {
        while self.apply_next()?.is_some() {}
        let context = self.context();
        let checked = {
            let state = self.state.read();
            self.overlay.settle(&state);
            check(&state, &context, &mut self.overlay)?
        };
        let Some(checked) = checked else { return Ok(false) };
        self.queue(checked, context.now_ns);
        self.apply_next()?;
        Ok(true)
    }

    fn queue(&mut self, checked: Checked, time_ns: i64) -> Ticket {
        self.tickets += 1;
        self.queue.push_back((self.tickets, checked, time_ns));
        self.tickets
    }

    fn context(&self) -> propose::Context {
        Context { vgroup: self.vgroup, database: Arc::clone(&self.database), now_ns: self.clock.now_ns() }
    }
}

fn empty(database: &DatabaseInfo) -> Result<VnodeState> {
    let options = StoreOptions {
        dir: PathBuf::from(DIR).join("data"),
        precision: database.options.precision,
        duration_ticks: database.options.duration_ticks(),
        levels: CompressionLevels::default(),
    };
    let store = Store::new(options, Arc::new(SimDisk::new()), Manifest::default())?;
    Ok(VnodeState::new(store, Version(0), i64::MIN, 1))
}

impl fmt::Debug for SimShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimShard").field("vgroup", &self.vgroup).finish_non_exhaustive()
    }
}

/// One consumer's reading of one topic.
#[derive(Debug)]
pub struct SimReader {
    core: Core,
    topics: Arc<TopicCache>,
}

impl SimReader {
    /// As [`Subscription::read`](crate::subscribe::Subscription::read), without a deadline.
    ///
    /// # Errors
    /// The same.
    pub fn read(&mut self) -> Result<Read> {
        self.core.read(&self.topics, i64::MAX)
    }

    /// Last version that was applied when this last looked: what it waits to be passed.
    #[must_use]
    pub const fn seen(&self) -> Version {
        self.core.seen()
    }
}
