//! Rows of one vnode: memtables that take applied blocks as they are, Parquet files that flushes make of them, and
//! scans that show both as one table.
//!
//! Not for: the log (rows come from it, and a restart replays what the manifest does not cover), names and tags (they
//! come in with a scan and a flush), SQL. It has no clock and no threads; [`FlushJob::run`] and the streams of
//! [`StoreSnapshot::scan`] say where they block.
//!
//! Rows are applied ([`memtable`]), merged by age ([`merge`], over [`mem_source`] and [`file_source`], in the order of
//! [`row_key`]), gathered into columns ([`output`]), and end in a file ([`flush`], [`compaction`], both through [`bucket_rows`] and [`writer`]) or a
//! stream ([`scan`], [`stream`]). Which files become one [`compaction_plan`] says. What is on disk is fixed by [`format`], [`table_index`] and [`manifest`], and drawn in docs/data-files.md.

mod blocks;
mod bucket_rows;
mod compaction;
mod compaction_plan;
mod deletions;
mod encoding;
mod error;
mod file;
mod file_source;
mod flush;
mod format;
mod labels;
mod manifest;
mod mem_source;
mod memtable;
mod merge;
mod output;
mod page_prune;
mod page_width;
mod projection;
mod row_key;
mod rows;
mod scan;
mod scan_groups;
mod selection;
mod snapshot;
mod sort;
mod stream;
mod table_index;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use model::{Precision, Result, TableUid, Version};
use query::source::TimeRange;
use wal::disk::Disk;

use crate::block::RowBlock;
use deletions::Deletions;
use error::io_error;
use file::DataFile;
use memtable::{Added, Memtable};

pub use compaction::{CompactionJob, CompactionOutcome, CompactionProgress, CompactionSize};
pub use compaction_plan::{CompactionScope, Place};
pub use encoding::CompressionLevels;
pub use file::verify_file;
pub use flush::{FlushJob, FlushOutcome, SchemaSource};
pub(crate) use labels::value_array;
pub use manifest::{DeleteScope, FileMeta, Manifest, Tombstone};
pub use scan::ScanPlan;
pub use selection::{SelectedTable, Selection, TableDirectory};
pub use snapshot::StoreSnapshot;

/// Settings of a store. They stay as they are for the life of the database.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Directory of the data files, of this vnode alone.
    pub dir: PathBuf,
    /// Of the database's timestamps.
    pub precision: Precision,
    /// Ticks that one data file covers (DURATION).
    pub duration_ticks: i64,
    /// Of data files.
    pub levels: CompressionLevels,
}

/// Rows of one vnode. Synchronous: applying costs no I/O, and the holder's lock keeps calls apart.
pub struct Store {
    options: Arc<StoreOptions>,
    disk: Arc<dyn Disk>,
    active: Active,
    /// Oldest first: written or about to be, still read.
    frozen: Vec<Active>,
    files: Arc<Vec<Arc<DataFile>>>,
    /// Not read by new scans, but named by the manifest that is durable.
    obsolete: Vec<Arc<DataFile>>,
    deletions: Arc<Deletions>,
    next_generation: u64,
    next_seq: u64,
    last_version: Version,
}

/// A memtable with what its writer counts.
struct Active {
    memtable: Arc<Memtable>,
    rows: usize,
    bytes: usize,
    /// All its rows came after this version.
    since: Version,
}

