//! Writes one data file.

use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use model::{Result, TableUid, Version};
use parquet::arrow::arrow_writer::{ArrowColumnWriter, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use wal::disk::{Disk, DiskFile};

use super::blocks::{self, BlockWriter};
use super::encoding::{base_properties, choose, column_writers, parquet_root};
use super::error::io_error;
use super::file::parquet_error;
use super::manifest::FileMeta;
use super::output::Run;
use super::table_index::{self, TableIndex};

/// Rows after which a row group is closed.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Bytes, encoded, after which it is closed too: it lies in memory until then.
const ROW_GROUP_BYTES: usize = 128 << 20;
/// The last bytes of a file: footer length and magic.
const TAIL_BYTES: usize = 8;

/// What is known of a file before it is written.
#[derive(Clone, Debug)]
pub(super) struct FileHead {
    pub(super) name: String,
    pub(super) owner: TableUid,
    pub(super) bucket: i64,
    pub(super) generation: u64,
    pub(super) first_version: Version,
    pub(super) last_version: Version,
    /// Of zstd.
    pub(super) level: i32,
}

/// A file being written, under a temporary name until it is whole.
pub(super) struct FileWriter {
    disk: Arc<dyn Disk>,
    head: FileHead,
    temporary: Temporary,
    path: PathBuf,
    schema: SchemaRef,
    root: TypePtr,
    file: SerializedFileWriter<Sink>,
    group: Option<Group>,
    tables: TableIndex,
    blocks: BlockWriter,
    partial: bool,
}

/// The file's name while it is not whole. What is given up is removed: on a full disk it would be in the way.
struct Temporary {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    is_named: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_named
            && let Err(error) = self.disk.remove(&self.path)
        {
            // The next start removes it.
            tracing::debug!(path = %self.path.display(), %error, "cannot remove an unfinished data file");
        }
    }
}

/// A row group under way: encoded column by column in memory.
struct Group {
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

impl FileWriter {
    pub(super) fn create(disk: Arc<dyn Disk>, dir: &Path, head: FileHead, schema: SchemaRef) -> Result<Self> {
        let path = dir.join(&head.name);
        let temporary = dir.join(format!("{}.tmp", head.name));
        let file = disk.create(&temporary).map_err(|e| io_error("creating", &temporary, e))?;
        let temporary = Temporary { disk: Arc::clone(&disk), path: temporary, is_named: false };
        let sink = Sink::new(file);
        let parquet = || -> std::result::Result<_, ParquetError> {
            let root = parquet_root(&schema)?;
            let file = SerializedFileWriter::new(
                sink,
                Arc::clone(&root),
                Arc::new(base_properties(head.level).build()),
            )?;
            Ok((root, file))
        };
        let (root, file) = parquet().map_err(|e| parquet_error(&temporary.path, e))?;
        let (tables, blocks) = (TableIndex::default(), BlockWriter::new(&schema));
        Ok(Self {
            disk,
            head,
            temporary,
            path,
            schema,
            root,
            file,
            group: None,
            tables,
            blocks,
            partial: false,
        })
    }

    /// Appends rows, which follow those before in order of table, then time. `columns` are those of the schema.
    pub(super) fn write(
        &mut self,
        columns: &[ArrayRef],
        ticks: &[i64],
        runs: &[Run],
        partial: bool,
    ) -> Result<()> {
        self.partial |= partial;
        let mut start = 0;
        for run in runs {
            if let Some((first, last)) =
                ticks.get(start..run.end).and_then(|ticks| ticks.first().zip(ticks.last()))
            {
                self.tables.push(run.table, (run.end - start) as u64, *first, *last);
            }
            start = run.end;
        }
        self.blocks.push(columns, ticks, runs);
        self.write_columns(columns, ticks.len()).map_err(|e| self.error(e))
    }

    fn write_columns(&mut self, columns: &[ArrayRef], rows: usize) -> std::result::Result<(), ParquetError> {
        let mut group = match self.group.take() {
            Some(group) => group,
            None => {
                let choices = choose(&self.schema, &self.root, columns, self.head.level)?;
                Group {
                    columns: column_writers(&self.schema, &self.root, &choices, self.head.level)?,
                    rows: 0,
                }
            }
        };
        for ((writer, field), array) in group.columns.iter_mut().zip(self.schema.fields()).zip(columns) {
            for leaf in compute_leaves(field, array)? {
                writer.write(&leaf)?;
            }
        }
        group.rows += rows;
        let bytes = || group.columns.iter().map(ArrowColumnWriter::memory_size).sum::<usize>();
        if group.rows >= ROW_GROUP_ROWS || bytes() >= ROW_GROUP_BYTES {
            self.close_group(group)
        } else {
            self.group = Some(group);
            Ok(())
        }
    }

