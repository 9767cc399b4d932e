//! SELECT with groups: aggregates, GROUP BY, PARTITION BY, windows, FILL.

use std::sync::Arc;

use datafusion::common::{Column, ScalarValue, UnnestOptions};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlanBuilder, Operator, lit};
use model::{Code, Error, Result};

use crate::ast::{Expr, Fill, TableRef};
use crate::function;
use crate::function::conditional::any_known;
use crate::operator::node::OperatorNode;
use crate::operator::plain::Plain;
use crate::operator::pushdown::conjuncts;
use crate::operator::scan::Reading;
use crate::plan::aggregate::{Groups, aggregate_calls, has_aggregate, has_window_column};
use crate::plan::coerce::binary;
use crate::plan::conditions::all_of;
use crate::plan::error::from_datafusion;
use crate::plan::expr::{Binder, Clause, walk};
use crate::plan::fill::{Input, plan_fill};
use crate::plan::from::relation_table;
use crate::plan::grid::Grid;
use crate::plan::items::Item;
use crate::plan::output::{Planned, Tail, finish};
use crate::plan::scope::{Role, Scope, SourceKind};
use crate::plan::select::{Selecting, bind_items, bind_key, bind_order};
use crate::plan::types::Ty;
use crate::plan::window;
use crate::plan::{Context, build};

/// Aggregates of which DataFusion may compare each with each: beyond, see [`Plain`].
const FEW_AGGREGATES: usize = 16;

/// Plans a SELECT that makes groups.
pub(crate) fn plan_groups(cx: &Context<'_>, mut selecting: Selecting<'_>) -> Result<Planned> {
    let select = selecting.select;
    if select.window.is_some() && !select.group_by.is_empty() {
        return Err(Error::of(Code::GroupByWithWindow));
    }
    if select.window.is_some() {
        check_window_items(&selecting.items)?;
    }
    let calls = aggregate_calls(
        selecting
            .items
            .iter()
            .filter_map(Item::expr)
            .chain(select.having.as_ref())
            .chain(selecting.order_by.iter().map(|o| &o.expr)),
    );
    let counts = calls.iter().any(|c| matches!(c, Expr::Function { name, .. } if function::counts(name)));
    let live = if counts && select.window.is_none() { with_children(cx, &mut selecting)? } else { None };

    let number = cx.unique();
    let missing = if select.window.is_some() {
        Code::InvalidUsage
    } else if select.group_by.is_empty() {
        Code::NotSingleGroup
    } else {
        Code::NotGroupBy
    };
    let mut groups = Groups::new(number, missing);
    groups.live = live;
    let scope = &selecting.scope;
    for expr in select.partition_by.iter().map(|p| &p.expr).chain(&select.group_by) {
        let key = bind_key(cx, scope, expr, &selecting.items, &[])?;
        groups.tags_follow |= key.expr.column_refs().iter().any(|c| scope.role(c) == Some(Role::Tbname));
        groups.add_key(key);
    }
    let partition_keys: Vec<DfExpr> = groups.keys.iter().map(|k| k.column.expr.clone()).collect();

    let mut plan = selecting.plan;
    let mut grid = None;
    let mut start = None;
    if let Some(clause) = &select.window {
        let time = scope.timeline(None).ok_or_else(|| {
            Error::text(
                Code::WindowSubquery,
                "Window query not supported, since not valid primary timestamp column as input",
            )
        })?;
        let time = scope.typed(time);
        let session = cx.session;
        let windows = Grid::new(clause, time.ty.precision, session.zone, selecting.range, session.now_ns)?;
        let row_start = if windows.slides() {
            let (expanded, start) = window::expand_sliding(plan, &windows, time, number)?;
            plan = expanded;
            start
        } else {
            window::start_of(&windows, time)?
        };
        let column = groups.add_key(row_start);
        start = Some(column.expr.clone());
        groups.window = Some(window::columns(&windows, column)?);
        grid = Some(windows);
    }

    let companion = match calls.split_first() {
        Some((call @ Expr::Function { name, .. }, others))
            if function::is_selection(name) && others.iter().all(|other| other == call) =>
        {
            needs_companion(cx, scope, &selecting.items, selecting.order_by, &groups).then_some(call)
        }
        _ => None,
    };
    let mut binder = Binder {
        range: selecting.range,
        groups: Some(&mut groups),
        ..Binder::rows(cx, scope, Clause::Select)
    };
    if let Some(call) = companion {
        binder.select_companion(call)?;
    }
    let mut items = bind_items(&mut binder, &selecting.items)?;
    let having = match &select.having {
        Some(having) => {
            binder.clause = Clause::Having;
            Some(binder.condition(having, true)?)
        }
        None => None,
    };
    binder.clause = Clause::Select;
    let order = bind_order(&mut binder, selecting.order_by, &items)?;
    let keyless = groups.keys.is_empty();
    // A window whose FIRST and LAST are all NULL is not shown either.
    let window_first_last = start.is_some() && companion.is_none() && only_first_last(&calls);
    let kept = if (keyless && !counts) || window_first_last {
        Some(kept_when(cx, scope, &mut groups, &calls)?)
    } else {
        None
    };

    let picked = groups.picked_rows();
    let (keys, aggregates) = groups.expressions();
    let has_many = keys.is_empty() && aggregates.len() > FEW_AGGREGATES;
    let mut plan = build::aggregate(plan, keys, aggregates)?;
    if has_many {
        plan = OperatorNode::plan(plan, Vec::new(), Arc::new(Plain)).map_err(from_datafusion)?;
    }
    if !picked.is_empty() {
        // All values at once: an expression for each that takes one out costs the square of their number to plan.
        plan = LogicalPlanBuilder::from(plan)
            .unnest_columns_with_options(picked, UnnestOptions::default())
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
    }
    for condition in kept.into_iter().chain(having) {
        plan = build::filter(plan, cx.bounded(&condition))?;
    }
    if let (Some(grid), Some(start), Some(fill)) = (&grid, &start, &select.fill)
        && *fill != Fill::None
    {
        let keys = partition_keys.clone();
        let input = Input { plan, keys, start: start.clone(), grid, range: selecting.range };
        plan = plan_fill(cx, scope, fill, input, &mut items)?;
    }
    finish(
        cx,
        Tail {
            plan,
            items,
            distinct: select.distinct,
            ordered: !selecting.order_by.is_empty(),
            order,
            cluster: start.is_some(),
            keys: partition_keys,
            natural: start.into_iter().collect(),
            limit: selecting.limit,
            slimit: selecting.slimit,
        },
    )
}

