//! Reading logs from outside, record by record: what `wal dump` prints. Reads only, and may run beside a live server.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::cursor::{Cursor, Stop};
use crate::disk::{Access, Disk};
use crate::error::{Result, WalError};
use crate::find::{Found, Opened, find};
use crate::format::record::{RecordHeader, What};
use crate::open::check_link;
use crate::record::Record;
use crate::scan::judge;
use crate::{Kind, Version};

/// Which records a dump takes. The default takes all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DumpFilter {
    /// The first version.
    pub from: Option<Version>,
    /// The last version, included.
    pub to_inclusive: Option<Version>,
    /// Kinds; none for all.
    pub kinds: Vec<Kind>,
    /// Received at this time or later, nanoseconds since the epoch.
    pub since_ns: Option<i64>,
    /// Received before this time.
    pub until_ns: Option<i64>,
}

impl DumpFilter {
    fn takes(&self, header: &RecordHeader) -> bool {
        let What::Record { kind, .. } = header.what else { return false };
        self.from.is_none_or(|from| header.version >= from)
            && self.to_inclusive.is_none_or(|to| header.version <= to)
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
            && self.since_ns.is_none_or(|since| header.time_ns >= since)
            && self.until_ns.is_none_or(|until| header.time_ns < until)
    }

    /// Whether a segment may hold any of them, as far as versions tell.
    fn may_take(&self, segment: &Found) -> bool {
        let early = self.from.zip(segment.below).is_some_and(|(from, below)| below <= from);
        let late = self.to_inclusive.is_some_and(|to| segment.first > to);
        !early && !late
    }
}

/// The intact records of a segment, of a log's folder, or of all logs in a tree of folders, in order, as far as `filter`
/// takes them; what is not intact comes as an error, after which the next segment follows. Segments that hold only other
/// versions are not read, and neither are bodies of records that are not asked for: [`verify`](crate::verify()) does that.
///
/// # Errors
/// I/O errors of listing folders.
pub fn dump(disk: &Arc<dyn Disk>, path: &Path, filter: DumpFilter) -> Result<Dump> {
    let mut dump =
        Dump { disk: Arc::clone(disk), filter, missing: Vec::new(), left: VecDeque::new(), current: None };
    for log in find(&**disk, path)? {
        dump.missing.extend(log.begin_fault);
        dump.left.extend(log.segments.into_iter().filter(|segment| dump.filter.may_take(segment)));
    }
    Ok(dump)
}

/// See [`dump`].
pub struct Dump {
    disk: Arc<dyn Disk>,
    filter: DumpFilter,
    /// Segments that should be before the first ones.
    missing: Vec<WalError>,
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
    found: Found,
    opened: Opened,
    cursor: Cursor,
    version: Version,
}

impl Walk {
    /// None for a segment that holds nothing, or is gone.
    fn open(disk: &Arc<dyn Disk>, found: Found) -> Result<Option<Self>> {
        let path = found.path();
        let file = match disk.open(&path, Access::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(WalError::io("open segment", &path))?,
        };
        let file_bytes = file.len().map_err(WalError::io("read segment", &path))?;
        if found.blank || found.superseded {
            return Ok(None);
        }
        let opened = Opened::new(disk, &found, file_bytes)?;
        let cursor = opened.segment.cursor(opened.segment.start())?;
        Ok(Some(Self { version: found.first, found, opened, cursor }))
    }

    fn next(&mut self, disk: &dyn Disk, filter: &DumpFilter) -> Result<Option<Record>> {
        let limit = self.opened.limit;
        loop {
            let segment = &self.opened.segment;
            let offset = self.cursor.offset();
            let read = self.cursor.block(limit).and_then(|block| match block {
                // What is not asked for is passed by its header.
                Some(block) if filter.takes(&block.header) => {
                    Ok(Some((block, self.cursor.body(&block, limit)?)))
                }
                Some(block) => Ok(Some((block, Bytes::new()))),
                None => Ok(None),
            });
            let (block, body) = match read {
                Ok(Some(read)) if read.0.header.version < self.opened.below => read,
                Ok(_) => return self.check_end(disk).map(|()| None),
                Err(Stop::Bad(_)) if self.found.is_last => {
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
                    if filter.takes(&block.header) {
                        let segment = Arc::clone(segment);
                        return Ok(Some(Record { version, term, time_ns, kind, flags, body, segment }));
                    }
                }
            }
        }
    }

    /// Whether what was read is all that the segment after this one says.
    fn check_end(&self, disk: &dyn Disk) -> Result<()> {
        let segment = &self.opened.segment;
        match self.found.next {
            Some(next) => check_link(disk, &self.found.dir, &segment.header, segment.seed, &next),
            None => Ok(()),
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
            if let Some(missing) = self.missing.pop() {
                return Some(Err(missing));
            }
            let Some(walk) = &mut self.current else {
                let found = self.left.pop_front()?;
                match Walk::open(&self.disk, found) {
                    Ok(walk) => self.current = walk,
                    Err(e) => return Some(Err(e)),
                }
                continue;
            };
            match walk.next(&*self.disk, &self.filter) {
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
