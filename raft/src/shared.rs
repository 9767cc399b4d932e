//! What the lives of a group's core have in common: the log, how far it is applied, and why it does not work.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::{Clock, Error};
use parking_lot::Mutex;
use tokio::sync::watch;
use wal::{Disk, Version, Wal};

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
    /// Changed only while the state machine is locked for writing.
    pub(crate) progress: Mutex<Progress>,
    /// Last applied version, told after the state machine is unlocked.
    pub(crate) applied: watch::Sender<Version>,
    /// Version after the last committed one.
    pub(crate) committed_next: AtomicU64,
    reserved: Arc<AtomicU64>,
    segment_bytes_max: u64,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
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
            committed_next: AtomicU64::new(progress.next().get()),
            progress: Mutex::new(progress),
            applied: watch::Sender::new(applied),
            reserved: Arc::default(),
            segment_bytes_max,
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Takes disk space for `bytes` beside everything that has been proposed and is not in the log yet.
    ///
    /// Space is taken in the last segment, and another is started where that has no room. So that a burst of proposals
    /// does not leave a trail of small segments, what the others hold counts up to a quarter of a segment only.
    pub(crate) fn reserve(&self, bytes: u64) -> wal::Result<Reservation> {
        let before = self.reserved.fetch_add(bytes, Ordering::AcqRel);
        let reservation = Reservation { bytes, total: Arc::clone(&self.reserved) };
        let all = before.saturating_add(bytes).min(self.segment_bytes_max / 4).max(bytes);
        self.wal.reserve(all, self.clock.now_ns())?;
        Ok(reservation)
    }

    /// Makes the group read-only until its core has been built anew. The first cause is kept.
    pub(crate) fn fail(&self, error: Error) {
        let mut failure = self.failure.lock();
        if failure.is_none() {
            tracing::error!(group = self.group, %error, "raft group is read-only");
            *failure = Some(error);
            self.failed.store(true, Ordering::Release);
        }
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
        self.failure.lock().clone()
    }

    pub(crate) fn clear_failure(&self) {
        let mut failure = self.failure.lock();
        *failure = None;
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
