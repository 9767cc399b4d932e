//! Turns records into the bytes of one write.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::ops::Range;

use bytes::Bytes;

use crate::cursor::Block;
use crate::format::record::{HEADER_BYTES, RecordHeader, What, body_crc};
use crate::format::{ALIGN, block_bytes};
use crate::record::NewRecord;
use crate::{SchemaKey, Version};

/// Bodies up to this are copied beside their headers; larger ones are handed to the disk where they lie.
const COPY_BYTES_MAX: usize = 4096;

/// Where in a segment a batch goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) seed: u32,
    pub(crate) offset: u64,
    /// Header CRC of the block before.
    pub(crate) chain: u32,
    pub(crate) version: Version,
    pub(crate) durable_next: Version,
}

/// An encoded batch.
#[derive(Default)]
pub(crate) struct Batch {
    copied: Vec<u8>,
    pieces: Vec<Piece>,
    pub(crate) blocks: Vec<Block>,
    schemas: BTreeSet<SchemaKey>,
}

enum Piece {
    Copied(Range<usize>),
    InPlace(Bytes),
}

impl Batch {
    /// Encodes `records` for `place`. `stored` tells which schemas the segment has already. Keeps the memory of the
    /// batch before.
    pub(crate) fn encode(
        &mut self,
        mut place: Place,
        records: &[NewRecord],
        stored: impl Fn(SchemaKey) -> bool,
    ) {
        self.clear();
        for record in records {
            for schema in &record.schemas {
                if !stored(schema.key) && self.schemas.insert(schema.key) {
                    self.push(&mut place, What::Schema(schema.key), record.time_ns, &schema.bytes);
                }
            }
            let what = What::Record { term: record.term, kind: record.kind, flags: record.flags };
            self.push(&mut place, what, record.time_ns, &record.body);
            place.version = place.version.next();
        }
    }

    fn clear(&mut self) {
        self.copied.clear();
        self.pieces.clear();
        self.blocks.clear();
        self.schemas.clear();
    }

    fn push(&mut self, place: &mut Place, what: What, time_ns: i64, body: &Bytes) {
        let header = RecordHeader {
            body_len: u32::try_from(body.len()).unwrap_or(u32::MAX), // lengths were checked against BODY_BYTES_MAX
            body_crc: body_crc(body),
            chain: place.chain,
            version: place.version,
            time_ns,
            durable_next: place.durable_next,
            what,
        };
        let encoded = header.encode(place.seed);
        self.copy(&encoded.bytes);
        if body.len() <= COPY_BYTES_MAX {
            self.copy(body);
        } else {
            self.pieces.push(Piece::InPlace(body.clone()));
        }
        self.copy(&[0; ALIGN][..body.len().next_multiple_of(ALIGN) - body.len()]);
        self.blocks.push(Block { offset: place.offset, header, crc: encoded.crc });
        place.chain = encoded.crc;
        place.offset += header.block_bytes();
    }

    fn copy(&mut self, bytes: &[u8]) {
        let start = self.copied.len();
        self.copied.extend_from_slice(bytes);
        let end = self.copied.len();
        match self.pieces.last_mut() {
            Some(Piece::Copied(range)) => range.end = end,
            _ => self.pieces.push(Piece::Copied(start..end)),
        }
    }

    /// The bytes, in order.
    pub(crate) fn slices(&self) -> Vec<IoSlice<'_>> {
        let slices = self.pieces.iter().map(|piece| match piece {
            Piece::Copied(range) => IoSlice::new(&self.copied[range.clone()]),
            Piece::InPlace(bytes) => IoSlice::new(bytes),
        });
        slices.collect()
    }

    /// Size of all of it.
    pub(crate) fn bytes(&self) -> u64 {
        match (self.blocks.first(), self.blocks.last()) {
            (Some(first), Some(last)) => last.end() - first.offset,
            _ => 0,
        }
    }

    /// Lets go of the bodies.
    pub(crate) fn release(&mut self) {
        self.pieces.clear();
        self.copied.shrink_to(1 << 20);
    }
}

/// Upper bound of what `records` take in a segment: as if it had none of their schemas.
pub(crate) fn bytes_max(records: &[NewRecord]) -> u64 {
    let record_bytes = |record: &NewRecord| {
        let schemas = record.schemas.iter().map(|schema| block_bytes(schema.bytes.len())).sum::<usize>();
        block_bytes(record.body.len()) + schemas
    };
    records.iter().map(record_bytes).sum::<usize>() as u64
}

/// What a record with a body of `len` bytes takes in the log.
#[must_use]
pub const fn record_bytes(body_len: usize) -> u64 {
    (HEADER_BYTES + body_len.next_multiple_of(ALIGN)) as u64
}
