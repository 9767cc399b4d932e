//! What is left of a log: each segment file, how far it is intact, and which of them follow one another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Access, DirEntry, Disk, read_file};
use crate::error::{Damage, Fault, Result, WalError};
use crate::format::segment::{SegmentHeader, file_name};
use crate::format::{BadHeader, FORMAT_VERSION, retained};
use crate::open::{blanks_at_end, in_log, list, open_header, segment_files};
use crate::scan::{Scan, intact_behind, judge, scan_below};
use crate::segment::Segment;
use crate::{Options, Version};

/// One segment file.
pub(super) struct Part {
    pub(super) path: PathBuf,
    /// As its name says.
    pub(super) first: Version,
    pub(super) header: Option<SegmentHeader>,
    pub(super) file_bytes: u64,
    /// Byte after its last block that is intact and of the log, with all before it.
    pub(super) end: u64,
    /// Version after the last record up to there.
    pub(super) next: Version,
    /// Version after the last record that it is known to have held.
    pub(super) to: Version,
    /// CRC of the last block's header.
    last_crc: u32,
    /// What is wrong with it, if anything.
    pub(super) fault: Option<Damage>,
    /// A cut or a reset had taken it out of the log.
    pub(super) superseded: bool,
    /// First version of a segment that must have been before this one and is not there.
    pub(super) missing_before: Option<Version>,
    /// Whether the log ends in it, so that opening finds its end without being told.
    last_of_log: bool,
}

impl Part {
    /// Whether the log ends here and opening finds the end by itself.
    pub(super) fn is_tail(&self) -> bool {
        self.last_of_log && self.fault.is_none()
    }

    /// Whether `next` continues this segment.
    fn leads_to(&self, next: &Self) -> bool {
        let prev = next.header.as_ref().and_then(|header| header.prev);
        self.header.is_some()
            && self.fault.is_none()
            && prev.is_some_and(|prev| {
                prev.first == self.first && (prev.end, prev.last_crc) == (self.end, self.last_crc)
            })
    }
}

/// Intact records without a gap: parts `from..=last`, of the last one what is before its `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) from: usize,
    pub(super) last: usize,
    pub(super) first: Version,
    pub(super) next: Version,
}

pub(super) struct Survey {
    pub(super) parts: Vec<Part>,
    /// Where retention lets the log begin.
    pub(super) retained: Option<Version>,
    pub(super) retained_fault: Option<Fault>,
    /// Part with which the log starts at the earliest: a reset took out what is before.
    start: usize,
    names: Vec<String>,
}

impl Survey {
    pub(super) fn new(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Self> {
        let listed = list(&**disk, dir)?;
        let mut files = segment_files(&listed);
        files.truncate(files.len() - blanks_at_end(&**disk, dir, &files)?);
        let headers = files.iter().map(|first| header(&**disk, dir, *first)).collect::<Result<Vec<_>>>()?;
        let readable: Vec<_> = headers.iter().filter_map(|header| header.as_ref().ok().copied()).collect();
        let mut is_in = in_log(&readable).into_iter();
        // Of a damaged header it cannot be told; it counts as of the log unless a reset came after it.
        let is_in: Vec<_> =
            headers.iter().map(|header| header.is_err() || is_in.next() == Some(true)).collect();
        let reset =
            |at: &usize| is_in[*at] && headers[*at].as_ref().is_ok_and(|header| header.prev.is_none());
        let start_file = (0..files.len()).rev().find(reset).unwrap_or(0);

        let mut survey =
            Self { parts: Vec::new(), retained: None, retained_fault: None, start: 0, names: names(&listed) };
        survey.read_retained(&**disk, dir)?;
        for (at, first) in files.iter().enumerate() {
            if !is_in[at] {
                continue; // the next opening removes it
            }
            if at == start_file {
                survey.start = survey.parts.len();
            }
            let later = headers.iter().zip(&files).zip(&is_in).skip(at + 1).filter(|(_, is_in)| **is_in);
            let later: Vec<_> = later.map(|((header, first), _)| (header.as_ref().ok(), *first)).collect();
            let part = look(disk, dir, *first, &headers[at], &later, at < start_file)?;
            survey.parts.push(part);
        }
        survey.note_missing();
        Ok(survey)
    }

    fn read_retained(&mut self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let file = crate::retained::path(dir);
        let content = read_file(disk, &file).map_err(WalError::io("read", &file))?;
        match content.as_deref().map(retained::decode) {
            None => {}
            Some(Ok(first)) => self.retained = Some(first),
            Some(Err(BadHeader::Damaged)) => self.retained_fault = Some(Fault::Retained),
            Some(Err(BadHeader::Newer(found))) => {
                return Err(WalError::NewerFormat { file, found, known: FORMAT_VERSION });
            }
        }
        Ok(())
    }

    fn note_missing(&mut self) {
        for at in 1..self.parts.len() {
            let before = self.parts[at - 1].first;
            let prev = self.parts[at].header.as_ref().and_then(|header| header.prev);
            self.parts[at].missing_before = prev.map(|prev| prev.first).filter(|first| *first > before);
        }
    }

    /// Where the log began, as far as is known, if segments before the first file have vanished.
    pub(super) fn missing_at_start(&self) -> Option<Version> {
        let Some(part) = self.parts.first() else { return self.retained };
        let prev = match &part.header {
            _ if self.start > 0 => return None, // a reset took it all out
            Some(header) => header.prev?.first,
            None => part.first,
        };
        match self.retained {
            Some(retained) => Some(retained),
            None => Some(prev),
        }
        .filter(|begins| *begins < part.first)
    }

    /// The stretch to keep: the last one that begins at or below `held_below`, else the first one.
    pub(super) fn choose(&self, held_below: Version) -> Option<Stretch> {
        let stretches = self.stretches();
        let held = stretches.iter().rfind(|stretch| stretch.first <= held_below);
        held.or(stretches.first()).copied()
    }

    fn stretches(&self) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for (at, part) in self.parts.iter().enumerate().skip(self.start) {
            if part.header.is_none() {
                continue;
            }
            let before = at.checked_sub(1).and_then(|before| self.parts.get(before));
            match stretches.last_mut().filter(|open| open.last + 1 == at) {
                Some(open) if before.is_some_and(|before| before.leads_to(part)) => {
                    open.last = at;
                    open.next = part.next;
                }
                _ => stretches.push(Stretch { from: at, last: at, first: part.first, next: part.next }),
            }
        }
        stretches
    }

