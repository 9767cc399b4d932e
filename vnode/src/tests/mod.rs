//! The whole shard over a temporary directory, on a clock that the test moves. A crash is a shard that ends without
//! having been closed.

mod changes;
mod compaction;
mod groups;
mod keys;
mod lag;
mod model_based;
mod reading;
mod restart;
mod retention;
mod together;

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType as Arrow, Field, Schema, TimeUnit};
use futures::TryStreamExt;
use model::{
    ColumnId, ConsumerId, DataType, DatabaseId, DatabaseInfo, DatabaseOptions, Epoch, ManualClock, Origin,
    Result, StableInfo, TableSchema, TableUid, TopicId, Value, VgroupId,
};
use proto::write::{TableRun, WriteBlock};
use query::memory::QueryMemory;
use query::source::{ScanColumn, ScanOrder, ScanRequest, Shard, TimeRange};
use wal::StdDisk;

use crate::record::{TopicDefinition, TopicKind, TopicMeta};
use crate::subscribe::{OffsetReset, Read, ReadOptions, SubscribeRequest, Subscription};
use crate::*;

pub(super) const START_NS: i64 = 1_700_000_000_000_000_000;
pub(super) const START_MS: i64 = START_NS / 1_000_000;
pub(super) const METER: TableUid = TableUid(7);
pub(super) const T: TopicId = TopicId(1);
pub(super) const ME: ConsumerId = ConsumerId(11);

/// Table, tick after the start, v.
pub(super) type Row = (String, i64, Option<i32>);

pub(super) fn database(vgroups: u32) -> DatabaseInfo {
    DatabaseInfo {
        id: DatabaseId(1),
        name: "plant".into(),
        options: DatabaseOptions::default(),
        vgroups: (2..2 + vgroups).map(VgroupId).collect(),
        create_time_ns: START_NS,
    }
}

pub(super) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START_NS))
}

pub(super) async fn try_open(
    dir: &Path,
    clock: &Arc<ManualClock>,
    database: DatabaseInfo,
) -> Result<Arc<Vnode>> {
    let options = VnodeOptions { vgroup: VgroupId(2), database: Arc::new(database), dir: dir.to_path_buf() };
    Vnode::open(options, Arc::new(StdDisk), Arc::clone(clock) as _).await
}

pub(super) async fn open(dir: &Path, clock: &Arc<ManualClock>) -> Arc<Vnode> {
    try_open(dir, clock, database(1)).await.unwrap()
}

/// Ends the shard without flush or checkpoint: what a killed process leaves on disk. Waits until its tasks have let go of
/// the files, and demands that nothing else holds them, so that the directory can be opened again at once.
pub(super) async fn crash(vnode: Arc<Vnode>) {
    vnode.discard().await;
    let others = Arc::strong_count(&vnode) - 1;
    assert_eq!(others, 0, "drop readers before the crash: they hold the shard's files");
}

impl Vnode {
    pub(super) async fn create_tables(&self, tables: Vec<CreateTable>) -> Result<Option<model::Version>> {
        self.define(TableDdl::Create(tables), Origin::Client).await
    }

    pub(super) async fn drop_tables(&self, tables: Vec<DropTable>) -> Result<Option<model::Version>> {
        self.define(TableDdl::Drop(tables), Origin::Client).await
    }

    pub(super) async fn alter_table(
        &self,
        name: &str,
        change: TableChange,
    ) -> Result<Option<model::Version>> {
        self.define(TableDdl::Alter { name: name.into(), change }, Origin::Client).await
    }
}

pub(super) fn meter() -> StableInfo {
    let columns = vec![
        ("ts".to_owned(), DataType::Timestamp),
        ("v".to_owned(), DataType::Int),
        ("note".to_owned(), DataType::Varchar(8)),
    ];
    let tags = vec![("zone".to_owned(), DataType::Int), ("name".to_owned(), DataType::NChar(8))];
    StableInfo {
        uid: METER,
        name: "meter".into(),
        schema: Arc::new(TableSchema::new(columns, tags)),
        create_time_ns: START_NS,
        comment: None,
    }
}

pub(super) fn tags(zone: i64) -> Vec<Value> {
    vec![Value::Int(zone), Value::Text(format!("z{zone}"))]
}

