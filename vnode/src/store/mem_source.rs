//! A memtable as one input of a merge.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use model::TableUid;
use proto::keys::RowKeys;
use query::source::TimeRange;

use super::deletions::OwnerDeletions;
use super::memtable::{MemBlock, Memtable, Stretch, TableStretches};
use super::projection::{KeyKind, Projection};
use super::row_key::{RowKey, TextKey};
use super::rows::{Presence, Rank, RowSet, Segment, Widths};
use super::selection::Selection;

/// Index entries taken from a memtable under one hold of its lock.
const STRETCHES_PER_LOOK: usize = 16 * 1024;

/// Segments of one table that follow each other in time. Several of them overlap.
pub(super) type Chain = VecDeque<Segment>;

/// Walks the selected tables of one owner in uid order.
#[derive(Debug)]
pub(super) struct MemSource {
    memtable: Arc<Memtable>,
    owner: TableUid,
    seq_end: u64,
    time: TimeRange,
    selection: Selection,
    projection: Arc<Projection>,
    deletions: Arc<OwnerDeletions>,
    /// Where the next look at the memtable begins; `None` after the last.
    from: Option<TableUid>,
    ready: VecDeque<(TableUid, Vec<Chain>)>,
    sets: HashMap<u64, Arc<RowSet>>,
}

/// What a source reads.
#[derive(Clone, Debug)]
pub(super) struct SourceRange {
    pub(super) owner: TableUid,
    pub(super) time: TimeRange,
    pub(super) selection: Selection,
    pub(super) projection: Arc<Projection>,
    pub(super) deletions: Arc<OwnerDeletions>,
}

impl MemSource {
    /// Rows applied before `seq_end`.
    pub(super) fn new(memtable: Arc<Memtable>, seq_end: u64, range: SourceRange) -> Self {
        Self {
            memtable,
            owner: range.owner,
            seq_end,
            time: range.time,
            selection: range.selection,
            projection: range.projection,
            deletions: range.deletions,
            from: Some(TableUid(0)),
            ready: VecDeque::new(),
            sets: HashMap::new(),
        }
    }

    /// The next table with rows.
    pub(super) fn peek(&mut self) -> Option<TableUid> {
        while self.ready.is_empty() {
            let from = self.from?;
            let (found, next) = self.look(from);
            self.from = next;
            for table in found {
                let chains = match self.projection.key {
                    KeyKind::None => self.chains::<()>(&table),
                    KeyKind::Number(_) => self.chains::<i64>(&table),
                    KeyKind::Text(_) => self.chains::<TextKey>(&table),
                };
                if !chains.is_empty() {
                    self.ready.push_back((table.table, chains));
                }
            }
        }
        self.ready.front().map(|(table, _)| *table)
    }

    /// That table's rows.
    pub(super) fn take(&mut self) -> Vec<Chain> {
        self.ready.pop_front().map(|(_, chains)| chains).unwrap_or_default()
    }

    fn look(&self, from: TableUid) -> (Vec<TableStretches>, Option<TableUid>) {
        let Some(listed) = self.selection.listed_from(from) else {
            return self.memtable.tables_from(self.owner, from, self.seq_end, STRETCHES_PER_LOOK);
        };
        let uids = listed.iter().map(|table| table.uid);
        let (found, seen) = self.memtable.tables_of(self.owner, uids, self.seq_end, STRETCHES_PER_LOOK);
        (found, listed.get(seen).map(|table| table.uid))
    }

    /// Lays the table's stretches one after the other where they ascend, beside each other where they do not: each goes
    /// behind the latest chain end that is before it, so that rows in order make one chain and a merge compares
    /// nothing.
    fn chains<K: RowKey>(&mut self, table: &TableStretches) -> Vec<Chain> {
        if self.deletions.is_dropped(table.table) {
            return Vec::new();
        }
        let mut chains: Vec<Chain> = Vec::new();
        let mut ends: BTreeMap<(i64, K), usize> = BTreeMap::new();
        let mut kept = Vec::new();
        for stretch in &table.stretches {
            let Some(segment) = self.segment(stretch) else { continue };
            self.deletions.cut(table.table, stretch.block.version, segment, &mut kept);
            for segment in kept.drain(..) {
                let first = (segment.first_tick(), K::of(&segment.rows, segment.start));
                let last = (segment.last_tick(), K::of(&segment.rows, segment.end - 1));
                let at = match ends.range(..first).next_back() {
                    Some((end, at)) => {
                        let (end, at) = (end.clone(), *at);
                        ends.remove(&end);
                        at
                    }
                    None => {
                        chains.push(Chain::new());
                        chains.len() - 1
                    }
                };
                // Two chains may end with one key: the one that stays out of sight is merely not continued.
                ends.insert(last, at);
                if let Some(chain) = chains.get_mut(at) {
                    chain.push_back(segment);
                }
            }
        }
        chains
    }

    fn segment(&mut self, stretch: &Stretch) -> Option<Segment> {
        let block = &stretch.block;
        let ticks = block.ticks.get(stretch.start..stretch.end)?;
        if *ticks.first()? > self.time.last_inclusive || *ticks.last()? < self.time.first {
            return None;
        }
        let rows = match self.sets.get(&block.seq) {
            Some(rows) => Arc::clone(rows),
            None => {
                let rows = Arc::new(project(block, &self.projection));
                self.sets.insert(block.seq, Arc::clone(&rows));
                rows
            }
        };
        let rank = Rank { generation: self.memtable.generation, seq: block.seq };
        Segment { rows, start: stretch.start, end: stretch.end, rank }
            .clip(self.time.first, self.time.last_inclusive)
    }
}

/// The columns of a block that are read.
fn project(block: &MemBlock, projection: &Projection) -> RowSet {
    let columns: Vec<_> = projection
        .columns
        .iter()
        .map(|wanted| {
            let found = block.columns.iter().find(|(id, _)| *id == wanted.id);
            found.map(|(_, array)| Arc::clone(array))
        })
        .collect();
    let presence = if block.complete {
        Presence::Complete
    } else {
        Presence::Uniform(columns.iter().map(Option::is_some).collect())
    };
    let widths = Widths::of(columns.iter().flatten(), false);
    let key = projection.key.column().and_then(|key| block.columns.iter().find(|(id, _)| *id == key));
    let keys = key.and_then(|(_, array)| RowKeys::of(array)).unwrap_or_default();
    RowSet { len: block.ticks.len(), ticks: block.ticks.clone(), keys, columns, presence, widths }
}
