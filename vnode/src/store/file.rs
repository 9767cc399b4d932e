//! One data file: opened when it is first read, removed when nobody reads it any more.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use model::{Code, ColumnId, Error, Result};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::reader::{ChunkReader, Length};
use wal::disk::{Access, Disk, DiskFile};

use super::blocks::{self, Blocks};
use super::error::{damaged, io_error};
use super::format::{FIELD_PRESENCE, FIELD_TBNAME};
use super::manifest::FileMeta;
use super::page_width;
use super::table_index::{self, TableIndex};

/// Compares a file in `dir` with what a manifest says of it, length, footer and all of its content. Blocks for long.
///
/// # Errors
/// `Damaged` with what is wrong, or the disk's.
pub fn verify_file(disk: &Arc<dyn Disk>, dir: &Path, meta: &FileMeta) -> Result<()> {
    DataFile::new(Arc::clone(disk), dir, meta.clone()).verify()
}

/// A file that the manifest names, or named until a moment ago.
#[derive(Debug)]
pub(super) struct DataFile {
    pub(super) meta: FileMeta,
    path: PathBuf,
    disk: Arc<dyn Disk>,
    open: Mutex<Option<Arc<OpenFile>>>,
    /// What is wrong with its content, once somebody found out. It does not get better: nobody reads it again.
    damage: OnceLock<Error>,
    obsolete: AtomicBool,
}

impl DataFile {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, meta: FileMeta) -> Self {
        let path = dir.join(&meta.name);
        Self {
            meta,
            path,
            disk,
            open: Mutex::new(None),
            damage: OnceLock::new(),
            obsolete: AtomicBool::new(false),
        }
    }

    /// Looks whether the file is there, as long as it was, with the footer it had: what can be told without reading it
    /// whole.
    pub(super) fn check(&self) -> Result<()> {
        let file = self.disk.open(&self.path, Access::Read).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => damaged(&self.path, "missing"),
            _ => io_error("opening", &self.path, e),
        })?;
        let bytes = file.len().map_err(|e| io_error("reading", &self.path, e))?;
        if bytes != self.meta.bytes {
            return Err(damaged(&self.path, format!("length={bytes} recorded={}", self.meta.bytes)));
        }
        let mut footer = vec![0; self.meta.footer_bytes as usize];
        let start = bytes
            .checked_sub(footer.len() as u64)
            .ok_or_else(|| damaged(&self.path, "footer longer than the file"))?;
        file.read_at(&mut footer, start).map_err(|e| io_error("reading", &self.path, e))?;
        if crc32fast::hash(&footer) != self.meta.footer_checksum {
            return Err(damaged(&self.path, "footer fails its checksum"));
        }
        Ok(())
    }

    /// As [`check`](Self::check), but damage is only noted: it takes out the file's time range and nothing else.
    pub(super) fn check_at_start(&self) -> Result<()> {
        self.noted(self.check()).or_else(|e| if e.code() == Code::Damaged { Ok(()) } else { Err(e) })
    }

    /// What is known to be wrong with it.
    pub(super) fn damage(&self) -> Option<&Error> {
        self.damage.get()
    }

    fn noted<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| {
            if error.code() != Code::Damaged {
                return error;
            }
            let (first, last) = (self.meta.first_tick, self.meta.last_tick_inclusive);
            let error = self.damage.get_or_init(|| {
                tracing::error!(path = %self.path.display(), first, last, %error, "a data file is damaged: its time range cannot be read");
                Error::with(Code::Damaged, format!("{}; no rows from {first} to {last} (ticks) can be read", error.message()))
                    .hint("restore the file from a copy and start again; other times are not concerned")
            });
            error.clone()
        })
    }

    /// Reads the whole file and compares its checksum.
    pub(super) fn verify(&self) -> Result<()> {
        self.check()?;
        let file =
            self.disk.open(&self.path, Access::Read).map_err(|e| io_error("opening", &self.path, e))?;
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < self.meta.bytes {
            let part = usize::try_from(self.meta.bytes - offset).unwrap_or(usize::MAX).min(buffer.len());
            let Some(part) = buffer.get_mut(..part) else { break };
            file.read_at(part, offset).map_err(|e| io_error("reading", &self.path, e))?;
            hasher.update(part);
            offset += part.len() as u64;
        }
        if hasher.finalize() == self.meta.checksum {
            Ok(())
        } else {
            Err(damaged(&self.path, "content fails its checksum"))
        }
    }

    /// The file with its footer, page index and table index read. Blocks on the disk the first time, when all of it is
    /// compared with its checksum: a damaged file is named, and never read as if it were whole.
    pub(super) fn open(&self) -> Result<Arc<OpenFile>> {
        let mut open = self.open.lock();
        if let Some(file) = &*open {
            return Ok(Arc::clone(file));
        }
        if let Some(error) = self.damage() {
            return Err(error.clone());
        }
        let read = self.verify().and_then(|()| OpenFile::read(&*self.disk, &self.path, &self.meta));
        let file = Arc::new(self.noted(read)?);
        *open = Some(Arc::clone(&file));
        Ok(file)
    }

    /// The manifest that is now durable does not name it: it goes once the last reader has let go of it.
    pub(super) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Relaxed);
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Relaxed)
            && let Err(error) = self.disk.remove(&self.path)
        {
            // The next start removes what no manifest names.
            tracing::warn!(path = %self.path.display(), %error, "cannot remove an obsolete data file");
        }
    }
}

