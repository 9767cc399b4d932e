//! Merges files of one bucket into one: rows of one key become one, deleted rows go.
//!
//! Crash-safe by order alone: the new file is written under a name that never was, synced, renamed, its directory synced;
//! then a durable manifest names it in place of those it was made from; then these are removed. Whatever is left over
//! from an end in between is a file that no manifest names, and the next start removes it. Readers go on with the files
//! that their snapshot holds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::{Result, TableUid, Version};
use wal::disk::Disk;

use super::bucket_rows::{BATCH_BYTES, BATCH_ROWS, BucketRows, Written};
use super::compaction_plan::{CompactionScope, Pick, Place, Planner};
use super::deletions::Deletions;
use super::error::io_error;
use super::file::DataFile;
use super::file_source::{Chunk, FileSource};
use super::flush::SchemaSource;
use super::manifest::{FileMeta, Manifest};
use super::mem_source::SourceRange;
use super::merge::Source;
use super::selection::Selection;
use super::writer::FileHead;
use super::{Store, StoreOptions};

/// Rows that all inputs together hold decoded at once.
const INPUT_ROWS: usize = 2 * BATCH_ROWS;
/// And their bytes.
const INPUT_BYTES: usize = 2 * BATCH_BYTES;
/// An input decodes at least this many rows at once.
const INPUT_ROWS_MIN: usize = 512;
/// And no more, so that rows of a batch can be numbered in 16 bits.
const INPUT_ROWS_MAX: usize = 8_192;

/// Told to those who wait, and asked whether to go on.
#[derive(Debug, Default)]
pub struct CompactionProgress {
    rows: AtomicU64,
    rows_total: AtomicU64,
    buckets: AtomicU64,
    buckets_total: AtomicU64,
    stopped: AtomicBool,
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionSize {
    /// Owners' buckets with something to merge.
    pub buckets: u64,
    /// Rows that are read, about.
    pub rows: u64,
}

impl CompactionProgress {
    /// What is to be done, as far as is known.
    pub fn begin(&self, size: CompactionSize) {
        self.buckets_total.fetch_add(size.buckets, Ordering::Relaxed);
        self.rows_total.fetch_add(size.rows, Ordering::Relaxed);
    }

    /// One more bucket is done.
    pub fn bucket_done(&self) {
        self.buckets.fetch_add(1, Ordering::Relaxed);
    }

    /// Buckets that are done, and all of them.
    #[must_use]
    pub fn buckets(&self) -> (u64, u64) {
        (self.buckets.load(Ordering::Relaxed), self.buckets_total.load(Ordering::Relaxed))
    }

    /// Ends the work at the next batch; what is merged by then stays.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was told to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Share of the rows that are done, in percent; 100 where there is nothing to do.
    #[must_use]
    pub fn percent(&self) -> u8 {
        let (rows, total) = (self.rows.load(Ordering::Relaxed), self.rows_total.load(Ordering::Relaxed));
        let share = u128::from(rows.min(total)) * 100 / u128::from(total.max(1));
        if total == 0 { 100 } else { u8::try_from(share).unwrap_or(100) }
    }

    fn done(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

/// Files to be merged. Needs nothing from the store while it runs.
pub struct CompactionJob {
    pub(super) options: Arc<StoreOptions>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) pick: Pick,
    /// Those up to the checkpoint.
    pub(super) deletions: Deletions,
    /// Part of the new file's name: never given twice.
    pub(super) number: u64,
    pub(super) checkpoint: Version,
}

/// What a compaction made: durable, but in no manifest yet.
#[derive(Debug)]
pub struct CompactionOutcome {
    pub(super) inputs: Vec<Arc<DataFile>>,
    /// `None` where no row is left.
    pub(super) output: Option<FileMeta>,
}

impl fmt::Debug for CompactionJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.pick.files.iter().map(|file| file.meta.name.as_str()).collect();
        f.debug_struct("CompactionJob").field("files", &names).finish_non_exhaustive()
    }
}

impl CompactionJob {
    /// Number of files that become one.
    #[must_use]
    pub fn files(&self) -> usize {
        self.pick.files.len()
    }

