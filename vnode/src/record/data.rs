//! Data: one or more writes, each with the rows it brought and the tables it made.
//!
//! ```text
//! u8 format | varint writes
//! per write:  i64 receive time | varint affected rows | u8 flags (bit 0: replicated)
//!             varint length, that many bytes of postcard: tables made by this write (length 0: none)
//!             varint blocks
//!   per block: varint owner | varint schema version | u8 flags (bit 0: complete)
//!              varint columns, per column: varint id minus the id before
//!              varint runs, per run: zigzag varint uid minus the uid before, varint rows
//!              u32 bytes of the frame
//! then per block, on 64 bytes: the frame (see proto::frame)
//! ```
//!
//! All descriptors come first, so that a reader sees whose rows these are before it touches a frame.

use arrow_array::ArrayRef;
use bytes::Bytes;
use model::{ColumnId, SchemaVersion, TableUid};
use proto::frame;

use super::bytes::{Cursor, put_varint, zigzag};
use super::meta::NewTable;
use super::{RecordError, small};
use crate::block::{BlockRun, RowBlock};

const FORMAT: u8 = 1;
const WRITE_REPLICATED: u8 = 1;
const BLOCK_COMPLETE: u8 = 1;
const FRAME_ALIGN: usize = 64;

/// Body of a Data record.
#[derive(Clone, Debug, Default)]
pub struct DataRecord {
    /// In the order they were received.
    pub writes: Vec<WriteRecord>,
}

/// One write: what one request brought.
#[derive(Clone, Debug, Default)]
pub struct WriteRecord {
    /// Receive time, nanoseconds since the epoch.
    pub received_ns: i64,
    /// Rows counted for the answer.
    pub affected_rows: u64,
    /// Written by a replication from another cluster: consumers may leave it out.
    pub replicated: bool,
    /// Children made on the way, before the rows.
    pub creates: Vec<NewTable>,
    /// Rows.
    pub blocks: Vec<RowBlock>,
}

/// Everything of a Data record but its rows.
#[derive(Clone, Debug)]
pub struct DataHeader {
    /// In the order they were received.
    pub writes: Vec<WriteHeader>,
}

/// Everything of a write but its rows.
#[derive(Clone, Debug)]
pub struct WriteHeader {
    /// Receive time, nanoseconds since the epoch.
    pub received_ns: i64,
    /// Rows counted for the answer.
    pub affected_rows: u64,
    /// See [`WriteRecord::replicated`].
    pub replicated: bool,
    /// See [`WriteRecord::creates`].
    pub creates: Vec<NewTable>,
    /// Descriptors of its blocks.
    pub blocks: Vec<BlockHeader>,
}

/// Descriptor of a block: whose rows, which columns, and where they lie.
#[derive(Clone, Debug)]
pub struct BlockHeader {
    /// See [`RowBlock::owner`].
    pub owner: TableUid,
    /// See [`RowBlock::schema_version`].
    pub schema_version: SchemaVersion,
    /// See [`RowBlock::complete`].
    pub complete: bool,
    /// Supplied columns.
    pub columns: Vec<ColumnId>,
    /// See [`RowBlock::runs`].
    pub runs: Vec<BlockRun>,
    frame_len: usize,
    frame_at: usize,
}

impl DataRecord {
    /// The body.
    ///
    /// # Errors
    /// When a column's type cannot lie in a log, or a block's runs do not rise.
    pub fn encode(&self) -> Result<Bytes, RecordError> {
        let mut out = Vec::with_capacity(self.size_hint());
        out.push(FORMAT);
        put_varint(self.writes.len() as u64, &mut out);
        let mut lengths_at = Vec::new();
        for write in &self.writes {
            write.put(&mut out, &mut lengths_at)?;
        }
        let blocks = self.writes.iter().flat_map(|write| &write.blocks);
        for (block, at) in blocks.zip(lengths_at) {
            out.resize(out.len().next_multiple_of(FRAME_ALIGN), 0);
            let start = out.len();
            let columns: Vec<ArrayRef> = block.columns.iter().map(|(_, column)| column.clone()).collect();
            frame::encode(&columns, &mut out)?;
            let len =
                u32::try_from(out.len() - start).map_err(|_| RecordError::Invalid("frame beyond 4 GiB"))?;
            if let Some(slot) = out.get_mut(at..at + 4) {
                slot.copy_from_slice(&len.to_le_bytes());
            }
        }
        Ok(Bytes::from(out))
    }

