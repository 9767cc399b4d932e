//! Reads one owner's rows: decides what has to be merged with what, and makes output batches.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use model::{ColumnId, Error, Precision, Result, TableSchema, TableUid};
use parking_lot::Mutex;
use proto::size::batch_bytes;
use query::memory::{QueryMemory, Reservation, SCAN_ROWS};
use query::source::{BlockSum, ScanColumn, ScanOrder, Summand, SummedBlocks, TimeRange};

use super::file_source::{Chunk, FileSource, SummedBlock};
use super::labels::{Labelled, Labels};
use super::mem_source::{MemSource, SourceRange};
use super::merge::{Merge, Source};
use super::output::{FillLimit, Merged, Output, Run};
use super::projection::Projection;
use super::rows::ticks_of;
use super::scan_groups::{Group, Inputs, groups};
use super::selection::{SelectedTable, Selection};
use super::sort::sort_by_time;

/// Rows of an output batch.
pub(super) const BATCH_ROWS: usize = 8_192;
/// Bytes of an output batch, its labels apart, which are as many again at most: 128 bytes a row. Wider rows come in
/// smaller batches; 8,192 of the widest would be half a gigabyte, and a query holds several, also while its client reads
/// nothing.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// Batches that the inputs of a merge may hold decoded at once, taken together.
const INPUT_BATCHES: usize = 16;
/// And their bytes.
const INPUT_BYTES: usize = 4 * BATCH_BYTES;
/// An input of a merge decodes at least this many rows at once.
const INPUT_ROWS_MIN: usize = 256;
/// Rows that are sorted at once where a scan is to be in order of time.
const SORT_ROWS: u64 = 1 << 20;

/// What to read of the store.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    /// The super table, or the normal table.
    pub owner: TableUid,
    /// Its columns and tags now.
    pub schema: Arc<TableSchema>,
    /// Which tables.
    pub tables: Selection,
    /// Output columns in order; a column that `schema` does not know is NULL.
    pub columns: Vec<ScanColumn>,
    /// Their names and types.
    pub output: SchemaRef,
    /// Timestamps wanted, both ends included, not before what KEEP still shows.
    pub time: TimeRange,
    /// Order that the caller relies on.
    pub order: ScanOrder,
    /// No more rows than this.
    pub limit: Option<usize>,
    /// Where rows that are held are reserved.
    pub memory: QueryMemory,
}

/// Where an output column comes from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A place in the projection.
    Column(usize),
    /// A place among the tags.
    Tag(usize),
    Tbname,
    Null,
}

/// A scan under way: batches come out one by one, each when it is asked for. Blocks on the disk.
#[derive(Debug)]
pub(super) struct Scan {
    plan: ScanPlan,
    inputs: Inputs,
    groups: VecDeque<Group>,
    projection: Arc<Projection>,
    origins: Vec<Origin>,
    /// Place of the timestamps in the projection, where rows have to be sorted.
    ticks_at: Option<usize>,
    merge: Option<Merge>,
    /// Merged rows that still want their labels.
    unlabelled: VecDeque<Labelled>,
    sorted: VecDeque<RecordBatch>,
    /// For the batch that it makes, what its inputs hold decoded, and rows that are being sorted.
    held: Reservation,
    /// Once its first batch is made: what `held` has for one batch.
    batch_bytes: Option<usize>,
    /// What `held` has for the inputs.
    input_bytes: usize,
    /// Rows that the limit still allows.
    left: usize,
    summing: Option<Summing>,
}

/// Blocks that are given as sums instead of rows.
#[derive(Debug)]
struct Summing {
    summands: Vec<Summand>,
    blocks: Arc<Mutex<Vec<SummedBlocks>>>,
}

