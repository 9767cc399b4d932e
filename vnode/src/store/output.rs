//! Collects what merging emits and turns it into columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::MutableArrayData;
use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, make_array,
    new_null_array,
};
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::filter::filter;
use model::{Error, Result, TableUid};

use super::projection::Projection;
use super::rows::{Pattern, RowSet, Segment};

/// Rows of one table within an output batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) table: TableUid,
    /// First row that is not the table's any more.
    pub(super) end: usize,
}

/// One batch: columns in the order of the projection, and whose rows they are.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) runs: Vec<Run>,
    pub(super) rows: usize,
}

impl Merged {
    /// The rows of tables that `keep` says yes to.
    pub(super) fn retain(self, keep: impl Fn(TableUid) -> bool) -> Result<Self> {
        if self.runs.iter().all(|run| keep(run.table)) {
            return Ok(self);
        }
        let mut mask = BooleanBufferBuilder::new(self.rows);
        let (mut runs, mut start, mut rows) = (Vec::new(), 0, 0);
        for run in &self.runs {
            let (kept, len) = (keep(run.table), run.end - start);
            mask.append_n(len, kept);
            if kept {
                rows += len;
                runs.push(Run { table: run.table, end: rows });
            }
            start = run.end;
        }
        let mask = BooleanArray::new(mask.finish(), None);
        let columns = self
            .columns
            .iter()
            .map(|column| filter(column, &mask))
            .collect::<Result<_, ArrowError>>()
            .map_err(|e| Error::internal("leaving out dropped tables").caused_by(e))?;
        Ok(Self { columns, runs, rows })
    }
}

/// How much one batch may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct FillLimit {
    /// Rows at most.
    pub(super) rows: usize,
    /// Bytes at most, but for a single row that is larger.
    pub(super) bytes: usize,
}

/// A batch may keep alive this many times the bytes that it holds: of decoded rows that it takes only few from.
const HELD_FACTOR: usize = 8;

impl FillLimit {
    /// What is left of it, at least one row.
    pub(super) fn less(self, output: &Output) -> Self {
        Self {
            rows: self.rows.saturating_sub(output.rows).max(1),
            bytes: self.bytes.saturating_sub(output.bytes),
        }
    }
}

/// Where a value comes from: a set and a row of it.
type Cell = Option<(u32, u32)>;

#[derive(Clone, Debug)]
enum Piece {
    Rows {
        set: u32,
        start: usize,
        len: usize,
    },
    /// One row put together from several: its cells begin here.
    Row {
        first_cell: usize,
        pattern: Option<Pattern>,
    },
}

/// Pieces of rows on their way into a batch. Neighbouring pieces of one set become one, so that a batch that one block
/// or file fills is a slice and not a copy.
#[derive(Debug, Default)]
pub(super) struct Output {
    sets: Vec<Arc<RowSet>>,
    numbers: HashMap<usize, u32>,
    pieces: Vec<Piece>,
    cells: Vec<Cell>,
    runs: Vec<Run>,
    rows: usize,
    /// Of these rows.
    bytes: usize,
    /// Of the sets that they come from.
    held_bytes: usize,
}

impl Output {
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn is_full(&self, limit: FillLimit) -> bool {
        self.rows >= limit.rows
            || self.bytes >= limit.bytes
            || self.held_bytes >= limit.bytes.saturating_mul(HELD_FACTOR)
    }

    /// Whether the next segment comes from the set that the last one came from.
    pub(super) fn continues(&self, segment: &Segment) -> bool {
        self.sets.last().is_some_and(|set| Arc::ptr_eq(set, &segment.rows))
    }

    /// Appends whole rows.
    pub(super) fn push(&mut self, table: TableUid, segment: &Segment) {
        let set = self.number(&segment.rows);
        let len = segment.len();
        self.bytes += segment.bytes();
        match self.pieces.last_mut() {
            Some(Piece::Rows { set: last, start, len: held })
                if *last == set && *start + *held == segment.start =>
            {
                *held += len;
            }
            _ => self.pieces.push(Piece::Rows { set, start: segment.start, len }),
        }
        self.advance(table, len);
    }

