//! Scans: which tables, then the store's rows of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::TryStreamExt;
use model::{Code, ColumnId, Error, Result, SchemaVersion, TableInfo, TableKind, TableUid, Version};
use parking_lot::RwLock;
use query::memory::QueryMemory;
use query::source::{
    ScanColumn, ScanOrder, ScanRequest, Shard, Summand, SummedScan, TableFilter, TableListRequest, TimeRange,
};

use crate::propose::{DeletePlan, no_stable};
use crate::state::{TableEntry, VnodeState};
use crate::store::{ScanPlan, SelectedTable, Selection, StoreSnapshot, TableDirectory, value_array};
use crate::vnode::Vnode;

/// Children whose tags are looked at in one go.
const FILTER_ROWS: usize = 8_192;

impl Shard for Vnode {
    fn scan(&self, request: ScanRequest) -> Result<SendableRecordBatchStream> {
        let (snapshot, plan) = self.plan_scan(request)?;
        Ok(snapshot.scan(plan))
    }

    fn scan_summed(&self, request: ScanRequest, summands: &[Summand]) -> Result<SummedScan> {
        let (snapshot, plan) = self.plan_scan(request)?;
        Ok(snapshot.scan_summed(plan, summands))
    }

    fn tables(&self, request: TableListRequest) -> Result<Vec<Arc<TableInfo>>> {
        let candidates = Candidates::of(&self.state.read(), request.stable, request.filter.as_ref())?;
        candidates.filter(request.filter.as_ref())
    }
}

impl Vnode {
    fn plan_scan(&self, request: ScanRequest) -> Result<(StoreSnapshot, ScanPlan)> {
        // Rows and tables of one moment; conditions on tags are evaluated when writers may go on.
        let (snapshot, schema, tables) = {
            let state = self.state.read();
            if request.as_of.is_some_and(|wanted| wanted != state.applied()) {
                return Err(Error::not_supported("reading as of an earlier version"));
            }
            let schema = state.current_schema(request.relation).ok_or_else(|| gone(request.relation))?;
            (state.store.snapshot(), Arc::clone(schema), self.select(&state, &request)?)
        };
        let tables = match tables {
            Tables::Selected(selection) => selection,
            Tables::Candidates(candidates) => {
                let tables = candidates.filter(request.table_filter.as_ref())?;
                Selection::listed(tables.iter().map(|table| selected(table)).collect())
            }
        };
        let plan = ScanPlan {
            owner: request.relation,
            schema,
            tables,
            columns: request.columns,
            output: request.schema,
            time: self.kept(request.time),
            order: request.order,
            limit: request.limit,
            memory: request.memory,
        };
        Ok((snapshot, plan))
    }

    /// What of a time range KEEP still shows.
    pub(crate) fn kept(&self, time: TimeRange) -> TimeRange {
        let first = self.first_kept();
        time.intersect(TimeRange { first, last_inclusive: i64::MAX })
    }

    /// First tick that KEEP still shows.
    pub(crate) fn first_kept(&self) -> i64 {
        let options = &self.database().options;
        options.precision.ticks_from_ns(self.clock.now_ns()).saturating_sub(options.keep_ticks())
    }

    fn select(&self, state: &VnodeState, request: &ScanRequest) -> Result<Tables> {
        let owner = request.relation;
        if let Some(child) = request.child {
            let entry = state.tables.get(child).filter(|entry| entry.stable() == Some(owner));
            let entry = entry.ok_or_else(|| gone(child))?;
            let tables = vec![state.table_info(entry)];
            return Ok(Tables::Candidates(Candidates { tables, tags: tag_ids(state, owner) }));
        }
        if let Some(entry) = state.tables.get(owner) {
            return Ok(Tables::Selected(Selection::listed(vec![selected(&entry.info)])));
        }
        if request.table_filter.is_some() {
            return Candidates::of(state, owner, request.table_filter.as_ref()).map(Tables::Candidates);
        }
        let needs_labels = request.columns.iter().any(|column| !matches!(column, ScanColumn::Column(_)));
        let directory = Directory {
            state: Arc::clone(&self.state),
            version: state.applied(),
            schema: state
                .stables
                .get(owner)
                .map_or_else(SchemaVersion::default, |stable| stable.schema.version),
        };
        let directory = needs_labels.then(|| Arc::new(directory) as Arc<dyn TableDirectory>);
        Ok(Tables::Selected(Selection::All(directory)))
    }

