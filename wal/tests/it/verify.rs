//! Looking from outside changes nothing and finds everything.

use std::path::Path;

use wal::sim::SimDisk;
use wal::{SegmentState, Version};

use crate::common::*;

#[test]
fn an_intact_log_beside_its_writer() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append(&wal, 0, 60);
    let before = disk.files();
    for path in [dir(), Path::new("/data")] {
        let reports = wal::verify(&sim(&disk), path).unwrap();
        assert!(reports.iter().all(|report| matches!(report.state, SegmentState::Intact)), "{reports:?}");
        assert_eq!(reports.iter().map(|report| report.records).sum::<u64>(), 60);
        assert_eq!(reports.last().unwrap().next, Version(60));
        let versions: Vec<_> =
            wal::dump(&sim(&disk), path).unwrap().map(|d| d.unwrap().record.version.0).collect();
        assert_eq!(versions, (0..60).collect::<Vec<_>>());
    }
    let one = wal::verify(&sim(&disk), &segments(&disk)[2]).unwrap();
    assert_eq!((one.len(), &one[0].file), (1, &segments(&disk)[2]));
    assert!(wal::verify(&sim(&disk), &segment(7777)).is_err());
    assert_eq!(disk.files(), before);
}

#[test]
fn a_dumped_record_knows_its_schemas() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    wal.append(Version(0), &[with_schema(record("a"), 1, 1)], 0).unwrap();
    let dumped = wal::dump(&sim(&disk), dir()).unwrap().next().unwrap().unwrap();
    let key = wal::SchemaKey { owner: 1, version: 1 };
    assert_eq!(dumped.record.schema(key).unwrap().unwrap(), schema_bytes(key));
}

#[test]
fn what_a_crash_leaves_is_no_damage_but_told() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append(&wal, 0, 20);
    wal.cut_from(Version(13), 0).unwrap();
    append(&wal, 13, 15);
    drop(wal);
    let last = segments(&disk).pop().unwrap();
    disk.damage(&last, |bytes| bytes.extend([7; 100]));
    disk.put(&segment(15), b"");
    let reports = wal::verify(&sim(&disk), dir()).unwrap();
    let (blank, rest) = reports.split_last().unwrap();
    let (torn, rest) = rest.split_last().unwrap();
    assert!(matches!(blank.state, SegmentState::Blank));
    assert!(matches!(torn.state, SegmentState::TornTail { bytes: 100 }), "{torn:?}");
    assert!(rest.iter().all(|report| matches!(report.state, SegmentState::Intact)), "{rest:?}");
    let versions: Vec<_> =
        wal::dump(&sim(&disk), dir()).unwrap().map(|d| d.unwrap().record.version.0).collect();
    assert_eq!(versions, (0..15).collect::<Vec<_>>());
}

#[test]
fn dump_goes_on_behind_damage() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append(&wal, 0, 60);
    drop(wal);
    let second = segments(&disk)[1].clone();
    disk.damage(&second, |bytes| bytes[200] ^= 1);
    let dumped: Vec<_> = wal::dump(&sim(&disk), dir()).unwrap().collect();
    let bad: Vec<_> = dumped.iter().filter_map(|item| item.as_ref().err()).collect();
    assert_eq!(bad.len(), 1);
    assert!(bad[0].to_string().contains(second.file_name().unwrap().to_str().unwrap()), "{}", bad[0]);
    assert_eq!(dumped.last().unwrap().as_ref().unwrap().record.version, Version(59));
}
