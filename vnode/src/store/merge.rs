//! Merges memtables and files into one sequence of rows: by table, time and key, one row a key.
//!
//! Work is done per stretch and not per row: the input with the earliest row gives all its rows that precede the next
//! input's. Only where two inputs hold one key is a row put together, column by column, newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use model::{Result, TableUid};

use super::file_source::FileSource;
use super::mem_source::{Chain, MemSource};
use super::output::{FillLimit, Output};
use super::projection::{KeyKind, Projection};
use super::row_key::{RowKey, TextKey};
use super::rows::{RowSet, Segment};

/// One input.
#[derive(Debug)]
pub(super) enum Source {
    Mem(MemSource),
    File(Box<FileSource>),
}

impl Source {
    /// The next table that may have rows.
    fn peek(&mut self) -> Result<Option<TableUid>> {
        match self {
            Self::Mem(source) => Ok(source.peek()),
            Self::File(source) => Ok(source.peek()),
        }
    }
}

/// Where a lane's further segments come from.
#[derive(Debug)]
enum Feed {
    Chain(Chain),
    /// The file source with this number, read as it is needed.
    File(usize),
}

/// Rows of the current table that ascend strictly.
#[derive(Debug)]
struct Lane {
    current: Segment,
    feed: Feed,
}

impl Lane {
    fn head<K: RowKey>(&self, number: usize) -> Reverse<(i64, K, usize)> {
        Reverse((self.current.first_tick(), K::of(&self.current.rows, self.current.start), number))
    }
}

/// A merge under way.
#[derive(Debug)]
pub(super) enum Merge {
    Times(MergeBy<()>),
    Numbers(MergeBy<i64>),
    Texts(MergeBy<TextKey>),
}

impl Merge {
    /// `projection` is that of the sources.
    pub(super) fn new(sources: Vec<Source>, projection: &Projection) -> Self {
        let columns = projection.columns.len();
        match projection.key {
            KeyKind::None => Self::Times(MergeBy::new(sources, columns)),
            KeyKind::Number(_) => Self::Numbers(MergeBy::new(sources, columns)),
            KeyKind::Text(_) => Self::Texts(MergeBy::new(sources, columns)),
        }
    }

    /// Fills `output` up to the limit, or rather less where a boundary of the input saves copying. False once nothing is
    /// left.
    pub(super) fn fill(&mut self, output: &mut Output, limit: FillLimit) -> Result<bool> {
        match self {
            Self::Times(merge) => merge.fill(output, limit),
            Self::Numbers(merge) => merge.fill(output, limit),
            Self::Texts(merge) => merge.fill(output, limit),
        }
    }

    /// Bytes of rows that the inputs hold decoded.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Times(merge) => merge.held_bytes(),
            Self::Numbers(merge) => merge.held_bytes(),
            Self::Texts(merge) => merge.held_bytes(),
        }
    }
}

/// A merge over rows that are told apart by time and a key of this kind.
#[derive(Debug)]
pub(super) struct MergeBy<K> {
    sources: Vec<Source>,
    columns: usize,
    table: TableUid,
    lanes: Vec<Lane>,
    /// Lanes by time and key of their first row.
    heads: BinaryHeap<Reverse<(i64, K, usize)>>,
}

// Without a second part of the key a head is as small as if there were no such thing.
const _: () = assert!(size_of::<(i64, (), usize)>() == size_of::<(i64, usize)>());

impl<K: RowKey> MergeBy<K> {
    fn new(sources: Vec<Source>, columns: usize) -> Self {
        Self { sources, columns, table: TableUid(0), lanes: Vec::new(), heads: BinaryHeap::new() }
    }

    fn fill(&mut self, output: &mut Output, limit: FillLimit) -> Result<bool> {
        while !output.is_full(limit) {
            if self.heads.is_empty() && !self.open_table()? {
                return Ok(false);
            }
            if output.rows() >= (limit.rows / 2).max(1) && self.at_boundary(output) {
                break;
            }
            self.step(output, limit)?;
        }
        Ok(true)
    }

    fn held_bytes(&self) -> usize {
        let held = self.sources.iter().map(|source| match source {
            Source::Mem(_) => 0,
            Source::File(source) => source.held_bytes(),
        });
        held.sum()
    }

    /// Whether going on would mix in rows of another set although the input is alone.
    fn at_boundary(&self, output: &Output) -> bool {
        match self.lanes.as_slice() {
            [lane] => !output.continues(&lane.current),
            _ => false,
        }
    }

