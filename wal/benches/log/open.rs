//! Opening a log that was closed in order, by its size.

use std::time::Instant;

use criterion::Criterion;
use wal::Version;

use crate::{noise, open_log, record};

fn gib() -> u64 {
    std::env::var("TIDEMARK_BENCH_GIB").ok().and_then(|gib| gib.parse().ok()).unwrap_or(2)
}

pub(crate) fn open(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let body = noise(1 << 20);
    for target in [gib().div_ceil(10), gib()] {
        let name = format!("log/open, {target} GiB");
        let mut times = Vec::new();
        c.bench_function(&name, |b| {
            let log = open_log(dir.path());
            while log.size().bytes < target << 30 {
                log.append(log.next_version(), &[record(&body)], 0).unwrap();
            }
            log.sync().unwrap();
            drop(log);
            b.iter_with_large_drop(|| {
                let begin = Instant::now();
                let log = open_log(dir.path());
                times.push(begin.elapsed());
                assert!(log.next_version() > Version(0));
                log
            });
        });
        times.sort();
        if let Some(median) = times.get(times.len() / 2) {
            let segments = open_log(dir.path()).size().segments;
            println!(
                "FIGURE {name}: median {:.1} ms, {segments} segments (aim < 100 ms)",
                median.as_secs_f64() * 1e3
            );
        }
    }
}
