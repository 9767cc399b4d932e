//! Shards as a DataFusion table: what a plan wants of a relation becomes one [`ScanRequest`] a shard.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef, SortOptions};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr, expressions};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::StreamExt as _;
use model::{ColumnId, TableInfo, TableKind, TableUid, Value};

use crate::function::values;
use crate::memory::QueryMemory;
use crate::operator::pushdown::{self, Pushed};
use crate::plan::conditions::all_of;
use crate::plan::error::to_datafusion;
use crate::plan::types::physical_expr;
use crate::source::{
    ScanColumn, ScanOrder, ScanRequest, Shard, Summand, SummedScan, TableFilter, TableListRequest, TimeRange,
};

/// What a plan reads of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Its rows.
    Rows,
    /// Its children, one row each, with tags and name only.
    Children,
}

/// A relation as a table of DataFusion.
#[derive(Debug)]
pub(crate) struct ShardTable {
    pub(crate) relation: TableUid,
    pub(crate) child: Option<TableUid>,
    pub(crate) shards: Vec<Arc<dyn Shard>>,
    pub(crate) columns: Vec<ScanColumn>,
    /// Bytes that a value of each may have at most.
    pub(crate) widths: Vec<u32>,
    /// Fields under names that are unique in the plan, in the order of `columns`.
    pub(crate) schema: SchemaRef,
    pub(crate) reading: Reading,
    /// Rows are of one table: they come in order of time.
    pub(crate) single: bool,
    /// The column of a composite key: rows of one instant come in its order.
    pub(crate) key: Option<ColumnId>,
    /// The super table's tags in order, as [`TableKind::Child`] has their values.
    pub(crate) tag_ids: Arc<[ColumnId]>,
}

impl ShardTable {
    fn time_index(&self) -> Option<usize> {
        self.columns.iter().position(|c| *c == ScanColumn::Column(ColumnId::TIMESTAMP))
    }

    fn is_column(&self, index: usize, id: ColumnId) -> bool {
        self.columns.get(index) == Some(&ScanColumn::Column(id))
    }

    /// Bytes that a row of these columns may have at most, by what they are declared with.
    pub(crate) fn row_bytes(&self, projection: Option<&[usize]>) -> usize {
        let width = |width: &u32| *width as usize;
        match projection {
            None => self.widths.iter().map(width).fold(0, usize::saturating_add),
            Some(indices) => {
                let widths = indices.iter().filter_map(|index| self.widths.get(*index));
                widths.map(width).fold(0, usize::saturating_add)
            }
        }
    }

    fn time_name(&self) -> Option<&str> {
        self.time_index().and_then(|i| self.schema.fields().get(i)).map(|f| f.name().as_str())
    }

    /// Whether every column of `expr` is a tag or the name.
    fn is_table_condition(&self, expr: &Expr) -> bool {
        let refs = expr.column_refs();
        !refs.is_empty()
            && refs.iter().all(|c| {
                self.schema
                    .index_of(&c.name)
                    .ok()
                    .and_then(|i| self.columns.get(i))
                    .is_some_and(|c| !matches!(c, ScanColumn::Column(_)))
            })
    }

    /// The condition on children that `filters` make together.
    fn table_filter(&self, filters: &[&Expr]) -> DfResult<Option<TableFilter>> {
        let Some(predicate) = all_of(filters.iter().map(|e| (*e).clone()).collect()) else { return Ok(None) };
        let refs = predicate.column_refs();
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        let mut name_column = None;
        for (column, field) in self.columns.iter().zip(self.schema.fields()) {
            if refs.iter().any(|c| &c.name == field.name()) {
                if *column == ScanColumn::Tbname {
                    name_column = Some(field.name().clone());
                }
                columns.push(*column);
                fields.push(Arc::clone(field));
            }
        }
        let schema = Arc::new(Schema::new(fields));
        let predicate = pushdown::unqualified(predicate)?;
        let names = name_column.and_then(|n| pushdown::names(&predicate, &n));
        let df_schema = DFSchema::try_from(Arc::clone(&schema))?;
        let predicate = physical_expr(&predicate, &df_schema)?;
        Ok(Some(TableFilter { names, predicate: Some(predicate), columns, schema }))
    }

    /// Ticks and children that `filters` (which must all hold) allow, where they say nothing else.
    pub(crate) fn definite<'e>(
        &self,
        filters: impl Iterator<Item = &'e Expr>,
    ) -> DfResult<Option<(TimeRange, Option<TableFilter>)>> {
        let pushed = self.split(filters);
        if !pushed.rows.is_empty() {
            return Ok(None);
        }
        Ok(Some((pushed.time, self.table_filter(&pushed.tables)?)))
    }

    fn split<'e>(&self, filters: impl Iterator<Item = &'e Expr>) -> Pushed<'e> {
        let mut pushed = Pushed::default();
        for filter in filters {
            if self.is_table_condition(filter) {
                pushed.tables.push(filter);
                continue;
            }
            match self.time_name().and_then(|t| pushdown::time_range(filter, t)) {
                Some(bound) => {
                    pushed.time = pushed.time.intersect(bound.range);
                    if !bound.exact {
                        pushed.rows.push(filter);
                    }
                }
                None => pushed.rows.push(filter),
            }
        }
        pushed
    }
}

