//! A disk that lies: [`SimDisk`] keeps what was written apart from what was synced, and at a crash decides by a seed
//! what of the rest a real disk would have kept. For tests of whatever stands on [`Disk`].
//!
//! # Fault budget
//! What may happen, and no more:
//! - At a crash each unsynced write is kept, lost, or torn. Either the writes of a file are kept in order up to one that
//!   is torn at any byte, and behind it the file may show what a deleted file had there; or any of them are lost, and any
//!   512-byte sectors of the others, which then read as zeros.
//! - Each unsynced change of a directory (create, rename, remove) is kept or lost by itself. Syncing a file does not
//!   make its name durable.
//! - Any call may fail with an error of the operating system, writes after a part was written. Writes may be short.
//! - A sync that fails takes the unsynced data with it: it can still be read, looks clean, and no later sync stores it.
//! - Space may run out.
//!
//! What was synced stays. Damage at rest is for tests to do, with [`SimDisk::damage`].

mod crash;
mod state;

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

pub use state::{Counts, Op, SimFault};
use state::{DirChange, State};

use crate::disk::{Access, DirEntry, Disk, DiskFile, DiskLock};

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

impl SimDisk {
    /// An empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the `nth` call of `op` from now (0 is the next) fail once.
    pub fn fail_nth(&self, op: Op, nth: u64, fault: SimFault) {
        let mut state = self.0.lock();
        let at = state.counts.of(op) + nth;
        state.faults.push((op, at, fault));
    }

    /// Forgets faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.0.lock().faults.clear();
    }

    /// Lets [`Op::Sync`] or [`Op::SyncDir`] say yes and do nothing from now on: as if the call had been forgotten, to see
    /// whether a test would notice.
    pub fn skip(&self, op: Op) {
        self.0.lock().skipped.insert(op);
    }

    /// Limits the bytes of all files together; none for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity = bytes;
    }

    /// How often each operation was called.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.lock().counts
    }

    /// Ends the machine: decides by `seed` what the disk kept. All handles are dead afterwards.
    pub fn crash(&self, seed: u64) {
        self.0.lock().crash(seed);
    }

    /// Names and content of all files as a process sees them.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.0.lock().files()
    }

    /// Puts a file there, durably, whatever was there before.
    pub fn put(&self, path: &Path, content: &[u8]) {
        self.0.lock().put(path, content);
    }

    /// Changes a file's content at rest, written and synced alike; false if there is no such file.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.0.lock().damage(path, change)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, _: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.count(Op::Open)?;
        let inode = state.lookup(path)?;
        Ok(Arc::new(SimFile { disk: self.clone(), inode, epoch: state.epoch }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.lock();
        state.count(Op::Create)?;
        let inode = state.create(path);
        Ok(Arc::new(SimFile { disk: self.clone(), inode, epoch: state.epoch }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.count(Op::Rename)?;
        let inode = state.lookup(from)?;
        state.change(DirChange::Rename { from: from.to_path_buf(), to: to.to_path_buf(), inode });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.count(Op::Remove)?;
        state.lookup(path)?;
        state.change(DirChange::Unlink(path.to_path_buf()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.count(Op::SyncDir)?;
        state.sync_dir(dir);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut state = self.0.lock();
        state.count(Op::List)?;
        Ok(state.list(dir))
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(()) // directories are but parts of names here
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.count(Op::Remove)?;
        state.remove_dir_all(dir);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut state = self.0.lock();
        if !state.locked.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_path_buf(), epoch: state.epoch }))
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    epoch: u64,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.0.lock();
        if state.epoch == self.epoch {
            state.locked.remove(&self.path);
        }
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: u64,
    /// A crash ends the life of a handle.
    epoch: u64,
}

impl SimFile {
    fn with<T>(
        &self,
        op: Op,
        run: impl FnOnce(&mut State, Option<SimFault>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.0.lock();
        if state.epoch != self.epoch {
            return Err(io::Error::other("handle from before the crash"));
        }
        let fault = state.count_fault(op);
        match fault {
            Some(SimFault::Errno(code)) if op != Op::Sync => Err(io::Error::from_raw_os_error(code)),
            fault => run(&mut state, fault),
        }
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.with(Op::Len, |state, _| Ok(state.inode(self.inode)?.data.len() as u64))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(Op::Read, |state, _| {
            let data = &state.inode(self.inode)?.data;
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            let part = from.checked_add(buf.len()).and_then(|to| data.get(from..to));
            buf.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.with(Op::Write, |state, fault| state.write(self.inode, offset, bytes, fault))
    }

    fn sync(&self) -> io::Result<()> {
        self.with(Op::Sync, |state, fault| state.sync(self.inode, fault))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.with(Op::Reserve, |state, _| state.check_space(self.inode, len))
    }

    fn release(&self) -> io::Result<()> {
        self.with(Op::Reserve, |_, _| Ok(()))
    }
}
