//! A data file as one input of a merge: decodes the selected columns of the selected tables and nothing else.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::ScalarBuffer;
use model::{ColumnId, Result, TableUid, Version};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection};
use proto::keys::RowKeys;
use query::source::{BlockSum, Summand, TimeRange};

use super::blocks::Blocks;
use super::deletions::OwnerDeletions;
use super::error::damaged;
use super::file::{DataFile, OpenFile, parquet_error};
use super::mem_source::SourceRange;
use super::page_prune::pages_in;
use super::projection::Projection;
use super::rows::{Pattern, Presence, Rank, RowSet, Segment, Widths, ticks_of};

/// Block sums of a file are decoded all together. Where fewer rows than so many a block are wanted, reading them costs less.
const ROWS_PER_BLOCK_MIN: u64 = 16;

/// Rows of one table that will be read: a part of the file's rows.
#[derive(Clone, Debug)]
struct Wanted {
    table: TableUid,
    rows: Range<u64>,
}

/// A block of one table's rows that is not read.
#[derive(Clone, Debug)]
pub(super) struct SummedBlock {
    pub(super) table: TableUid,
    pub(super) rows: u64,
    pub(super) time: TimeRange,
    pub(super) sums: Vec<BlockSum>,
}

/// Walks the selected tables of one file in uid order.
#[derive(Debug)]
pub(super) struct FileSource {
    file: Arc<OpenFile>,
    version: Version,
    rank: Rank,
    range: SourceRange,
    leaves: Leaves,
    wanted: VecDeque<Wanted>,
    reader: Option<Reader>,
    current: Option<(Arc<RowSet>, usize)>,
    ready: VecDeque<Segment>,
    batch_rows: usize,
}

/// How much of a file is decoded at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Rows at most.
    pub(super) rows: usize,
    /// Bytes about at most, but one row at least.
    pub(super) bytes: usize,
}

/// Leaf columns that are decoded, ascending: the order in which they come.
#[derive(Debug, Default)]
struct Leaves {
    all: Vec<usize>,
    ticks: Option<usize>,
    /// Of a composite key.
    key: Option<usize>,
    presence: Option<usize>,
}