/// A window's select list needs an aggregate, and has no plain columns without one.
fn check_window_items(items: &[Item]) -> Result<()> {
    if items.iter().filter_map(Item::expr).any(has_aggregate) {
        return Ok(());
    }
    for expr in items.iter().filter_map(Item::expr) {
        if has_window_column(expr) {
            continue;
        }
        if let Expr::Column { name, .. } = expr {
            return Err(Error::with(Code::InvalidUsage, name));
        }
    }
    Err(Error::text(Code::WindowFunction, "No valid function in window query"))
}

/// Whether a column is to be taken from the row that the selection function picks.
fn needs_companion(
    cx: &Context<'_>,
    scope: &Scope,
    items: &[Item],
    order_by: &[crate::ast::OrderBy],
    groups: &Groups,
) -> bool {
    let mut needed = items.iter().any(|i| i.expr().is_none());
    let exprs = items.iter().filter_map(Item::expr).chain(order_by.iter().map(|o| &o.expr));
    for expr in exprs {
        walk(expr, &mut |e| match e {
            Expr::Function { name, .. } if function::is_aggregate(name) => false,
            Expr::Column { name, quoted: false, .. } if name.starts_with("_w") || name.starts_with("_q") => {
                false
            }
            Expr::Column { .. } => {
                let bound = Binder::rows(cx, scope, Clause::Select).value(e);
                let is_key = bound.is_ok_and(|b| groups.keys.iter().any(|k| k.row.expr == b.expr));
                needed |= !is_key;
                false
            }
            _ => true,
        });
    }
    needed
}

fn only_first_last(calls: &[Expr]) -> bool {
    !calls.is_empty()
        && calls
            .iter()
            .all(|c| matches!(c, Expr::Function { name, .. } if matches!(&**name, "first" | "last")))
}

/// When the one group of a query without keys gives a row at all.
fn kept_when(cx: &Context<'_>, scope: &Scope, groups: &mut Groups, calls: &[Expr]) -> Result<DfExpr> {
    if only_first_last(calls) {
        let mut binder = Binder { groups: Some(groups), ..Binder::rows(cx, scope, Clause::Select) };
        let values = calls.iter().map(|call| Ok(binder.value(call)?.expr)).collect::<Result<_>>()?;
        return Ok(any_known(values));
    }
    Ok(binary(groups.row_count(), Operator::Gt, lit(0_i64)))
}