    /// Rows of a DELETE that are there, and from when to when.
    pub(crate) async fn count_rows(&self, plan: &DeletePlan, time: TimeRange) -> Result<Found> {
        let (snapshot, scan) = {
            let state = self.state.read();
            let Some(schema) = state.current_schema(plan.owner) else { return Ok(Found::default()) };
            let ts = schema
                .columns
                .first()
                .map(|column| column.data_type.arrow(self.database().options.precision));
            let field = Field::new("ts", ts.unwrap_or(DataType::Null), true);
            let tables = match &plan.tables {
                None => Selection::All(None),
                Some(uids) => {
                    let found = uids.iter().filter_map(|uid| state.tables.get(*uid));
                    Selection::listed(found.map(|entry| selected(&entry.info)).collect())
                }
            };
            let scan = ScanPlan {
                owner: plan.owner,
                schema: Arc::clone(schema),
                tables,
                columns: vec![ScanColumn::Column(ColumnId::TIMESTAMP)],
                output: Arc::new(Schema::new(vec![field])),
                time: self.kept(time),
                order: ScanOrder::Any,
                limit: None,
                memory: QueryMemory::default(),
            };
            (state.store.snapshot(), scan)
        };
        let mut batches = snapshot.scan(scan);
        let mut found = Found::default();
        while let Some(batch) = batches.try_next().await.map_err(of_datafusion)? {
            found.add(&batch);
        }
        Ok(found)
    }
}

/// Rows that a DELETE will take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: u64,
    pub(crate) range: Option<TimeRange>,
}

impl Found {
    fn add(&mut self, batch: &RecordBatch) {
        let Some(ticks) = batch.columns().first().and_then(crate::propose::ticks) else { return };
        self.rows += ticks.len() as u64;
        for tick in ticks {
            let range = self.range.get_or_insert(TimeRange { first: *tick, last_inclusive: *tick });
            range.first = range.first.min(*tick);
            range.last_inclusive = range.last_inclusive.max(*tick);
        }
    }
}

pub(crate) fn of_datafusion(e: datafusion::error::DataFusionError) -> Error {
    if let datafusion::error::DataFusionError::External(inner) = &e
        && let Some(ours) = inner.downcast_ref::<Error>()
    {
        return ours.clone();
    }
    Error::internal(&e).caused_by(e)
}

fn selected(table: &TableInfo) -> SelectedTable {
    let tags = match &table.kind {
        TableKind::Child { tags, .. } => Arc::clone(tags),
        TableKind::Normal { .. } => Arc::new([]),
    };
    SelectedTable { uid: table.uid, name: table.name.as_str().into(), tags }
}

/// Tables of a scan.
enum Tables {
    /// They are known.
    Selected(Selection),
    /// Those of them that pass the request's filter.
    Candidates(Candidates),
}

/// Children that a filter is still to be asked about.
struct Candidates {
    /// In uid order.
    tables: Vec<Arc<TableInfo>>,
    /// Which tag stands where.
    tags: Vec<ColumnId>,
}

fn tag_ids(state: &VnodeState, stable: TableUid) -> Vec<ColumnId> {
    let schema = state.current_schema(stable);
    schema.map(|schema| schema.tags.iter().map(|tag| tag.id).collect()).unwrap_or_default()
}

/// A table that the plan still knew.
fn gone(table: TableUid) -> Error {
    Error::with(Code::TableNotExist, format_args!("uid={table}, dropped in the meantime"))
}

