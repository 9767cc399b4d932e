use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use model::{Clock, Code, Error, Result};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use wal::{Disk, Kind, OpenReport, Version, Wal, WalReader, Watermark};

use crate::checkpoint::{Checkpoint, LogPosition};
use crate::core::{self, Core};
use crate::entry::{Command, Proposed};
use crate::error::{of_fatal, of_io, of_wal};
use crate::format::{self, position_of};
use crate::log_store;
use crate::options::GroupOptions;
use crate::proposal::{Proposal, StateMachine};
use crate::shared::{Progress, Reservation, Shared};
use crate::syncer::Syncer;
use crate::types::log_id;

/// Directory of the log within a group's directory.
const WAL_DIR: &str = "wal";

/// What a proposal costs of the in-flight bound beside its bytes, so that empty ones are bounded too.
const PROPOSAL_BYTES: u32 = 256;

/// How often one call builds the core anew before it gives up.
const MEND_MAX: usize = 2;

/// One Raft group: a log that is agreed upon, and the state machine that its records have built.
///
/// [`close`](Self::close) stops it in order. Dropped without that it stops in its own time, and the directory must not
/// be opened again by this process before.
pub struct Group<S> {
    options: GroupOptions,
    pub(crate) shared: Arc<Shared>,
    state: Arc<RwLock<S>>,
    /// None between two lives.
    core: RwLock<Option<Arc<Core>>>,
    /// Held by whoever builds the core anew.
    mending: tokio::sync::Mutex<()>,
    /// How often that was tried.
    mended: AtomicU64,
    /// Held while a checkpoint is made known: openraft makes one snapshot at a time.
    pub(crate) compacting: tokio::sync::Mutex<()>,
    in_flight: Arc<Semaphore>,
    closed: AtomicBool,
    /// Segments with records from here on survive retention.
    pub(crate) keep: Mutex<Option<Version>>,
    syncing: Mutex<Option<JoinHandle<()>>>,
}

/// Where a group stands. `first <= floor + 1`, `floor <= applied <= committed <= appended`, `durable <= appended`; when
/// the log has ended before a checkpoint was reached, `floor` and `applied` may stand above `appended` until the group
/// is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    /// The last record in the log.
    pub appended: Version,
    /// The last record that is on disk for certain; none if none is.
    pub durable: Option<Version>,
    /// The last record that is agreed upon.
    pub committed: Version,
    /// The last record that the state machine has taken in.
    pub applied: Version,
    /// The last record that Raft has given up, because a checkpoint holds it; none so far.
    pub floor: Option<Version>,
    /// The first record that consumers can still read.
    pub first: Version,
}

/// A proposal that is queued. Resolves to its version once it is applied and as durable as [`Fsync`] says.
///
/// An error says that the record *may* be missing: it is unknown, unless the error came from
/// [`Group::enqueue`] itself. Dropping this does not take the proposal back.
#[derive(Debug)]
pub struct Pending {
    answer: oneshot::Receiver<Result<Version>>,
    shared: Arc<Shared>,
}

impl Future for Pending {
    type Output = Result<Version>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| answer.unwrap_or_else(|_| Err(self.lost())))
    }
}

impl Pending {
    /// Nobody is left to answer: the core has ended.
    fn lost(&self) -> Error {
        let ended = || Error::with(Code::Io, "raft core ended before it answered");
        self.shared.failure().unwrap_or_else(ended)
    }
}

