//! Looking at logs from outside: what `wal verify` and `wal dump` print. Reads only, and may run beside a live server.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cursor::{Cursor, Stop};
use crate::disk::{Access, Disk};
use crate::error::{Damage, Fault, Result, WalError};
use crate::format::record::What;
use crate::format::segment::{SegmentHeader, file_name, parse_file_name};
use crate::open::{check_link, in_log, list, open_header, segment_files};
use crate::record::Record;
use crate::scan::{is_blank, judge, scan};
use crate::segment::Segment;
use crate::{Options, Version};

/// Folders below the given one that are searched for logs.
const DEPTH_MAX: usize = 8;

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
    for found in find(&**disk, path)? {
        reports.extend(verify_segment(disk, &found));
    }
    Ok(reports)
}

/// The intact records of a segment, of a log's folder, or of all logs in a tree of folders, in order; what is not
/// intact comes as an error, after which the next segment follows.
///
/// # Errors
/// I/O errors of listing folders.
pub fn dump(disk: &Arc<dyn Disk>, path: &Path) -> Result<Dump> {
    Ok(Dump { disk: Arc::clone(disk), left: find(&**disk, path)?.into(), current: None })
}

/// A segment file and its place in its log.
#[derive(Debug, Clone)]
struct Found {
    dir: PathBuf,
    first: Version,
    /// Whether a cut or a reset took it out of the log.
    superseded: bool,
    /// Header of the segment after it, which tells where it ends; none for the last of a log.
    next: Option<SegmentHeader>,
}

impl Found {
    fn path(&self) -> PathBuf {
        self.dir.join(file_name(self.first))
    }
}

fn find(disk: &dyn Disk, path: &Path) -> Result<Vec<Found>> {
    let named = path.file_name().and_then(|name| name.to_str()).and_then(parse_file_name);
    let mut found = Vec::new();
    match (named, path.parent()) {
        (Some(first), Some(dir)) => {
            find_in(disk, dir, 0, &mut found)?;
            found.retain(|segment| segment.dir == dir && segment.first == first);
            if found.is_empty() {
                return Err(WalError::io("open segment", path)(std::io::ErrorKind::NotFound.into()));
            }
        }
        _ => find_in(disk, path, DEPTH_MAX, &mut found)?,
    }
    Ok(found)
}

fn find_in(disk: &dyn Disk, dir: &Path, depth: usize, found: &mut Vec<Found>) -> Result<()> {
    let listed = list(disk, dir)?;
    let files = segment_files(&listed);
    // What is wrong with a header is told where its segment is looked at.
    let headers: Vec<_> = files.iter().filter_map(|first| open_header(disk, dir, *first).ok()).collect();
    let in_log = in_log(&headers);
    let is_in = |first| headers.iter().zip(&in_log).any(|(header, is_in)| header.first == first && *is_in);
    let is_out = |first| headers.iter().zip(&in_log).any(|(header, is_in)| header.first == first && !*is_in);
    for first in files {
        let next = headers.iter().find(|header| header.first > first && is_in(header.first)).copied();
        found.push(Found { dir: dir.to_path_buf(), first, superseded: is_out(first), next });
    }
    if depth > 0 {
        for entry in listed.iter().filter(|entry| entry.is_dir) {
            find_in(disk, &dir.join(&entry.name), depth - 1, found)?;
        }
    }
    Ok(())
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
    let successor = found.next;
    if successor.is_none() && is_blank(&*file).map_err(WalError::io("read segment", &path))? {
        return Ok(SegmentState::Blank);
    }
    let opened = Opened::new(disk, found, report.file_bytes, successor)?;
    let scanned = scan(&opened.segment, u64::MAX, opened.limit)?;
    report.next = scanned.next;
    report.records = scanned.records;
    report.bytes = scanned.end.offset;
    let at = |what| Damage { file: path.clone(), offset: scanned.end.offset, version: scanned.next, what };
    match (scanned.stopped, successor) {
        (Some(fault), Some(_)) => Err(at(fault).into()),
        (None, Some(next)) => {
            if next.prev.is_some_and(|prev| prev.first == found.first && prev.end > scanned.end.offset) {
                return Err(at(Fault::Truncated).into());
            }
            check_link(&**disk, &found.dir, &opened.segment.header, &next)?;
            Ok(SegmentState::Intact)
        }
        (Some(fault), None) => {
            judge(&opened.segment, &scanned, fault, opened.limit)?;
            Ok(SegmentState::TornTail { bytes: opened.limit - scanned.end.offset })
        }
        (None, None) => Ok(SegmentState::Intact),
    }
}

