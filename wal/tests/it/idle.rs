//! What logs cost that nobody uses: no handle, whatever the number of their segments.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wal::disk::{Access, DirEntry, DiskLock};
use wal::sim::{Op, SimDisk};
use wal::{Disk, DiskFile, Options, Version, Wal};

use crate::common::*;

const SEGMENTS: u64 = 100;

/// A disk that knows how many of its handles are open, now and at most.
#[derive(Debug, Default)]
struct Handles {
    open: AtomicUsize,
    most: AtomicUsize,
}

#[derive(Debug, Clone)]
struct Counting(SimDisk, Arc<Handles>);

#[derive(Debug)]
struct Handle(Arc<dyn DiskFile>, Arc<Handles>);

impl Counting {
    fn new() -> Self {
        Self(SimDisk::new(), Arc::default())
    }

    fn count(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let open = self.1.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.1.most.fetch_max(open, Ordering::Relaxed);
        Arc::new(Handle(file, Arc::clone(&self.1)))
    }

    fn open_handles(&self) -> usize {
        self.1.open.load(Ordering::Relaxed)
    }

    /// The most since the last call.
    fn most_handles(&self) -> usize {
        self.1.most.swap(self.open_handles(), Ordering::Relaxed)
    }

    fn log(&self, name: &str) -> Wal {
        let options = Options { index_bytes: 64, ..Options::default() };
        Wal::open(Arc::new(self.clone()), Path::new(name), options, 0).unwrap().0
    }

    /// Makes a log of many segments of five records each.
    fn make(&self, name: &str) {
        let log = self.log(name);
        for segment in 0..SEGMENTS {
            log.roll(0).unwrap();
            append(&log, segment * 5, segment * 5 + 5);
        }
        log.sync().unwrap();
        assert_eq!(log.size().segments as u64, SEGMENTS);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.1.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Disk for Counting {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.count(self.0.open(path, access)?))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.count(self.0.create(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.remove_dir_all(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.0.lock(path)
    }
}

impl DiskFile for Handle {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.0.write_at(bufs, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        self.0.reserve(len)
    }
    fn release(&self) -> io::Result<()> {
        self.0.release()
    }
}

#[test]
fn open_logs_hold_no_handle_and_opening_needs_few_at_once() {
    let disk = Counting::new();
    let names = ["/a", "/b", "/c"];
    names.iter().for_each(|name| disk.make(name));
    assert_eq!(disk.open_handles(), 0);
    disk.most_handles();
    let logs = names.map(|name| disk.log(name));
    assert_eq!(disk.open_handles(), 0, "of {} logs of {SEGMENTS} segments", logs.len());
    assert!(disk.most_handles() <= 2, "files are looked at one after the other");
}

#[test]
fn a_handle_for_the_writer_and_one_for_each_segment_that_a_reader_stands_in() {
    let disk = Counting::new();
    disk.make("/a");
    let log = disk.log("/a");
    let mut readers: Vec<_> = [0, 1, 100, 102, 300].map(|at| log.reader(Version(at))).into();
    assert_eq!(disk.open_handles(), 0, "readers that have not read");
    readers.iter_mut().for_each(|reader| assert!(reader.next().unwrap().is_some()));
    assert_eq!(disk.open_handles(), 3, "readers of one segment share its handle");
    append(&log, SEGMENTS * 5, SEGMENTS * 5 + 1);
    assert_eq!(disk.open_handles(), 4);

    // From end to end: one segment at a time.
    let mut reader = log.reader(Version(0));
    disk.most_handles();
    while reader.next().unwrap().is_some() {}
    assert!(disk.most_handles() <= 6);
    drop((reader, readers));
    assert_eq!(disk.open_handles(), 1);
}

#[test]
fn a_log_that_rests_is_durable_and_goes_on() {
    let disk = Counting::new();
    let log = disk.log("/a");
    append(&log, 0, 40);
    log.rest().unwrap();
    assert_eq!(disk.open_handles(), 1, "it was written to since the last call");
    assert_eq!(log.durable_next(), Version(0));
    log.rest().unwrap(); // syncs
    assert_eq!(log.durable_next(), Version(40));
    log.rest().unwrap();
    assert_eq!(disk.open_handles(), 0);

    let syncs = disk.0.counts().of(Op::Sync);
    log.rest().unwrap();
    assert_eq!((disk.0.counts().of(Op::Sync), disk.open_handles()), (syncs, 0), "nothing to do");

    assert_holds(&log, 0, 40);
    append(&log, 40, 80);
    assert_holds(&log, 0, 80);
    assert_eq!(log.size().segments, 1);
    log.sync().unwrap();
    disk.0.crash(1);
    assert_holds(&disk.log("/a"), 0, 80);
}

/// The index is dropped when a log rests: schemas must be found again, and not be stored a second time.
#[test]
fn schemas_outlive_a_rest() {
    let disk = Counting::new();
    let log = disk.log("/a");
    let with_schemas = |version: u64| with_schema(record(body(version)), version % 300, 1);
    let append = |from, to| {
        for version in from..to {
            log.append(Version(version), &[with_schemas(version)], 0).unwrap();
        }
    };
    append(0, 300);
    (0..3).for_each(|_| log.rest().unwrap());
    let read = |version| log.handle().get(Version(version)).unwrap().unwrap();
    let key = |owner| wal::SchemaKey { owner, version: 1 };
    assert_eq!(read(299).schema(key(299)).unwrap().unwrap(), schema_bytes(key(299)));
    let bytes = log.size().bytes;
    append(300, 600);
    let bare = 300 * wal::record_bytes(100);
    assert!(log.size().bytes - bytes <= bare + 300 * 64, "no schema was stored again");
    (0..3).for_each(|_| log.rest().unwrap());
    append(600, 601);
    assert_eq!(read(600).schema(key(0)).unwrap().unwrap(), schema_bytes(key(0)));
    assert_eq!(read(599).schema(key(299)).unwrap().unwrap(), schema_bytes(key(299)));
}
