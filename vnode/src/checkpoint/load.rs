//! Opening: the checkpoint, or everything from the log where the checkpoint is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Code, DatabaseInfo, Error, Result, Version, VgroupId};
use wal::Disk;

use super::{CheckpointFile, Checkpoints, FILE, Header, OpenFile};
use crate::state::VnodeState;
use crate::store::{CompressionLevels, Manifest, Store, StoreOptions};
use crate::vnode::VnodeOptions;

/// Directory of the data files in a shard's directory.
pub(crate) const DATA_DIR: &str = "data";
/// Directory of the log in a shard's directory, as the Raft group has it.
const WAL_DIR: &str = "wal";
/// A log that begins at or below this version has everything.
const FIRST_OF_ALL: u64 = 1;

/// What opening a shard's files takes.
#[derive(Debug)]
pub(crate) struct Loading {
    vgroup: VgroupId,
    database: Arc<DatabaseInfo>,
    dir: PathBuf,
    disk: Arc<dyn Disk>,
}

/// Files opened.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) state: VnodeState,
    pub(crate) checkpoint: Option<raft::Checkpoint>,
    pub(crate) checkpoints: Checkpoints,
}

impl Loading {
    pub(crate) fn new(options: &VnodeOptions, disk: &Arc<dyn Disk>) -> Self {
        Self {
            vgroup: options.vgroup,
            database: Arc::clone(&options.database),
            dir: options.dir.clone(),
            disk: Arc::clone(disk),
        }
    }

    /// Blocks.
    pub(crate) fn load(self) -> Result<Loaded> {
        let made = self.disk.create_dir_all(&self.dir);
        made.map_err(|e| Error::with(Code::Io, format!("making {}: {e}", self.dir.display())).caused_by(e))?;
        match self.checkpoint() {
            Ok(None) => {
                self.check_log_is_whole("no checkpoint is stored")?;
                self.empty()
            }
            Ok(Some((file, header))) => self.restore(&file, header),
            Err(e) if e.code() == Code::Damaged => self.rebuild(&e),
            Err(e) => Err(e),
        }
    }

    fn file(&self) -> CheckpointFile {
        CheckpointFile::at(self.dir.join(FILE))
    }

    fn checkpoint(&self) -> Result<Option<(OpenFile, Header)>> {
        let Some(file) = self.file().read()? else { return Ok(None) };
        Ok(file.header()?.map(|header| (file, header)))
    }

    fn restore(&self, file: &OpenFile, header: Header) -> Result<Loaded> {
        if header.vgroup != self.vgroup {
            let what = format!(
                "file={} vgroup={} wanted={}",
                self.dir.join(FILE).display(),
                header.vgroup,
                self.vgroup
            );
            return Err(
                Error::with(Code::InvalidConfig, what).hint("this directory belongs to another shard")
            );
        }
        let Header { raft, manifest, received_ns, next_table, .. } = header;
        let store = self.store(manifest)?;
        let applied = raft.applied.map(|applied| applied.version);
        let mut state = VnodeState::new(store, applied.unwrap_or_default(), received_ns, next_table);
        match file.load(&mut state) {
            Ok(()) => {
                let checkpoints = Checkpoints::new(self.file(), applied);
                Ok(Loaded { state, checkpoint: Some(raft), checkpoints })
            }
            Err(e) if e.code() == Code::Damaged => self.rebuild(&e),
            Err(e) => Err(e),
        }
    }

    /// The checkpoint cannot be read. Where the log still has every record, it makes the same state.
    fn rebuild(&self, cause: &Error) -> Result<Loaded> {
        let path = self.dir.join(FILE);
        self.check_log_is_whole(cause)?;
        let aside = path.with_extension("redb.damaged");
        tracing::warn!(vgroup = %self.vgroup, %cause, kept_as = %aside.display(), "checkpoint is rebuilt from the log");
        let moved = self.disk.rename(&path, &aside);
        moved.map_err(|e| {
            Error::with(Code::Io, format!("moving {} aside: {e}", path.display())).caused_by(e)
        })?;
        self.empty()
    }

    fn empty(&self) -> Result<Loaded> {
        let store = self.store(Manifest::default())?;
        let state = VnodeState::new(store, Version(0), i64::MIN, 1);
        Ok(Loaded { state, checkpoint: None, checkpoints: Checkpoints::new(self.file(), None) })
    }

    fn store(&self, manifest: Manifest) -> Result<Store> {
        let options = StoreOptions {
            dir: self.dir.join(DATA_DIR),
            precision: self.database.options.precision,
            duration_ticks: self.database.options.duration_ticks(),
            levels: CompressionLevels::default(),
        };
        Store::new(options, Arc::clone(&self.disk), manifest)
    }

    /// Without a checkpoint everything has to come from the log.
    fn check_log_is_whole(&self, why: impl std::fmt::Display) -> Result<()> {
        let Some(first) = self.first_version()?.filter(|first| *first > FIRST_OF_ALL) else { return Ok(()) };
        let path = self.dir.join(FILE);
        let what = format!(
            "file={} cause={why}; the log begins at version {first} and cannot replace it",
            path.display()
        );
        Err(Error::with(Code::Damaged, what).hint("restore the file from a backup of the same directory"))
    }

    /// First version of the log, by the name of its first segment; `None` if there is no log yet.
    fn first_version(&self) -> Result<Option<u64>> {
        let dir = self.dir.join(WAL_DIR);
        let entries = match self.disk.list(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => {
                return Err(Error::with(Code::Io, format!("listing {}: {e}", dir.display())).caused_by(e));
            }
        };
        Ok(entries.iter().filter_map(|entry| segment_version(Path::new(&entry.name))).min())
    }
}

fn segment_version(name: &Path) -> Option<u64> {
    if name.extension()? != "log" {
        return None;
    }
    name.file_stem()?.to_str()?.parse().ok()
}
