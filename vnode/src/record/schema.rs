//! Schema blocks: what a bare log needs to decode its rows without a catalogue.

use bytes::Bytes;
use model::{SchemaVersion, TableSchema, TableUid};
use serde::{Deserialize, Serialize};
use wal::{SchemaBlock, SchemaKey};

use super::{RecordError, small};

/// Schema of a super table or normal table, as stored in a segment before the first record that needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSchema {
    /// Name of the super table or normal table.
    pub name: String,
    /// Columns and tags.
    pub schema: TableSchema,
}

/// Under which key a schema is stored.
#[must_use]
pub const fn key(owner: TableUid, version: SchemaVersion) -> SchemaKey {
    SchemaKey { owner: owner.0, version: version.0 }
}

impl StoredSchema {
    /// The block that goes with each record whose rows have this schema.
    ///
    /// # Errors
    /// Never in practice.
    pub fn block(&self, owner: TableUid) -> Result<SchemaBlock, RecordError> {
        Ok(SchemaBlock { key: key(owner, self.schema.version), bytes: small::encode(self)? })
    }

    /// Reads a block's bytes.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(bytes: &Bytes) -> Result<Self, RecordError> {
        small::decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use model::DataType;

    use super::*;

    #[test]
    fn comes_back_as_it_was() {
        let schema = TableSchema::new(vec![("ts".into(), DataType::Timestamp)], vec![]);
        let stored = StoredSchema { name: "n1".into(), schema };
        let block = stored.block(TableUid(77)).unwrap();
        assert_eq!(block.key, SchemaKey { owner: 77, version: 1 });
        assert_eq!(StoredSchema::decode(&block.bytes).unwrap(), stored);
    }
}
