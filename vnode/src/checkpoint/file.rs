//! The file: a redb database, each table of it one kind of entry, values in postcard.
//!
//! It is opened for each use: an idle shard costs no cache and no handle, and an I/O error, after which redb answers
//! nothing any more, ends with the use that met it.
//!
//! `docs/checkpoint.md` lists tables and keys.

use std::fmt;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{Code, Error, Result, SchemaVersion, TableSchema, TableUid, TopicId, Version};
use redb::backends::InMemoryBackend;
use redb::{
    Database, DatabaseError, Key, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, Value,
    WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Header, Snapshot};
use crate::record::TopicDefinition;
use crate::state::{GroupState, StableEntry, TableEntry, VnodeState};

/// Format of the tables below. Raised when a release writes what this one could not read.
const FORMAT: u64 = 1;

const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
const HEADER: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("header");
const TABLES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("tables");
const STABLES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("stables");
const SCHEMAS: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("schemas");
const GROUPS: TableDefinition<'_, (u64, &str), &[u8]> = TableDefinition::new("groups");
const TOPICS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("topics");

const FORMAT_KEY: &str = "format";
const SHOWN_END_KEY: &str = "shown_end";
const HEADER_KEY: &str = "header";
const KEEP_KEY: &str = "keep";

/// Where checkpoints are stored.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    path: PathBuf,
}

/// A checkpoint file that is open: all that its tables need is an error's file name beside the database.
pub(crate) struct OpenFile {
    path: PathBuf,
    database: Database,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

fn code_of(error: &redb::Error) -> Code {
    match error {
        redb::Error::Io(e) if wal::is_out_of_space(e) => Code::NoDiskSpace,
        // A file that ends too early is damaged, not unreadable.
        redb::Error::Io(e) if !matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
            Code::Io
        }
        redb::Error::UpgradeRequired(_) => Code::NewerFormat,
        _ => Code::Damaged,
    }
}

impl CheckpointFile {
    /// The file at `path`, which need not be there.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Opens the file to be read; `None` if there is none. Opening writes to it, to mend what a crash left: where the
    /// disk does not let it, a copy in memory is mended and read. Blocks.
    ///
    /// # Errors
    /// Of the disk, or `Damaged` with the file's name.
    pub(crate) fn read(&self) -> Result<Option<OpenFile>> {
        match std::fs::metadata(&self.path) {
            Ok(about) if about.len() > 0 => {}
            Ok(_) => return Ok(None),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(&self.path, redb::Error::Io(e))),
        }
        let opened = match OpenFile::open(&self.path) {
            Err(error) if error.may_retry() => {
                tracing::warn!(file = %self.path.display(), %error, "checkpoint is read from a copy in memory");
                OpenFile::copied(&self.path)
            }
            opened => opened,
        };
        opened.map(Some)
    }

    /// Stores a checkpoint: all of it or nothing, durable when this returns. Blocks.
    ///
    /// # Errors
    /// Of the disk; the checkpoint before stands.
    pub(crate) fn store(&self, header: &Header, snapshot: &Snapshot) -> Result<()> {
        let file = OpenFile::open(&self.path)?;
        guarded(&self.path, || file.store(header, snapshot))?;
        if let Err(error) = file.database.close() {
            // It is stored; the next opening mends what a clean close would have left in order.
            tracing::debug!(file = %self.path.display(), %error, "checkpoint file did not close cleanly");
        }
        Ok(())
    }
}

impl OpenFile {
    /// Opens the file, or makes an empty one.
    fn open(path: &Path) -> Result<Self> {
        let database = guarded(path, || Database::create(path).map_err(|e: DatabaseError| failed(path, e)))?;
        Ok(Self { path: path.to_path_buf(), database })
    }

