//! Finds logs and their segments from outside: what belongs to a log, and where each segment of it ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Result, WalError};
use crate::format::segment::{SegmentHeader, file_name, parse_file_name};
use crate::open::{blanks_at_end, in_log, list, open_header, segment_files};
use crate::retained;
use crate::scan::{Scan, scan_below};
use crate::segment::Segment;
use crate::{Options, Version};

/// Folders below the given one that are searched for logs.
const DEPTH_MAX: usize = 8;

/// The folders of logs: that of a segment, a log's own, or all in a tree of folders.
///
/// # Errors
/// I/O errors of listing folders.
pub fn log_dirs(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<PathBuf>> {
    Ok(find(&**disk, path)?.into_iter().map(|log| log.dir).collect())
}

/// The segments of one log, or those of them that were asked for.
pub(crate) struct Log {
    pub(crate) dir: PathBuf,
    /// Set if a segment before the first one has vanished.
    pub(crate) begin_fault: Option<WalError>,
    pub(crate) segments: Vec<Found>,
}

/// A segment file and its place in its log.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) dir: PathBuf,
    pub(crate) first: Version,
    /// Whether it stands at the end and holds nothing.
    pub(crate) blank: bool,
    /// Whether a cut or a reset took it out of the log.
    pub(crate) superseded: bool,
    /// Whether the log ends in it.
    pub(crate) is_last: bool,
    /// Header of the segment after it, which tells where it ends; none for the last one, or if that header is damaged.
    pub(crate) next: Option<SegmentHeader>,
    /// Its records end below this version: a later segment begins there, or one that is gone.
    pub(crate) below: Option<Version>,
}

impl Found {
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(file_name(self.first))
    }
}

pub(crate) fn find(disk: &dyn Disk, path: &Path) -> Result<Vec<Log>> {
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

pub(crate) struct Opened {
    pub(crate) segment: Arc<Segment>,
    /// Where its blocks end, or its file if nothing says so.
    pub(crate) limit: u64,
    /// Its records have lower versions. What has others was cut off.
    pub(crate) below: Version,
}

impl Opened {
    pub(crate) fn new(disk: &Arc<dyn Disk>, found: &Found, file_bytes: u64) -> Result<Self> {
        let header = open_header(&**disk, &found.dir, found.first)?;
        let prev = found.next.and_then(|next| next.prev).filter(|prev| prev.first == found.first);
        let limit = prev.map_or(file_bytes, |prev| prev.end.min(file_bytes));
        let below = found.below.unwrap_or(Version(u64::MAX));
        let segment = Segment::new(disk, &found.dir, header, limit, &Options::default());
        Ok(Self { segment: Arc::new(segment.read_only()), limit, below })
    }

    pub(crate) fn scan(&self) -> Result<Scan> {
        scan_below(&self.segment, u64::MAX, self.limit, self.below)
    }
}
