use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::DirEntry;

/// An operation of the disk, for counting and for faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "named as in Disk and DiskFile")]
pub enum Op {
    Open,
    Create,
    Rename,
    Remove,
    SyncDir,
    List,
    Len,
    Read,
    Write,
    Sync,
    Reserve,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimFault {
    /// The call fails with this number (28 is ENOSPC, 5 is EIO) and does nothing; a sync also loses what it should have
    /// stored.
    Errno(i32),
    /// A write takes only this many bytes.
    Short(usize),
}

/// How often each operation was called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts([u64; 11]);

impl Counts {
    /// Calls of one operation.
    #[must_use]
    pub fn of(&self, op: Op) -> u64 {
        self.0[op as usize]
    }
}

#[derive(Debug, Default)]
pub(super) struct Inode {
    /// What a process reads.
    pub(super) data: Vec<u8>,
    /// What is on the platter.
    pub(super) durable: Vec<u8>,
    /// Writes since the last sync, in order.
    pub(super) pending: Vec<Write>,
}

#[derive(Debug)]
pub(super) struct Write {
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
}

impl Write {
    pub(super) fn apply(&self, to: &mut Vec<u8>) {
        let end = self.offset + self.bytes.len();
        if to.len() < end {
            to.resize(end, 0);
        }
        to[self.offset..end].copy_from_slice(&self.bytes);
    }
}

#[derive(Debug, Clone)]
pub(super) enum DirChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

impl DirChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Self::Unlink(path) => {
                names.remove(path);
            }
            Self::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
        }
    }

    fn dir(&self) -> Option<&Path> {
        match self {
            Self::Link(path, _) | Self::Unlink(path) | Self::Rename { to: path, .. } => path.parent(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) names: BTreeMap<PathBuf, u64>,
    pub(super) durable_names: BTreeMap<PathBuf, u64>,
    pub(super) dir_changes: Vec<DirChange>,
    pub(super) faults: Vec<(Op, u64, SimFault)>,
    pub(super) counts: Counts,
    /// Operations that say yes and do nothing.
    pub(super) skipped: BTreeSet<Op>,
    pub(super) capacity: Option<u64>,
    pub(super) epoch: u64,
    pub(super) locked: BTreeSet<PathBuf>,
    inodes_made: u64,
}

impl State {
    /// Counts a call and answers the fault that was planned for it.
    pub(super) fn count_fault(&mut self, op: Op) -> Option<SimFault> {
        let at = self.counts.of(op);
        self.counts.0[op as usize] += 1;
        let planned = self.faults.iter().position(|(of, nth, _)| *of == op && *nth == at)?;
        Some(self.faults.swap_remove(planned).2)
    }

    pub(super) fn count(&mut self, op: Op) -> io::Result<()> {
        match self.count_fault(op) {
            Some(SimFault::Errno(code)) => Err(io::Error::from_raw_os_error(code)),
            _ => Ok(()),
        }
    }

    pub(super) fn lookup(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or(io::ErrorKind::NotFound.into())
    }

    pub(super) fn inode(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or(io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, path: &Path) -> u64 {
        let inode = self.inodes_made;
        self.inodes_made += 1;
        self.inodes.insert(inode, Inode::default());
        self.change(DirChange::Link(path.to_path_buf(), inode));
        inode
    }

    pub(super) fn change(&mut self, change: DirChange) {
        change.apply(&mut self.names);
        self.dir_changes.push(change);
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) {
        if self.skipped.contains(&Op::SyncDir) {
            return;
        }
        let (now, later) = self.dir_changes.drain(..).partition(|change| change.dir() == Some(dir));
        self.dir_changes = later;
        let now: Vec<DirChange> = now;
        now.iter().for_each(|change| change.apply(&mut self.durable_names));
    }

    pub(super) fn list(&self, dir: &Path) -> Vec<DirEntry> {
        let mut entries = BTreeMap::new();
        for (path, inode) in &self.names {
            let Ok(rest) = path.strip_prefix(dir) else { continue };
            let mut parts = rest.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
            let Some(name) = parts.next() else { continue };
            let is_dir = parts.next().is_some();
            let len = self.inodes.get(inode).map_or(0, |inode| inode.data.len() as u64);
            entries.insert(name.clone(), DirEntry { name, len: if is_dir { 0 } else { len }, is_dir });
        }
        entries.into_values().collect()
    }

    pub(super) fn remove_dir_all(&mut self, dir: &Path) {
        let inside: Vec<_> = self.names.keys().filter(|path| path.starts_with(dir)).cloned().collect();
        inside.into_iter().for_each(|path| self.change(DirChange::Unlink(path)));
    }

    pub(super) fn write(
        &mut self,
        inode: u64,
        offset: u64,
        mut bytes: Vec<u8>,
        fault: Option<SimFault>,
    ) -> io::Result<usize> {
        if let Some(SimFault::Short(len)) = fault {
            bytes.truncate(len);
        }
        self.check_space(inode, offset + bytes.len() as u64)?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let inode = self.inode(inode)?;
        let (len, write) = (bytes.len(), Write { offset, bytes });
        write.apply(&mut inode.data);
        inode.pending.push(write);
        Ok(len)
    }

    /// Whether this file may grow to `len`.
    pub(super) fn check_space(&mut self, inode: u64, len: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let named: BTreeSet<_> = self.names.values().filter(|other| **other != inode).collect();
        let others: usize =
            named.into_iter().filter_map(|id| self.inodes.get(id)).map(|i| i.data.len()).sum();
        if others as u64 + len > capacity { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn sync(&mut self, inode: u64, fault: Option<SimFault>) -> io::Result<()> {
        let skip = self.skipped.contains(&Op::Sync);
        let inode = self.inode(inode)?;
        match fault {
            Some(SimFault::Errno(code)) => {
                inode.pending.clear();
                return Err(io::Error::from_raw_os_error(code));
            }
            _ if skip => {}
            _ => inode.pending.drain(..).for_each(|write| write.apply(&mut inode.durable)),
        }
        Ok(())
    }

    pub(super) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let content = |id| self.inodes.get(id).map_or_else(Vec::new, |inode| inode.data.clone());
        self.names.iter().map(|(path, id)| (path.clone(), content(id))).collect()
    }

    pub(super) fn put(&mut self, path: &Path, content: &[u8]) {
        let id = self.create(path);
        self.durable_names.insert(path.to_path_buf(), id);
        self.inodes
            .insert(id, Inode { data: content.to_vec(), durable: content.to_vec(), pending: Vec::new() });
    }

    pub(super) fn damage(&mut self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(inode) = self.names.get(path).and_then(|id| self.inodes.get_mut(id)) else { return false };
        change(&mut inode.data);
        inode.durable = inode.data.clone();
        inode.pending.clear();
        true
    }
}