impl Scan {
    pub(super) fn new(plan: ScanPlan, inputs: Inputs) -> Self {
        let mut projection = Projection::none(&plan.schema);
        let origins = plan
            .columns
            .iter()
            .map(|column| match column {
                ScanColumn::Tbname => Origin::Tbname,
                ScanColumn::Tag(id) => {
                    let at = plan.schema.tags.iter().position(|tag| tag.id == *id);
                    at.map_or(Origin::Null, Origin::Tag)
                }
                ScanColumn::Column(id) => match plan.schema.column_by_id(*id) {
                    Some((_, def)) => {
                        Origin::Column(projection.add(*id, def.data_type.arrow(inputs.precision)))
                    }
                    None => Origin::Null,
                },
            })
            .collect();
        let sorts = plan.order == ScanOrder::Time && !plan.tables.is_single();
        let ticks_at = sorts.then(|| projection.add(ColumnId::TIMESTAMP, timestamp_type(inputs.precision)));
        let mut groups = groups(&plan, &inputs);
        if sorts {
            groups = groups.into_iter().flat_map(|group| group.split(SORT_ROWS, &plan.tables)).collect();
        }
        let left = plan.limit.unwrap_or(usize::MAX);
        let projection = Arc::new(projection);
        let held = plan.memory.reservation(SCAN_ROWS);
        Self {
            plan,
            inputs,
            groups,
            projection,
            origins,
            ticks_at,
            merge: None,
            unlabelled: VecDeque::new(),
            sorted: VecDeque::new(),
            held,
            batch_bytes: None,
            input_bytes: 0,
            left,
            summing: None,
        }
    }

