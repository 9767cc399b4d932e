//! Looking from outside changes nothing and finds everything.

use std::path::Path;

use wal::sim::SimDisk;
use wal::{SegmentState, Version};

use wal::DumpFilter;

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
        let versions: Vec<_> = wal::dump(&sim(&disk), path, DumpFilter::default())
            .unwrap()
            .map(|d| d.unwrap().record.version.0)
            .collect();
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
    let dumped = wal::dump(&sim(&disk), dir(), DumpFilter::default()).unwrap().next().unwrap().unwrap();
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
    let versions: Vec<_> = wal::dump(&sim(&disk), dir(), DumpFilter::default())
        .unwrap()
        .map(|d| d.unwrap().record.version.0)
        .collect();
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
    let dumped: Vec<_> = wal::dump(&sim(&disk), dir(), DumpFilter::default()).unwrap().collect();
    let bad: Vec<_> = dumped.iter().filter_map(|item| item.as_ref().err()).collect();
    assert_eq!(bad.len(), 1);
    assert!(bad[0].to_string().contains(second.file_name().unwrap().to_str().unwrap()), "{}", bad[0]);
    assert_eq!(dumped.last().unwrap().as_ref().unwrap().record.version, Version(59));
}

#[test]
fn a_dump_takes_versions_kinds_and_times() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    for version in 0..60 {
        let kind = if version % 3 == 0 { wal::Kind::Meta } else { wal::Kind::Data };
        let new = wal::NewRecord { kind, time_ns: version as i64 * 10, ..record(body(version)) };
        wal.append(Version(version), &[new], 0).unwrap();
    }
    drop(wal);
    let dumped = |filter: DumpFilter| -> Vec<u64> {
        let reads = disk.counts().of(wal::sim::Op::Read);
        let found = wal::dump(&sim(&disk), dir(), filter.clone()).unwrap();
        let versions = found.map(|d| d.unwrap()).map(|d| {
            assert_eq!(d.record.body, body(d.record.version.0));
            d.record.version.0
        });
        let versions = versions.collect();
        assert!(filter.from.is_none() || disk.counts().of(wal::sim::Op::Read) - reads < 30, "reads little");
        versions
    };
    let (from, to_inclusive) = (Some(Version(20)), Some(Version(23)));
    assert_eq!(dumped(DumpFilter { from, to_inclusive, ..DumpFilter::default() }), [20, 21, 22, 23]);
    let kinds = vec![wal::Kind::Meta];
    assert_eq!(dumped(DumpFilter { from, to_inclusive, kinds, ..DumpFilter::default() }), [21]);
    let (since_ns, until_ns) = (Some(570), Some(590));
    assert_eq!(dumped(DumpFilter { since_ns, until_ns, ..DumpFilter::default() }), [57, 58]);
    assert!(dumped(DumpFilter { from: Some(Version(100)), ..DumpFilter::default() }).is_empty());
}

#[test]
fn a_dump_tells_of_missing_segments() {
    let disk = SimDisk::new();
    let (wal, _) = open(&disk);
    append(&wal, 0, 60);
    drop(wal);
    let gone = segments(&disk)[1].clone();
    wal::Disk::remove(&disk, &gone).unwrap();
    let errors: Vec<_> =
        wal::dump(&sim(&disk), dir(), DumpFilter::default()).unwrap().filter_map(|d| d.err()).collect();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].to_string().contains(&format!("segment is missing file={}", gone.display())),
        "{}",
        errors[0]
    );
}
