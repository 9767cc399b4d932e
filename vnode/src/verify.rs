//! Checks a shard's data files without opening the shard: also of a bare copy, and beside a server that uses them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Code, Error, Result};
use wal::Disk;

use crate::checkpoint::{DATA_DIR, FILE, OpenFile};
use crate::store::{FileMeta, verify_file};

/// How often a checkpoint is read again that a server may have been writing.
const TRIES: usize = 3;

/// One data file.
#[derive(Debug)]
pub struct FileReport {
    /// Path.
    pub file: PathBuf,
    /// What the checkpoint says of it.
    pub meta: FileMeta,
    /// What is wrong with it.
    pub fault: Option<Error>,
}

/// Reads every data file that the checkpoint of the shard in `dir` names, and compares it with its checksum. Empty where
/// no checkpoint was stored yet. Writes nothing. Blocks for long.
///
/// # Errors
/// Where the checkpoint itself cannot be read: `Damaged` with its name, or the disk's.
pub fn verify_files(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Vec<FileReport>> {
    let mut reports = Vec::new();
    for meta in named(dir)? {
        let file = dir.join(DATA_DIR).join(&meta.name);
        let mut fault = verify_file(disk, &dir.join(DATA_DIR), &meta).err();
        // A server beside us may have merged it away in the meantime.
        if fault.is_some() && !named(dir)?.iter().any(|now| now.name == meta.name) {
            fault = None;
        }
        reports.push(FileReport { file, meta, fault });
    }
    Ok(reports)
}

/// The files of the last checkpoint.
fn named(dir: &Path) -> Result<Vec<FileMeta>> {
    let path = dir.join(FILE);
    let mut last = Err(Error::internal("no try"));
    for _ in 0..TRIES {
        let header = match OpenFile::copied(&path) {
            Err(e) if is_missing(&e) => return Ok(Vec::new()),
            read => read.and_then(|mut file| file.check().and_then(|()| file.header())),
        };
        last = header.map(|header| header.map(|header| header.manifest.files).unwrap_or_default());
        match &last {
            // Read while it was being written, perhaps.
            Err(e) if e.code() == Code::Damaged => {}
            _ => break,
        }
    }
    last
}

fn is_missing(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::NotFound)
}