    /// Of its batches.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.output)
    }

    /// From now on blocks of rows of which `summands` are known go there, and not among the rows.
    pub(super) fn sum(&mut self, summands: &[Summand], blocks: Arc<Mutex<Vec<SummedBlocks>>>) {
        self.summing = Some(Summing { summands: summands.to_vec(), blocks });
    }

    /// Rows that it reads at most, if it reads memtables only.
    pub(super) fn memory_rows(&self) -> Option<usize> {
        let memory_only = self.groups.iter().all(|group| group.files.is_empty());
        memory_only.then(|| self.groups.iter().map(|group| group.memtable_rows).sum())
    }

    /// Reserves what a batch that it has made holds until somebody takes it. `None` where there is no room: then this is
    /// the last for now, and it lies in what the scan has reserved for itself with its first batch. So a scan is refused
    /// at its start or not at all, and goes on batch by batch whatever others take meanwhile.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<Option<Reservation>> {
        if self.batch_bytes.is_some() {
            return Ok(self.held.another(bytes).ok());
        }
        self.held.grow(bytes)?;
        let reservation = self.held.another(bytes)?;
        self.batch_bytes = Some(bytes);
        Ok(Some(reservation))
    }

    /// Reserves what its inputs hold decoded, under the same rule; what it has it keeps.
    fn hold(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.input_bytes {
            return Ok(());
        }
        match self.held.resize(self.batch_bytes.unwrap_or_default() + bytes) {
            Ok(()) => self.input_bytes = bytes,
            Err(error) if self.batch_bytes.is_none() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// The next batch, never an empty one; `None` at the end.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while self.left > 0 {
            let batch = match self.ticks_at {
                None => self.next_merged()?,
                Some(ticks_at) => self.next_sorted(ticks_at)?,
            };
            let Some(batch) = batch else { return Ok(None) };
            let batch = if batch.num_rows() > self.left { batch.slice(0, self.left) } else { batch };
            self.left -= batch.num_rows();
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn next_merged(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.unlabelled.pop_front() {
                return Ok(Some(self.label(&self.plan.output, &rows)?));
            }
            let merge = match &mut self.merge {
                Some(merge) => merge,
                None => {
                    let Some(group) = self.groups.pop_front() else { return Ok(None) };
                    let sources = self.sources(&group)?;
                    self.merge.insert(Merge::new(sources, &self.projection))
                }
            };
            let mut output = Output::default();
            let limit = FillLimit { rows: BATCH_ROWS.min(self.left).max(1), bytes: BATCH_BYTES };
            let more = merge.fill(&mut output, limit)?;
            let held_bytes = merge.held_bytes();
            if !more {
                self.merge = None;
            }
            self.hold(held_bytes)?;
            if output.rows() > 0 {
                let merged = output.finish(&self.projection)?;
                self.unlabelled.extend(self.known(merged)?.split(&self.tags(), BATCH_BYTES));
            }
        }
    }

    /// Batches of one group after the other, each group sorted as a whole. Groups follow each other in time.
    fn next_sorted(&mut self, ticks_at: usize) -> Result<Option<RecordBatch>> {
        while self.sorted.is_empty() {
            let Some(group) = self.groups.pop_front() else { return Ok(None) };
            let mut merge = Merge::new(self.sources(&group)?, &self.projection);
            let (mut batches, mut ticks): (Vec<RecordBatch>, Vec<ScalarBuffer<i64>>) =
                (Vec::new(), Vec::new());
            let (mut more, mut bytes) = (true, 0);
            while more {
                let mut output = Output::default();
                more = merge.fill(&mut output, FillLimit { rows: BATCH_ROWS, bytes: BATCH_BYTES })?;
                let merged = output.finish(&self.projection)?;
                for rows in self.known(merged)?.split(&self.tags(), BATCH_BYTES) {
                    let batch = self.label(&self.plan.output, &rows)?;
                    bytes += batch_bytes(&batch);
                    // Sorting holds all of it three times: as it came, in one piece, and in order.
                    self.held
                        .resize(self.batch_bytes.unwrap_or_default() + merge.held_bytes() + 3 * bytes)?;
                    ticks.extend(rows.merged.columns.get(ticks_at).and_then(|array| ticks_of(array)));
                    batches.push(batch);
                }
            }
            // As large as the first ones, about.
            let batch_rows = batches.iter().map(RecordBatch::num_rows).max().unwrap_or(BATCH_ROWS);
            self.sorted = sort_by_time(&self.plan.output, &batches, &ticks, batch_rows.max(1))?.into();
            self.held.resize(self.batch_bytes.unwrap_or_default() + bytes)?;
        }
        Ok(self.sorted.pop_front())
    }

    fn sources(&self, group: &Group) -> Result<Vec<Source>> {
        let range = SourceRange {
            owner: self.plan.owner,
            time: group.time,
            selection: self.plan.tables.clone(),
            projection: Arc::clone(&self.projection),
            deletions: Arc::clone(&self.inputs.deletions),
        };
        let count = group.files.len() + group.memtables.len();
        let input_rows = (BATCH_ROWS * INPUT_BATCHES / count.max(1)).clamp(INPUT_ROWS_MIN, BATCH_ROWS);
        let input_rows = input_rows.min(self.left.max(INPUT_ROWS_MIN));
        let chunk = Chunk { rows: input_rows, bytes: (INPUT_BYTES / count.max(1)).min(BATCH_BYTES) };
        let mut sources = Vec::with_capacity(count);
        for file in &group.files {
            let Some(mut source) = FileSource::open(file, range.clone(), count == 1, chunk)? else {
                continue;
            };
            if let Some(summing) = self.summing.as_ref().filter(|_| count == 1)
                && let Some(bytes) = source.summing_bytes()?
                // Without room the rows are read instead.
                && let Ok(held) = self.held.another(bytes)
            {
                let blocks = source.take_summed(&summing.summands)?;
                summing.blocks.lock().extend(self.summed(summing, blocks, held)?);
            }
            sources.push(Source::File(Box::new(source)));
        }
        for (memtable, seq_end) in &group.memtables {
            sources.push(Source::Mem(MemSource::new(Arc::clone(memtable), *seq_end, range.clone())));
        }
        Ok(sources)
    }

    /// Adds names and tags to blocks.
    fn summed(
        &self,
        summing: &Summing,
        blocks: Vec<SummedBlock>,
        held: Reservation,
    ) -> Result<Option<SummedBlocks>> {
        if blocks.is_empty() {
            return Ok(None);
        }
        let runs = blocks.iter().zip(1..).map(|(block, end)| Run { table: block.table, end }).collect();
        let nulls = self.projection.columns.iter().map(|c| new_null_array(&c.data_type, blocks.len()));
        let merged = Merged { columns: nulls.collect(), runs, rows: blocks.len() };
        // A block has no time of its own.
        let fields = self.plan.output.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let rows = self.known(merged)?;
        let labels = self.label(&schema, &rows)?;
        // Runs that are left name the blocks that are left.
        let known: BTreeSet<TableUid> = rows.merged.runs.iter().map(|run| run.table).collect();
        let blocks: Vec<_> = blocks.into_iter().filter(|block| known.contains(&block.table)).collect();
        let sums = (0..summing.summands.len()).map(|column| {
            blocks.iter().map(|b| b.sums.get(column).copied().unwrap_or(BlockSum::UNKNOWN)).collect()
        });
        let sums = sums.collect();
        let rows = blocks.iter().map(|block| block.rows).collect();
        let times = blocks.iter().map(|block| block.time).collect();
        Ok(Some(SummedBlocks { labels, rows, times, sums, held }))
    }

    /// Adds names and tags.
    fn label(&self, schema: &SchemaRef, rows: &Labelled) -> Result<RecordBatch> {
        let Labelled { merged, tables } = rows;
        let labels = self.is_labelled().then(|| Labels::new(tables, &merged.runs));
        let columns = self
            .origins
            .iter()
            .zip(schema.fields())
            .map(|(origin, field)| match (origin, &labels) {
                (Origin::Column(at), _) => {
                    merged.columns.get(*at).cloned().ok_or_else(|| ArrowError::SchemaError("columns".into()))
                }
                (Origin::Tag(at), Some(labels)) => labels.tag(*at, field.data_type()),
                (Origin::Tbname, Some(labels)) => labels.tbname(),
                (Origin::Tag(_) | Origin::Tbname | Origin::Null, _) => {
                    Ok(new_null_array(field.data_type(), merged.rows))
                }
            })
            .collect::<Result<Vec<ArrayRef>, ArrowError>>();
        let options = RecordBatchOptions::new().with_row_count(Some(merged.rows));
        let batch = columns
            .and_then(|columns| RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options));
        batch.map_err(|e| Error::internal("rows of a scan do not fit its schema").caused_by(e))
    }

    fn is_labelled(&self) -> bool {
        self.origins.iter().any(|origin| matches!(origin, Origin::Tag(_) | Origin::Tbname))
    }

    /// Places of the tags that are read.
    fn tags(&self) -> Vec<usize> {
        let places = self.origins.iter().filter_map(|origin| match origin {
            Origin::Tag(at) => Some(*at),
            _ => None,
        });
        places.collect()
    }

    /// Finds the tables of rows, and leaves out those that the directory does not know.
    fn known(&self, merged: Merged) -> Result<Labelled> {
        if !self.is_labelled() && !matches!(self.plan.tables, Selection::All(Some(_))) {
            return Ok(Labelled { merged, tables: Vec::new() });
        }
        let found: Vec<Option<SelectedTable>> =
            merged.runs.iter().map(|run| self.plan.tables.lookup(run.table)).collect();
        let unknown: BTreeSet<TableUid> = merged
            .runs
            .iter()
            .zip(&found)
            .filter(|(_, table)| table.is_none())
            .map(|(run, _)| run.table)
            .collect();
        let merged = merged.retain(|table| !unknown.contains(&table))?;
        Ok(Labelled { merged, tables: found.into_iter().flatten().collect() })
    }
}

fn timestamp_type(precision: Precision) -> arrow_schema::DataType {
    model::DataType::Timestamp.arrow(precision)
}