    /// Reads the file into memory and opens that: changes nothing, and minds no lock. What a server is writing just then
    /// may look damaged.
    ///
    /// # Errors
    /// Of the disk, or `Damaged` with the file's name.
    pub(crate) fn copied(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path);
        let bytes =
            bytes.map_err(|e| Error::with(Code::Io, format!("reading {}", path.display())).caused_by(e))?;
        let copy = InMemoryBackend::new();
        let filled = copy.set_len(bytes.len() as u64).and_then(|()| copy.write(0, &bytes));
        filled.map_err(|e| Error::internal("a copy in memory cannot be filled").caused_by(e))?;
        let create = || Database::builder().create_with_backend(copy).map_err(|e| failed(path, e));
        let database = guarded(path, create)?;
        Ok(Self { path: path.to_path_buf(), database })
    }

    /// Compares every page with its checksum.
    ///
    /// # Errors
    /// `Damaged` with the file's name.
    pub(crate) fn check(&mut self) -> Result<()> {
        let database = &mut self.database;
        match guarded(&self.path, || database.check_integrity().map_err(|e| failed(&self.path, e)))? {
            true => Ok(()),
            false => Err(self.damaged("a page fails its checksum")),
        }
    }

    fn failed(&self, error: impl Into<redb::Error>) -> Error {
        failed(&self.path, error)
    }

    fn damaged(&self, what: impl Display) -> Error {
        Error::with(Code::Damaged, format!("{}: {what}", self.path.display()))
    }

    /// The header of the last checkpoint; `None` if none was stored.
    pub(crate) fn header(&self) -> Result<Option<Header>> {
        guarded(&self.path, || self.read_header())
    }

    fn read_header(&self) -> Result<Option<Header>> {
        let read = self.database.begin_read().map_err(|e| self.failed(e))?;
        let about = match read.open_table(ABOUT) {
            Ok(about) => about,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(e) => return Err(self.failed(e)),
        };
        let format = about.get(FORMAT_KEY).map_err(|e| self.failed(e))?.map(|format| format.value());
        match format {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                let what = format!("file={} format={newer} known={FORMAT}", self.path.display());
                return Err(Error::with(Code::NewerFormat, what));
            }
            other => return Err(self.damaged(format_args!("format={other:?}"))),
        }
        self.small(HEADER_KEY)
    }

    /// A value of the table of small ones, of a file that has one.
    fn small<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let read = self.database.begin_read().map_err(|e| self.failed(e))?;
        let values = read.open_table(HEADER).map_err(|e| self.failed(e))?;
        let value = values.get(key).map_err(|e| self.failed(e))?;
        value.map(|value| self.decode(value.value())).transpose()
    }

    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        postcard::from_bytes(bytes).map_err(|e| self.damaged(e))
    }

    /// Reads everything but the header into an empty state. After an error the state is good for nothing.
    ///
    /// # Errors
    /// Of the disk, or `Damaged` with the file's name.
    pub(crate) fn load(&self, state: &mut VnodeState) -> Result<()> {
        guarded(&self.path, || self.read_into(state))
    }

    fn read_into(&self, state: &mut VnodeState) -> Result<()> {
        if let Some(shown_end) = self.shown_end()? {
            state.restore_shown_end(shown_end);
        }
        if let Some(keep) = self.small(KEEP_KEY)? {
            state.restore_keep_version(keep);
        }
        self.each(STABLES, |uid, entry: StableEntry| state.stables.restore(TableUid(uid), entry))?;
        self.each(SCHEMAS, |(uid, _), schema: TableSchema| {
            state.stables.put_schema(TableUid(uid), schema.into())
        })?;
        self.each(TABLES, |_, entry: TableEntry| state.tables.put(entry))?;
        self.each(TOPICS, |_, topic: TopicDefinition| state.topics.restore(topic))?;
        self.each(GROUPS, |(topic, group), held: GroupState| {
            state.groups.restore((TopicId(topic), group.to_owned()), held);
        })
    }

    /// Absent from a checkpoint whose writer did not know it: then everything that was applied counts.
    fn shown_end(&self) -> Result<Option<Version>> {
        let read = self.database.begin_read().map_err(|e| self.failed(e))?;
        let about = read.open_table(ABOUT).map_err(|e| self.failed(e))?;
        let stored = about.get(SHOWN_END_KEY).map_err(|e| self.failed(e))?;
        Ok(stored.map(|stored| Version(stored.value())))
    }

    fn each<K: Key, T: DeserializeOwned>(
        &self,
        table: TableDefinition<'_, K, &'static [u8]>,
        mut take: impl for<'a> FnMut(K::SelfType<'a>, T),
    ) -> Result<()> {
        let read = self.database.begin_read().map_err(|e| self.failed(e))?;
        let table = match read.open_table(table) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(e) => return Err(self.failed(e)),
        };
        for entry in table.iter().map_err(|e| self.failed(e))? {
            let (key, value) = entry.map_err(|e| self.failed(e))?;
            take(key.value(), self.decode(value.value())?);
        }
        Ok(())
    }

    fn store(&self, header: &Header, snapshot: &Snapshot) -> Result<()> {
        let write = self.database.begin_write().map_err(|e| self.failed(e))?;
        {
            let mut about = write.open_table(ABOUT).map_err(|e| self.failed(e))?;
            about.insert(FORMAT_KEY, FORMAT).map_err(|e| self.failed(e))?;
            if let Some(marks) = &snapshot.marks {
                about.insert(SHOWN_END_KEY, marks.shown_end.0).map_err(|e| self.failed(e))?;
            }
        }
        self.put(&write, HEADER, [(HEADER_KEY, Some(header))])?;
        if let Some(marks) = &snapshot.marks {
            self.put(&write, HEADER, [(KEEP_KEY, marks.keep.as_ref())])?;
        }
        self.put(&write, STABLES, snapshot.stables.iter().map(|(uid, entry)| (uid.0, entry.as_ref())))?;
        self.put(&write, TABLES, snapshot.tables.iter().map(|(uid, entry)| (uid.0, entry.as_ref())))?;
        let schemas = snapshot.schemas.iter();
        self.put(
            &write,
            SCHEMAS,
            schemas.map(|((uid, version), schema)| ((uid.0, version.0), schema.as_deref())),
        )?;
        self.put(&write, TOPICS, snapshot.topics.iter().map(|(id, topic)| (id.0, topic.as_deref())))?;
        let groups = snapshot.groups.iter();
        self.put(
            &write,
            GROUPS,
            groups.map(|((topic, group), held)| ((topic.0, group.as_str()), held.as_ref())),
        )?;
        self.forget(&write, &snapshot.gone)?;
        write.commit().map_err(|e| self.failed(e))
    }

    fn put<'k, K: Key, T: Serialize + 'k>(
        &self,
        write: &WriteTransaction,
        table: TableDefinition<'_, K, &'static [u8]>,
        entries: impl IntoIterator<Item = (K::SelfType<'k>, Option<&'k T>)>,
    ) -> Result<()> {
        let mut table = write.open_table(table).map_err(|e| self.failed(e))?;
        for (key, entry) in entries {
            match entry {
                Some(entry) => {
                    let bytes =
                        postcard::to_stdvec(entry).map_err(|e| Error::internal("checkpoint").caused_by(e))?;
                    table.insert(key, bytes.as_slice()).map_err(|e| self.failed(e))?;
                }
                None => {
                    table.remove(key).map_err(|e| self.failed(e))?;
                }
            }
        }
        Ok(())
    }

    fn forget(&self, write: &WriteTransaction, owners: &[TableUid]) -> Result<()> {
        let mut stables = write.open_table(STABLES).map_err(|e| self.failed(e))?;
        let mut schemas = write.open_table(SCHEMAS).map_err(|e| self.failed(e))?;
        for owner in owners {
            stables.remove(owner.0).map_err(|e| self.failed(e))?;
            let all = (owner.0, SchemaVersion::default().0)..=(owner.0, u32::MAX);
            schemas.retain_in(all, |_, _| false).map_err(|e| self.failed(e))?;
        }
        Ok(())
    }
}

/// Runs something that reads or writes the file at `path`. Damaged bytes may lead redb to a panic.
fn guarded<T>(path: &Path, run: impl FnOnce() -> Result<T>) -> Result<T> {
    // Whoever gets an error lets go of what was used.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(Error::with(Code::Damaged, format!("checkpoint file={} cannot be made sense of", path.display())))
    })
}

fn failed(path: &Path, error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    Error::with(code_of(&error), format!("checkpoint file={} cause={error}", path.display())).caused_by(error)
}

const _: fn() = || {
    // Keys are part of the format.
    fn is_key<K: Key + Value>() {}
    is_key::<(u64, &str)>();
};
