//! When what is written counts as durable, and what happens when the disk refuses.

use wal::sim::{Op, SimDisk, SimFault};
use wal::{Version, WalError};

use crate::common::*;

const ENOSPC: SimFault = SimFault::Errno(28);
const EIO: SimFault = SimFault::Errno(5);

#[test]
fn one_sync_serves_all_that_was_written() {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
    append(&wal, 0, 1);
    let syncs = || disk.counts().of(Op::Sync);
    let before = syncs();
    append(&wal, 1, 20);
    assert_eq!((syncs(), wal.durable_next()), (before, Version(0)), "appending alone syncs nothing");
    assert_eq!(wal.sync().unwrap(), Version(20));
    assert_eq!(syncs(), before + 1);
    assert_eq!(wal.sync().unwrap(), Version(20));
    assert_eq!(syncs(), before + 1, "nothing new, no sync");
    let writes = disk.counts().of(Op::Write);
    let batch: Vec<_> = (20..120).map(|v| record(body(v))).collect();
    wal.append(Version(20), &batch, 0).unwrap();
    assert_eq!(disk.counts().of(Op::Write), writes + 1, "a batch is one write");
}

#[test]
fn a_synced_record_survives_any_crash() {
    for seed in 0..200 {
        let disk = SimDisk::new();
        let (wal, _) = open(&disk);
        append(&wal, 0, 40);
        wal.sync().unwrap();
        append(&wal, 40, 45);
        disk.crash(seed);
        let (wal, _) = open(&disk);
        let next = wal.next_version().0;
        assert!((40..=45).contains(&next), "seed {seed}: {next}");
        assert_holds(&wal, 0, next);
    }
}

#[test]
fn a_failed_write_leaves_no_half_record() {
    for fault in [ENOSPC, EIO] {
        for taken in [1, 10, 64, 100, 128, 200] {
            let disk = SimDisk::new();
            let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
            append(&wal, 0, 5);
            disk.fail_nth(Op::Write, 0, SimFault::Short(taken));
            disk.fail_nth(Op::Write, 1, fault);
            let batch: Vec<_> = (5..9).map(|v| record(body(v))).collect();
            let failed = wal.append(Version(5), &batch, 0).unwrap_err();
            assert_eq!(failed.is_out_of_space(), fault == ENOSPC);
            assert_holds(&wal, 0, 5);
            append(&wal, 5, 8);
            assert_eq!(segments(&disk).len(), 2, "the segment was sealed");
            assert_holds(&wal, 0, 8);
            drop(wal);
            let (wal, report) = open(&disk);
            assert_eq!(report.torn, None);
            assert_holds(&wal, 0, 8);
        }
    }
}

#[test]
fn short_writes_are_completed() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append(&wal, 0, 1);
    for taken in [1, 63, 64, 100] {
        disk.fail_nth(Op::Write, 0, SimFault::Short(taken));
        let next = wal.next_version().0;
        append(&wal, next, next + 1);
    }
    assert_holds(&wal, 0, 5);
}

#[test]
fn reserve_tells_of_a_full_disk_before_the_write() {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
    append(&wal, 0, 1);
    wal.reserve(wal::record_bytes(100), 0).unwrap();
    disk.set_capacity(Some(4096));
    let full = wal.reserve(2 << 20, 0).unwrap_err();
    assert!(full.is_out_of_space(), "{full}");
    append(&wal, 1, 3); // the log itself is unharmed
    assert_holds(&wal, 0, 3);
    disk.set_capacity(None);
    wal.reserve(2 << 20, 0).unwrap();
}

#[test]
fn after_a_failed_sync_nothing_is_claimed_until_healed() {
    for seed in 0..100 {
        let disk = SimDisk::new();
        let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
        append(&wal, 0, 5);
        wal.sync().unwrap();
        for version in 5..9 {
            wal.append(Version(version), &[with_schema(record(body(version)), 3, 1)], 0).unwrap();
        }
        disk.fail_nth(Op::Sync, 0, EIO);
        assert!(matches!(wal.sync().unwrap_err(), WalError::Io { .. }));
        assert!(wal.is_poisoned());
        assert_eq!(wal.durable_next(), Version(5));
        for refused in [
            wal.sync().map(|_| ()),
            wal.append(Version(9), &[record("x")], 0).map(|_| ()),
            wal.roll(0),
            wal.cut_from(Version(3), 0),
        ] {
            assert!(matches!(refused.unwrap_err(), WalError::Poisoned { .. }));
        }
        assert_holds(&wal, 0, 9); // readable all the while
        let healed = seed % 2 == 0;
        if healed {
            wal.heal(0).unwrap();
            assert_eq!((wal.durable_next(), wal.is_poisoned()), (Version(9), false));
        } else {
            // The process ends instead. The next one finds the mark and does the same.
            drop(wal);
            let (wal, _) = open(&disk);
            assert_eq!(wal.durable_next(), Version(9));
        }
        disk.crash(seed);
        let (wal, _) = open(&disk);
        assert_holds(&wal, 0, 9);
        let key = wal::SchemaKey { owner: 3, version: 1 };
        let record = wal.handle().get(Version(7)).unwrap().unwrap();
        assert_eq!(record.schema(key).unwrap().unwrap(), schema_bytes(key));
    }
}

#[test]
fn rolls_by_size_age_and_call() {
    let disk = SimDisk::new();
    let options = wal::Options { segment_bytes_max: 1000, roll_period_ns: 60 * S, ..small() };
    let (wal, _) = open_with(&disk, options).unwrap();
    let one = |version, now_s: i64| wal.append(Version(version), &[record("x")], now_s * S).unwrap();
    let count = || segments(&disk).len();
    for version in 0..6 {
        one(version, 0);
    }
    assert_eq!(count(), 1, "896 bytes");
    one(6, 0);
    assert_eq!(count(), 2, "by size");
    wal.roll_if_due(59 * S).unwrap();
    assert_eq!(count(), 2);
    wal.roll_if_due(60 * S).unwrap();
    assert_eq!(count(), 3, "by age");
    wal.roll_if_due(500 * S).unwrap();
    wal.roll(500 * S).unwrap();
    assert_eq!(count(), 3, "an empty segment is not closed");
    one(7, 500);
    wal.roll(500 * S).unwrap();
    assert_eq!(count(), 4, "by call");
    assert_eq!(wal.durable_next(), Version(8), "closed segments are durable");
}
