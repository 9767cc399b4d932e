//! A disk that counts its fsyncs, holds them up and fails when told to, around any other.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread::ThreadId;

use parking_lot::{Condvar, Mutex};
use wal::disk::{Access, DirEntry, DiskLock};
use wal::{Disk, DiskFile, StdDisk};

/// What goes wrong, and how often still.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Writes to segment files that fail with EIO.
    pub(super) writes: AtomicI64,
    /// Fsyncs of segment files that fail with EIO.
    pub(super) syncs: AtomicI64,
    /// New files that cannot be made, with EIO.
    pub(super) creates: AtomicI64,
    /// Reservations that fail with ENOSPC.
    pub(super) reserves: AtomicI64,
    /// Fsyncs of files so far.
    pub(super) synced: AtomicU64,
    /// Whether fsyncs wait.
    held: Mutex<bool>,
    let_go: Condvar,
    /// Whose fsyncs are counted apart.
    noted: Mutex<Option<ThreadId>>,
    synced_by_noted: AtomicU64,
}

impl Faults {
    /// Whether it happens this time.
    fn hits(count: &AtomicI64) -> bool {
        count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n > 0).then(|| n - 1)).is_ok()
    }

    pub(super) fn syncs(&self) -> u64 {
        self.synced.load(Ordering::SeqCst)
    }

    /// Lets every fsync of a segment wait from now on, or all of them go on.
    pub(super) fn hold_syncs(&self, hold: bool) {
        *self.held.lock() = hold;
        self.let_go.notify_all();
    }

    /// Counts apart what this thread syncs from now on.
    pub(super) fn note_this_thread(&self) {
        *self.noted.lock() = Some(std::thread::current().id());
    }

    pub(super) fn synced_by_noted(&self) -> u64 {
        self.synced_by_noted.load(Ordering::SeqCst)
    }
}

#[derive(Clone, Debug)]
pub(super) struct FaultyDisk {
    inner: Arc<dyn Disk>,
    pub(super) faults: Arc<Faults>,
}

impl FaultyDisk {
    pub(super) fn new() -> Self {
        Self { inner: Arc::new(StdDisk), faults: Arc::default() }
    }

    fn wrap(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let is_segment = path.to_string_lossy().contains(".log");
        Arc::new(FaultyFile { inner: file, faults: Arc::clone(&self.faults), is_segment })
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn DiskFile>,
    faults: Arc<Faults>,
    is_segment: bool,
}

const EIO: i32 = 5;

fn eio() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(path, self.inner.open(path, access)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        if Faults::hits(&self.faults.creates) {
            return Err(eio());
        }
        Ok(self.wrap(path, self.inner.create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir_all(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.inner.lock(path)
    }
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        if self.is_segment && Faults::hits(&self.faults.writes) {
            return Err(eio());
        }
        self.inner.write_at(bufs, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_segment && Faults::hits(&self.faults.syncs) {
            return Err(eio());
        }
        self.faults.synced.fetch_add(1, Ordering::SeqCst);
        if *self.faults.noted.lock() == Some(std::thread::current().id()) {
            self.faults.synced_by_noted.fetch_add(1, Ordering::SeqCst);
        }
        if self.is_segment {
            self.faults.let_go.wait_while(&mut self.faults.held.lock(), |held| *held);
        }
        self.inner.sync()
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        if Faults::hits(&self.faults.reserves) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.reserve(len)
    }

    fn release(&self) -> io::Result<()> {
        self.inner.release()
    }
}
