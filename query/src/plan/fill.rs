//! Plans FILL.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, SortExpr};
use model::{Code, Error, Result};

use crate::ast::{Expr, Fill};
use crate::function::cast;
use crate::operator::fill::{FillMode, FillOperator};
use crate::operator::node::OperatorNode;
use crate::plan::error::from_datafusion;
use crate::plan::expr::{Binder, Clause};
use crate::plan::grid::Grid;
use crate::plan::output::BoundItem;
use crate::plan::scope::Scope;
use crate::plan::types::Typed;
use crate::plan::{Context, build};
use crate::source::TimeRange;

/// What FILL works on.
pub(crate) struct Input<'a> {
    pub(crate) plan: LogicalPlan,
    /// Columns of the partition keys.
    pub(crate) keys: Vec<DfExpr>,
    /// Column of the window's start.
    pub(crate) start: DfExpr,
    pub(crate) grid: &'a Grid,
    pub(crate) range: TimeRange,
}

/// Fills missing windows. Items that hold an aggregate are computed before and replaced by their filled column; the
/// others follow from keys and window and are left to be computed behind.
pub(crate) fn plan_fill(
    cx: &Context<'_>,
    scope: &Scope,
    fill: &Fill,
    input: Input<'_>,
    items: &mut [BoundItem],
) -> Result<LogicalPlan> {
    let Input { plan, keys, start, grid, range } = input;
    if range.first == i64::MIN || range.last_inclusive == i64::MAX {
        return Err(Error::of(Code::FillRange));
    }
    let number = cx.unique();
    let own: Vec<&DfExpr> = keys.iter().chain([&start]).collect();
    let mut projection: Vec<DfExpr> = own.iter().map(|e| (*e).clone()).collect();
    let mut filled = Vec::new();
    for item in items.iter_mut() {
        let follows = item
            .value
            .expr
            .column_refs()
            .into_iter()
            .all(|c| own.iter().any(|e| matches!(e, DfExpr::Column(o) if o == c)));
        if follows {
            continue;
        }
        let name = format!("f{number}_{}", filled.len());
        projection.push(item.value.expr.clone().alias(name.clone()));
        let column = DfExpr::Column(Column::new_unqualified(name));
        item.value = Typed { expr: column, ..item.value.clone() };
        filled.push(item.value.clone());
    }
    let (mode, force) = match fill {
        Fill::None => return Ok(plan),
        Fill::Null { force } => (FillMode::Null, *force),
        Fill::Value { values, force } => (FillMode::Value(constants(cx, scope, values, &filled)?), *force),
        Fill::Prev => (FillMode::Prev, false),
        Fill::Next => (FillMode::Next, false),
        Fill::Linear => (FillMode::Linear, false),
    };
    let sort: Vec<SortExpr> =
        projection.iter().take(own.len()).map(|e| SortExpr::new(e.clone(), true, true)).collect();
    let keys = keys.len();
    let plan = build::project(plan, projection)?;
    // Filled values may be NULL whatever the aggregate promises.
    let fields: Vec<_> =
        plan.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let schema = Arc::new(arrow_schema::Schema::new(fields));
    let operator = FillOperator { keys, mode, force, grid: grid.clone(), range, schema };
    OperatorNode::plan(plan, sort, Arc::new(operator)).map_err(from_datafusion)
}

/// The constants of FILL(VALUE), each as its column's type.
fn constants(
    cx: &Context<'_>,
    scope: &Scope,
    values: &[Expr],
    filled: &[Typed],
) -> Result<Vec<datafusion::common::ScalarValue>> {
    if values.len() != filled.len() {
        return Err(Error::text(Code::WrongValueType, "Filled values number mismatch")
            .hint("FILL(VALUE, ..) takes one value for each aggregate of the SELECT list, in its order"));
    }
    let mut constants = Vec::with_capacity(values.len());
    for (value, column) in values.iter().zip(filled) {
        let value = Binder::rows(cx, scope, Clause::Select).value(value)?;
        let value = cast::cast(value, column.ty, cx.session.zone)?.folded()?;
        let constant = value.constant().ok_or_else(|| {
            Error::with(Code::WrongValueType, "FILL takes constants").hint("write a number, a string or NULL")
        })?;
        constants.push(constant.clone());
    }
    Ok(constants)
}
