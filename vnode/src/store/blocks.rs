//! What blocks of rows come to: for each block of one table's rows in a file, and each column, how many values, their
//! sum, least, largest, first and last. Aggregates over a block are answered from it without reading the block.
//!
//! Bytes between the last row group and the Parquet footer, as the table index; the footer's key `tidemark.blocks` says
//! where. docs/data-files.md draws them. Tables with few rows in the file have no blocks: summing their rows up is as
//! quick, and what they come to would take more room than they do.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, SchemaRef};
use model::{Code, ColumnId, Error, Result};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use query::source::{BlockSum, TimeRange};

use super::format::{FIELD_PRESENCE, FIELD_TBNAME};
use super::output::Run;

/// Key in the footer's metadata.
pub(super) const KEY: &str = "tidemark.blocks";
/// Rows of a block at most.
const ROWS_MAX: usize = 8_192;
/// Fewer rows of a table that lie together make no block. Tests with their few rows want some too.
const ROWS_MIN: usize = if cfg!(test) { 4 } else { 128 };
/// Numbers of a block for each of its columns.
const COLUMN_NUMBERS: usize = 6;
/// Numbers of a block beside them: first row, rows, first and last timestamp.
const HEAD_NUMBERS: usize = 4;

/// One block of one table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) rows: Range<u64>,
    pub(super) time: TimeRange,
    /// By position in [`Blocks::columns`].
    pub(super) sums: Vec<BlockSum>,
}

/// Blocks of a file in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Blocks {
    /// Numeric columns.
    pub(super) columns: Vec<ColumnId>,
    pub(super) blocks: Vec<Block>,
}

/// Makes the blocks of a file while it is written.
#[derive(Debug, Default)]
pub(super) struct BlockWriter {
    /// Places in the batches.
    places: Vec<usize>,
    blocks: Blocks,
    rows: u64,
}

impl BlockWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let (mut places, mut columns) = (Vec::new(), Vec::new());
        for (place, field) in schema.fields().iter().enumerate() {
            let id = field.metadata().get(PARQUET_FIELD_ID_META_KEY).and_then(|id| id.parse::<i32>().ok());
            let id = id.filter(|id| !matches!(*id, FIELD_TBNAME | FIELD_PRESENCE));
            if let Some(id) = id.and_then(|id| u16::try_from(id).ok())
                && field.data_type().is_numeric()
            {
                places.push(place);
                columns.push(ColumnId(id));
            }
        }
        Self { places, blocks: Blocks { columns, blocks: Vec::new() }, rows: 0 }
    }

    /// Takes in the next rows of the file.
    pub(super) fn push(&mut self, columns: &[ArrayRef], ticks: &[i64], runs: &[Run]) {
        let mut start = 0;
        for run in runs {
            if run.end - start >= ROWS_MIN {
                let parts = (run.end - start).div_ceil(ROWS_MAX);
                let rows = (run.end - start).div_ceil(parts);
                for from in (start..run.end).step_by(rows) {
                    self.block(columns, ticks, from..run.end.min(from + rows));
                }
            }
            start = run.end;
        }
        self.rows += ticks.len() as u64;
    }

    fn block(&mut self, columns: &[ArrayRef], ticks: &[i64], rows: Range<usize>) {
        let times = ticks.get(rows.clone()).and_then(|ticks| ticks.first().zip(ticks.last()));
        let Some((first, last_inclusive)) = times.map(|(first, last)| (*first, *last)) else { return };
        let sums = self.places.iter().map(|place| {
            let array = columns.get(*place).map(|array| array.slice(rows.start, rows.len()));
            array.map_or(BlockSum::UNKNOWN, |array| sum(&array))
        });
        let sums = sums.collect();
        let (start, end) = (self.rows + rows.start as u64, self.rows + rows.end as u64);
        self.blocks.blocks.push(Block { rows: start..end, time: TimeRange { first, last_inclusive }, sums });
    }

    pub(super) fn finish(self) -> Blocks {
        self.blocks
    }
}

/// What the values of an array come to.
fn sum(array: &dyn Array) -> BlockSum {
    macro_rules! numeric {
        ($($pattern:pat => $native:ty, $bits:expr, $add:expr);+ $(;)?) => {
            match array.data_type() {
                $($pattern => primitive::<$native>(array, $bits, $add),)+
                _ => BlockSum::UNKNOWN,
            }
        };
    }
    let add_i = |sum: u64, v: u64| sum.wrapping_add(v);
    let add_f = |sum: u64, v: u64| (f64::from_bits(sum) + f64::from_bits(v)).to_bits();
    numeric! {
        DataType::Int8 => Int8Type, |v| i64::from(v).cast_unsigned(), add_i;
        DataType::Int16 => Int16Type, |v| i64::from(v).cast_unsigned(), add_i;
        DataType::Int32 => Int32Type, |v| i64::from(v).cast_unsigned(), add_i;
        DataType::Int64 => Int64Type, |v: i64| v.cast_unsigned(), add_i;
        DataType::UInt8 => UInt8Type, u64::from, add_i;
        DataType::UInt16 => UInt16Type, u64::from, add_i;
        DataType::UInt32 => UInt32Type, u64::from, add_i;
        DataType::UInt64 => UInt64Type, |v| v, add_i;
        DataType::Float32 => Float32Type, |v| f64::from(v).to_bits(), add_f;
        DataType::Float64 => Float64Type, |v: f64| v.to_bits(), add_f;
    }
}