/// What reading needs of a file.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) path: PathBuf,
    pub(super) chunks: FileChunks,
    pub(super) metadata: ArrowReaderMetadata,
    pub(super) tables: TableIndex,
    /// Leaf column of the Parquet schema by column id.
    leaves: HashMap<ColumnId, usize>,
    pub(super) presence_leaf: Option<usize>,
    /// Data columns in file order: what the bits of `_set` stand for.
    pub(super) column_ids: Vec<ColumnId>,
    /// By leaf: bytes of a row where rows are widest, decoded.
    row_bytes: Vec<u64>,
}

impl OpenFile {
    fn read(disk: &dyn Disk, path: &Path, meta: &FileMeta) -> Result<Self> {
        let file = disk.open(path, Access::Read).map_err(|e| io_error("opening", path, e))?;
        let chunks = FileChunks { file, len: meta.bytes };
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let metadata = ArrowReaderMetadata::load(&chunks, options).map_err(|e| parquet_error(path, e))?;
        let schema = metadata.parquet_schema();
        let (mut leaves, mut column_ids, mut presence_leaf) = (HashMap::new(), Vec::new(), None);
        for leaf in 0..schema.num_columns() {
            let info = schema.column(leaf).self_type().get_basic_info().clone();
            match info.has_id().then(|| info.id()) {
                Some(FIELD_TBNAME) => {}
                Some(FIELD_PRESENCE) => presence_leaf = Some(leaf),
                Some(id) => {
                    let id = u16::try_from(id)
                        .map(ColumnId)
                        .map_err(|_| damaged(path, format!("field id {id}")))?;
                    leaves.insert(id, leaf);
                    column_ids.push(id);
                }
                None => return Err(damaged(path, format!("column {} has no field id", info.name()))),
            }
        }
        let tables = read_table_index(&chunks, path, &metadata, meta)?;
        let row_bytes = (0..schema.num_columns())
            .map(|leaf| page_width::row_bytes_max(metadata.metadata(), leaf))
            .collect();
        Ok(Self {
            path: path.to_owned(),
            chunks,
            metadata,
            tables,
            leaves,
            presence_leaf,
            column_ids,
            row_bytes,
        })
    }

    /// What blocks of rows come to. Blocks on the disk, and is not kept: with many tables in the file it is large.
    pub(super) fn blocks(&self) -> Result<Blocks> {
        let (count, columns) = self.block_counts()?;
        let (bytes, _) = appended(&self.chunks, &self.path, &self.metadata, blocks::KEY)?;
        let blocks = Blocks::decode(&bytes, count, columns);
        blocks.map_err(|e| damaged(&self.path, "block sums").caused_by(e))
    }

    /// Blocks that are summed up, and columns of each.
    pub(super) fn block_counts(&self) -> Result<(usize, usize)> {
        let entry = entry(&self.path, &self.metadata, blocks::KEY)?;
        let count = |at: usize| entry.more.get(at).and_then(|n| usize::try_from(*n).ok());
        count(0).zip(count(1)).ok_or_else(|| damaged(&self.path, "number of blocks"))
    }

