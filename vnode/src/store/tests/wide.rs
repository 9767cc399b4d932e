//! Rows so wide that a batch of the usual number of them would be hundreds of megabytes.

use datafusion::execution::memory_pool::GreedyMemoryPool;
use futures::StreamExt as _;
use proto::size::batch_bytes;

use super::super::scan::{BATCH_BYTES, BATCH_ROWS};
use super::*;

/// Of one value.
const WIDTH: usize = 16 << 10;
/// Twelve batches' worth.
const ROWS: usize = 12 * (BATCH_BYTES / WIDTH);

/// Memtable, file, and both with rows of each between those of the other.
fn fixtures() -> [(&'static str, Fixture); 3] {
    let [mut memory, mut file, mut both] = [Fixture::new(), Fixture::new(), Fixture::new()];
    let s = memory.catalogue.id("s");
    let end = i64::try_from(ROWS).unwrap();
    let write = |from: i64, step: usize| {
        // One and the same value: encoded it takes no room at all.
        let rows: Vec<TimedCells> = (from..end)
            .step_by(step)
            .map(|ts| (ts % DURATION, vec![Cell::Text("w".repeat(WIDTH))]))
            .collect();
        let mut tables: BTreeMap<TableUid, Vec<TimedCells>> = BTreeMap::new();
        for (row, cells) in (from..).step_by(step).zip(rows) {
            let table = u64::try_from(row / DURATION).unwrap() + 1;
            tables.entry(TableUid(table)).or_default().push(cells);
        }
        Write { columns: vec![s], tables: tables.into_iter().collect() }
    };
    memory.write(&write(0, 1));
    file.write(&write(0, 1));
    file.flush();
    both.write(&write(0, 2));
    both.flush();
    both.write(&write(1, 2));
    [("memory", memory), ("file", file), ("both", both)]
}

#[test]
fn batches_are_bounded_by_bytes_and_so_is_what_is_decoded_for_them() {
    for (name, fixture) in fixtures() {
        let s = fixture.catalogue.id("s");
        let mut plan = fixture.plan(&[s]);
        // What the inputs hold decoded is reserved there: a batch of a file's rows, not 8,192 of them.
        plan.memory = QueryMemory::new(Arc::new(GreedyMemoryPool::new(2 * BATCH_BYTES)));
        let found = batches(&fixture.store.snapshot(), plan);
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), ROWS, "{name}");
        for batch in &found {
            // Names and times come on top.
            assert!(batch_bytes(batch) <= BATCH_BYTES + BATCH_BYTES / 8, "{name}: {}", batch_bytes(batch));
        }
        assert!(found.len() < 30, "{name}: {} batches", found.len());
    }
}

#[test]
fn narrow_rows_still_make_batches_of_thousands() {
    let mut fixture = Fixture::new();
    let i = fixture.catalogue.id("i");
    for table in 1..=20 {
        let rows = (0..DURATION).map(|ts| (ts, vec![Cell::Int(1)])).collect();
        fixture.write(&Write { columns: vec![i], tables: vec![(TableUid(table), rows)] });
    }
    fixture.flush();
    let found = batches(&fixture.store.snapshot(), fixture.plan(&[i]));
    assert_eq!(found.iter().map(RecordBatch::num_rows).max(), Some(BATCH_ROWS));
}

#[tokio::test]
async fn a_scan_past_the_budget_ends_in_an_error() {
    for (name, fixture) in fixtures() {
        let s = fixture.catalogue.id("s");
        let mut plan = fixture.plan(&[s]);
        plan.memory = QueryMemory::new(Arc::new(GreedyMemoryPool::new(BATCH_BYTES / 2)));
        let mut stream = fixture.store.snapshot().scan(plan);
        let error = loop {
            match stream.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("{name}: no error"),
            }
        };
        let error = crate::scan::of_datafusion(error);
        assert_eq!(error.code(), model::Code::OutOfMemory, "{name}: {error}");
    }
}

/// What it reserved at its start lasts to its end, whoever takes the rest meanwhile.
#[tokio::test]
async fn a_scan_under_way_goes_on_when_the_budget_is_full() {
    for (name, fixture) in fixtures() {
        let s = fixture.catalogue.id("s");
        let mut plan = fixture.plan(&[s]);
        let pool = Arc::new(GreedyMemoryPool::new(8 * BATCH_BYTES));
        plan.memory = QueryMemory::new(Arc::clone(&pool) as _);
        let others = plan.memory.reservation("others");
        let mut stream = fixture.store.snapshot().scan(plan);
        let mut rows = stream.next().await.unwrap().unwrap().num_rows();
        while others.grow(1 << 10).is_ok() {}
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
            while others.grow(1 << 10).is_ok() {}
        }
        assert_eq!(rows, ROWS, "{name}");
    }
}

/// Rows that wait to be taken are reserved, and no longer once they are.
#[tokio::test]
async fn what_a_stream_holds_is_given_back() {
    let pool = Arc::new(GreedyMemoryPool::new(1 << 30));
    for (name, fixture) in fixtures() {
        let s = fixture.catalogue.id("s");
        let mut plan = fixture.plan(&[s]);
        plan.memory = QueryMemory::new(Arc::clone(&pool) as _);
        let mut stream = fixture.store.snapshot().scan(plan);
        let mut peak = 0;
        while let Some(batch) = stream.next().await {
            batch.unwrap();
            peak = peak.max(datafusion::execution::memory_pool::MemoryPool::reserved(&*pool));
        }
        assert!(peak > 0 && peak <= 10 * BATCH_BYTES, "{name}: {peak}");
        drop(stream);
        assert_eq!(datafusion::execution::memory_pool::MemoryPool::reserved(&*pool), 0, "{name}");
    }
}

#[test]
fn compaction_of_wide_rows_keeps_them_all() {
    let [_, _, (_, mut both)] = fixtures();
    both.flush();
    both.compact(CompactionScope::All(TimeRange::ALL));
    let s = both.catalogue.id("s");
    assert_eq!(both.all(&[s]).len(), ROWS);
}
