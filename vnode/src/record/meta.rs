//! Meta: a change of tables. Each carries all that the event shown to consumers needs (names, types, values), so that
//! a reader does not have to know what came before.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    ColumnDef, ColumnId, Compression, DataType, Encoding, Level, SchemaVersion, StableInfo, TableSchema,
    TableUid, Value,
};
use serde::{Deserialize, Serialize};

use super::{RecordError, small};

/// A table that a record creates: explicitly, or on the way of a write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewTable {
    /// Fixed by the proposer, never reused.
    pub uid: TableUid,
    /// In the case it was given.
    pub name: String,
    /// Child or normal.
    pub kind: NewTableKind,
    /// Days to live, 0 for ever.
    pub ttl_days: u32,
    /// COMMENT.
    pub comment: Option<String>,
}

/// What kind of table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NewTableKind {
    /// Of a super table.
    Child {
        /// The super table.
        stable: TableUid,
        /// The schema that `tags` are in the order of.
        schema_version: SchemaVersion,
        /// All tags; those not given are NULL.
        tags: Arc<[Value]>,
    },
    /// On its own.
    Normal {
        /// Its columns; no tags.
        schema: Arc<TableSchema>,
    },
}

/// What changed in a schema; columns and tags by the names that counted before the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaChange {
    /// ADD COLUMN
    AddColumn {
        /// The new column.
        column: ColumnDef,
        /// Whether the statement named an encoding, compression or level: consumers see that as an event of its own kind.
        storage_given: bool,
    },
    /// DROP COLUMN
    DropColumn {
        /// Which.
        name: String,
    },
    /// MODIFY COLUMN: a longer VARCHAR or NCHAR.
    ModifyColumn {
        /// Which.
        name: String,
        /// Its new type.
        data_type: DataType,
    },
    /// RENAME COLUMN
    RenameColumn {
        /// From.
        name: String,
        /// To.
        new_name: String,
    },
    /// ADD TAG
    AddTag {
        /// The new tag.
        tag: ColumnDef,
    },
    /// DROP TAG
    DropTag {
        /// Which.
        name: String,
    },
    /// MODIFY TAG
    ModifyTag {
        /// Which.
        name: String,
        /// Its new type.
        data_type: DataType,
    },
    /// RENAME TAG
    RenameTag {
        /// From.
        name: String,
        /// To.
        new_name: String,
    },
    /// MODIFY COLUMN .. ENCODE, COMPRESS, LEVEL: those that the statement named.
    Storage {
        /// Which column.
        name: String,
        /// ENCODE
        encoding: Option<Encoding>,
        /// COMPRESS
        compression: Option<Compression>,
        /// LEVEL
        level: Option<Level>,
    },
    /// COMMENT or TTL
    Options,
}

/// One tag of SET TAG.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TagChange {
    /// Which.
    pub id: ColumnId,
    /// Its name at that moment.
    pub name: String,
    /// Its type at that moment.
    pub data_type: DataType,
    /// New value.
    pub value: Value,
}

/// One table of DROP TABLE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedTable {
    /// Which.
    pub uid: TableUid,
    /// Its name.
    pub name: String,
    /// Its super table, `None` for a normal table.
    pub stable: Option<TableUid>,
}

/// Body of a Meta record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MetaRecord {
    /// CREATE STABLE
    CreateStable(StableInfo),
    /// ALTER STABLE
    AlterStable {
        /// The super table after the change.
        stable: StableInfo,
        /// What changed.
        change: SchemaChange,
    },
    /// DROP STABLE with all its children.
    DropStable {
        /// Which.
        uid: TableUid,
        /// Its name.
        name: String,
    },
    /// CREATE TABLE: one normal table, or children.
    CreateTables(Vec<NewTable>),
    /// ALTER TABLE of a normal table, or COMMENT and TTL of a child.
    AlterTable {
        /// Which.
        uid: TableUid,
        /// Its name.
        name: String,
        /// Schema after the change; `None` where it did not change.
        schema: Option<Arc<TableSchema>>,
        /// Options after the change.
        ttl_days: u32,
        /// Options after the change.
        comment: Option<String>,
        /// What changed.
        change: SchemaChange,
    },
    /// ALTER TABLE .. SET TAG of one child.
    SetTags {
        /// Which.
        uid: TableUid,
        /// Its name.
        name: String,
        /// Its super table.
        stable: TableUid,
        /// The schema that `tags` are in the order of.
        schema_version: SchemaVersion,
        /// All its tags after the change.
        tags: Arc<[Value]>,
        /// What changed, in the order of the statement.
        changes: Vec<TagChange>,
    },
    /// DROP TABLE, one or many.
    DropTables(Vec<DroppedTable>),
}

impl MetaRecord {
    /// The body.
    ///
    /// # Errors
    /// Never in practice: postcard writes all of these types.
    pub fn encode(&self) -> Result<Bytes, RecordError> {
        small::encode(self)
    }

    /// Reads a body.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        small::decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples() -> Vec<MetaRecord> {
        let schema = TableSchema::new(
            vec![("ts".into(), DataType::Timestamp), ("v".into(), DataType::Float)],
            vec![("zone".into(), DataType::NChar(8))],
        );
        let stable = StableInfo {
            uid: TableUid(3),
            name: "meter".into(),
            schema: Arc::new(schema.clone()),
            create_time_ns: 5,
            comment: None,
        };
        let tag = schema.tags.first().cloned().unwrap();
        let child = NewTable {
            uid: TableUid::issued(2, 1).unwrap(),
            name: "d1".into(),
            kind: NewTableKind::Child {
                stable: TableUid(3),
                schema_version: SchemaVersion(1),
                tags: vec![Value::Text("nord".into())].into(),
            },
            ttl_days: 0,
            comment: None,
        };
        vec![
            MetaRecord::CreateStable(stable.clone()),
            MetaRecord::AlterStable { stable, change: SchemaChange::AddTag { tag } },
            MetaRecord::DropStable { uid: TableUid(3), name: "meter".into() },
            MetaRecord::CreateTables(vec![child]),
            MetaRecord::DropTables(vec![DroppedTable { uid: TableUid(9), name: "n".into(), stable: None }]),
        ]
    }

    #[test]
    fn comes_back_as_it_was() {
        for record in samples() {
            assert_eq!(MetaRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }
    }

    #[test]
    fn bytes_on_disk_stay() {
        let record = MetaRecord::DropStable { uid: TableUid(3), name: "st".into() };
        assert_eq!(&record.encode().unwrap()[..], [1, 2, 3, 2, b's', b't']);
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = MetaRecord::decode(&bytes);
        }
    }
}
