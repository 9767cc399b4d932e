//! What the lives of a group's core have in common: the log, how far it is applied, and why it does not work.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::{Clock, Error, Result};
use parking_lot::Mutex;
use wal::{Disk, Rolling, Version, Wal, Watermark};

use crate::error::{of_join, of_wal};
use crate::syncer::Syncer;
use crate::types::{LogId, SnapshotMeta, StorageError, StoredMembership, Vote};

pub(crate) struct Shared {
    pub(crate) group: u32,
    pub(crate) node: u64,
    /// Where the `vote` and `floor` files lie.
    pub(crate) dir: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wal: Wal,
    pub(crate) syncer: Syncer,
    /// As stored in the `vote` file.
    pub(crate) vote: Mutex<Option<Vote>>,
    /// The last record that Raft has given up.
    pub(crate) floor: Mutex<Option<LogId>>,
    /// As stored in the `floor` file: what Raft may give up.
    pub(crate) floor_stored: Mutex<Option<LogId>>,
    /// Changed only while the state machine is locked for writing.
    pub(crate) progress: Mutex<Progress>,
    /// Last applied version, told after the state machine is unlocked.
    pub(crate) applied: Arc<Watermark>,
    /// Version after the last committed one.
    pub(crate) committed_next: AtomicU64,
    reserved: Arc<AtomicU64>,
    segment_bytes_max: AtomicU64,
    failed: AtomicBool,
    failing: Mutex<Failing>,
}

/// Why the group is read-only.
#[derive(Debug, Default)]
struct Failing {
    /// Counts the attempts to build a core.
    life: u64,
    /// The first error of a life, and which one.
    failure: Option<(u64, Error)>,
}

/// How far the state machine is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// The last checkpoint known to be stored.
    pub(crate) snapshot: Option<SnapshotMeta>,
}

impl Progress {
    /// The version to apply next.
    pub(crate) fn next(&self) -> Version {
        self.applied.map_or(Version::ZERO, |applied| Version(applied.index).next())
    }
}

/// Disk space that is spoken for. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    bytes: u64,
    total: Arc<AtomicU64>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Shared {
    #[expect(clippy::too_many_arguments, reason = "called once, by `Group::open`")]
    pub(crate) fn new(
        group: u32,
        node: u64,
        dir: PathBuf,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        wal: Wal,
        segment_bytes_max: u64,
        syncer: Syncer,
        progress: Progress,
    ) -> Self {
        let applied = progress.applied.map_or(Version::ZERO, |applied| Version(applied.index));
        Self {
            group,
            node,
            dir,
            disk,
            clock,
            wal,
            syncer,
            vote: Mutex::new(None),
            floor: Mutex::new(None),
            floor_stored: Mutex::new(None),
            committed_next: AtomicU64::new(progress.next().get()),
            progress: Mutex::new(progress),
            applied: Arc::new(Watermark::new(applied)),
            reserved: Arc::default(),
            segment_bytes_max: AtomicU64::new(segment_bytes_max),
            failed: AtomicBool::new(false),
            failing: Mutex::default(),
        }
    }

    /// Runs `work` on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&shared)).await.map_err(of_join).flatten()
    }

    /// Takes disk space for `bytes` beside everything that has been proposed and is not in the log yet. Waits for the
    /// disk on another thread, and only where the space taken before is used up.
    ///
    /// Space is taken in the last segment, and another is started where that has no room. So that a burst of proposals
    /// does not leave a trail of small segments, what the others hold counts up to a quarter of a segment only.
    pub(crate) async fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation> {
        let before = self.reserved.fetch_add(bytes, Ordering::AcqRel);
        let reservation = Reservation { bytes, total: Arc::clone(&self.reserved) };
        let share = self.segment_bytes_max.load(Ordering::Relaxed) / 4;
        let all = before.saturating_add(bytes).min(share).max(bytes);
        if !self.wal.try_reserve(all, self.clock.now_ns()).map_err(of_wal)? {
            self.blocking(move |shared| shared.wal.reserve(all, shared.clock.now_ns()).map_err(of_wal))
                .await?;
        }
        Ok(reservation)
    }

    /// Alters when segments are closed.
    pub(crate) fn set_rolling(&self, rolling: Rolling) {
        self.segment_bytes_max.store(rolling.segment_bytes_max, Ordering::Relaxed);
        self.wal.set_rolling(rolling);
    }

    /// Makes the group read-only until its core has been built anew. The first cause of each life is kept.
    pub(crate) fn fail(&self, error: Error) {
        let mut failing = self.failing.lock();
        let life = failing.life;
        match &failing.failure {
            Some((of, _)) if *of == life => return,
            Some(_) => tracing::debug!(group = self.group, %error, "raft group is still read-only"),
            None => tracing::error!(group = self.group, %error, "raft group is read-only"),
        }
        failing.failure = Some((life, error));
        self.failed.store(true, Ordering::Release);
    }

    /// A core is about to be built anew: what ends that one is why the group is read-only from then on.
    pub(crate) fn begin_life(&self) {
        self.failing.lock().life += 1;
    }

    /// As [`Shared::fail`], for an error that openraft gets to see: it ends the core.
    pub(crate) fn ends_core(&self, error: Error, to_storage: fn(&Error) -> StorageError) -> StorageError {
        let seen = to_storage(&error);
        self.fail(error);
        seen
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.failing.lock().failure.as_ref().map(|(_, error)| error.clone())
    }

    /// The first error of the core that was built last.
    pub(crate) fn failure_of_life(&self) -> Option<Error> {
        let failing = self.failing.lock();
        failing.failure.as_ref().filter(|(life, _)| *life == failing.life).map(|(_, error)| error.clone())
    }

    pub(crate) fn clear_failure(&self) {
        let mut failing = self.failing.lock();
        failing.failure = None;
        self.failed.store(false, Ordering::Release);
    }

    /// The first version that Raft may still ask for.
    pub(crate) fn floor_next(&self) -> Version {
        self.floor.lock().map_or(Version::ZERO, |floor| Version(floor.index).next())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("group", &self.group).field("wal", &self.wal).finish_non_exhaustive()
    }
}
