//! Memory and time that a query shares with others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow::array::{ArrayRef, StringArray, TimestampMillisecondArray};
use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use model::{Code, ColumnId, Error, Result, TableInfo, Zone};
use query::ast::Statement;
use query::engine::{Engine, EngineSettings, QueryStream};
use query::plan::{Plan, Relations, plan, relations_named};
use query::source::{Relation, ScanColumn, ScanRequest, Shard, TableListRequest};

use crate::store::Store;

/// A shard of so many batches, each of so many rows of one instant.
#[derive(Debug)]
struct OneInstant {
    batches: usize,
    rows: usize,
    given: Arc<AtomicUsize>,
}

impl Shard for OneInstant {
    fn scan(&self, request: ScanRequest) -> Result<SendableRecordBatchStream> {
        let columns = request.columns.iter().map(|column| -> ArrayRef {
            match column {
                ScanColumn::Column(ColumnId::TIMESTAMP) => {
                    Arc::new(TimestampMillisecondArray::from(vec![1; self.rows]))
                }
                _ => Arc::new(StringArray::from(vec!["x"; self.rows])),
            }
        });
        let batch = RecordBatch::try_new(Arc::clone(&request.schema), columns.collect()).unwrap();
        let given = Arc::clone(&self.given);
        let batches = (0..self.batches).map(move |_| {
            given.fetch_add(1, Ordering::Relaxed);
            Ok(batch.clone())
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(request.schema, futures::stream::iter(batches))))
    }

    fn tables(&self, _request: TableListRequest) -> Result<Vec<Arc<TableInfo>>> {
        Err(Error::not_supported("tables"))
    }
}

struct Running {
    stream: QueryStream,
    given: Arc<AtomicUsize>,
}

/// Starts a query as [`planned`] makes it.
fn start(sql: &str, batches: usize, rows: usize) -> Running {
    let (engine, plan, given) = planned(sql, batches, rows);
    let stream = futures::executor::block_on(engine.execute(&plan)).unwrap();
    Running { stream, given }
}

/// A query over a super table `s` with columns `ts` and `v VARCHAR(60000)`, and how many batches its scans have given.
fn planned(sql: &str, batches: usize, rows: usize) -> (Engine, Plan, Arc<AtomicUsize>) {
    let mut store = Store::new(Zone::UTC);
    for sql in [
        "CREATE DATABASE d KEEP 36500",
        "USE d",
        "CREATE STABLE s (ts TIMESTAMP, v VARCHAR(60000)) TAGS (g INT)",
    ] {
        store.run(sql).unwrap();
    }
    let Ok(Statement::Query(query)) = query::parser::parse(sql) else { panic!("{sql}") };
    let given = Arc::new(AtomicUsize::new(0));
    let mut relations = Relations::new();
    for name in relations_named(&query) {
        let shard = OneInstant { batches, rows, given: Arc::clone(&given) };
        let relation = Relation { shards: vec![Arc::new(shard)], ..store.relation(&name).unwrap() };
        relations.insert(name, relation);
    }
    let plan = plan(&query, &relations, &store.session).unwrap();
    let engine = Engine::new(&EngineSettings { parallelism: 1, memory_bytes: 1 << 28 }).unwrap();
    (engine, plan, given)
}

/// Runs a query to its end; answers how often it gave its thread back, and its batches.
fn drive(running: &mut Running) -> (usize, Vec<RecordBatch>) {
    let mut cx = Context::from_waker(futures::task::noop_waker_ref());
    let (mut turns, mut batches) = (0, Vec::new());
    loop {
        match running.stream.stream.as_mut().poll_next(&mut cx) {
            Poll::Pending => turns += 1,
            Poll::Ready(Some(batch)) => batches.push(batch.unwrap()),
            Poll::Ready(None) => return (turns, batches),
        }
    }
}

#[test]
fn a_long_scan_gives_its_thread_back_after_every_batch() {
    let mut running = start("SELECT COUNT(v) FROM s", 50, 10);
    let mut cx = Context::from_waker(futures::task::noop_waker_ref());
    assert!(running.stream.stream.as_mut().poll_next(&mut cx).is_pending());
    assert_eq!(running.given.load(Ordering::Relaxed), 1, "one batch a turn");
    let (turns, _) = drive(&mut running);
    assert!(turns >= 49, "{turns}");
}

