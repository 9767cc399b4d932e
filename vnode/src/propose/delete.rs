//! DELETE: whose rows, as the applied state has them; the range is narrowed to what a scan has found.

use model::{Code, Error, Origin, Result, TableUid};
use query::source::TimeRange;
use wal::Kind;

use super::{Checked, DeleteTarget, no_stable};
use crate::record::{DeleteRecord, DeleteScope, DeletedTable};
use crate::state::VnodeState;

/// Whose rows, in words of the store.
#[derive(Clone, Debug)]
pub(crate) struct DeletePlan {
    pub(crate) owner: TableUid,
    /// `None`: all of the owner.
    pub(crate) tables: Option<Vec<TableUid>>,
    scope: DeleteScope,
    timestamp_name: String,
}

/// Finds the tables.
pub(crate) fn plan(state: &VnodeState, target: DeleteTarget) -> Result<DeletePlan> {
    let mut plan = scope(state, target)?;
    let first = state.current_schema(plan.owner).and_then(|schema| schema.columns.first());
    plan.timestamp_name = first.map(|column| column.name.clone()).unwrap_or_default();
    Ok(plan)
}

fn scope(state: &VnodeState, target: DeleteTarget) -> Result<DeletePlan> {
    let plan = |owner, tables, scope| DeletePlan { owner, tables, scope, timestamp_name: String::new() };
    match target {
        DeleteTarget::Table(name) => {
            let entry = state.tables.named(&name).ok_or_else(|| Error::with(Code::TableNotExist, &name))?;
            let uid = entry.info.uid;
            match entry.stable() {
                Some(owner) => {
                    let scope = DeleteScope::Tables(vec![DeletedTable { uid, name }]);
                    Ok(plan(owner, Some(vec![uid]), scope))
                }
                None => Ok(plan(uid, None, DeleteScope::Whole { name })),
            }
        }
        DeleteTarget::Stable(owner) => {
            let stable = state.stables.get(owner).ok_or_else(|| no_stable(owner))?;
            let scope = DeleteScope::Whole { name: stable.name.clone() };
            Ok(plan(owner, None, scope))
        }
        DeleteTarget::Children { stable, tables } => {
            let found = tables.iter().filter_map(|uid| state.tables.get(*uid));
            let found = found.filter(|entry| entry.stable() == Some(stable));
            let deleted: Vec<_> = found
                .map(|entry| DeletedTable { uid: entry.info.uid, name: entry.info.name.clone() })
                .collect();
            let tables = Some(deleted.iter().map(|table| table.uid).collect());
            Ok(plan(stable, tables, DeleteScope::Tables(deleted)))
        }
    }
}

impl DeletePlan {
    /// Its record.
    pub(crate) fn checked(self, range: TimeRange, origin: Origin) -> Result<Option<Checked>> {
        if matches!(&self.scope, DeleteScope::Tables(tables) if tables.is_empty()) {
            return Ok(None);
        }
        let TimeRange { first, last_inclusive } = range;
        let Self { owner, scope, timestamp_name, .. } = self;
        let record = DeleteRecord { owner, scope, timestamp_name, first, last_inclusive };
        Checked::new(Kind::Delete, record.encode()).map(|checked| Some(checked.brought_by(origin)))
    }
}