impl Candidates {
    /// The children of a super table that a filter's names do not rule out.
    fn of(state: &VnodeState, stable: TableUid, filter: Option<&TableFilter>) -> Result<Self> {
        if state.stables.get(stable).is_none() {
            return Err(no_stable(stable));
        }
        let info = |entry: &TableEntry| state.table_info(entry);
        let tables = match filter.and_then(|filter| filter.names.as_ref()) {
            Some(names) => {
                let found = names.iter().filter_map(|name| state.tables.named(name));
                let mut found: Vec<_> =
                    found.filter(|entry| entry.stable() == Some(stable)).map(info).collect();
                found.sort_by_key(|table| table.uid);
                found.dedup_by_key(|table| table.uid);
                found
            }
            None => state.tables.children(stable).map(info).collect(),
        };
        Ok(Self { tables, tags: tag_ids(state, stable) })
    }

    /// Those for which the filter's predicate is true.
    fn filter(self, filter: Option<&TableFilter>) -> Result<Vec<Arc<TableInfo>>> {
        let Some((filter, predicate)) = filter.and_then(|filter| Some((filter, filter.predicate.as_ref()?)))
        else {
            return Ok(self.tables);
        };
        let mut kept = Vec::new();
        for some in self.tables.chunks(FILTER_ROWS) {
            let batch = tag_batch(some, filter, &self.tags)?;
            let verdict = predicate.evaluate(&batch).and_then(|value| value.into_array(some.len()));
            let verdict = verdict.map_err(of_datafusion)?;
            let verdict = verdict.as_boolean_opt();
            let verdict = verdict.ok_or_else(|| Error::internal("a table filter that is not boolean"))?;
            let passing = some.iter().zip(verdict.iter()).filter(|(_, passes)| *passes == Some(true));
            kept.extend(passing.map(|(table, _)| Arc::clone(table)));
        }
        Ok(kept)
    }
}

fn tag_batch(tables: &[Arc<TableInfo>], filter: &TableFilter, tag_ids: &[ColumnId]) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(filter.columns.len());
    for (column, field) in filter.columns.iter().zip(filter.schema.fields()) {
        columns.push(match column {
            ScanColumn::Tbname => names(tables.iter().map(|table| table.name.as_str()), field.data_type())?,
            ScanColumn::Tag(id) => {
                let at = tag_ids.iter().position(|tag| tag == id);
                let values = tables.iter().map(|table| match &table.kind {
                    TableKind::Child { tags, .. } => at.and_then(|at| tags.get(at)),
                    TableKind::Normal { .. } => None,
                });
                value_array(field.data_type(), values)
            }
            ScanColumn::Column(_) => return Err(Error::internal("a table filter over a data column")),
        });
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(tables.len()));
    RecordBatch::try_new_with_options(Arc::clone(&filter.schema), columns, &options)
        .map_err(|e| Error::internal("tags of a table filter").caused_by(e))
}

/// Names as text, or as a dictionary where the schema says so.
pub(crate) fn names<'a>(names: impl Iterator<Item = &'a str>, data_type: &DataType) -> Result<ArrayRef> {
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    if !matches!(data_type, DataType::Dictionary(..)) {
        return Ok(values);
    }
    let keys: Int32Array = (0_i32..).take(values.len()).collect();
    let dictionary = DictionaryArray::<Int32Type>::try_new(keys, values);
    Ok(Arc::new(dictionary.map_err(|e| Error::internal("names of tables").caused_by(e))?))
}

/// Tables as they were when a scan began.
#[derive(Debug)]
struct Directory {
    state: Arc<RwLock<VnodeState>>,
    version: Version,
    schema: SchemaVersion,
}

impl TableDirectory for Directory {
    fn table(&self, uid: TableUid) -> Option<SelectedTable> {
        let state = self.state.read();
        let entry = state.tables.entry(uid)?;
        if entry.dropped_at.is_some_and(|at| at <= self.version) {
            return None;
        }
        let at = entry.at(self.version)?;
        let tags = match entry.stable() {
            Some(stable) => state.stables.arrange(stable, &at.tags, at.tags_schema, self.schema),
            None => Arc::new([]),
        };
        Some(SelectedTable { uid, name: at.info.name.as_str().into(), tags })
    }
}
