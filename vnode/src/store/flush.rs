//! Turns a frozen memtable into files.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BinaryArray, DictionaryArray, Int32Array, StringArray, new_null_array};
use arrow_schema::{DataType, SchemaRef};
use model::{ColumnId, Error, Result, TableSchema, TableUid, Version};
use query::source::TimeRange;
use wal::disk::Disk;

use super::StoreOptions;
use super::deletions::Deletions;
use super::error::io_error;
use super::format::file_schema;
use super::manifest::FileMeta;
use super::mem_source::{MemSource, SourceRange};
use super::memtable::{Memtable, OwnerSummary, bucket_range};
use super::merge::{Merge, Source};
use super::output::{Merged, Output, Run};
use super::projection::Projection;
use super::rows::ticks_of;
use super::selection::Selection;
use super::writer::{FileHead, FileWriter};

/// Rows merged at a time: the unit that goes through the encoders.
const BATCH_ROWS: usize = 64 * 1024;

/// What a flush has to know of tables, as they are when it runs.
pub trait SchemaSource {
    /// Columns of a super table or normal table; `None` if it is gone, and its rows with it.
    fn schema(&self, owner: TableUid) -> Option<Arc<TableSchema>>;
    /// Name of a child of `owner`, or of `owner` itself where it is a normal table; `None` if it is gone.
    fn table_name(&self, owner: TableUid, table: TableUid) -> Option<Arc<str>>;
}

/// A frozen memtable to be written. Needs nothing from the store, so that writes and reads go on beside it, and may be
/// run again after an error: it writes the same file names.
pub struct FlushJob {
    pub(super) options: Arc<StoreOptions>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) memtable: Arc<Memtable>,
    pub(super) deletions: Arc<Deletions>,
    pub(super) last_version: Version,
}

/// Files of a flush, durable but in no manifest yet: [`Store::install`](super::Store::install) shows them. If that
/// never happens the next start removes them.
#[derive(Clone, Debug)]
pub struct FlushOutcome {
    pub(super) generation: u64,
    /// The new files.
    pub files: Vec<FileMeta>,
    /// Everything in the log up to this version is in files once this and all earlier flushes are installed.
    pub last_version: Version,
}

impl fmt::Debug for FlushJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (generation, last_version) = (self.memtable.generation, self.last_version);
        f.debug_struct("FlushJob")
            .field("generation", &generation)
            .field("last_version", &last_version)
            .finish_non_exhaustive()
    }
}

impl FlushJob {
    /// Everything in the log up to this version is in files once this and all earlier flushes are installed.
    #[must_use]
    pub fn last_version(&self) -> Version {
        self.last_version
    }

    /// Writes and syncs the files. Blocks on disk and on encoding: for a thread that may.
    ///
    /// # Errors
    /// The disk's, full or broken, which name the file. Nothing has changed then.
    pub fn run(&self, schemas: &dyn SchemaSource) -> Result<FlushOutcome> {
        let mut files = Vec::new();
        for owner in self.memtable.owners() {
            let gone = self.deletions.dropped_owners.contains_key(&owner);
            let Some(schema) = schemas.schema(owner).filter(|_| !gone) else { continue };
            let Some(summary) = self.memtable.summary(owner) else { continue };
            let owner = OwnerFlush { job: self, schemas, owner, schema, summary };
            for bucket in &owner.summary.buckets {
                files.extend(owner.write_bucket(*bucket)?);
            }
        }
        if !files.is_empty() {
            let dir = &self.options.dir;
            self.disk.sync_dir(dir).map_err(|e| io_error("syncing the directory of", dir, e))?;
        }
        Ok(FlushOutcome { generation: self.memtable.generation, files, last_version: self.last_version })
    }
}

/// One owner's part.
struct OwnerFlush<'a> {
    job: &'a FlushJob,
    schemas: &'a dyn SchemaSource,
    owner: TableUid,
    schema: Arc<TableSchema>,
    summary: OwnerSummary,
}

