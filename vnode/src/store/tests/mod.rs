//! Tests of the store as a whole, against a model that is a plain map.

mod cases;
mod compaction;
mod crash;
mod files;
mod property;
mod wide;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, Float32Array, Int32Array, RecordBatch, StringArray};
use arrow_array::{TimestampMillisecondArray, new_null_array};
use arrow_schema::{DataType as Arrow, Field, Schema};
use model::{ColumnDef, ColumnId, DataType, Precision, SchemaVersion, TableSchema, TableUid, Value, Version};
use query::memory::QueryMemory;
use query::source::{ScanColumn, ScanOrder, Summand, TimeRange};
use tempfile::TempDir;
use wal::disk::StdDisk;

use super::scan::Scan;
use super::*;
use crate::block::{BlockRun, RowBlock};

/// The super table of most tests.
pub(super) const OWNER: TableUid = TableUid(7);
/// Ticks of a time bucket.
pub(super) const DURATION: i64 = 1_000;

/// A value as tests write and expect it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Float(f32),
    Int(i32),
    Text(String),
    Bool(bool),
    Time(i64),
}

/// Name of the table, time, and the columns asked for.
pub(super) type Row = (String, i64, Vec<Cell>);

/// A super table and what its children are called.
#[derive(Clone, Debug)]
pub(super) struct Catalogue {
    pub(super) schema: Arc<TableSchema>,
    pub(super) gone: Vec<TableUid>,
}

impl Catalogue {
    /// ts, f FLOAT, i INT, s VARCHAR, b BOOL; tag g INT.
    pub(super) fn new() -> Self {
        let columns = [
            ("ts", DataType::Timestamp),
            ("f", DataType::Float),
            ("i", DataType::Int),
            ("s", DataType::Varchar(20)),
            ("b", DataType::Bool),
        ];
        let columns = columns.map(|(name, ty)| (name.to_owned(), ty)).to_vec();
        let schema = TableSchema::new(columns, vec![("g".to_owned(), DataType::Int)]);
        Self { schema: Arc::new(schema), gone: Vec::new() }
    }

    /// The same with a composite key `k` behind the timestamp.
    pub(super) fn keyed(data_type: DataType) -> Self {
        let mut catalogue = Self::new();
        let id = catalogue.add_column("k", data_type);
        let schema = Arc::make_mut(&mut catalogue.schema);
        schema.columns.rotate_right(1);
        schema.columns.swap(0, 1);
        schema.columns[1].is_key = true;
        assert_eq!(schema.key().map(|key| key.id), Some(id));
        catalogue
    }

    pub(super) fn add_column(&mut self, name: &str, data_type: DataType) -> ColumnId {
        let schema = Arc::make_mut(&mut self.schema);
        let id = schema.next_column_id;
        schema.columns.push(ColumnDef::column(id, name, data_type));
        schema.next_column_id.0 += 1;
        schema.version.0 += 1;
        id
    }

    pub(super) fn drop_column(&mut self, id: ColumnId) {
        let schema = Arc::make_mut(&mut self.schema);
        schema.columns.retain(|column| column.id != id);
        schema.version.0 += 1;
    }

    pub(super) fn rename_column(&mut self, id: ColumnId, name: &str) {
        let schema = Arc::make_mut(&mut self.schema);
        schema
            .columns
            .iter_mut()
            .filter(|column| column.id == id)
            .for_each(|column| column.name = name.to_owned());
        schema.version.0 += 1;
    }

    pub(super) fn id(&self, name: &str) -> ColumnId {
        self.schema.column(name).unwrap().1.id
    }
}

pub(super) fn name_of(table: TableUid) -> String {
    format!("d{}", table.0)
}

pub(super) fn selected(table: TableUid) -> SelectedTable {
    let tags = Arc::from([Value::Int(i64::try_from(table.0).unwrap() * 10)]);
    SelectedTable { uid: table, name: name_of(table).into(), tags }
}

impl SchemaSource for Catalogue {
    fn schema(&self, _: TableUid) -> Option<Arc<TableSchema>> {
        Some(Arc::clone(&self.schema))
    }

    fn table_name(&self, _: TableUid, table: TableUid) -> Option<Arc<str>> {
        (!self.gone.contains(&table)).then(|| name_of(table).into())
    }
}

impl TableDirectory for Catalogue {
    fn table(&self, uid: TableUid) -> Option<SelectedTable> {
        (!self.gone.contains(&uid)).then(|| selected(uid))
    }
}

/// An instant and its cells.
type TimedCells = (i64, Vec<Cell>);

/// Rows of several tables to be written: for each table its times and, for each listed column, a cell a row.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) columns: Vec<ColumnId>,
    pub(super) tables: Vec<(TableUid, Vec<TimedCells>)>,
}

