//! Which data columns a scan or a flush reads, in which order.

use arrow_schema::DataType as Arrow;
use model::{ColumnId, DataType, Precision, TableSchema};

/// One column that is read.
#[derive(Clone, Debug)]
pub(super) struct ReadColumn {
    pub(super) id: ColumnId,
    pub(super) data_type: Arrow,
}

/// What the rows of one instant are told apart by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// Nothing: there is one.
    #[default]
    None,
    /// This column of numbers.
    Number(ColumnId),
    /// This column of text.
    Text(ColumnId),
}

impl KeyKind {
    fn of(schema: &TableSchema) -> Self {
        match schema.key() {
            None => Self::None,
            Some(key) if matches!(key.data_type, DataType::Varchar(_)) => Self::Text(key.id),
            Some(key) => Self::Number(key.id),
        }
    }

    /// The column of a composite key.
    pub(super) fn column(self) -> Option<ColumnId> {
        match self {
            Self::None => None,
            Self::Number(id) | Self::Text(id) => Some(id),
        }
    }
}

/// The columns that are read, without repetition.
#[derive(Clone, Debug, Default)]
pub(super) struct Projection {
    pub(super) columns: Vec<ReadColumn>,
    /// What rows are merged by beside their time, whether that column is read or not.
    pub(super) key: KeyKind,
}

impl Projection {
    /// No column yet.
    pub(super) fn none(schema: &TableSchema) -> Self {
        Self { columns: Vec::new(), key: KeyKind::of(schema) }
    }

    /// All columns of a schema in its order.
    pub(super) fn all(schema: &TableSchema, precision: Precision) -> Self {
        let columns = schema
            .columns
            .iter()
            .map(|c| ReadColumn { id: c.id, data_type: c.data_type.arrow(precision) })
            .collect();
        Self { columns, key: KeyKind::of(schema) }
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
