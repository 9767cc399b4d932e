//! The shard as its server holds it: a thin asynchronous shell around the state machine, the proposer, the checkpoint
//! and the subscription reader.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use model::{
    Clock, DatabaseInfo, Error, Origin, Result, StableInfo, TableInfo, TableUid, TopicId, Version, VgroupId,
};
use parking_lot::{Mutex, RwLock};
use raft::{Group, GroupOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wal::Disk;

use crate::checkpoint::{Checkpoints, Loading};
use crate::compaction::{self, Compactor};
use crate::keep::KeepWish;
use crate::maintenance::{self, Pressure};
use crate::propose::{
    self, CommitRequest, DeleteOutcome, DeleteRequest, Flight, OwnerChange, Proposer, StableDdl, TableDdl,
    TopicDdl, WriteOutcome, WriteRequest,
};
use crate::state::VnodeState;
use crate::subscribe::{Behind, Findings, SubscribeRequest, Subscription, TopicCache};

/// Which shard, and where it lives.
#[derive(Clone, Debug)]
pub struct VnodeOptions {
    /// The vgroup; one of `database.vgroups`.
    pub vgroup: VgroupId,
    /// Its database, with the options in force.
    pub database: Arc<DatabaseInfo>,
    /// Its directory, made if it is missing. Nothing else may use it.
    pub dir: PathBuf,
}

/// Positions of a shard in its log; `docs/positions.md` defines each. `retained <= checkpoint + 1`,
/// `checkpoint <= applied <= committed <= appended`, `durable <= appended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VnodePositions {
    /// First version that consumers can still read.
    pub retained: Version,
    /// Last version that the checkpoint holds; `None` before the first checkpoint.
    pub checkpoint: Option<Version>,
    /// Last version that Raft has given up; `None` before the first checkpoint.
    pub floor: Option<Version>,
    /// Last version that is on disk for certain.
    pub durable: Option<Version>,
    /// Last version that scans and subscriptions show.
    pub applied: Version,
    /// Last version that is agreed upon.
    pub committed: Version,
    /// Last version in the log.
    pub appended: Version,
}

impl VnodePositions {
    /// Whether they stand in the order that `docs/positions.md` draws.
    #[must_use]
    pub fn check(&self) -> bool {
        let checkpoint = self.checkpoint.unwrap_or_default();
        self.floor <= self.checkpoint
            && self.retained <= checkpoint.next()
            && checkpoint <= self.applied
            && self.applied <= self.committed
            && self.committed <= self.appended
            && self.durable.is_none_or(|durable| durable <= self.appended)
    }

    /// Version after the last one that consumers can read: what they call the end of the log.
    #[must_use]
    pub fn end(&self) -> Version {
        self.applied.next()
    }
}

/// How much a shard holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnodeCounts {
    /// Super tables.
    pub stables: usize,
    /// Child and normal tables.
    pub tables: usize,
    /// Normal tables alone.
    pub normal_tables: usize,
    /// Bytes of rows in memory.
    pub memtable_bytes: usize,
    /// Data files.
    pub files: usize,
    /// Bytes of data files.
    pub file_bytes: u64,
    /// Rows in data files, those that are overwritten or deleted included.
    pub file_rows: u64,
}

/// What a group has on one topic here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupOffsets {
    /// Committed offset: next version to deliver.
    pub committed: Option<Version>,
    /// Where `latest` was resolved, while there is no committed offset.
    pub start: Option<Version>,
    /// First version kept.
    pub log_first: Version,
    /// Version after the last one applied.
    pub log_end: Version,
}

/// One shard.
pub struct Vnode {
    pub(crate) vgroup: VgroupId,
    pub(crate) group: Arc<Group<VnodeState>>,
    pub(crate) state: Arc<RwLock<VnodeState>>,
    pub(crate) proposer: Proposer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) topics: TopicCache,
    pub(crate) findings: Arc<Findings>,
    pub(crate) keep_wish: Arc<KeepWish>,
    /// True once the shard closes: readers that wait end.
    pub(crate) closing: watch::Sender<bool>,
    maintenance: Mutex<Option<JoinHandle<()>>>,
    pub(crate) pressure: Arc<Pressure>,
    pub(crate) compactor: Compactor,
}

