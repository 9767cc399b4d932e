//! Reading: from end to end, and at random versions.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use wal::{Version, Wal};

use crate::{Against, filled, noise, timed};

const BYTES: u64 = 512 << 20;

fn read_all(log: &Wal, count: u64) {
    let mut reader = log.reader(Version(0));
    for _ in 0..count {
        black_box(reader.next().unwrap().unwrap());
    }
}

fn segment_paths(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ext| ext == "log")).collect()
}

#[allow(unsafe_code)]
fn checksum_mapped(paths: &[PathBuf]) {
    for path in paths {
        let file = std::fs::File::open(path).unwrap();
        // SAFETY: nobody changes these files while the benchmark runs.
        let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
        black_box(crc32fast::hash(&map));
    }
}

pub(crate) fn sequential(c: &mut Criterion) {
    for (name, len) in [
        ("read of 64 KiB records against crc32fast over a fresh mapping", 64 << 10),
        ("read of 1 KiB records against crc32fast over a fresh mapping", 1 << 10),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let count = BYTES / len as u64;
        let log = filled(dir.path(), &noise(len), count);
        let paths = segment_paths(dir.path());
        let row = Against { name, aim: ">= 0.8", throughput: Throughput::Bytes(BYTES) };
        row.run(c, || timed(|| read_all(&log, count)), || timed(|| checksum_mapped(&paths)));
    }
}

/// Percentiles of reads at random versions. Criterion knows means only.
pub(crate) fn seek(c: &mut Criterion) {
    for (name, len) in [("seek, 1 KiB records", 1 << 10), ("seek, 64 KiB records", 64 << 10)] {
        let dir = tempfile::tempdir().unwrap();
        let count = BYTES / len as u64;
        let log = filled(dir.path(), &noise(len), count);
        let mut reader = log.reader(Version(0));
        let mut times = Vec::new();
        let mut at = 1_u64;
        c.bench_function(&format!("log/{name}"), |b| {
            b.iter_custom(|iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let begin = Instant::now();
                    reader.seek(Version((at >> 20) % count));
                    black_box(reader.next().unwrap().unwrap());
                    let took = begin.elapsed();
                    times.push(took);
                    total += took;
                }
                total
            });
        });
        if times.len() < 1000 {
            continue; // filtered out
        }
        times.sort();
        let percentile = |thousandths: usize| times[times.len() * thousandths / 1000].as_secs_f64() * 1e6;
        let (p50, p99) = (percentile(500), percentile(990));
        println!("FIGURE {name}: p50 {p50:.1} us, p99 {p99:.1} us of {} (aim: p99 <= 20 us)", times.len());
    }
}
