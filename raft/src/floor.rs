//! What the files beside the log of a group that nobody has open say, for whoever checks or repairs it.

use std::path::Path;

use model::Result;
use wal::{Disk, Version};

use crate::error::of_io;
use crate::format;
use crate::log_store::{FLOOR_FILE, stored};

/// The version after the last one that the group in `dir` has given up, because a checkpoint holds it; zero if there is
/// none. Blocks.
///
/// # Errors
/// I/O errors; [`model::Code::Damaged`] if the file that tells is.
pub fn floor_next(disk: &dyn Disk, dir: &Path) -> Result<Version> {
    let content = wal::read_file(disk, &dir.join(FLOOR_FILE));
    match content.map_err(|e| of_io("raft state is not readable", e))? {
        None => Ok(Version::ZERO),
        Some(bytes) => Ok(Version(format::decode_floor(&bytes)?.index).next()),
    }
}

/// Reads the files that the group in `dir` keeps beside its log: what would stop its start is an error here. Blocks.
///
/// # Errors
/// I/O errors; [`model::Code::Damaged`] with the file's name.
pub fn verify_files(disk: &dyn Disk, dir: &Path) -> Result<()> {
    stored(disk, dir).map(drop)
}
