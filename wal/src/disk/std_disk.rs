#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the one place where the log meets real files"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};

use super::{Access, DirEntry, Disk, DiskFile, DiskLock};

/// `writev` takes no more slices than this at once (IOV_MAX on Linux).
const IOV_MAX: usize = 1024;

/// The machine's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct StdDisk;

impl Disk for StdDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(access == Access::Write).open(path)?;
        Ok(Arc::new(StdFile(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Arc::new(StdFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let meta = match entry.metadata() {
                Ok(meta) => meta,
                // deleted since the directory was read: as good as never seen
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            if let Ok(name) = entry.file_name().into_string() {
                let len = if meta.is_dir() { 0 } else { meta.len() };
                entries.push(DirEntry { name, len, is_dir: meta.is_dir() });
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        match fs::create_dir(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => self.sync_dir(parent.unwrap_or(Path::new("."))),
        }
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        match fs::remove_dir_all(dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(StdLock(file)))
    }
}

#[derive(Debug)]
struct StdLock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

impl DiskLock for StdLock {}

#[derive(Debug)]
struct StdFile(File);

impl DiskFile for StdFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        match bufs {
            [one] => self.0.write_at(one, offset),
            _ => Ok(rustix::io::pwritev(&self.0, &bufs[..bufs.len().min(IOV_MAX)], offset)?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data() // fdatasync also stores a changed size
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, len) {
            // a file system without the call: the write itself will tell
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            answer => Ok(answer?),
        }
    }

    fn release(&self) -> io::Result<()> {
        self.0.set_len(self.len()?)
    }
}