    /// Appends the row that several writes of one key come to: `newest_first` are their rows.
    pub(super) fn push_merged(
        &mut self,
        table: TableUid,
        newest_first: &[(Arc<RowSet>, usize)],
        columns: usize,
    ) {
        let first_cell = self.cells.len();
        self.cells.resize(first_cell + columns, None);
        let mut supplied = vec![false; columns];
        let mut complete = false;
        for (rows, row) in newest_first {
            let set = self.number(rows);
            // More than is taken of it, if others supply some of its columns: the batch is the smaller for it.
            self.bytes += rows.widths.bytes(*row..row + 1);
            let cell = Some((set, u32::try_from(*row).unwrap_or(u32::MAX)));
            let pattern = rows.presence.pattern(*row);
            for (column, done) in supplied.iter_mut().enumerate() {
                let has = pattern.is_none_or(|pattern| pattern.get(column).copied().unwrap_or(false));
                if has && !*done {
                    *done = true;
                    if let Some(place) = self.cells.get_mut(first_cell + column) {
                        *place = cell;
                    }
                }
            }
            complete = pattern.is_none();
            if complete {
                break;
            }
        }
        let pattern = (!complete).then(|| Pattern::from(supplied));
        self.pieces.push(Piece::Row { first_cell, pattern });
        self.advance(table, 1);
    }

    fn advance(&mut self, table: TableUid, rows: usize) {
        self.rows += rows;
        match self.runs.last_mut() {
            Some(run) if run.table == table => run.end = self.rows,
            _ => self.runs.push(Run { table, end: self.rows }),
        }
    }

    fn number(&mut self, rows: &Arc<RowSet>) -> u32 {
        let last = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        if self.sets.last().is_some_and(|set| Arc::ptr_eq(set, rows)) {
            return last - 1;
        }
        // The address names the set as long as `sets` holds it.
        *self.numbers.entry(Arc::as_ptr(rows).addr()).or_insert_with(|| {
            self.sets.push(Arc::clone(rows));
            self.held_bytes += rows.owned_bytes();
            last
        })
    }

    /// The `_set` column of the collected rows: NULL where a row is complete, else a bit for each column that it
    /// supplies. `None` if all are complete.
    pub(super) fn presence(&self) -> Option<BinaryArray> {
        let mut builder = BinaryBuilder::new();
        let mut partial = false;
        let mut append = |pattern: Option<&Pattern>| match pattern {
            None => builder.append_null(),
            Some(pattern) => {
                partial = true;
                builder.append_value(pattern_bytes(pattern));
            }
        };
        for piece in &self.pieces {
            match piece {
                Piece::Row { pattern, .. } => append(pattern.as_ref()),
                Piece::Rows { set, start, len } => {
                    let presence = self.sets.get(*set as usize).map(|set| &set.presence);
                    for row in *start..start + len {
                        append(presence.and_then(|presence| presence.pattern(row)));
                    }
                }
            }
        }
        let built = builder.finish();
        partial.then_some(built)
    }

