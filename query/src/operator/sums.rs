//! Aggregates that shards answer block by block: COUNT, SUM, AVG, MIN and MAX of plain columns, over all rows or by tags and
//! name. A shard gives the rows that it has not summed up, and sums of the rest; both become states of the same partial
//! aggregation, which the final one cannot tell apart.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, UInt64Array};
use arrow::compute::cast;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::{StreamExt as _, TryStreamExt as _};
use model::ColumnId;
use parking_lot::Mutex;

use crate::operator::scan::ShardScan;
use crate::source::{BlockSum, ScanColumn, SummedBlocks};

/// Has shards sum up what they can.
#[derive(Debug)]
pub(crate) struct SumBlocks;

impl PhysicalOptimizerRule for SumBlocks {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let summed = match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) => summed(aggregate)?,
                None => None,
            };
            Ok(summed.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "SumBlocks"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregation over summed blocks, where all of it can be had from them.
fn summed(aggregate: &AggregateExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let partial = matches!(aggregate.mode(), AggregateMode::Partial);
    if !partial && !matches!(aggregate.mode(), AggregateMode::Single) {
        return Ok(None);
    }
    let Some(scan) = aggregate.input().downcast_ref::<ShardScan>().filter(|scan| scan.can_sum()) else {
        return Ok(None);
    };
    let plain = !aggregate.group_expr().has_grouping_set()
        && aggregate.limit_options().is_none()
        && aggregate.filter_expr().iter().all(Option::is_none);
    let keys: Vec<Arc<dyn PhysicalExpr>> =
        aggregate.group_expr().expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
    let columns = scan.columns();
    if !plain || !keys.iter().all(|key| is_label(key, columns)) {
        return Ok(None);
    }
    let schema = scan.schema();
    let states: Option<Vec<Vec<State>>> =
        aggregate.aggr_expr().iter().map(|call| State::of(call, columns, &schema)).collect();
    let Some(states) = states else { return Ok(None) };
    let states = states.into_iter().flatten().collect();
    let inner = over(aggregate, Arc::clone(aggregate.input()))?;
    let sums = Arc::new(SummedAggregate { inner: Arc::new(inner), keys, states });
    if partial {
        return Ok(Some(sums));
    }
    let last = AggregateExec::try_new(
        AggregateMode::Final,
        aggregate.group_expr().as_final(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        sums,
        aggregate.input_schema(),
    )?;
    // Whoever stands above expects the fields of before.
    Ok((last.schema() == aggregate.schema()).then(|| Arc::new(last) as Arc<dyn ExecutionPlan>))
}

/// The partial aggregation of the same calls over `input`.
fn over(aggregate: &AggregateExec, input: Arc<dyn ExecutionPlan>) -> DfResult<AggregateExec> {
    AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        input,
        aggregate.input_schema(),
    )
}

/// Whether all rows of a table have one value of it.
fn is_label(expr: &Arc<dyn PhysicalExpr>, columns: &[ScanColumn]) -> bool {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return columns.get(column.index()).is_some_and(|c| !matches!(c, ScanColumn::Column(_)));
    }
    let children = expr.children();
    !children.is_empty() && children.iter().all(|child| is_label(child, columns)) && !expr.is_volatile_node()
}

/// What a sum is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Rows,
    Count(ColumnId),
    Sum(ColumnId),
    Min(ColumnId),
    Max(ColumnId),
}

/// One column of a partial aggregation's states.
#[derive(Clone, Debug)]
struct State {
    wanted: Wanted,
    /// How the 64 bits of a value are to be read.
    values: Values,
    data_type: DataType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Signed,
    Unsigned,
    Float,
}

impl Values {
    fn of(data_type: &DataType) -> Option<Self> {
        if data_type.is_signed_integer() {
            Some(Self::Signed)
        } else if data_type.is_unsigned_integer() {
            Some(Self::Unsigned)
        } else {
            matches!(data_type, DataType::Float32 | DataType::Float64).then_some(Self::Float)
        }
    }
}

impl State {
    /// The states of a call on columns of `schema`; `None` for one that blocks do not answer.
    fn of(call: &AggregateFunctionExpr, columns: &[ScanColumn], schema: &SchemaRef) -> Option<Vec<Self>> {
        let fields = call.state_fields().ok()?;
        let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
        if call.is_distinct() || !call.order_bys().is_empty() {
            return None;
        }
        let args = call.expressions();
        let [arg] = args.as_slice() else { return None };
        let name = call.fun().name();
        let rows = || vec![Self { wanted: Wanted::Rows, values: Values::Signed, data_type: DataType::Int64 }];
        if let Some(literal) = arg.downcast_ref::<Literal>() {
            return (name == "count" && !literal.value().is_null() && types == [&DataType::Int64]).then(rows);
        }
        // Sums cast to the type of their result.
        let (inner, is_cast) = match arg.downcast_ref::<CastExpr>() {
            Some(cast) => (cast.expr(), true),
            None => (arg, false),
        };
        let column = inner.downcast_ref::<Column>()?;
        let ScanColumn::Column(id) = *columns.get(column.index())? else { return None };
        if id == ColumnId::TIMESTAMP {
            return (name == "count" && types == [&DataType::Int64]).then(rows);
        }
        let values = Values::of(schema.fields().get(column.index())?.data_type())?;
        let state = |wanted, data_type: &DataType| Self { wanted, values, data_type: data_type.clone() };
        // A cast into another class would have to be made value by value, before they are summed up.
        let keeps_class = |to: &DataType| Values::of(to) == Some(values) && to.primitive_width() == Some(8);
        Some(match (name, types.as_slice()) {
            ("count", [to @ DataType::Int64]) if !is_cast => vec![state(Wanted::Count(id), to)],
            ("sum", [to]) if keeps_class(to) => vec![state(Wanted::Sum(id), to)],
            ("avg", [count @ DataType::UInt64, to]) if keeps_class(to) => {
                vec![state(Wanted::Count(id), count), state(Wanted::Sum(id), to)]
            }
            ("min", [to]) if !is_cast => vec![state(Wanted::Min(id), to)],
            ("max", [to]) if !is_cast => vec![state(Wanted::Max(id), to)],
            _ => return None,
        })
    }

