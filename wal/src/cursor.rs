//! Walks the blocks of one segment file, verifying each. Recovery, readers, index building and `verify` all go through
//! here, so there is one answer to what an intact block is.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::buffer::ReadBuffer;
use crate::disk::DiskFile;
use crate::error::Fault;
use crate::format::record::{self, BadRecord, DecodedHeader, RecordHeader, What, body_crc};
use crate::{SchemaKey, Version};

/// Where to start, and what is known about the block that stands there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) offset: u64,
    /// The version that the block must have.
    pub(crate) version: Option<Version>,
    /// The header CRC of the block before it.
    pub(crate) chain: Option<u32>,
    /// How far it is to the next known place; 0 if there is none.
    pub(crate) bytes: u64,
}

/// A block whose header is intact and in its place. Its body is verified when it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    pub(crate) header: RecordHeader,
    pub(crate) crc: u32,
}

impl Block {
    /// Byte after the block.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.header.block_bytes()
    }

    pub(crate) fn schema_key(&self) -> Option<SchemaKey> {
        match self.header.what {
            What::Schema(key) => Some(key),
            _ => None,
        }
    }
}

/// Why a walk cannot go on.
#[derive(Debug)]
pub(crate) enum Stop {
    Io(io::Error),
    Bad(Fault),
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// The first read of a cursor.
const AHEAD_BYTES_FIRST: usize = 16 << 10;

pub(crate) struct Cursor {
    file: Arc<dyn DiskFile>,
    seed: u32,
    at: Start,
    read_bytes: usize,
    /// How much the next read asks for: little at first, since many a reader wants one record, then more.
    ahead: usize,
    /// Size of the block before, as a guess at those to come.
    block_bytes: u64,
    buffer: ReadBuffer,
    chunk: Bytes,
    chunk_offset: u64,
}

impl Cursor {
    /// `seed` is the segment's; `read_bytes` is how much is read ahead at most.
    pub(crate) fn new(file: Arc<dyn DiskFile>, seed: u32, at: Start, read_bytes: usize) -> Self {
        let (buffer, chunk) = (ReadBuffer::default(), Bytes::new());
        // A block as large as that lies between two known places, or the one that is looked for among smaller ones.
        let expected = usize::try_from(at.bytes).unwrap_or(usize::MAX);
        let ahead = read_bytes.min(AHEAD_BYTES_FIRST.max(expected));
        Self { file, seed, at, read_bytes, ahead, block_bytes: 0, buffer, chunk, chunk_offset: 0 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.at.offset
    }

    /// Reads into the buffer of a cursor before it.
    pub(crate) fn with_buffer(self, buffer: ReadBuffer) -> Self {
        Self { buffer, ..self }
    }

    pub(crate) fn into_buffer(self) -> ReadBuffer {
        self.buffer
    }

    /// Goes on in another segment, keeping the buffer.
    pub(crate) fn restart(&mut self, file: Arc<dyn DiskFile>, seed: u32, at: Start) {
        self.file = file;
        self.seed = seed;
        self.at = at;
        self.chunk = Bytes::new();
    }

    /// The block at the cursor, none at `limit`: blocks end at or before it.
    pub(crate) fn block(&mut self, limit: u64) -> Result<Option<Block>, Stop> {
        let offset = self.at.offset;
        if offset >= limit {
            return Ok(None);
        }
        if limit - offset < record::HEADER_BYTES as u64 {
            return Err(Stop::Bad(Fault::Truncated));
        }
        let DecodedHeader { header, crc } = self.decode(offset, limit)?;
        if self.at.chain.is_some_and(|chain| chain != header.chain) {
            return Err(Stop::Bad(Fault::Chain));
        }
        if self.at.version.is_some_and(|version| version != header.version) {
            return Err(Stop::Bad(Fault::Version));
        }
        if header.block_bytes() > limit - offset {
            return Err(Stop::Bad(Fault::Truncated));
        }
        Ok(Some(Block { offset, header, crc }))
    }

    /// The body of a block, verified; it starts on 64 bytes.
    pub(crate) fn body(&mut self, block: &Block, limit: u64) -> Result<Bytes, Stop> {
        let len = block.header.body_len as usize;
        self.fetch(block.offset, record::HEADER_BYTES + len, limit)?;
        let from = self.in_chunk(block.offset) + record::HEADER_BYTES;
        let body = self.chunk.slice(from..from + len);
        if body_crc(&body) != block.header.body_crc {
            return Err(Stop::Bad(Fault::BodyCrc));
        }
        Ok(body)
    }

    /// Moves behind a block.
    pub(crate) fn pass(&mut self, block: &Block) {
        let version = match block.header.what {
            What::Schema(_) => block.header.version,
            What::Record { .. } | What::Unknown(_) => block.header.version.next(),
        };
        self.at = Start { offset: block.end(), version: Some(version), chain: Some(block.crc), bytes: 0 };
        self.block_bytes = block.header.block_bytes();
    }

    /// Goes to an offset about which nothing is known.
    pub(crate) fn jump(&mut self, offset: u64) {
        self.at = Start { offset, version: None, chain: None, bytes: 0 };
    }

    fn decode(&mut self, offset: u64, limit: u64) -> Result<DecodedHeader, Stop> {
        self.fetch(offset, record::HEADER_BYTES, limit)?;
        let from = self.in_chunk(offset);
        let mut bytes = [0; record::HEADER_BYTES];
        bytes.copy_from_slice(&self.chunk[from..from + record::HEADER_BYTES]);
        RecordHeader::decode(&bytes, self.seed).map_err(|bad| {
            Stop::Bad(match bad {
                BadRecord::Magic => Fault::Magic,
                BadRecord::Crc => Fault::HeaderCrc,
            })
        })
    }

    /// Makes the chunk hold `len` bytes at `offset`, which lies on 64 bytes like all headers.
    fn fetch(&mut self, offset: u64, len: usize, limit: u64) -> io::Result<()> {
        let held = self.chunk_offset..self.chunk_offset + self.chunk.len() as u64;
        if held.start <= offset && offset + len as u64 <= held.end {
            return Ok(());
        }
        let available = usize::try_from(limit - offset).unwrap_or(usize::MAX);
        // Whole blocks, if they are all alike: a part of one is read again with the next.
        let ahead = match usize::try_from(self.block_bytes) {
            Ok(block) if block <= self.ahead => self.ahead - self.ahead.checked_rem(block).unwrap_or(0),
            _ => self.ahead,
        };
        let wanted = available.min(len.max(ahead));
        self.ahead = (self.ahead * 2).min(self.read_bytes);
        self.chunk = Bytes::new(); // lets the buffer be used again
        let file = &self.file;
        self.chunk = self.buffer.filled(wanted, |buf| file.read_at(buf, offset))?;
        self.chunk_offset = offset;
        Ok(())
    }

    fn in_chunk(&self, offset: u64) -> usize {
        usize::try_from(offset - self.chunk_offset).unwrap_or(usize::MAX)
    }
}
