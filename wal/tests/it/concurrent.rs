//! Readers beside a writer that appends, syncs, rolls and deletes, on a real file system.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wal::{Options, Retention, StdDisk, Version, Wal, WalError, WalReader};

use crate::common::*;

const RECORDS: u64 = 20_000;

/// Follows the log to its end; a reader that retention overtakes goes on at the first version. Answers how many it read.
fn follow(handle: &WalReader) -> u64 {
    let mut reader = handle.reader(Version(0));
    let mut read = 0;
    while reader.position() < Version(RECORDS) {
        let published = handle.next_version();
        match reader.next() {
            Ok(Some(record)) => {
                assert_eq!(record.body, body(record.version.0));
                assert_eq!(record.version.next(), reader.position());
                read += 1;
            }
            Ok(None) => {
                assert!(reader.position() >= published, "{reader:?} missed what was published, {published}");
                std::thread::yield_now();
            }
            Err(WalError::Purged { version, first }) => {
                assert!(version < first);
                reader.seek(first);
            }
            Err(e) => panic!("{e}"),
        }
    }
    read
}

#[test]
fn readers_see_each_record_once_in_order() {
    for deletes in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes_max: 64 << 10, index_bytes: 4096, ..Options::default() };
        let (wal, _) = Wal::open(Arc::new(StdDisk), temp.path(), options, 0).unwrap();
        let wal = &wal;
        let done = &AtomicBool::new(false);
        std::thread::scope(|threads| {
            let followers: Vec<_> = (0..3).map(|_| threads.spawn(|| follow(&wal.handle()))).collect();
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let durable = wal.sync().unwrap();
                    assert!(durable <= wal.next_version());
                    std::thread::yield_now();
                }
            });
            for version in (0..RECORDS).step_by(10) {
                let batch: Vec<_> = (version..version + 10).map(|v| record(body(v))).collect();
                wal.append(Version(version), &batch, 0).unwrap();
                if deletes && version % 2000 == 0 {
                    wal.retain(S, Version(version), Retention { period_s: 0, size_kb: 0 }).unwrap();
                }
            }
            for follower in followers {
                let read = follower.join().unwrap();
                assert!(deletes || read == RECORDS, "{read}");
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(wal.sync().unwrap(), Version(RECORDS));
    }
}

#[test]
fn one_sync_serves_many_waiting_writers() {
    use wal::sim::{Op, SimDisk};
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, Options::default()).unwrap();
    let next = parking_lot::Mutex::new(0);
    let (wal, next) = (&wal, &next);
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..100 {
                    let appended = {
                        let mut next = next.lock();
                        let appended = wal.append(Version(*next), &[record("x")], 0).unwrap();
                        *next += 1;
                        appended
                    };
                    assert!(wal.sync().unwrap() >= appended.next);
                }
            });
        }
    });
    assert!(disk.counts().of(Op::Sync) <= 802);
    assert_eq!(wal.durable_next(), Version(800));
}