    /// Moves one stretch or one row.
    fn step(&mut self, output: &mut Output, room: FillLimit) -> Result<()> {
        let Some(Reverse((tick, key, number))) = self.heads.pop() else { return Ok(()) };
        let same = |Reverse((next, other, _)): &Reverse<(i64, K, usize)>| *next == tick && *other == key;
        if self.heads.peek().is_some_and(|next| same(next) && !self.is_alone()) {
            return self.merge_row(tick, &key, number, output);
        }
        let limit = self.heads.peek();
        let room = room.less(output);
        let Some(lane) = self.lanes.get(number) else { return Ok(()) };
        let mut piece = lane.current.clone();
        if let Some(Reverse((limit, limit_key, _))) = limit
            && piece.last_tick() >= *limit
        {
            piece.end = piece.start + K::rows_before(&piece, *limit, limit_key);
        }
        piece.end = piece.end.min(piece.start.saturating_add(room.rows));
        piece.end = piece.rows.widths.within(piece.start..piece.end, room.bytes).end;
        output.push(self.table, &piece);
        self.advance(number, piece.len())
    }

    fn is_alone(&self) -> bool {
        self.lanes.len() == 1
    }

    /// Starts the next table. False if there is none.
    fn open_table(&mut self) -> Result<bool> {
        self.lanes.clear();
        loop {
            let mut next: Option<TableUid> = None;
            for source in &mut self.sources {
                if let Some(table) = source.peek()? {
                    next = Some(next.map_or(table, |least| least.min(table)));
                }
            }
            let Some(table) = next else { return Ok(false) };
            self.table = table;
            for number in 0..self.sources.len() {
                let Some(source) = self.sources.get_mut(number) else { continue };
                if source.peek()? != Some(table) {
                    continue;
                }
                match source {
                    Source::Mem(source) => {
                        for mut chain in source.take() {
                            if let Some(current) = chain.pop_front() {
                                self.lanes.push(Lane { current, feed: Feed::Chain(chain) });
                            }
                        }
                    }
                    Source::File(source) => {
                        if let Some(current) = source.next_segment(table)? {
                            self.lanes.push(Lane { current, feed: Feed::File(number) });
                        }
                    }
                }
            }
            if !self.lanes.is_empty() {
                self.heads = self.lanes.iter().enumerate().map(|(number, lane)| lane.head(number)).collect();
                return Ok(true);
            }
        }
    }

    /// Takes `rows` rows off a lane whose head is not in the heap, and puts its next head there.
    fn advance(&mut self, number: usize, rows: usize) -> Result<()> {
        let Some(lane) = self.lanes.get_mut(number) else { return Ok(()) };
        lane.current.start += rows;
        if lane.current.start >= lane.current.end {
            let next = match &mut lane.feed {
                Feed::Chain(chain) => chain.pop_front(),
                Feed::File(source) => match self.sources.get_mut(*source) {
                    Some(Source::File(source)) => source.next_segment(self.table)?,
                    _ => None,
                },
            };
            let Some(next) = next else { return Ok(()) };
            lane.current = next;
        }
        let head = lane.head(number);
        self.heads.push(head);
        Ok(())
    }

    /// Puts together the rows that several lanes hold for this time and key; `first` is one of them.
    fn merge_row(&mut self, tick: i64, key: &K, first: usize, output: &mut Output) -> Result<()> {
        let mut numbers = vec![first];
        while let Some(Reverse((next, other, number))) = self.heads.peek()
            && *next == tick
            && other == key
        {
            numbers.push(*number);
            self.heads.pop();
        }
        let mut rows: Vec<_> = numbers
            .iter()
            .filter_map(|number| self.lanes.get(*number))
            .map(|lane| (lane.current.rank, Arc::clone(&lane.current.rows), lane.current.start))
            .collect();
        rows.sort_by_key(|(rank, ..)| Reverse(*rank));
        let newest_first: Vec<(Arc<RowSet>, usize)> =
            rows.into_iter().map(|(_, set, row)| (set, row)).collect();
        match newest_first.first() {
            Some((set, row)) if set.presence.pattern(*row).is_none() => {
                let rank = super::rows::Rank { generation: 0, seq: 0 };
                output.push(self.table, &Segment { rows: Arc::clone(set), start: *row, end: row + 1, rank });
            }
            _ => output.push_merged(self.table, &newest_first, self.columns),
        }
        for number in numbers {
            self.advance(number, 1)?;
        }
        Ok(())
    }
}
