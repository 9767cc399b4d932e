//! What is appended is read back, whichever way one reads.

use wal::sim::SimDisk;
use wal::{Kind, LastRecord, NewRecord, SchemaKey, StdDisk, Version, Wal, WalError};

use crate::common::*;

#[test]
fn the_first_append_chooses_the_version() {
    for first in [0, 1, 500] {
        let disk = SimDisk::new();
        let (wal, report) = open(&disk);
        assert_eq!((report.segments, wal.next_version()), (0, Version(0)));
        append(&wal, first, first + 3);
        assert_holds(&wal, first, first + 3);
        assert_eq!(wal.first_version(), Version(first));
        let gap = wal.append(Version(first + 4), &[record("x")], 0).unwrap_err();
        assert!(matches!(gap, WalError::Gap { expected, .. } if expected == Version(first + 3)), "{gap}");
    }
}

#[test]
fn all_fields_come_back() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    let records: Vec<_> = Kind::ALL
        .into_iter()
        .zip(1..)
        .map(|(kind, n)| NewRecord {
            term: n,
            time_ns: n as i64 * 10,
            kind,
            flags: n as u8,
            body: vec![n as u8; n as usize * 31].into(),
            schemas: vec![],
        })
        .collect();
    wal.append(Version(1), &records, 0).unwrap();
    let read = read_all(&wal).unwrap();
    assert_eq!(read.len(), records.len());
    for (read, written) in read.iter().zip(&records) {
        assert_eq!((read.term, read.time_ns, read.kind), (written.term, written.time_ns, written.kind));
        assert_eq!((read.flags, &read.body), (written.flags, &written.body));
        assert_eq!(read.body.as_ptr().addr() % 64, 0, "bodies start on 64 bytes");
    }
}

#[test]
fn bodies_of_any_size() {
    let temp = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(std::sync::Arc::new(StdDisk), temp.path(), small(), 0).unwrap();
    let sizes = [0, 1, 63, 64, 65, 4095, 4096, 4097, 100_000, 1 << 20];
    for (version, size) in (0..).zip(sizes) {
        let made: Vec<u8> = (0..size).map(|i| (i * 7 + version as usize) as u8).collect();
        wal.append(Version(version), &[record(made)], 0).unwrap();
    }
    let batch: Vec<_> = sizes.iter().map(|size| record(vec![7; *size])).collect();
    wal.append(wal.next_version(), &batch, 0).unwrap();
    wal.sync().unwrap();
    for (at, record) in read_all(&wal).unwrap().iter().enumerate() {
        assert_eq!(record.body.len(), sizes[at % sizes.len()]);
    }
    drop(wal);
    let (wal, report) = Wal::open(std::sync::Arc::new(StdDisk), temp.path(), small(), 0).unwrap();
    assert_eq!((report.torn, wal.next_version()), (None, Version(2 * sizes.len() as u64)));
}

#[test]
fn any_version_can_be_sought_across_segments() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append(&wal, 10, 200);
    assert!(segments(&disk).len() > 5);
    // once with the indexes that were written, once with all of them gone
    for _ in 0..2 {
        for version in (10..200).rev() {
            let found = wal.handle().get(Version(version)).unwrap().unwrap();
            assert_eq!((found.version.0, found.body), (version, body(version)));
        }
        assert!(wal.handle().get(Version(200)).unwrap().is_none());
        let purged = wal.handle().get(Version(9)).unwrap_err();
        assert!(matches!(purged, WalError::Purged { first: Version(10), .. }), "{purged}");
        for path in segments(&disk) {
            disk.put(&path.with_extension("idx"), b"");
        }
    }
}

#[test]
fn a_reader_at_the_end_goes_on_when_more_comes() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    let mut reader = wal.reader(Version(0));
    for version in 0..100 {
        assert!(reader.next().unwrap().is_none());
        append(&wal, version, version + 1);
        if version % 9 == 0 {
            wal.roll(0).unwrap();
        }
        assert_eq!(reader.next().unwrap().unwrap().version, Version(version));
    }
}

#[test]
fn times_never_fall_and_can_be_looked_up() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    let at = |time_ns| NewRecord { time_ns, ..record("x") };
    for version in 0..100_u64 {
        wal.append(Version(version), &[at(version as i64 / 3 * 10)], 0).unwrap();
    }
    let falls = wal.append(Version(100), &[at(1000), at(999)], 0).unwrap_err();
    assert!(matches!(falls, WalError::TimeFalls { version: Version(101), .. }), "{falls}");
    for (time_ns, version) in [(-5, 0), (0, 0), (1, 3), (10, 3), (11, 6), (320, 96), (330, 99), (331, 100)] {
        assert_eq!(wal.handle().version_at_time(time_ns).unwrap(), Version(version), "time {time_ns}");
    }
}

