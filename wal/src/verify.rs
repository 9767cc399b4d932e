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
use crate::open::{blanks_at_end, check_link, in_log, list, open_header, segment_files};
use crate::record::Record;
use crate::retained;
use crate::scan::{Scan, judge, scan_below};
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
    for log in find(&**disk, path)? {
        reports.extend(log.begin_fault.map(missing));
        reports.extend(log.segments.iter().filter_map(|found| verify_segment(disk, found)));
    }
    Ok(reports)
}

/// The folders of logs: that of a segment, a log's own, or all in a tree of folders.
///
/// # Errors
/// I/O errors of listing folders.
pub fn log_dirs(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<PathBuf>> {
    Ok(find(&**disk, path)?.into_iter().map(|log| log.dir).collect())
}

/// The intact records of a segment, of a log's folder, or of all logs in a tree of folders, in order; what is not
/// intact comes as an error, after which the next segment follows.
///
/// # Errors
/// I/O errors of listing folders.
pub fn dump(disk: &Arc<dyn Disk>, path: &Path) -> Result<Dump> {
    Ok(Dump {
        disk: Arc::clone(disk),
        left: find(&**disk, path)?.into_iter().flat_map(|log| log.segments).collect(),
        current: None,
    })
}

/// The segments of one log, or those of them that were asked for.
struct Log {
    dir: PathBuf,
    /// Set if a segment before the first one has vanished.
    begin_fault: Option<WalError>,
    segments: Vec<Found>,
}

/// A segment file and its place in its log.
#[derive(Debug, Clone)]
struct Found {
    dir: PathBuf,
    first: Version,
    /// Whether it stands at the end and holds nothing.
    blank: bool,
    /// Whether a cut or a reset took it out of the log.
    superseded: bool,
    /// Whether the log ends in it.
    is_last: bool,
    /// Header of the segment after it, which tells where it ends; none for the last one, or if that header is damaged.
    next: Option<SegmentHeader>,
    /// Its records end below this version: a later segment begins there, or one that is gone.
    below: Option<Version>,
}

impl Found {
    fn path(&self) -> PathBuf {
        self.dir.join(file_name(self.first))
    }
}

fn find(disk: &dyn Disk, path: &Path) -> Result<Vec<Log>> {
    let named = path.file_name().and_then(|name| name.to_str()).and_then(parse_file_name);
    let mut logs = Vec::new();
    match (named, path.parent()) {
        (Some(first), Some(dir)) => {
            find_in(disk, dir, 0, &mut logs)?;
            for log in &mut logs {
                log.begin_fault = None; // a single segment may be a copy
                log.segments.retain(|segment| segment.first == first);
            }
            if logs.iter().all(|log| log.segments.is_empty()) {
                return Err(WalError::io("open segment", path)(std::io::ErrorKind::NotFound.into()));
            }
        }
        _ => find_in(disk, path, DEPTH_MAX, &mut logs)?,
    }
    Ok(logs)
}

fn find_in(disk: &dyn Disk, dir: &Path, depth: usize, logs: &mut Vec<Log>) -> Result<()> {
    let listed = list(disk, dir)?;
    let files = segment_files(&listed);
    if !files.is_empty() || listed.iter().any(|entry| entry.name == crate::format::retained::FILE_NAME) {
        logs.push(look(disk, dir, &files)?);
    }
    if depth > 0 {
        for entry in listed.iter().filter(|entry| entry.is_dir) {
            find_in(disk, &dir.join(&entry.name), depth - 1, logs)?;
        }
    }
    Ok(())
}

fn look(disk: &dyn Disk, dir: &Path, files: &[Version]) -> Result<Log> {
    let (files, blank) = files.split_at(files.len() - blanks_at_end(disk, dir, files)?);
    // What is wrong with a header is told where its segment is looked at.
    let headers: Vec<_> = files.iter().map(|first| open_header(disk, dir, *first).ok()).collect();
    let readable: Vec<_> = headers.iter().flatten().copied().collect();
    let mut is_in = in_log(&readable).into_iter();
    let is_in: Vec<_> = headers.iter().map(|header| header.is_none() || is_in.next() == Some(true)).collect();
    let in_order = || files.iter().zip(&headers).zip(&is_in);
    let segments = in_order().enumerate().map(|(at, ((first, _), is_in))| {
        let later = || in_order().skip(at + 1).filter(|(_, is_in)| **is_in).map(|(file, _)| file);
        let begins = later().flat_map(|(first, header)| {
            [Some(*first), header.and_then(|header| header.prev).map(|prev| prev.first)]
        });
        Found {
            dir: dir.to_path_buf(),
            first: *first,
            blank: false,
            superseded: !*is_in,
            is_last: later().next().is_none(),
            next: later().next().and_then(|(_, header)| *header),
            below: begins.flatten().filter(|begins| begins > first).min(),
        }
    });
    let nothing = |first: &Version| Found {
        dir: dir.to_path_buf(),
        first: *first,
        blank: true,
        superseded: false,
        is_last: true,
        next: None,
        below: None,
    };
    let segments = segments.chain(blank.iter().map(nothing)).collect();
    let begin = in_order().find(|(_, is_in)| **is_in).map(|((_, header), _)| header);
    let begin_fault = match begin {
        Some(None) => None, // told with that segment
        Some(Some(header)) => retained::check(disk, dir, Some(header)).err(),
        None => retained::check(disk, dir, None).err(),
    };
    Ok(Log { dir: dir.to_path_buf(), begin_fault, segments })
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

struct Opened {
    segment: Arc<Segment>,
    /// Where its blocks end, or its file if nothing says so.
    limit: u64,
    /// Its records have lower versions. What has others was cut off.
    below: Version,
}

impl Opened {
    fn new(disk: &Arc<dyn Disk>, found: &Found, file_bytes: u64) -> Result<Self> {
        let header = open_header(&**disk, &found.dir, found.first)?;
        let prev = found.next.and_then(|next| next.prev).filter(|prev| prev.first == found.first);
        let limit = prev.map_or(file_bytes, |prev| prev.end.min(file_bytes));
        let below = found.below.unwrap_or(Version(u64::MAX));
        let segment = Segment::new(disk, &found.dir, header, limit, &Options::default());
        Ok(Self { segment: Arc::new(segment.read_only()), limit, below })
    }

    fn scan(&self) -> Result<Scan> {
        scan_below(&self.segment, u64::MAX, self.limit, self.below)
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
        if found.blank || found.superseded {
            return Ok(None);
        }
        let opened = Opened::new(disk, found, file_bytes)?;
        let cursor = opened.segment.cursor(opened.segment.start())?;
        Ok(Some(Self { opened, cursor, is_last: found.is_last, version: found.first }))
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
            if block.header.version >= self.opened.below {
                return Ok(None);
            }
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
        let scanned = self.opened.scan()?;
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
