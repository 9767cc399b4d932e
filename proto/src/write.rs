//! A write on its way to one vgroup: columnar already, names not yet resolved to table ids.
//!
//! INSERT text, the columnar writer and CSV import all end here, so that one validation serves them all.

use arrow_array::{Array, ArrayRef};
use model::{ColumnId, TableUid, Value};

/// Rows of one super table (any number of its children) or of one normal table, all with the same supplied columns, all
/// for one vgroup.
///
/// Invariants, checked by the receiver: at least one run and one row; `columns[0]` is the primary timestamp without
/// nulls; all columns have as many rows as the last run's `end`; ends rise strictly; rows of a run ascend strictly by
/// time, with a composite key by time and key, whose column is there and without nulls; a table has one run.
#[derive(Clone, Debug)]
pub struct WriteBlock {
    /// The super table, `None` for a normal table.
    pub stable: Option<TableUid>,
    /// Supplied columns: the rest keep their old value. Arrow types are [`model::DataType::arrow`] of the column.
    pub columns: Vec<(ColumnId, ArrayRef)>,
    /// Which rows are whose, in row order.
    pub runs: Vec<TableRun>,
}

/// Rows of one table within a [`WriteBlock`].
#[derive(Clone, Debug, PartialEq)]
pub struct TableRun {
    /// Table name.
    pub table: String,
    /// First row that is not the table's any more.
    pub end: u32,
    /// Tags to create the child with if it does not exist, in the order of the super table's tags.
    pub create_tags: Option<Vec<Value>>,
}

impl WriteBlock {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }
}
