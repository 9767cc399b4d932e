//! The log as openraft asks for it: the WAL, a file for the vote, and a file for what Raft has given up.
//!
//! Records that are not applied yet are kept at hand, so that openraft's reads of them ask no disk. Writes go to the page
//! cache and are made right here, on the core's task; what waits for the disk (fsync, a new segment) goes to a blocking
//! thread.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use model::{Error, Result};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use parking_lot::Mutex;
use wal::{Disk, Kind, LastRecord, NewRecord, Reader, Version};

use crate::entry::{Content, Entry};
use crate::error::{of_io, of_wal, to_read_error, to_vote_error, to_write_error};
use crate::format;
use crate::shared::Shared;
use crate::types::{LogId, StorageError, TypeConfig, Vote, log_id};

/// The one writer of a group's log.
pub(crate) struct LogStore {
    shared: Arc<Shared>,
    reader: LogReader,
    /// Time of the last record: the next one is not older.
    last_time_ns: i64,
    /// Memory of the batch before.
    batch: Vec<NewRecord>,
}

/// Reads entries for openraft.
pub(crate) struct LogReader {
    shared: Arc<Shared>,
    recent: Arc<Mutex<Recent>>,
    /// Where the last read ended, since the next one mostly goes on there.
    from_disk: Option<Reader>,
}

/// The last entries of the log, those that are not applied yet at least: their versions have no gaps and end with the
/// log.
#[derive(Default)]
struct Recent {
    entries: VecDeque<Entry>,
}

impl Recent {
    /// The entries from `from` up to `end`, if they are all here.
    fn get(&self, from: Version, end: Version) -> Option<Vec<Entry>> {
        let first = self.entries.front()?.log_id.index;
        let skip = usize::try_from(from.get().checked_sub(first)?).ok()?;
        let count = usize::try_from(end.get().saturating_sub(from.get())).ok()?;
        let end = skip.checked_add(count).filter(|end| *end <= self.entries.len())?;
        Some(self.entries.range(skip..end).cloned().collect())
    }

    fn drop_below(&mut self, version: Version) {
        while self.entries.front().is_some_and(|entry| entry.log_id.index < version.get()) {
            self.entries.pop_front();
        }
    }

    fn drop_from(&mut self, version: Version) {
        while self.entries.back().is_some_and(|entry| entry.log_id.index >= version.get()) {
            self.entries.pop_back();
        }
    }
}

impl LogStore {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let last_time_ns = shared.wal.last().map_or(i64::MIN, |last| last.time_ns);
        let reader = LogReader { shared: Arc::clone(&shared), recent: Arc::default(), from_disk: None };
        Self { shared, reader, last_time_ns, batch: Vec::new() }
    }

    /// Writes a batch and keeps it at hand.
    async fn write(&mut self, mut entries: Vec<Entry>) -> Result<()> {
        // What Raft has given up it would not see again: nothing to store. Only openraft's storage suite does this.
        let floor_next = self.shared.floor_next();
        entries.retain(|entry| entry.log_id.index >= floor_next.get());
        let Some(first) = entries.first().map(|entry| Version(entry.log_id.index)) else { return Ok(()) };
        let now_ns = self.shared.clock.now_ns();
        self.batch.clear();
        let mut time_ns = self.last_time_ns;
        for entry in &entries {
            let record = to_record(entry, now_ns, &mut time_ns)?;
            self.batch.push(record);
        }
        let bytes = self.batch.iter().map(|record| wal::record_bytes(record.body.len())).sum();
        if self.shared.wal.try_append(first, &self.batch, now_ns).map_err(of_wal)?.is_none() {
            // A segment is started first, or another thread is about it: that waits for the disk.
            let batch = std::mem::take(&mut self.batch);
            let append = move |shared: &Shared| {
                shared.wal.append(first, &batch, now_ns).map_err(of_wal)?;
                Ok(batch)
            };
            self.batch = self.shared.blocking(append).await?;
        }
        self.last_time_ns = time_ns;
        self.shared.syncer.written(bytes);
        let applied = self.shared.progress.lock().next();
        let mut recent = self.reader.recent.lock();
        recent.drop_below(applied);
        for entry in entries {
            if let Content::Proposed(proposed) = &entry.content {
                proposed.written();
            }
            recent.entries.push_back(entry);
        }
        Ok(())
    }
}

