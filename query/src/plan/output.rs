//! The last steps of every SELECT: projection, order, limits.

use datafusion::common::Column;
use datafusion::logical_expr::{Distinct, Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use model::{Code, Error, Result};

use std::sync::Arc;

use crate::ast::{Limit, OrderBy};
use crate::operator::node::OperatorNode;
use crate::operator::partition::PartitionLimit;
use crate::plan::error::from_datafusion;
use crate::plan::types::{Ty, Typed};
use crate::plan::{Context, build};

/// A result column while its query is planned.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) name: String,
    /// Its column in the plan.
    pub(crate) column: Column,
    pub(crate) ty: Ty,
    /// An expression without alias: an outer query has no name for it.
    pub(crate) nameless: bool,
    /// Rows are ordered by it, or could be: the timeline of an outer query.
    pub(crate) timeline: bool,
}

/// A planned query.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) plan: LogicalPlan,
    pub(crate) columns: Vec<Output>,
    /// Rows come in order of the timeline.
    pub(crate) ordered: bool,
}

/// A bound item of the select list.
#[derive(Clone, Debug)]
pub(crate) struct BoundItem {
    pub(crate) name: String,
    /// An explicit name, which ORDER BY and GROUP BY may use.
    pub(crate) alias: Option<String>,
    pub(crate) nameless: bool,
    pub(crate) value: Typed,
}

/// A sort key of ORDER BY.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    pub(crate) value: DfExpr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl SortKey {
    pub(crate) fn new(value: DfExpr, item: &OrderBy) -> Self {
        // NULL counts as smallest unless the statement says otherwise.
        let nulls_first = item.nulls_first.unwrap_or(!item.descending);
        Self { value, descending: item.descending, nulls_first }
    }

    fn ascending(value: DfExpr) -> Self {
        Self { value, descending: false, nulls_first: true }
    }
}

/// What [`finish`] makes a result of.
pub(crate) struct Tail {
    pub(crate) plan: LogicalPlan,
    pub(crate) items: Vec<BoundItem>,
    pub(crate) distinct: bool,
    /// ORDER BY.
    pub(crate) order: Vec<SortKey>,
    /// ORDER BY was there, even if nothing in it sorts.
    pub(crate) ordered: bool,
    /// Keys of PARTITION BY or GROUP BY.
    pub(crate) keys: Vec<DfExpr>,
    /// Rows of one partition are to lie together even without a limit.
    pub(crate) cluster: bool,
    /// Order inside a partition, or of the whole, where ORDER BY is absent.
    pub(crate) natural: Vec<DfExpr>,
    pub(crate) limit: Option<Limit>,
    pub(crate) slimit: Option<Limit>,
}

/// Projection, DISTINCT, order, limits.
pub(crate) fn finish(cx: &Context<'_>, tail: Tail) -> Result<Planned> {
    let number = cx.unique();
    let Tail { plan, items, distinct, order, ordered, keys, cluster, natural, limit, slimit } = tail;
    let mut hidden = Hidden { number, items: &items, exprs: Vec::new(), distinct };
    let mut projection = Vec::with_capacity(items.len());
    let mut columns = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let name = item_name(number, index);
        projection.push(item.value.expr.clone().alias(name.clone()));
        columns.push(Output {
            name: item.name.clone(),
            column: Column::new_unqualified(name),
            ty: item.value.ty,
            nameless: item.nameless,
            timeline: item.value.timeline,
        });
    }
    let per_partition = !ordered && !keys.is_empty() && (limit.is_some() || slimit.is_some());
    let mut sort = Vec::new();
    for key in order {
        sort.push(hidden.sort(key)?);
    }
    let mut partition_keys = Vec::new();
    if !ordered {
        if per_partition || cluster {
            for key in keys {
                let key = hidden.sort(SortKey::ascending(key))?;
                partition_keys.push(key.expr.clone());
                sort.push(key);
            }
        }
        for natural in natural.into_iter().filter(|_| !distinct) {
            sort.push(hidden.sort(SortKey::ascending(natural))?);
        }
    }
    let extra = !hidden.exprs.is_empty();
    projection.extend(hidden.exprs);
    let timeline = columns.iter().find(|c| c.timeline).map(|c| DfExpr::Column(c.column.clone()));
    let ordered_by_time = match (sort.first(), &timeline) {
        (Some(first), Some(timeline)) => first.asc && first.expr == *timeline,
        _ => false,
    };
    let mut plan = build::project(plan, projection)?;
    if distinct {
        plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
    }
    if per_partition {
        let indices = partition_keys
            .iter()
            .filter_map(|k| match k {
                DfExpr::Column(c) => plan.schema().index_of_column(c).ok(),
                _ => None,
            })
            .collect();
        let operator = PartitionLimit { keys: indices, limit, partitions: slimit };
        plan = OperatorNode::plan(plan, sort, Arc::new(operator)).map_err(from_datafusion)?;
    } else {
        if !sort.is_empty() {
            plan = build::sort(plan, sort);
        }
        let mut builder = LogicalPlanBuilder::from(plan);
        // With ORDER BY everything is one slice.
        let nothing = slimit.is_some_and(|s| s.offset > 0 || s.count == Some(0));
        if nothing {
            builder = builder.limit(0, Some(0)).map_err(from_datafusion)?;
        }
        if let Some(limit) = limit {
            builder = builder
                .limit(saturating(limit.offset), limit.count.map(saturating))
                .map_err(from_datafusion)?;
        }
        plan = builder.build().map_err(from_datafusion)?;
    }
    if extra {
        let visible: Vec<DfExpr> = columns.iter().map(|c| DfExpr::Column(c.column.clone())).collect();
        plan = build::project(plan, visible)?;
    }
    Ok(Planned { plan, columns, ordered: ordered_by_time })
}

fn saturating(count: u64) -> usize {
    // DataFusion's optimizer takes limits for signed.
    usize::try_from(count.min(i64::MAX.unsigned_abs())).unwrap_or(usize::MAX)
}

fn item_name(number: usize, index: usize) -> String {
    format!("o{number}_{index}")
}

/// Columns that only sorting needs.
struct Hidden<'a> {
    number: usize,
    items: &'a [BoundItem],
    exprs: Vec<DfExpr>,
    distinct: bool,
}

impl Hidden<'_> {
    /// The sort key over the projection's columns.
    fn sort(&mut self, key: SortKey) -> Result<SortExpr> {
        let name = match self.items.iter().position(|i| i.value.expr == key.value) {
            Some(index) => item_name(self.number, index),
            None if self.distinct => return Err(Error::of(Code::NotSelected)),
            None => {
                let name = format!("s{}_{}", self.number, self.exprs.len());
                self.exprs.push(key.value.alias(name.clone()));
                name
            }
        };
        let column = DfExpr::Column(Column::new_unqualified(name));
        Ok(SortExpr::new(column, !key.descending, key.nulls_first))
    }
}
