//! The data directory: who may use it, and in which format it is.
//!
//! ```text
//! DIR/LOCK      held (flock) by the one server that uses the directory; holds its pid
//! DIR/FORMAT    one line: tidemark data format N
//! DIR/mnode/    the metadata group
//! DIR/vnode/N/  vgroup N
//! ```

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Code, DatabaseInfo, Error, Result, VgroupId};
use rustix::fs::{FlockOperation, flock};
use wal::Disk;

/// Format that this version writes. Raised when an older version could misread what is stored.
const FORMAT: u32 = 1;
const FORMAT_PREFIX: &str = "tidemark data format ";

/// A data directory that this process holds alone.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Held for as long as the server lives; the kernel gives it up with the process, so a killed server leaves no
    /// stale lock.
    _lock: Lock,
}

impl DataDir {
    /// Takes `path`, making it where it is missing.
    ///
    /// # Errors
    /// [`Code::DataDirLocked`] where another server has it, [`Code::NewerFormat`] where a later version wrote it, and
    /// [`Code::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(|e| io("cannot make the data directory", path, e))?;
        let lock = take_lock(&path.join("LOCK"), path)?;
        check_format(path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Whether `path` is not a data directory yet: the next [`Self::open`] makes one of it.
    #[must_use]
    pub fn is_new(path: &Path) -> bool {
        !is_data_dir(path) && !path.join("mnode").exists()
    }

    /// Folder of the metadata group.
    #[must_use]
    pub fn mnode(&self) -> PathBuf {
        self.path.join("mnode")
    }

    /// Folder of a vgroup's shard.
    #[must_use]
    pub fn vnode(&self, vgroup: VgroupId) -> PathBuf {
        self.path.join("vnode").join(vgroup.to_string())
    }

    /// Every vgroup that has a folder here, in order of numbers.
    ///
    /// # Errors
    /// [`Code::Io`].
    pub fn vnodes(&self) -> Result<Vec<VgroupId>> {
        let parent = self.path.join("vnode");
        let failed = |e| io("cannot list the vgroups' folders", &parent, e);
        let entries = match std::fs::read_dir(&parent) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed(e)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            found.extend(name.to_str().and_then(|name| name.parse().ok()).map(VgroupId));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// That there is metadata where there are vgroups: without it a server would start as new beside their data.
    ///
    /// # Errors
    /// [`Code::Damaged`], [`Code::Io`].
    pub fn check_mnode(&self) -> Result<()> {
        if self.mnode().exists() || self.vnodes()?.is_empty() {
            return Ok(());
        }
        Err(no_metadata(&self.mnode()))
    }

    /// That the log of a vgroup that has been made is there: without it the vgroup would start again from nothing.
    ///
    /// # Errors
    /// [`Code::Damaged`], [`Code::Io`].
    pub fn check_vnode(&self, vgroup: VgroupId) -> Result<()> {
        check_log(&self.path, vgroup)
    }
}

/// That the log of a vgroup is there, in the data directory `path`.
fn check_log(path: &Path, vgroup: VgroupId) -> Result<()> {
    let wal = path.join("vnode").join(vgroup.to_string()).join("wal");
    let mut entries = match std::fs::read_dir(&wal) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(gone(&wal)),
        Err(e) => return Err(io("cannot list the log of a vgroup", &wal, e)),
    };
    if entries.next().is_some() { Ok(()) } else { Err(gone(&wal)) }
}

/// What the catalogue in the data directory `path` says is there and is not: metadata beside vgroups, and the log of each
/// vgroup of a database. Nothing of a path that is no data directory. Also beside a server.
///
/// # Errors
/// Where the catalogue itself does not read.
pub fn missing(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<Error>> {
    let mnode = path.join("mnode");
    let Some(databases) = mnode::stored_databases(disk, &mnode)? else {
        let is_missing = is_data_dir(path) && path.join("vnode").exists();
        return Ok(if is_missing { vec![no_metadata(&mnode)] } else { Vec::new() });
    };
    let faults = |databases: &[Arc<DatabaseInfo>]| -> Vec<Error> {
        let vgroups = databases.iter().flat_map(|database| {
            database.vgroups.iter().filter_map(|&vgroup| {
                let error = check_log(path, vgroup).err()?;
                let text = format!("{} vgroup={vgroup} database={}", error.message(), database.name);
                Some(Error::text(error.code(), text).hint(error.help().to_owned()))
            })
        });
        vgroups.collect()
    };
    if faults(&databases).is_empty() {
        return Ok(Vec::new());
    }
    // A server beside us may have dropped the database in the meantime.
    let databases = mnode::stored_databases(disk, &mnode)?.unwrap_or_default();
    Ok(faults(&databases))
}

fn is_data_dir(path: &Path) -> bool {
    path.join("FORMAT").is_file()
}

fn no_metadata(mnode: &Path) -> Error {
    Error::text(Code::Damaged, format!("the metadata is gone, vgroups are there: path={}", mnode.display()))
        .hint("put a copy of the folder `mnode` back; or, to start anew, move the folder `vnode` elsewhere")
}

fn gone(wal: &Path) -> Error {
    Error::text(Code::Damaged, format!("the vgroup's log is gone: path={}", wal.display()))
        .hint("put a copy of the vgroup's folder back and start again, or DROP DATABASE")
}

fn io(what: &str, path: &Path, source: std::io::Error) -> Error {
    Error::text(Code::Io, format!("{what}: path={} cause={source}", path.display())).caused_by(source)
}

/// Keeps servers off the data directory that `path` lies in, or is, for as long as the answer lives; none if it lies in
/// no data directory but is a bare copy.
///
/// # Errors
/// [`Code::DataDirLocked`] where a server has it, and [`Code::Io`].
pub fn lock_around(path: &Path) -> Result<Option<Lock>> {
    let path = path.canonicalize().map_err(|e| io("cannot find", path, e))?;
    match path.ancestors().find(|dir| dir.join("LOCK").is_file() || is_data_dir(dir)) {
        Some(dir) => take_lock(&dir.join("LOCK"), dir).map(Some),
        None => Ok(None),
    }
}

/// Who holds it has the directory for itself. The directory is locked, and the file in it: one that was deleted under a
/// running server would be made anew and lock nothing.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    _dir: File,
}

fn take_lock(path: &Path, dir: &Path) -> Result<Lock> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(|e| io("cannot open the lock file", path, e))?;
    let handle = File::open(dir).map_err(|e| io("cannot open the data directory", dir, e))?;
    let locked = [&file, &handle]
        .into_iter()
        .try_for_each(|target| flock(target, FlockOperation::NonBlockingLockExclusive));
    if let Err(errno) = locked {
        let cause = std::io::Error::from(errno);
        if cause.kind() != ErrorKind::WouldBlock {
            return Err(io("cannot lock the data directory", path, cause));
        }
        let mut holder = String::new();
        let _ = file.read_to_string(&mut holder);
        let pid = holder.trim();
        return Err(Error::with(Code::DataDirLocked, format!("path={} pid={pid}", dir.display())));
    }
    // Who holds it is a help to the reader of the error above, no more: a failure here is no reason not to start.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Lock { _file: file, _dir: handle })
}