#[async_trait]
impl TableProvider for ShardTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| {
                let exact = self.is_table_condition(filter)
                    || self
                        .time_name()
                        .and_then(|t| pushdown::time_range(filter, t))
                        .is_some_and(|bound| bound.exact);
                if exact { TableProviderFilterPushDown::Exact } else { TableProviderFilterPushDown::Inexact }
            })
            .collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let pushed = self.split(filters.iter());
        let (output, indices) = match projection {
            Some(indices) => (Arc::new(self.schema.project(indices)?), indices.clone()),
            None => (Arc::clone(&self.schema), (0..self.columns.len()).collect()),
        };
        let columns: Vec<_> = indices.iter().filter_map(|index| self.columns.get(*index).copied()).collect();
        // A shard is never asked for rows without a column: the timestamp stands in and is dropped again.
        let (request_columns, schema) = if columns.is_empty() {
            let index = self.time_index().unwrap_or(0);
            let column = self.columns.get(index).copied().unwrap_or(ScanColumn::Tbname);
            (vec![column], Arc::new(self.schema.project(&[index])?))
        } else {
            (columns, Arc::clone(&output))
        };
        let table_filter = self.table_filter(&pushed.tables)?;
        let df_schema = DFSchema::try_from(Arc::clone(&schema))?;
        let row_filters: Vec<Arc<dyn PhysicalExpr>> = pushed
            .rows
            .iter()
            .filter_map(|e| pushdown::unqualified((*e).clone()).ok())
            // A condition on a column that is not read cannot be offered; the plan checks it all the same.
            .filter_map(|e| physical_expr(&e, &df_schema).ok())
            .collect();
        let limit = limit.filter(|_| row_filters.is_empty());
        let request = ScanRequest {
            relation: self.relation,
            child: self.child,
            columns: request_columns,
            schema,
            time: pushed.time,
            table_filter,
            row_filters,
            order: if self.single { ScanOrder::TableTime } else { ScanOrder::Any },
            limit,
            as_of: None,
            memory: QueryMemory::default(),
        };
        let time_name = self.time_name().filter(|_| self.single && self.reading == Reading::Rows);
        let mut ordering: Vec<usize> = time_name.and_then(|n| output.index_of(n).ok()).into_iter().collect();
        if !ordering.is_empty() {
            let key = self.key.and_then(|id| indices.iter().position(|index| self.is_column(*index, id)));
            ordering.extend(key);
        }
        let shards = if request.time.is_empty() { Vec::new() } else { self.shards.clone() };
        let tag_ids = Arc::clone(&self.tag_ids);
        Ok(Arc::new(ShardScan::new(shards, request, output, self.reading, ordering, tag_ids)))
    }
}

