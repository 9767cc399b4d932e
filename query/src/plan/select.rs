//! SELECT: what reads rows and what makes groups of them.

use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder};
use model::limits::COLUMNS_MAX;
use model::{Code, DataType, Error, Result, Value};

use crate::ast::{At, Expr, Limit, OrderBy, Select, SelectItem, TableRef};
use crate::function::{self, json};
use crate::operator::pushdown::{conjuncts, time_range};
use crate::operator::scan::Reading;
use crate::parser::words;
use crate::plan::aggregate::has_aggregate;
use crate::plan::calls::check_calls;
use crate::plan::error::from_datafusion;
use crate::plan::expr::{Binder, Clause, walk};
use crate::plan::from::{From, is_time_equality, plan_from};
use crate::plan::group::plan_groups;
use crate::plan::items::{Item, ItemSource, expand};
use crate::plan::output::{BoundItem, Planned, SortKey, Tail, finish};
use crate::plan::scope::Scope;
use crate::plan::types::Typed;
use crate::plan::{Context, build};
use crate::source::{RelationKind, TimeRange};

/// A SELECT with what stands behind it, its FROM and WHERE planned.
pub(crate) struct Selecting<'a> {
    pub(crate) select: &'a Select,
    pub(crate) order_by: &'a [OrderBy],
    pub(crate) limit: Option<Limit>,
    pub(crate) slimit: Option<Limit>,
    pub(crate) items: Vec<Item>,
    pub(crate) plan: LogicalPlan,
    pub(crate) scope: Scope,
    /// WHERE, bound.
    pub(crate) filter: Option<DfExpr>,
    pub(crate) range: TimeRange,
}

/// Plans a SELECT.
pub(crate) fn plan_select(
    cx: &Context<'_>,
    select: &Select,
    order_by: &[OrderBy],
    limit: Option<Limit>,
    slimit: Option<Limit>,
) -> Result<Planned> {
    let reading = if lists_children(cx, select, order_by) { Reading::Children } else { Reading::Rows };
    let from = match &select.from {
        Some(from) => plan_from(cx, from, reading)?,
        None => From {
            plan: LogicalPlanBuilder::empty(true).build().map_err(from_datafusion)?,
            scope: Scope::default(),
            needs_time_equality: false,
        },
    };
    let From { plan, scope, needs_time_equality } = from;
    let items = expand(&select.items, &scope)?;
    if items.len() > COLUMNS_MAX {
        let detail = format!("{} in the result, at most {COLUMNS_MAX} are allowed", items.len());
        return Err(Error::with(Code::TooManyColumns, detail));
    }
    check_calls(select, &items, order_by)?;
    let filter = match &select.filter {
        Some(filter) => Some(Binder::rows(cx, &scope, Clause::Where).condition(filter, true)?),
        None => None,
    };
    if needs_time_equality {
        check_where_join(filter.as_ref(), &scope)?;
    }
    let range = query_range(filter.as_ref(), &scope);
    let plan = match &filter {
        Some(filter) => build::filter(plan, cx.bounded(filter))?,
        None => plan,
    };
    let grouped = select.window.is_some()
        || !select.group_by.is_empty()
        || items.iter().filter_map(Item::expr).any(has_aggregate)
        || order_by.iter().any(|o| has_aggregate(&o.expr) && !select.partition_by.is_empty());
    if slimit.is_some() && select.partition_by.is_empty() && select.group_by.is_empty() {
        return Err(Error::of(Code::SlimitWithoutPartition));
    }
    if select.having.is_some()
        && select.group_by.is_empty()
        && select.window.is_none()
        && select.partition_by.is_empty()
    {
        return Err(Error::of(Code::NotGroupBy).hint(words::HAVING_HINT));
    }
    let selecting = Selecting { select, order_by, limit, slimit, items, plan, scope, filter, range };
    if grouped { plan_groups(cx, selecting) } else { plan_rows(cx, selecting) }
}

/// A comma join's timestamps have to be equated in WHERE.
fn check_where_join(filter: Option<&DfExpr>, scope: &Scope) -> Result<()> {
    let Some(filter) = filter else { return Err(Error::of(Code::CrossJoin)) };
    let mut parts = Vec::new();
    conjuncts(filter, &mut parts);
    if parts.into_iter().any(|p| is_time_equality(p, scope)) {
        return Ok(());
    }
    Err(Error::of(Code::JoinCondition))
}

