//! Whether the log still begins where it should: the `retained` file against the first segment that is there.

use std::path::{Path, PathBuf};

use crate::Version;
use crate::disk::{Disk, read_file, reserve_replacement, write_file_atomic};
use crate::error::{Damage, Fault, Result, WalError};
use crate::format::retained::{self, FILE_NAME};
use crate::format::segment::{SegmentHeader, file_name};
use crate::format::{BadHeader, FORMAT_VERSION};

pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(FILE_NAME)
}

/// Notes, durably, that segments which begin below `first` may be gone. Before they are deleted.
pub(crate) fn store(disk: &dyn Disk, dir: &Path, first: Version) -> Result<()> {
    let path = path(dir);
    write_file_atomic(disk, &path, &retained::encode(first)).map_err(WalError::io("note retention", &path))
}

/// Takes the space that the next [`store`] needs, so that retention can make room on a full disk.
pub(crate) fn reserve(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let path = path(dir);
    reserve_replacement(disk, &path, retained::BYTES).map_err(WalError::io("reserve space", &path))
}

/// Refuses a log that does not begin where a log was started, where a reset let it go on, or where retention left it:
/// a segment before the first one has vanished. `first` is the first segment's header.
pub(crate) fn check(disk: &dyn Disk, dir: &Path, first: Option<&SegmentHeader>) -> Result<()> {
    if first.is_some_and(|first| first.prev.is_none()) {
        return Ok(()); // nothing was ever before it
    }
    let file = path(dir);
    let read = read_file(disk, &file).map_err(WalError::io("read", &file))?;
    let kept = match read.as_deref().map(retained::decode) {
        None => None,
        Some(Ok(kept)) => Some(kept),
        Some(Err(BadHeader::Newer(found))) => {
            return Err(WalError::NewerFormat { file, found, known: FORMAT_VERSION });
        }
        Some(Err(BadHeader::Damaged)) => {
            let version = first.map_or_else(Version::default, |first| first.first);
            return Err(Damage { file, offset: 0, version, what: Fault::Retained }.into());
        }
    };
    let vanished = match (first, kept) {
        (None, kept) => kept,
        (Some(first), Some(kept)) if kept >= first.first => None,
        (Some(first), _) => first.prev.map(|prev| prev.first),
    };
    match vanished {
        None => Ok(()),
        Some(version) => {
            let file = dir.join(file_name(version));
            Err(Damage { file, offset: 0, version, what: Fault::Missing }.into())
        }
    }
}