fn check_format(dir: &Path) -> Result<()> {
    if verify_format(dir)? { Ok(()) } else { write_format(dir, &dir.join("FORMAT")) }
}

/// Whether the directory has its mark; changes nothing.
///
/// # Errors
/// [`Code::NewerFormat`], [`Code::Damaged`] with the file's name, and the disk's.
pub fn verify_format(dir: &Path) -> Result<bool> {
    let file = dir.join("FORMAT");
    let text = match std::fs::read(&file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(io("cannot read the format file", &file, e)),
    };
    let found = text.trim().strip_prefix(FORMAT_PREFIX).and_then(|n| n.parse::<u32>().ok());
    match found {
        Some(FORMAT) => Ok(true),
        Some(newer) if newer > FORMAT => Err(Error::with(
            Code::NewerFormat,
            format!("path={} format={newer} this version reads up to={FORMAT}", dir.display()),
        )),
        _ => Err(Error::with(Code::Damaged, format!("path={} is not a format file", file.display()))
            .hint(format!("a directory of this version holds the line `{FORMAT_PREFIX}{FORMAT}` there"))),
    }
}

/// Marks a new directory. One that already holds shards but has lost its mark is refused: guessing a format is worse
/// than asking.
fn write_format(dir: &Path, file: &Path) -> Result<()> {
    if dir.join("mnode").exists() || dir.join("vnode").exists() {
        return Err(Error::with(Code::Damaged, format!("path={} is missing", file.display()))
            .hint("restore it from a copy of the directory"));
    }
    let temporary = dir.join("FORMAT.tmp");
    let written = File::create(&temporary).and_then(|mut f| {
        writeln!(f, "{FORMAT_PREFIX}{FORMAT}")?;
        f.sync_all()
    });
    written
        .and_then(|()| std::fs::rename(&temporary, file))
        .and_then(|()| File::open(dir)?.sync_all())
        .map_err(|e| io("cannot write the format file", file, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        assert!(DataDir::is_new(dir.path()) && DataDir::is_new(&dir.path().join("none")));
        let first = DataDir::open(dir.path()).unwrap();
        assert!(!DataDir::is_new(dir.path()));
        let error = DataDir::open(dir.path()).unwrap_err();
        assert_eq!(error.code(), Code::DataDirLocked);
        assert!(error.message().contains(&format!("pid={}", std::process::id())), "{error}");
        drop(first);
        DataDir::open(dir.path()).unwrap();
    }

    #[test]
    fn a_newer_or_unreadable_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open(dir.path()).unwrap());
        std::fs::write(dir.path().join("FORMAT"), "tidemark data format 99\n").unwrap();
        let error = DataDir::open(dir.path()).unwrap_err();
        assert_eq!(error.code(), Code::NewerFormat);
        assert!(error.message().contains("format=99"), "{error}");
        std::fs::write(dir.path().join("FORMAT"), "hello").unwrap();
        assert_eq!(DataDir::open(dir.path()).unwrap_err().code(), Code::Damaged);
        std::fs::remove_file(dir.path().join("FORMAT")).unwrap();
        std::fs::create_dir(dir.path().join("mnode")).unwrap();
        assert_eq!(DataDir::open(dir.path()).unwrap_err().code(), Code::Damaged);
    }
}
