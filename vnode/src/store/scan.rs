//! Reads one owner's rows: decides what has to be merged with what, and makes output batches.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use model::{ColumnId, Error, Precision, Result, TableSchema, TableUid};
use parking_lot::Mutex;
use query::source::{BlockSum, ScanColumn, ScanOrder, SummedBlocks, TimeRange};

use super::file_source::{FileSource, SummedBlock};
use super::labels::Labels;
use super::mem_source::{MemSource, SourceRange};
use super::merge::{Merge, Source};
use super::output::{Merged, Output, Run};
use super::projection::Projection;
use super::rows::ticks_of;
use super::scan_groups::{Group, Inputs, groups};
use super::selection::{SelectedTable, Selection};
use super::sort::sort_by_time;

/// Rows of an output batch.
pub(super) const BATCH_ROWS: usize = 8_192;
/// Batches that the inputs of a merge may hold decoded at once, taken together.
const INPUT_BATCHES: usize = 16;
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
    sorted: VecDeque<RecordBatch>,
    /// Rows that the limit still allows.
    left: usize,
    summing: Option<Summing>,
}

/// Blocks that are given as sums instead of rows.
#[derive(Debug)]
struct Summing {
    columns: Vec<ColumnId>,
    blocks: Arc<Mutex<Vec<SummedBlocks>>>,
}

impl Scan {
    pub(super) fn new(plan: ScanPlan, inputs: Inputs) -> Self {
        let mut projection = Projection::default();
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
        Self {
            plan,
            inputs,
            groups,
            projection,
            origins,
            ticks_at,
            merge: None,
            sorted: VecDeque::new(),
            left,
            summing: None,
        }
    }

    /// Of its batches.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.output)
    }

    /// From now on blocks of rows of which `columns` are summed up go there, and not among the rows.
    pub(super) fn sum(&mut self, columns: &[ColumnId], blocks: Arc<Mutex<Vec<SummedBlocks>>>) {
        self.summing = Some(Summing { columns: columns.to_vec(), blocks });
    }

    /// Rows that it reads at most, if it reads memtables only.
    pub(super) fn memory_rows(&self) -> Option<usize> {
        let memory_only = self.groups.iter().all(|group| group.files.is_empty());
        memory_only.then(|| self.groups.iter().map(|group| group.memtable_rows).sum())
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
            let merge = match &mut self.merge {
                Some(merge) => merge,
                None => {
                    let Some(group) = self.groups.pop_front() else { return Ok(None) };
                    let sources = self.sources(&group)?;
                    self.merge.insert(Merge::new(sources, self.projection.columns.len()))
                }
            };
            let mut output = Output::default();
            if !merge.fill(&mut output, BATCH_ROWS.min(self.left).max(1))? {
                self.merge = None;
            }
            if output.rows() > 0 {
                let merged = output.finish(&self.projection)?;
                return Ok(Some(self.label(merged)?.0));
            }
        }
    }

    /// Batches of one group after the other, each group sorted as a whole. Groups follow each other in time.
    fn next_sorted(&mut self, ticks_at: usize) -> Result<Option<RecordBatch>> {
        while self.sorted.is_empty() {
            let Some(group) = self.groups.pop_front() else { return Ok(None) };
            let mut merge = Merge::new(self.sources(&group)?, self.projection.columns.len());
            let (mut batches, mut ticks): (Vec<RecordBatch>, Vec<ScalarBuffer<i64>>) =
                (Vec::new(), Vec::new());
            let mut more = true;
            while more {
                let mut output = Output::default();
                more = merge.fill(&mut output, BATCH_ROWS)?;
                let (batch, merged) = self.label(output.finish(&self.projection)?)?;
                ticks.extend(merged.columns.get(ticks_at).and_then(|array| ticks_of(array)));
                batches.push(batch);
            }
            self.sorted = sort_by_time(&self.plan.output, &batches, &ticks, BATCH_ROWS)?.into();
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
        let mut sources = Vec::with_capacity(count);
        for file in &group.files {
            let Some(mut source) = FileSource::open(file, range.clone(), count == 1, input_rows)? else {
                continue;
            };
            if let Some(summing) = self.summing.as_ref().filter(|_| count == 1) {
                let blocks = source.take_summed(&summing.columns)?;
                summing.blocks.lock().extend(self.summed(summing, blocks)?);
            }
            sources.push(Source::File(Box::new(source)));
        }
        for (memtable, seq_end) in &group.memtables {
            sources.push(Source::Mem(MemSource::new(Arc::clone(memtable), *seq_end, range.clone())));
        }
        Ok(sources)
    }

    /// Adds names and tags to blocks.
    fn summed(&self, summing: &Summing, blocks: Vec<SummedBlock>) -> Result<Option<SummedBlocks>> {
        if blocks.is_empty() {
            return Ok(None);
        }
        let runs = blocks.iter().zip(1..).map(|(block, end)| Run { table: block.table, end }).collect();
        let nulls = self.projection.columns.iter().map(|c| new_null_array(&c.data_type, blocks.len()));
        let merged = Merged { columns: nulls.collect(), runs, rows: blocks.len() };
        // A block has no time of its own.
        let fields = self.plan.output.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let (labels, merged) = self.label_as(&schema, merged)?;
        // Runs that are left name the blocks that are left.
        let known: BTreeSet<TableUid> = merged.runs.iter().map(|run| run.table).collect();
        let blocks: Vec<_> = blocks.into_iter().filter(|block| known.contains(&block.table)).collect();
        let sums = (0..summing.columns.len()).map(|column| {
            blocks.iter().map(|b| b.sums.get(column).copied().unwrap_or(BlockSum::UNKNOWN)).collect()
        });
        let sums = sums.collect();
        Ok(Some(SummedBlocks { labels, rows: blocks.iter().map(|block| block.rows).collect(), sums }))
    }

    /// Adds names and tags, and leaves out tables that the directory does not know.
    fn label(&self, merged: Merged) -> Result<(RecordBatch, Merged)> {
        self.label_as(&self.plan.output, merged)
    }

    fn label_as(&self, schema: &SchemaRef, merged: Merged) -> Result<(RecordBatch, Merged)> {
        let labelled = self.origins.iter().any(|origin| matches!(origin, Origin::Tag(_) | Origin::Tbname));
        let directory = matches!(self.plan.tables, Selection::All(Some(_)));
        let (merged, tables) = if labelled || directory { self.known(merged)? } else { (merged, Vec::new()) };
        let labels = labelled.then(|| Labels::new(&tables, &merged.runs));
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
        Ok((batch.map_err(|e| Error::internal("rows of a scan do not fit its schema").caused_by(e))?, merged))
    }

    fn known(&self, merged: Merged) -> Result<(Merged, Vec<SelectedTable>)> {
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
        Ok((merged, found.into_iter().flatten().collect()))
    }
}

fn timestamp_type(precision: Precision) -> arrow_schema::DataType {
    model::DataType::Timestamp.arrow(precision)
}
