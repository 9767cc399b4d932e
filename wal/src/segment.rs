//! One segment as readers see it: a file that only grows, up to a published end.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::cursor::{Block, Cursor, Start, Stop};
use crate::disk::{Access, Disk, DiskFile, read_file, write_all_at};
use crate::error::{Damage, Fault, Result, WalError};
use crate::format::index::{self, IndexFile};
use crate::format::segment::{HEADER_BYTES, SegmentHeader, file_name};
use crate::format::{BadHeader, FORMAT_VERSION};
use crate::index::Index;
use crate::{Options, SchemaKey, Version};

/// Schema blocks are small: no need to read far ahead.
const SCHEMA_READ_BYTES: usize = 4096;

/// An idle segment may keep an index of this size in memory.
const INDEX_KEPT_BYTES: usize = 4096;

pub(crate) struct Segment {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    pub(crate) header: SegmentHeader,
    pub(crate) seed: u32,
    index_bytes: u64,
    read_bytes: usize,
    /// Cleared when looking from outside: then nothing is written, not even a missing index.
    keeps_index: bool,
    /// Byte after the last block that readers may see. Grows with appends; a cut lowers it.
    end: AtomicU64,
    /// None until it is needed: an idle segment costs no memory for it.
    index: RwLock<Option<Index>>,
    /// Whether somebody looked at the index since it was last asked about.
    index_used: AtomicBool,
    /// Open while somebody reads or writes: an idle segment costs no handle.
    file: Mutex<Option<Weak<dyn DiskFile>>>,
}

impl Segment {
    /// A segment whose index is loaded when it is needed.
    pub(crate) fn new(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        header: SegmentHeader,
        end: u64,
        options: &Options,
    ) -> Self {
        Self {
            disk: Arc::clone(disk),
            path: dir.join(file_name(header.first)),
            header,
            seed: options.seed(&header),
            index_bytes: options.index_bytes,
            read_bytes: options.read_bytes,
            keeps_index: true,
            end: AtomicU64::new(end),
            index: RwLock::new(None),
            index_used: AtomicBool::new(false),
            file: Mutex::new(None),
        }
    }

    /// The same, never writing anything.
    pub(crate) fn read_only(mut self) -> Self {
        self.keeps_index = false;
        self
    }