impl Vnode {
    /// Opens the shard in `options.dir`, or makes one there: reads the checkpoint and replays the rest of the log. Runs
    /// on a tokio runtime with timers enabled.
    ///
    /// # Errors
    /// I/O errors; [`Code::Damaged`](model::Code::Damaged) with the file and the cure if stored data is;
    /// [`Code::NewerFormat`](model::Code::NewerFormat) if a later release wrote it.
    pub async fn open(
        options: VnodeOptions,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let wal = options.database.options.wal;
        let loading = Loading::new(&options, &disk);
        let loaded = blocking(move || loading.load()).await?;
        let state = Arc::new(RwLock::new(loaded.state));
        let mut group_options = GroupOptions::new(options.vgroup.0, &options.dir).with_wal(&wal);
        group_options.wal.salt_seed = clock.now_ns().cast_unsigned() ^ u64::from(options.vgroup.0);
        let opened =
            Group::open(group_options, disk, Arc::clone(&clock), Arc::clone(&state), loaded.checkpoint)
                .await?;
        let (group, report) = opened;
        if let Some(torn) = &report.torn {
            tracing::warn!(vgroup = %options.vgroup, ?torn, "cut a torn tail off the log");
        }
        if let Some(fault) = state.read().fault() {
            return Err(fault.clone());
        }
        let group = Arc::new(group);
        let (database, vgroup) = (options.database, options.vgroup);
        let pressure = Arc::<Pressure>::default();
        let proposer = Proposer::new(
            vgroup,
            database,
            Arc::clone(&group),
            Arc::clone(&state),
            Arc::clone(&clock),
            Arc::clone(&pressure),
        );
        let vnode = Arc::new(Self {
            vgroup,
            group,
            state,
            proposer,
            clock,
            checkpoints: loaded.checkpoints,
            topics: TopicCache::default(),
            findings: Arc::new(Findings::new(vgroup)),
            keep_wish: Arc::default(),
            closing: watch::Sender::new(false),
            maintenance: Mutex::new(None),
            pressure,
            compactor: Compactor::default(),
        });
        compaction::start(&vnode);
        let (wanted, wish) = (vnode.pressure.flush_wanted(), Arc::clone(&vnode.keep_wish));
        let task = tokio::spawn(maintenance::run(Arc::downgrade(&vnode), wanted, wish));
        *vnode.maintenance.lock() = Some(task);
        Ok(vnode)
    }

    /// Its number.
    #[must_use]
    pub const fn vgroup(&self) -> VgroupId {
        self.vgroup
    }

    /// Its database, with the options in force.
    #[must_use]
    pub fn database(&self) -> Arc<DatabaseInfo> {
        self.proposer.database()
    }

    /// Takes over altered options: KEEP, BUFFER and all of WAL_* count from now on.
    pub fn alter(&self, database: Arc<DatabaseInfo>) {
        self.group.alter(&database.options.wal);
        self.proposer.set_database(database);
        self.pressure.want_maintenance();
    }

    // ------------------------------------------------------------------------------------------------ changes

    /// Writes rows; answers once they are applied and as durable as the database's WAL level says. All of the request
    /// is written, or nothing.
    ///
    /// # Errors
    /// As [`Vnode::begin_write`] and [`PendingWrite::finish`].
    pub async fn write(self: &Arc<Self>, request: WriteRequest) -> Result<WriteOutcome> {
        self.begin_write(request).await?.finish().await
    }

    /// Queues a write: from when this answers its place in the log is fixed, before whatever is queued later. Waits
    /// while memory is full.
    ///
    /// # Errors
    /// What is wrong with the rows; retryable codes where the shard is overloaded or its disk is full. Nothing is
    /// written then.
    pub async fn begin_write(self: &Arc<Self>, request: WriteRequest) -> Result<PendingWrite> {
        self.pressure.wait_for_room(self).await?;
        let (flight, affected_rows) = self.proposer.write(request).await?;
        Ok(PendingWrite { vnode: Arc::clone(self), flight, affected_rows })
    }