    fn size_hint(&self) -> usize {
        let blocks = self.writes.iter().flat_map(|write| &write.blocks);
        let rows = blocks.map(|block| {
            let columns: usize =
                block.columns.iter().map(|(_, c)| c.get_buffer_memory_size().min(64 << 20)).sum();
            columns + 24 * block.columns.len() + 12 * block.runs.len() + 128
        });
        rows.sum::<usize>() + 64
    }

    /// Reads a body with all its rows. Their buffers are shared with `body`.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(body: &Bytes) -> Result<Self, RecordError> {
        let header = DataHeader::decode(body)?;
        let writes = header.writes.into_iter().map(|write| {
            let blocks = write.blocks.iter().map(|block| block.rows(body)).collect::<Result<_, _>>()?;
            let WriteHeader { received_ns, affected_rows, replicated, creates, .. } = write;
            Ok(WriteRecord { received_ns, affected_rows, replicated, creates, blocks })
        });
        Ok(Self { writes: writes.collect::<Result<_, RecordError>>()? })
    }
}

impl WriteRecord {
    fn put(&self, out: &mut Vec<u8>, lengths_at: &mut Vec<usize>) -> Result<(), RecordError> {
        out.extend_from_slice(&self.received_ns.to_le_bytes());
        put_varint(self.affected_rows, out);
        out.push(if self.replicated { WRITE_REPLICATED } else { 0 });
        if self.creates.is_empty() {
            put_varint(0, out);
        } else {
            let creates = small::encode(&self.creates)?;
            put_varint(creates.len() as u64, out);
            out.extend_from_slice(&creates);
        }
        put_varint(self.blocks.len() as u64, out);
        for block in &self.blocks {
            put_block(block, out)?;
            lengths_at.push(out.len());
            out.extend_from_slice(&[0; 4]);
        }
        Ok(())
    }
}

fn put_block(block: &RowBlock, out: &mut Vec<u8>) -> Result<(), RecordError> {
    put_varint(block.owner.0, out);
    put_varint(u64::from(block.schema_version.0), out);
    out.push(if block.complete { BLOCK_COMPLETE } else { 0 });
    put_varint(block.columns.len() as u64, out);
    let mut before = 0;
    for (id, _) in &block.columns {
        put_varint(zigzag(i64::from(id.0) - before), out);
        before = i64::from(id.0);
    }
    put_varint(block.runs.len() as u64, out);
    let (mut uid, mut end) = (0_u64, 0_u32);
    for run in &block.runs {
        put_varint(zigzag(run.table.0.wrapping_sub(uid).cast_signed()), out);
        let rows = run.end.checked_sub(end).filter(|rows| *rows > 0);
        put_varint(u64::from(rows.ok_or(RecordError::Invalid("run ends do not rise"))?), out);
        (uid, end) = (run.table.0, run.end);
    }
    Ok(())
}

impl DataHeader {
    /// Reads all but the rows.
    ///
    /// # Errors
    /// When the bytes are no Data body.
    pub fn decode(body: &Bytes) -> Result<Self, RecordError> {
        let mut cursor = Cursor::new(body);
        match cursor.u8()? {
            FORMAT => {}
            other => return Err(RecordError::Format(other)),
        }
        let count = cursor.count()?;
        let mut writes = Vec::with_capacity(count);
        for _ in 0..count {
            writes.push(WriteHeader::decode(&mut cursor)?);
        }
        let mut at = cursor.at;
        for block in writes.iter_mut().flat_map(|write| &mut write.blocks) {
            block.frame_at = at.next_multiple_of(FRAME_ALIGN);
            at = block.frame_at.saturating_add(block.frame_len);
        }
        if at > body.len() && writes.iter().any(|write| !write.blocks.is_empty()) {
            return Err(RecordError::Truncated { at, have: body.len() });
        }
        Ok(Self { writes })
    }

