//! Appending: large batches, small records, and fsync for each.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use parking_lot::Mutex;
use wal::{Version, Wal, record_bytes};

use crate::{Against, noise, open_log, record, timed};

const LARGE_BYTES: usize = 64 << 10;
const LARGE_COUNT: u64 = 500;
const SMALL_COUNT: u64 = 20_000;

/// `count` appends of one record each, one write each.
fn append(body: &Bytes, count: u64) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let log = open_log(dir.path());
    log.append(Version(0), &[record(body)], 0).unwrap(); // makes the segment
    let records = [record(body)];
    timed(|| {
        for version in 1..=count {
            log.append(Version(version), &records, 0).unwrap();
        }
    })
}

/// `count` writes of `bytes`, one after the other from `start` on.
fn write(bytes: &[u8], start: u64, count: u64) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = OpenOptions::new().create_new(true).write(true).open(path).unwrap();
    file.write_all_at(bytes, start).unwrap();
    timed(|| {
        for at in 1..=count {
            file.write_all_at(bytes, start + at * bytes.len() as u64).unwrap();
        }
    })
}

pub(crate) fn large(c: &mut Criterion) {
    let body = noise(LARGE_BYTES);
    let on_disk = noise(usize::try_from(record_bytes(LARGE_BYTES)).unwrap());
    let throughput = Throughput::Bytes(LARGE_BYTES as u64 * LARGE_COUNT);
    let rows = [
        ("append 64 KiB against write(2) of the bytes on disk", &on_disk[..], 128),
        ("append 64 KiB against write(2) at multiples of 64 KiB", &body[..], 0),
    ];
    for (name, bytes, start) in rows {
        let row = Against { name, aim: ">= 0.85", throughput: throughput.clone() };
        row.run(c, || append(&body, LARGE_COUNT), || write(bytes, start, LARGE_COUNT));
    }
    let name = "checksum of 64 KiB against write(2) at multiples of 64 KiB";
    let row = Against { name, aim: "none: what the checksum alone costs", throughput };
    let checksum = || {
        timed(|| {
            for _ in 0..LARGE_COUNT {
                std::hint::black_box(crc32fast::hash(std::hint::black_box(&body)));
            }
        })
    };
    row.run(c, checksum, || write(&body, 0, LARGE_COUNT));
}

pub(crate) fn small(c: &mut Criterion) {
    let body = noise(100);
    let on_disk = noise(usize::try_from(record_bytes(body.len())).unwrap());
    let rows = [
        ("append 100 B against write(2) of 100 B", &body[..], 0),
        ("append 100 B against write(2) of the bytes on disk", &on_disk[..], 128),
    ];
    for (name, bytes, start) in rows {
        let row = Against { name, aim: "<= 1.3 times", throughput: Throughput::Elements(SMALL_COUNT) };
        row.run(c, || append(&body, SMALL_COUNT), || write(bytes, start, SMALL_COUNT));
    }
}

/// `threads` append and sync `count` records each; the time for one record.
fn append_synced(log: &Wal, next: &Mutex<u64>, threads: u64, count: u64) -> Duration {
    let body = noise(100);
    let all = timed(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..count {
                        let appended = {
                            let mut next = next.lock();
                            let appended = log.append(Version(*next), &[record(&body)], 0).unwrap();
                            *next += 1;
                            appended
                        };
                        while log.durable_next() < appended.next {
                            log.sync().unwrap();
                        }
                    }
                });
            }
        });
    });
    all.div_f64((threads * count) as f64)
}

pub(crate) fn synced(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let log = open_log(dir.path());
    let next = Mutex::new(0);
    let name = "64 writers, fsync before each answer, against 1";
    let row = Against { name, aim: ">= 20", throughput: Throughput::Elements(1) };
    row.run(c, || append_synced(&log, &next, 64, 200), || append_synced(&log, &next, 1, 200));
}
