//! What orders rows of one table: their time, and the second part of a composite key where there is one.
//!
//! Merging is written once over both: without a second part it compares nothing but times.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

use super::rows::{RowSet, Segment};

/// The second part of a row's key.
pub(super) trait RowKey: Clone + Debug + Ord {
    /// That of a row.
    fn of(rows: &Arc<RowSet>, row: usize) -> Self;

    /// How many of a segment's rows come before this time and key.
    fn rows_before(segment: &Segment, tick: i64, key: &Self) -> usize;
}

/// Number of rows before `tick` and `key`, found with few looks at keys: those of one instant are few.
fn rows_before<K: RowKey>(segment: &Segment, tick: i64, key: &K) -> usize {
    let ticks = segment.ticks();
    let mut first = ticks.partition_point(|t| *t < tick);
    let mut end = first + ticks.get(first..).unwrap_or_default().partition_point(|t| *t == tick);
    while first < end {
        let middle = first.midpoint(end);
        if K::of(&segment.rows, segment.start + middle) < *key {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    first
}

/// Time is the whole key.
impl RowKey for () {
    fn of(_: &Arc<RowSet>, _: usize) -> Self {}

    fn rows_before(segment: &Segment, tick: i64, (): &Self) -> usize {
        segment.ticks().partition_point(|t| *t < tick)
    }
}

/// A number, in the order of [`proto::keys::RowKeys::number`].
impl RowKey for i64 {
    fn of(rows: &Arc<RowSet>, row: usize) -> Self {
        rows.keys.number(row)
    }

    fn rows_before(segment: &Segment, tick: i64, key: &Self) -> usize {
        rows_before(segment, tick, key)
    }
}

/// A text, where it lies.
#[derive(Clone, Debug)]
pub(super) struct TextKey {
    rows: Arc<RowSet>,
    row: usize,
}

impl TextKey {
    fn text(&self) -> &str {
        self.rows.keys.text(self.row)
    }
}

impl RowKey for TextKey {
    fn of(rows: &Arc<RowSet>, row: usize) -> Self {
        Self { rows: Arc::clone(rows), row }
    }

    fn rows_before(segment: &Segment, tick: i64, key: &Self) -> usize {
        rows_before(segment, tick, key)
    }
}

impl Ord for TextKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text().cmp(other.text())
    }
}

impl PartialOrd for TextKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TextKey {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for TextKey {}
