//! How many proposals a group takes in a second, on files of a temporary directory: one proposer that waits for each
//! answer, and a pipeline of them. Without fsync, so that the figures are the code's and not the disk's. Then with an fsync
//! before each answer, many proposers against one in turns, since those who wait together share one.
#![allow(clippy::disallowed_methods, clippy::print_stderr, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use model::{ManualClock, Result};
use parking_lot::RwLock;
use raft::{Fsync, Group, GroupOptions, Proposal, StateMachine};
use tokio::runtime::Runtime;
use wal::{Kind, Record, StdDisk};

/// Looks at every record and keeps none.
#[derive(Default)]
struct Counted(u64);

impl StateMachine for Counted {
    fn apply(&mut self, record: &Record) {
        self.0 += black_box(&record.body).len() as u64;
    }
}

fn data(body: &Bytes) -> Proposal {
    Proposal { kind: Kind::Data, flags: 0, time_ns: 0, body: body.clone(), schemas: Vec::new() }
}

async fn one_by_one(group: &Group<Counted>, body: &Bytes, count: u64) -> Result<()> {
    for _ in 0..count {
        group.propose(data(body)).await?;
    }
    Ok(())
}

async fn pipelined(group: &Group<Counted>, body: &Bytes, count: u64) -> Result<()> {
    let mut pending = Vec::new();
    for _ in 0..count {
        pending.push(group.enqueue(data(body)).await?);
    }
    for pending in pending {
        pending.await?;
    }
    Ok(())
}

#[expect(clippy::expect_used, reason = "a benchmark that cannot run has nothing to say")]
fn propose(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("runtime");
    for body_bytes in [100, 16 << 10] {
        let mut bench = criterion.benchmark_group(format!("propose {body_bytes} bytes"));
        let count = if body_bytes < 1 << 10 { 1_000 } else { 100 };
        bench.throughput(Throughput::Elements(count)).sample_size(20);
        // Nothing is deleted meanwhile: some hundred MB.
        bench.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
        let body = Bytes::from(vec![7; body_bytes]);
        let dir = tempfile::tempdir().expect("temporary directory");
        let (clock, state) = (Arc::new(ManualClock::at(1)), Arc::new(RwLock::new(Counted::default())));
        let options = GroupOptions::new(1, dir.path());
        let opened = runtime.block_on(Group::open(options, Arc::new(StdDisk), clock, state, None));
        let (group, _) = opened.expect("group");
        bench.bench_function("one by one", |b| {
            b.iter(|| runtime.block_on(one_by_one(&group, &body, count)).expect("proposals"));
        });
        bench.bench_function("pipelined", |b| {
            b.iter(|| runtime.block_on(pipelined(&group, &body, count)).expect("proposals"));
        });
        bench.finish();
        runtime.block_on(group.close()).expect("close");
    }
}

/// `proposers` tasks that wait for each of `count` answers; the time of one proposal.
async fn side_by_side(
    group: &Arc<Group<Counted>>,
    body: &Bytes,
    proposers: u32,
    count: u32,
) -> Result<Duration> {
    let began = Instant::now();
    let tasks: Vec<_> = (0..proposers)
        .map(|_| {
            let (group, body) = (Arc::clone(group), body.clone());
            tokio::spawn(async move { one_by_one(&group, &body, count.into()).await })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|e| model::Error::internal("a proposer ended").caused_by(e))??;
    }
    Ok(began.elapsed() / (proposers * count))
}

#[expect(clippy::expect_used, reason = "a benchmark that cannot run has nothing to say")]
fn synced(criterion: &mut Criterion) {
    const PROPOSERS: u32 = 64;
    let runtime = Runtime::new().expect("runtime");
    let body = Bytes::from(vec![7; 100]);
    let dir = tempfile::tempdir().expect("temporary directory");
    let (clock, state) = (Arc::new(ManualClock::at(1)), Arc::new(RwLock::new(Counted::default())));
    let mut options = GroupOptions::new(1, dir.path());
    options.fsync = Fsync::BeforeAck;
    let opened = runtime.block_on(Group::open(options, Arc::new(StdDisk), clock, state, None));
    let group = Arc::new(opened.expect("group").0);
    let mut ratios = Vec::new();
    let mut bench = criterion.benchmark_group("fsync before each answer");
    bench.sample_size(20).throughput(Throughput::Elements(1));
    bench.bench_function(format!("{PROPOSERS} proposers against 1"), |b| {
        b.iter_custom(|iterations| {
            let mut all = Duration::ZERO;
            for _ in 0..iterations {
                let run = |proposers| side_by_side(&group, &body, proposers, 50);
                let one = runtime.block_on(run(1)).expect("proposals");
                let many = runtime.block_on(run(PROPOSERS)).expect("proposals");
                ratios.push(one.as_secs_f64() / many.as_secs_f64());
                all += many;
            }
            all
        });
    });
    bench.finish();
    ratios.sort_by(f64::total_cmp);
    if let Some(median) = ratios.get(ratios.len() / 2) {
        eprintln!(
            "RATIO {PROPOSERS} proposers, fsync before each answer: {median:.1} times the rate of 1 (aim >= 20)"
        );
    }
    runtime.block_on(group.close()).expect("close");
}

criterion_group!(benches, propose, synced);
criterion_main!(benches);