impl OwnerFlush<'_> {
    /// The file of one bucket; `None` if no row is left for it.
    fn write_bucket(&self, bucket: i64) -> Result<Option<FileMeta>> {
        let options = &self.job.options;
        let time = bucket_range(bucket, options.duration_ticks);
        let projection = Arc::new(Projection::all(&self.schema, options.precision));
        let columns = projection.columns.len();
        let mut merge = Merge::new(vec![self.source(time, Arc::clone(&projection))], columns);
        let schema = file_schema(&self.schema, options.precision, self.summary.partial);
        let mut writer: Option<FileWriter> = None;
        let mut output = Output::default();
        let mut more = true;
        while more {
            more = merge.fill(&mut output, BATCH_ROWS)?;
            let presence = if self.summary.partial { output.presence() } else { None };
            let merged = output.finish(&projection)?;
            let Some(batch) = self.batch(merged, presence, &schema)? else { continue };
            let file = match &mut writer {
                Some(file) => file,
                empty => empty.insert(self.create(bucket, &schema)?),
            };
            file.write(&batch.columns, &batch.ticks, &batch.runs, batch.partial)?;
        }
        writer.map(FileWriter::finish).transpose()
    }

    fn source(&self, time: TimeRange, projection: Arc<Projection>) -> Source {
        let deletions = Arc::new(self.job.deletions.of(self.owner, time));
        let range =
            SourceRange { owner: self.owner, time, selection: Selection::All(None), projection, deletions };
        Source::Mem(MemSource::new(Arc::clone(&self.job.memtable), u64::MAX, range))
    }

    fn create(&self, bucket: i64, schema: &SchemaRef) -> Result<FileWriter> {
        let generation = self.job.memtable.generation;
        let head = FileHead {
            name: file_name(self.owner, bucket, generation),
            owner: self.owner,
            bucket,
            generation,
            first_version: self.summary.first_version,
            last_version: self.job.last_version,
        };
        FileWriter::create(Arc::clone(&self.job.disk), &self.job.options.dir, head, Arc::clone(schema))
    }

    /// Puts `tbname` before the columns and `_set` behind them. Rows of tables that are gone stay out.
    fn batch(
        &self,
        merged: Merged,
        presence: Option<BinaryArray>,
        schema: &SchemaRef,
    ) -> Result<Option<FileBatch>> {
        let partial = presence.is_some();
        let mut columns = merged.columns;
        if self.summary.partial {
            columns.push(match presence {
                Some(presence) => Arc::new(presence),
                None => new_null_array(&DataType::Binary, merged.rows),
            });
        }
        let names: BTreeMap<TableUid, Arc<str>> = merged
            .runs
            .iter()
            .filter_map(|run| Some((run.table, self.schemas.table_name(self.owner, run.table)?)))
            .collect();
        let merged = Merged { columns, runs: merged.runs, rows: merged.rows }
            .retain(|table| names.contains_key(&table))?;
        if merged.rows == 0 {
            return Ok(None);
        }
        let at = self.schema.columns.iter().position(|c| c.id == ColumnId::TIMESTAMP);
        let ticks = at.and_then(|at| merged.columns.get(at)).and_then(|array| ticks_of(array));
        let ticks =
            ticks.ok_or_else(|| Error::internal(format!("table {} without timestamps", self.owner)))?;
        let mut columns = Vec::with_capacity(schema.fields().len());
        columns.push(tbname(&merged.runs, &names)?);
        columns.extend(merged.columns);
        Ok(Some(FileBatch { columns, ticks, runs: merged.runs, partial }))
    }
}

/// Rows on their way into a file.
struct FileBatch {
    columns: Vec<ArrayRef>,
    ticks: arrow_buffer::ScalarBuffer<i64>,
    runs: Vec<Run>,
    partial: bool,
}

fn tbname(runs: &[Run], names: &BTreeMap<TableUid, Arc<str>>) -> Result<ArrayRef> {
    let mut keys: Vec<i32> = Vec::with_capacity(runs.last().map_or(0, |run| run.end));
    for (number, run) in (0i32..).zip(runs) {
        keys.resize(run.end, number);
    }
    let values = StringArray::from_iter_values(
        runs.iter().map(|run| names.get(&run.table).map(|name| &**name).unwrap_or_default()),
    );
    let array = DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys), Arc::new(values))
        .map_err(|e| Error::internal("table names of a flush").caused_by(e))?;
    Ok(Arc::new(array))
}

/// One owner's files of all times match `<owner>_*.parquet`, which is how other programs read a super table.
fn file_name(owner: TableUid, bucket: i64, generation: u64) -> String {
    format!("{owner}_{bucket}_{generation}.parquet")
}
