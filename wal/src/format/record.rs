//! Record header: 64 bytes before every body. Schema blocks use the same header.

use super::{ALIGN, BODY_BYTES_MAX, Fields, block_bytes, crc};
use crate::{SchemaKey, Version};

pub(crate) const HEADER_BYTES: usize = 64;
const _: () = assert!(HEADER_BYTES == ALIGN);

pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"TWR1");

const AT_BODY_LEN: usize = 4;
const AT_BODY_CRC: usize = 8;
const AT_CHAIN: usize = 12;
const AT_VERSION: usize = 16;
const AT_TERM: usize = 24;
const AT_TIME: usize = 32;
const AT_DURABLE: usize = 40;
const AT_KIND: usize = 48;
const AT_FLAGS: usize = 49;
const AT_SCHEMA_VERSION: usize = 52;
const AT_CRC: usize = 60;
const _: () = assert!(AT_CRC + 4 == HEADER_BYTES);

/// Kind number of a schema block. From here up, numbers belong to the log itself.
const SCHEMA: u8 = 0xf0;

/// What a record is. The numbers are on disk: never change or reuse one. Consumers see the first three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Kind {
    /// Rows.
    Data = 1,
    /// A change of tables: create, alter, drop, tag values.
    Meta = 2,
    /// A delete of rows.
    Delete = 3,
    /// Committed consumer offsets.
    Offset = 16,
    /// A vgroup's owner within a consumer group, with its epoch.
    Owner = 17,
    /// A topic made, reloaded or dropped, with its compiled definition.
    Topic = 18,
    /// A command of the metadata group.
    Command = 32,
    /// Raft membership.
    Membership = 64,
    /// Nothing: the entry by which a Raft leader begins its term.
    Noop = 65,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Data,
        Self::Meta,
        Self::Delete,
        Self::Offset,
        Self::Owner,
        Self::Topic,
        Self::Command,
        Self::Membership,
        Self::Noop,
    ];

    /// The number on disk.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Whether consumers may see records of this kind.
    #[must_use]
    pub const fn is_for_consumers(self) -> bool {
        matches!(self, Self::Data | Self::Meta | Self::Delete)
    }

    /// Lower-case name, as `wal dump` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Meta => "meta",
            Self::Delete => "delete",
            Self::Offset => "offset",
            Self::Owner => "owner",
            Self::Topic => "topic",
            Self::Command => "command",
            Self::Membership => "membership",
            Self::Noop => "noop",
        }
    }
}

/// What stands behind a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A record.
    Record { term: u64, kind: Kind, flags: u8 },
    /// A schema block, which takes no version: the header's version is that of the record which needs it.
    Schema(SchemaKey),
    /// A kind that a later release may know.
    Unknown(u8),
}

/// The header of a block, apart from its own checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) body_len: u32,
    pub(crate) body_crc: u32,
    /// CRC of the header before this one in the segment; of the segment header for the first.
    pub(crate) chain: u32,
    pub(crate) version: Version,
    pub(crate) time_ns: i64,
    /// Everything below this version was durable when the block was written. Tells recovery whether a hole before this
    /// block is a write that a crash may lose, or damage.
    pub(crate) durable_next: Version,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadRecord {
    Magic,
    Crc,
}

impl RecordHeader {
    pub(crate) fn encode(&self, seed: u32) -> EncodedHeader {
        let mut out = Fields([0; HEADER_BYTES]);
        out.put_u32(0, MAGIC);
        out.put_u32(AT_BODY_LEN, self.body_len);
        out.put_u32(AT_BODY_CRC, self.body_crc);
        out.put_u32(AT_CHAIN, self.chain);
        out.put_u64(AT_VERSION, self.version.0);
        out.put_i64(AT_TIME, self.time_ns);
        out.put_u64(AT_DURABLE, self.durable_next.0);
        match self.what {
            What::Record { term, kind, flags } => {
                out.put_u64(AT_TERM, term);
                out.put_u8(AT_KIND, kind.number());
                out.put_u8(AT_FLAGS, flags);
            }
            What::Schema(key) => {
                out.put_u64(AT_TERM, key.owner);
                out.put_u32(AT_SCHEMA_VERSION, key.version);
                out.put_u8(AT_KIND, SCHEMA);
            }
            What::Unknown(number) => out.put_u8(AT_KIND, number),
        }
        let sum = crc(seed, &out.0[..AT_CRC]);
        out.put_u32(AT_CRC, sum);
        EncodedHeader { bytes: out.0, crc: sum }
    }

    /// Checks a header by itself: magic number and checksum. That it follows its predecessor is for the reader to
    /// check.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], seed: u32) -> Result<DecodedHeader, BadRecord> {
        let f = Fields(*bytes);
        if f.u32(0) != MAGIC {
            return Err(BadRecord::Magic);
        }
        let sum = f.u32(AT_CRC);
        let body_len = f.u32(AT_BODY_LEN);
        if sum != crc(seed, &f.0[..AT_CRC]) || body_len as usize > BODY_BYTES_MAX {
            return Err(BadRecord::Crc);
        }
        let what = match (f.u8(AT_KIND), Kind::from_number(f.u8(AT_KIND))) {
            (_, Some(kind)) => What::Record { term: f.u64(AT_TERM), kind, flags: f.u8(AT_FLAGS) },
            (SCHEMA, None) => {
                What::Schema(SchemaKey { owner: f.u64(AT_TERM), version: f.u32(AT_SCHEMA_VERSION) })
            }
            (number, None) => What::Unknown(number),
        };
        let header = Self {
            body_len,
            body_crc: f.u32(AT_BODY_CRC),
            chain: f.u32(AT_CHAIN),
            version: Version(f.u64(AT_VERSION)),
            time_ns: f.i64(AT_TIME),
            durable_next: Version(f.u64(AT_DURABLE)),
            what,
        };
        Ok(DecodedHeader { header, crc: sum })
    }

    /// Bytes from this header to the next.
    pub(crate) fn block_bytes(&self) -> u64 {
        block_bytes(self.body_len as usize) as u64
    }
}

pub(crate) struct EncodedHeader {
    pub(crate) bytes: [u8; HEADER_BYTES],
    pub(crate) crc: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodedHeader {
    pub(crate) header: RecordHeader,
    pub(crate) crc: u32,
}

/// Checksum of a body.
pub(crate) fn body_crc(body: &[u8]) -> u32 {
    crc(0, body)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sample(what: What) -> RecordHeader {
        RecordHeader {
            body_len: 100,
            body_crc: 0x1234_5678,
            chain: 0x9abc_def0,
            version: Version(42),
            time_ns: -5,
            durable_next: Version(40),
            what,
        }
    }

    #[test]
    fn round_trip() {
        let records = Kind::ALL.map(|kind| What::Record { term: 3, kind, flags: 0x81 });
        let others = [What::Schema(SchemaKey { owner: 9, version: 2 }), What::Unknown(200)];
        for what in records.into_iter().chain(others) {
            let encoded = sample(what).encode(77);
            let decoded = RecordHeader::decode(&encoded.bytes, 77).unwrap();
            assert_eq!((decoded.header, decoded.crc), (sample(what), encoded.crc));
        }
    }

    #[test]
    fn every_flipped_bit_and_a_foreign_seed_are_seen() {
        let bytes = sample(What::Record { term: 1, kind: Kind::Data, flags: 0 }).encode(77).bytes;
        assert_eq!(RecordHeader::decode(&bytes, 78).unwrap_err(), BadRecord::Crc);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(RecordHeader::decode(&bad, 77).is_err(), "bit {bit}");
        }
    }
}