    /// The columns; leaves nothing behind.
    pub(super) fn finish(&mut self, projection: &Projection) -> Result<Merged> {
        let columns = projection
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| self.column(at, &column.data_type))
            .collect::<Result<_, ArrowError>>()
            .map_err(|e| Error::internal("gathering rows of a scan").caused_by(e))?;
        let merged = Merged { columns, runs: std::mem::take(&mut self.runs), rows: self.rows };
        *self = Self::default();
        Ok(merged)
    }

    fn column(&self, at: usize, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let sources: Vec<Option<&ArrayRef>> =
            self.sets.iter().map(|set| set.columns.get(at).and_then(Option::as_ref)).collect();
        if let [Piece::Rows { set, start, len }] = self.pieces.as_slice() {
            return Ok(match sources.get(*set as usize).copied().flatten() {
                Some(array) => array.slice(*start, *len),
                None => new_null_array(data_type, *len),
            });
        }
        if sources.iter().all(Option::is_none) {
            return Ok(new_null_array(data_type, self.rows));
        }
        macro_rules! gather {
            ($($pattern:pat => $native:ty),+ $(,)?) => {
                match data_type {
                    $($pattern => Ok(self.gather_primitive::<$native>(at, &sources, data_type)),)+
                    _ => self.gather_any(at, &sources, data_type),
                }
            };
        }
        gather!(
            DataType::Int8 => Int8Type,
            DataType::Int16 => Int16Type,
            DataType::Int32 => Int32Type,
            DataType::Int64 => Int64Type,
            DataType::UInt8 => UInt8Type,
            DataType::UInt16 => UInt16Type,
            DataType::UInt32 => UInt32Type,
            DataType::UInt64 => UInt64Type,
            DataType::Float32 => Float32Type,
            DataType::Float64 => Float64Type,
            DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
            DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
        )
    }

    fn cell(&self, first_cell: usize, column: usize) -> Cell {
        self.cells.get(first_cell + column).copied().flatten()
    }

    fn gather_primitive<T: ArrowPrimitiveType>(
        &self,
        at: usize,
        sources: &[Option<&ArrayRef>],
        data_type: &DataType,
    ) -> ArrayRef {
        let arrays: Vec<Option<&PrimitiveArray<T>>> =
            sources.iter().map(|source| source.and_then(|array| array.as_primitive_opt::<T>())).collect();
        let source = |set: u32| arrays.get(set as usize).copied().flatten();
        let mut values: Vec<T::Native> = Vec::with_capacity(self.rows);
        let mut nulls = NullBufferBuilder::new(self.rows);
        let mut copy = |array: Option<&PrimitiveArray<T>>, start: usize, len: usize| match array
            .and_then(|array| Some((array, array.values().get(start..start + len)?)))
        {
            None => {
                values.resize(values.len() + len, T::Native::default());
                nulls.append_n_nulls(len);
            }
            Some((array, slice)) => {
                values.extend_from_slice(slice);
                match array.nulls() {
                    None => nulls.append_n_non_nulls(len),
                    Some(held) if len == 1 => nulls.append(held.is_valid(start)),
                    Some(held) => nulls.append_buffer(&held.slice(start, len)),
                }
            }
        };
        for piece in &self.pieces {
            match piece {
                Piece::Rows { set, start, len } => copy(source(*set), *start, *len),
                Piece::Row { first_cell, .. } => match self.cell(*first_cell, at) {
                    Some((set, row)) => copy(source(set), row as usize, 1),
                    None => copy(None, 0, 1),
                },
            }
        }
        let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls.finish());
        Arc::new(array.with_data_type(data_type.clone()))
    }

    /// Booleans and text.
    fn gather_any(
        &self,
        at: usize,
        sources: &[Option<&ArrayRef>],
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let empty = new_null_array(data_type, 0);
        let data: Vec<_> = sources.iter().map(|source| source.unwrap_or(&empty).to_data()).collect();
        let mut array = MutableArrayData::new(data.iter().collect(), true, self.rows);
        let mut copy = |set: u32, start: usize, len: usize| match sources.get(set as usize).copied().flatten()
        {
            Some(_) => array.try_extend(set as usize, start, start + len),
            None => array.try_extend_nulls(len),
        };
        for piece in &self.pieces {
            match piece {
                Piece::Rows { set, start, len } => copy(*set, *start, *len)?,
                Piece::Row { first_cell, .. } => match self.cell(*first_cell, at) {
                    Some((set, row)) => copy(set, row as usize, 1)?,
                    None => copy(u32::MAX, 0, 1)?,
                },
            }
        }
        Ok(make_array(array.freeze()))
    }
}

/// A bit for each column, the lowest bit of the first byte for the first column.
pub(super) fn pattern_bytes(pattern: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0; pattern.len().div_ceil(8)];
    for (bit, _) in pattern.iter().enumerate().filter(|(_, has)| **has) {
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte |= 1 << (bit % 8);
        }
    }
    bytes
}
