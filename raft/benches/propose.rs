//! How many proposals a group takes in a second, on files of a temporary directory: one proposer that waits for each
//! answer, and a pipeline of them. Without fsync, so that the figures are the code's and not the disk's.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use model::{ManualClock, Result};
use parking_lot::RwLock;
use raft::{Group, GroupOptions, Proposal, StateMachine};
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

criterion_group!(benches, propose);
criterion_main!(benches);
