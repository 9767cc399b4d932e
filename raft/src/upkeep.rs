//! What a group's owner does to the log beside proposing: sync, close segments, delete old ones, alter options, and tell
//! that a checkpoint is stored.

use model::{Code, Error, Result, WalOptions};
use wal::{RetainOutcome, Retention, Version};

use crate::checkpoint::Checkpoint;
use crate::error::{of_fatal, of_wal};
use crate::format;
use crate::group::Group;
use crate::log_store;
use crate::options::{Fsync, rolling_of};
use crate::proposal::StateMachine;
use crate::shared::Shared;
use crate::syncer::Syncer;
use crate::types::{Raft, log_id};

impl<S: StateMachine> Group<S> {
    /// A checkpoint has been stored: Raft gives up the records that it holds. They stay readable for consumers until
    /// [`retain`](Self::retain) deletes their segments.
    ///
    /// # Errors
    /// I/O errors. Nothing is given up then; call again.
    pub async fn compacted(&self, checkpoint: &Checkpoint) -> Result<()> {
        let Some(applied) = checkpoint.applied else { return Ok(()) };
        let membership = format::decode_stored_membership(&checkpoint.membership)?;
        let upto = log_id(applied.version, applied.term);
        let _one_at_a_time = self.compacting.lock().await;
        let core = self.working().await?;
        // Here and not when Raft asks for it: there it would end the core where the disk has no room.
        self.shared.blocking(move |shared| log_store::store_floor(shared, upto)).await?;
        self.shared.progress.lock().stored(upto, membership);
        let purged = purge(&core.raft, applied.version).await;
        purged.map_err(|e| self.shared.failure().unwrap_or(e))
    }

    /// Makes everything that is in the log now durable.
    ///
    /// # Errors
    /// [`Code::Io`]: the log is read-only then, and mends itself with the next proposal.
    pub async fn sync(&self) -> Result<Version> {
        let next = Syncer::sync(&self.shared).await?;
        Ok(next.prev().unwrap_or_default())
    }

    /// Closes the log's segment, so that retention can delete it some day.
    ///
    /// # Errors
    /// I/O errors.
    pub async fn roll(&self) -> Result<()> {
        self.log_work(|shared| shared.wal.roll(shared.clock.now_ns())).await
    }

    /// Closes the log's segment if it is older than the roll period, and lets an idle log [rest](wal::Wal::rest). For a
    /// timer.
    ///
    /// # Errors
    /// I/O errors.
    pub async fn roll_if_due(&self) -> Result<()> {
        let work = |shared: &Shared| {
            shared.wal.roll_if_due(shared.clock.now_ns())?;
            shared.wal.rest()
        };
        self.log_work(work).await
    }

    /// Whether [`roll_if_due`](Self::roll_if_due) or [`retain`](Self::retain) have anything to do. For a timer: it does not
    /// wait for the disk.
    #[must_use]
    pub fn needs_upkeep(&self, retention: Retention) -> bool {
        self.shared.wal.needs_upkeep(self.shared.clock.now_ns(), self.retained_below(), retention)
    }

    /// Whether there are segments that are past `retention` and below the keep version, and that only the floor holds
    /// back: they could go after another checkpoint. For a timer: it does not wait for the disk.
    #[must_use]
    pub fn awaits_checkpoint(&self, retention: Retention) -> bool {
        let applied_next = self.shared.progress.lock().next();
        let reachable = self.keep.lock().map_or(applied_next, |keep| keep.min(applied_next));
        self.shared.wal.holds_back(self.shared.clock.now_ns(), self.retained_below(), reachable, retention)
    }

    /// Up to where segments may go: the floor, or the keep version if that is lower.
    fn retained_below(&self) -> Version {
        let floor_next = self.shared.floor_next();
        self.keep.lock().map_or(floor_next, |keep| keep.min(floor_next))
    }

    /// Deletes segments that are past `retention` and lie wholly below the floor and the keep version.
    ///
    /// # Errors
    /// I/O errors.
    pub async fn retain(&self, retention: Retention) -> Result<RetainOutcome> {
        self.delete_below(self.retained_below(), retention).await
    }

    /// Deletes segments as [`retain`](Self::retain) does, those with records at or above the keep version too: TRIM
    /// DATABASE ... WAL.
    ///
    /// # Errors
    /// I/O errors.
    pub async fn trim(&self, retention: Retention) -> Result<RetainOutcome> {
        self.delete_below(self.shared.floor_next(), retention).await
    }

    async fn delete_below(&self, below: Version, retention: Retention) -> Result<RetainOutcome> {
        self.log_work(move |shared| shared.wal.retain(shared.clock.now_ns(), below, retention)).await
    }

    /// Sets from which version on segments survive [`retain`](Self::retain); none, as after opening, holds nothing back.
    /// The group does not store it: its owner's state machine does.
    pub fn set_keep_version(&self, keep: Option<Version>) {
        *self.keep.lock() = keep;
    }

    /// Takes over altered options of the log, WAL_LEVEL, WAL_FSYNC_PERIOD, WAL_SEGMENT_SIZE and WAL_ROLL_PERIOD, from the
    /// next proposal on; those in flight may still be answered as before. Retention comes with each
    /// [`retain`](Self::retain).
    pub fn alter(&self, options: &WalOptions) {
        self.shared.set_rolling(rolling_of(options));
        self.set_fsync(Fsync::from(options));
    }

    /// Changes what an answer rests on. Proposals in flight may still be answered as before.
    pub fn set_fsync(&self, fsync: Fsync) {
        self.shared.syncer.set_when(fsync);
    }

    async fn log_work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> wal::Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = self.shared.blocking(move |shared| work(shared).map_err(of_wal)).await;
        // Rolling makes records durable, and may find out that it cannot.
        self.shared.syncer.serve(&self.shared);
        self.note_poison();
        done
    }
}

async fn purge(raft: &Raft, upto: Version) -> Result<()> {
    raft.trigger().snapshot().await.map_err(of_fatal)?;
    reached(raft, upto, |metrics| metrics.snapshot).await?;
    raft.trigger().purge_log(upto.get()).await.map_err(of_fatal)?;
    reached(raft, upto, |metrics| metrics.purged).await
}

/// Waits until openraft reports `version` or a later one.
async fn reached(
    raft: &Raft,
    version: Version,
    what: impl Fn(&openraft::RaftMetrics<u64, openraft::EmptyNode>) -> Option<crate::types::LogId>,
) -> Result<()> {
    let mut metrics = raft.metrics();
    loop {
        {
            let now = metrics.borrow_and_update();
            if what(&now).is_some_and(|at| at.index >= version.get()) {
                return Ok(());
            }
            now.running_state.clone().map_err(of_fatal)?;
        }
        metrics.changed().await.map_err(|_| Error::of(Code::ShuttingDown))?;
    }
}