/// Rows (table, tick after the start, v) of one child after the other, made with tags where they do not exist.
pub(super) fn rows(rows: &[(&str, i64, i32)], zone: Option<i64>) -> WriteRequest {
    let mut runs: Vec<TableRun> = Vec::new();
    for (at, (table, ..)) in (1_u32..).zip(rows) {
        match runs.last_mut() {
            Some(run) if run.table == **table => run.end = at,
            _ => runs.push(TableRun { table: (*table).into(), end: at, create_tags: zone.map(tags) }),
        }
    }
    let ticks: Vec<i64> = rows.iter().map(|(_, tick, _)| START_MS + tick).collect();
    let values: Vec<i32> = rows.iter().map(|(.., v)| *v).collect();
    let notes: Vec<String> = rows.iter().map(|(.., v)| format!("n{v}")).collect();
    let columns: Vec<(ColumnId, ArrayRef)> = vec![
        (ColumnId(1), Arc::new(TimestampMillisecondArray::from(ticks))),
        (ColumnId(2), Arc::new(Int32Array::from(values))),
        (ColumnId(3), Arc::new(StringArray::from(notes))),
    ];
    let blocks = vec![WriteBlock { stable: Some(METER), columns, runs }];
    WriteRequest { blocks, ..WriteRequest::default() }
}

pub(super) async fn with_meter(vnode: &Vnode) {
    vnode.apply_stable(StableDdl::Create(meter()), Origin::Client).await.unwrap();
}

/// A scan of all rows of the super table: tbname, ts, v.
pub(super) fn request_all() -> ScanRequest {
    let name = Arrow::Dictionary(Box::new(Arrow::Int32), Box::new(Arrow::Utf8));
    let schema = Schema::new(vec![
        Field::new("tbname", name, true),
        Field::new("ts", Arrow::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("v", Arrow::Int32, true),
    ]);
    ScanRequest {
        memory: QueryMemory::default(),
        relation: METER,
        child: None,
        columns: vec![ScanColumn::Tbname, ScanColumn::Column(ColumnId(1)), ScanColumn::Column(ColumnId(2))],
        schema: Arc::new(schema),
        time: TimeRange::ALL,
        table_filter: None,
        row_filters: vec![],
        order: ScanOrder::TableTime,
        limit: None,
        as_of: None,
    }
}

/// Rows of the super table as (table, tick after the start, v), in order of table name and time.
pub(super) async fn scan(vnode: &Vnode) -> Vec<Row> {
    let batches: Vec<RecordBatch> = vnode.scan(request_all()).unwrap().try_collect().await.unwrap();
    let mut found = Vec::new();
    for batch in &batches {
        let names = arrow::compute::cast(batch.column(0), &Arrow::Utf8).unwrap();
        let ticks = crate::propose::ticks(batch.column(1)).unwrap();
        let values = batch.column(2).as_primitive::<Int32Type>();
        for (row, tick) in ticks.iter().enumerate() {
            let v = values.is_valid(row).then(|| values.value(row));
            found.push((names.as_string::<i32>().value(row).to_owned(), tick - START_MS, v));
        }
    }
    found.sort();
    found
}

pub(super) fn row(table: &str, tick: i64, v: i32) -> Row {
    (table.into(), tick, Some(v))
}

pub(super) fn topic(kind: TopicKind, meta: TopicMeta) -> TopicDefinition {
    TopicDefinition { id: T, name: "t".into(), kind, meta, definition: String::new(), definition_version: 1 }
}

pub(super) async fn with_topic(vnode: &Vnode, kind: TopicKind, meta: TopicMeta) {
    vnode.apply_topic(TopicDdl::Create(topic(kind, meta))).await.unwrap();
    own(vnode, "g", ME, 1).await;
}

pub(super) async fn own(vnode: &Vnode, group: &str, consumer: ConsumerId, epoch: u64) {
    let change = OwnerChange { topic: T, group: group.into(), epoch: Epoch(epoch), owner: Some(consumer) };
    vnode.set_owner(change).await.unwrap();
}

pub(super) fn request(reset: OffsetReset) -> SubscribeRequest {
    SubscribeRequest {
        topic: T,
        group: "g".into(),
        consumer: ME,
        epoch: Epoch(1),
        position: None,
        reset,
        options: ReadOptions::default(),
    }
}

pub(super) async fn subscribe(vnode: &Arc<Vnode>, reset: OffsetReset) -> Subscription {
    vnode.subscribe(request(reset)).await.unwrap()
}

/// Reads until there is nothing more; of each batch its JSON and its rows as (table, tick, v).
pub(super) fn drain(subscription: &mut Subscription) -> Vec<(String, Vec<Row>)> {
    let mut seen = Vec::new();
    while let Read::Batch(batch) = subscription.read(i64::MAX).unwrap() {
        let mut rows = Vec::new();
        for block in &batch.blocks {
            let ticks = crate::propose::ticks(&block.columns[0]).unwrap();
            let values = block.columns.get(1).and_then(|c| c.as_primitive_opt::<Int32Type>());
            for (at, tick) in ticks.iter().enumerate() {
                let v = values.filter(|values| values.is_valid(at)).map(|values| values.value(at));
                rows.push((block.table.as_deref().unwrap_or("").to_owned(), tick - START_MS, v));
            }
        }
        seen.push((batch.json.clone(), rows));
    }
    seen
}