    /// The state of each block.
    fn array(&self, blocks: &SummedBlocks, asked: &[ColumnId]) -> DfResult<ArrayRef> {
        let column = |id: ColumnId| {
            let at = asked.iter().position(|held| *held == id);
            at.and_then(|at| blocks.sums.get(at)).map(Vec::as_slice).unwrap_or_default()
        };
        let counts = |numbers: &mut dyn Iterator<Item = u64>| -> ArrayRef {
            Arc::new(numbers.map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect::<Int64Array>())
        };
        let array = match self.wanted {
            Wanted::Rows => counts(&mut blocks.rows.iter().copied()),
            Wanted::Count(id) => counts(&mut column(id).iter().map(|sum| sum.count)),
            Wanted::Sum(id) => self.values(column(id), |sum| sum.sum),
            Wanted::Min(id) => self.values(column(id), |sum| sum.min),
            Wanted::Max(id) => self.values(column(id), |sum| sum.max),
        };
        Ok(cast(&array, &self.data_type)?)
    }

    fn values(&self, sums: &[BlockSum], of: impl Fn(&BlockSum) -> u64) -> ArrayRef {
        let bits = sums.iter().map(|sum| (sum.count > 0).then(|| of(sum)));
        match self.values {
            Values::Signed => Arc::new(bits.map(|v| v.map(u64::cast_signed)).collect::<Int64Array>()),
            Values::Unsigned => Arc::new(bits.collect::<UInt64Array>()),
            Values::Float => Arc::new(bits.map(|v| v.map(f64::from_bits)).collect::<Float64Array>()),
        }
    }
}

/// A partial aggregation of which shards do a part.
#[derive(Debug)]
struct SummedAggregate {
    /// The same without them, over the scan.
    inner: Arc<AggregateExec>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    states: Vec<State>,
}

impl SummedAggregate {
    fn asked(&self) -> Vec<ColumnId> {
        let mut asked = Vec::new();
        for state in &self.states {
            match state.wanted {
                Wanted::Rows => {}
                Wanted::Count(id) | Wanted::Sum(id) | Wanted::Min(id) | Wanted::Max(id) => {
                    if !asked.contains(&id) {
                        asked.push(id);
                    }
                }
            }
        }
        asked
    }
}

/// Keys and states of blocks as the partial aggregation has them.
fn states_of(
    schema: &SchemaRef,
    blocks: &SummedBlocks,
    keys: &[Arc<dyn PhysicalExpr>],
    states: &[State],
    asked: &[ColumnId],
) -> DfResult<RecordBatch> {
    let rows = blocks.rows.len();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for key in keys {
        columns.push(key.evaluate(&blocks.labels)?.into_array(rows)?);
    }
    for state in states {
        columns.push(state.array(blocks, asked)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

impl DisplayAs for SummedAggregate {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SummedBlocks: ")?;
        self.inner.fmt_as(t, f)
    }
}

impl ExecutionPlan for SummedAggregate {
    fn name(&self) -> &str {
        "SummedAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.inner.input()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.into_iter().next() else {
            return internal_err!("an aggregation without an input");
        };
        let is_scan = input.downcast_ref::<ShardScan>().is_some();
        let inner = Arc::new(over(&self.inner, input)?);
        // With another input than a scan it is the aggregation that it was.
        if !is_scan {
            return Ok(inner);
        }
        let (keys, states) = (self.keys.clone(), self.states.clone());
        Ok(Arc::new(Self { inner, keys, states }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let Some(scan) = self.inner.input().downcast_ref::<ShardScan>() else {
            return internal_err!("sums of something that is no scan");
        };
        let asked = self.asked();
        let Some(scanned) = scan.execute_summed(partition, &asked)? else {
            return self.inner.execute(partition, context);
        };
        let rows = Once { stream: Mutex::new(Some(scanned.rows)), properties: Arc::clone(scan.properties()) };
        let partial = over(&self.inner, Arc::new(rows))?.execute(partition, context)?;
        let schema = partial.schema();
        let (keys, states) = (self.keys.clone(), self.states.clone());
        let target = Arc::clone(&schema);
        // The partial aggregation has come to its end, and the scan with it: by then all blocks are there.
        let blocks = futures::stream::once(async move {
            let blocks = std::mem::take(&mut *scanned.blocks.lock());
            let batches: Vec<DfResult<RecordBatch>> =
                blocks.iter().map(|some| states_of(&target, some, &keys, &states, &asked)).collect();
            Ok::<_, datafusion::common::DataFusionError>(futures::stream::iter(batches))
        })
        .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, partial.chain(blocks))))
    }
}

/// A stream as the input of a plan that runs once.
struct Once {
    stream: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl DisplayAs for Once {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl ExecutionPlan for Once {
    fn name(&self) -> &str {
        "Once"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        match self.stream.lock().take() {
            Some(stream) => Ok(stream),
            None => internal_err!("a stream that is read twice"),
        }
    }
}