/// The record of an entry; `time_ns` is that of the record before and then its own.
fn to_record(entry: &Entry, now_ns: i64, time_ns: &mut i64) -> Result<NewRecord> {
    let term = entry.log_id.leader_id.term;
    let (kind, flags, own_ns, body, schemas) = match &entry.content {
        Content::Noop => (Kind::Noop, 0, now_ns, Bytes::new(), Vec::new()),
        Content::Membership(membership) => {
            (Kind::Membership, 0, now_ns, format::encode_membership(membership)?.into(), Vec::new())
        }
        Content::Proposed(proposed) => {
            let p = &proposed.proposal;
            (p.kind, p.flags, p.time_ns, p.body.clone(), p.schemas.clone())
        }
        Content::Record => return Err(Error::internal("entries of another node cannot be appended yet")),
    };
    *time_ns = own_ns.max(*time_ns);
    Ok(NewRecord { term, time_ns: *time_ns, kind, flags, body, schemas })
}

/// The entry of a record.
pub(crate) fn to_entry(record: wal::Record) -> Result<Entry> {
    let content = match record.kind {
        Kind::Noop => Content::Noop,
        Kind::Membership => Content::Membership(format::decode_membership(&record.body)?),
        _ => Content::Record,
    };
    Ok(Entry { log_id: log_id(record.version, record.term), content, record: Some(record) })
}

impl LogReader {
    fn read(&mut self, from: Version, end: Version) -> Result<Vec<Entry>> {
        if from >= end {
            return Ok(Vec::new());
        }
        if let Some(entries) = self.recent.lock().get(from, end) {
            return Ok(entries);
        }
        let reader = self.from_disk.get_or_insert_with(|| self.shared.wal.reader(from));
        reader.seek(from);
        let mut entries = Vec::new();
        while reader.position() < end {
            match reader.next() {
                Ok(Some(record)) => entries.push(to_entry(record)?),
                Ok(None) => break,
                Err(e) => {
                    self.from_disk = None;
                    return Err(of_wal(e));
                }
            }
        }
        Ok(entries)
    }
}

impl RaftLogReader<TypeConfig> for LogReader {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        let from = match range.start_bound() {
            Bound::Included(at) => Version(*at),
            Bound::Excluded(at) => Version(*at).next(),
            Bound::Unbounded => Version::ZERO,
        };
        let end = match range.end_bound() {
            Bound::Included(at) => Version(*at).next(),
            Bound::Excluded(at) => Version(*at),
            Bound::Unbounded => Version(u64::MAX),
        };
        // What Raft has given up is not there for it, whether or not the log still holds it.
        let from = from.max(self.shared.floor_next()).max(self.shared.wal.first_version());
        let end = end.min(self.shared.wal.next_version());
        self.read(from, end).map_err(|e| self.shared.ends_core(e, to_read_error))
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        self.reader.try_get_log_entries(range).await
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let floor = *self.shared.floor.lock();
        let last = self.shared.wal.last().map(|last| log_id(last.version, last.term));
        Ok(LogState { last_purged_log_id: floor, last_log_id: last.max(floor) })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        let (shared, recent) = (Arc::clone(&self.shared), Arc::clone(&self.reader.recent));
        LogReader { shared, recent, from_disk: None }
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        save_vote(&self.shared, *vote).await.map_err(|e| self.shared.ends_core(e, to_vote_error))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(*self.shared.vote.lock())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        // Not stored, only shown: what a group of one has in its log is committed, and others will tell.
        if let Some(committed) = committed {
            let next = Version(committed.index).next().get();
            self.shared.committed_next.fetch_max(next, std::sync::atomic::Ordering::AcqRel);
        }
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TypeConfig>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let written = self.write(entries.into_iter().collect()).await;
        written.map_err(|e| self.shared.ends_core(e, to_write_error))?;
        // With one voter an fsync is awaited by those who wait for an answer (`syncer`), not by Raft.
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, since: LogId) -> Result<(), StorageError> {
        let from = Version(since.index);
        self.reader.recent.lock().drop_from(from);
        self.reader.from_disk = None;
        let cut = self
            .shared
            .blocking(move |shared| shared.wal.cut_from(from, shared.clock.now_ns()).map_err(of_wal));
        cut.await.map_err(|e| self.shared.ends_core(e, to_write_error))?;
        self.last_time_ns = self.shared.wal.last().map_or(i64::MIN, |last| last.time_ns);
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), StorageError> {
        let floor = *self.shared.floor.lock();
        if Some(upto) <= floor {
            return Ok(());
        }
        self.last_time_ns = self.last_time_ns.max(0);
        let time_ns = self.last_time_ns;
        let purged = self.shared.blocking(move |shared| purge(shared, upto, time_ns)).await;
        purged.map_err(|e| self.shared.ends_core(e, to_write_error))?;
        self.reader.recent.lock().drop_below(self.shared.floor_next());
        Ok(())
    }
}

