//! The bytes of format 1. If this test fails, the format has changed: that needs another format number, and the readers
//! of this one stay.

use wal::sim::SimDisk;
use wal::{Kind, NewRecord, Version};

use crate::common::*;

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_segment_and_its_index() {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options { salt_seed: 1, ..wal::Options::default() }).unwrap();
    let new = NewRecord {
        term: 2,
        time_ns: 1_700_000_000_000_000_000,
        kind: Kind::Data,
        flags: 0x80,
        body: "body".into(),
        schemas: vec![],
    };
    wal.append(Version(7), &[with_schema(new.clone(), 5, 3)], 1_700_000_000_000_000_001).unwrap();
    wal.sync().unwrap();
    wal.append(Version(8), &[NewRecord { kind: Kind::Noop, flags: 0, body: "".into(), ..new }], 0).unwrap();
    wal.roll(1_700_000_000_000_000_002).unwrap();
    assert_golden(&disk, include_str!("golden_v1.txt"));
}

fn assert_golden(disk: &SimDisk, expected: &str) {
    let files = disk.files();
    // Space that is taken ahead is no part of the format.
    let files = files.iter().filter(|(path, _)| path.extension().is_none_or(|extension| extension != "tmp"));
    let lines = files.map(|(path, content)| format!("{}\n{}\n", path.display(), hex(content)));
    let found: String = lines.collect();
    assert!(found == expected, "found:\n{found}");
}

/// A log of all kinds, with schema blocks of two owners, shortened by retention.
#[test]
fn every_kind_and_where_retention_left_it() {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options { salt_seed: 2, ..wal::Options::default() }).unwrap();
    append(&wal, 100, 102);
    wal.roll(5).unwrap();
    for (kind, version) in Kind::ALL.into_iter().zip(102..) {
        let new =
            NewRecord { kind, flags: version as u8, term: version, time_ns: version as i64, ..record("x") };
        let new = with_schema(with_schema(new, version / 4, 1), 7, 2);
        wal.append(Version(version), &[new], 6).unwrap();
    }
    wal.roll(7).unwrap();
    let retention = wal::Retention { period_s: 0, size_kb: 0 };
    wal.retain(8, Version(102), retention).unwrap();
    assert_golden(&disk, include_str!("golden_v1_kinds.txt"));
}

#[test]
fn old_bytes_of_every_kind_are_read() {
    let disk = golden_disk(include_str!("golden_v1_kinds.txt"));
    let (wal, report) = open(&disk);
    assert_eq!((report.torn, report.first, report.next), (None, Version(102), Version(111)));
    for (record, (kind, version)) in read_all(&wal).unwrap().iter().zip(Kind::ALL.into_iter().zip(102..)) {
        let found = (record.version.0, record.term, record.kind, u64::from(record.flags), &record.body[..]);
        assert_eq!(found, (version, version, kind, version, &b"x"[..]));
        for key in
            [wal::SchemaKey { owner: version / 4, version: 1 }, wal::SchemaKey { owner: 7, version: 2 }]
        {
            assert_eq!(record.schema(key).unwrap().unwrap(), schema_bytes(key));
        }
    }
    let reports = wal::verify(&sim(&disk), dir()).unwrap();
    assert!(reports.iter().all(|report| !report.state.is_bad()), "{reports:?}");
}

fn golden_disk(text: &str) -> SimDisk {
    let disk = SimDisk::new();
    let mut file = None;
    for line in text.lines() {
        if line.starts_with('/') {
            file = Some(std::path::PathBuf::from(line));
            disk.put(file.as_ref().unwrap(), b"");
            continue;
        }
        let bytes = (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap());
        disk.damage(file.as_ref().unwrap(), |content| content.extend(bytes));
    }
    disk
}

#[test]
fn old_bytes_are_read() {
    let disk = golden_disk(include_str!("golden_v1.txt"));
    let (wal, report) = open(&disk);
    assert_eq!((report.torn, report.first, report.next), (None, Version(7), Version(9)));
    let records = read_all(&wal).unwrap();
    let kinds: Vec<_> = records.iter().map(|r| (r.version.0, r.term, r.kind, r.flags, &r.body[..])).collect();
    assert_eq!(kinds, [(7, 2, Kind::Data, 0x80, &b"body"[..]), (8, 2, Kind::Noop, 0, b"")]);
    let key = wal::SchemaKey { owner: 5, version: 3 };
    assert_eq!(records[0].schema(key).unwrap().unwrap(), schema_bytes(key));
}
