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
    let found: String = disk
        .files()
        .iter()
        .map(|(path, content)| format!("{}\n{}\n", path.display(), hex(content)))
        .collect();
    let expected = include_str!("golden_v1.txt");
    assert!(found == expected, "found:\n{found}");
}

#[test]
fn old_bytes_are_read() {
    let disk = SimDisk::new();
    let mut file = None;
    for line in include_str!("golden_v1.txt").lines() {
        if line.starts_with('/') {
            file = Some(std::path::PathBuf::from(line));
            disk.put(file.as_ref().unwrap(), b"");
            continue;
        }
        let bytes = (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap());
        disk.damage(file.as_ref().unwrap(), |content| content.extend(bytes));
    }
    let (wal, report) = open(&disk);
    assert_eq!((report.torn, report.first, report.next), (None, Version(7), Version(9)));
    let records = read_all(&wal).unwrap();
    let kinds: Vec<_> = records.iter().map(|r| (r.version.0, r.term, r.kind, r.flags, &r.body[..])).collect();
    assert_eq!(kinds, [(7, 2, Kind::Data, 0x80, &b"body"[..]), (8, 2, Kind::Noop, 0, b"")]);
    let key = wal::SchemaKey { owner: 5, version: 3 };
    assert_eq!(records[0].schema(key).unwrap().unwrap(), schema_bytes(key));
}
