//! The log: what its owner calls.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::batch::{self, Batch};
use crate::disk::Disk;
use crate::error::{Result, WalError};
use crate::format::BODY_BYTES_MAX;
use crate::open::{self, OpenReport};
use crate::reader::{Reader, WalReader};
use crate::record::NewRecord;
use crate::retention::{self, Candidate, Retention};
use crate::salt::Salts;
use crate::shared::Shared;
use crate::turn::Turns;
use crate::writer::{Writer, sync_or_poison};
use crate::{LastRecord, Options, Rolling, Version};

/// A write-ahead log in one directory.
///
/// All methods take `&self`: appends and whatever else changes the log follow one another under a lock of the writer.
/// [`sync`](Self::sync) does not hold that lock while the disk works, so that appends go on and one fsync serves all
/// that were written before it. Readers take neither lock.
///
/// Dropping it syncs nothing: whoever shuts down calls [`sync`](Self::sync) before.
pub struct Wal {
    pub(crate) shared: Arc<Shared>,
    pub(crate) writer: Mutex<Writer>,
    /// Taken through an fsync, and by what moves the end of the log backwards. Before `writer`.
    pub(crate) turns: Turns,
}

/// How long a caller that must not block waits for the writer: an append takes less, and what takes longer waits for the
/// disk.
const PATIENCE: Duration = Duration::from_micros(500);

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendOutcome {
    /// Version of the first record of the batch.
    pub first: Version,
    /// Version after its last.
    pub next: Version,
    /// Every version below this one is durable. The batch itself is not before a [`Wal::sync`].
    pub durable_next: Version,
}

/// What retention did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainOutcome {
    /// Segments deleted.
    pub segments: usize,
    /// Bytes deleted.
    pub bytes: u64,
    /// The first version that is left.
    pub first: Version,
}

