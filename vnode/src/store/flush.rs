//! Turns a frozen memtable into files.

use std::fmt;
use std::sync::Arc;

use model::{Result, TableSchema, TableUid, Version};
use query::source::TimeRange;
use wal::disk::Disk;

use super::StoreOptions;
use super::bucket_rows::{BucketRows, Written};
use super::deletions::Deletions;
use super::error::io_error;
use super::manifest::FileMeta;
use super::mem_source::{MemSource, SourceRange};
use super::memtable::{Memtable, OwnerSummary, bucket_range};
use super::merge::Source;
use super::projection::Projection;
use super::selection::Selection;
use super::writer::FileHead;

/// What a flush or a compaction has to know of tables, as they are when it runs.
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
        let job = self.job;
        let time = bucket_range(bucket, job.options.duration_ticks);
        let generation = job.memtable.generation;
        let rows = BucketRows {
            options: &job.options,
            disk: &job.disk,
            schemas: self.schemas,
            owner: self.owner,
            schema: Arc::clone(&self.schema),
            presence: self.summary.partial,
        };
        let projection = rows.projection();
        let source = self.source(time, Arc::clone(&projection));
        let head = FileHead {
            name: file_name(self.owner, bucket, generation),
            owner: self.owner,
            bucket,
            generation,
            first_version: self.summary.first_version,
            last_version: job.last_version,
            level: job.options.levels.flush,
        };
        match rows.write(vec![source], &projection, head, |_| true)? {
            Written::File(meta) => Ok(Some(*meta)),
            Written::Nothing | Written::Stopped => Ok(None),
        }
    }

    fn source(&self, time: TimeRange, projection: Arc<Projection>) -> Source {
        let deletions = Arc::new(self.job.deletions.of(self.owner, time));
        let range =
            SourceRange { owner: self.owner, time, selection: Selection::All(None), projection, deletions };
        Source::Mem(MemSource::new(Arc::clone(&self.job.memtable), u64::MAX, range))
    }
}

/// One owner's files of all times match `<owner>_*.parquet`, which is how other programs read a super table.
fn file_name(owner: TableUid, bucket: i64, generation: u64) -> String {
    format!("{owner}_{bucket}_{generation}.parquet")
}