    /// Rows that it reads.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.pick.files.iter().map(|file| file.meta.rows).sum()
    }

    /// Whose files, and of which bucket. Places of one scope ascend.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.pick.files.first().map(|file| (file.meta.owner, file.meta.bucket))
    }

    /// Reads, merges and writes. Blocks for long: for a thread that may. `None` if it was stopped, or the table is gone
    /// meanwhile: nothing has changed then.
    ///
    /// # Errors
    /// The disk's, full or broken, or `Damaged`, which name the file. Nothing has changed then.
    pub fn run(
        &self,
        schemas: &dyn SchemaSource,
        progress: &CompactionProgress,
    ) -> Result<Option<CompactionOutcome>> {
        let Some((owner, bucket)) = self.place() else { return Ok(None) };
        let Some(schema) = schemas.schema(owner) else { return Ok(None) };
        let files = &self.pick.files;
        // With nothing older beneath, what a row does not supply is NULL: `_set` has nothing left to say.
        let presence = !self.pick.oldest && files.iter().any(|file| file.meta.partial);
        let (options, disk) = (&self.options, &self.disk);
        let rows = BucketRows { options, disk, schemas, owner, schema, presence };
        let projection = rows.projection();
        let mut sources = Vec::with_capacity(files.len());
        for file in files {
            if self.deletions.hide_all(&file.meta) {
                continue;
            }
            let time = file.meta.time();
            let range = SourceRange {
                owner,
                time,
                selection: Selection::All(None),
                projection: Arc::clone(&projection),
                deletions: Arc::new(self.deletions.of(owner, time)),
            };
            let rows = (INPUT_ROWS / files.len().max(1)).clamp(INPUT_ROWS_MIN, INPUT_ROWS_MAX);
            let bytes = INPUT_BYTES / files.len().max(1);
            let source = FileSource::open(file, range, false, Chunk { rows, bytes })?;
            sources.extend(source.map(|source| Source::File(Box::new(source))));
        }
        let mut told = 0;
        let written = rows.write(sources, &projection, self.head(owner, bucket), |rows| {
            told += rows as u64;
            progress.done(rows as u64);
            !progress.is_stopped()
        })?;
        let output = match written {
            Written::Stopped => return Ok(None),
            Written::Nothing => None,
            Written::File(meta) => {
                let dir = &self.options.dir;
                self.disk.sync_dir(dir).map_err(|e| io_error("syncing the directory of", dir, e))?;
                Some(*meta)
            }
        };
        progress.done(self.rows().saturating_sub(told));
        Ok(Some(CompactionOutcome { inputs: files.clone(), output }))
    }

    fn head(&self, owner: TableUid, bucket: i64) -> FileHead {
        let metas = || self.pick.files.iter().map(|file| &file.meta);
        let generation = metas().map(|meta| meta.generation).max().unwrap_or_default();
        FileHead {
            name: format!("{owner}_{bucket}_{generation}_{}.parquet", self.number),
            owner,
            bucket,
            generation,
            first_version: metas().map(|meta| meta.first_version).min().unwrap_or_default(),
            last_version: self.checkpoint,
            level: self.options.levels.compaction,
        }
    }
}

impl Store {
    /// The next files to be merged, at place `from` or behind it, and as far as `checkpoint` holds them.
    pub fn compaction(
        &mut self,
        checkpoint: Version,
        scope: CompactionScope,
        from: Option<Place>,
    ) -> Option<CompactionJob> {
        let deletions = self.deletions.until(checkpoint);
        let pick = Planner::new(&self.files, &deletions, checkpoint).pick(scope, from)?;
        let number = self.next_generation;
        self.next_generation += 1;
        let (options, disk) = (Arc::clone(&self.options), Arc::clone(&self.disk));
        Some(CompactionJob { options, disk, pick, deletions, number, checkpoint })
    }

    /// How much a compaction of everything in `scope` has to do.
    #[must_use]
    pub fn compaction_size(&self, checkpoint: Version, scope: CompactionScope) -> CompactionSize {
        let deletions = self.deletions.until(checkpoint);
        Planner::new(&self.files, &deletions, checkpoint).size(scope)
    }

    /// Shows the result of a compaction in place of its inputs, in one step. To be followed by a durable manifest. False
    /// if an input has gone meanwhile, with its table or past KEEP: then the result goes too.
    pub fn install_compaction(&mut self, outcome: CompactionOutcome) -> bool {
        let CompactionOutcome { inputs, output } = outcome;
        let made = output.map(|meta| DataFile::new(Arc::clone(&self.disk), &self.options.dir, meta));
        let held = |file: &Arc<DataFile>| inputs.iter().any(|input| Arc::ptr_eq(input, file));
        if self.files.iter().filter(|file| held(file)).count() != inputs.len() {
            if let Some(file) = made {
                file.mark_obsolete();
            }
            return false;
        }
        let files = Arc::make_mut(&mut self.files);
        self.obsolete.extend(files.extract_if(.., |file| held(file)));
        files.extend(made.map(Arc::new));
        files.sort_by_key(|file| file.meta.generation);
        let since = self.frozen.first().unwrap_or(&self.active).since;
        Arc::make_mut(&mut self.deletions).prune(since, &self.files);
        true
    }

    /// `durable`, the manifest of the checkpoint, with the files of now: those that compaction and KEEP left of what the
    /// checkpoint holds, and none that a flush has made since.
    #[must_use]
    pub fn manifest_at(&self, checkpoint: Version, durable: Manifest) -> Manifest {
        let held: Vec<_> =
            self.files.iter().filter(|file| file.meta.last_version <= checkpoint).cloned().collect();
        let mut deletions =
            Deletions { tombstones: durable.tombstones, dropped: durable.dropped, ..Deletions::default() };
        deletions.prune(checkpoint, &held);
        Manifest {
            files: held.iter().map(|file| file.meta.clone()).collect(),
            tombstones: deletions.tombstones,
            dropped: deletions.dropped,
            next_generation: self.next_generation,
        }
    }

    /// Whether files wait for a manifest that does not name them.
    #[must_use]
    pub fn has_obsolete(&self) -> bool {
        !self.obsolete.is_empty()
    }
}
