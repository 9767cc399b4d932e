//! Operators of our own in DataFusion's plans: a logical node, its physical plan, and the trait that an operator
//! implements.
//!
//! An operator reads one sorted stream and writes one. What it needs sorted it says, and DataFusion sorts unless the
//! input is so already.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use arrow_schema::{Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, DataFusionError, Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, SortExpr, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, create_physical_sort_expr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PhysicalExpr,
    PlanProperties,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt as _;

use crate::memory::{QueryMemory, Reservation};

/// What an operator does to a stream of its input's schema. The output has the same schema.
pub(crate) trait Operator: fmt::Debug + Send + Sync {
    /// For EXPLAIN.
    fn describe(&self) -> String;

    /// A run over one input. What it holds of it is reserved in `memory`.
    fn start(&self, memory: Reservation) -> Box<dyn Running>;
}

/// A run of an operator.
pub(crate) trait Running: Send {
    /// Takes a batch, gives what is ready.
    fn push(&mut self, batch: RecordBatch) -> DfResult<Vec<RecordBatch>>;

    /// Gives what is left.
    fn finish(&mut self) -> DfResult<Vec<RecordBatch>>;

    /// Whether nothing that may still come can matter.
    fn is_done(&self) -> bool {
        false
    }
}

/// The logical node.
#[derive(Clone, Debug)]
pub(crate) struct OperatorNode {
    input: LogicalPlan,
    sort: Vec<SortExpr>,
    operator: Arc<dyn Operator>,
    /// The input's, every column nullable: FILL puts NULL also where an aggregate never would.
    schema: DFSchemaRef,
}

impl OperatorNode {
    /// `operator` over `input` sorted by `sort`.
    pub(crate) fn plan(
        input: LogicalPlan,
        sort: Vec<SortExpr>,
        operator: Arc<dyn Operator>,
    ) -> DfResult<LogicalPlan> {
        let schema = nullable(&input)?;
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(Self { input, sort, operator, schema }) }))
    }

    fn key(&self) -> (&LogicalPlan, &[SortExpr], String) {
        (&self.input, &self.sort, self.operator.describe())
    }
}

impl PartialEq for OperatorNode {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for OperatorNode {}

impl PartialOrd for OperatorNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for OperatorNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl UserDefinedLogicalNodeCore for OperatorNode {
    fn name(&self) -> &str {
        "Operator"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.sort.iter().map(|s| s.expr.clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.operator.describe())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        let [input] = <[LogicalPlan; 1]>::try_from(inputs).map_err(|i| {
            datafusion::common::internal_datafusion_err!("one input expected inputs={}", i.len())
        })?;
        let sort =
            exprs.into_iter().zip(&self.sort).map(|(expr, s)| SortExpr { expr, ..s.clone() }).collect();
        let schema = nullable(&input)?;
        Ok(Self { input, sort, operator: Arc::clone(&self.operator), schema })
    }
}

fn nullable(input: &LogicalPlan) -> DfResult<DFSchemaRef> {
    let schema = input.schema();
    let fields = schema
        .iter()
        .map(|(qualifier, field)| (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(true))))
        .collect();
    Ok(Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?))
}

/// Turns [`OperatorNode`] into its physical plan.
#[derive(Debug)]
pub(crate) struct OperatorPlanner;

#[async_trait]
impl ExtensionPlanner for OperatorPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<OperatorNode>() else { return Ok(None) };
        let [input] = physical_inputs else { return internal_err!("an operator has one input") };
        let schema = node.input.schema();
        let sort = node
            .sort
            .iter()
            .map(|s| create_physical_sort_expr(s, schema, session.execution_props(), planning))
            .collect::<DfResult<Vec<_>>>()?;
        let exec = OperatorExec::new(Arc::clone(input), LexOrdering::new(sort), Arc::clone(&node.operator));
        Ok(Some(Arc::new(exec)))
    }
}

/// The physical plan.
#[derive(Debug)]
struct OperatorExec {
    input: Arc<dyn ExecutionPlan>,
    sort: Option<LexOrdering>,
    operator: Arc<dyn Operator>,
    properties: Arc<PlanProperties>,
}

impl OperatorExec {
    fn new(input: Arc<dyn ExecutionPlan>, sort: Option<LexOrdering>, operator: Arc<dyn Operator>) -> Self {
        let fields: Vec<Field> =
            input.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, input.schema().metadata().clone()));
        let mut equivalence = EquivalenceProperties::new(schema);
        if let Some(sort) = &sort {
            equivalence.add_ordering(sort.iter().cloned());
        }
        let properties = Arc::new(PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Both,
            Boundedness::Bounded,
        ));
        Self { input, sort, operator, properties }
    }
}

impl DisplayAs for OperatorExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.operator.describe())
    }
}

impl ExecutionPlan for OperatorExec {
    fn name(&self) -> &str {
        "OperatorExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.sort.clone().map(OrderingRequirements::from)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for sort in self.sort.iter().flat_map(|s| s.iter()) {
            if f(&sort.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("an operator has one input") };
        Ok(Arc::new(Self::new(input, self.sort.clone(), Arc::clone(&self.operator))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let memory = QueryMemory::of(&context).reservation("rows of an operator");
        let input = self.input.execute(partition, context)?;
        let state = Some((input, self.operator.start(memory)));
        let schema = self.schema();
        let stream = futures::stream::try_unfold(state, move |state| {
            let schema = Arc::clone(&schema);
            async move {
                let Some((mut input, mut running)) = state else { return Ok::<_, DataFusionError>(None) };
                let (batches, next) = match input.next().await {
                    Some(batch) => {
                        let batches = running.push(batch?)?;
                        let done = running.is_done();
                        (batches, (!done).then_some((input, running)))
                    }
                    None => (running.finish()?, None),
                };
                let target = Arc::clone(&schema);
                let batches = batches.into_iter().map(move |b| Ok(b.with_schema(Arc::clone(&target))?));
                let batches = futures::stream::iter(batches.collect::<Vec<_>>());
                Ok(Some((batches, next)))
            }
        });
        let stream = futures::TryStreamExt::try_flatten(stream);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}
