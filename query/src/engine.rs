//! Runs plans: DataFusion, set up once.

use std::fmt;
use std::sync::Arc;

use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::execution::TaskContext;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::eliminate_filter::EliminateFilter;
use datafusion::optimizer::eliminate_limit::EliminateLimit;
use datafusion::optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::combine_partial_final_agg::CombinePartialFinalAggregate;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
use datafusion::physical_optimizer::output_requirements::OutputRequirements;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_optimizer::update_aggr_exprs::OptimizeAggregateOrder;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, displayable, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner as _};
use datafusion::prelude::SessionConfig;
use futures::StreamExt as _;
use model::{Error, Result};

use crate::memory::{Budget, QueryMemory};
use crate::operator::fair::{TakeTurns, without_turns};
use crate::operator::node::OperatorPlanner;
use crate::operator::scan::ShardTable;
use crate::operator::sums::SumBlocks;
use crate::plan::error::from_datafusion;
use crate::plan::{OutputColumn, Plan};

/// A batch of an operator (joins, sorts and aggregates make batches of their own) is made of so many rows that it takes
/// no more than this if all values are as long as their columns allow. Values that long are rare, batches of few rows
/// are slow: more than what a scan puts into a batch.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// And no fewer rows than this.
const BATCH_ROWS_MIN: usize = 64;

/// How an [`Engine`] may spend the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// Threads that one query may keep busy.
    pub parallelism: usize,
    /// Memory of all queries together; past it a query fails with `Code::OutOfMemory`.
    pub memory_bytes: usize,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            parallelism: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: 1 << 30,
        }
    }
}

/// Runs plans. Made once, shared by all queries; a clone shares it too.
#[derive(Clone)]
pub struct Engine {
    /// For plans over one shard: no repartitioning, no merging.
    narrow: Arc<SessionState>,
    /// For plans over several.
    wide: Arc<SessionState>,
    budget: Arc<Budget>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// Rows of a query as they come.
pub struct QueryStream {
    /// Columns of the result.
    pub columns: Vec<OutputColumn>,
    /// Batches; the schema's field names are the columns' names and may repeat.
    pub stream: SendableRecordBatchStream,
    /// What the query reserves its memory with. Batches that were taken from the stream are not reserved any more.
    pub memory: QueryMemory,
    /// Batches of the result that operators may hold between each other without having reserved them.
    pub batches_between: usize,
}

impl fmt::Debug for QueryStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryStream").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl QueryStream {
    /// Arrow schema of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// The next batch; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.stream.next().await.map(|batch| batch.map_err(from_datafusion))
    }

    /// All rows at once.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl Engine {
    /// Sets DataFusion up.
    pub fn new(settings: &EngineSettings) -> Result<Self> {
        let runtime = RuntimeEnvBuilder::new().build_arc().map_err(from_datafusion)?;
        let state = |partitions: usize| {
            let mut config = SessionConfig::new()
                .with_target_partitions(partitions)
                .with_collect_statistics(false)
                // Tables are never read from files here.
                .with_information_schema(false)
                .with_create_default_catalog_and_schema(false);
            // Our plans are in their last form after one pass; the second would only find that out.
            config.options_mut().optimizer.max_passes = 1;
            let state = SessionStateBuilder::new()
                .with_config(config)
                .with_runtime_env(Arc::clone(&runtime))
                .with_default_features()
                .with_optimizer_rules(optimizer_rules())
                .with_physical_optimizer_rules(physical_rules())
                .with_query_planner(Arc::new(Planner))
                .build();
            Arc::new(state)
        };
        let budget = Budget::new(settings.memory_bytes);
        Ok(Self { narrow: state(1), wide: state(settings.parallelism.max(1)), budget })
    }

    fn state(&self, plan: &Plan) -> &SessionState {
        if plan.shards <= 1 { &self.narrow } else { &self.wide }
    }

    /// The physical plan, and what running it needs. Between its steps it can be dropped.
    async fn physical(&self, plan: &Plan) -> DfResult<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let state = self.state(plan);
        let analyzed =
            state.analyzer().execute_and_check(plan.logical.clone(), state.config_options(), |_, _| {})?;
        tokio::task::yield_now().await;
        let optimized = state.optimizer().optimize(analyzed, state, |_, _| {})?;
        tokio::task::yield_now().await;
        let rows = (BATCH_BYTES_MAX / row_bytes_max(&optimized)?.max(1)).max(BATCH_ROWS_MIN);
        if rows >= state.config().batch_size() {
            let physical = state.query_planner().create_physical_plan(&optimized, state).await?;
            return Ok((physical, self.context(state)));
        }
        let mut own = state.clone();
        *own.config_mut() = state.config().clone().with_batch_size(rows);
        let physical = own.query_planner().create_physical_plan(&optimized, &own).await?;
        Ok((physical, self.context(&own)))
    }

    /// What running a query needs, with its own part of the memory.
    fn context(&self, state: &SessionState) -> Arc<TaskContext> {
        let runtime = RuntimeEnv { memory_pool: self.budget.query(), ..state.runtime_env().as_ref().clone() };
        Arc::new(TaskContext::from(state).with_runtime(Arc::new(runtime)))
    }

    /// Starts a query.
    pub async fn execute(&self, plan: &Plan) -> Result<QueryStream> {
        let (physical, context) = self.physical(plan).await.map_err(from_datafusion)?;
        tokio::task::yield_now().await;
        let (memory, batches_between) = (QueryMemory::of(&context), batches_between(physical.as_ref()));
        let stream = execute_stream(physical, context).map_err(from_datafusion)?;
        let stream = named(stream, &plan.columns);
        Ok(QueryStream { columns: plan.columns.clone(), stream, memory, batches_between })
    }

    /// The plan as EXPLAIN shows it, a line an operator.
    pub async fn explain(&self, plan: &Plan) -> Result<Vec<String>> {
        let (physical, _) = self.physical(plan).await.map_err(from_datafusion)?;
        let text = displayable(physical.as_ref()).indent(false).to_string();
        Ok(without_turns(&text))
    }

    /// Runs the query to its end and gives its plan with what each operator did, a line an operator.
    pub async fn analyze(&self, plan: &Plan) -> Result<Vec<String>> {
        let (physical, context) = self.physical(plan).await.map_err(from_datafusion)?;
        let mut stream = execute_stream(Arc::clone(&physical), context).map_err(from_datafusion)?;
        while let Some(batch) = stream.next().await {
            batch.map_err(from_datafusion)?;
        }
        let text = DisplayableExecutionPlan::with_metrics(physical.as_ref()).indent(false).to_string();
        Ok(without_turns(&text))
    }
}