impl Write {
    /// Rows of one table; every row has a cell for each of `columns`.
    pub(super) fn one(table: u64, columns: &[ColumnId], rows: &[(i64, &[Cell])]) -> Self {
        let rows = rows.iter().map(|(ts, cells)| (*ts, cells.to_vec())).collect();
        Self { columns: columns.to_vec(), tables: vec![(TableUid(table), rows)] }
    }

    pub(super) fn block(&self, schema: &TableSchema) -> RowBlock {
        let rows: Vec<&(i64, Vec<Cell>)> = self.tables.iter().flat_map(|(_, rows)| rows).collect();
        let ticks = TimestampMillisecondArray::from_iter_values(rows.iter().map(|(ts, _)| *ts));
        let mut columns: Vec<(ColumnId, ArrayRef)> = vec![(ColumnId::TIMESTAMP, Arc::new(ticks))];
        for (at, id) in self.columns.iter().enumerate() {
            let data_type = schema.column_by_id(*id).unwrap().1.data_type.arrow(Precision::Ms);
            let cells: Vec<&Cell> = rows.iter().map(|(_, cells)| &cells[at]).collect();
            columns.push((*id, array(&data_type, &cells)));
        }
        let mut end = 0;
        let runs = self.tables.iter().map(|(table, rows)| {
            end += u32::try_from(rows.len()).unwrap();
            BlockRun { table: *table, end }
        });
        let runs = runs.collect();
        let complete =
            schema.columns.iter().all(|c| c.id == ColumnId::TIMESTAMP || self.columns.contains(&c.id));
        RowBlock { owner: OWNER, schema_version: SchemaVersion(schema.version.0), runs, columns, complete }
    }
}

fn array(data_type: &Arrow, cells: &[&Cell]) -> ArrayRef {
    macro_rules! build {
        ($array:ty, $cell:path) => {
            Arc::new(
                cells
                    .iter()
                    .map(|cell| match cell {
                        $cell(v) => Some(v.clone()),
                        _ => None,
                    })
                    .collect::<$array>(),
            )
        };
    }
    match data_type {
        Arrow::Float32 => build!(Float32Array, Cell::Float),
        Arrow::Int32 => build!(Int32Array, Cell::Int),
        Arrow::Utf8 => build!(StringArray, Cell::Text),
        Arrow::Boolean => build!(BooleanArray, Cell::Bool),
        Arrow::Timestamp(..) => build!(TimestampMillisecondArray, Cell::Time),
        other => new_null_array(other, cells.len()),
    }
}

fn cell(array: &dyn Array, row: usize) -> Cell {
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        Arrow::Float32 => Cell::Float(array.as_primitive::<Float32Type>().value(row)),
        Arrow::Int32 => Cell::Int(array.as_primitive::<Int32Type>().value(row)),
        Arrow::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        Arrow::Boolean => Cell::Bool(array.as_boolean().value(row)),
        Arrow::Timestamp(..) => Cell::Time(array.as_primitive::<TimestampMillisecondType>().value(row)),
        Arrow::Dictionary(..) => {
            let names = array.as_dictionary::<Int32Type>();
            let key = usize::try_from(names.keys().value(row)).unwrap();
            Cell::Text(names.values().as_string::<i32>().value(key).to_owned())
        }
        other => panic!("unexpected type {other}"),
    }
}

/// A store in a directory of its own.
pub(super) struct Fixture {
    pub(super) dir: TempDir,
    pub(super) store: Store,
    pub(super) catalogue: Catalogue,
    pub(super) version: u64,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir, Manifest::default()).unwrap();
        Self { dir, store, catalogue: Catalogue::new(), version: 0 }
    }

    pub(super) fn next_version(&mut self) -> Version {
        self.version += 1;
        Version(self.version)
    }

    pub(super) fn write(&mut self, write: &Write) {
        let version = self.next_version();
        self.store.apply(version, write.block(&self.catalogue.schema));
    }

    pub(super) fn delete(&mut self, tables: &[u64], first: i64, last_inclusive: i64) {
        let version = self.next_version();
        let tables = DeleteScope::Tables(tables.iter().map(|t| TableUid(*t)).collect());
        self.store.delete(version, OWNER, tables, TimeRange { first, last_inclusive });
    }

    /// Flushes and makes the result durable, as a checkpoint does.
    pub(super) fn flush(&mut self) {
        if let Some(job) = self.store.freeze() {
            let outcome = job.run(&self.catalogue).unwrap();
            self.store.install(outcome);
        }
        let manifest = self.store.manifest();
        self.store.manifest_saved(&manifest);
    }

    /// Merges whatever may be merged of what is flushed, as COMPACT does. Gives the number of merges.
    pub(super) fn compact(&mut self, scope: CompactionScope) -> usize {
        let (checkpoint, mut from, mut merges) = (Version(self.version), None, 0);
        while let Some(job) = self.store.compaction(checkpoint, scope, from) {
            from = job.place();
            let outcome = job.run(&self.catalogue, &CompactionProgress::default()).unwrap();
            assert!(self.store.install_compaction(outcome.unwrap()));
            let manifest = self.store.manifest_at(checkpoint, self.store.manifest());
            self.store.manifest_saved(&manifest);
            merges += 1;
        }
        merges
    }

    /// Opens the store again from its manifest: what was not flushed is gone.
    pub(super) fn reopen(&mut self) {
        let bytes = postcard::to_stdvec(&self.store.manifest()).unwrap();
        self.store = open(&self.dir, postcard::from_bytes(&bytes).unwrap()).unwrap();
    }

    pub(super) fn plan(&self, columns: &[ColumnId]) -> ScanPlan {
        let schema = Arc::clone(&self.catalogue.schema);
        let mut wanted = vec![ScanColumn::Tbname, ScanColumn::Column(ColumnId::TIMESTAMP)];
        wanted.extend(columns.iter().map(|id| ScanColumn::Column(*id)));
        ScanPlan {
            owner: OWNER,
            output: output_schema(&schema, &wanted),
            schema,
            tables: Selection::All(Some(Arc::new(self.catalogue.clone()))),
            columns: wanted,
            time: TimeRange::ALL,
            order: ScanOrder::TableTime,
            limit: None,
            memory: QueryMemory::default(),
        }
    }

    pub(super) fn scan(&self, plan: ScanPlan) -> Vec<Row> {
        rows(&batches(&self.store.snapshot(), plan))
    }

    /// All rows by table and time.
    pub(super) fn all(&self, columns: &[ColumnId]) -> Vec<Row> {
        self.scan(self.plan(columns))
    }

    pub(super) fn file_names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

