//! The seam to the file system. Everything that the log does to files goes through [`Disk`] and [`DiskFile`], so that a
//! test can stand in for the disk ([`sim`](crate::sim)) and lie as real ones do.

mod durable;
mod std_disk;

use std::fmt;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

pub(crate) use durable::temp_path;
pub use durable::{is_out_of_space, read_file, reserve_replacement, write_file_atomic};
pub use std_disk::StdDisk;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only; works on a read-only copy.
    Read,
    /// Reading and writing.
    Write,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// File name without its directory.
    pub name: String,
    /// Size in bytes, 0 for a directory.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A file system, as little of it as a log needs. All calls may block.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens an existing file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates an empty file for reading and writing; an existing one of that name is emptied.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, replacing what had it. Durable after [`sync_dir`](Disk::sync_dir).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file name. Handles stay usable. Durable after [`sync_dir`](Disk::sync_dir).
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes created, renamed and removed names of this directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// What is in a directory, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Creates a directory with its parents and makes the new names durable.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes a directory with everything in it; a missing one is fine.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a file, creating it if need be, without waiting: `WouldBlock` if another holds it.
    /// Held until the guard is dropped or the process ends.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Size in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills `buf` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes from `offset` on and says how many bytes were taken, which may be fewer than given.
    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Makes the file's content and size durable.
    fn sync(&self) -> io::Result<()>;
    /// Takes disk space for the first `len` bytes without changing the file's size.
    fn reserve(&self, len: u64) -> io::Result<()>;
    /// Gives back space taken beyond the file's size.
    fn release(&self) -> io::Result<()>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Holds a lock while it lives.
pub trait DiskLock: Send + Sync + fmt::Debug {}

/// Writes all of `bufs` at `offset`, in as few calls as the disk allows.
pub(crate) fn write_all_at(
    file: &dyn DiskFile,
    mut bufs: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut bufs, 0); // drops empty slices at the front
    while !bufs.is_empty() {
        match file.write_at(bufs, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                IoSlice::advance_slices(&mut bufs, n);
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