/// Bytes that a row of the plan may have at most, by the declared widths of the columns that its scans read: a join puts
/// the rows of several together.
fn row_bytes_max(plan: &LogicalPlan) -> DfResult<usize> {
    let mut bytes = 0_usize;
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = source_as_provider(&scan.source)?.downcast_ref::<ShardTable>()
        {
            bytes = bytes.saturating_add(table.row_bytes(scan.projection.as_deref()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

/// Batches that wait where several streams become one: for each of them one in the queue and one that finds no room in it.
fn batches_between(plan: &dyn ExecutionPlan) -> usize {
    let inputs = plan.children();
    let own = match inputs.as_slice() {
        [input] if plan.properties().partitioning.partition_count() == 1 => {
            2 * input.properties().partitioning.partition_count().saturating_sub(1)
        }
        _ => 0,
    };
    inputs.into_iter().map(|input| batches_between(input.as_ref())).sum::<usize>() + own
}

/// Gives the batches the names of the result's columns.
fn named(stream: SendableRecordBatchStream, columns: &[OutputColumn]) -> SendableRecordBatchStream {
    let fields: Vec<Field> = stream
        .schema()
        .fields()
        .iter()
        .zip(columns)
        .map(|(field, column)| Field::new(&column.name, field.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let target = Arc::clone(&schema);
    let stream = stream.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&target), batch.columns().to_vec(), &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

/// Those of DataFusion's rules that our plans profit from; each pass costs every query.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    vec![
        Arc::new(SimplifyExpressions::new()),
        Arc::new(ReplaceDistinctWithAggregate::new()),
        Arc::new(ExtractEquijoinPredicate::new()),
        Arc::new(EliminateDuplicatedExpr::new()),
        Arc::new(EliminateFilter::new()),
        Arc::new(EliminateCrossJoin::new()),
        Arc::new(EliminateLimit::new()),
        Arc::new(PropagateEmptyRelation::new()),
        Arc::new(EliminateOuterJoin::new()),
        Arc::new(PushDownLimit::new()),
        Arc::new(PushDownFilter::new()),
        Arc::new(OptimizeProjections::new()),
    ]
}

/// Likewise of the rules over physical plans. Files, window functions and dynamic filters have no place here.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    vec![
        Arc::new(OutputRequirements::new_add_mode()),
        Arc::new(JoinSelection::new()),
        Arc::new(EnsureRequirements::new()),
        Arc::new(CombinePartialFinalAggregate::new()),
        Arc::new(OptimizeAggregateOrder::new()),
        Arc::new(OutputRequirements::new_remove_mode()),
        Arc::new(LimitPushdown::new()),
        Arc::new(ProjectionPushdown::new()),
        Arc::new(SumBlocks),
        // Also what lets a query be cancelled.
        Arc::new(TakeTurns),
    ]
}

#[derive(Debug)]
struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(OperatorPlanner)]);
        planner.create_physical_plan(logical_plan, session).await
    }
}

