//! Which rows of a file belong to which table. Bytes between the last row group and the Parquet footer, where any
//! reader of Parquet passes over them; the footer's key `tidemark.tables` says where: `offset,length,crc32` in decimal.
//!
//! The bytes are one zstd frame of four columns of little-endian 64-bit numbers, one after the other, each as the
//! difference from the value before it (tables, as they ascend; rows as their count; first and last timestamps against
//! the entry before), which leaves zstd little to store for tables that look alike.

use std::ops::Range;

use model::{Code, Error, Result, TableUid};
use query::source::TimeRange;

/// Key in the footer's metadata.
pub(super) const KEY: &str = "tidemark.tables";

/// One table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableRows {
    pub(super) table: TableUid,
    pub(super) rows: Range<u64>,
    pub(super) time: TimeRange,
}

/// Tables of a file in uid order, which is also the order of their rows.
#[derive(Debug, Default)]
pub(super) struct TableIndex {
    tables: Vec<TableUid>,
    /// End of each table's rows; the next table's begin there.
    ends: Vec<u64>,
    firsts: Vec<i64>,
    lasts: Vec<i64>,
}

impl TableIndex {
    pub(super) fn len(&self) -> usize {
        self.tables.len()
    }

    pub(super) fn rows(&self) -> u64 {
        self.ends.last().copied().unwrap_or_default()
    }

    pub(super) fn first_table(&self) -> TableUid {
        self.tables.first().copied().unwrap_or_default()
    }

    pub(super) fn last_table(&self) -> TableUid {
        self.tables.last().copied().unwrap_or_default()
    }

    /// From the earliest to the latest timestamp of all tables.
    pub(super) fn time(&self) -> TimeRange {
        TimeRange {
            first: self.firsts.iter().copied().min().unwrap_or(i64::MAX),
            last_inclusive: self.lasts.iter().copied().max().unwrap_or(i64::MIN),
        }
    }

    /// Appends rows of a table, which is the last one or a higher one; they ascend from `first` to `last`.
    pub(super) fn push(&mut self, table: TableUid, rows: u64, first: i64, last: i64) {
        let end = self.rows() + rows;
        if self.tables.last() == Some(&table)
            && let (Some(held), Some(latest)) = (self.ends.last_mut(), self.lasts.last_mut())
        {
            (*held, *latest) = (end, last);
            return;
        }
        self.tables.push(table);
        self.ends.push(end);
        self.firsts.push(first);
        self.lasts.push(last);
    }

    /// The entry with this number.
    pub(super) fn get(&self, at: usize) -> Option<TableRows> {
        let start = match at.checked_sub(1) {
            None => 0,
            Some(before) => *self.ends.get(before)?,
        };
        Some(TableRows {
            table: *self.tables.get(at)?,
            rows: start..*self.ends.get(at)?,
            time: TimeRange { first: *self.firsts.get(at)?, last_inclusive: *self.lasts.get(at)? },
        })
    }

    /// The number of the first entry that is not below `table`, looking from entry `from` on.
    pub(super) fn seek(&self, from: usize, table: TableUid) -> usize {
        let rest = self.tables.get(from..).unwrap_or_default();
        from + rest.partition_point(|held| *held < table)
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut raw = Vec::with_capacity(self.len() * 32);
        let mut column = |values: &mut dyn Iterator<Item = u64>| {
            let mut before = 0u64;
            for value in values {
                raw.extend_from_slice(&value.wrapping_sub(before).to_le_bytes());
                before = value;
            }
        };
        column(&mut self.tables.iter().map(|t| t.0));
        column(&mut self.ends.iter().copied());
        column(&mut self.firsts.iter().map(|t| t.cast_unsigned()));
        column(&mut self.lasts.iter().map(|t| t.cast_unsigned()));
        zstd::bulk::compress(&raw, 3).map_err(|e| Error::internal("compressing a table index").caused_by(e))
    }

    /// Reads what [`encode`](Self::encode) wrote for `tables` tables. The caller has checked the checksum.
    pub(super) fn decode(bytes: &[u8], tables: usize) -> Result<Self> {
        let damaged = || Error::with(Code::Damaged, "table index");
        let raw_len = tables.checked_mul(32).ok_or_else(damaged)?;
        let raw = zstd::bulk::decompress(bytes, raw_len).map_err(|e| damaged().caused_by(e))?;
        if raw.len() != raw_len {
            return Err(damaged());
        }
        let column = |at: usize| -> Vec<u64> {
            let column = raw.get(at * tables * 8..(at + 1) * tables * 8).unwrap_or_default();
            let (numbers, _) = column.as_chunks::<8>();
            numbers
                .iter()
                .scan(0u64, |sum, number| {
                    *sum = sum.wrapping_add(u64::from_le_bytes(*number));
                    Some(*sum)
                })
                .collect()
        };
        let index = Self {
            tables: column(0).into_iter().map(TableUid).collect(),
            ends: column(1),
            firsts: column(2).into_iter().map(u64::cast_signed).collect(),
            lasts: column(3).into_iter().map(u64::cast_signed).collect(),
        };
        let ascending = index.tables.is_sorted_by(|a, b| a < b) && index.ends.is_sorted_by(|a, b| a < b);
        if ascending { Ok(index) } else { Err(damaged()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let mut index = TableIndex::default();
        index.push(TableUid(5), 10, -7, 90);
        index.push(TableUid(5), 2, 91, 95);
        index.push(TableUid(u64::MAX), 1, i64::MIN, i64::MAX);
        let bytes = index.encode().unwrap();
        let read = TableIndex::decode(&bytes, 2).unwrap();
        assert_eq!(read.get(0).unwrap().rows, 0..12);
        assert_eq!(read.get(0).unwrap().time, TimeRange { first: -7, last_inclusive: 95 });
        assert_eq!(read.get(1).unwrap().rows, 12..13);
        assert_eq!(read.get(2), None);
        assert_eq!(read.seek(0, TableUid(6)), 1);
        assert_eq!(read.time(), TimeRange { first: i64::MIN, last_inclusive: i64::MAX });
    }

    #[test]
    fn refuses_what_it_did_not_write() {
        let mut index = TableIndex::default();
        index.push(TableUid(1), 1, 0, 0);
        let bytes = index.encode().unwrap();
        assert!(TableIndex::decode(&bytes, 2).is_err());
        assert!(TableIndex::decode(&bytes[1..], 1).is_err());
        assert!(TableIndex::decode(&[], 1).is_err());
    }
}
