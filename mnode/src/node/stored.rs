//! What the catalogue says, read from the metadata's files without opening them: also of a bare copy, and beside a server
//! that uses them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use model::{Code, DatabaseInfo, Error, Result};
use raft::Checkpoint;
use wal::{Disk, DumpFilter, Kind};

use super::checkpoint::{FILE, named};
use crate::state::{Command, MnodeState, Snapshot};

/// Folder of the log in that of the metadata.
const LOG: &str = "wal";

/// The databases in the metadata's folder `dir`, with their vgroups, as the last record of its log leaves them. One that is
/// just being made or dropped is not among them. `None` where there is no such folder. Writes nothing; blocks.
///
/// # Errors
/// [`Code::Damaged`] naming the file that does not read, [`Code::Io`].
pub fn stored_databases(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Option<Vec<Arc<DatabaseInfo>>>> {
    match disk.list(dir) {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unreadable(dir, e)),
    }
    let path = dir.join(FILE);
    let snapshot = wal::read_file(&**disk, &path).map_err(|e| unreadable(&path, e))?;
    let snapshot = snapshot.map(|bytes| Snapshot::<Checkpoint>::decode(&bytes)).transpose();
    let mut state = snapshot.map_err(|e| named(&e, &path))?.map_or_else(MnodeState::default, |s| s.state);
    let filter = DumpFilter {
        from: Some(state.applied().next()),
        kinds: vec![Kind::Command],
        ..DumpFilter::default()
    };
    let log = dir.join(LOG);
    let of_log = |e: wal::WalError| {
        let code = if e.is_damage() { Code::Damaged } else { Code::Io };
        Error::text(code, format!("the metadata's log does not read: {e}")).caused_by(e)
    };
    for found in wal::dump(disk, &log, filter).map_err(of_log)? {
        let record = found.map_err(of_log)?.record;
        state.apply(record.version, &Command::decode(&record.body)?, record.time_ns);
    }
    Ok(Some(state.catalog().databases().map(|database| Arc::clone(&database.info)).collect()))
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::with(Code::Io, format_args!("path={}", path.display())).caused_by(error)
}