impl<S: StateMachine> Group<S> {
    /// Opens the group in `options.dir`, or starts one of this node alone there. Replays the log into `state`, which
    /// holds everything up to `checkpoint`. Returns once this node leads and has applied its own first entry, and so
    /// everything that was ever acknowledged.
    ///
    /// A disk that can be read and not written, a full one above all, does not keep the group from being opened: a lone
    /// voter has applied all that was acknowledged once it has read its log. It is then read-only, as after a storage
    /// error later on: [`failure`](Self::failure) says why, and each proposal tries again to lead.
    ///
    /// Runs on a tokio runtime with timers enabled. Nothing else may have the directory open.
    ///
    /// # Errors
    /// I/O errors of what must be read, or written because the group is new; [`Code::Damaged`] if the log, the vote or
    /// the checkpoint is; a newer format.
    pub async fn open(
        options: GroupOptions,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        state: Arc<RwLock<S>>,
        checkpoint: Option<Checkpoint>,
    ) -> Result<(Self, OpenReport)> {
        let opening = options.clone();
        let opened = tokio::task::spawn_blocking(move || open(&opening, disk, clock, checkpoint)).await;
        let (shared, report) = opened.map_err(crate::error::of_join).flatten()?;
        let shared = Arc::new(shared);
        let replayed = Arc::clone(&state);
        shared.blocking(move |shared| core::replay(shared, &replayed)).await?;
        let core = match Core::start(&shared, &state, &options).await {
            Ok(core) => Some(Arc::new(core)),
            Err(e) if shared.is_failed() && e.may_retry() => None,
            Err(e) => return Err(e),
        };
        let syncing = tokio::spawn(Syncer::run(Arc::clone(&shared)));
        let in_flight = Arc::new(Semaphore::new(options.in_flight_bytes_max.max(PROPOSAL_BYTES) as usize));
        let group = Self {
            options,
            shared,
            state,
            core: RwLock::new(core),
            mending: tokio::sync::Mutex::new(()),
            mended: AtomicU64::new(0),
            compacting: tokio::sync::Mutex::new(()),
            in_flight,
            closed: AtomicBool::new(false),
            keep: Mutex::new(None),
            syncing: Mutex::new(Some(syncing)),
        };
        Ok((group, report))
    }

    /// Queues a proposal and returns once its place in the order is fixed: what is enqueued after this has returned
    /// stands behind it in the log. Waits where too much is in flight, and builds the core anew if a storage error has
    /// ended it.
    ///
    /// # Errors
    /// The proposal is *not* in the log and never will be: [`Code::NoDiskSpace`] if the disk has no room for it (others
    /// are not concerned), [`Code::Io`] while the disk fails, [`Code::SqlTooLong`] for a body that no record can hold,
    /// [`Code::ShuttingDown`] after [`close`](Self::close).
    pub async fn enqueue(&self, proposal: Proposal) -> Result<Pending> {
        check(&proposal)?;
        let bound = self.options.in_flight_bytes_max.max(PROPOSAL_BYTES);
        let log_bytes = proposal.log_bytes();
        let cost = u32::try_from(log_bytes).unwrap_or(u32::MAX).saturating_add(PROPOSAL_BYTES).min(bound);
        let permit = Arc::clone(&self.in_flight).acquire_many_owned(cost).await;
        let permit = permit.map_err(|_| Error::of(Code::ShuttingDown))?;
        let reservation = self.reserve(log_bytes).await?;
        let (proposed, answer) = Proposed::new(proposal, reservation, permit);
        let proposed = Arc::new(proposed);
        for _ in 0..MEND_MAX {
            let core = self.working().await?;
            match core.raft.client_write_ff(Command(Arc::clone(&proposed))).await {
                Ok(()) => return Ok(Pending { answer, shared: Arc::clone(&self.shared) }),
                Err(e) => self.note_end(&core, of_fatal(e)),
            }
        }
        Err(self.shared.failure().unwrap_or_else(|| Error::of(Code::Io)))
    }

    /// [`enqueue`](Self::enqueue), and waits for the outcome.
    ///
    /// # Errors
    /// Those of [`enqueue`](Self::enqueue) and of [`Pending`].
    pub async fn propose(&self, proposal: Proposal) -> Result<Version> {
        self.enqueue(proposal).await?.await
    }

    /// Reads the log. Records above [`Positions::applied`] are not for consumers yet.
    #[must_use]
    pub fn log(&self) -> WalReader {
        self.shared.wal.handle()
    }

