//! From a write's rows to what a topic's expressions take.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, StringArray,
    new_null_array,
};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::take::take;
use model::{ColumnId, Error, Result, TableInfo, TableSchema, TableUid, Value, Version};
use query::source::ScanColumn;
use query::topic::CompiledTopic;

use crate::block::RowBlock;
use crate::scan::names;
use crate::state::VnodeState;
use crate::store::value_array;

/// A table of a write as it was at the write's version.
#[derive(Clone, Debug)]
pub(super) struct RunTable {
    pub(super) info: Arc<TableInfo>,
    /// The super table, or the table itself.
    pub(super) owner: TableUid,
    tags: Arc<[Value]>,
    /// Whose order the tags are in; `None` for a normal table.
    schema: Option<Arc<TableSchema>>,
}

impl RunTable {
    fn tag(&self, id: ColumnId) -> Option<&Value> {
        let at = self.schema.as_ref()?.tags.iter().position(|tag| tag.id == id)?;
        self.tags.get(at)
    }
}

/// The tables as they were at `version`; `None` for one that the shard has forgotten, whose rows are then skipped.
pub(super) fn tables_at(state: &VnodeState, version: Version, uids: &[TableUid]) -> Vec<Option<RunTable>> {
    let find = |uid: &TableUid| {
        let entry = state.tables.entry(*uid)?;
        let at = entry.at(version)?;
        let schema = entry.stable().and_then(|stable| state.schema(stable, at.tags_schema)).cloned();
        Some(RunTable { info: Arc::clone(at.info), owner: entry.owner(), tags: at.tags, schema })
    };
    uids.iter().map(find).collect()
}

/// The same without tables dropped by now: their rows are shown to nobody any more, as with a query.
pub(super) fn live_tables_at(
    state: &VnodeState,
    version: Version,
    uids: &[TableUid],
) -> Vec<Option<RunTable>> {
    let is_live = |uid: &TableUid| state.tables.get(*uid).is_some();
    let tables = tables_at(state, version, uids).into_iter().zip(uids);
    tables.map(|(table, uid)| table.filter(|_| is_live(uid))).collect()
}

/// One row a table with the tags and names that a condition asks for.
pub(super) fn label_batch(
    tables: &[&RunTable],
    columns: &[ScanColumn],
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let columns = columns.iter().zip(schema.fields()).map(|(column, field)| match column {
        ScanColumn::Tag(id) => Ok(value_array(field.data_type(), tables.iter().map(|table| table.tag(*id)))),
        ScanColumn::Tbname => names(tables.iter().map(|table| table.info.name.as_str()), field.data_type()),
        ScanColumn::Column(_) => Ok(new_null_array(field.data_type(), tables.len())),
    });
    batch(schema, columns.collect::<Result<_>>()?, tables.len())
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|e| Error::internal("rows for a topic").caused_by(e))
}

/// Rows of a block for a query topic: its columns, and beside each row the tags and name of its table. Columns that the
/// write did not name are NULL.
pub(super) fn query_input(
    topic: &CompiledTopic,
    block: &RowBlock,
    tables: &[Option<RunTable>],
    reads: impl Fn(TableUid) -> bool,
) -> Result<RecordBatch> {
    let chosen = Chosen::new(block, tables, reads);
    let schema = topic.input_schema();
    let columns = topic.required().iter().zip(schema.fields()).map(|(column, field)| match column {
        ScanColumn::Column(id) => chosen.column(block, *id, field.data_type()),
        ScanColumn::Tag(id) => {
            let values = value_array(field.data_type(), chosen.tables.iter().map(|table| table.tag(*id)));
            take(&values, &chosen.keys(), None).map_err(|e| Error::internal("tags for a topic").caused_by(e))
        }
        ScanColumn::Tbname => chosen.names(field.data_type()),
    });
    batch(&schema, columns.collect::<Result<_>>()?, chosen.rows)
}

/// The runs of a block that are read.
struct Chosen<'a> {
    tables: Vec<&'a RunTable>,
    /// Start and length of each run in the block.
    ranges: Vec<(usize, usize)>,
    rows: usize,
    is_all: bool,
}

impl<'a> Chosen<'a> {
    fn new(block: &RowBlock, tables: &'a [Option<RunTable>], reads: impl Fn(TableUid) -> bool) -> Self {
        let mut chosen = Self { tables: Vec::new(), ranges: Vec::new(), rows: 0, is_all: true };
        let mut start = 0;
        for (run, table) in block.runs.iter().zip(tables) {
            let end = usize::try_from(run.end).unwrap_or(usize::MAX);
            match table {
                Some(table) if reads(run.table) => {
                    let len = end.saturating_sub(start);
                    chosen.tables.push(table);
                    chosen.ranges.push((start, len));
                    chosen.rows += len;
                }
                _ => chosen.is_all = false,
            }
            start = end;
        }
        chosen
    }

    fn column(&self, block: &RowBlock, id: ColumnId, data_type: &DataType) -> Result<ArrayRef> {
        let found = block.columns.iter().find(|(found, _)| *found == id).map(|(_, values)| values);
        // A column of that id keeps its type, but for its declared length; anything else would be a fault of ours.
        let Some(values) = found.filter(|values| values.data_type() == data_type) else {
            return Ok(new_null_array(data_type, self.rows));
        };
        match &self.ranges[..] {
            _ if self.is_all => Ok(Arc::clone(values)),
            [(start, len)] => Ok(values.slice(*start, *len)),
            ranges => {
                let slices: Vec<_> = ranges.iter().map(|(start, len)| values.slice(*start, *len)).collect();
                let slices: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
                arrow_select::concat::concat(&slices)
                    .map_err(|e| Error::internal("rows for a topic").caused_by(e))
            }
        }
    }

    /// For each row the number of its table.
    fn keys(&self) -> Int32Array {
        let runs = (0_i32..).zip(&self.ranges);
        runs.flat_map(|(number, (_, len))| std::iter::repeat_n(number, *len)).collect()
    }

    fn names(&self, data_type: &DataType) -> Result<ArrayRef> {
        let values: ArrayRef =
            Arc::new(StringArray::from_iter_values(self.tables.iter().map(|table| table.info.name.as_str())));
        let fault = |e| Error::internal("names for a topic").caused_by(e);
        if matches!(data_type, DataType::Dictionary(..)) {
            let dictionary = DictionaryArray::<Int32Type>::try_new(self.keys(), values);
            return Ok(Arc::new(dictionary.map_err(fault)?));
        }
        take(&values, &self.keys(), None).map_err(fault)
    }
}
