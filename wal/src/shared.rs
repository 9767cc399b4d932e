//! What the writer and the readers of one log share. The writer publishes; readers never wait for it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::disk::Disk;
use crate::error::{Result, WalError};
use crate::segment::Segment;
use crate::watermark::Watermark;
use crate::{Options, Version};

/// A file of this name says that a sync failed here: what the page cache holds may not be on disk.
pub(crate) const DOUBT_MARK: &str = "sync-failed";

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    /// In order of versions. Locked only to copy or to exchange the pointer.
    segments: RwLock<Arc<Vec<Arc<Segment>>>>,
    /// Version of the next append. Stored after the bytes and ends that it covers, loaded before them.
    pub(crate) next: Watermark,
    durable_next: AtomicU64,
    poisoned: AtomicBool,
    /// Held through an fsync and no lock taken under it.
    pub(crate) fsync: Mutex<()>,
}

impl Shared {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: Options,
        segments: Vec<Arc<Segment>>,
        next: Version,
    ) -> Self {
        Self {
            disk,
            dir,
            options,
            segments: RwLock::new(Arc::new(segments)),
            next: Watermark::new(next),
            durable_next: AtomicU64::new(next.0),
            poisoned: AtomicBool::new(false),
            fsync: Mutex::new(()),
        }
    }

    pub(crate) fn segments(&self) -> Arc<Vec<Arc<Segment>>> {
        Arc::clone(&self.segments.read())
    }

    pub(crate) fn publish_segments(&self, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let mut segments = self.segments().as_ref().clone();
        change(&mut segments);
        *self.segments.write() = Arc::new(segments);
    }

    pub(crate) fn first(&self) -> Version {
        self.segments().first().map_or(self.next(), |segment| segment.first())
    }

    pub(crate) fn next(&self) -> Version {
        self.next.get()
    }

    pub(crate) fn publish_next(&self, next: Version) {
        self.next.set(next);
    }

    pub(crate) fn durable_next(&self) -> Version {
        Version(self.durable_next.load(Ordering::Acquire))
    }

    pub(crate) fn publish_durable(&self, next: Version) {
        self.durable_next.store(next.0, Ordering::Release);
    }

    pub(crate) fn raise_durable(&self, next: Version) {
        self.durable_next.fetch_max(next.0, Ordering::AcqRel);
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    pub(crate) fn set_poisoned(&self, poisoned: bool) {
        self.poisoned.store(poisoned, Ordering::Release);
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_poisoned() { Err(WalError::Poisoned { dir: self.dir.clone() }) } else { Ok(()) }
    }

    /// Removes a segment's files, durably. In this order and one by one: a crash may leave an index without its
    /// segment, which the next opening tidies, but never a hole between segments.
    pub(crate) fn delete(&self, segment: &Segment) -> Result<()> {
        self.delete_file(segment.path())?;
        let index = segment.index_path();
        if let Err(error) = self.disk.remove(&index)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::debug!(file = %index.display(), %error, "index not removed, will be at the next opening");
        }
        Ok(())
    }

    /// Removes a file, durably; also if an earlier try removed it but failed to make that durable.
    pub(crate) fn delete_file(&self, path: &Path) -> Result<()> {
        match self.disk.remove(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(WalError::io("remove file", path))?,
        }
        self.disk.sync_dir(&self.dir).map_err(WalError::io("sync directory", &self.dir))
    }

    /// Leaves word for the next process, should this one end before the log is healed. The name alone is the word, and
    /// it is not synced: it is needed for as long as the page cache lasts that it warns of, and no longer. The disk is in
    /// trouble, so the less is asked of it the better; this may fail too.
    pub(crate) fn leave_doubt_mark(&self) {
        if let Err(error) = self.disk.create(&self.dir.join(DOUBT_MARK)) {
            tracing::error!(dir = %self.dir.display(), %error, "failed sync could not be marked");
        }
    }

    pub(crate) fn remove_doubt_mark(&self) -> Result<()> {
        self.delete_file(&self.dir.join(DOUBT_MARK))
    }

    /// The segment that holds `version`, or would.
    pub(crate) fn segment_of(&self, version: Version) -> Result<Arc<Segment>> {
        let segments = self.segments();
        let after = segments.partition_point(|segment| segment.first() <= version);
        match after.checked_sub(1).and_then(|at| segments.get(at)) {
            Some(segment) => Ok(Arc::clone(segment)),
            None => Err(WalError::Purged { version, first: self.first() }),
        }
    }
}
