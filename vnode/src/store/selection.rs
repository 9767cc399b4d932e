//! Which tables a scan reads.

use std::fmt;
use std::sync::Arc;

use model::{TableUid, Value};

/// A table that a scan may give rows of, with what its rows carry beside their columns.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedTable {
    /// Never reused, so that a table made again under an old name shows none of its rows.
    pub uid: TableUid,
    /// Given as `tbname`.
    pub name: Arc<str>,
    /// In the order of the super table's tags; ones missing at the end are NULL.
    pub tags: Arc<[Value]>,
}

/// Finds a table by its uid. Called for tables as their rows come up, so that reading all children of a super table
/// does not begin with a list of them.
pub trait TableDirectory: Send + Sync + fmt::Debug {
    /// The table; `None` hides its rows.
    fn table(&self, uid: TableUid) -> Option<SelectedTable>;
}

/// The tables of a scan.
#[derive(Clone, Debug)]
pub enum Selection {
    /// All of the owner. The directory is needed only where tags or `tbname` are read.
    All(Option<Arc<dyn TableDirectory>>),
    /// These. Kept in uid order.
    Listed(Arc<[SelectedTable]>),
}

impl Selection {
    /// These tables, whatever their order.
    #[must_use]
    pub fn listed(mut tables: Vec<SelectedTable>) -> Self {
        tables.sort_by_key(|table| table.uid);
        tables.dedup_by_key(|table| table.uid);
        Self::Listed(tables.into())
    }

    /// The listed tables from the first one that is not below `from`; `None` where all are meant.
    pub(super) fn listed_from(&self, from: TableUid) -> Option<&[SelectedTable]> {
        match self {
            Self::All(_) => None,
            Self::Listed(tables) => {
                let at = tables.partition_point(|table| table.uid < from);
                Some(tables.get(at..).unwrap_or_default())
            }
        }
    }

    /// The table with its name and tags.
    pub(super) fn lookup(&self, uid: TableUid) -> Option<SelectedTable> {
        match self {
            Self::All(directory) => directory.as_ref().and_then(|directory| directory.table(uid)),
            Self::Listed(tables) => {
                let at = tables.binary_search_by_key(&uid, |table| table.uid).ok()?;
                tables.get(at).cloned()
            }
        }
    }

    /// Whether it is a single table at most.
    pub(super) fn is_single(&self) -> bool {
        matches!(self, Self::Listed(tables) if tables.len() <= 1)
    }
}
