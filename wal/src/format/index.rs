//! Sparse index: the `.idx` file beside a closed segment. Wholly derived from the segment.

use bytes::{Buf, BufMut};

use super::{ALIGN, FORMAT_VERSION, crc, segment};
use crate::{SchemaKey, Version};

pub(crate) const MAGIC: [u8; 8] = *b"TIDEIDX\n";
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const ENTRY_BYTES: usize = 24;
pub(crate) const SCHEMA_BYTES: usize = 24;

/// A place where a reader may start: the first block that belongs to `version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) version: Version,
    pub(crate) offset: u64,
    pub(crate) time_ns: i64,
}

/// Content of an index file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexFile {
    /// Salt of the segment that it belongs to.
    pub(crate) salt: u64,
    /// Logical end of that segment: an index made before a cut does not fit after it.
    pub(crate) end: u64,
    pub(crate) entries: Vec<IndexEntry>,
    pub(crate) schemas: Vec<(SchemaKey, u64)>,
}

impl IndexFile {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let bytes = HEADER_BYTES + self.entries.len() * ENTRY_BYTES + self.schemas.len() * SCHEMA_BYTES + 4;
        let mut out = Vec::with_capacity(bytes);
        out.put_slice(&MAGIC);
        out.put_u32_le(FORMAT_VERSION);
        out.put_u32_le(0);
        out.put_u64_le(self.salt);
        out.put_u64_le(self.end);
        out.put_u64_le(self.entries.len() as u64);
        out.put_u64_le(self.schemas.len() as u64);
        out.put_bytes(0, HEADER_BYTES - out.len());
        for entry in &self.entries {
            out.put_u64_le(entry.version.0);
            out.put_u64_le(entry.offset);
            out.put_i64_le(entry.time_ns);
        }
        for (key, offset) in &self.schemas {
            out.put_u64_le(key.owner);
            out.put_u64_le(u64::from(key.version));
            out.put_u64_le(*offset);
        }
        let sum = crc(0, &out);
        out.put_u32_le(sum);
        out
    }

    /// None for anything but an intact index file: the caller then builds it anew from the segment.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut content, mut sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if content.len() < HEADER_BYTES || sum.get_u32_le() != crc(0, content) || content[..8] != MAGIC {
            return None;
        }
        content.advance(8);
        if content.get_u32_le() != FORMAT_VERSION {
            return None;
        }
        content.advance(4);
        let (salt, end) = (content.get_u64_le(), content.get_u64_le());
        let entries = usize::try_from(content.get_u64_le()).ok()?;
        let schemas = usize::try_from(content.get_u64_le()).ok()?;
        content.advance(HEADER_BYTES - 48);
        let expected = entries.checked_mul(ENTRY_BYTES)?.checked_add(schemas.checked_mul(SCHEMA_BYTES)?)?;
        if content.len() != expected {
            return None;
        }
        let entries = (0..entries).map(|_| IndexEntry {
            version: Version(content.get_u64_le()),
            offset: content.get_u64_le(),
            time_ns: content.get_i64_le(),
        });
        let entries = entries.collect();
        let mut keys = Vec::with_capacity(schemas);
        for _ in 0..schemas {
            let owner = content.get_u64_le();
            let version = u32::try_from(content.get_u64_le()).ok()?;
            keys.push((SchemaKey { owner, version }, content.get_u64_le()));
        }
        Some(Self { salt, end, entries, schemas: keys })
    }

    /// Whether all places lie within the segment, which starts at `first`, and in order: a reader sent beyond its end
    /// would look for ever.
    pub(crate) fn lies_within(&self, first: Version) -> bool {
        let is_place = |offset: u64| {
            offset >= segment::HEADER_BYTES as u64 && offset < self.end && offset.is_multiple_of(ALIGN as u64)
        };
        let rises = |a: &IndexEntry, b: &IndexEntry| a.version <= b.version && a.offset < b.offset;
        self.entries.iter().all(|entry| entry.version >= first && is_place(entry.offset))
            && self.entries.is_sorted_by(rises)
            && self.schemas.iter().all(|(_, offset)| is_place(*offset))
    }
}

const SUFFIX: &str = ".idx";

/// `<20 digits>.idx`
pub(crate) fn file_name(first: Version) -> String {
    format!("{first:020}{SUFFIX}")
}

/// The first version that a file name tells, none if it is no index's name.
pub(crate) fn parse_file_name(name: &str) -> Option<Version> {
    segment::parse_numbered(name, SUFFIX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sample() -> IndexFile {
        IndexFile {
            salt: 5,
            end: 4096,
            entries: vec![
                IndexEntry { version: Version(3), offset: 128, time_ns: 10 },
                IndexEntry { version: Version(9), offset: 2048, time_ns: 20 },
            ],
            schemas: vec![(SchemaKey { owner: 1, version: 2 }, 128)],
        }
    }

    #[test]
    fn round_trip() {
        assert_eq!(IndexFile::decode(&sample().encode()), Some(sample()));
        let empty = IndexFile { entries: vec![], schemas: vec![], ..sample() };
        assert_eq!(IndexFile::decode(&empty.encode()), Some(empty));
    }

    #[test]
    fn damage_is_never_an_index() {
        let bytes = sample().encode();
        for len in 0..bytes.len() {
            assert_eq!(IndexFile::decode(&bytes[..len]), None, "truncated to {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(IndexFile::decode(&bad), None, "bit {bit}");
        }
    }
}
