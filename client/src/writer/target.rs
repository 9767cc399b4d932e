//! What a writer knows of the table it writes to.

use std::ops::RangeInclusive;

use model::{Code, ColumnId, Error, Precision, Result, TableUid, VgroupId};
use proto::v1;

use crate::decode::Column;

#[derive(Clone, Debug)]
pub(super) struct TargetColumn {
    pub(super) id: ColumnId,
    /// Part of a composite key.
    pub(super) is_key: bool,
    pub(super) column: Column,
}

/// A super table or a normal table: its columns, its tags, and where its rows go.
#[derive(Clone, Debug)]
pub struct Target {
    database: String,
    table: String,
    precision: Precision,
    times: RangeInclusive<i64>,
    pub(super) vgroups: Vec<VgroupId>,
    pub(super) stable: Option<TableUid>,
    columns: Vec<TargetColumn>,
    tags: Vec<TargetColumn>,
}

impl Target {
    pub(super) fn from_wire(database: &str, table: &str, target: v1::DescribeTargetResponse) -> Result<Self> {
        let precision = proto::convert::precision_from_wire(target.precision)?;
        let column = |column: v1::ColumnDef| {
            let is_key = column.is_key;
            let (id, name, data_type) = proto::convert::column_from_wire(column)?;
            Ok(TargetColumn { id, is_key, column: Column { name, data_type, precision } })
        };
        let read = |columns: Vec<v1::ColumnDef>| columns.into_iter().map(column).collect::<Result<Vec<_>>>();
        if target.vgroups.is_empty() || target.columns.is_empty() {
            return Err(Error::with(Code::InvalidMessage, "a table without vgroups or columns"));
        }
        Ok(Self {
            database: database.to_owned(),
            table: table.to_owned(),
            precision,
            times: target.first_time..=target.last_time,
            vgroups: target.vgroups.into_iter().map(VgroupId).collect(),
            stable: (target.stable != 0).then_some(TableUid(target.stable)),
            columns: read(target.columns)?,
            tags: read(target.tags)?,
        })
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The super table or normal table.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Tick length of its timestamps.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Timestamps, in ticks, that the server took when it was asked: `KEEP` bounds the past, and moves on.
    #[must_use]
    pub fn times(&self) -> RangeInclusive<i64> {
        self.times.clone()
    }

    /// Whether rows go to children of a super table.
    #[must_use]
    pub fn is_super(&self) -> bool {
        self.stable.is_some()
    }

    /// Its columns, the primary timestamp first.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.columns.iter().map(|column| &column.column)
    }

    /// Its tags; none for a normal table.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = &Column> {
        self.tags.iter().map(|tag| &tag.column)
    }

    pub(super) fn tag_columns(&self) -> &[TargetColumn] {
        &self.tags
    }

    pub(super) fn all_columns(&self) -> Vec<TargetColumn> {
        self.columns.clone()
    }

    /// The column that is part of a composite key, if there is one.
    pub(super) fn key(&self) -> Option<&TargetColumn> {
        self.columns.iter().find(|column| column.is_key)
    }

    /// The columns called `names`; the first must be the primary timestamp, and that of a composite key one of them.
    pub(super) fn select(&self, names: &[&str]) -> Result<Vec<TargetColumn>> {
        let find = |name: &&str| {
            let found = self.columns.iter().find(|column| column.column.name == **name);
            found.cloned().ok_or_else(|| Error::with(Code::InvalidColumn, name))
        };
        let columns = names.iter().map(find).collect::<Result<Vec<_>>>()?;
        if columns.first().is_none_or(|first| first.id != ColumnId::TIMESTAMP) {
            return Err(Error::of(Code::FirstColumn));
        }
        if let Some(key) = self.key().filter(|key| columns.iter().all(|column| column.id != key.id)) {
            let text = "Primary key column should not be none";
            return Err(Error::text(Code::InvalidOperation, text).hint(format!("name {}", key.column.name)));
        }
        match names.iter().enumerate().find(|(at, name)| names.iter().take(*at).any(|n| n == *name)) {
            Some((_, twice)) => Err(Error::with(Code::DuplicateColumn, twice)),
            None => Ok(columns),
        }
    }
}
