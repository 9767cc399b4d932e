//! Opening: finds the segments, checks that they fit together, recovers the end of the last one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Access, DirEntry, Disk, DiskFile};
use crate::error::{Damage, Fault, Result, WalError};
use crate::format::index;
use crate::format::record::{self, RecordHeader};
use crate::format::segment::{PrevSegment, SegmentHeader, file_name, parse_file_name};
use crate::options::Planted;
use crate::retained;
use crate::scan::{Scan, is_blank, judge, scan};
use crate::segment::{Segment, read_header};
use crate::shared::DOUBT_MARK;
use crate::writer::Tail;
use crate::{LastRecord, Options, Version};

/// What opening found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The first version that can be read.
    pub first: Version,
    /// The version that the next append gets.
    pub next: Version,
    /// Segment files.
    pub segments: usize,
    /// Bytes of the last segment that were verified.
    pub scanned_bytes: u64,
    /// The torn tail that was cut, if there was one.
    pub torn: Option<TornTail>,
    /// Files that hold nothing of the log, and what was done about them.
    pub ignored: Vec<IgnoredFile>,
}

/// Bytes at the end of the last segment that a crash left unfinished. They were never durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub file: PathBuf,
    /// Where the log ends now.
    pub offset: u64,
    /// The version that would have followed, and that the next append gets.
    pub version: Version,
    /// Bytes given up.
    pub bytes: u64,
    /// Whole blocks among them, behind one that was lost.
    pub blocks: u64,
}

/// A file that opening passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredFile {
    /// The file.
    pub file: PathBuf,
    /// Why, and what was done.
    pub why: Ignored,
}

/// Why a file was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ignored {
    /// A last segment without content, or of zeros only: a crash came between creating and writing it. Removed.
    BlankSegment,
    /// A segment that was being made. Removed.
    Unfinished,
    /// An empty index. Built again when needed.
    EmptyIndex,
    /// An index without its segment. Removed.
    StrayIndex,
    /// A segment that a cut or a reset took out of the log. Removed.
    Superseded,
}

pub(crate) struct Opened {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) tail: Option<Tail>,
    pub(crate) last: Option<LastRecord>,
    pub(crate) next: Version,
    /// Number of the next segment.
    pub(crate) sequence: u64,
    /// Set if a sync failed and the log was not healed: from here on, what can be read may not be on disk.
    pub(crate) doubtful_from: Option<Version>,
    pub(crate) report: OpenReport,
}

pub(crate) fn open(disk: &Arc<dyn Disk>, dir: &Path, options: &Options) -> Result<Opened> {
    disk.create_dir_all(dir).map_err(WalError::io("create directory", dir))?;
    let listed = list(&**disk, dir)?;
    let mut files = segment_files(&listed);
    let mut ignored = Vec::new();
    let blank_next = pass_blank(&**disk, dir, &mut files, &mut ignored)?;
    let mut headers = read_headers(&**disk, dir, &files)?;
    let sequence = headers.iter().map(|header| header.sequence).max().unwrap_or(0).saturating_add(1);
    pass_superseded(dir, &mut headers, &mut ignored);
    retained::check(&**disk, dir, headers.first())?;
    for pair in headers.windows(2) {
        if let [header, next] = pair {
            check_link(&**disk, dir, header, options.seed(header), next)?;
        }
    }
    pass_leftovers(dir, &listed, &headers, &mut ignored);

    let mut segments = Vec::with_capacity(headers.len());
    for (at, header) in headers.iter().enumerate() {
        let end = headers.get(at + 1).and_then(|next| next.prev).map_or(0, |prev| prev.end);
        let segment = Segment::new(disk, dir, *header, end, options);
        if options.planted == Some(Planted::EndIgnored) && at + 1 < headers.len() {
            let len = segment.file()?.len().map_err(WalError::io("read segment", segment.path()))?;
            segment.publish_end(len);
        }
        segments.push(Arc::new(segment));
    }
    let mut report = OpenReport { ignored, ..OpenReport::default() };
    let doubtful = listed.iter().any(|entry| entry.name == DOUBT_MARK);
    let opened = match segments.last() {
        Some(segment) => {
            let (tail, found) = recover(disk, segment, options, &mut report)?;
            let doubtful_from = doubtful.then_some(found.durable_next);
            let (last, next) = (found.last, found.next);
            Opened { tail: Some(tail), last, next, segments, sequence, doubtful_from, report }
        }
        None => {
            let next = blank_next.unwrap_or_default();
            Opened { tail: None, last: None, next, segments, sequence, doubtful_from: None, report }
        }
    };
    // Only now that nothing refuses.
    remove_ignored(&**disk, &opened.report.ignored)?;
    // This also makes names durable that were made just before the last process ended.
    disk.sync_dir(dir).map_err(WalError::io("sync directory", dir))?;
    Ok(finish(opened))
}

