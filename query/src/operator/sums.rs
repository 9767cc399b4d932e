//! Aggregates that shards answer block by block: COUNT, SUM, AVG, MIN, MAX, FIRST, LAST and LAST_ROW of plain columns, over
//! all rows or by tags and name. A shard gives the rows that it has not summed up, and sums of the rest; both become states of the same partial
//! aggregation, which the final one cannot tell apart.

mod state;

use std::fmt;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;

use crate::operator::fair::Turn;
use crate::operator::scan::ShardScan;
use crate::source::{ScanColumn, Summand, SummedBlocks};

use state::State;

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
    // Blocks come behind all rows, so in no order.
    let plain = *aggregate.input_order_mode() == InputOrderMode::Linear
        && !aggregate.group_expr().has_grouping_set()
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
    if expr.downcast_ref::<Literal>().is_some() {
        return true;
    }
    if let Some(column) = expr.downcast_ref::<Column>() {
        return columns.get(column.index()).is_some_and(|c| !matches!(c, ScanColumn::Column(_)));
    }
    let children = expr.children();
    !children.is_empty() && children.iter().all(|child| is_label(child, columns)) && !expr.is_volatile_node()
}

/// A partial aggregation of which shards do a part.
#[derive(Debug)]
struct SummedAggregate {
    /// The same without them, over the scan.
    inner: Arc<AggregateExec>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    states: Vec<State>,
}

/// The scan that an aggregation reads; turns may lie between them.
fn scan_below(input: &Arc<dyn ExecutionPlan>) -> Option<&ShardScan> {
    Turn::below(input).downcast_ref()
}

impl SummedAggregate {
    /// What the shards have to know of blocks.
    fn summands(&self) -> Vec<Summand> {
        let mut summands: Vec<Summand> = Vec::new();
        for wanted in self.states.iter().filter_map(|state| state.wanted.summand()) {
            match summands.iter_mut().find(|summand| summand.column == wanted.column) {
                Some(summand) => summand.in_every_row |= wanted.in_every_row,
                None => summands.push(wanted),
            }
        }
        summands
    }
}

/// Keys and states of blocks as the partial aggregation has them.
fn states_of(
    schema: &SchemaRef,
    blocks: &SummedBlocks,
    keys: &[Arc<dyn PhysicalExpr>],
    states: &[State],
    summands: &[Summand],
) -> DfResult<RecordBatch> {
    let rows = blocks.rows.len();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for key in keys {
        columns.push(key.evaluate(&blocks.labels)?.into_array(rows)?);
    }
    for state in states {
        columns.push(state.array(blocks, summands)?);
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
        let is_scan = scan_below(&input).is_some();
        let inner = Arc::new(over(&self.inner, input)?);
        // With another input than a scan it is the aggregation that it was.
        if !is_scan {
            return Ok(inner);
        }
        let (keys, states) = (self.keys.clone(), self.states.clone());
        Ok(Arc::new(Self { inner, keys, states }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let Some(scan) = scan_below(self.inner.input()) else {
            return internal_err!("sums of something that is no scan");
        };
        let summands = self.summands();
        let Some(scanned) = scan.execute_summed(partition, &summands, &context)? else {
            return self.inner.execute(partition, context);
        };
        let rows = Turn::over(Once::plan(scanned.rows)?);
        let partial = over(&self.inner, rows)?.execute(0, context)?;
        let schema = partial.schema();
        let (keys, states) = (self.keys.clone(), self.states.clone());
        let target = Arc::clone(&schema);
        // The partial aggregation has come to its end, and the scan with it: by then all blocks are there.
        let blocks = futures::stream::once(async move {
            let blocks = std::mem::take(&mut *scanned.blocks.lock());
            let batches: Vec<DfResult<RecordBatch>> =
                blocks.iter().map(|some| states_of(&target, some, &keys, &states, &summands)).collect();
            Ok::<_, datafusion::common::DataFusionError>(futures::stream::iter(batches))
        })
        .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, partial.chain(blocks))))
    }
}

/// A stream as the input of a plan that runs once.
struct Once {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl Once {
    fn plan(stream: SendableRecordBatchStream) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema = stream.schema();
        let once = Self { schema: Arc::clone(&schema), stream: Mutex::new(Some(stream)) };
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(once)], None, [], false, None)?))
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.stream.lock().take().unwrap_or_else(|| {
            let twice = futures::stream::once(async { internal_err!("a stream that is read twice") });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), twice))
        })
    }
}
