//! Delete: rows of a closed time range, of one table, of all children of a super table, or of some of them.

use bytes::Bytes;
use model::TableUid;
use query::source::TimeRange;
use serde::{Deserialize, Serialize};

use super::{RecordError, small};

/// Body of a Delete record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteRecord {
    /// The super table, or the normal table.
    pub owner: TableUid,
    /// Whose rows.
    pub scope: DeleteScope,
    /// Name of the primary timestamp at that moment, for the event.
    pub timestamp_name: String,
    /// First tick, included; already narrowed to rows that are there.
    pub first: i64,
    /// Last tick, included.
    pub last_inclusive: i64,
}

/// Whose rows a DELETE takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeleteScope {
    /// The whole super table, or the normal table: one event under this name.
    Whole {
        /// Name in the statement.
        name: String,
    },
    /// Some children: an event for each.
    Tables(Vec<DeletedTable>),
}

/// One child of a [`DeleteScope::Tables`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedTable {
    /// Which.
    pub uid: TableUid,
    /// Its name.
    pub name: String,
}

impl DeleteRecord {
    /// Its time range.
    #[must_use]
    pub const fn range(&self) -> TimeRange {
        TimeRange { first: self.first, last_inclusive: self.last_inclusive }
    }

    /// The body.
    ///
    /// # Errors
    /// Never in practice.
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

    #[test]
    fn comes_back_as_it_was() {
        let tables = vec![DeletedTable { uid: TableUid(8), name: "a".into() }];
        for scope in [DeleteScope::Whole { name: "st".into() }, DeleteScope::Tables(tables)] {
            let record = DeleteRecord {
                owner: TableUid(7),
                scope,
                timestamp_name: "ts".into(),
                first: i64::MIN,
                last_inclusive: 5,
            };
            assert_eq!(DeleteRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }
    }

    #[test]
    fn bytes_on_disk_stay() {
        let scope = DeleteScope::Whole { name: "n".into() };
        let record = DeleteRecord {
            owner: TableUid(7),
            scope,
            timestamp_name: "t".into(),
            first: -1,
            last_inclusive: 1,
        };
        assert_eq!(&record.encode().unwrap()[..], [1, 7, 0, 1, b'n', 1, b't', 1, 2]);
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = DeleteRecord::decode(&bytes);
        }
    }
}