fn finish(mut opened: Opened) -> Opened {
    opened.report.segments = opened.segments.len();
    opened.report.first = opened.segments.first().map_or(opened.next, |segment| segment.first());
    opened.report.next = opened.next;
    opened
}

pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<DirEntry>> {
    disk.list(dir).map_err(WalError::io("list directory", dir))
}

/// First versions of the segment files, in order.
pub(crate) fn segment_files(listed: &[DirEntry]) -> Vec<Version> {
    let files = listed.iter().filter(|entry| !entry.is_dir);
    files.filter_map(|entry| parse_file_name(&entry.name)).collect()
}

/// Passes over files at the end that have no content. A name of theirs tells where a log went on that has nothing else.
fn pass_blank(
    disk: &dyn Disk,
    dir: &Path,
    files: &mut Vec<Version>,
    ignored: &mut Vec<IgnoredFile>,
) -> Result<Option<Version>> {
    let blank = files.split_off(files.len() - blanks_at_end(disk, dir, files)?);
    for first in &blank {
        ignored.push(IgnoredFile { file: dir.join(file_name(*first)), why: Ignored::BlankSegment });
    }
    Ok(blank.first().copied())
}

/// How many of the last files are empty, or zeros throughout.
pub(crate) fn blanks_at_end(disk: &dyn Disk, dir: &Path, files: &[Version]) -> Result<usize> {
    let mut blank = 0;
    for first in files.iter().rev() {
        let path = dir.join(file_name(*first));
        let file = disk.open(&path, Access::Read).map_err(WalError::io("open segment", &path))?;
        if !is_blank(&*file).map_err(WalError::io("read segment", &path))? {
            break;
        }
        blank += 1;
    }
    Ok(blank)
}

fn read_headers(disk: &dyn Disk, dir: &Path, files: &[Version]) -> Result<Vec<SegmentHeader>> {
    files.iter().map(|first| open_header(disk, dir, *first)).collect()
}

/// Opens a segment file and reads its header.
pub(crate) fn open_header(disk: &dyn Disk, dir: &Path, first: Version) -> Result<SegmentHeader> {
    let path = dir.join(file_name(first));
    let file = disk.open(&path, Access::Read).map_err(WalError::io("open segment", &path))?;
    read_header(&*file, &path, first)
}

/// Which segments, in order of their versions, are still of the log: not those with a lower number than one before
/// them, which a cut took off; and nothing before one that a reset started, which continues nothing.
pub(crate) fn in_log(headers: &[SegmentHeader]) -> Vec<bool> {
    let mut highest = 0;
    let rising = headers.iter().map(|header| {
        let rises = header.sequence > highest;
        highest = highest.max(header.sequence);
        rises
    });
    let mut in_log: Vec<bool> = rising.collect();
    let start = (0..headers.len()).rev().find(|at| in_log[*at] && headers[*at].prev.is_none());
    in_log.iter_mut().take(start.unwrap_or(0)).for_each(|is_in| *is_in = false);
    in_log
}

/// A cut or a reset starts a segment and then removes those that it supersedes. A crash may leave some.
fn pass_superseded(dir: &Path, headers: &mut Vec<SegmentHeader>, ignored: &mut Vec<IgnoredFile>) {
    let mut in_log = in_log(headers).into_iter();
    for header in headers.extract_if(.., |_| in_log.next() == Some(false)) {
        ignored.push(IgnoredFile { file: dir.join(file_name(header.first)), why: Ignored::Superseded });
    }
}

