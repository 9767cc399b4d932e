//! The log against the limits of the machine: each figure beside the bare system call, checksum or fsync that it cannot
//! beat, taken in turns so that a busy machine slows both.
//!
//! `cargo bench -p tidemark-wal --bench log [-- FILTER]`. Prints, besides criterion's figures of our side, the median of
//! the ratios. Writes below the temporary directory: `TIDEMARK_BENCH_GIB` (2) GiB at most.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark reads the clock, meets real files and ends at the first error"
)]

mod append;
mod idle;
mod open;
mod read;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wal::{Kind, NewRecord, Options, StdDisk, Version, Wal};

/// Bytes that do not compress or repeat within a cache line.
fn noise(len: usize) -> Bytes {
    let words = (0..len as u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
    words.flat_map(u64::to_le_bytes).take(len).collect()
}

fn record(body: &Bytes) -> NewRecord {
    NewRecord { term: 1, time_ns: 0, kind: Kind::Data, flags: 0, body: body.clone(), schemas: Vec::new() }
}

fn open_log(dir: &Path) -> Wal {
    Wal::open(Arc::new(StdDisk), dir, Options::default(), 0).unwrap().0
}

/// A log of `count` records with this body.
fn filled(dir: &Path, body: &Bytes, count: u64) -> Wal {
    let log = open_log(dir);
    for version in 0..count {
        log.append(Version(version), &[record(body)], 0).unwrap();
    }
    log.sync().unwrap();
    log
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// What is compared: `ours` and `limit` do the same work once and answer the time it took.
struct Against<'a> {
    name: &'a str,
    /// The ratio to reach, in words.
    aim: &'a str,
    throughput: Throughput,
}

impl Against<'_> {
    /// Runs both in turns and prints the median of time(limit) / time(ours), pair by pair.
    fn run(self, c: &mut Criterion, mut ours: impl FnMut() -> Duration, mut limit: impl FnMut() -> Duration) {
        let mut pairs = Vec::new();
        let mut group = c.benchmark_group("log");
        group.throughput(self.throughput);
        group.bench_function(self.name, |b| {
            b.iter_custom(|count| {
                let mut total = Duration::ZERO;
                for at in 0..count {
                    let (o, l) = if at % 2 == 0 {
                        let o = ours();
                        (o, limit())
                    } else {
                        let l = limit();
                        (ours(), l)
                    };
                    pairs.push((o, l));
                    total += o;
                }
                total
            });
        });
        group.finish();
        if pairs.is_empty() {
            return; // filtered out
        }
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let ratio = median(pairs.iter().map(|(o, l)| l.as_secs_f64() / o.as_secs_f64()).collect());
        let ours = median(pairs.iter().map(|(o, _)| o.as_secs_f64()).collect());
        let limit = median(pairs.iter().map(|(_, l)| l.as_secs_f64()).collect());
        println!(
            "RATIO {}: {ratio:.2} of the limit ({:.2} times its time), aim {}; medians of {} pairs: {:.3} and {:.3} ms",
            self.name,
            1.0 / ratio,
            self.aim,
            pairs.len(),
            ours * 1e3,
            limit * 1e3
        );
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(6)).without_plots();
    targets = append::large, append::small, append::synced, read::sequential, read::seek, open::open, idle::idle
}
criterion_main!(benches);