/// Bounds that WHERE sets on the timeline.
fn query_range(filter: Option<&DfExpr>, scope: &Scope) -> TimeRange {
    let mut range = TimeRange::ALL;
    let (Some(filter), Some(timeline)) = (filter, scope.timeline(None)) else { return range };
    let mut parts = Vec::new();
    conjuncts(filter, &mut parts);
    for part in parts {
        if let Some(bound) = time_range(part, &timeline.column.name) {
            range = range.intersect(bound.range);
        }
    }
    range
}

/// Whether the query asks for children rather than rows: SELECT TAGS, or DISTINCT with tbname over tags alone.
fn lists_children(cx: &Context<'_>, select: &Select, order_by: &[OrderBy]) -> bool {
    let Some(TableRef::Table { name, .. }) = &select.from else { return false };
    let Ok(relation) = cx.relations.get(name) else { return false };
    let RelationKind::Stable(stable) = &relation.kind else { return false };
    if !select.tags_only && !select.distinct {
        return false;
    }
    let grouped = select.window.is_some() || !select.group_by.is_empty() || !select.partition_by.is_empty();
    if grouped {
        return false;
    }
    let mut only_tags = true;
    let mut tbname = false;
    let mut look = |expr: &Expr| {
        walk(expr, &mut |e| {
            match e {
                Expr::Column { name, quoted, .. } => {
                    let is_name = !quoted && name == "tbname";
                    tbname |= is_name;
                    only_tags &= is_name || stable.schema.tag(name).is_some() || (!quoted && name == "_tags");
                }
                Expr::Function { name, .. } => {
                    only_tags &= !function::is_aggregate(name) && !function::is_multi_row(name);
                }
                _ => {}
            }
            true
        });
    };
    for item in &select.items {
        match item {
            SelectItem::Expr { expr, .. } => look(expr),
            SelectItem::Wildcard | SelectItem::QualifiedWildcard(_) => return false,
        }
    }
    let aliases: Vec<&str> = select
        .items
        .iter()
        .filter_map(|i| if let SelectItem::Expr { alias, .. } = i { alias.as_deref() } else { None })
        .collect();
    if let Some(filter) = &select.filter {
        look(filter);
    }
    for item in order_by {
        let by_alias = matches!(&item.expr, Expr::Column { name, .. } if aliases.contains(&&**name));
        if !by_alias {
            look(&item.expr);
        }
    }
    only_tags && (select.tags_only || tbname)
}

/// A SELECT whose result has a row for each row.
fn plan_rows(cx: &Context<'_>, selecting: Selecting<'_>) -> Result<Planned> {
    let Selecting { select, order_by, limit, slimit, items, plan, scope, range, .. } = selecting;
    if select.having.is_some() {
        return Err(Error::of(Code::NotGroupBy).hint(words::HAVING_HINT));
    }
    let mut binder = Binder { range, ..Binder::rows(cx, &scope, Clause::Select) };
    let bound = bind_items(&mut binder, &items)?;
    let mut keys = Vec::new();
    for part in &select.partition_by {
        let value = bind_key(cx, &scope, &part.expr, &items, &bound)?;
        keys.push(value.expr);
    }
    let mut order = bind_order(&mut binder, order_by, &bound)?;
    if !select.distinct {
        order = with_key(order, &scope);
    }
    let single = scope.tables.iter().all(|t| t.ordered);
    let natural = match scope.timeline(None) {
        Some(column) if single && !scope.tables.is_empty() || !keys.is_empty() => {
            let time = DfExpr::Column(column.column.clone());
            let key = scope.key_beside(&time);
            [time].into_iter().chain(key).collect()
        }
        _ => Vec::new(),
    };
    finish(
        cx,
        Tail {
            plan,
            items: bound,
            distinct: select.distinct,
            ordered: !order_by.is_empty(),
            order,
            cluster: !keys.is_empty(),
            keys,
            natural,
            limit,
            slimit,
        },
    )
}

