//! Reads a segment from its start, for recovery and for `verify`, and judges what stopped it.

use crate::cursor::{Start, Stop};
use crate::disk::DiskFile;
use crate::error::{Damage, Fault, Result, WalError};
use crate::format::record::What;
use crate::format::{ALIGN, FILLER_BYTES_MAX};
use crate::index::Index;
use crate::segment::Segment;
use crate::writer::End;
use crate::{LastRecord, Version};

/// The unit in which a disk keeps or loses what was written to it.
const SECTOR: usize = 512;

/// What a segment holds up to its end or its first block that is not intact.
pub(crate) struct Scan {
    pub(crate) end: End,
    pub(crate) next: Version,
    pub(crate) last: Option<LastRecord>,
    pub(crate) records: u64,
    /// Everything below this was durable when the last block was written.
    pub(crate) durable_next: Version,
    pub(crate) index: Index,
    /// Why the scan ended before the limit; the place is `end.offset`.
    pub(crate) stopped: Option<Fault>,
}

/// Verifies blocks, headers and bodies, up to `limit`.
pub(crate) fn scan(segment: &Segment, index_bytes: u64, limit: u64) -> Result<Scan> {
    scan_below(segment, index_bytes, limit, Version(u64::MAX))
}

/// The same, up to the first block of version `below` or a later one: where the header that tells a segment's end is
/// lost, what lies behind may have been cut off.
pub(crate) fn scan_below(segment: &Segment, index_bytes: u64, limit: u64, below: Version) -> Result<Scan> {
    let mut cursor = segment.cursor(segment.start())?;
    let mut scan = Scan {
        end: End::of_empty(segment.seed),
        next: segment.first(),
        last: segment.header.before,
        records: 0,
        durable_next: segment.first(),
        index: Index::default(),
        stopped: None,
    };
    loop {
        let checked = cursor.block(limit).and_then(|block| match block {
            Some(block) => cursor.body(&block, limit).map(|_| Some(block)),
            None => Ok(None),
        });
        let block = match checked {
            Ok(Some(block)) => block,
            Ok(None) => return Ok(scan),
            Err(Stop::Bad(fault)) => {
                scan.stopped = Some(fault);
                return Ok(scan);
            }
            Err(stop @ Stop::Io(_)) => return Err(segment.stopped(stop, scan.end.offset, scan.next)),
        };
        let version = block.header.version;
        if version >= below {
            return Ok(scan);
        }
        match block.header.what {
            What::Unknown(kind) => return Err(segment.unknown_kind(&block, kind)),
            What::Schema(_) => {}
            What::Record { term, .. } => {
                scan.last = Some(LastRecord { version, term, time_ns: block.header.time_ns });
                scan.next = version.next();
                scan.records += 1;
            }
        }
        scan.durable_next = scan.durable_next.max(block.header.durable_next);
        scan.index.add(&block, index_bytes);
        scan.end = End { offset: block.end(), last_offset: block.offset, chain: block.crc };
        cursor.pass(&block);
    }
}

/// What stands behind the place where a scan of the last segment stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beyond {
    /// Intact blocks there.
    pub(crate) blocks: u64,
    /// Whether there is nothing but zeros that an append may have left behind its blocks: then nothing is torn.
    pub(crate) is_filler: bool,
    /// Where the first of them stands.
    first: Option<u64>,
    /// Version after the last of them.
    pub(crate) next: Version,
    /// Everything below this was durable when they were written.
    durable_next: Version,
}