    /// The last applied version, and a wake-up when it moves. By then the state machine shows it.
    #[must_use]
    pub fn applied(&self) -> Arc<Watermark> {
        Arc::clone(&self.shared.applied)
    }

    /// Where the group stands.
    #[must_use]
    pub fn positions(&self) -> Positions {
        // From the rear to the front, so that what is read later can only be further.
        let first = self.shared.wal.first_version();
        let floor = self.shared.floor.lock().map(|floor| Version(floor.index));
        let applied = self.shared.progress.lock().next();
        let committed = self.shared.committed_next.load(Ordering::Acquire);
        let durable = self.shared.wal.durable_next().prev();
        let appended = self.shared.wal.next_version();
        let last = |next: Version| next.prev().unwrap_or_default();
        let committed = Version(committed).max(applied);
        Positions {
            appended: last(appended),
            durable,
            committed: last(committed),
            applied: last(applied),
            floor,
            first,
        }
    }

    /// The checkpoint that the state machine amounts to now. To go with a copy of the state use
    /// [`checkpoint_with`](Self::checkpoint_with).
    ///
    /// # Errors
    /// [`Code::Internal`] only.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        self.checkpoint_with(|_, checkpoint| checkpoint)
    }

    /// Shows the state and its checkpoint to `take` under one lock, so that they agree. `take` must not lock the state
    /// itself.
    ///
    /// # Errors
    /// [`Code::Internal`] only.
    pub fn checkpoint_with<T>(&self, take: impl FnOnce(&S, Checkpoint) -> T) -> Result<T> {
        let state = self.state.read();
        let checkpoint = {
            let progress = self.shared.progress.lock();
            let membership = format::encode_stored_membership(&progress.membership)?;
            Checkpoint { applied: progress.applied.map(|applied| position_of(&applied)), membership }
        };
        Ok(take(&state, checkpoint))
    }

    /// Why the group is read-only, none if it is not. The next proposal tries to mend it.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure()
    }

    /// Stops in order: takes no more proposals, waits for those in flight, makes the log durable, ends all tasks.
    /// A second call does nothing.
    ///
    /// # Errors
    /// [`Code::Io`] if the log could not be made durable. The group is closed all the same.
    pub async fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let all = self.options.in_flight_bytes_max.max(PROPOSAL_BYTES);
        // Not answered by the core any more if it has failed: then there is nothing to wait for.
        if !self.shared.is_failed() {
            let _drained = self.in_flight.acquire_many(all).await;
        }
        self.in_flight.close();
        let _no_mending = self.mending.lock().await;
        let core = self.core.write().take();
        if let Some(core) = core {
            core.stop().await;
        }
        let synced = Syncer::sync(&self.shared).await;
        self.shared.syncer.stop();
        let syncing = self.syncing.lock().take();
        if let Some(syncing) = syncing {
            syncing.await.map_err(crate::error::of_join)?;
        }
        synced.map(|_| ())
    }

    pub(crate) fn note_poison(&self) {
        if self.shared.wal.is_poisoned() {
            self.shared.fail(Error::with(Code::Io, "log is read-only since a failed sync"));
        }
    }

    /// Takes disk space, so that a full disk concerns this proposal alone.
    async fn reserve(&self, bytes: u64) -> Result<Reservation> {
        self.working().await?;
        match self.shared.reserve(bytes).await {
            Err(_) if self.shared.wal.is_poisoned() => {
                self.note_poison();
                self.working().await?;
                self.shared.reserve(bytes).await
            }
            reserved => reserved,
        }
    }

    /// A core was found to have ended. It may have been replaced since.
    fn note_end(&self, ended: &Arc<Core>, error: Error) {
        let core = self.core.read();
        if core.as_ref().is_some_and(|core| Arc::ptr_eq(core, ended)) {
            self.shared.fail(error);
        }
    }

    fn current(&self) -> Option<Arc<Core>> {
        self.core.read().clone().filter(|_| !self.shared.is_failed())
    }

    /// The core, built anew if it has failed.
    pub(crate) async fn working(&self) -> Result<Arc<Core>> {
        match self.current() {
            Some(core) => Ok(core),
            None => self.mend().await,
        }
    }

    /// Builds the core anew. Those who wait meanwhile share the outcome instead of trying once more each.
    async fn mend(&self) -> Result<Arc<Core>> {
        let seen = self.mended.load(Ordering::Acquire);
        let _mending = self.mending.lock().await;
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::of(Code::ShuttingDown));
        }
        if self.current().is_none() && self.mended.load(Ordering::Acquire) == seen {
            self.shared.begin_life();
            let rebuilt = self.rebuild().await;
            self.mended.fetch_add(1, Ordering::AcqRel);
            rebuilt.inspect_err(|e| self.shared.fail(e.clone()))?;
        }
        self.current().ok_or_else(|| self.shared.failure().unwrap_or_else(|| Error::of(Code::Io)))
    }

    async fn rebuild(&self) -> Result<()> {
        let old = self.core.write().take();
        if let Some(old) = old {
            old.stop().await;
        }
        let replayed = Arc::clone(&self.state);
        let heal_and_replay = move |shared: &Shared| {
            shared.wal.heal(shared.clock.now_ns()).map_err(of_wal)?;
            core::replay(shared, &replayed)
        };
        self.shared.blocking(heal_and_replay).await?;
        self.shared.syncer.serve(&self.shared);
        let core = Core::start(&self.shared, &self.state, &self.options).await?;
        *self.core.write() = Some(Arc::new(core));
        self.shared.clear_failure();
        tracing::info!(group = self.shared.group, "raft group works again");
        Ok(())
    }
}