/// `ParquetRecordBatchReader` does not say what it is.
struct Reader(ParquetRecordBatchReader);

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl FileSource {
    /// `alone` says that no other source holds rows of this range, so that rows need not be compared. `None` if the
    /// file has nothing that is wanted. Reads footer and index the first time, no rows.
    pub(super) fn open(
        data: &DataFile,
        range: SourceRange,
        alone: bool,
        chunk: Chunk,
    ) -> Result<Option<Self>> {
        let file = data.open()?;
        let version = data.meta.last_version;
        let (mut wanted, whole) = select(&file, &range);
        if wanted.is_empty() {
            return Ok(None);
        }
        if !whole {
            wanted = pages_in(&file.metadata, file.leaf(ColumnId::TIMESTAMP), range.time)
                .map(|pages| intersect(&wanted, &pages))
                .unwrap_or(wanted);
        }
        let need_ticks = !alone || !whole || !range.deletions.none_after(version);
        let key = range.projection.key.column().filter(|_| !alone);
        let key = key.map(|id| file.leaf(id).ok_or_else(|| damaged(&file.path, "no column of the key")));
        let mut leaves = Leaves::of(&file, &range.projection, need_ticks, !alone && data.meta.partial);
        leaves.read_key(key.transpose()?);
        let row_bytes = leaves.all.iter().map(|leaf| file.row_bytes(*leaf)).fold(0, u64::saturating_add);
        let fitting = usize::try_from(chunk.bytes as u64 / row_bytes.max(1)).unwrap_or(usize::MAX);
        Ok(Some(Self {
            file,
            version,
            rank: Rank { generation: data.meta.generation, seq: 0 },
            range,
            leaves,
            wanted: wanted.into(),
            reader: None,
            current: None,
            ready: VecDeque::new(),
            batch_rows: chunk.rows.min(fitting).max(1),
        }))
    }

    /// Bytes that summing up may take (see [`Self::take_summed`]); `None` where reading the rows costs less, or there is no
    /// way around it.
    pub(super) fn summing_bytes(&self) -> Result<Option<usize>> {
        let (blocks, columns) = self.file.block_counts()?;
        let rows: u64 = self.wanted.iter().map(|wanted| wanted.rows.end - wanted.rows.start).sum();
        let worth_it = rows / ROWS_PER_BLOCK_MIN >= blocks as u64 && blocks > 0;
        let possible = self.range.deletions.none_after(self.version) && self.reader.is_none();
        // Once as they are decoded, and once those that are taken.
        Ok((worth_it && possible).then(|| Blocks::bytes(blocks, columns).saturating_mul(2)))
    }

    /// Takes the rows of blocks out of which nothing is wanted but what `summands` come to, and gives these blocks with
    /// their tables, each with the sums of `summands` in their order. For a source that is alone, and has said what it takes.
    pub(super) fn take_summed(&mut self, summands: &[Summand]) -> Result<Vec<SummedBlock>> {
        let file = Arc::clone(&self.file);
        let blocks = file.blocks()?;
        // A column that the file does not have is NULL throughout.
        let places: Vec<Option<Option<usize>>> = summands
            .iter()
            .map(|Summand { column: id, .. }| match blocks.columns.iter().position(|held| held == id) {
                Some(place) => Some(Some(place)),
                None if file.leaf(*id).is_none() => Some(None),
                None => None,
            })
            .collect();
        let Some(places) = places.into_iter().collect::<Option<Vec<_>>>() else { return Ok(Vec::new()) };
        let (mut summed, mut rest) = (Vec::new(), VecDeque::new());
        for Wanted { table, rows } in std::mem::take(&mut self.wanted) {
            let mut start = rows.start;
            for block in blocks.within(&rows) {
                let sums: Vec<BlockSum> = places
                    .iter()
                    .map(|place| match place {
                        None => BlockSum::EMPTY,
                        Some(place) => block.sums.get(*place).copied().unwrap_or(BlockSum::UNKNOWN),
                    })
                    .collect();
                let rows_of_block = block.rows.end - block.rows.start;
                let serves = |(sum, summand): (&BlockSum, &Summand)| {
                    sum.is_known() && (sum.count == rows_of_block || !summand.in_every_row)
                };
                if block.time.intersect(self.range.time) != block.time
                    || !sums.iter().zip(summands).all(serves)
                {
                    continue;
                }
                if start < block.rows.start {
                    rest.push_back(Wanted { table, rows: start..block.rows.start });
                }
                start = block.rows.end;
                summed.push(SummedBlock { table, rows: rows_of_block, time: block.time, sums });
            }
            if start < rows.end {
                rest.push_back(Wanted { table, rows: start..rows.end });
            }
        }
        self.wanted = rest;
        Ok(summed)
    }

    /// Bytes of rows that are decoded and not yet given.
    pub(super) fn held_bytes(&self) -> usize {
        self.current.as_ref().map_or(0, |(rows, _)| rows.owned_bytes())
    }

    /// The next table that may have rows.
    pub(super) fn peek(&self) -> Option<TableUid> {
        self.wanted.front().map(|wanted| wanted.table)
    }

    /// The next rows of `table`; `None` once there are no more.
    pub(super) fn next_segment(&mut self, table: TableUid) -> Result<Option<Segment>> {
        loop {
            if let Some(segment) = self.ready.pop_front() {
                return Ok(Some(segment));
            }
            if self.peek() != Some(table) {
                return Ok(None);
            }
            let (rows, offset) = match self.current.take() {
                Some((rows, offset)) if offset < rows.len => (rows, offset),
                _ => (Arc::new(self.next_set()?), 0),
            };
            let Some(wanted) = self.wanted.front_mut() else { return Ok(None) };
            let left = usize::try_from(wanted.rows.end - wanted.rows.start).unwrap_or(usize::MAX);
            let end = rows.len.min(offset.saturating_add(left));
            wanted.rows.start += (end - offset) as u64;
            if wanted.rows.is_empty() {
                self.wanted.pop_front();
            }
            self.current = Some((Arc::clone(&rows), end));
            let segment = Segment { rows, start: offset, end, rank: self.rank };
            if self.leaves.ticks.is_none() {
                return Ok(Some(segment));
            }
            let time = self.range.time;
            if let Some(segment) = segment.clip(time.first, time.last_inclusive) {
                let mut kept = Vec::new();
                self.range.deletions.cut(table, self.version, segment, &mut kept);
                self.ready.extend(kept);
            }
        }
    }

    fn next_set(&mut self) -> Result<RowSet> {
        if self.leaves.all.is_empty() {
            return Ok(self.counted_set());
        }
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader(self.reader()?),
        };
        let batch =
            reader.0.next().ok_or_else(|| damaged(&self.file.path, "fewer rows than its index says"))?;
        self.reader = Some(reader);
        let batch = batch.map_err(|e| damaged(&self.file.path, "cannot decode rows").caused_by(e))?;
        self.row_set(&batch)
    }

    /// Rows of which nothing but their number is asked.
    fn counted_set(&self) -> RowSet {
        let rows: u64 = self.wanted.iter().take(self.batch_rows).map(|w| w.rows.end - w.rows.start).sum();
        RowSet {
            len: usize::try_from(rows).unwrap_or(usize::MAX).min(self.batch_rows),
            ticks: ScalarBuffer::default(),
            keys: RowKeys::None,
            columns: vec![None; self.range.projection.columns.len()],
            presence: Presence::Complete,
            widths: Widths::default(),
        }
    }

    fn reader(&self) -> Result<ParquetRecordBatchReader> {
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.file.chunks.clone(),
            self.file.metadata.clone(),
        );
        let mask = ProjectionMask::leaves(builder.parquet_schema(), self.leaves.all.iter().copied());
        // Row groups without a wanted row are left out, and the selection speaks of the rows of the others.
        let (mut groups, mut ranges, mut selectable) = (Vec::new(), Vec::<Range<usize>>::new(), 0usize);
        let mut wanted = self.wanted.iter().peekable();
        let mut group_start = 0u64;
        for (number, group) in builder.metadata().row_groups().iter().enumerate() {
            let group_rows = u64::try_from(group.num_rows()).unwrap_or_default();
            let group_end = group_start + group_rows;
            let before = ranges.len();
            while let Some(rows) = wanted.peek().map(|w| &w.rows).filter(|rows| rows.start < group_end) {
                let within = rows.start.max(group_start) - group_start..rows.end.min(group_end) - group_start;
                let narrow = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                ranges.push(selectable + narrow(within.start)..selectable + narrow(within.end));
                if rows.end > group_end {
                    break;
                }
                wanted.next();
            }
            if ranges.len() > before {
                groups.push(number);
                selectable += usize::try_from(group_rows).unwrap_or(usize::MAX);
            }
            group_start = group_end;
        }
        let selected: usize = ranges.iter().map(ExactSizeIterator::len).sum();
        builder = builder.with_projection(mask).with_row_groups(groups).with_batch_size(self.batch_rows);
        if selected < selectable {
            let selection = RowSelection::from_consecutive_ranges(ranges.into_iter(), selectable);
            builder = builder.with_row_selection(selection);
        }
        builder.build().map_err(|e| parquet_error(&self.file.path, e))
    }

    fn row_set(&self, batch: &RecordBatch) -> Result<RowSet> {
        let column = |leaf: usize| {
            let at = self.leaves.all.binary_search(&leaf).ok()?;
            batch.columns().get(at).cloned()
        };
        let mut columns = Vec::with_capacity(self.range.projection.columns.len());
        for wanted in &self.range.projection.columns {
            let array = self.file.leaf(wanted.id).and_then(column);
            if let Some(array) = array.as_ref().filter(|array| *array.data_type() != wanted.data_type) {
                let what = format!(
                    "column id={} type={} expected={}",
                    wanted.id,
                    array.data_type(),
                    wanted.data_type
                );
                return Err(damaged(&self.file.path, what));
            }
            columns.push(array);
        }
        let ticks = match self.leaves.ticks {
            None => ScalarBuffer::default(),
            Some(leaf) => column(leaf)
                .and_then(|array| ticks_of(&array))
                .ok_or_else(|| damaged(&self.file.path, "no timestamps"))?,
        };
        let keys = match self.leaves.key {
            None => RowKeys::None,
            Some(leaf) => column(leaf)
                .and_then(|array| RowKeys::of(&array))
                .ok_or_else(|| damaged(&self.file.path, "a key of another type"))?,
        };
        let presence = match self.leaves.presence.and_then(column) {
            None => Presence::Complete,
            Some(array) => self.presence(&array),
        };
        let widths = Widths::of(batch.columns().iter(), true);
        Ok(RowSet { len: batch.num_rows(), ticks, keys, columns, presence, widths })
    }

    fn presence(&self, array: &dyn Array) -> Presence {
        let Some(sets) = array.as_binary_opt::<i32>() else { return Presence::Complete };
        let mut patterns: Vec<Option<Pattern>> = vec![None];
        let mut numbers: HashMap<&[u8], u16> = HashMap::new();
        let index = (0..sets.len())
            .map(|row| {
                if sets.is_null(row) {
                    return 0;
                }
                let bytes = sets.value(row);
                *numbers.entry(bytes).or_insert_with(|| {
                    patterns.push(Some(self.pattern(bytes)));
                    // A batch has fewer rows than this can count.
                    u16::try_from(patterns.len() - 1).unwrap_or_default()
                })
            })
            .collect();
        Presence::Rows { index, patterns }
    }

    /// What the bits of `_set` mean for the columns that are read.
    fn pattern(&self, bytes: &[u8]) -> Pattern {
        let columns = &self.range.projection.columns;
        columns
            .iter()
            .map(|wanted| {
                let bit = self.file.column_ids.iter().position(|id| *id == wanted.id);
                bit.is_some_and(|bit| bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1))
            })
            .collect()
    }
}