impl Active {
    fn new(generation: u64, since: Version) -> Self {
        Self { memtable: Arc::new(Memtable::new(generation)), rows: 0, bytes: 0, since }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("dir", &self.options.dir)
            .field("memtable_rows", &self.active.rows)
            .field("frozen", &self.frozen.len())
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the files of a manifest: of each the length and the footer's checksum are checked, the rest is read when
    /// it is needed. Removes files that the manifest does not name: parts of flushes that did not get that far.
    ///
    /// # Errors
    /// The disk's. A file that is missing or is not the one that was written is no reason: reads of its time range get
    /// an error that names it.
    pub fn new(options: StoreOptions, disk: Arc<dyn Disk>, manifest: Manifest) -> Result<Self> {
        let dir = &options.dir;
        disk.create_dir_all(dir).map_err(|e| io_error("creating the directory of", dir, e))?;
        remove_unnamed(&*disk, &options, &manifest)?;
        let files: Vec<_> = manifest
            .files
            .into_iter()
            .map(|meta| Arc::new(DataFile::new(Arc::clone(&disk), &options.dir, meta)))
            .collect();
        for file in &files {
            file.check_at_start()?;
        }
        let last_version = files.iter().map(|file| file.meta.last_version).max().unwrap_or_default();
        let deletions =
            Deletions { tombstones: manifest.tombstones, dropped: manifest.dropped, ..Deletions::default() };
        Ok(Self {
            options: Arc::new(options),
            disk,
            // Of the replayed tail any version may come: the log says which, not the files.
            active: Active::new(manifest.next_generation, Version(0)),
            frozen: Vec::new(),
            files: Arc::new(files),
            obsolete: Vec::new(),
            deletions: Arc::new(deletions),
            next_generation: manifest.next_generation + 1,
            next_seq: 0,
            last_version,
        })
    }

    /// Takes in the rows that the log brought at `version`. Total: what is wrong with a block was found before it was
    /// proposed. Costs no copy of the rows.
    pub fn apply(&mut self, version: Version, block: RowBlock) {
        self.note(version);
        let duration = self.options.duration_ticks;
        let Added { rows, bytes } = self.active.memtable.insert(self.next_seq, version, block, duration);
        self.next_seq += 1;
        self.active.rows += rows;
        self.active.bytes += bytes;
    }

    /// Hides the rows of a time range that are older than `version`.
    pub fn delete(&mut self, version: Version, owner: TableUid, scope: DeleteScope, range: TimeRange) {
        self.note(version);
        let scope = match scope {
            DeleteScope::All => DeleteScope::All,
            DeleteScope::Tables(tables) => {
                let tables: BTreeSet<TableUid> = tables.iter().copied().collect();
                if tables.is_empty() {
                    return;
                }
                DeleteScope::Tables(tables.into_iter().collect())
            }
        };
        if range.is_empty() {
            return;
        }
        let tombstone = Tombstone {
            owner,
            version,
            scope,
            first_tick: range.first,
            last_tick_inclusive: range.last_inclusive,
        };
        // A replayed DELETE may stand in the manifest already.
        if !self.deletions.tombstones.contains(&tombstone) {
            Arc::make_mut(&mut self.deletions).tombstones.push(tombstone);
        }
    }

    /// A child table of `owner` is gone, with all its rows.
    pub fn drop_table(&mut self, owner: TableUid, table: TableUid, version: Version) {
        self.note(version);
        let in_memory = self.memtables().any(|memtable| memtable.has_table(owner, table));
        let in_files = self
            .files
            .iter()
            .map(|file| &file.meta)
            .any(|meta| meta.owner == owner && meta.first_table <= table && table <= meta.last_table);
        if in_memory || in_files {
            let deletions = Arc::make_mut(&mut self.deletions);
            Arc::make_mut(deletions.dropped.entry(owner).or_default()).insert(table, version);
        }
    }

    /// A super table or a normal table is gone, with all its rows.
    pub fn drop_owner(&mut self, owner: TableUid, version: Version) {
        self.note(version);
        let deletions = Arc::make_mut(&mut self.deletions);
        deletions.tombstones.retain(|tombstone| tombstone.owner != owner);
        deletions.dropped.remove(&owner);
        deletions.dropped_owners.insert(owner, version);
        self.retire(|meta| meta.owner == owner);
    }

    /// Takes whole files out whose rows are all before `first_kept`. Gives their number.
    pub fn expire(&mut self, first_kept: i64) -> usize {
        self.retire(|meta| meta.last_tick_inclusive < first_kept)
    }

    /// Bytes that the memtable being written holds, index included.
    #[must_use]
    pub fn memtable_bytes(&self) -> usize {
        self.active.bytes
    }

    /// Rows that the memtable being written holds.
    #[must_use]
    pub fn memtable_rows(&self) -> usize {
        self.active.rows
    }

    /// Bytes of memtables whose flush is not installed yet.
    #[must_use]
    pub fn frozen_bytes(&self) -> usize {
        self.frozen.iter().map(|frozen| frozen.bytes).sum()
    }

    /// Begins a new memtable and hands out the old one to be written; it stays readable until the outcome is installed.
    /// `None` if there are no rows. Not to be called between two blocks of one version.
    pub fn freeze(&mut self) -> Option<FlushJob> {
        if self.active.rows == 0 {
            return None;
        }
        let next = Active::new(self.next_generation, self.last_version);
        self.next_generation += 1;
        let frozen = std::mem::replace(&mut self.active, next);
        let memtable = Arc::clone(&frozen.memtable);
        self.frozen.push(frozen);
        Some(FlushJob {
            options: Arc::clone(&self.options),
            disk: Arc::clone(&self.disk),
            memtable,
            deletions: Arc::clone(&self.deletions),
            last_version: self.last_version,
        })
    }

    /// Shows the files of a flush in place of its memtable, in one step. To be followed by a durable manifest.
    pub fn install(&mut self, outcome: FlushOutcome) {
        let Some(at) = self.frozen.iter().position(|f| f.memtable.generation == outcome.generation) else {
            tracing::error!(generation = outcome.generation, "flush of a memtable that is not frozen");
            return;
        };
        self.frozen.remove(at);
        let files = Arc::make_mut(&mut self.files);
        for meta in outcome.files {
            let owner = meta.owner;
            let file = Arc::new(DataFile::new(Arc::clone(&self.disk), &self.options.dir, meta));
            if self.deletions.dropped_owners.contains_key(&owner) {
                // Dropped while it was written, and named by no manifest.
                file.mark_obsolete();
            } else {
                files.push(file);
            }
        }
        files.sort_by_key(|file| file.meta.generation);
        let since = self.frozen.first().unwrap_or(&self.active).since;
        Arc::make_mut(&mut self.deletions).prune(since, &self.files);
    }

    /// What has to be durable for the installed files to be found again.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest {
            files: self.files.iter().map(|file| file.meta.clone()).collect(),
            tombstones: self.deletions.tombstones.clone(),
            dropped: self.deletions.dropped.clone(),
            next_generation: self.next_generation,
        }
    }

    /// `manifest` is durable: files that it no longer names go, each when its last reader is done.
    pub fn manifest_saved(&mut self, manifest: &Manifest) {
        let named: BTreeSet<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
        for file in self.obsolete.extract_if(.., |file| !named.contains(file.meta.name.as_str())) {
            file.mark_obsolete();
        }
    }

    /// The rows of this moment. Cheap; it holds no writer up, and keeps the files that it reads.
    #[must_use]
    pub fn snapshot(&self) -> StoreSnapshot {
        StoreSnapshot {
            options: Arc::clone(&self.options),
            memtables: self.memtables().cloned().collect(),
            seq_end: self.next_seq,
            files: Arc::clone(&self.files),
            deletions: Arc::clone(&self.deletions),
        }
    }

    fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.frozen.iter().chain([&self.active]).map(|held| &held.memtable)
    }

    fn note(&mut self, version: Version) {
        self.last_version = self.last_version.max(version);
    }

    fn retire(&mut self, gone: impl Fn(&FileMeta) -> bool) -> usize {
        let before = self.obsolete.len();
        if self.files.iter().any(|file| gone(&file.meta)) {
            let files = Arc::make_mut(&mut self.files);
            self.obsolete.extend(files.extract_if(.., |file| gone(&file.meta)));
        }
        self.obsolete.len() - before
    }
}

/// Removes data files that no manifest names.
fn remove_unnamed(disk: &dyn Disk, options: &StoreOptions, manifest: &Manifest) -> Result<()> {
    let dir = &options.dir;
    let named: BTreeSet<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    let entries = disk.list(dir).map_err(|e| io_error("listing the directory of", dir, e))?;
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        let ours = entry.name.ends_with(".parquet") || entry.name.ends_with(".parquet.tmp");
        if ours && !named.contains(entry.name.as_str()) {
            let path = dir.join(&entry.name);
            tracing::info!(path = %path.display(), "removing a data file that no checkpoint names");
            disk.remove(&path).map_err(|e| io_error("removing", &path, e))?;
        }
    }
    Ok(())
}
