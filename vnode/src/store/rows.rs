//! Rows in memory as merging sees them: immutable sets of columns, and stretches of them that belong to one table.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use proto::keys::RowKeys;

/// Age of rows: of two rows with one key the higher rank wins, column by column.
///
/// A memtable and the files that its flush makes share a generation, and generations follow the log; within a memtable
/// blocks are numbered as they were applied. So no row needs to carry its version into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Of the memtable, or of the memtable that a file was flushed from.
    pub(super) generation: u64,
    /// Of the block within the memtable; 0 for a file.
    pub(super) seq: u64,
}

/// Which of the read columns a row supplies, by position. A column that it does not supply keeps its older value.
pub(super) type Pattern = Arc<[bool]>;

/// Presence of columns over a [`RowSet`].
#[derive(Clone, Debug)]
pub(super) enum Presence {
    /// Every row supplies every column: nothing older shows through.
    Complete,
    /// All rows supply the same columns.
    Uniform(Pattern),
    /// Row by row: an index into the patterns, of which `None` stands for complete.
    Rows { index: Vec<u16>, patterns: Vec<Option<Pattern>> },
}

impl Presence {
    /// What the row supplies; `None` if everything.
    pub(super) fn pattern(&self, row: usize) -> Option<&Pattern> {
        match self {
            Self::Complete => None,
            Self::Uniform(pattern) => Some(pattern),
            Self::Rows { index, patterns } => {
                index.get(row).and_then(|at| patterns.get(usize::from(*at))).and_then(Option::as_ref)
            }
        }
    }
}

/// Columns of one block or of one batch of a file, cut down to what is read.
#[derive(Debug)]
pub(super) struct RowSet {
    /// Number of rows.
    pub(super) len: usize,
    /// Primary timestamps; empty where a scan found that nobody compares them.
    pub(super) ticks: ScalarBuffer<i64>,
    /// The second part of a composite key; none too where nobody compares it.
    pub(super) keys: RowKeys,
    /// By position in the projection; `None` is NULL throughout.
    pub(super) columns: Vec<Option<ArrayRef>>,
    /// What the rows supply.
    pub(super) presence: Presence,
    /// How large the rows are.
    pub(super) widths: Widths,
}

/// How many bytes the rows of a set hold, of the columns that are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Widths {
    /// Of each row.
    fixed: usize,
    /// Where the values of text columns begin and end.
    texts: Vec<OffsetBuffer<i32>>,
    /// The set holds memory of its own: it is no view of a memtable.
    is_owned: bool,
}

impl Widths {
    /// Of these columns. `is_owned` says that nobody else holds them.
    pub(super) fn of<'a>(columns: impl Iterator<Item = &'a ArrayRef>, is_owned: bool) -> Self {
        let mut widths = Self { is_owned, ..Self::default() };
        for column in columns {
            match column.data_type() {
                DataType::Utf8 => widths.texts.push(column.as_string::<i32>().offsets().clone()),
                DataType::Binary => widths.texts.push(column.as_binary::<i32>().offsets().clone()),
                // A bit of a boolean counts as a byte.
                other => widths.fixed += other.primitive_width().unwrap_or(1),
            }
        }
        widths
    }

    /// Bytes that these rows hold.
    pub(super) fn bytes(&self, rows: Range<usize>) -> usize {
        let texts = self.texts.iter().map(|offsets| {
            let at = |row: usize| offsets.get(row).copied().unwrap_or_default();
            usize::try_from(at(rows.end).saturating_sub(at(rows.start))).unwrap_or_default()
        });
        let fixed = (self.fixed + self.texts.len() * size_of::<i32>()).saturating_mul(rows.len());
        texts.fold(fixed, usize::saturating_add)
    }

    /// The first of these rows that hold no more than `bytes`, and at least one.
    pub(super) fn within(&self, rows: Range<usize>, bytes: usize) -> Range<usize> {
        if self.bytes(rows.clone()) <= bytes {
            return rows;
        }
        let (mut fits, mut too_many) = (1, rows.len());
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            if self.bytes(rows.start..rows.start + middle) <= bytes {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        rows.start..rows.start + fits
    }
}

impl RowSet {
    /// Bytes that go when the set goes.
    pub(super) fn owned_bytes(&self) -> usize {
        if self.widths.is_owned { self.widths.bytes(0..self.len) } else { 0 }
    }
}

/// Rows `start..end` of a set: of one table, ascending strictly by time (and by the second part of a composite key), of one age.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) rows: Arc<RowSet>,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rank: Rank,
}

impl Segment {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Bytes that its rows hold.
    pub(super) fn bytes(&self) -> usize {
        self.rows.widths.bytes(self.start..self.end)
    }

    /// Its timestamps; empty where the set has none.
    pub(super) fn ticks(&self) -> &[i64] {
        self.rows.ticks.get(self.start..self.end).unwrap_or_default()
    }

    pub(super) fn first_tick(&self) -> i64 {
        self.ticks().first().copied().unwrap_or(i64::MIN)
    }

    pub(super) fn last_tick(&self) -> i64 {
        self.ticks().last().copied().unwrap_or(i64::MAX)
    }

    /// The rows with `first <= time <= last_inclusive`, if any.
    pub(super) fn clip(mut self, first: i64, last_inclusive: i64) -> Option<Self> {
        let ticks = self.ticks();
        // The ends answer for most segments without a search.
        let skip = if self.first_tick() >= first { 0 } else { ticks.partition_point(|t| *t < first) };
        let keep = if self.last_tick() <= last_inclusive {
            ticks.len()
        } else {
            ticks.partition_point(|t| *t <= last_inclusive)
        };
        self.end = self.start + keep;
        self.start += skip;
        (self.start < self.end).then_some(self)
    }
}

/// The values of a timestamp column without a copy; `None` if it is not one.
pub(super) fn ticks_of(array: &dyn Array) -> Option<ScalarBuffer<i64>> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            array.as_primitive_opt::<TimestampMillisecondType>().map(|a| a.values().clone())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive_opt::<TimestampMicrosecondType>().map(|a| a.values().clone())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive_opt::<TimestampNanosecondType>().map(|a| a.values().clone())
        }
        _ => None,
    }
}
