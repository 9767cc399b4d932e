//! Queries around SELECT: UNION, and ORDER BY and LIMIT behind it.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlanBuilder};
use model::{Code, DataType, Error, NCHAR_CHARS_MAX, Result, VARCHAR_BYTES_MAX};

use crate::ast::{Expr, Query, SetExpr};
use crate::function::cast;
use crate::plan::error::from_datafusion;
use crate::plan::output::{BoundItem, Output, Planned, SortKey, Tail, finish};
use crate::plan::select::plan_select;
use crate::plan::types::{Ty, Typed};
use crate::plan::{Context, build};

/// Plans a query.
pub(crate) fn plan_query(cx: &Context<'_>, query: &Query) -> Result<Planned> {
    if let SetExpr::Select(select) = &query.body {
        return plan_select(cx, select, &query.order_by, query.limit, query.slimit);
    }
    let inner = plan_set(cx, &query.body)?;
    if query.slimit.is_some() {
        return Err(Error::of(Code::SlimitWithoutPartition));
    }
    if query.order_by.is_empty() && query.limit.is_none() {
        return Ok(inner);
    }
    let mut order = Vec::new();
    for item in &query.order_by {
        order.push(SortKey::new(order_column(&item.expr, &inner.columns)?, item));
    }
    let items = inner
        .columns
        .iter()
        .map(|c| BoundItem {
            name: c.name.clone(),
            alias: None,
            nameless: c.nameless,
            value: Typed { timeline: c.timeline, ..Typed::column(c.column.clone(), c.ty) },
        })
        .collect();
    finish(
        cx,
        Tail {
            plan: inner.plan,
            items,
            distinct: false,
            ordered: !order.is_empty(),
            order,
            keys: Vec::new(),
            cluster: false,
            natural: Vec::new(),
            limit: query.limit,
            slimit: None,
        },
    )
}

/// Behind a UNION only output columns can be sorted by.
fn order_column(expr: &Expr, columns: &[Output]) -> Result<DfExpr> {
    let column = match expr {
        Expr::Literal(model::Value::Int(position)) => {
            let index = usize::try_from(*position).ok().and_then(|p| p.checked_sub(1));
            index.and_then(|i| columns.get(i)).ok_or_else(|| Error::of(Code::OrderByPosition))?
        }
        Expr::Column { qualifier: None, name, .. } => {
            columns.iter().find(|c| c.name == *name).ok_or_else(|| Error::of(Code::OrderByExpression))?
        }
        _ => return Err(Error::of(Code::OrderByExpression)),
    };
    Ok(DfExpr::Column(column.column.clone()))
}

fn plan_set(cx: &Context<'_>, set: &SetExpr) -> Result<Planned> {
    match set {
        SetExpr::Select(select) => plan_select(cx, select, &[], None, None),
        SetExpr::Nested(query) => plan_query(cx, query),
        SetExpr::Union { all, left, right } => {
            let (left, right) = (plan_set(cx, left)?, plan_set(cx, right)?);
            union(cx, left, right, *all)
        }
    }
}

/// Columns are named and typed as on the left, text as wide as the wider side; NULL without a type takes the right's.
fn union(cx: &Context<'_>, left: Planned, right: Planned, all: bool) -> Result<Planned> {
    if left.columns.len() != right.columns.len() {
        return Err(Error::of(Code::ResultColumns));
    }
    let number = cx.unique();
    let types: Vec<Ty> = left.columns.iter().zip(&right.columns).map(|(l, r)| united(l.ty, r.ty)).collect();
    let columns = left
        .columns
        .iter()
        .zip(&types)
        .enumerate()
        .map(|(i, (c, ty))| Output {
            column: Column::new_unqualified(format!("u{number}_{i}")),
            ty: *ty,
            timeline: false,
            ..c.clone()
        })
        .collect();
    let side = |planned: Planned| {
        let mut projection = Vec::with_capacity(types.len());
        for (i, (column, ty)) in planned.columns.iter().zip(&types).enumerate() {
            let value = Typed::column(column.column.clone(), column.ty);
            let value = if value.ty.data == ty.data && value.ty.precision == ty.precision {
                value
            } else {
                cast::cast(value, *ty, cx.session.zone)?
            };
            projection.push(value.expr.alias(format!("u{number}_{i}")));
        }
        build::project(planned.plan, projection)
    };
    let (left, right) = (side(left)?, side(right)?);
    let builder = LogicalPlanBuilder::from(left);
    let builder = if all { builder.union(right) } else { builder.union_distinct(right) };
    let plan = builder.and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    Ok(Planned { plan, columns, ordered: false })
}

/// Bytes of a number or an instant as text, at most.
const TEXT_BYTES: u16 = 64;

fn united(left: Ty, right: Ty) -> Ty {
    use DataType::{NChar, Varbinary, Varchar};
    let (Some(l), Some(r)) = (left.data, right.data) else {
        return if left.is_null() { right } else { left };
    };
    match (l, r) {
        (Varchar(l), Varchar(r)) => Ty::plain(Varchar(l.max(r))),
        (Varchar(l), NChar(r)) => Ty::plain(Varchar(l.max(r.saturating_mul(4)).min(VARCHAR_BYTES_MAX))),
        (NChar(l), NChar(r) | Varchar(r)) => Ty::plain(NChar(l.max(r).min(NCHAR_CHARS_MAX))),
        (Varbinary(l), Varbinary(r)) => Ty::plain(Varbinary(l.max(r))),
        (Varchar(l), _) if !right.is_string() => Ty::plain(Varchar(l.max(TEXT_BYTES))),
        (NChar(l), _) if !right.is_string() => Ty::plain(NChar(l.max(TEXT_BYTES))),
        _ => left,
    }
}
