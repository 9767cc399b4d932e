//! Rows as the log holds them and the memtable keeps them.

use arrow_array::{Array, ArrayRef};
use model::{ColumnId, SchemaVersion, TableUid, Version};

/// Rows of one super table (all its children of one vnode together) or of one normal table, with one set of supplied
/// columns: the unit that a Data record carries and the memtable holds. Arrays are views of the record's body.
#[derive(Clone, Debug)]
pub struct RowBlock {
    /// The super table, or the normal table itself.
    pub owner: TableUid,
    /// Schema in force when it was written.
    pub schema_version: SchemaVersion,
    /// Whose rows are which: run-end encoded, a table has one run, rows of a run ascend strictly by time, or by time
    /// and key.
    pub runs: Vec<BlockRun>,
    /// Supplied columns; the first is the primary timestamp, without nulls.
    pub columns: Vec<(ColumnId, ArrayRef)>,
    /// Whether these are all the columns of the schema at `schema_version`. Where false, a missing column keeps the
    /// value it had.
    pub complete: bool,
}

/// Rows of one table within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The table.
    pub table: TableUid,
    /// First row that is not the table's any more.
    pub end: u32,
}

/// A block and the log version that brought it: of two rows with one key the later version wins, column by column.
#[derive(Clone, Debug)]
pub struct VersionedBlock {
    /// Log version.
    pub version: Version,
    /// Rows.
    pub block: RowBlock,
}

impl RowBlock {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }
}
