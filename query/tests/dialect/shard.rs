//! A shard in memory: tables of values, scanned the slow and plain way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::record_batch::RecordBatch;
use arrow_schema::DataType as Arrow;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use model::{Result, TableInfo, TableKind, TableSchema, Value};
use query::source::{ScanColumn, ScanRequest, Shard, TableListRequest};

/// A table with its rows.
#[derive(Clone, Debug)]
pub(crate) struct MemoryTable {
    pub(crate) info: Arc<TableInfo>,
    /// Of the super table, for a child.
    pub(crate) schema: Arc<TableSchema>,
    /// By timestamp and composite key: one value a column.
    pub(crate) rows: BTreeMap<(i64, i64), Vec<Value>>,
}

/// Tables of one shard, shared with the store that writes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryShard {
    pub(crate) tables: Arc<Mutex<BTreeMap<String, MemoryTable>>>,
}

/// Rows of one batch: small, so that batches end inside partitions and windows.
const BATCH_ROWS: usize = 3;

impl Shard for MemoryShard {
    fn scan(&self, request: ScanRequest) -> Result<SendableRecordBatchStream> {
        let tables = self.tables.lock().unwrap();
        let mut batches = Vec::new();
        for table in tables.values() {
            let wanted = match &table.info.kind {
                TableKind::Normal { .. } => table.info.uid == request.relation,
                TableKind::Child { stable, .. } => {
                    *stable == request.relation && request.child.is_none_or(|c| c == table.info.uid)
                }
            };
            if !wanted || !passes(table, &request) {
                continue;
            }
            let rows: Vec<&Vec<Value>> = table
                .rows
                .iter()
                .filter(|((ts, _), _)| request.time.contains(*ts))
                .map(|(_, row)| row)
                .collect();
            for chunk in rows.chunks(BATCH_ROWS) {
                batches.push(Ok(batch(table, chunk, &request)));
            }
        }
        drop(tables);
        let schema = Arc::clone(&request.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches))))
    }

    fn tables(&self, request: TableListRequest) -> Result<Vec<Arc<TableInfo>>> {
        let tables = self.tables.lock().unwrap();
        let mut found: Vec<Arc<TableInfo>> = Vec::new();
        for table in tables.values() {
            let TableKind::Child { stable, .. } = &table.info.kind else { continue };
            if *stable == request.stable && filter_passes(table, request.filter.as_ref()) {
                found.push(Arc::clone(&table.info));
            }
        }
        found.sort_by_key(|t| t.uid);
        Ok(found)
    }
}

fn passes(table: &MemoryTable, request: &ScanRequest) -> bool {
    filter_passes(table, request.table_filter.as_ref())
}

fn filter_passes(table: &MemoryTable, filter: Option<&query::source::TableFilter>) -> bool {
    let Some(filter) = filter else { return true };
    if filter.names.as_ref().is_some_and(|names| !names.contains(&table.info.name)) {
        return false;
    }
    let Some(predicate) = &filter.predicate else { return true };
    let ids: Vec<_> = table.schema.tags.iter().map(|t| t.id).collect();
    let tables = [Arc::clone(&table.info)];
    let batch = query::operator::table_batch(&tables, &ids, &filter.columns, &filter.schema).unwrap();
    let mask = predicate.evaluate(&batch).unwrap().into_array(1).unwrap();
    let mask = mask.as_boolean();
    mask.is_valid(0) && mask.value(0)
}

fn batch(table: &MemoryTable, rows: &[&Vec<Value>], request: &ScanRequest) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (column, field) in request.columns.iter().zip(request.schema.fields()) {
        let values: Vec<Value> = match column {
            ScanColumn::Column(id) => {
                let (index, _) = table.schema.column_by_id(*id).expect("a column of the table");
                rows.iter().map(|r| r.get(index).cloned().unwrap_or_default()).collect()
            }
            ScanColumn::Tag(id) => {
                let place = table.schema.tags.iter().position(|t| t.id == *id).expect("a tag of the table");
                let TableKind::Child { tags, .. } = &table.info.kind else {
                    panic!("tags of a normal table")
                };
                vec![tags.get(place).cloned().unwrap_or_default(); rows.len()]
            }
            ScanColumn::Tbname => vec![Value::Text(table.info.name.clone()); rows.len()],
        };
        columns.push(array(&values, field.data_type()));
    }
    RecordBatch::try_new(Arc::clone(&request.schema), columns).unwrap()
}

/// Values as an Arrow array.
pub(crate) fn array(values: &[Value], to: &Arrow) -> ArrayRef {
    if values.is_empty() {
        return arrow::array::new_empty_array(to);
    }
    let scalars = values.iter().map(|value| {
        let plain = match value {
            Value::Null => ScalarValue::Null,
            Value::Bool(v) => ScalarValue::Boolean(Some(*v)),
            Value::Int(v) | Value::Timestamp(v) => ScalarValue::Int64(Some(*v)),
            Value::UInt(v) => ScalarValue::UInt64(Some(*v)),
            Value::Float(v) => ScalarValue::Float32(Some(*v)),
            Value::Double(v) => ScalarValue::Float64(Some(*v)),
            Value::Text(v) => ScalarValue::Utf8(Some(v.clone())),
            Value::Bytes(v) => ScalarValue::Binary(Some(v.clone())),
        };
        plain.cast_to(to).unwrap()
    });
    ScalarValue::iter_to_array(scalars).unwrap()
}