    pub(crate) fn first(&self) -> Version {
        self.header.first
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn publish_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// Gives the segment an index that was built along the way.
    /// Whether its index is in memory.
    pub(crate) fn has_index(&self) -> bool {
        self.index.read().is_some()
    }

    pub(crate) fn set_index(&self, index: Index) {
        *self.index.write() = Some(index);
    }

    /// Shares a handle that is open anyway.
    pub(crate) fn share_file(&self, file: &Arc<dyn DiskFile>) {
        *self.file.lock() = Some(Arc::downgrade(file));
    }

    /// The file, opened unless it is open. Fails with `NotFound` if the segment has been deleted, or replaced by
    /// another of the same name.
    pub(crate) fn file(&self) -> Result<Arc<dyn DiskFile>> {
        let mut known = self.file.lock();
        if let Some(file) = known.as_ref().and_then(Weak::upgrade) {
            return Ok(file);
        }
        let file =
            self.disk.open(&self.path, Access::Read).map_err(WalError::io("open segment", &self.path))?;
        if read_header(&*file, &self.path, self.first())? != self.header {
            let gone = std::io::ErrorKind::NotFound.into();
            return Err(WalError::io("open segment", &self.path)(gone));
        }
        *known = Some(Arc::downgrade(&file));
        Ok(file)
    }

    /// The start of the segment.
    pub(crate) fn start(&self) -> Start {
        Start { offset: HEADER_BYTES as u64, version: Some(self.first()), chain: Some(self.seed), bytes: 0 }
    }

    /// The nearest known place at or before `version`.
    pub(crate) fn start_near(&self, version: Version) -> Result<Start> {
        if version <= self.first() {
            return Ok(self.start());
        }
        let entry = self.with_index(|index| index.floor(version))?;
        let Some((entry, next)) = entry else { return Ok(self.start()) };
        let bytes = next.map_or(0, |next| next.offset.saturating_sub(entry.offset));
        Ok(Start { offset: entry.offset, version: Some(entry.version), chain: None, bytes })
    }

    /// The nearest known version whose record is older than `time_ns`.
    pub(crate) fn version_before_time(&self, time_ns: i64) -> Result<Version> {
        let entry = self.with_index(|index| index.before_time(time_ns))?;
        Ok(entry.map_or(self.first(), |e| e.version))
    }

    pub(crate) fn cursor(&self, at: Start) -> Result<Cursor> {
        Ok(Cursor::new(self.file()?, self.seed, at, self.read_bytes))
    }

    /// Bytes of the schema block under `key`.
    pub(crate) fn schema(&self, key: SchemaKey) -> Result<Option<Bytes>> {
        let Some(offset) = self.with_index(|index| index.schema_offset(key))? else { return Ok(None) };
        let file = self.file()?;
        // Not the published end: a record that was cut meanwhile still has its schema.
        let limit = file.len().map_err(WalError::io("read segment", &self.path))?;
        let mut cursor = Cursor::new(
            file,
            self.seed,
            Start { offset, version: None, chain: None, bytes: 0 },
            SCHEMA_READ_BYTES,
        );
        let found = cursor.block(limit).and_then(|block| match block {
            Some(block) if block.schema_key() == Some(key) => cursor.body(&block, limit),
            _ => Err(Stop::Bad(Fault::Magic)),
        });
        found.map(Some).map_err(|stop| self.stopped(stop, offset, self.first()))
    }

    pub(crate) fn schema_keys(&self) -> Result<Vec<SchemaKey>> {
        self.with_index(Index::schema_keys)
    }

    /// Runs `look` on the index, loading or rebuilding it first if need be.
    pub(crate) fn with_index<T>(&self, look: impl FnOnce(&Index) -> T) -> Result<T> {
        self.index_used.store(true, Ordering::Relaxed);
        if let Some(index) = &*self.index.read() {
            return Ok(look(index));
        }
        loop {
            let end = self.end();
            let loaded = match self.load_index(end)? {
                Some(index) => index,
                None => {
                    let index = self.build_index(end)?;
                    self.store_index(&index, end);
                    index
                }
            };
            let mut known = self.index.write();
            // Appends note their blocks in the index that is here. One that was loaded before them is too old.
            if known.is_some() || self.end() == end {
                return Ok(look(known.get_or_insert(loaded)));
            }
        }
    }

    /// Drops the index of a segment that is idle, unless it is small. The next look loads it.
    pub(crate) fn rest_index(&self) {
        if self.index.read().as_ref().is_some_and(|index| index.bytes() > INDEX_KEPT_BYTES) {
            self.close_index();
        }
    }

    /// Drops the index of a closed segment if nobody has looked at it since the last call.
    pub(crate) fn forget_index(&self) {
        if !self.index_used.swap(false, Ordering::Relaxed) && self.index.read().is_some() {
            *self.index.write() = None;
        }
    }

    /// Notes blocks that were appended. Called before they are published.
    pub(crate) fn index_blocks(&self, blocks: &[Block]) {
        let mut index = self.index.write();
        if let Some(index) = &mut *index {
            blocks.iter().for_each(|block| index.add(block, self.index_bytes));
        }
    }

    /// Makes the index fit a lowered end.
    pub(crate) fn cut_index(&self, end: u64) {
        if let Some(index) = &mut *self.index.write() {
            index.cut(end);
        }
    }

    /// Writes the index beside a segment that is closed, and drops it from memory. Failure costs no more than building
    /// it again some day.
    pub(crate) fn close_index(&self) {
        let index = self.index.write().take();
        if let Some(index) = index {
            self.store_index(&index, self.end());
        }
    }

    pub(crate) fn index_path(&self) -> PathBuf {
        self.path.with_file_name(index::file_name(self.first()))
    }

    fn load_index(&self, end: u64) -> Result<Option<Index>> {
        let path = self.index_path();
        let content = read_file(&*self.disk, &path).map_err(WalError::io("read index", &path))?;
        let Some(file) = content.as_deref().and_then(IndexFile::decode) else { return Ok(None) };
        let fits = file.salt == self.header.salt && file.end == end && file.lies_within(self.first());
        Ok(fits.then(|| Index::from_file(file)))
    }

    fn build_index(&self, end: u64) -> Result<Index> {
        let mut cursor = self.cursor(self.start())?;
        let mut index = Index::default();
        let mut version = self.first();
        loop {
            let offset = cursor.offset();
            let block = cursor.block(end).map_err(|stop| self.stopped(stop, offset, version))?;
            let Some(block) = block else { return Ok(index) };
            index.add(&block, self.index_bytes);
            cursor.pass(&block);
            version = block.header.version.next();
        }
    }

    /// Writes without syncing: a crash leaves an index that fails its checksum, and that is built again.
    fn store_index(&self, index: &Index, end: u64) {
        if !self.keeps_index {
            return;
        }
        let path = self.index_path();
        let content = index.to_file(self.header.salt, end).encode();
        let written = self
            .disk
            .create(&path)
            .and_then(|file| write_all_at(&*file, &mut [std::io::IoSlice::new(&content)], 0));
        if let Err(error) = written {
            tracing::debug!(file = %path.display(), %error, "index not written, will be rebuilt when needed");
        }
    }

    /// The error for a walk that stopped at `offset`, where `version` was expected.
    pub(crate) fn stopped(&self, stop: Stop, offset: u64, version: Version) -> WalError {
        match stop {
            Stop::Io(source) => WalError::io("read segment", &self.path)(source),
            Stop::Bad(what) => self.damage(offset, version, what),
        }
    }

    pub(crate) fn unknown_kind(&self, block: &Block, kind: u8) -> WalError {
        WalError::UnknownKind {
            file: self.path.clone(),
            offset: block.offset,
            version: block.header.version,
            kind,
            format: FORMAT_VERSION,
        }
    }

    fn damage(&self, offset: u64, version: Version, what: Fault) -> WalError {
        Damage { file: self.path.clone(), offset, version, what }.into()
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").field("path", &self.path).field("end", &self.end()).finish_non_exhaustive()
    }
}

/// Reads and checks a segment's header.
pub(crate) fn read_header(file: &dyn DiskFile, path: &Path, first: Version) -> Result<SegmentHeader> {
    let damage = |what| Damage { file: path.to_path_buf(), offset: 0, version: first, what };
    let mut bytes = [0; HEADER_BYTES];
    match file.read_at(&mut bytes, 0) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(damage(Fault::SegmentHeader).into());
        }
        Err(e) => return Err(WalError::io("read segment header", path)(e)),
    }
    match SegmentHeader::decode(&bytes) {
        Ok(header) if header.first == first => Ok(header),
        Ok(_) => Err(damage(Fault::SegmentName).into()),
        Err(BadHeader::Damaged) => Err(damage(Fault::SegmentHeader).into()),
        Err(BadHeader::Newer(found)) => {
            Err(WalError::NewerFormat { file: path.to_path_buf(), found, known: FORMAT_VERSION })
        }
    }
}