fn primitive<T: ArrowPrimitiveType>(
    array: &dyn Array,
    bits: impl Fn(T::Native) -> u64,
    add: impl Fn(u64, u64) -> u64,
) -> BlockSum
where
    T::Native: PartialOrd,
{
    let Some(array) = array.as_primitive_opt::<T>() else { return BlockSum::UNKNOWN };
    let mut values = array.iter().flatten();
    let Some(first) = values.next() else { return BlockSum::EMPTY };
    let (mut least, mut largest, mut last, mut count) = (first, first, first, 1);
    let mut total = bits(first);
    // What is not equal to itself has no place in an order, and makes a sum of itself.
    #[expect(clippy::eq_op, reason = "NaN is not equal to itself")]
    let is_nan = |v: T::Native| v != v;
    if is_nan(first) {
        return BlockSum::UNKNOWN;
    }
    for value in values {
        if is_nan(value) {
            return BlockSum::UNKNOWN;
        }
        if value < least {
            least = value;
        }
        if value > largest {
            largest = value;
        }
        last = value;
        count += 1;
        total = add(total, bits(value));
    }
    BlockSum { count, sum: total, min: bits(least), max: bits(largest), first: bits(first), last: bits(last) }
}

impl Blocks {
    /// One zstd frame of little-endian 64-bit numbers: how many columns, their ids, then number by number over all blocks.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut raw: Vec<u8> = Vec::new();
        let mut put = |number: u64| raw.extend_from_slice(&number.to_le_bytes());
        put(self.columns.len() as u64);
        self.columns.iter().for_each(|id| put(u64::from(id.0)));
        let blocks = || self.blocks.iter();
        blocks().for_each(|block| put(block.rows.start));
        blocks().for_each(|block| put(block.rows.end - block.rows.start));
        blocks().for_each(|block| put(block.time.first.cast_unsigned()));
        blocks().for_each(|block| put(block.time.last_inclusive.cast_unsigned()));
        for column in 0..self.columns.len() {
            for number in 0..COLUMN_NUMBERS {
                for block in blocks() {
                    let sum = block.sums.get(column).copied().unwrap_or(BlockSum::UNKNOWN);
                    put(sum.numbers().get(number).copied().unwrap_or_default());
                }
            }
        }
        zstd::bulk::compress(&raw, 3).map_err(|e| Error::internal("compressing block sums").caused_by(e))
    }

    /// Reads what [`encode`](Self::encode) wrote for `blocks` blocks. The caller has checked the checksum.
    pub(super) fn decode(bytes: &[u8], blocks: usize, columns: usize) -> Result<Self> {
        let damaged = || Error::with(Code::Damaged, "block sums");
        let per_block = columns.checked_mul(COLUMN_NUMBERS).and_then(|n| n.checked_add(HEAD_NUMBERS));
        let numbers = per_block.and_then(|n| n.checked_mul(blocks)).and_then(|n| n.checked_add(1 + columns));
        let raw_len = numbers.and_then(|n| n.checked_mul(8)).ok_or_else(damaged)?;
        let raw = zstd::bulk::decompress(bytes, raw_len).map_err(|e| damaged().caused_by(e))?;
        let (numbers, []) = raw.as_chunks::<8>() else { return Err(damaged()) };
        let number = |at: usize| numbers.get(at).map(|n| u64::from_le_bytes(*n)).ok_or_else(damaged);
        if raw.len() != raw_len || number(0)? != columns as u64 {
            return Err(damaged());
        }
        let ids = (1..=columns).map(|at| u16::try_from(number(at)?).map(ColumnId).map_err(|_| damaged()));
        let ids: Vec<ColumnId> = ids.collect::<Result<_>>()?;
        let base = 1 + columns;
        let mut found = Vec::with_capacity(blocks);
        for block in 0..blocks {
            let head = |which: usize| number(base + which * blocks + block);
            let (start, rows) = (head(0)?, head(1)?);
            let time = TimeRange { first: head(2)?.cast_signed(), last_inclusive: head(3)?.cast_signed() };
            let mut sums = Vec::with_capacity(columns);
            for column in 0..columns {
                let at = |which: usize| {
                    number(base + (HEAD_NUMBERS + column * COLUMN_NUMBERS + which) * blocks + block)
                };
                sums.push(BlockSum {
                    count: at(0)?,
                    sum: at(1)?,
                    min: at(2)?,
                    max: at(3)?,
                    first: at(4)?,
                    last: at(5)?,
                });
            }
            found.push(Block { rows: start..start.checked_add(rows).ok_or_else(damaged)?, time, sums });
        }
        let ascend = found.is_sorted_by(|a, b| a.rows.end <= b.rows.start);
        if ascend { Ok(Self { columns: ids, blocks: found }) } else { Err(damaged()) }
    }

    /// Bytes that so many blocks of so many columns take in memory.
    pub(super) fn bytes(blocks: usize, columns: usize) -> usize {
        blocks.saturating_mul(size_of::<Block>() + columns.saturating_mul(size_of::<BlockSum>()))
    }

    /// The blocks within these rows.
    pub(super) fn within(&self, rows: &Range<u64>) -> &[Block] {
        let from = self.blocks.partition_point(|block| block.rows.start < rows.start);
        let rest = self.blocks.get(from..).unwrap_or_default();
        let to = rest.partition_point(|block| block.rows.end <= rows.end);
        rest.get(..to).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float32Array, Int32Array, TimestampMillisecondArray};
    use model::TableSchema;

    use super::super::format::file_schema;
    use super::*;

    fn written(values: Vec<Option<i32>>, floats: Vec<f32>) -> Blocks {
        let rows = values.len();
        let columns = [
            ("ts", model::DataType::Timestamp),
            ("i", model::DataType::Int),
            ("f", model::DataType::Float),
            ("s", model::DataType::Varchar(4)),
        ];
        let columns = columns.map(|(name, ty)| (name.to_owned(), ty)).to_vec();
        let schema = file_schema(&TableSchema::new(columns, Vec::new()), model::Precision::Ms, false);
        let ticks: Vec<i64> = (0..).take(rows).collect();
        let arrays: [ArrayRef; 5] = [
            Arc::new(Int32Array::from(vec![0; rows])),
            Arc::new(TimestampMillisecondArray::from(ticks.clone())),
            Arc::new(Int32Array::from(values)),
            Arc::new(Float32Array::from(floats)),
            Arc::new(Int32Array::from(vec![0; rows])),
        ];
        let mut writer = BlockWriter::new(&schema);
        let table = model::TableUid(1);
        let few = ROWS_MIN - 1;
        writer.push(
            &arrays,
            &ticks,
            &[Run { table, end: few }, Run { table: model::TableUid(2), end: rows }],
        );
        writer.finish()
    }

    #[test]
    fn sums_are_those_of_the_values_and_survive_encoding() {
        let values: Vec<Option<i32>> = (0..20_100).map(|n| (n % 3 != 0).then_some(n - 10_000)).collect();
        let blocks = written(values.clone(), (0..20_100_u16).map(|n| f32::from(n) / 2.0).collect());
        assert_eq!(blocks.columns, [ColumnId(2), ColumnId(3)]);
        // The first table has too few rows; the second's are cut evenly.
        let parts: Vec<_> = blocks.blocks.iter().map(|b| b.rows.clone()).collect();
        assert_eq!(parts, [3..6_702, 6_702..13_401, 13_401..20_100]);
        let block = &blocks.blocks[0];
        let expected: Vec<i64> = values[3..6_702].iter().flatten().map(|v| i64::from(*v)).collect();
        let sum = block.sums[0];
        assert_eq!(sum.count, expected.len() as u64);
        assert_eq!(sum.sum.cast_signed(), expected.iter().sum::<i64>());
        assert_eq!((sum.min.cast_signed(), sum.max.cast_signed()), (expected[0], *expected.last().unwrap()));
        assert_eq!(
            (sum.first.cast_signed(), sum.last.cast_signed()),
            (expected[0], *expected.last().unwrap())
        );
        assert_eq!(f64::from_bits(block.sums[1].max), 3_350.5);
        assert_eq!(Blocks::decode(&blocks.encode().unwrap(), 3, 2).unwrap(), blocks);
        assert_eq!(blocks.within(&(3..13_401)).len(), 2);
        assert_eq!(blocks.within(&(4..13_402)).len(), 1);
    }

    #[test]
    fn what_has_no_order_is_unknown_and_what_is_empty_is_empty() {
        let mut floats = vec![1.0; 300];
        floats[200] = f32::NAN;
        let blocks = written(vec![None; 300], floats);
        assert_eq!(blocks.blocks[0].sums, [BlockSum::EMPTY, BlockSum::UNKNOWN]);
    }

    #[test]
    fn refuses_what_it_did_not_write() {
        let blocks = written(vec![Some(1); 300], vec![1.0; 300]);
        let bytes = blocks.encode().unwrap();
        assert!(Blocks::decode(&bytes, 2, 2).is_err());
        assert!(Blocks::decode(&bytes, 1, 3).is_err());
        assert!(Blocks::decode(&bytes[1..], 1, 2).is_err());
        assert!(Blocks::decode(&[], 0, 0).is_err());
    }
}
