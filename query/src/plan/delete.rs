//! The condition of DELETE: one range of time and, for super tables, a condition on children.

use datafusion::logical_expr::Expr as DfExpr;
use datafusion::scalar::ScalarValue;
use model::{Code, Error, Result};

use crate::ast::Expr;
use crate::operator::pushdown::conjuncts;
use crate::operator::scan::Reading;
use crate::plan::error::from_datafusion;
use crate::plan::expr::{Binder, Clause};
use crate::plan::from::shard_table;
use crate::plan::scope::Scope;
use crate::plan::types::Typed;
use crate::plan::{Context, Relations, Session};
use crate::source::{Relation, RelationKind, TableFilter, TimeRange};

/// What a DELETE takes.
#[derive(Clone, Debug)]
pub struct DeletePlan {
    /// Timestamps; empty where the condition holds for none.
    pub range: TimeRange,
    /// Children of a super table; all where absent.
    pub children: Option<TableFilter>,
}

/// Reads the condition of `DELETE FROM relation WHERE filter`.
///
/// # Errors
/// [`Code::DeleteWhere`] for anything but one range of time, conditions on tags and names of a super table joined by
/// AND, and constants.
pub fn plan_delete(filter: Option<&Expr>, relation: &Relation, session: &Session) -> Result<DeletePlan> {
    let relations = Relations::new();
    let cx = Context::new(&relations, session);
    let (source, table) = shard_table(relation, 0, Reading::Rows)?;
    let Some(filter) = filter else { return Ok(DeletePlan { range: TimeRange::ALL, children: None }) };
    let scope = Scope { tables: vec![table], driving: Some(0) };
    let bound = Binder::rows(&cx, &scope, Clause::Where).condition(filter, true)?;
    let mut parts = Vec::new();
    conjuncts(&bound, &mut parts);
    let mut conditions: Vec<&DfExpr> = Vec::with_capacity(parts.len());
    let nothing = TimeRange { first: i64::MAX, last_inclusive: i64::MIN };
    for part in parts {
        if !part.column_refs().is_empty() {
            conditions.push(part);
        } else if !holds(part)? {
            return Ok(DeletePlan { range: nothing, children: None });
        }
    }
    let refused = || Error::of(Code::DeleteWhere);
    let definite = source.definite(conditions.into_iter()).map_err(from_datafusion)?;
    let (range, children) = definite.ok_or_else(refused)?;
    if children.is_some() && !matches!(relation.kind, RelationKind::Stable(_)) {
        return Err(refused());
    }
    Ok(DeletePlan { range, children })
}

/// Whether a condition without columns holds.
fn holds(constant: &DfExpr) -> Result<bool> {
    let folded = Typed::bool(constant.clone()).folded()?;
    Ok(matches!(folded.constant(), Some(ScalarValue::Boolean(Some(true)))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{
        ColumnId, DataType, DatabaseId, DatabaseInfo, DatabaseOptions, StableInfo, TableSchema, TableUid,
    };

    use super::*;
    use crate::ast::Statement;
    use crate::parser::parse;
    use crate::source::ScanColumn;

    fn relation() -> Relation {
        let database = DatabaseInfo {
            id: DatabaseId(1),
            name: "d".into(),
            options: DatabaseOptions::default(),
            vgroups: vec![],
            create_time_ns: 0,
        };
        let columns = vec![("ts".into(), DataType::Timestamp), ("v".into(), DataType::Int)];
        let stable = StableInfo {
            uid: TableUid(1),
            name: "s".into(),
            schema: Arc::new(TableSchema::new(columns, vec![("g".into(), DataType::Int)])),
            create_time_ns: 0,
            comment: None,
        };
        Relation {
            database: Arc::new(database),
            kind: RelationKind::Stable(Arc::new(stable)),
            shards: vec![],
        }
    }

    fn plan(condition: &str) -> Result<DeletePlan> {
        let Statement::Delete { filter, .. } = parse(&format!("delete from s {condition}"))? else {
            panic!("not a DELETE")
        };
        plan_delete(filter.as_ref(), &relation(), &Session::default())
    }

    #[test]
    fn thousands_of_conditions_on_tags() {
        let conditions = (0..3_000).map(|i| format!("g + {i} > 0")).collect::<Vec<_>>().join(" AND ");
        let test = move || assert!(plan(&format!("WHERE {conditions}")).unwrap().children.is_some());
        // As large as those of the server's workers.
        std::thread::Builder::new().stack_size(8 << 20).spawn(test).unwrap().join().unwrap();
    }

    #[test]
    fn one_range_of_time_and_conditions_on_tags() {
        let all = plan("").unwrap();
        assert!(all.range == TimeRange::ALL && all.children.is_none());
        let some = plan("where ts >= 5 and ts < 9 and g = 2").unwrap();
        assert_eq!(some.range, TimeRange { first: 5, last_inclusive: 8 });
        assert_eq!(some.children.unwrap().columns, [ScanColumn::Tag(ColumnId(3))]);
        assert!(plan("where 1 > 2").unwrap().range.is_empty());
        assert_eq!(plan("where 2 > 1").unwrap().range, TimeRange::ALL);
    }

    #[test]
    fn nothing_else() {
        for condition in ["where v > 1", "where ts = 1 or ts = 3", "where ts <> 5", "where ts = 1 or g = 2"] {
            assert_eq!(plan(condition).unwrap_err().code(), Code::DeleteWhere, "{condition}");
        }
    }
}
