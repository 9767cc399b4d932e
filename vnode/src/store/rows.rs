//! Rows in memory as merging sees them: immutable sets of columns, and stretches of them that belong to one table.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};

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
    /// By position in the projection; `None` is NULL throughout.
    pub(super) columns: Vec<Option<ArrayRef>>,
    /// What the rows supply.
    pub(super) presence: Presence,
}

/// Rows `start..end` of a set: of one table, ascending strictly by time, of one age.
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