    /// CREATE TABLE, DROP TABLE, ALTER TABLE of tables that live here. `None` where nothing was left to do.
    ///
    /// # Errors
    /// Those of each kind of [`TableDdl`].
    pub async fn define(&self, ddl: TableDdl, origin: Origin) -> Result<Option<Version>> {
        let check = |state: &VnodeState, context: &propose::Context, overlay: &mut propose::Overlay| {
            let checked = match ddl {
                TableDdl::Create(tables) => propose::ddl::create_tables(state, context, overlay, tables),
                TableDdl::Drop(tables) => propose::ddl::drop_tables(state, tables),
                TableDdl::Alter { name, change } => propose::ddl::alter_table(state, &name, change),
            };
            Ok(checked?.map(|checked| checked.brought_by(origin)))
        };
        self.proposer.exclusive(check).await
    }

    /// DELETE. Counts the rows first, then narrows the range to them, as consumers of events see it.
    ///
    /// # Errors
    /// No such table.
    pub async fn delete(&self, request: DeleteRequest) -> Result<DeleteOutcome> {
        let plan = propose::delete::plan(&self.state.read(), request.target)?;
        let found = self.count_rows(&plan, request.range).await?;
        let range = found.range.unwrap_or(request.range);
        let version = self.proposer.pipelined(|_, _, _| plan.checked(range, request.origin)).await?;
        let version = version.unwrap_or_else(|| self.state.read().applied());
        Ok(DeleteOutcome { version, affected_rows: found.rows })
    }

    /// A change of a super table, told by the mnode. Idempotent: `None` if it was applied already.
    ///
    /// # Errors
    /// Of the log.
    pub async fn apply_stable(&self, ddl: StableDdl, origin: Origin) -> Result<Option<Version>> {
        let check = |state: &VnodeState, _: &propose::Context, _: &mut propose::Overlay| {
            let checked = propose::ddl::stable(state, ddl)?;
            Ok(checked.map(|checked| checked.brought_by(origin)))
        };
        self.proposer.exclusive(check).await
    }

    /// A change of a topic, told by the mnode. Idempotent: `None` if it was applied already.
    ///
    /// # Errors
    /// Of the log.
    pub async fn apply_topic(&self, ddl: TopicDdl) -> Result<Option<Version>> {
        let (id, is_drop) = ddl.topic();
        let applied = self.proposer.exclusive(|state, _, _| propose::control::topic(state, ddl)).await?;
        self.findings.topic_changed(id, is_drop, applied.is_some());
        Ok(applied)
    }

    /// Switches the owner of this vgroup for a (topic, group), told by the mnode. From when this answers, reads and
    /// commits of the old owner are refused, reads under way included. Idempotent: `None` if the epoch is not news.
    ///
    /// # Errors
    /// Of the log.
    pub async fn set_owner(&self, change: OwnerChange) -> Result<Option<Version>> {
        self.proposer.exclusive(|state, _, _| propose::control::owner(state, change)).await
    }

    /// Commits an offset; answers once it is as durable as the database's WAL level says. Success also where it is stored
    /// already or a later commit of the same consumer is.
    ///
    /// # Errors
    /// [`Code::ConsumerMismatch`](model::Code::ConsumerMismatch) if the consumer does not own the vgroup under this
    /// epoch; [`Code::OffsetOutOfRange`](model::Code::OffsetOutOfRange) for an offset beyond the log's end.
    pub async fn commit(&self, request: CommitRequest) -> Result<()> {
        let CommitRequest { offset, keep, .. } = request;
        let commit =
            |state: &VnodeState, _: &propose::Context, quiet| propose::control::commit(state, request, quiet);
        let committed = self.proposer.pipelined(commit).await?;
        // A retry that came late says nothing of what is needed now.
        if keep && committed.is_some() {
            self.keep_wish.wish(offset);
        }
        Ok(())
    }

    /// Forgets a group's offset, owner and start on one topic. Idempotent.
    ///
    /// # Errors
    /// Of the log.
    pub async fn drop_group(&self, topic: TopicId, group: &str) -> Result<Option<Version>> {
        let drop = |state: &VnodeState, _: &propose::Context, _: &mut propose::Overlay| {
            propose::control::drop_group(state, topic, group)
        };
        let dropped = self.proposer.exclusive(drop).await?;
        self.findings.forget_group(topic, group);
        Ok(dropped)
    }

    // ------------------------------------------------------------------------------------------------ look-ups