/// Decides whether a crash explains where a scan of the *last* segment stopped. A crash may lose any sectors of any
/// write since the last sync, and lost sectors of our files read as zeros, since nothing is ever written twice. So the
/// tail is torn if nothing intact follows; or if all that follows was written before the damaged place was durable, and
/// a lost sector is there to see. Anything else is damage.
pub(crate) fn judge(segment: &Segment, scan: &Scan, fault: Fault, file_len: u64) -> Result<Beyond> {
    let at = scan.end.offset;
    let beyond = intact_behind(segment, scan, fault, file_len)?;
    let io = |e| WalError::io("read segment", segment.path())(e);
    let explained = match beyond.first {
        None => true,
        Some(_) if beyond.durable_next > scan.next => false,
        Some(first) => shows_lost_write(&*segment.file()?, at, first).map_err(io)?,
    };
    if explained {
        let short = file_len.saturating_sub(at) <= FILLER_BYTES_MAX as u64;
        let is_filler =
            beyond.blocks == 0 && short && is_zero(&*segment.file()?, at, file_len).map_err(io)?;
        return Ok(Beyond { is_filler, ..beyond });
    }
    Err(Damage { file: segment.path().to_path_buf(), offset: at, version: scan.next, what: fault }.into())
}

/// Looks for intact blocks behind the place where a scan stopped.
pub(crate) fn intact_behind(segment: &Segment, scan: &Scan, fault: Fault, file_len: u64) -> Result<Beyond> {
    let at = scan.end.offset;
    let mut cursor = segment.cursor(Start { offset: at, version: None, chain: None, bytes: 0 })?;
    let misplaced = matches!(fault, Fault::Chain | Fault::Version);
    let mut offset = if misplaced { at } else { at + ALIGN as u64 };
    let mut beyond = Beyond {
        blocks: 0,
        is_filler: false,
        first: None,
        next: scan.next,
        durable_next: Version::default(),
    };
    while offset < file_len {
        cursor.jump(offset);
        let intact = cursor.block(file_len).and_then(|block| match block {
            Some(block) => cursor.body(&block, file_len).map(|_| Some(block)),
            None => Ok(None),
        });
        match intact {
            Ok(Some(block)) => {
                beyond.first.get_or_insert(offset);
                beyond.blocks += 1;
                beyond.durable_next = beyond.durable_next.max(block.header.durable_next);
                if !matches!(block.header.what, What::Schema(_)) {
                    beyond.next = beyond.next.max(block.header.version.next());
                }
                offset = block.end();
            }
            Ok(None) => break,
            Err(Stop::Bad(_)) => offset += ALIGN as u64,
            Err(stop @ Stop::Io(_)) => return Err(segment.stopped(stop, offset, scan.next)),
        }
    }
    Ok(beyond)
}

/// Whether no header was ever written at `from`, or a sector's share of `from..to` is all zeros.
fn shows_lost_write(file: &dyn DiskFile, from: u64, to: u64) -> std::io::Result<bool> {
    let mut buf = [0; SECTOR];
    let mut is_zero = |from: u64, to: u64| {
        let part = &mut buf[..usize::try_from(to - from).unwrap_or(0)];
        file.read_at(part, from).map(|()| part.iter().all(|b| *b == 0))
    };
    if from < to && is_zero(from, from + ALIGN as u64)? {
        return Ok(true);
    }
    let mut at = from;
    while at < to {
        let sector_end = (at + 1).next_multiple_of(SECTOR as u64).min(to);
        if is_zero(at, sector_end)? {
            return Ok(true);
        }
        at = sector_end;
    }
    Ok(false)
}

/// Whether the file holds nothing but zeros, or nothing.
pub(crate) fn is_blank(file: &dyn DiskFile) -> std::io::Result<bool> {
    is_zero(file, 0, file.len()?)
}

fn is_zero(file: &dyn DiskFile, mut at: u64, to: u64) -> std::io::Result<bool> {
    let mut buf = vec![0; 64 << 10];
    while at < to {
        let part = usize::try_from(to - at).unwrap_or(usize::MAX).min(buf.len());
        file.read_at(&mut buf[..part], at)?;
        if buf[..part].iter().any(|b| *b != 0) {
            return Ok(false);
        }
        at += part as u64;
    }
    Ok(true)
}