struct Opened {
    segment: Arc<Segment>,
    /// Where its blocks end, or its file if nothing says so.
    limit: u64,
}

impl Opened {
    fn new(
        disk: &Arc<dyn Disk>,
        found: &Found,
        file_bytes: u64,
        next: Option<SegmentHeader>,
    ) -> Result<Self> {
        let header = open_header(&**disk, &found.dir, found.first)?;
        let prev = next.and_then(|next| next.prev).filter(|prev| prev.first == found.first);
        let limit = prev.map_or(file_bytes, |prev| prev.end.min(file_bytes));
        let segment = Segment::new(disk, &found.dir, header, limit, &Options::default());
        Ok(Self { segment: Arc::new(segment.read_only()), limit })
    }
}

/// See [`dump`].
pub struct Dump {
    disk: Arc<dyn Disk>,
    left: VecDeque<Found>,
    current: Option<Walk>,
}

/// A record and the file that it lies in.
#[derive(Debug)]
pub struct Dumped {
    /// The segment.
    pub file: PathBuf,
    /// The record.
    pub record: Record,
}

struct Walk {
    opened: Opened,
    cursor: Cursor,
    /// Whether its end may be torn.
    is_last: bool,
    version: Version,
}

impl Walk {
    /// None for a segment that holds nothing, or is gone.
    fn open(disk: &Arc<dyn Disk>, found: &Found) -> Result<Option<Self>> {
        let path = found.path();
        let file = match disk.open(&path, Access::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(WalError::io("open segment", &path))?,
        };
        let file_bytes = file.len().map_err(WalError::io("read segment", &path))?;
        let next = found.next;
        let blank = next.is_none() && is_blank(&*file).map_err(WalError::io("read segment", &path))?;
        if blank || found.superseded {
            return Ok(None);
        }
        let opened = Opened::new(disk, found, file_bytes, next)?;
        let cursor = opened.segment.cursor(opened.segment.start())?;
        Ok(Some(Self { opened, cursor, is_last: next.is_none(), version: found.first }))
    }

    fn next(&mut self) -> Result<Option<Record>> {
        let (segment, limit) = (&self.opened.segment, self.opened.limit);
        loop {
            let offset = self.cursor.offset();
            let read = self.cursor.block(limit).and_then(|block| match block {
                Some(block) => Ok(Some((block, self.cursor.body(&block, limit)?))),
                None => Ok(None),
            });
            let (block, body) = match read {
                Ok(Some(read)) => read,
                Ok(None) => return Ok(None),
                Err(Stop::Bad(_)) if self.is_last => {
                    // A torn tail is an end; anything else is told with its place.
                    return self.judge_end().map(|()| None);
                }
                Err(stop) => return Err(segment.stopped(stop, offset, self.version)),
            };
            self.cursor.pass(&block);
            let (version, time_ns) = (block.header.version, block.header.time_ns);
            match block.header.what {
                What::Unknown(kind) => return Err(segment.unknown_kind(&block, kind)),
                What::Schema(_) => {}
                What::Record { term, kind, flags } => {
                    self.version = version.next();
                    let segment = Arc::clone(segment);
                    return Ok(Some(Record { version, term, time_ns, kind, flags, body, segment }));
                }
            }
        }
    }

    fn judge_end(&self) -> Result<()> {
        let (segment, limit) = (&self.opened.segment, self.opened.limit);
        let scanned = scan(segment, u64::MAX, limit)?;
        match scanned.stopped {
            Some(fault) => judge(segment, &scanned, fault, limit).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Iterator for Dump {
    type Item = Result<Dumped>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(walk) = &mut self.current else {
                let found = self.left.pop_front()?;
                match Walk::open(&self.disk, &found) {
                    Ok(walk) => self.current = walk,
                    Err(e) => return Some(Err(e)),
                }
                continue;
            };
            match walk.next() {
                Ok(Some(record)) => {
                    let file = walk.opened.segment.path().to_path_buf();
                    return Some(Ok(Dumped { file, record }));
                }
                Ok(None) => self.current = None,
                Err(e) => {
                    self.current = None;
                    return Some(Err(e));
                }
            }
        }
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dump").field("segments_left", &self.left.len()).finish_non_exhaustive()
    }
}
