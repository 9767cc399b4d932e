//! Deletion of old segments (tmq.md 11.3); the rule itself has its table beside the code.

use wal::sim::SimDisk;
use wal::{Retention, Version};

use crate::common::*;

/// Records 0..40 in segments of ten, closed at 100, 200, 300 and 400 s.
fn log() -> (SimDisk, wal::Wal) {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
    for segment in 0..4 {
        append(&wal, segment * 10, segment * 10 + 10);
        wal.roll((segment as i64 + 1) * 100 * S).unwrap();
    }
    append(&wal, 40, 45);
    (disk, wal)
}

const AT_ONCE: Retention = Retention { period_s: 0, size_kb: 0 };

#[test]
fn what_goes() {
    for (now_s, below, period_s, size_kb, first) in [
        (1000, 45, -1, 0, 0),
        (1000, 45, 0, 0, 40),
        (350, 45, 100, 0, 20),
        (1000, 45, 100, 0, 40),
        (50, 45, 100, 0, 0),
        (1000, 29, 0, 0, 20), // only what is wholly below the checkpoint
        (1000, 30, 0, 0, 30),
        (1000, 0, 0, 0, 0),
        (0, 45, -1, 1, 40),
    ] {
        let (disk, wal) = log();
        let done = wal.retain(now_s * S, Version(below), Retention { period_s, size_kb }).unwrap();
        let case = format!("now={now_s} below={below} period={period_s} size={size_kb}");
        assert_eq!((done.first, wal.first_version()), (Version(first), Version(first)), "{case}");
        assert_eq!(done.segments as u64, first / 10, "{case}");
        assert_holds(&wal, first, 45);
        drop(wal);
        let (wal, _) = open(&disk);
        assert_holds(&wal, first, 45);
        let left = disk.files().len();
        assert!(left <= 2 * segments(&disk).len(), "indexes go with their segments: {left}");
    }
}

#[test]
fn a_reader_in_a_deleted_segment_finishes_it() {
    let (_, wal) = log();
    let mut reader = wal.reader(Version(3));
    reader.next().unwrap();
    wal.retain(1000 * S, Version(45), AT_ONCE).unwrap();
    for version in 4..10 {
        assert_eq!(reader.next().unwrap().unwrap().version, Version(version));
    }
    let gone = reader.next().unwrap_err();
    assert!(matches!(gone, wal::WalError::Purged { version: Version(10), first: Version(40) }), "{gone}");
    reader.seek(Version(40));
    assert_eq!(reader.next().unwrap().unwrap().version, Version(40));
}

#[test]
fn a_failed_deletion_is_tried_again() {
    let (disk, wal) = log();
    disk.fail_nth(wal::sim::Op::Remove, 2, wal::sim::SimFault::Errno(5));
    assert!(wal.retain(1000 * S, Version(45), AT_ONCE).is_err());
    assert_holds(&wal, 40, 45);
    wal.retain(1000 * S, Version(45), AT_ONCE).unwrap();
    assert_eq!(segments(&disk), [segment(40)]);
}

#[test]
fn the_end_of_an_empty_log_is_remembered() {
    let (disk, wal) = log();
    wal.roll(500 * S).unwrap();
    wal.retain(1000 * S, Version(45), AT_ONCE).unwrap();
    drop(wal);
    let (wal, _) = open(&disk);
    assert_eq!((wal.first_version(), wal.next_version()), (Version(45), Version(45)));
    assert_eq!(wal.last().unwrap().version, Version(44));
}