    /// A child or normal table that exists, its tags in the order of its super table's current schema.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<Arc<TableInfo>> {
        let state = self.state.read();
        state.tables.named(name).map(|entry| state.table_info(entry))
    }

    /// The name of a table that is `name` but for its case, for the error of one that is not there. Looks no further
    /// than the oldest hundred thousand.
    #[must_use]
    pub fn table_name_but_for_case(&self, name: &str) -> Option<String> {
        const LOOKED_AT_MAX: usize = 100_000;
        let state = self.state.read();
        let mut names = state.tables.live().take(LOOKED_AT_MAX).map(|entry| &entry.info.name);
        names.find(|known| *known != name && known.eq_ignore_ascii_case(name)).cloned()
    }

    /// Every child and normal table, in uid order.
    #[must_use]
    pub fn all_tables(&self) -> Vec<Arc<TableInfo>> {
        let state = self.state.read();
        state.tables.live().map(|entry| state.table_info(entry)).collect()
    }

    /// Normal tables, in uid order.
    #[must_use]
    pub fn normal_tables(&self) -> Vec<Arc<TableInfo>> {
        self.state.read().tables.normal().map(|entry| Arc::clone(&entry.info)).collect()
    }

    /// A super table as this shard has it.
    #[must_use]
    pub fn stable(&self, uid: TableUid) -> Option<Arc<StableInfo>> {
        self.state.read().stables.get(uid).cloned()
    }

    /// Number of children of a super table.
    #[must_use]
    pub fn child_count(&self, stable: TableUid) -> usize {
        self.state.read().tables.child_count(stable)
    }

    /// How much it holds.
    #[must_use]
    pub fn counts(&self) -> VnodeCounts {
        let state = self.state.read();
        let manifest = state.store.manifest();
        VnodeCounts {
            stables: state.stables.iter().count(),
            tables: state.tables.len(),
            normal_tables: state.tables.normal_count(),
            memtable_bytes: state.store.memtable_bytes() + state.store.frozen_bytes(),
            files: manifest.files.len(),
            file_bytes: manifest.files.iter().map(|file| file.bytes).sum(),
            file_rows: manifest.files.iter().map(|file| file.rows).sum(),
        }
    }

    /// Where it stands in its log.
    #[must_use]
    pub fn positions(&self) -> VnodePositions {
        let checkpoint = self.checkpoints.last();
        let group = self.group.positions();
        VnodePositions {
            retained: group.first,
            checkpoint,
            floor: group.floor,
            durable: group.durable,
            applied: group.applied,
            committed: group.committed,
            appended: group.appended,
        }
    }

    /// What a group has on one topic here, and the range of the log.
    #[must_use]
    pub fn offsets(&self, topic: TopicId, group: &str) -> GroupOffsets {
        let (committed, start) = {
            let state = self.state.read();
            let held = state.groups.get(topic, group);
            (held.and_then(|h| h.committed.as_ref()).map(|c| c.offset), held.and_then(|h| h.start))
        };
        let positions = self.positions();
        GroupOffsets { committed, start, log_first: positions.retained, log_end: positions.end() }
    }

    /// How far a group is behind that goes on at `position`.
    #[must_use]
    pub fn behind(&self, topic: TopicId, group: &str, position: Option<Version>) -> Behind {
        let key = (topic, group.to_owned());
        if !self.has_table_of(topic) {
            return self.findings.beside(&key, position);
        }
        let shown_end = self.state.read().shown_end();
        let first = self.group.positions().first;
        self.findings.behind(&key, position, first, shown_end)
    }

    /// Whether the table that a topic reads is in this shard; also for topics that read all tables of some kind, or that
    /// are not known here.
    #[must_use]
    pub fn has_table_of(&self, topic: TopicId) -> bool {
        let state = self.state.read();
        state.topics.get(topic).is_none_or(|definition| self.topics.has_table(definition, &state))
    }

    /// Damage that a reader has come upon, for as long as the log reaches back to it. Consumers do not get past it; writes
    /// and scans, which live in memory and in data files, are not concerned.
    #[must_use]
    pub fn log_damage(&self) -> Option<Error> {
        self.findings.damage(self.group.positions().first)
    }

    // -------------------------------------------------------------------------------------------- subscription

    /// Starts reading a topic for the owner of the vgroup. Resolves the position: the one given, else the committed
    /// offset, else what `reset` says, of which `latest` is remembered through the log.
    ///
    /// # Errors
    /// [`Code::ConsumerMismatch`](model::Code::ConsumerMismatch) for a consumer that is not the owner under this epoch,
    /// [`Code::TopicNotExist`](model::Code::TopicNotExist), and
    /// [`Code::NoCommittedOffset`](model::Code::NoCommittedOffset) for `none` without an offset.
    pub async fn subscribe(self: &Arc<Self>, request: SubscribeRequest) -> Result<Subscription> {
        Subscription::open(Arc::clone(self), request).await
    }

    // ---------------------------------------------------------------------------------------------- maintenance

    /// Writes everything in memory to files, stores a checkpoint, closes the log's segment and deletes what is past its
    /// retention. Answers when that is done.
    ///
    /// # Errors
    /// Of the disk; nothing is lost then, and the next flush tries again.
    pub async fn flush(&self) -> Result<()> {
        self.log_keep_wish().await;
        let flushed = self.checkpoints.flush(self).await;
        self.pressure.flushed();
        self.compactor.want();
        flushed
    }

    /// Closes segments that are due and deletes those past their retention, hides files past KEEP. Flushes where segments
    /// past their retention wait for nothing else: a log that grows faster than memory fills up, one of commits say. A
    /// timer does this by itself; here for tests and after options changed.
    ///
    /// # Errors
    /// Of the disk.
    pub async fn tick(&self) -> Result<()> {
        self.log_keep_wish().await;
        // First: what it deletes is room for a flush.
        let ticked = self.checkpoints.tick(self).await;
        if Checkpoints::is_awaited(self) { self.flush().await } else { ticked }
    }

    /// TRIM DATABASE .. WAL: deletes the segments past their retention, also those that the keep version holds back.
    ///
    /// # Errors
    /// Of the disk.
    pub async fn trim_wal(&self) -> Result<()> {
        self.checkpoints.trim_log(self).await
    }

    /// Closes in order: ends waiting readers, finishes what is in flight, flushes, makes the log durable. A second call
    /// does nothing more.
    ///
    /// # Errors
    /// Of the disk. It is closed all the same, and what was acknowledged is in the log.
    pub async fn close(&self) -> Result<()> {
        self.closing.send_replace(true);
        let task = self.maintenance.lock().take();
        if let Some(task) = task {
            self.pressure.want_maintenance();
            let _ended = task.await;
        }
        self.compactor.end().await;
        let flushed = if self.group.failure().is_none() { self.flush().await } else { Ok(()) };
        let closed = self.group.close().await;
        flushed.and(closed)
    }

    /// Closes a shard whose files are about to be removed: as [`Vnode::close`], without writing anything more than what
    /// is in flight.
    pub async fn discard(&self) {
        self.proposer.dropped();
        self.closing.send_replace(true);
        let task = self.maintenance.lock().take();
        if let Some(task) = task {
            self.pressure.want_maintenance();
            let _ended = task.await;
        }
        self.compactor.end().await;
        if let Err(error) = self.group.close().await {
            tracing::debug!(vgroup = %self.vgroup, %error, "a dropped shard did not close cleanly");
        }
    }
}

/// A write that stands in the shard's queue.
pub struct PendingWrite {
    vnode: Arc<Vnode>,
    flight: Flight,
    affected_rows: u64,
}

impl PendingWrite {
    /// Waits until it is applied and as durable as the database's WAL level says.
    ///
    /// # Errors
    /// Of the log. After such an error it is unknown whether the rows are there; writing them again is safe.
    pub async fn finish(self) -> Result<WriteOutcome> {
        let version = self.flight.landed().await?;
        self.vnode.pressure.note(&self.vnode);
        Ok(WriteOutcome { version, affected_rows: self.affected_rows })
    }
}

impl fmt::Debug for PendingWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingWrite").field("vgroup", &self.vnode.vgroup).finish_non_exhaustive()
    }
}

impl fmt::Debug for Vnode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vnode").field("vgroup", &self.vgroup).finish_non_exhaustive()
    }
}

/// Runs what blocks on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => Err(Error::internal("a blocking task failed").caused_by(e)),
    }
}

impl Vnode {
    pub(crate) fn is_flush_due(&self) -> bool {
        self.pressure.is_flush_due()
    }
}