/// COUNT by tags also counts the children without rows, as 0: adds a row of NULLs a child, and gives the column that
/// tells real rows. `None` where the query is of another kind.
fn with_children(cx: &Context<'_>, selecting: &mut Selecting<'_>) -> Result<Option<DfExpr>> {
    let select = selecting.select;
    let scope = &selecting.scope;
    let [table] = scope.tables.as_slice() else { return Ok(None) };
    let Some(TableRef::Table { name, .. }) = &select.from else { return Ok(None) };
    if table.kind != SourceKind::Stable {
        return Ok(None);
    }
    let mut any = false;
    for expr in select.partition_by.iter().map(|p| &p.expr).chain(&select.group_by) {
        let key = bind_key(cx, scope, expr, &selecting.items, &[])?;
        let refs = key.expr.column_refs();
        if refs.iter().any(|c| scope.role(c) == Some(Role::Data)) {
            return Ok(None);
        }
        any = true;
    }
    if !any {
        return Ok(None);
    }
    let number = cx.unique();
    let (provider, children) = relation_table(cx.relations.get(name)?, number, Reading::Children)?;
    let mut list = LogicalPlanBuilder::scan(format!("r{number}"), provider_as_source(provider), None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    // Conditions on tags choose children too; conditions on columns only choose rows.
    let child_column = |column: &Column| -> Option<Column> {
        let known = scope.columns().find(|c| &c.column == column)?;
        let same = children.columns.iter().find(|c| c.role == known.role && c.name == known.name)?;
        Some(same.column.clone())
    };
    if let Some(filter) = &selecting.filter {
        let mut parts = Vec::new();
        conjuncts(filter, &mut parts);
        let mut conditions = Vec::new();
        for part in parts {
            let refs = part.column_refs();
            let of_table = refs.iter().all(|c| matches!(scope.role(c), Some(Role::Tag | Role::Tbname)));
            if of_table && !refs.is_empty() {
                conditions.push(renamed(part.clone(), &child_column)?);
            }
        }
        if let Some(condition) = all_of(conditions) {
            list = build::filter(list, cx.bounded(&condition))?;
        }
    }
    let live = format!("live{number}");
    let mut rows_projection = Vec::new();
    let mut list_projection = Vec::new();
    let mut merged = scope.clone();
    for column in merged.tables.iter_mut().flat_map(|t| &mut t.columns) {
        let unique = format!("m{number}_{}", rows_projection.len());
        rows_projection.push(plain(column.column.clone(), column.role).alias(unique.clone()));
        let value = match child_column(&column.column) {
            Some(child) => plain(child, column.role),
            None => lit(ScalarValue::try_from(&column.ty.arrow()).map_err(from_datafusion)?),
        };
        list_projection.push(value.alias(unique.clone()));
        column.column = Column::new_unqualified(unique);
    }
    rows_projection.push(lit(true).alias(live.clone()));
    list_projection.push(lit(ScalarValue::Boolean(None)).alias(live.clone()));
    let list = build::project(list, list_projection)?;
    let plan = LogicalPlanBuilder::from(build::project(selecting.plan.clone(), rows_projection)?)
        .union(list)
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    selecting.plan = plan;
    selecting.scope = merged;
    Ok(Some(DfExpr::Column(Column::new_unqualified(live))))
}

/// A column for a union, where names have to be of one type on both sides.
fn plain(column: Column, role: Role) -> DfExpr {
    let column = DfExpr::Column(column);
    if role == Role::Tbname { datafusion::logical_expr::cast(column, Ty::NULL.arrow()) } else { column }
}

fn renamed(expr: DfExpr, rename: &dyn Fn(&Column) -> Option<Column>) -> Result<DfExpr> {
    use datafusion::common::tree_node::{Transformed, TreeNode as _};
    expr.transform(|e| {
        Ok(match &e {
            DfExpr::Column(c) => match rename(c) {
                Some(new) => Transformed::yes(DfExpr::Column(new)),
                None => Transformed::no(e),
            },
            _ => Transformed::no(e),
        })
    })
    .map(|t| t.data)
    .map_err(from_datafusion)
}