    /// Number of rows over all writes.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.writes.iter().flat_map(|write| &write.blocks).map(|block| u64::from(block.row_count())).sum()
    }
}

impl WriteHeader {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, RecordError> {
        let received_ns = cursor.i64()?;
        let affected_rows = cursor.varint()?;
        let replicated = cursor.u8()? & WRITE_REPLICATED != 0;
        let creates = match cursor.count()? {
            0 => Vec::new(),
            len => small::decode(cursor.slice(len)?)?,
        };
        let count = cursor.count()?;
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            blocks.push(BlockHeader::decode(cursor)?);
        }
        Ok(Self { received_ns, affected_rows, replicated, creates, blocks })
    }
}

impl BlockHeader {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, RecordError> {
        let owner = TableUid(cursor.varint()?);
        let schema_version = SchemaVersion(cursor.number()?);
        let complete = cursor.u8()? & BLOCK_COMPLETE != 0;
        let count = cursor.count()?;
        let mut columns = Vec::with_capacity(count);
        let mut before = 0_i64;
        for _ in 0..count {
            before = before.wrapping_add(cursor.signed()?);
            let id = u16::try_from(before).map_err(|_| RecordError::Invalid("column id out of range"))?;
            columns.push(ColumnId(id));
        }
        let count = cursor.count()?;
        let mut runs = Vec::with_capacity(count);
        let (mut uid, mut end) = (0_u64, 0_u32);
        for _ in 0..count {
            uid = uid.wrapping_add(cursor.signed()?.cast_unsigned());
            let rows: u32 = cursor.number()?;
            let next = end.checked_add(rows).filter(|_| rows > 0);
            end = next.ok_or(RecordError::Invalid("run ends do not rise"))?;
            runs.push(BlockRun { table: TableUid(uid), end });
        }
        let frame_len =
            usize::try_from(cursor.u32()?).map_err(|_| RecordError::Invalid("frame beyond memory"))?;
        Ok(Self { owner, schema_version, complete, columns, runs, frame_len, frame_at: 0 })
    }

    /// Number of rows.
    #[must_use]
    pub fn row_count(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// The rows, which lie in `body`, the body that this descriptor was read from. Buffers are shared with it.
    ///
    /// # Errors
    /// When the columns are not what the descriptor says.
    pub fn rows(&self, body: &Bytes) -> Result<RowBlock, RecordError> {
        self.rows_of(body, |_| true)
    }

    /// The same with some columns alone, perhaps none: of the others nothing is read but where they end.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn rows_of(&self, body: &Bytes, wanted: impl Fn(ColumnId) -> bool) -> Result<RowBlock, RecordError> {
        let is_wanted = |at: usize| self.columns.get(at).is_some_and(|id| wanted(*id));
        let frame = frame::decode_some(body, self.frame_at, is_wanted)?;
        let rows = usize::try_from(self.row_count()).unwrap_or(usize::MAX);
        if frame.columns.len() != self.columns.len() || frame.rows != rows {
            return Err(RecordError::Invalid("rows differ from their descriptor"));
        }
        let columns = self.columns.iter().zip(frame.columns);
        Ok(RowBlock {
            owner: self.owner,
            schema_version: self.schema_version,
            runs: self.runs.clone(),
            columns: columns.filter_map(|(id, column)| Some((*id, column?))).collect(),
            complete: self.complete,
        })
    }
}

#[cfg(test)]
mod tests;