    fn close_group(&mut self, group: Group) -> std::result::Result<(), ParquetError> {
        let mut writer = self.file.next_row_group()?;
        for column in group.columns {
            column.close()?.append_to_row_group(&mut writer)?;
        }
        writer.close()?;
        Ok(())
    }

    fn error(&self, error: ParquetError) -> model::Error {
        match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(io) => io_error("writing", &self.temporary.path, *io),
                Err(other) => model::Error::internal(other),
            },
            other => {
                model::Error::internal(format!("encoding {}", self.temporary.path.display())).caused_by(other)
            }
        }
    }

    /// Puts bytes behind the row groups; the footer says where under `key`: `offset,length,crc32` and what `more` says.
    fn append(&mut self, key: &str, bytes: &[u8], more: &str) -> Result<()> {
        let offset = self.file.bytes_written();
        self.file.write_all(bytes).map_err(|e| io_error("writing", &self.temporary.path, e))?;
        let place = format!("{offset},{},{}{more}", bytes.len(), crc32fast::hash(bytes));
        self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), place));
        Ok(())
    }

    /// Completes the file, makes it durable and gives it its name. The directory is the caller's to sync.
    pub(super) fn finish(mut self) -> Result<FileMeta> {
        if let Some(group) = self.group.take() {
            self.close_group(group).map_err(|e| self.error(e))?;
        }
        let index = self.tables.encode()?;
        self.append(table_index::KEY, &index, "")?;
        let blocks = std::mem::take(&mut self.blocks).finish();
        let counts = format!(",{},{}", blocks.blocks.len(), blocks.columns.len());
        self.append(blocks::KEY, &blocks.encode()?, &counts)?;
        self.file.finish().map_err(|e| self.error(e))?;
        // What was buffered has to reach the sink before it can be asked for its checksum.
        self.file.flush().map_err(|e| io_error("writing", &self.temporary.path, e))?;
        let (bytes, checksum, footer) =
            self.file.inner_mut().complete().map_err(|e| io_error("writing", &self.temporary.path, e))?;
        self.disk
            .rename(&self.temporary.path, &self.path)
            .map_err(|e| io_error("renaming", &self.temporary.path, e))?;
        self.temporary.is_named = true;
        let time = self.tables.time();
        Ok(FileMeta {
            name: self.head.name,
            owner: self.head.owner,
            bucket: self.head.bucket,
            generation: self.head.generation,
            rows: self.tables.rows(),
            tables: self.tables.len() as u64,
            first_table: self.tables.first_table(),
            last_table: self.tables.last_table(),
            first_version: self.head.first_version,
            last_version: self.head.last_version,
            first_tick: time.first,
            last_tick_inclusive: time.last_inclusive,
            partial: self.partial,
            bytes,
            checksum,
            footer_bytes: footer.0,
            footer_checksum: footer.1,
        })
    }
}

/// Bytes on their way to the disk, counted and summed up.
struct Sink {
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    written: u64,
    checksum: crc32fast::Hasher,
}

const SINK_BYTES: usize = 1 << 20;

impl Sink {
    fn new(file: Arc<dyn DiskFile>) -> Self {
        let buffer = Vec::with_capacity(SINK_BYTES);
        Self { file, buffer, written: 0, checksum: crc32fast::Hasher::new() }
    }

    fn drain(&mut self) -> io::Result<()> {
        let mut rest = self.buffer.as_slice();
        while !rest.is_empty() {
            let taken = self.file.write_at(&[IoSlice::new(rest)], self.written)?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += taken as u64;
            rest = rest.get(taken..).unwrap_or_default();
        }
        self.buffer.clear();
        Ok(())
    }

    /// Syncs. Gives length and checksum of the file, and of its footer.
    fn complete(&mut self) -> io::Result<(u64, u32, (u32, u32))> {
        self.drain()?;
        self.file.sync()?;
        let mut tail = [0; TAIL_BYTES];
        self.file.read_at(&mut tail, self.written.saturating_sub(TAIL_BYTES as u64))?;
        let [a, b, c, d, ..] = tail;
        let footer_bytes = u32::from_le_bytes([a, b, c, d]).saturating_add(8);
        let mut footer = vec![0; footer_bytes as usize];
        self.file.read_at(&mut footer, self.written.saturating_sub(u64::from(footer_bytes)))?;
        let checksum = self.checksum.clone().finalize();
        Ok((self.written, checksum, (footer_bytes, crc32fast::hash(&footer))))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.checksum.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= SINK_BYTES {
            self.drain()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()
    }
}
