//! Which data columns a scan or a flush reads, in which order.

use arrow_schema::DataType as Arrow;
use model::{ColumnId, Precision, TableSchema};

/// One column that is read.
#[derive(Clone, Debug)]
pub(super) struct ReadColumn {
    pub(super) id: ColumnId,
    pub(super) data_type: Arrow,
}

/// The columns that are read, without repetition.
#[derive(Clone, Debug, Default)]
pub(super) struct Projection {
    pub(super) columns: Vec<ReadColumn>,
}

impl Projection {
    /// All columns of a schema in its order.
    pub(super) fn all(schema: &TableSchema, precision: Precision) -> Self {
        let columns = schema
            .columns
            .iter()
            .map(|c| ReadColumn { id: c.id, data_type: c.data_type.arrow(precision) })
            .collect();
        Self { columns }
    }

    /// The position of a column, which is added if it is not there yet.
    pub(super) fn add(&mut self, id: ColumnId, data_type: Arrow) -> usize {
        if let Some(at) = self.columns.iter().position(|c| c.id == id) {
            return at;
        }
        self.columns.push(ReadColumn { id, data_type });
        self.columns.len() - 1
    }
}
