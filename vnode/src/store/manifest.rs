//! What has to be remembered of the data files: the part of a checkpoint that this module owns.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{TableUid, Version};
use query::source::TimeRange;
use serde::{Deserialize, Serialize};

/// Files, deletions that they do not yet reflect, and the next number. Swapped as a whole: a file exists for readers
/// from the moment a manifest names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Data files, oldest generation first.
    pub files: Vec<FileMeta>,
    /// DELETEs that at least one file predates.
    pub tombstones: Vec<Tombstone>,
    /// Tables dropped since a file with rows of theirs was written, by owner, with the version that dropped them.
    pub dropped: BTreeMap<TableUid, Arc<BTreeMap<TableUid, Version>>>,
    /// The generation that the next memtable gets. Never reused by a file that a manifest names.
    pub next_generation: u64,
}

/// One Parquet file: rows of one super table (all its children of this vnode) or normal table, of one time bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// Name within the data directory.
    pub name: String,
    /// The super table, or the normal table itself.
    pub owner: TableUid,
    /// Which bucket: timestamps divided by DURATION, rounded down.
    pub bucket: i64,
    /// The file's age among its owner's rows: the generation of the memtable that it was flushed from, or of the youngest
    /// of the files that it was merged from.
    pub generation: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of tables with rows in it.
    pub tables: u64,
    /// Lowest uid of a table in it.
    pub first_table: TableUid,
    /// Highest uid of a table in it.
    pub last_table: TableUid,
    /// Lowest log version that brought a row.
    pub first_version: Version,
    /// Every write and every DELETE up to this log version that concerns its rows is reflected in it.
    pub last_version: Version,
    /// Earliest timestamp, in ticks.
    pub first_tick: i64,
    /// Latest timestamp, in ticks.
    pub last_tick_inclusive: i64,
    /// Whether some row does not supply all columns, so that `_set` has to be read where files overlap.
    pub partial: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32 of the whole file.
    pub checksum: u32,
    /// Size in bytes of the Parquet footer, its length and magic included.
    pub footer_bytes: u32,
    /// CRC-32 of the footer: checked whenever a vnode opens, where the whole file would take too long.
    pub footer_checksum: u32,
}

impl FileMeta {
    /// From its first to its last timestamp.
    #[must_use]
    pub const fn time(&self) -> TimeRange {
        TimeRange { first: self.first_tick, last_inclusive: self.last_tick_inclusive }
    }
}

/// Whose rows a DELETE hides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeleteScope {
    /// Of all tables of the owner.
    All,
    /// Of these, ascending.
    Tables(Arc<[TableUid]>),
}

/// One DELETE: hides the rows that are older than it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The super table or the normal table.
    pub owner: TableUid,
    /// Log version of the DELETE.
    pub version: Version,
    /// Whose rows.
    pub scope: DeleteScope,
    /// First hidden timestamp, in ticks.
    pub first_tick: i64,
    /// Last hidden timestamp.
    pub last_tick_inclusive: i64,
}

impl Tombstone {
    /// Whether a file may hold rows that it hides.
    pub(super) fn concerns(&self, file: &FileMeta) -> bool {
        self.owner == file.owner
            && self.version > file.last_version
            && self.first_tick <= file.last_tick_inclusive
            && file.first_tick <= self.last_tick_inclusive
            && self.tables_within(file) > 0
    }

    /// From its first to its last hidden timestamp.
    pub(super) const fn time(&self) -> TimeRange {
        TimeRange { first: self.first_tick, last_inclusive: self.last_tick_inclusive }
    }

    /// Number of tables that it hides rows of and that lie between a file's first and last, as far as it names them.
    pub(super) fn tables_within(&self, file: &FileMeta) -> u64 {
        match &self.scope {
            DeleteScope::All => file.tables,
            DeleteScope::Tables(tables) => {
                let from = tables.partition_point(|table| *table < file.first_table);
                let to = tables.partition_point(|table| *table <= file.last_table);
                to.saturating_sub(from) as u64
            }
        }
    }
}