pub(super) fn open(dir: &TempDir, manifest: Manifest) -> Result<Store> {
    let options = StoreOptions {
        dir: dir.path().to_owned(),
        precision: Precision::Ms,
        duration_ticks: DURATION,
        levels: CompressionLevels::default(),
    };
    Store::new(options, Arc::new(StdDisk), manifest)
}

pub(super) fn output_schema(schema: &TableSchema, columns: &[ScanColumn]) -> Arc<Schema> {
    let fields = columns.iter().enumerate().map(|(at, column)| {
        let data_type = match column {
            ScanColumn::Tbname => Arrow::Dictionary(Box::new(Arrow::Int32), Box::new(Arrow::Utf8)),
            ScanColumn::Column(id) => {
                schema.column_by_id(*id).map_or(Arrow::Int32, |(_, c)| c.data_type.arrow(Precision::Ms))
            }
            ScanColumn::Tag(_) => Arrow::Int32,
        };
        Field::new(format!("c{at}"), data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Runs a scan to its end.
pub(super) fn batches(snapshot: &StoreSnapshot, plan: ScanPlan) -> Vec<RecordBatch> {
    let inputs = snapshot.inputs(&plan);
    let mut scan = Scan::new(plan, inputs);
    let mut batches = Vec::new();
    while let Some(batch) = scan.next_batch().unwrap() {
        batches.push(batch);
    }
    batches
}

/// Rows of batches whose first columns are `tbname` and the timestamp.
pub(super) fn rows(batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let Cell::Text(name) = cell(batch.column(0), row) else { panic!("no name") };
            let Cell::Time(ts) = cell(batch.column(1), row) else { panic!("no time") };
            let cells = batch.columns()[2..].iter().map(|column| cell(column, row)).collect();
            rows.push((name, ts, cells));
        }
    }
    rows
}

/// The second part of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ModelKey {
    None,
    Number(i32),
    Text(String),
}

impl ModelKey {
    /// That of a row with these cells.
    fn of(key: Option<ColumnId>, columns: &[ColumnId], cells: &[Cell]) -> Self {
        let at = key.map(|key| columns.iter().position(|id| *id == key).unwrap());
        match at.map(|at| &cells[at]) {
            None => Self::None,
            Some(Cell::Int(number)) => Self::Number(*number),
            Some(Cell::Text(text)) => Self::Text(text.clone()),
            Some(other) => panic!("a key of another type: {other:?}"),
        }
    }
}

/// What the rows should be: the same rules over a plain map.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) rows: BTreeMap<(TableUid, i64, ModelKey), BTreeMap<ColumnId, Cell>>,
    /// The column of a composite key.
    pub(super) key: Option<ColumnId>,
}

impl Model {
    pub(super) fn write(&mut self, write: &Write) {
        for (table, rows) in &write.tables {
            for (ts, cells) in rows {
                let key = ModelKey::of(self.key, &write.columns, cells);
                let row = self.rows.entry((*table, *ts, key)).or_default();
                row.extend(write.columns.iter().copied().zip(cells.iter().cloned()));
            }
        }
    }

    pub(super) fn delete(&mut self, tables: Option<&[TableUid]>, range: TimeRange) {
        self.rows.retain(|(table, ts, _), _| {
            !(range.contains(*ts) && tables.is_none_or(|tables| tables.contains(table)))
        });
    }
}
