//! Segment header: the first 128 bytes of a `.log` file.

use super::{ALIGN, BadHeader, FORMAT_VERSION, Fields, check_format, crc};
use crate::Version;

pub(crate) const HEADER_BYTES: usize = 128;
const HEADER_BYTES_FIELD: u32 = 128;
const _: () = assert!(HEADER_BYTES_FIELD as usize == HEADER_BYTES);
const _: () = assert!(HEADER_BYTES.is_multiple_of(ALIGN));

pub(crate) const MAGIC: [u8; 8] = *b"TIDEWAL\n";

const AT_FORMAT: usize = 8;
const AT_HEADER_BYTES: usize = 12;
const AT_FIRST: usize = 16;
const AT_SALT: usize = 24;
const AT_CREATED: usize = 32;
const AT_PREV_FIRST: usize = 40;
const AT_PREV_END: usize = 48;
const AT_PREV_LAST: usize = 56;
const AT_PREV_TERM: usize = 64;
const AT_PREV_TIME: usize = 72;
const AT_PREV_CRC: usize = 80;
const AT_PREV_KNOWN: usize = 84;
const AT_SEQUENCE: usize = 88;
const AT_CRC: usize = 124;
const _: () = assert!(AT_CRC + 4 == HEADER_BYTES);

/// No log gets there, and from here there is always a next one.
const SEQUENCE_MAX: u64 = u64::MAX >> 1;

/// No such thing, where a version or an offset stands.
const NONE: u64 = u64::MAX;

/// The segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Version of the first record, also the file's name.
    pub(crate) first: Version,
    /// Different in every segment that was ever started, so that a block of another segment never verifies here.
    pub(crate) salt: u64,
    /// Segments of a log are numbered in the order of their making. One with a lower number than a segment before it
    /// was cut off, whether or not its file could be removed.
    pub(crate) sequence: u64,
    /// When the segment was started, which is when the one before it was closed.
    pub(crate) created_ns: i64,
    /// The segment before this one; none at the start of a log.
    pub(crate) prev: Option<PrevSegment>,
    /// The record before `first`; none at the start of a log.
    pub(crate) before: Option<LastRecord>,
}

/// Where the segment before this one ends. It says so here, in the successor, because a closed segment is never written
/// again: a cut or a failed write only moves its logical end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrevSegment {
    /// Its first version.
    pub(crate) first: Version,
    /// Byte after its last block.
    pub(crate) end: u64,
    /// Offset of the header of its last block.
    pub(crate) last_offset: u64,
    /// CRC of that header.
    pub(crate) last_crc: u32,
}

/// Identity of a record without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRecord {
    /// Position in the log.
    pub version: Version,
    /// Raft term.
    pub term: u64,
    /// Receive time, nanoseconds since the epoch.
    pub time_ns: i64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Fields([0; HEADER_BYTES]);
        out.0[..MAGIC.len()].copy_from_slice(&MAGIC);
        out.put_u32(AT_FORMAT, FORMAT_VERSION);
        out.put_u32(AT_HEADER_BYTES, HEADER_BYTES_FIELD);
        out.put_u64(AT_FIRST, self.first.0);
        out.put_u64(AT_SALT, self.salt);
        out.put_u64(AT_SEQUENCE, self.sequence);
        out.put_i64(AT_CREATED, self.created_ns);
        out.put_u64(AT_PREV_FIRST, self.prev.map_or(NONE, |p| p.first.0));
        if let Some(prev) = self.prev {
            out.put_u64(AT_PREV_END, prev.end);
            out.put_u64(AT_PREV_LAST, prev.last_offset);
            out.put_u32(AT_PREV_CRC, prev.last_crc);
        }
        if let Some(before) = self.before {
            out.put_u64(AT_PREV_TERM, before.term);
            out.put_i64(AT_PREV_TIME, before.time_ns);
            out.put_u32(AT_PREV_KNOWN, 1);
        }
        let sum = crc(0, &out.0[..AT_CRC]);
        out.put_u32(AT_CRC, sum);
        out.0
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, BadHeader> {
        let f = Fields(*bytes);
        if f.0[..MAGIC.len()] != MAGIC {
            return Err(BadHeader::Damaged);
        }
        check_format(bytes, AT_FORMAT, AT_CRC)?;
        if f.u64(AT_SEQUENCE) > SEQUENCE_MAX {
            return Err(BadHeader::Damaged);
        }
        let first = Version(f.u64(AT_FIRST));
        let prev = PrevSegment {
            first: Version(f.u64(AT_PREV_FIRST)),
            end: f.u64(AT_PREV_END),
            last_offset: f.u64(AT_PREV_LAST),
            last_crc: f.u32(AT_PREV_CRC),
        };
        let known = first.prev().filter(|_| f.u32(AT_PREV_KNOWN) == 1);
        Ok(Self {
            first,
            salt: f.u64(AT_SALT),
            sequence: f.u64(AT_SEQUENCE),
            created_ns: f.i64(AT_CREATED),
            prev: (prev.first.0 != NONE).then_some(prev),
            before: known.map(|version| LastRecord {
                version,
                term: f.u64(AT_PREV_TERM),
                time_ns: f.i64(AT_PREV_TIME),
            }),
        })
    }

    /// What the checksums of this segment's block headers start from, and what its first block chains to: the CRC of
    /// this header, which covers the salt.
    pub(crate) fn seed(&self) -> u32 {
        Fields(self.encode()).u32(AT_CRC)
    }
}

const SUFFIX: &str = ".log";

/// `<20 digits>.log`
pub(crate) fn file_name(first: Version) -> String {
    format!("{first:020}{SUFFIX}")
}

/// The first version that a file name tells, none if it is no segment's name.
pub(crate) fn parse_file_name(name: &str) -> Option<Version> {
    parse_numbered(name, SUFFIX)
}

pub(super) fn parse_numbered(name: &str, suffix: &str) -> Option<Version> {
    let digits = name.strip_suffix(suffix)?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if all_digits { digits.parse().ok().map(Version) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SegmentHeader {
        SegmentHeader {
            first: Version(7),
            salt: 0x0102_0304_0506_0708,
            sequence: 12,
            created_ns: 1_700_000_000_000_000_000,
            prev: Some(PrevSegment { first: Version(3), end: 1024, last_offset: 896, last_crc: 0xdead_beef }),
            before: Some(LastRecord { version: Version(6), term: 2, time_ns: 1_699_999_999_000_000_000 }),
        }
    }

    #[test]
    fn round_trip() {
        for header in [sample(), SegmentHeader { prev: None, before: None, first: Version(0), ..sample() }] {
            assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let bytes = sample().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn newer_format_is_named() {
        let mut bytes = sample().encode();
        bytes[AT_FORMAT] = 9;
        assert_eq!(SegmentHeader::decode(&bytes), Err(BadHeader::Damaged), "all else is as format 1 has it");
        bytes[AT_CRC] ^= 1;
        assert_eq!(SegmentHeader::decode(&bytes), Err(BadHeader::Newer(9)));
    }

    #[test]
    fn names() {
        assert_eq!(file_name(Version(42)), "00000000000000000042.log");
        assert_eq!(parse_file_name("00000000000000000042.log"), Some(Version(42)));
        for other in
            ["42.log", "00000000000000000042.idx", "0000000000000000004x.log", "99999999999999999999.log"]
        {
            assert_eq!(parse_file_name(other), None, "{other}");
        }
    }
}