/// Raises the floor. If the log ends below it, the log goes on behind it, empty.
fn purge(shared: &Shared, upto: LogId, time_ns: i64) -> Result<()> {
    let next = Version(upto.index).next();
    if next > shared.wal.next_version() {
        let before = LastRecord { version: Version(upto.index), term: upto.leader_id.term, time_ns };
        shared.wal.reset(next, Some(before), shared.clock.now_ns()).map_err(of_wal)?;
    }
    store_floor(shared, upto)?;
    *shared.floor.lock() = Some(upto);
    Ok(())
}

/// Notes on disk that a checkpoint holds everything up to `upto`, so that Raft may give it up. Blocks.
pub(crate) fn store_floor(shared: &Shared, upto: LogId) -> Result<()> {
    let mut stored = shared.floor_stored.lock();
    if *stored < Some(upto) {
        let path = shared.dir.join(FLOOR_FILE);
        wal::write_file_atomic(&*shared.disk, &path, &format::encode_floor(&upto))
            .map_err(|e| of_io("raft floor is not stored", e))?;
        *stored = Some(upto);
        // The next floor lets retention make room, perhaps on a full disk.
        if let Err(error) = wal::reserve_replacement(&*shared.disk, &path, format::FLOOR_BYTES) {
            tracing::debug!(group = shared.group, %error, "no space taken for the next floor");
        }
    }
    Ok(())
}

const VOTE_FILE: &str = "vote";
pub(crate) const FLOOR_FILE: &str = "floor";

/// Stores a vote unless it says no more than the stored one, after everything that is in the log: an election must not
/// rest on records that a crash takes away.
async fn save_vote(shared: &Arc<Shared>, vote: Vote) -> Result<()> {
    let stored = *shared.vote.lock();
    if stored.is_some_and(|stored| stored.leader_id() == vote.leader_id()) {
        return Ok(());
    }
    let store = move |shared: &Shared| {
        shared.wal.sync().map_err(of_wal)?;
        wal::write_file_atomic(&*shared.disk, &shared.dir.join(VOTE_FILE), &format::encode_vote(&vote))
            .map_err(|e| of_io("raft vote is not stored", e))?;
        *shared.vote.lock() = Some(Vote { committed: false, ..vote });
        Ok(())
    };
    shared.blocking(store).await
}

/// Vote and floor as they are stored in a group's folder. Blocks.
///
/// # Errors
/// I/O errors; [`Code::Damaged`](model::Code::Damaged) with the file's name.
pub(crate) fn stored(disk: &dyn Disk, dir: &Path) -> Result<(Option<Vote>, Option<LogId>)> {
    fn read<T>(disk: &dyn Disk, path: &Path, decode: impl Fn(&[u8]) -> Result<T>) -> Result<Option<T>> {
        let content = wal::read_file(disk, path).map_err(|e| of_io("raft state is not readable", e))?;
        let decoded = content.map(|bytes| decode(&bytes)).transpose();
        decoded.map_err(|error| {
            Error::text(error.code(), format!("{}: path={}", error.message(), path.display()))
                .hint("remove the file: it is made anew from the log")
        })
    }
    let vote = read(disk, &dir.join(VOTE_FILE), format::decode_vote)?;
    Ok((vote, read(disk, &dir.join(FLOOR_FILE), format::decode_floor)?))
}

/// Reads vote and floor. Blocks.
pub(crate) fn load(shared: &Shared) -> Result<()> {
    let (vote, floor) = stored(&*shared.disk, &shared.dir)?;
    // A term is never used twice, not even where the vote was lost with its file.
    let in_log = shared.wal.last().map(|last| Vote::new(last.term, shared.node));
    let term = |vote: &Option<Vote>| vote.map(|vote| vote.leader_id().term);
    *shared.vote.lock() = if term(&in_log) > term(&vote) { in_log } else { vote };
    // Retention deletes below the floor only, but a log may have been copied without the file.
    let before = shared.wal.handle().before_first().map(|before| log_id(before.version, before.term));
    *shared.floor_stored.lock() = floor;
    *shared.floor.lock() = floor.max(before);
    Ok(())
}