/// Checks that `next` was started where `header`'s segment ends, and that the end is there.
pub(crate) fn check_link(
    disk: &dyn Disk,
    dir: &Path,
    header: &SegmentHeader,
    seed: u32,
    next: &SegmentHeader,
) -> Result<()> {
    let damage =
        |file: PathBuf, offset, version, what| WalError::from(Damage { file, offset, version, what });
    let prev = match next.prev {
        Some(prev) if prev.first == header.first => prev,
        Some(prev) if prev.first > header.first => {
            return Err(damage(dir.join(file_name(prev.first)), 0, prev.first, Fault::Missing));
        }
        _ => return Err(damage(dir.join(file_name(next.first)), 0, next.first, Fault::SegmentLink)),
    };
    let path = dir.join(file_name(header.first));
    let last = next.first.prev().unwrap_or_default();
    match last_block_fault(disk, &path, seed, prev)? {
        None => Ok(()),
        Some(fault) => Err(damage(path, prev.last_offset, last, fault)),
    }
}

fn last_block_fault(disk: &dyn Disk, path: &Path, seed: u32, prev: PrevSegment) -> Result<Option<Fault>> {
    let read = WalError::io("read segment", path);
    let file = disk.open(path, Access::Read).map_err(WalError::io("open segment", path))?;
    if file.len().map_err(WalError::io("read segment", path))? < prev.end {
        return Ok(Some(Fault::Truncated));
    }
    let mut bytes = [0; record::HEADER_BYTES];
    file.read_at(&mut bytes, prev.last_offset).map_err(read)?;
    Ok(match RecordHeader::decode(&bytes, seed) {
        Ok(last) if last.crc == prev.last_crc => None,
        Ok(_) => Some(Fault::Chain),
        Err(_) => Some(Fault::HeaderCrc),
    })
}

/// What a crash left half made, and indexes without a segment.
fn pass_leftovers(
    dir: &Path,
    listed: &[DirEntry],
    headers: &[SegmentHeader],
    ignored: &mut Vec<IgnoredFile>,
) {
    let firsts: BTreeSet<_> = headers.iter().map(|header| header.first).collect();
    for entry in listed.iter().filter(|entry| !entry.is_dir) {
        let unfinished = entry.name.strip_suffix(".tmp").and_then(parse_file_name).is_some();
        let why = match index::parse_file_name(&entry.name) {
            Some(first) if !firsts.contains(&first) => Ignored::StrayIndex,
            Some(_) if entry.len == 0 => Ignored::EmptyIndex,
            _ if unfinished => Ignored::Unfinished,
            _ => continue,
        };
        ignored.push(IgnoredFile { file: dir.join(&entry.name), why });
    }
}

fn remove_ignored(disk: &dyn Disk, ignored: &[IgnoredFile]) -> Result<()> {
    for IgnoredFile { file, why } in ignored {
        tracing::info!(file = %file.display(), ?why, "file ignored");
        if *why != Ignored::EmptyIndex {
            disk.remove(file).map_err(WalError::io("remove leftover", file))?;
        }
    }
    Ok(())
}

/// Scans the last segment, cuts a torn tail by moving the logical end, and makes durable what is left.
fn recover(
    disk: &Arc<dyn Disk>,
    segment: &Arc<Segment>,
    options: &Options,
    report: &mut OpenReport,
) -> Result<(Tail, Scan)> {
    let path = segment.path();
    let file: Arc<dyn DiskFile> =
        disk.open(path, Access::Write).map_err(WalError::io("open segment", path))?;
    segment.share_file(&file);
    let file_len = file.len().map_err(WalError::io("read segment", path))?;
    let mut found = scan(segment, options.index_bytes, file_len)?;
    let beyond = match found.stopped {
        Some(fault) => Some((judge(segment, &found, fault, file_len)?, fault)),
        None => None,
    };
    if let Some((beyond, fault)) = beyond.filter(|(beyond, _)| !beyond.is_filler) {
        let (offset, version) = (found.end.offset, found.next);
        let torn = TornTail {
            file: path.to_path_buf(),
            offset,
            version,
            bytes: file_len - offset,
            blocks: beyond.blocks,
        };
        tracing::warn!(file = %path.display(), offset, %version, bytes = torn.bytes, %fault, "torn tail cut");
        report.torn = Some(torn);
    }
    // What was read may so far be in the page cache only, and from here on it counts as written.
    file.sync().map_err(WalError::io("sync", path))?;
    segment.publish_end(found.end.offset);
    segment.set_index(std::mem::take(&mut found.index));
    report.scanned_bytes = found.end.offset;
    // Behind a torn tail nothing is written: what is there must not be mistaken for something newer.
    let open = report.torn.is_none();
    let segment = Arc::clone(segment);
    // An idle log costs no handle: the first append opens the file again.
    let tail = Tail::new(segment, found.end, file_len, found.next);
    Ok((Tail { open, ..tail }, found))
}