/// Reads shards, one a partition.
#[derive(Debug)]
pub(crate) struct ShardScan {
    shards: Vec<Arc<dyn Shard>>,
    request: ScanRequest,
    reading: Reading,
    tag_ids: Arc<[ColumnId]>,
    /// Rows that a partition gives at most.
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl ShardScan {
    fn new(
        shards: Vec<Arc<dyn Shard>>,
        request: ScanRequest,
        output: SchemaRef,
        reading: Reading,
        ordering: Vec<usize>,
        tag_ids: Arc<[ColumnId]>,
    ) -> Self {
        let mut equivalence = EquivalenceProperties::new(Arc::clone(&output));
        let ordering = ordering.into_iter().filter_map(|index| {
            let column = Arc::new(expressions::Column::new(output.fields().get(index)?.name(), index));
            // The primary key is never NULL, so where NULLs would go does not matter; both spellings are offered.
            let options = SortOptions { descending: false, nulls_first: true };
            Some(PhysicalSortExpr { expr: column, options })
        });
        let ordering: Vec<_> = ordering.collect();
        if !ordering.is_empty() {
            equivalence.add_ordering(ordering);
        }
        let properties = Arc::new(PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(shards.len().max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self {
            shards,
            request,
            reading,
            tag_ids,
            fetch: None,
            metrics: ExecutionPlanMetricsSet::new(),
            properties,
        }
    }

    /// Columns of its batches, where it has any.
    pub(crate) fn columns(&self) -> &[ScanColumn] {
        &self.request.columns
    }

    /// Whether every row that it gives is wanted, so that sums of them are as good.
    pub(crate) fn can_sum(&self) -> bool {
        let request = &self.request;
        self.reading == Reading::Rows
            && request.row_filters.is_empty()
            && request.limit.is_none()
            && self.fetch.is_none()
    }

    /// As [`ExecutionPlan::execute`], with blocks of which `summands` are known. `None` where there is no shard.
    pub(crate) fn execute_summed(
        &self,
        partition: usize,
        summands: &[Summand],
        context: &TaskContext,
    ) -> DfResult<Option<SummedScan>> {
        let Some(shard) = self.shards.get(partition) else { return Ok(None) };
        let request = self.request(context);
        let SummedScan { rows, blocks } = shard.scan_summed(request, summands).map_err(to_datafusion)?;
        Ok(Some(SummedScan { rows: self.rows(partition, rows), blocks }))
    }

    fn request(&self, context: &TaskContext) -> ScanRequest {
        ScanRequest { memory: QueryMemory::of(context), ..self.request.clone() }
    }

    /// Rows of a shard as those of this node.
    fn rows(&self, partition: usize, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = self.schema();
        let drop_columns = schema.fields().is_empty();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = rows.map(move |batch| {
            let batch = batch?;
            baseline.record_output(batch.num_rows());
            if drop_columns { without_columns(&batch) } else { Ok(batch) }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    fn children(&self, shard: &dyn Shard) -> DfResult<RecordBatch> {
        let request =
            TableListRequest { stable: self.request.relation, filter: self.request.table_filter.clone() };
        let tables = shard.tables(request).map_err(to_datafusion)?;
        table_batch(&tables, &self.tag_ids, &self.request.columns, &self.request.schema)
    }
}

impl DisplayAs for ShardScan {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TimeRange { first, last_inclusive } = self.request.time;
        write!(f, "ShardScan: shards={}, reading={:?}", self.shards.len(), self.reading)?;
        if self.request.time != TimeRange::ALL {
            write!(f, ", time=[{first}, {last_inclusive}]")?;
        }
        if let Some(filter) = &self.request.table_filter {
            if let Some(names) = &filter.names {
                write!(f, ", tables={names:?}")?;
            }
            if let Some(predicate) = &filter.predicate {
                write!(f, ", tables where {predicate}")?;
            }
        }
        for predicate in &self.request.row_filters {
            write!(f, ", rows where {predicate}")?;
        }
        if let Some(limit) = self.request.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ShardScan {
    fn name(&self) -> &str {
        "ShardScan"
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

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut request = self.request.clone();
        if request.row_filters.is_empty() {
            request.limit = request.limit.into_iter().chain(limit).min();
        }
        Some(Arc::new(Self {
            shards: self.shards.clone(),
            request,
            reading: self.reading,
            tag_ids: Arc::clone(&self.tag_ids),
            fetch: limit,
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::clone(&self.properties),
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let schema = self.schema();
        let Some(shard) = self.shards.get(partition) else {
            let empty = futures::stream::empty();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, empty)));
        };
        if self.reading == Reading::Children {
            let batch = ShardScan::children(self, shard.as_ref());
            let batch =
                batch.and_then(|b| if schema.fields().is_empty() { without_columns(&b) } else { Ok(b) });
            let stream = futures::stream::once(async move { batch });
            return Ok(truncated(Box::pin(RecordBatchStreamAdapter::new(schema, stream)), self.fetch));
        }
        let rows = shard.scan(self.request(&context)).map_err(to_datafusion)?;
        Ok(truncated(self.rows(partition, rows), self.fetch))
    }
}

/// Ends a stream after so many rows: a shard may give more than the limit that it was told.
fn truncated(stream: SendableRecordBatchStream, fetch: Option<usize>) -> SendableRecordBatchStream {
    let Some(fetch) = fetch else { return stream };
    let schema = stream.schema();
    let stream = futures::stream::try_unfold((stream, fetch), |(mut stream, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        match stream.next().await.transpose()? {
            None => Ok(None),
            Some(batch) => {
                let batch = if batch.num_rows() > left { batch.slice(0, left) } else { batch };
                let left = left - batch.num_rows();
                Ok(Some((batch, (stream, left))))
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

fn without_columns(batch: &RecordBatch) -> DfResult<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?)
}

/// One row a child: the batch over which a [`TableFilter`] is evaluated, and what a listing of children gives.
///
/// `tag_ids` are the super table's tags in order; `columns` are tags and the name, `schema` their fields.
pub fn table_batch(
    tables: &[Arc<TableInfo>],
    tag_ids: &[ColumnId],
    columns: &[ScanColumn],
    schema: &SchemaRef,
) -> DfResult<RecordBatch> {
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (column, field) in columns.iter().zip(schema.fields()) {
        arrays.push(match column {
            ScanColumn::Tbname => {
                let names: StringArray = tables.iter().map(|t| Some(t.name.as_str())).collect();
                arrow::compute::cast(&names, field.data_type())?
            }
            ScanColumn::Tag(id) => {
                let place = tag_ids.iter().position(|t| t == id);
                let values = tables.iter().map(|t| match (&t.kind, place) {
                    (TableKind::Child { tags, .. }, Some(place)) => tags.get(place).unwrap_or(&Value::Null),
                    _ => &Value::Null,
                });
                values::array(values, field.data_type())?
            }
            ScanColumn::Column(_) => return internal_err!("a child has no column values"),
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(tables.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}