impl<S> Drop for Group<S> {
    fn drop(&mut self) {
        self.shared.syncer.stop();
    }
}

impl<S> fmt::Debug for Group<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// Opens the files. Blocks.
fn open(
    options: &GroupOptions,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    checkpoint: Option<Checkpoint>,
) -> Result<(Shared, OpenReport)> {
    disk.create_dir_all(&options.dir).map_err(|e| of_io("raft directory cannot be made", e))?;
    let progress = checkpoint.map(restore).transpose()?.unwrap_or_default();
    let wal_dir = options.dir.join(WAL_DIR);
    let opened = Wal::open(Arc::clone(&disk), &wal_dir, options.wal.clone(), clock.now_ns());
    let (wal, report) = opened.map_err(of_wal)?;
    let is_new = wal.last().is_none() && progress.applied.is_none();
    let syncer = Syncer::new(options.fsync);
    let (group, node, dir) = (options.group, options.node, options.dir.clone());
    let segment_bytes_max = options.wal.segment_bytes_max;
    let shared = Shared::new(group, node, dir, disk, clock, wal, segment_bytes_max, syncer, progress);
    if is_new {
        core::bootstrap(&shared)?;
    }
    log_store::load(&shared)?;
    Ok((shared, report))
}

fn restore(checkpoint: Checkpoint) -> Result<Progress> {
    let membership = format::decode_stored_membership(&checkpoint.membership)?;
    let mut progress = Progress::default();
    if let Some(LogPosition { version, term }) = checkpoint.applied {
        progress.applied = Some(log_id(version, term));
        progress.membership = membership.clone();
        progress.stored(log_id(version, term), membership);
    }
    Ok(progress)
}

/// Refuses what the log would refuse: there it would end the core.
fn check(proposal: &Proposal) -> Result<()> {
    if matches!(proposal.kind, Kind::Membership | Kind::Noop) {
        return Err(Error::internal(format_args!("kind is not for proposals kind={}", proposal.kind.name())));
    }
    let schemas = proposal.schemas.iter().map(|schema| schema.bytes.len());
    let largest = schemas.chain([proposal.body.len()]).max().unwrap_or(0);
    if largest > wal::BODY_BYTES_MAX {
        let max = wal::BODY_BYTES_MAX;
        return Err(Error::with(Code::SqlTooLong, format_args!("bytes={largest} bytes_max={max}")));
    }
    Ok(())
}