/// Runs a plan to its end on a runtime of its own. For tests and tools.
pub fn block_on_collect(engine: &Engine, plan: &Plan) -> Result<Vec<RecordBatch>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(Error::internal)?;
    runtime.block_on(async { engine.execute(plan).await?.collect().await })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array};
    use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
    use model::{DatabaseId, DatabaseInfo, DatabaseOptions};
    use parking_lot::Mutex;

    use super::*;
    use crate::ast::Statement;
    use crate::memory::GROUPS;
    use crate::plan::{Relations, Session, plan, relations_named};
    use crate::source::{Relation, RelationKind};

    /// The physical plan of `aggregates` averages of a column each.
    fn averages(aggregates: usize) -> Arc<dyn ExecutionPlan> {
        let calls: Vec<String> = (0..aggregates).map(|column| format!("AVG(c{column})")).collect();
        physical_of(&calls.join(", "), aggregates).0
    }

    /// That of a SELECT of a table with so many columns.
    fn physical_of(items: &str, columns: usize) -> (Arc<dyn ExecutionPlan>, Arc<SessionState>) {
        let columns = (0..columns).map(|column| {
            let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
            (format!("c{column}"), values)
        });
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let sql = format!("SELECT {items} FROM information_schema.w");
        let Statement::Query(query) = crate::parser::parse(&sql).unwrap() else { panic!("not a query") };
        let database = DatabaseInfo {
            id: DatabaseId(1),
            name: "information_schema".into(),
            options: DatabaseOptions::default(),
            vgroups: vec![],
            create_time_ns: 0,
        };
        let mut relations = Relations::new();
        for name in relations_named(&query) {
            let kind = RelationKind::System { name: "w".into(), batch: batch.clone() };
            relations.insert(name, Relation { database: Arc::new(database.clone()), kind, shards: vec![] });
        }
        let plan = plan(&query, &relations, &Session::default()).unwrap();
        let engine = Engine::new(&EngineSettings { parallelism: 1, memory_bytes: 1 << 20 }).unwrap();
        (futures::executor::block_on(engine.physical(&plan)).unwrap().0, engine.narrow)
    }

    /// A pool that remembers who held something.
    #[derive(Debug, Default)]
    struct Holders(Mutex<Vec<String>>);

    impl fmt::Display for Holders {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("holders")
        }
    }

    impl MemoryPool for Holders {
        fn name(&self) -> &str {
            "holders"
        }

        fn grow(&self, reservation: &MemoryReservation, _: usize) {
            self.0.lock().push(reservation.consumer().name().to_owned());
        }

        fn shrink(&self, _: &MemoryReservation, _: usize) {}

        fn try_grow(&self, reservation: &MemoryReservation, bytes: usize) -> DfResult<()> {
            self.grow(reservation, bytes);
            Ok(())
        }

        fn reserved(&self) -> usize {
            0
        }
    }

    /// What their groups take counts twice, which goes by a name of DataFusion's.
    #[test]
    fn aggregates_are_known_by_the_name_of_their_holder() {
        for items in
            ["DISTINCT c0", "DISTINCT c0, c1", "c0, SUM(c1) FROM information_schema.w GROUP BY c0 --"]
        {
            let (plan, state) = physical_of(items, 2);
            let pool = Arc::new(Holders::default());
            let runtime =
                RuntimeEnv { memory_pool: Arc::clone(&pool) as _, ..state.runtime_env().as_ref().clone() };
            let context = TaskContext::from(state.as_ref()).with_runtime(Arc::new(runtime));
            let stream = execute_stream(plan, Arc::new(context)).unwrap();
            futures::executor::block_on(stream.collect::<Vec<_>>());
            let holders = pool.0.lock();
            assert!(!holders.is_empty() && holders.iter().all(|name| name.contains(GROUPS)), "{holders:?}");
        }
    }

    /// Pairs of a constant of a node's input and a column of the node: what DataFusion looks at to carry constants on.
    fn comparisons(plan: &dyn ExecutionPlan) -> usize {
        let own: usize = match plan.name() {
            // These two carry nothing on, or all as it is.
            "OperatorExec" | "Turn" => 0,
            _ => {
                let inputs = plan.children().into_iter();
                let constants = inputs.map(|input| input.properties().eq_properties.constants().len());
                constants.map(|constants| constants * plan.schema().fields().len()).sum()
            }
        };
        own + plan.children().into_iter().map(|input| comparisons(input.as_ref())).sum::<usize>()
    }

    #[test]
    fn planning_does_not_compare_each_aggregate_with_each() {
        let [few, many] = [100, 200].map(|aggregates| comparisons(averages(aggregates).as_ref()));
        assert!(many <= 2 * few, "few={few} many={many}");
    }
}
