//! What the fuzz targets run, and what a test runs over their corpus and seeded mutations of it: bytes from anywhere
//! are an answer or an error, never a panic, a hang or a wrong record. Checksums are put right first, so that the bytes
//! get past them.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::index::{self, IndexFile};
use crate::format::record::{HEADER_BYTES, RecordHeader};
use crate::format::{Fields, crc, segment};
use crate::sim::SimDisk;
use crate::{Disk, Kind, NewRecord, Options, SchemaBlock, SchemaKey, Version, Wal, WalError};

const DIR: &str = "/log";

fn options() -> Options {
    Options { segment_bytes_max: 1024, index_bytes: 128, read_bytes: 512, ..Options::default() }
}

fn open(disk: &SimDisk) -> crate::Result<Wal> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Wal::open(disk, Path::new(DIR), options(), 0).map(|(wal, _)| wal)
}

fn record(body: Bytes, schemas: Vec<SchemaBlock>) -> NewRecord {
    NewRecord { term: 1, time_ns: 0, kind: Kind::Data, flags: 0, body, schemas }
}

/// Reads all that there is. `body` tells what a version must hold, where that is known.
fn read(wal: &Wal, body: impl Fn(Version) -> Option<Bytes>) -> crate::Result<()> {
    let mut reader = wal.reader(wal.first_version());
    while let Some(record) = reader.next()? {
        assert_eq!(record.version.next(), reader.position(), "versions have no gaps");
        if let Some(expected) = body(record.version) {
            assert_eq!(record.body, expected, "version {}", record.version);
        }
    }
    Ok(())
}

fn expect_damage(result: crate::Result<()>) {
    if let Err(error) = result {
        assert!(error.is_damage(), "no file is missing and no disk fails: {error}");
    }
}

/// A block header.
pub fn record_header(data: &[u8]) {
    let Some((bytes, rest)) = data.split_first_chunk::<HEADER_BYTES>() else { return };
    let seed = rest.first().copied().map_or(0, u32::from);
    let mut fields = Fields(*bytes);
    let at = HEADER_BYTES - 4;
    let sum = crc(seed, &fields.0[..at]);
    fields.put_u32(at, sum);
    for candidate in [*bytes, fields.0] {
        if let Ok(decoded) = RecordHeader::decode(&candidate, seed) {
            let again = RecordHeader::decode(&decoded.header.encode(seed).bytes, seed);
            assert!(again.is_ok_and(|again| again.header == decoded.header));
        }
    }
}

/// A segment, alone in its log: opened, read, appended to, opened again; looked at from outside; repaired.
pub fn segment(data: &[u8]) {
    let mut bytes = data.to_vec();
    let mut first = Version::default();
    if let Some(header) = bytes.first_chunk_mut::<{ segment::HEADER_BYTES }>() {
        let mut fields = Fields(*header);
        let at = segment::HEADER_BYTES - 4;
        let sum = crc(0, &fields.0[..at]);
        fields.put_u32(at, sum);
        first = Version(fields.u64(16));
        *header = fields.0;
    }
    let disk = SimDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.put(&Path::new(DIR).join(segment::file_name(first)), &bytes);
    expect_damage(crate::verify(&shared, Path::new(DIR)).map(drop));
    if let Ok(dump) = crate::dump(&shared, Path::new(DIR), crate::DumpFilter::default()) {
        dump.for_each(drop);
    }
    expect_damage(open(&disk).and_then(|wal| use_log(&wal)));
    match crate::repair::plan(&shared, Path::new(DIR), Version::default()) {
        Ok(repair) => {
            let opened =
                repair.carry_out(&disk).and_then(|()| open(&disk)).and_then(|wal| read(&wal, |_| None));
            assert!(opened.is_ok(), "after a repair the log opens: {opened:?}");
        }
        Err(error) => expect_damage(Err(error)),
    }
}

