//! What is written, and what each topic shows of it.

use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, TimestampMillisecondArray};
use client::Message;
use model::{
    ColumnId, DataType, DatabaseId, DatabaseInfo, DatabaseOptions, StableInfo, TableSchema, TableUid, Value,
};
use proto::write::{TableRun, WriteBlock};
use query::ast::{CreateTopic, Statement, TopicSource};
use query::source::{Relation, RelationKind};
use vnode::WriteRequest;

pub const START_NS: i64 = 1_700_000_000_000_000_000;
const METER: TableUid = TableUid(7);

/// A row: its number, which no other row has, and what filters look at.
pub type Row = (i64, i32);

/// Which rows a topic shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    All,
    Zero,
    NotOne,
}

impl Filter {
    pub const CHOICES: [Self; 3] = [Self::All, Self::Zero, Self::NotOne];

    pub fn shows(self, (_, kind): Row) -> bool {
        match self {
            Self::All => true,
            Self::Zero => kind == 0,
            Self::NotOne => kind != 1,
        }
    }

    /// The compiled topic as text.
    pub fn definition(self) -> String {
        static COMPILED: OnceLock<Vec<String>> = OnceLock::new();
        let all = COMPILED.get_or_init(|| Self::CHOICES.map(compile).to_vec());
        all[self as usize].clone()
    }
}

fn compile(filter: Filter) -> String {
    let condition = match filter {
        Filter::All => "",
        Filter::Zero => " where k = 0",
        Filter::NotOne => " where k <> 1",
    };
    let sql = format!("create topic t as select v from meter{condition}");
    let Ok(Statement::CreateTopic(CreateTopic { source: TopicSource::Query(select), .. })) =
        query::parser::parse(&sql)
    else {
        panic!("{sql}")
    };
    let database = DatabaseInfo {
        id: DatabaseId(1),
        name: "d".into(),
        options: DatabaseOptions::default(),
        vgroups: Vec::new(),
        create_time_ns: START_NS,
    };
    let kind = RelationKind::Stable(Arc::new(meter()));
    let relation = Relation { database: Arc::new(database), kind, shards: Vec::new() };
    let mut relations = query::plan::Relations::new();
    for name in query::plan::relations_named(&select) {
        relations.insert(name, relation.clone());
    }
    let session = query::plan::Session::default();
    let topic = query::topic::CompiledTopic::create(&select, &sql, &relations, &session).unwrap();
    serde_json::to_string(topic.definition()).unwrap()
}

pub fn meter() -> StableInfo {
    let columns = [("ts", DataType::Timestamp), ("v", DataType::BigInt), ("k", DataType::Int)];
    let columns = columns.into_iter().map(|(name, of)| (name.to_owned(), of)).collect();
    let tags = vec![("zone".to_owned(), DataType::Int)];
    StableInfo {
        uid: METER,
        name: "meter".into(),
        schema: Arc::new(TableSchema::new(columns, tags)),
        create_time_ns: START_NS,
        comment: None,
    }
}

/// Rows of one table, as one write.
pub fn write(rows: &[Row]) -> WriteRequest {
    let ticks: Vec<i64> = rows.iter().map(|(id, _)| START_NS / 1_000_000 + id).collect();
    let columns: Vec<(ColumnId, ArrayRef)> = vec![
        (ColumnId(1), Arc::new(TimestampMillisecondArray::from(ticks))),
        (ColumnId(2), Arc::new(Int64Array::from_iter_values(rows.iter().map(|(id, _)| *id)))),
        (ColumnId(3), Arc::new(Int32Array::from_iter_values(rows.iter().map(|(_, kind)| *kind)))),
    ];
    let end = u32::try_from(rows.len()).unwrap();
    let runs = vec![TableRun { table: "a".into(), end, create_tags: Some(vec![Value::Int(1)]) }];
    WriteRequest {
        blocks: vec![WriteBlock { stable: Some(METER), columns, runs }],
        ..WriteRequest::default()
    }
}

/// Numbers of the rows in a column `v`.
fn numbers(column: &dyn Array) -> Vec<i64> {
    column.as_primitive::<Int64Type>().values().to_vec()
}

/// Numbers of the rows of a message, each with the version of its record.
pub fn of_message(message: &Message) -> Vec<(u64, i64)> {
    let blocks = message.blocks().iter();
    let ids = blocks.flat_map(|block| numbers(block.batch().column_by_name("v").unwrap()));
    message.row_versions().map(i64::cast_unsigned).zip(ids).collect()
}

/// Numbers of the rows of a batch.
pub fn of_batch(batch: &vnode::subscribe::Batch) -> Vec<i64> {
    let block = |block: &vnode::subscribe::Block| {
        let at = block.schema.columns.iter().position(|(name, _)| name == "v").unwrap();
        numbers(&*block.columns[at])
    };
    batch.blocks.iter().flat_map(block).collect()
}