    /// Bytes that a row of this leaf takes decoded, where rows are widest.
    pub(super) fn row_bytes(&self, leaf: usize) -> u64 {
        self.row_bytes.get(leaf).copied().unwrap_or_default()
    }

    /// Leaf number of a column; `None` if the file has no such column.
    pub(super) fn leaf(&self, id: ColumnId) -> Option<usize> {
        self.leaves.get(&id).copied()
    }
}

/// Where something lies behind the row groups, as the footer has it.
struct Entry {
    offset: u64,
    length: u64,
    checksum: u64,
    /// Numbers of its own.
    more: Vec<u64>,
}

/// The footer's entry under `key`.
fn entry(path: &Path, metadata: &ArrowReaderMetadata, key: &str) -> Result<Entry> {
    let missing = || damaged(path, format!("no usable {key} in the footer"));
    let pairs = metadata.metadata().file_metadata().key_value_metadata().ok_or_else(missing)?;
    let place = pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
    let numbers: Result<Vec<u64>, _> = place.ok_or_else(missing)?.split(',').map(str::parse).collect();
    match numbers.map_err(|_| missing())?.as_slice() {
        &[offset, length, checksum, ref more @ ..] => {
            Ok(Entry { offset, length, checksum, more: more.to_vec() })
        }
        _ => Err(missing()),
    }
}

/// What lies behind the row groups under `key`: its bytes, and the further numbers of its entry.
fn appended(
    chunks: &FileChunks,
    path: &Path,
    metadata: &ArrowReaderMetadata,
    key: &str,
) -> Result<(Bytes, Vec<u64>)> {
    let Entry { offset, length, checksum, more } = entry(path, metadata, key)?;
    let outside = || damaged(path, format!("{key} lies outside of the file"));
    if offset.checked_add(length).is_none_or(|end| end > chunks.len) {
        return Err(outside());
    }
    let length = usize::try_from(length).map_err(|_| outside())?;
    let bytes = chunks.bytes(offset, length).map_err(|e| io_error("reading", path, e))?;
    if u64::from(crc32fast::hash(&bytes)) != checksum {
        return Err(damaged(path, format!("{key} fails its checksum")));
    }
    Ok((bytes, more))
}

fn read_table_index(
    chunks: &FileChunks,
    path: &Path,
    metadata: &ArrowReaderMetadata,
    meta: &FileMeta,
) -> Result<TableIndex> {
    let (bytes, _) = appended(chunks, path, metadata, table_index::KEY)?;
    let tables = usize::try_from(meta.tables).map_err(|_| damaged(path, "number of tables"))?;
    let index = TableIndex::decode(&bytes, tables).map_err(|e| damaged(path, "table index").caused_by(e))?;
    if index.rows() != meta.rows {
        return Err(damaged(path, format!("table index rows={} recorded={}", index.rows(), meta.rows)));
    }
    Ok(index)
}

/// Parquet's way to the bytes of a file. Reads by position: the reader that the crate has for files moves the one
/// cursor that all readers of a file share.
#[derive(Clone, Debug)]
pub(super) struct FileChunks {
    file: Arc<dyn DiskFile>,
    len: u64,
}

impl FileChunks {
    fn bytes(&self, start: u64, length: usize) -> io::Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut buffer = vec![0; length];
        self.file.read_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

impl Length for FileChunks {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for FileChunks {
    type T = io::BufReader<ReadFrom>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(io::BufReader::new(ReadFrom { chunks: self.clone(), offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(self.bytes(start, length)?)
    }
}

/// A cursor of its own over a file.
#[derive(Debug)]
pub(super) struct ReadFrom {
    chunks: FileChunks,
    offset: u64,
}

impl io::Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.chunks.len.saturating_sub(self.offset);
        let length = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
        let Some(part) = buffer.get_mut(..length) else { return Ok(0) };
        self.chunks.file.read_at(part, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

/// An error of the Parquet crate on reading: the disk's or the content's.
pub(super) fn parquet_error(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(io) if io.kind() != io::ErrorKind::UnexpectedEof => io_error("reading", path, *io),
            Ok(io) => damaged(path, "ends early").caused_by(*io),
            Err(other) => damaged(path, other),
        },
        other => Error::with(Code::Damaged, format!("data file {}", path.display())).caused_by(other),
    }
}