/// Rows of one instant that ORDER BY leaves equal follow each other by composite key, in the direction of their time.
fn with_key(mut order: Vec<SortKey>, scope: &Scope) -> Vec<SortKey> {
    let beside = |key: &SortKey| scope.key_beside(&key.value).map(|value| SortKey { value, ..key.clone() });
    let key = order.iter().find_map(beside);
    order.extend(key.filter(|key| order.iter().all(|other| other.value != key.value)));
    order
}

/// Binds the select list.
pub(crate) fn bind_items(binder: &mut Binder<'_, '_>, items: &[Item]) -> Result<Vec<BoundItem>> {
    let mut bound = Vec::with_capacity(items.len());
    for item in items {
        let value = match &item.source {
            // A document shows as it stands in its tag, what was taken out of one as results show it.
            ItemSource::Expr(expr) => match binder.value(expr)? {
                value if is_computed(expr) && value.ty.data == Some(DataType::Json) => json::printed(value),
                value => value,
            },
            ItemSource::Column(column) if binder.groups.is_none() => binder.scope.typed(column),
            ItemSource::Column(column) => {
                let name = column.name.to_string();
                binder.value(&Expr::Column { qualifier: None, name, quoted: true, at: At::default() })?
            }
        };
        bound.push(BoundItem {
            name: item.name.clone(),
            alias: item.alias.clone(),
            nameless: item.nameless,
            value,
        });
    }
    Ok(bound)
}

const fn is_computed(expr: &Expr) -> bool {
    !matches!(expr, Expr::Column { .. })
}

/// A key of GROUP BY or PARTITION BY: an expression, a position, or an alias.
pub(crate) fn bind_key(
    cx: &Context<'_>,
    scope: &Scope,
    expr: &Expr,
    items: &[Item],
    bound: &[BoundItem],
) -> Result<Typed> {
    let bind = |e: &Expr| Binder::rows(cx, scope, Clause::GroupBy).value(e);
    let of_item = |index: usize| -> Option<Result<Typed>> {
        if let Some(item) = bound.get(index) {
            return Some(Ok(item.value.clone()));
        }
        let item = items.get(index)?;
        Some(match &item.source {
            ItemSource::Expr(e) => bind(e),
            ItemSource::Column(c) => Ok(scope.typed(c)),
        })
    };
    match expr {
        Expr::Literal(Value::Int(position)) => {
            let index = usize::try_from(*position).ok().and_then(|p| p.checked_sub(1));
            index.and_then(of_item).unwrap_or_else(|| {
                Err(Error::text(
                    Code::OrderByPosition,
                    "ORDER BY / GROUP BY item must be the number of a SELECT-list expression",
                ))
            })
        }
        Expr::Column { qualifier: None, name, .. } => match bind(expr) {
            Ok(value) => Ok(value),
            Err(error) => {
                let index = items.iter().position(|i| i.alias.as_deref() == Some(name));
                index.and_then(of_item).unwrap_or(Err(error))
            }
        },
        _ => bind(expr),
    }
}

/// Binds ORDER BY. Constants do not sort and are left out.
pub(crate) fn bind_order(
    binder: &mut Binder<'_, '_>,
    order_by: &[OrderBy],
    items: &[BoundItem],
) -> Result<Vec<SortKey>> {
    let mut keys = Vec::with_capacity(order_by.len());
    for item in order_by {
        let expr = match &item.expr {
            Expr::Literal(Value::Int(position)) => {
                let index = usize::try_from(*position).ok().and_then(|p| p.checked_sub(1));
                let item = index.and_then(|i| items.get(i)).ok_or_else(|| {
                    Error::text(
                        Code::OrderByPosition,
                        "ORDER BY / GROUP BY item must be the number of a SELECT-list expression",
                    )
                })?;
                item.value.expr.clone()
            }
            Expr::Column { qualifier: None, name, .. } => {
                match items.iter().find(|i| i.alias.as_deref() == Some(name)) {
                    Some(item) => item.value.expr.clone(),
                    None => binder.value(&item.expr)?.expr,
                }
            }
            other => binder.value(other)?.expr,
        };
        if expr.any_column_refs() || expr.is_volatile() {
            keys.push(SortKey::new(expr, item));
        }
    }
    Ok(keys)
}