#[test]
fn a_schema_is_written_once_per_segment_and_found_from_each_record() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    let plain = 64 + 64;
    wal.append(Version(0), &[with_schema(record("a"), 7, 1)], 0).unwrap();
    let before = wal.size().bytes;
    wal.append(Version(1), &[with_schema(record("b"), 7, 1), with_schema(record("c"), 7, 1)], 0).unwrap();
    assert_eq!(wal.size().bytes - before, 2 * plain, "not written again");
    wal.append(Version(3), &[with_schema(record("d"), 7, 2)], 0).unwrap();
    wal.roll(0).unwrap();
    wal.append(Version(4), &[with_schema(record("e"), 7, 2)], 0).unwrap();

    let check = |wal: &Wal| {
        let (old, new) = (SchemaKey { owner: 7, version: 1 }, SchemaKey { owner: 7, version: 2 });
        for record in read_all(wal).unwrap() {
            let key = if record.version < Version(3) { old } else { new };
            assert_eq!(record.schema(key).unwrap().unwrap(), schema_bytes(key), "{record:?}");
            assert_eq!(record.schema(SchemaKey { owner: 8, version: 1 }).unwrap(), None);
        }
        assert_eq!(
            wal.handle().get(Version(4)).unwrap().unwrap().schema(old).unwrap(),
            None,
            "not needed there"
        );
    };
    check(&wal);
    drop(wal);
    let (wal, _) = open(&disk);
    check(&wal);
    // A log that was opened knows what its last segment has.
    let before = wal.size().bytes;
    wal.append(Version(5), &[with_schema(record("f"), 7, 2)], 0).unwrap();
    assert_eq!(wal.size().bytes - before, plain);
}

#[test]
fn cut_forgets_what_was_there() {
    for cut in 0..60 {
        let disk = SimDisk::new();
        let (wal, _) = open(&disk);
        append(&wal, 0, 60);
        let mut reader = wal.reader(Version(55));
        reader.next().unwrap();
        wal.cut_from(Version(cut), 0).unwrap();
        assert_holds(&wal, 0, cut);
        let last = cut.checked_sub(1).map(|v| LastRecord { version: Version(v), term: 1, time_ns: 0 });
        assert_eq!(wal.last(), last);
        assert_eq!(reader.next().unwrap().is_none(), cut <= 56);
        reader.seek(Version(56));
        let other: Vec<_> = (cut..70).map(|v| with_schema(record(format!("other {v}")), 1, 1)).collect();
        wal.append(Version(cut), &other, 0).unwrap();
        let expected = if cut <= 56 { "other 56".into() } else { body(56) };
        assert_eq!(reader.next().unwrap().unwrap().body, expected);
        drop(wal);

        let (wal, report) = open(&disk);
        assert_eq!(report.torn, None);
        for record in read_all(&wal).unwrap() {
            let version = record.version.0;
            let expected = if version < cut { body(version) } else { format!("other {version}").into() };
            assert_eq!(record.body, expected, "cut at {cut}");
        }
        assert_eq!(wal.next_version(), Version(70));
    }
}

#[test]
fn reset_starts_elsewhere() {
    for next in [0, 10, 59, 60, 61, 1000] {
        let disk = SimDisk::new();
        let (wal, _) = open(&disk);
        append(&wal, 0, 60);
        let before = Version(next).prev().map(|version| LastRecord { version, term: 9, time_ns: 5 });
        wal.reset(Version(next), before, 0).unwrap();
        for _ in 0..2 {
            let (wal, _) = open(&disk);
            assert_eq!((wal.first_version(), wal.next_version()), (Version(next), Version(next)));
            assert_eq!((wal.last(), wal.handle().before_first()), (before, before));
            assert_eq!(segments(&disk).len(), 1);
        }
        let late = NewRecord { time_ns: 5, ..record(body(next)) };
        wal.append(Version(next), &[late], 0).unwrap();
        assert_holds(&wal, next, next + 1);
    }
}

#[test]
fn identity_knows_also_the_record_before_the_first() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append(&wal, 0, 60);
    wal.retain(10 * S, Version(60), wal::Retention { period_s: 0, size_kb: 0 }).unwrap();
    let first = wal.first_version();
    assert!(first > Version(0));
    let before = first.prev().unwrap();
    assert_eq!(wal.handle().identity(before).unwrap().unwrap().version, before);
    assert_eq!(wal.handle().identity(first).unwrap().unwrap().version, first);
    assert!(matches!(wal.handle().identity(before.prev().unwrap()), Err(WalError::Purged { .. })));
    assert_eq!(wal.handle().identity(Version(60)).unwrap(), None);
}