impl Leaves {
    fn of(file: &OpenFile, projection: &Projection, need_ticks: bool, need_presence: bool) -> Self {
        let ticks = need_ticks.then(|| file.leaf(ColumnId::TIMESTAMP)).flatten();
        let presence = if need_presence { file.presence_leaf } else { None };
        let columns = projection.columns.iter().filter_map(|wanted| file.leaf(wanted.id));
        let mut all: Vec<usize> = columns.chain(ticks).chain(presence).collect();
        all.sort_unstable();
        all.dedup();
        Self { all, ticks, key: None, presence }
    }

    fn read_key(&mut self, key: Option<usize>) {
        self.key = key;
        self.all.extend(key);
        self.all.sort_unstable();
        self.all.dedup();
    }
}

/// The selected tables with rows in the time range, and whether all these rows lie in it.
fn select(file: &OpenFile, range: &SourceRange) -> (Vec<Wanted>, bool) {
    let deletions: &OwnerDeletions = &range.deletions;
    let (mut wanted, mut whole) = (Vec::new(), true);
    let mut take = |at: usize| {
        let Some(entry) = file.tables.get(at) else { return };
        let within = range.time.intersect(entry.time);
        if within.is_empty() || deletions.is_dropped(entry.table) {
            return;
        }
        whole &= within == entry.time;
        wanted.push(Wanted { table: entry.table, rows: entry.rows });
    };
    match range.selection.listed_from(file.tables.first_table()) {
        None => (0..file.tables.len()).for_each(take),
        Some(listed) => {
            let mut at = 0;
            for table in listed {
                at = file.tables.seek(at, table.uid);
                match file.tables.get(at) {
                    None => break,
                    Some(entry) if entry.table == table.uid => take(at),
                    Some(_) => {}
                }
            }
        }
    }
    (wanted, whole)
}

/// The wanted rows that lie on one of `pages`, which ascend like them.
fn intersect(wanted: &[Wanted], pages: &[Range<u64>]) -> Vec<Wanted> {
    let mut kept = Vec::new();
    let mut first_page = 0;
    for Wanted { table, rows } in wanted {
        while pages.get(first_page).is_some_and(|page| page.end <= rows.start) {
            first_page += 1;
        }
        for page in pages.get(first_page..).unwrap_or_default() {
            if page.start >= rows.end {
                break;
            }
            kept.push(Wanted { table: *table, rows: rows.start.max(page.start)..rows.end.min(page.end) });
        }
    }
    kept
}