#[test]
fn a_join_that_multiplies_gives_its_thread_back_too() {
    // Four million pairs out of two batches a side.
    let sql = "SELECT COUNT(*) FROM s a JOIN s b ON a.ts = b.ts";
    let mut running = start(sql, 2, 1_000);
    let (turns, batches) = drive(&mut running);
    let pairs = batches[0].column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap().value(0);
    assert_eq!(pairs, 4_000_000);
    let of_scans = 4;
    assert!(turns >= of_scans + 4_000_000 / 8_192, "{turns}");
}

#[test]
fn batches_of_wide_rows_are_short() {
    // 64 MiB of rows of 120 KB: of both sides of the join.
    let mut running = start("SELECT a.v, b.v FROM s a JOIN s b ON a.ts = b.ts", 1, 100);
    let (_, batches) = drive(&mut running);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 10_000);
    let longest = batches.iter().map(RecordBatch::num_rows).max();
    assert!(longest.is_some_and(|rows| rows <= (64 << 20) / 120_000), "{longest:?}");
    // Nothing wide is read here.
    let mut running = start("SELECT a.ts FROM s a JOIN s b ON a.ts = b.ts", 1, 100);
    let (_, batches) = drive(&mut running);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).max(), Some(8_192));
}

#[test]
fn filled_windows_count_as_memory() {
    let mut store = Store::new(Zone::UTC);
    store.engine = Engine::new(&EngineSettings { parallelism: 1, memory_bytes: 1 << 20 }).unwrap();
    let text = "x".repeat(10_000);
    let insert = format!("INSERT INTO n VALUES (0, 1, '{text}')");
    for sql in [
        "CREATE DATABASE d KEEP 36500",
        "USE d",
        "CREATE TABLE n (ts TIMESTAMP, i INT, v VARCHAR(10000))",
        insert.as_str(),
    ] {
        store.run(sql).unwrap();
    }
    let fill = |select: &str, end: u32| {
        let sql = format!("SELECT {select} FROM n WHERE ts >= 0 AND ts < {end} INTERVAL(1s) FILL(PREV)");
        store.query(&sql).map(|answer| answer.batches.iter().map(RecordBatch::num_rows).sum::<usize>())
    };
    assert_eq!(fill("LAST(i)", 100_000).unwrap(), 100);
    assert_eq!(fill("LAST(v)", 10_000).unwrap(), 10);
    for (select, end) in [("LAST(i)", 100_000_000), ("LAST(v)", 100_000)] {
        let error = fill(select, end).unwrap_err();
        assert_eq!(error.code(), Code::OutOfMemory, "{error}");
        assert!(error.message().contains("query_memory_bytes"), "{error}");
    }
}

#[test]
fn text_that_functions_multiply_ends_in_an_error() {
    let sql = "SELECT REPEAT(CONCAT(v, v), 60000) FROM s";
    let mut running = start(sql, 1, 8_192);
    let next = futures::executor::block_on(running.stream.next());
    let error = next.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::OutOfMemory, "{error}");
}

#[test]
fn a_plan_is_shown_with_what_its_operators_did() {
    let (engine, plan, given) = planned("SELECT COUNT(v) FROM s", 5, 10);
    let shown = futures::executor::block_on(engine.explain(&plan)).unwrap();
    assert_eq!(given.load(Ordering::Relaxed), 0, "nothing is read");
    assert!(shown.iter().all(|line| !line.contains("Turn") && !line.contains("metrics")), "{shown:#?}");
    let done = futures::executor::block_on(engine.analyze(&plan)).unwrap();
    assert_eq!(given.load(Ordering::Relaxed), 5);
    assert_eq!(done.len(), shown.len(), "{done:#?}");
    let scan = done.iter().find(|line| line.contains("ShardScan")).unwrap();
    assert!(scan.contains("output_rows=50"), "{scan}");
}
