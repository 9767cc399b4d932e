//! Rows that are not in files yet: applied blocks as they came, and an index of which stretch of which block belongs to
//! which table.
//!
//! Nothing is sorted when rows arrive. A block costs its reference and a table's stretch of it 16 bytes; order is found
//! when somebody reads, from stretches that each ascend already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use model::{ColumnId, TableUid, Version};
use parking_lot::RwLock;
use query::source::TimeRange;

use super::rows::ticks_of;
use crate::block::RowBlock;

/// An applied block.
#[derive(Debug)]
pub(super) struct MemBlock {
    /// Place in the order of application over the whole vnode.
    pub(super) seq: u64,
    /// Log version that brought it.
    pub(super) version: Version,
    /// Values of the primary timestamp.
    pub(super) ticks: ScalarBuffer<i64>,
    /// Supplied columns, views of the log record's body.
    pub(super) columns: Vec<(ColumnId, ArrayRef)>,
    /// Whether these were all columns of the table's schema.
    pub(super) complete: bool,
}

/// Rows of one table within a block.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) block: Arc<MemBlock>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// All stretches of one table, in the order of application.
#[derive(Clone, Debug)]
pub(super) struct TableStretches {
    pub(super) table: TableUid,
    pub(super) stretches: Vec<Stretch>,
}

/// What one apply added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Added {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// A memtable. Writers and readers share it: a reader remembers the sequence number of its moment and passes over
/// blocks from it on. The lock is held for one block's index entries by the writer and for a bounded number of them by
/// a reader.
#[derive(Debug)]
pub(super) struct Memtable {
    pub(super) generation: u64,
    owners: RwLock<BTreeMap<TableUid, OwnerRows>>,
}

impl Memtable {
    pub(super) fn new(generation: u64) -> Self {
        Self { generation, owners: RwLock::default() }
    }

    /// Takes a block in. `duration_ticks` is the length of a time bucket.
    pub(super) fn insert(&self, seq: u64, version: Version, block: RowBlock, duration_ticks: i64) -> Added {
        let Some(ticks) = block.columns.first().and_then(|(_, column)| ticks_of(column)) else {
            // Blocks are checked before they are proposed, and apply cannot refuse.
            tracing::error!(owner = %block.owner, %version, "block without a timestamp column");
            return Added::default();
        };
        let rows = ticks.len();
        let data_bytes: usize = block
            .columns
            .iter()
            .map(|(_, column)| column.to_data().get_slice_memory_size().unwrap_or_default())
            .sum();
        let complete = block.complete;
        let kept = Arc::new(MemBlock { seq, version, ticks, columns: block.columns, complete });
        let mut owners = self.owners.write();
        let owner = owners.entry(block.owner).or_default();
        owner.insert(kept, block.runs.iter().map(|run| (run.table, run.end as usize)), duration_ticks);
        Added { rows, bytes: data_bytes + block.runs.len() * size_of::<Entry>() + size_of::<MemBlock>() }
    }

    /// Owners with rows, ascending.
    pub(super) fn owners(&self) -> Vec<TableUid> {
        self.owners.read().keys().copied().collect()
    }

    /// What a scan or flush has to know of an owner's rows before it reads them; `None` if it has none.
    pub(super) fn summary(&self, owner: TableUid) -> Option<OwnerSummary> {
        let owners = self.owners.read();
        let rows = owners.get(&owner)?;
        Some(OwnerSummary {
            time: rows.time,
            rows: rows.rows,
            buckets: rows.buckets.iter().copied().collect(),
            partial: rows.partial,
            first_version: rows.blocks.first().map(|b| b.version).unwrap_or_default(),
        })
    }

    /// Whether an owner's table has rows.
    pub(super) fn has_table(&self, owner: TableUid, table: TableUid) -> bool {
        self.owners.read().get(&owner).is_some_and(|rows| rows.head(table).is_some())
    }

    /// Tables from `from` upwards with their stretches applied before `seq_end`, until `stretches_max` are reached.
    /// Also says where to go on; `None` at the end.
    pub(super) fn tables_from(
        &self,
        owner: TableUid,
        from: TableUid,
        seq_end: u64,
        stretches_max: usize,
    ) -> (Vec<TableStretches>, Option<TableUid>) {
        let owners = self.owners.read();
        let Some(rows) = owners.get(&owner) else { return (Vec::new(), None) };
        let mut found = Vec::new();
        let mut count = 0;
        for (page, slots) in rows.pages.range(from.0 >> PAGE_BITS..) {
            for (slot, head) in slots.iter().enumerate() {
                let table = TableUid(page << PAGE_BITS | slot as u64);
                if *head == 0 || table < from {
                    continue;
                }
                if count >= stretches_max {
                    return (found, Some(table));
                }
                let stretches = rows.stretches(*head, seq_end);
                count += stretches.len().max(1);
                if !stretches.is_empty() {
                    found.push(TableStretches { table, stretches });
                }
            }
        }
        (found, None)
    }

    /// One table's stretches applied before `seq_end`, for as many of `tables` as come to `stretches_max`; says how
    /// many tables were looked at.
    pub(super) fn tables_of(
        &self,
        owner: TableUid,
        tables: impl Iterator<Item = TableUid>,
        seq_end: u64,
        stretches_max: usize,
    ) -> (Vec<TableStretches>, usize) {
        let owners = self.owners.read();
        let rows = owners.get(&owner);
        let (mut found, mut count, mut seen) = (Vec::new(), 0, 0);
        for table in tables {
            if count >= stretches_max {
                break;
            }
            seen += 1;
            count += 1;
            let Some((rows, head)) = rows.and_then(|rows| Some((rows, rows.head(table)?))) else { continue };
            let stretches = rows.stretches(head, seq_end);
            count += stretches.len();
            if !stretches.is_empty() {
                found.push(TableStretches { table, stretches });
            }
        }
        (found, seen)
    }
}

