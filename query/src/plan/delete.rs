//! The condition of DELETE: one range of time and, for super tables, a condition on children.

use datafusion::logical_expr::Expr as DfExpr;
use datafusion::scalar::ScalarValue;
use model::{Code, DataType, Error, Precision, Result, StableInfo, Value};

use crate::ast::{BinaryOp, Expr};
use crate::operator::pushdown::conjuncts;
use crate::operator::scan::Reading;
use crate::plan::error::from_datafusion;
use crate::plan::expr::{Binder, Clause, walk};
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
/// AND, and constants; and for a number that is compared with text that is none. In SELECT such text counts as 0, which
/// here would take rows that nobody meant.
pub fn plan_delete(filter: Option<&Expr>, relation: &Relation, session: &Session) -> Result<DeletePlan> {
    let relations = Relations::new();
    let cx = Context::new(&relations, session);
    let (source, table) = shard_table(relation, 0, Reading::Rows)?;
    let Some(filter) = filter else { return Ok(DeletePlan { range: TimeRange::ALL, children: None }) };
    refuse_text_for_numbers(filter, relation)?;
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

fn refuse_text_for_numbers(filter: &Expr, relation: &Relation) -> Result<()> {
    let RelationKind::Stable(stable) = &relation.kind else { return Ok(()) };
    let check = |a: &Expr, b: &Expr| -> Result<()> {
        for (column, value) in [(a, b), (b, a)] {
            if let (Some((name, data_type)), Expr::Literal(Value::Text(text))) =
                (number_tag(column, stable), value)
                && text.trim().parse::<f64>().is_err()
            {
                let what = format_args!("'{text}' is no number, and {name} is of type {data_type}");
                return Err(Error::with(Code::DeleteWhere, what).hint("write a number"));
            }
        }
        Ok(())
    };
    let mut found = Ok(());
    walk(filter, &mut |expr| {
        if found.is_ok() {
            found = match expr {
                Expr::Binary { left, op, right } if is_comparison(*op) => check(left, right),
                Expr::Between { expr, low, high, .. } => check(expr, low).and_then(|()| check(expr, high)),
                Expr::InList { expr, list, .. } => list.iter().try_for_each(|item| check(expr, item)),
                _ => Ok(()),
            };
        }
        found.is_ok()
    });
    found
}

/// Name and type of the tag that an expression is, where that is a number.
fn number_tag<'a>(expr: &'a Expr, stable: &StableInfo) -> Option<(&'a str, DataType)> {
    let Expr::Column { name, .. } = expr else { return None };
    let (_, tag) = stable.schema.tag(name)?;
    tag.data_type.arrow(Precision::Ms).is_numeric().then_some((name, tag.data_type))
}

const fn is_comparison(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Eq | BinaryOp::NotEq | BinaryOp::Lt | BinaryOp::LtEq | BinaryOp::Gt | BinaryOp::GtEq
    )
}

/// Whether a condition without columns holds.
fn holds(constant: &DfExpr) -> Result<bool> {
    let folded = Typed::bool(constant.clone()).folded()?;
    Ok(matches!(folded.constant(), Some(ScalarValue::Boolean(Some(true)))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{ColumnId, DatabaseId, DatabaseInfo, DatabaseOptions, TableSchema, TableUid};

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
    fn text_that_is_no_number_takes_no_rows() {
        for condition in
            ["g = 'typo'", "'2x' < g", "g in (1, '')", "ts > 5 and g between 1 and 'b'", "not (g <> 'a')"]
        {
            let error = plan(&format!("where {condition}")).unwrap_err();
            assert_eq!(error.code(), Code::DeleteWhere, "{condition}");
            assert!(error.to_string().contains("is no number, and g is of type INT"), "{error}");
        }
        assert!(plan("where g = '2' or g = ' 3.0 '").unwrap().children.is_some());
    }

    #[test]
    fn nothing_else() {
        for condition in ["where v > 1", "where ts = 1 or ts = 3", "where ts <> 5", "where ts = 1 or g = 2"] {
            assert_eq!(plan(condition).unwrap_err().code(), Code::DeleteWhere, "{condition}");
        }
    }
}
