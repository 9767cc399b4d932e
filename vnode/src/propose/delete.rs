//! DELETE: whose rows, as the applied state has them; the range is narrowed to what a scan has found.

use model::{Code, Error, Result, TableUid};
use query::source::TimeRange;
use wal::Kind;

use super::{Checked, DeleteTarget};
use crate::record::{DeleteRecord, DeleteScope, DeletedTable};
use crate::state::VnodeState;

/// Whose rows, in words of the store.
#[derive(Clone, Debug)]
pub(crate) struct DeletePlan {
    pub(crate) owner: TableUid,
    /// `None`: all of the owner.
    pub(crate) tables: Option<Vec<TableUid>>,
    scope: DeleteScope,
}

/// Finds the tables.
pub(crate) fn plan(state: &VnodeState, target: DeleteTarget) -> Result<DeletePlan> {
    match target {
        DeleteTarget::Table(name) => {
            let entry = state.tables.named(&name).ok_or_else(|| Error::with(Code::TableNotExist, &name))?;
            let uid = entry.info.uid;
            match entry.stable() {
                Some(owner) => {
                    let scope = DeleteScope::Tables(vec![DeletedTable { uid, name }]);
                    Ok(DeletePlan { owner, tables: Some(vec![uid]), scope })
                }
                None => Ok(DeletePlan { owner: uid, tables: None, scope: DeleteScope::Whole { name } }),
            }
        }
        DeleteTarget::Stable(owner) => {
            let stable = state.stables.get(owner).ok_or_else(|| Error::of(Code::StableNotExist))?;
            let scope = DeleteScope::Whole { name: stable.name.clone() };
            Ok(DeletePlan { owner, tables: None, scope })
        }
        DeleteTarget::Children { stable, tables } => {
            let found = tables.iter().filter_map(|uid| state.tables.get(*uid));
            let found = found.filter(|entry| entry.stable() == Some(stable));
            let deleted: Vec<_> =
                found.map(|entry| DeletedTable { uid: entry.info.uid, name: entry.info.name.clone() }).collect();
            let tables = Some(deleted.iter().map(|table| table.uid).collect());
            Ok(DeletePlan { owner: stable, tables, scope: DeleteScope::Tables(deleted) })
        }
    }
}

impl DeletePlan {
    /// Its record.
    pub(crate) fn checked(self, range: TimeRange) -> Result<Option<Checked>> {
        if matches!(&self.scope, DeleteScope::Tables(tables) if tables.is_empty()) {
            return Ok(None);
        }
        let TimeRange { first, last_inclusive } = range;
        let record = DeleteRecord { owner: self.owner, scope: self.scope, first, last_inclusive };
        Checked::new(Kind::Delete, record.encode()).map(Some)
    }
}