    /// A name beside `path` that nothing has yet.
    pub(super) fn aside_of(&self, path: &Path) -> PathBuf {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let numbered = (2..).map(|n| format!("{name}.damaged-{n}"));
        let mut free = std::iter::once(format!("{name}.damaged")).chain(numbered);
        let free = free.find(|name| !self.names.contains(name)).unwrap_or(name);
        path.with_file_name(free)
    }
}

fn names(listed: &[DirEntry]) -> Vec<String> {
    listed.iter().map(|entry| entry.name.clone()).collect()
}

fn header(disk: &dyn Disk, dir: &Path, first: Version) -> Result<std::result::Result<SegmentHeader, Damage>> {
    match open_header(disk, dir, first) {
        Ok(header) => Ok(Ok(header)),
        Err(WalError::Damaged(damage)) => Ok(Err(damage)),
        Err(e) => Err(e),
    }
}

/// Looks through one segment. `later` are those behind it: what is there of their headers, and their names.
fn look(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    first: Version,
    header: &std::result::Result<SegmentHeader, Damage>,
    later: &[(Option<&SegmentHeader>, Version)],
    superseded: bool,
) -> Result<Part> {
    let path = dir.join(file_name(first));
    let read = |e| WalError::io("read segment", &path)(e);
    let file = disk.open(&path, Access::Read).map_err(WalError::io("open segment", &path))?;
    let file_bytes = file.len().map_err(read)?;
    // Its records end where a later segment begins, or where one did that is gone.
    let prevs = later.iter().filter_map(|(header, _)| Some(header.as_ref()?.prev?.first));
    let below = later.iter().map(|(_, first)| *first).chain(prevs).filter(|begins| *begins > first).min();
    let mut part = Part {
        path: path.clone(),
        first,
        header: header.as_ref().ok().copied(),
        file_bytes,
        end: 0,
        next: first,
        to: below.unwrap_or(first),
        last_crc: 0,
        fault: header.as_ref().err().cloned(),
        superseded,
        missing_before: None,
        last_of_log: later.is_empty(),
    };
    let Some(header) = part.header.filter(|_| !superseded) else { return Ok(part) };
    let prev = later.first().and_then(|(header, _)| header.as_ref()?.prev).filter(|prev| prev.first == first);
    let limit = prev.map_or(file_bytes, |prev| prev.end.min(file_bytes));
    let segment = Segment::new(disk, dir, header, limit, &Options::default()).read_only();
    let scan = scan_below(&segment, u64::MAX, limit, below.unwrap_or(Version(u64::MAX)))?;
    (part.end, part.next, part.last_crc) = (scan.end.offset, scan.next, scan.end.chain);
    part.to = below.unwrap_or(scan.next);
    part.fault = match (prev, below) {
        (Some(prev), _) if (prev.end, prev.last_crc) == (part.end, part.last_crc) => None,
        (Some(prev), _) if prev.end == part.end => Some(part.damage(Fault::Chain)),
        (Some(_), _) => Some(part.damage(scan.stopped.unwrap_or(Fault::Truncated))),
        (None, Some(below)) if scan.next == below => None,
        (None, Some(_)) => Some(part.damage(scan.stopped.unwrap_or(Fault::Truncated))),
        (None, None) => end_fault(&segment, &scan, &mut part)?,
    };
    Ok(part)
}

/// Whether the end of the log's last segment is more than a torn tail.
fn end_fault(segment: &Segment, scan: &Scan, part: &mut Part) -> Result<Option<Damage>> {
    let Some(fault) = scan.stopped else { return Ok(None) };
    match judge(segment, scan, fault, part.file_bytes) {
        Ok(_) => Ok(None),
        Err(WalError::Damaged(damage)) => {
            part.to = intact_behind(segment, scan, fault, part.file_bytes)?.next.max(scan.next);
            Ok(Some(damage))
        }
        Err(e) => Err(e),
    }
}

impl Part {
    fn damage(&self, what: Fault) -> Damage {
        Damage { file: self.path.clone(), offset: self.end, version: self.next, what }
    }
}
