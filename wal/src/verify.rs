//! Looking at logs from outside: what `wal verify` and `wal dump` print. Reads only, and may run beside a live server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Version;
use crate::disk::{Access, Disk};
use crate::error::{Damage, Fault, Result, WalError};
use crate::find::{Found, Opened, find};
use crate::open::check_link;
use crate::scan::judge;

/// What is in one segment.
#[derive(Debug)]
pub struct SegmentReport {
    /// The file.
    pub file: PathBuf,
    /// Version of its first record, as its name says.
    pub first: Version,
    /// Version after its last intact record.
    pub next: Version,
    /// Intact records.
    pub records: u64,
    /// Bytes up to the end of the last intact record.
    pub bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Whether all is well.
    pub state: SegmentState,
}

/// Whether all is well with a segment.
#[derive(Debug)]
#[non_exhaustive]
pub enum SegmentState {
    /// Everything up to its logical end is intact.
    Intact,
    /// The last segment of a log, without content: the next opening removes it.
    Blank,
    /// Taken out of the log by a cut or a reset, its file not removed yet: the next opening does.
    Superseded,
    /// The last segment of a log, ending in bytes that a crash, or an append under way, explains. The next opening cuts
    /// them.
    TornTail {
        /// How many.
        bytes: u64,
    },
    /// Not what was written, or not readable.
    Bad(WalError),
}

impl SegmentState {
    /// Whether this is damage, as against what follows from a crash.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        matches!(self, Self::Bad(_))
    }
}

/// Verifies every record of a segment, of a log's folder, or of all logs in a tree of folders.
///
/// # Errors
/// I/O errors of listing folders; whatever is wrong with a segment is in its report.
pub fn verify(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<SegmentReport>> {
    let mut reports = Vec::new();
    for log in find(&**disk, path)? {
        reports.extend(log.begin_fault.map(missing));
        reports.extend(log.segments.iter().filter_map(|found| verify_segment(disk, found)));
    }
    Ok(reports)
}

/// What is told of a segment that should be there.
fn missing(fault: WalError) -> SegmentReport {
    let (file, first) = match &fault {
        WalError::Damaged(damage) => (damage.file.clone(), damage.version),
        WalError::NewerFormat { file, .. } | WalError::Io { file, .. } => (file.clone(), Version::default()),
        _ => (PathBuf::new(), Version::default()),
    };
    SegmentReport {
        file,
        first,
        next: first,
        records: 0,
        bytes: 0,
        file_bytes: 0,
        state: SegmentState::Bad(fault),
    }
}

/// None if the segment is gone: retention was faster.
fn verify_segment(disk: &Arc<dyn Disk>, found: &Found) -> Option<SegmentReport> {
    let mut report = SegmentReport {
        file: found.path(),
        first: found.first,
        next: found.first,
        records: 0,
        bytes: 0,
        file_bytes: 0,
        state: SegmentState::Intact,
    };
    match check(disk, found, &mut report) {
        Ok(state) => report.state = state,
        Err(WalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return None,
        Err(e) => report.state = SegmentState::Bad(e),
    }
    Some(report)
}

fn check(disk: &Arc<dyn Disk>, found: &Found, report: &mut SegmentReport) -> Result<SegmentState> {
    let path = found.path();
    let file = disk.open(&path, Access::Read).map_err(WalError::io("open segment", &path))?;
    report.file_bytes = file.len().map_err(WalError::io("read segment", &path))?;
    if found.superseded {
        return Ok(SegmentState::Superseded);
    }
    if found.blank {
        return Ok(SegmentState::Blank);
    }
    let opened = Opened::new(disk, found, report.file_bytes)?;
    let scanned = opened.scan()?;
    report.next = scanned.next;
    report.records = scanned.records;
    report.bytes = scanned.end.offset;
    let at = |what| Damage { file: path.clone(), offset: scanned.end.offset, version: scanned.next, what };
    match (scanned.stopped, found.next) {
        (None, Some(next)) => {
            if next.prev.is_some_and(|prev| prev.first == found.first && prev.end > scanned.end.offset) {
                return Err(at(Fault::Truncated).into());
            }
            let segment = &opened.segment;
            check_link(&**disk, &found.dir, &segment.header, segment.seed, &next)?;
            Ok(SegmentState::Intact)
        }
        (Some(fault), None) if found.is_last => {
            let beyond = judge(&opened.segment, &scanned, fault, opened.limit)?;
            let torn = SegmentState::TornTail { bytes: opened.limit - scanned.end.offset };
            Ok(if beyond.is_filler { SegmentState::Intact } else { torn })
        }
        (None, None) if found.is_last => Ok(SegmentState::Intact),
        (_, None) if found.below == Some(scanned.next) => Ok(SegmentState::Intact),
        (fault, _) => Err(at(fault.unwrap_or(Fault::Truncated)).into()),
    }
}