/// Facts about one owner's rows in a memtable.
#[derive(Clone, Debug)]
pub(super) struct OwnerSummary {
    /// From the earliest to the latest timestamp.
    pub(super) time: TimeRange,
    /// Rows as they came, repeated keys counted each time.
    pub(super) rows: usize,
    /// Time buckets with rows, ascending.
    pub(super) buckets: Vec<i64>,
    /// Whether some block does not supply all columns.
    pub(super) partial: bool,
    /// Version of the first block.
    pub(super) first_version: Version,
}

/// Slots on a page of the table index: small enough for owners whose tables lie scattered, large enough that a block of
/// many tables in uid order finds its page once for many of them.
const PAGE_BITS: u32 = 6;
const PAGE_SLOTS: usize = 1 << PAGE_BITS;

/// A table's slot in its page.
fn place_in_page(table: TableUid) -> usize {
    usize::try_from(table.0 % PAGE_SLOTS as u64).unwrap_or(0)
}

/// A stretch as the index keeps it, chained to the table's stretch before it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    block: u32,
    start: u32,
    end: u32,
    /// Number of the previous entry counted from one; 0 for the first.
    previous: u32,
}

/// Rows of one owner.
#[derive(Debug)]
struct OwnerRows {
    blocks: Vec<Arc<MemBlock>>,
    entries: Vec<Entry>,
    /// By the upper bits of the uid: for each table its newest entry, counted from one, 0 for none. Uids are counters,
    /// so pages fill, and walking them gives tables in order without sorting.
    pages: BTreeMap<u64, Box<[u32; PAGE_SLOTS]>>,
    time: TimeRange,
    buckets: BTreeSet<i64>,
    /// Ticks of the bucket that the last stretch fell into, which the next one most often shares.
    recent_bucket: TimeRange,
    rows: usize,
    partial: bool,
}

impl Default for OwnerRows {
    fn default() -> Self {
        let nothing = TimeRange { first: i64::MAX, last_inclusive: i64::MIN };
        Self {
            blocks: Vec::new(),
            entries: Vec::new(),
            pages: BTreeMap::new(),
            time: nothing,
            buckets: BTreeSet::new(),
            recent_bucket: nothing,
            rows: 0,
            partial: false,
        }
    }
}

impl OwnerRows {
    fn insert(
        &mut self,
        block: Arc<MemBlock>,
        runs: impl Iterator<Item = (TableUid, usize)>,
        duration_ticks: i64,
    ) {
        let number = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        self.rows += block.ticks.len();
        self.partial |= !block.complete;
        let mut start = 0;
        for (table, end) in runs {
            let end = end.min(block.ticks.len());
            let Some(ticks) = block.ticks.get(start..end).filter(|ticks| !ticks.is_empty()) else { continue };
            self.note_time(ticks, duration_ticks);
            let slots = self.pages.entry(table.0 >> PAGE_BITS).or_insert_with(|| Box::new([0; PAGE_SLOTS]));
            if let Some(head) = slots.get_mut(place_in_page(table)) {
                let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
                self.entries.push(Entry {
                    block: number,
                    start: narrow(start),
                    end: narrow(end),
                    previous: *head,
                });
                *head = narrow(self.entries.len());
            }
            start = end;
        }
        self.blocks.push(block);
    }

    fn note_time(&mut self, ticks: &[i64], duration_ticks: i64) {
        let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { return };
        self.time.first = self.time.first.min(*first);
        self.time.last_inclusive = self.time.last_inclusive.max(*last);
        if self.recent_bucket.contains(*first) && self.recent_bucket.contains(*last) {
            return;
        }
        for tick in ticks {
            if !self.recent_bucket.contains(*tick) {
                let bucket = bucket_of(*tick, duration_ticks);
                self.buckets.insert(bucket);
                self.recent_bucket = bucket_range(bucket, duration_ticks);
            }
        }
    }

    fn head(&self, table: TableUid) -> Option<u32> {
        let slots = self.pages.get(&(table.0 >> PAGE_BITS))?;
        slots.get(place_in_page(table)).copied().filter(|head| *head != 0)
    }

    fn stretches(&self, head: u32, seq_end: u64) -> Vec<Stretch> {
        let mut found = Vec::new();
        let mut at = head;
        while let Some(entry) = at.checked_sub(1).and_then(|at| self.entries.get(at as usize)) {
            if let Some(block) = self.blocks.get(entry.block as usize).filter(|block| block.seq < seq_end) {
                let (start, end) = (entry.start as usize, entry.end as usize);
                found.push(Stretch { block: Arc::clone(block), start, end });
            }
            at = entry.previous;
        }
        found.reverse();
        found
    }
}

/// Which time bucket an instant lies in.
pub(super) fn bucket_of(ticks: i64, duration_ticks: i64) -> i64 {
    ticks.div_euclid(duration_ticks.max(1))
}

/// The instants of a bucket.
pub(super) fn bucket_range(bucket: i64, duration_ticks: i64) -> TimeRange {
    let duration = i128::from(duration_ticks.max(1));
    let first = i128::from(bucket) * duration;
    let narrow = |ticks: i128| i64::try_from(ticks).unwrap_or(if ticks < 0 { i64::MIN } else { i64::MAX });
    TimeRange { first: narrow(first), last_inclusive: narrow(first + duration - 1) }
}