impl Wal {
    /// Opens the log in `dir`, creating the directory if need be. Checks every segment's header, scans the last
    /// segment, cuts a torn tail (and says so), and makes durable what it found. The caller sees to it that no other
    /// process writes here.
    ///
    /// A log that a failed sync had made read-only is healed; where the disk does not let that happen, because it is full
    /// say, the log is open for reading and [`is_poisoned`](Self::is_poisoned) until [`heal`](Self::heal) succeeds.
    ///
    /// # Errors
    /// I/O errors; damage, that is anything that a crash cannot explain; a newer format.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: Options,
        now_ns: i64,
    ) -> Result<(Self, OpenReport)> {
        let found = open::open(&disk, dir, &options)?;
        let salts = Salts::new(options.salt_seed ^ now_ns.cast_unsigned());
        let writer = Writer {
            tail: found.tail,
            last: found.last,
            expired: Vec::new(),
            retained: Version::default(),
            retained_reserved: false,
            superseded: Vec::new(),
            anchored: false,
            sequence: found.sequence,
            salts,
            batch: Batch::default(),
            rolling: options.rolling(),
        };
        let shared = Shared::new(disk, dir.to_path_buf(), options, found.segments, found.next);
        let wal = Self { shared: Arc::new(shared), writer: Mutex::new(writer), turns: Turns::new() };
        if let Some(durable_next) = found.doubtful_from {
            wal.shared.publish_durable(durable_next);
            wal.shared.set_poisoned(true);
            match wal.heal(now_ns) {
                Err(WalError::Io { op, file, source }) => {
                    let file = file.display();
                    tracing::error!(op, %file, error = %source, "log is read-only, its end may not be on disk");
                }
                healed => healed?,
            }
        }
        Ok((wal, found.report))
    }

    /// Appends records at `first`, which must be the next version; in a log that never had a record the caller chooses.
    /// The batch lies in one segment and goes out in one write. It is then visible to readers, and durable after the
    /// next [`sync`](Self::sync).
    ///
    /// # Errors
    /// [`WalError::Gap`], [`WalError::TimeFalls`], [`WalError::TooLarge`] refuse the batch before anything is written.
    /// After an I/O error none of it is visible, and the next append starts another segment; should the process end
    /// before that, records of the batch may yet be found at the next opening. [`WalError::Poisoned`] after a failed
    /// sync.
    pub fn append(&self, first: Version, records: &[NewRecord], now_ns: i64) -> Result<AppendOutcome> {
        self.append_locked(&mut self.writer.lock(), first, records, now_ns)
    }

    /// [`append`](Self::append) for a caller that must not wait for the disk: none, and nothing has happened, if a
    /// segment must be started for it or another call holds the log meanwhile.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn try_append(
        &self,
        first: Version,
        records: &[NewRecord],
        now_ns: i64,
    ) -> Result<Option<AppendOutcome>> {
        let Some(mut writer) = self.writer.try_lock_for(PATIENCE) else { return Ok(None) };
        if writer.must_roll(&self.shared, batch::bytes_max(records), now_ns) {
            return Ok(None);
        }
        self.append_locked(&mut writer, first, records, now_ns).map(Some)
    }

    fn append_locked(
        &self,
        writer: &mut Writer,
        first: Version,
        records: &[NewRecord],
        now_ns: i64,
    ) -> Result<AppendOutcome> {
        self.shared.check_writable()?;
        let durable_next = self.shared.durable_next();
        if records.is_empty() {
            return Ok(AppendOutcome { first, next: first, durable_next });
        }
        self.check(writer, first, records)?;
        if writer.tail.is_none() {
            self.shared.publish_next(first);
            self.shared.publish_durable(first);
        }
        if writer.must_roll(&self.shared, batch::bytes_max(records), now_ns) {
            writer.start_segment(&self.shared, now_ns)?;
        }
        let next = writer.write(&self.shared, records)?;
        Ok(AppendOutcome { first, next, durable_next: self.shared.durable_next() })
    }

    fn check(&self, writer: &Writer, first: Version, records: &[NewRecord]) -> Result<()> {
        let expected = self.shared.next();
        let ends = first.checked_add(records.len() as u64).is_some_and(|next| next.0 < u64::MAX);
        let blank = writer.tail.is_none() && !writer.anchored;
        if !ends || (!blank && first != expected) {
            return Err(WalError::Gap { expected, got: first });
        }
        let mut previous_ns = writer.last.map_or(i64::MIN, |last| last.time_ns);
        let mut version = first;
        for record in records {
            let time_ns = record.time_ns;
            if time_ns < previous_ns {
                return Err(WalError::TimeFalls { version, time_ns, previous_ns });
            }
            let schemas = record.schemas.iter().map(|schema| schema.bytes.len());
            let bytes = schemas.chain([record.body.len()]).max().unwrap_or(0);
            if bytes > BODY_BYTES_MAX {
                return Err(WalError::TooLarge { version, bytes, bytes_max: BODY_BYTES_MAX });
            }
            previous_ns = time_ns;
            version = version.next();
        }
        Ok(())
    }

    /// Makes all that was appended before the call durable and answers the version up to which (not included) the log
    /// is durable now. Calls that wait for one another share one fsync; with nothing new there is none.
    ///
    /// # Errors
    /// A failed fsync makes the log read-only, see [`heal`](Self::heal).
    pub fn sync(&self) -> Result<Version> {
        let wanted = self.shared.next();
        let served = || self.shared.durable_next() >= wanted || self.shared.is_poisoned();
        let Some(turn) = self.turns.take_unless(wanted, served) else {
            self.shared.check_writable()?;
            return Ok(self.shared.durable_next());
        };
        // Take what is there now, not only what was there when the call began: more waiters are served.
        let (next, file, segment) = {
            let mut writer = self.writer.lock();
            let Some(tail) = &mut writer.tail else { return Ok(self.shared.durable_next()) };
            (self.shared.next(), tail.file(&self.shared)?, Arc::clone(&tail.segment))
        };
        sync_or_poison(&self.shared, &*file, &segment)?;
        // A roll may have got further meanwhile; nothing moves back while the turn is held.
        self.shared.raise_durable(next);
        let durable = self.shared.durable_next();
        turn.serve(durable);
        Ok(durable)
    }

    /// Takes disk space for `bytes` of records ([`record_bytes`](crate::record_bytes) each) to come, so that a full
    /// disk shows before a proposal instead of in the middle of it. Count everything that is proposed and not yet
    /// appended.
    ///
    /// # Errors
    /// As [`append`](Self::append); [`WalError::is_out_of_space`] is the one to expect.
    pub fn reserve(&self, bytes: u64, now_ns: i64) -> Result<()> {
        let mut writer = self.writer.lock();
        self.shared.check_writable()?;
        if writer.tail.is_none() {
            return Ok(()); // the first append chooses the version and with it the name
        }
        if writer.must_roll(&self.shared, bytes, now_ns) {
            writer.start_segment(&self.shared, now_ns)?;
        }
        writer.reserve(&self.shared, bytes)
    }

    /// [`reserve`](Self::reserve) for a caller that must not wait for the disk: false, and nothing has happened, unless
    /// there is space that an earlier call took.
    ///
    /// # Errors
    /// [`WalError::Poisoned`] after a failed sync.
    pub fn try_reserve(&self, bytes: u64, now_ns: i64) -> Result<bool> {
        let Some(writer) = self.writer.try_lock_for(PATIENCE) else { return Ok(false) };
        self.shared.check_writable()?;
        Ok(writer.tail.is_none()
            || (!writer.must_roll(&self.shared, bytes, now_ns) && writer.has_reserved(bytes)))
    }

    /// Alters when segments are closed, from the next append on.
    pub fn set_rolling(&self, rolling: Rolling) {
        self.writer.lock().rolling = rolling;
    }

    /// Closes the segment if it holds anything; the next one starts at the next version.
    ///
    /// # Errors
    /// As [`sync`](Self::sync) and [`append`](Self::append).
    pub fn roll(&self, now_ns: i64) -> Result<()> {
        let mut writer = self.writer.lock();
        self.shared.check_writable()?;
        if writer.tail.as_ref().is_some_and(|tail| !tail.is_empty(self.shared.next())) {
            writer.start_segment(&self.shared, now_ns)?;
        }
        Ok(())
    }

    /// Lets go of file handles and memory that the log did not need since the last call. What was appended is made
    /// durable first: an fsync through a handle that is opened later could miss the failure of an earlier write. For a
    /// timer: an idle log then costs no handle, and of memory some hundred bytes a segment.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn rest(&self) -> Result<()> {
        let idle = self.writer.lock().tail.as_ref().is_some_and(|tail| !tail.used);
        if idle && !self.is_poisoned() {
            self.sync()?;
        }
        let mut writer = self.writer.lock();
        writer.rest(&self.shared);
        let segments = self.shared.segments();
        let closed = segments.split_last().map_or(&[][..], |(_, closed)| closed);
        closed.iter().for_each(|segment| segment.forget_index());
        Ok(())
    }

    /// Closes the segment if it is older than the roll period. For a timer; appends look for themselves.
    ///
    /// # Errors
    /// As [`roll`](Self::roll).
    pub fn roll_if_due(&self, now_ns: i64) -> Result<()> {
        let due = self.writer.lock().is_due(now_ns);
        if due { self.roll(now_ns) } else { Ok(()) }
    }

    /// Deletes closed segments past their retention that lie wholly below `below`, oldest first.
    ///
    /// # Errors
    /// I/O errors. What could not be deleted is out of the log all the same, and tried again the next time; until then
    /// another opening would find it.
    pub fn retain(&self, now_ns: i64, below: Version, retention: Retention) -> Result<RetainOutcome> {
        let mut writer = self.writer.lock();
        writer.delete_expired(&self.shared)?;
        let (count, bytes) = self.past_retention(now_ns, below, retention);
        // Readers first: they find a version with its file, or learn that it is gone.
        self.shared.publish_segments(|all| writer.expired.extend(all.drain(..count)));
        writer.delete_expired(&self.shared)?;
        Ok(RetainOutcome { segments: count, bytes, first: self.shared.first() })
    }

    /// How many segments are past their retention, and their bytes.
    fn past_retention(&self, now_ns: i64, below: Version, retention: Retention) -> (usize, u64) {
        let segments = self.shared.segments();
        let total = segments.iter().map(|segment| segment.end()).sum();
        let pairs = segments.iter().zip(segments.iter().skip(1));
        let closed = pairs.take_while(|(_, next)| next.first() <= below);
        let candidates: Vec<_> = closed
            .map(|(segment, next)| Candidate { bytes: segment.end(), closed_ns: next.header.created_ns })
            .collect();
        let count = retention::count_expired(&candidates, total, now_ns, retention);
        (count, candidates.iter().take(count).map(|candidate| candidate.bytes).sum())
    }

    /// Whether [`roll_if_due`](Self::roll_if_due), [`rest`](Self::rest) or [`retain`](Self::retain) have anything to do.
    /// Does not wait for the disk: a timer over a thousand idle logs asks this first.
    #[must_use]
    pub fn needs_upkeep(&self, now_ns: i64, below: Version, retention: Retention) -> bool {
        let Some(writer) = self.writer.try_lock() else { return true };
        if !writer.is_at_rest(&self.shared, now_ns) {
            return true;
        }
        let segments = self.shared.segments();
        let closed = segments.split_last().map_or(&[][..], |(_, closed)| closed);
        closed.iter().any(|segment| segment.has_index())
            || self.past_retention(now_ns, below, retention).0 > 0
    }

    /// Whether segments that are past their retention would go if records below `reachable`, and not only those below
    /// `below`, were not needed. Does not wait for the disk.
    #[must_use]
    pub fn holds_back(&self, now_ns: i64, below: Version, reachable: Version, retention: Retention) -> bool {
        self.past_retention(now_ns, reachable, retention).0 > self.past_retention(now_ns, below, retention).0
    }

    /// A reader that starts at `from`.
    #[must_use]
    pub fn reader(&self, from: Version) -> Reader {
        self.handle().reader(from)
    }

    /// A handle that makes readers and tells positions, for other threads.
    #[must_use]
    pub fn handle(&self) -> WalReader {
        WalReader::new(Arc::clone(&self.shared))
    }

    /// See [`WalReader::first_version`].
    #[must_use]
    pub fn first_version(&self) -> Version {
        self.shared.first()
    }

    /// See [`WalReader::next_version`].
    #[must_use]
    pub fn next_version(&self) -> Version {
        self.shared.next()
    }

    /// See [`WalReader::durable_next`].
    #[must_use]
    pub fn durable_next(&self) -> Version {
        self.shared.durable_next()
    }

    /// The last record that was appended, also when retention has deleted it since; none in a log that never had one.
    #[must_use]
    pub fn last(&self) -> Option<LastRecord> {
        self.writer.lock().last
    }

    /// Whether a failed sync has made the log read-only.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.shared.is_poisoned()
    }

    /// How many segments there are, and their bytes.
    #[must_use]
    pub fn size(&self) -> Size {
        let segments = self.shared.segments();
        Size { segments: segments.len(), bytes: segments.iter().map(|segment| segment.end()).sum() }
    }
}

/// Size of a log on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Segment files.
    pub segments: usize,
    /// Bytes up to their logical ends.
    pub bytes: u64,
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wal")
            .field("dir", &self.shared.dir)
            .field("first", &self.first_version())
            .field("next", &self.next_version())
            .field("durable_next", &self.durable_next())
            .finish_non_exhaustive()
    }
}
