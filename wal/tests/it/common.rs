//! What several modules need.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use wal::sim::SimDisk;
use wal::{Disk, Kind, NewRecord, OpenReport, Options, Record, Result, SchemaBlock, SchemaKey, Version, Wal};

pub(crate) const S: i64 = 1_000_000_000;

pub(crate) fn dir() -> &'static Path {
    Path::new("/data/vnode1/wal")
}

/// Small segments and a dense index, so that little data meets every border.
pub(crate) fn small() -> Options {
    Options { segment_bytes_max: 2048, index_bytes: 256, read_bytes: 1024, ..Options::default() }
}

pub(crate) fn sim(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

pub(crate) fn open_with(disk: &SimDisk, options: Options) -> Result<(Wal, OpenReport)> {
    Wal::open(sim(disk), dir(), options, 0)
}

pub(crate) fn open(disk: &SimDisk) -> (Wal, OpenReport) {
    open_with(disk, small()).unwrap()
}

pub(crate) fn record(body: impl Into<Bytes>) -> NewRecord {
    NewRecord { term: 1, time_ns: 0, kind: Kind::Data, flags: 0, body: body.into(), schemas: vec![] }
}

pub(crate) fn with_schema(mut record: NewRecord, owner: u64, version: u32) -> NewRecord {
    let key = SchemaKey { owner, version };
    record.schemas.push(SchemaBlock { key, bytes: schema_bytes(key) });
    record
}

pub(crate) fn schema_bytes(key: SchemaKey) -> Bytes {
    format!("schema {} v{}", key.owner, key.version).into()
}

/// A body that tells its version.
pub(crate) fn body(version: u64) -> Bytes {
    format!("record {version} {}", "x".repeat((version % 7) as usize * 20)).into()
}

/// Appends records `from..to` one by one.
pub(crate) fn append(wal: &Wal, from: u64, to: u64) {
    for version in from..to {
        wal.append(Version(version), &[record(body(version))], 0).unwrap();
    }
}

pub(crate) fn read_all(wal: &Wal) -> Result<Vec<Record>> {
    let mut reader = wal.reader(wal.first_version());
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    Ok(records)
}

/// Checks that exactly records `from..to` of [`append`] are there.
pub(crate) fn assert_holds(wal: &Wal, from: u64, to: u64) {
    let found: Vec<_> = read_all(wal).unwrap().into_iter().map(|r| (r.version.0, r.body)).collect();
    let expected: Vec<_> = (from..to).map(|version| (version, body(version))).collect();
    assert_eq!(found, expected);
    assert_eq!(wal.next_version(), Version(to));
}

pub(crate) fn segment(first: u64) -> PathBuf {
    dir().join(format!("{first:020}.log"))
}

pub(crate) fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    let logs = disk.files().into_iter().map(|(path, _)| path);
    logs.filter(|path| path.extension().is_some_and(|ext| ext == "log")).collect()
}

pub(crate) fn content(disk: &SimDisk, path: &Path) -> Vec<u8> {
    disk.files().into_iter().find(|(other, _)| other == path).unwrap().1
}