fn use_log(wal: &Wal) -> crate::Result<()> {
    read(wal, |_| None)?;
    let last = wal.last().map_or(0, |last| last.time_ns);
    let new = NewRecord { time_ns: last, ..record(Bytes::from_static(b"more"), vec![]) };
    match wal.append(wal.next_version(), &[new], 0) {
        Ok(_) => read(wal, |_| None),
        Err(WalError::Gap { .. }) => Ok(()), // versions are used up
        Err(e) => Err(e),
    }
}

/// An index file beside a segment that is intact: whatever it says, readers find the right record or none.
pub fn index(data: &[u8]) {
    let body = |version: Version| Some(Bytes::from(format!("record {version}")));
    let disk = SimDisk::new();
    let build = || -> crate::Result<()> {
        let wal = open(&disk)?;
        for version in (0..20).map(Version) {
            let schema =
                SchemaBlock { key: SchemaKey { owner: version.0 / 4, version: 1 }, bytes: "schema".into() };
            wal.append(version, &[record(body(version).unwrap_or_default(), vec![schema])], 0)?;
        }
        wal.sync().map(drop)
    };
    expect_damage(build());
    let path = Path::new(DIR).join(index::file_name(Version(0)));
    let mut content = data.to_vec();
    let intact = disk.files().into_iter().find(|(file, _)| *file == path).map(|(_, content)| content);
    if let Some(intact) = intact.as_deref().and_then(IndexFile::decode) {
        put_right(&mut content, &intact);
    }
    disk.damage(&path, |bytes| *bytes = content);
    let look = || -> crate::Result<()> {
        let wal = open(&disk)?;
        for version in (0..20).map(Version) {
            let found = wal.handle().get(version)?;
            assert_eq!(found.as_ref().map(|found| found.body.clone()), body(version));
            let key = SchemaKey { owner: version.0 / 4, version: 1 };
            if let Some(schema) = found.map(|found| found.schema(key)).transpose()?.flatten() {
                assert_eq!(schema, "schema");
            }
        }
        read(&wal, body)?;
        wal.handle().version_at_time(1).map(drop)
    };
    expect_damage(look());
}

/// Makes an index fit its segment, and its checksum fit its bytes.
fn put_right(content: &mut Vec<u8>, intact: &IndexFile) {
    let Some(header) = content.get_mut(..index::HEADER_BYTES) else { return };
    header[..8].copy_from_slice(&index::MAGIC);
    header[16..24].copy_from_slice(&intact.salt.to_le_bytes());
    header[24..32].copy_from_slice(&intact.end.to_le_bytes());
    let at = content.len().saturating_sub(4).max(index::HEADER_BYTES);
    content.truncate(at);
    let sum = crc(0, content);
    content.extend_from_slice(&sum.to_le_bytes());
}

/// A schema block: any key, any bytes. Read back as written, and under no other key.
pub fn schema_block(data: &[u8]) {
    let Some((head, bytes)) = data.split_first_chunk::<12>() else { return };
    let fields = Fields(*head);
    let key = SchemaKey { owner: fields.u64(0), version: fields.u32(8) };
    let bytes = Bytes::copy_from_slice(bytes);
    let disk = SimDisk::new();
    let work = || -> crate::Result<()> {
        let wal = open(&disk)?;
        let schema = SchemaBlock { key, bytes: bytes.clone() };
        wal.append(Version(1), &[record(bytes.clone(), vec![schema.clone(), schema])], 0)?;
        wal.roll(0)?;
        drop(wal);
        let wal = open(&disk)?;
        let found = wal.handle().get(Version(1))?;
        let other = SchemaKey { version: key.version.wrapping_add(1), ..key };
        for (key, expected) in [(key, Some(bytes.clone())), (other, None)] {
            assert_eq!(found.as_ref().map(|found| found.schema(key)).transpose()?.flatten(), expected);
        }
        Ok(())
    };
    let worked = work();
    assert!(worked.is_ok(), "{worked:?}");
}
