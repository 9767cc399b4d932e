//! INTERVAL windows as expressions over a timestamp.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Int64Type;
use arrow_schema::{DataType as Arrow, Field};
use datafusion::common::{Column, Result as DfResult, internal_err};
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Operator};
use model::{DataType, Result};

use crate::function::native::{call, call_monotonic};
use crate::plan::aggregate::WindowColumns;
use crate::plan::coerce::{binary, ticks};
use crate::plan::error::from_datafusion;
use crate::plan::grid::Grid;
use crate::plan::types::{Ty, Typed};

/// Applies `f` to each tick of a TIMESTAMP expression.
fn map_ticks(
    name: String,
    value: Typed,
    ty: Ty,
    f: impl Fn(i64) -> i64 + Send + Sync + 'static,
) -> Result<DfExpr> {
    let arrow = ty.arrow();
    Ok(call(name, arrow.clone(), vec![ticks(value)?.expr], move |args, _| {
        let [array] = args else { return internal_err!("one argument expected") };
        let mapped: Int64Array = array.as_primitive::<Int64Type>().unary(&f);
        Ok(arrow::compute::cast(&mapped, &arrow)?)
    }))
}

/// Start of the window that holds a row, for windows that do not overlap.
pub(crate) fn start_of(grid: &Grid, time: Typed) -> Result<Typed> {
    let ty = time.ty;
    let window = grid.clone();
    // Rows mostly come in order of time, so the window of the row before is the first guess.
    let name = format!("window_start_{grid:?}");
    // The cast to ticks is inside: DataFusion would not see that it keeps the order.
    let expr = call_monotonic(name, ty.arrow(), time.expr, move |args, _| {
        let [array] = args else { return internal_err!("one argument expected") };
        let array = arrow::compute::cast(array, &Arrow::Int64)?;
        let array = array.as_primitive::<Int64Type>();
        let (mut start, mut end) = (0, i64::MIN);
        let mut starts = Vec::with_capacity(array.len());
        for &tick in array.values() {
            if tick < start || tick >= end {
                (start, end) = window.holding(tick);
            }
            starts.push(start);
        }
        let starts = Int64Array::new(starts.into(), array.nulls().cloned());
        Ok(arrow::compute::cast(&starts, &ty.arrow())?)
    });
    Ok(Typed::new(expr, ty))
}

/// Repeats each row for every window that holds it. Gives the plan and the column with the window's start.
pub(crate) fn expand_sliding(
    plan: LogicalPlan,
    grid: &Grid,
    time: Typed,
    number: usize,
) -> Result<(LogicalPlan, Typed)> {
    let ty = time.ty;
    let name = format!("w{number}");
    let window = grid.clone();
    let item = Arc::new(Field::new_list_field(Arrow::Int64, true));
    let list = Arrow::List(Arc::clone(&item));
    let starts = call(format!("window_starts_{grid:?}"), list, vec![ticks(time)?.expr], move |args, _| {
        let [array] = args else { return internal_err!("one argument expected") };
        all_starts(&window, array, Arc::clone(&item))
    });
    let mut columns: Vec<DfExpr> = plan.schema().columns().into_iter().map(DfExpr::Column).collect();
    columns.push(starts.alias(name.clone()));
    let plan = LogicalPlanBuilder::from(plan)
        .project(columns)
        .and_then(|b| b.unnest_column(Column::new_unqualified(name.clone())))
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    let start = DfExpr::Column(Column::new_unqualified(name));
    Ok((plan, Typed::new(datafusion::logical_expr::cast(start, ty.arrow()), ty)))
}

fn all_starts(grid: &Grid, array: &ArrayRef, item: Arc<Field>) -> DfResult<ArrayRef> {
    let array = array.as_primitive::<Int64Type>();
    let mut starts = Vec::with_capacity(array.len());
    let mut lengths = Vec::with_capacity(array.len());
    for tick in array {
        let before = starts.len();
        if let Some(tick) = tick {
            grid.starts(tick, &mut starts);
        }
        lengths.push(starts.len() - before);
    }
    let values = Arc::new(Int64Array::from(starts));
    Ok(Arc::new(ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), values, None)?))
}

/// `_wstart`, `_wend`, `_wduration` of the column with the window's start.
pub(crate) fn columns(grid: &Grid, start: Typed) -> Result<WindowColumns> {
    let start = Typed { timeline: true, ..start };
    let window = grid.clone();
    let end = map_ticks(format!("window_end_{grid:?}"), start.clone(), start.ty, move |s| window.end(s))?;
    let end = Typed::new(end, start.ty);
    let duration = binary(ticks(end.clone())?.expr, Operator::Minus, ticks(start.clone())?.expr);
    Ok(WindowColumns { start, end, duration: Typed::new(duration, Ty::plain(DataType::BigInt)) })
}
