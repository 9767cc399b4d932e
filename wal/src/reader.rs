//! Reading: any number of readers beside one writer.

use std::fmt;
use std::sync::Arc;

use crate::buffer::ReadBuffer;
use crate::cursor::{Cursor, Start};
use crate::disk::DiskFile;
use crate::error::{Result, WalError};
use crate::format::record::What;
use crate::record::Record;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::watermark::Passed;
use crate::{LastRecord, Version};

/// How often a reader looks again for a segment that vanished between finding and opening it.
const LOOKUPS_MAX: usize = 8;

/// A cheap handle for reading a log from other threads.
#[derive(Clone, Debug)]
pub struct WalReader {
    shared: Arc<Shared>,
}

impl WalReader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// A reader that starts at `from`, which may also be the next version to be appended or a later one. The files are
    /// first touched by [`Reader::next`].
    #[must_use]
    pub fn reader(&self, from: Version) -> Reader {
        Reader { shared: Arc::clone(&self.shared), at: from, position: None, spare: ReadBuffer::default() }
    }

    /// The record at `version`; none if it has not been appended yet. For several in a row use a [`Reader`].
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn get(&self, version: Version) -> Result<Option<Record>> {
        self.reader(version).next()
    }

    /// Term and time of the record at `version`, without reading its body; none if it has not been appended yet. Also
    /// answers for the version just before the first that is left, as long as its successor's segment knows it.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn identity(&self, version: Version) -> Result<Option<LastRecord>> {
        if let Some(before) = self.before_first().filter(|before| before.version == version) {
            return Ok(Some(before));
        }
        self.reader(version).next_identity()
    }

    /// The first version that can be read, or the next one if the log is empty.
    #[must_use]
    pub fn first_version(&self) -> Version {
        self.shared.first()
    }

    /// The version that the next append gets. Every version from the first up to, not including, this one can be read.
    #[must_use]
    pub fn next_version(&self) -> Version {
        self.shared.next()
    }

    /// Every version below this one is on disk for certain. Never above [`next_version`](Self::next_version).
    #[must_use]
    pub fn durable_next(&self) -> Version {
        self.shared.durable_next()
    }

    /// The record before [`first_version`](Self::first_version), known after retention has deleted it or a reset named
    /// it: Raft's last purged log id.
    #[must_use]
    pub fn before_first(&self) -> Option<LastRecord> {
        self.shared.segments().first().and_then(|segment| segment.header.before)
    }

    /// The first version whose record was received at `time_ns` or later; the next version if there is none.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn version_at_time(&self, time_ns: i64) -> Result<Version> {
        let segments = self.shared.segments();
        // A segment's successor knows the time of its last record: skip those that end too early.
        let ends = segments.iter().skip(1);
        let early =
            ends.take_while(|next| next.header.before.is_none_or(|last| last.time_ns < time_ns)).count();
        let Some(segment) = segments.get(early) else { return Ok(self.shared.next()) };
        let mut reader = self.reader(segment.version_before_time(time_ns)?);
        while let Some(record) = reader.next_identity()? {
            if record.time_ns >= time_ns {
                return Ok(record.version);
            }
        }
        Ok(reader.at)
    }
}

/// Reads records one after the other. Sees exactly the versions below the published
/// [`next_version`](WalReader::next_version); at the end it answers `None` and goes on when more was appended.
///
/// A reader in the middle of a segment that retention deletes finishes that segment. A reader that is past a point
/// where the log is cut (Raft conflict) goes on at its version in the new history; readers that stay below the
/// committed version never see that, since Raft cuts nothing committed.
pub struct Reader {
    shared: Arc<Shared>,
    at: Version,
    position: Option<Position>,
    /// Buffer of the position before a seek.
    spare: ReadBuffer,
}

struct Position {
    segment: Arc<Segment>,
    cursor: Cursor,
}

impl Reader {
    /// The version that [`next`](Self::next) reads.
    #[must_use]
    pub fn position(&self) -> Version {
        self.at
    }

    /// Goes to another version.
    pub fn seek(&mut self, version: Version) {
        if version != self.at {
            self.at = version;
            if let Some(position) = self.position.take() {
                self.spare = position.cursor.into_buffer();
            }
        }
    }

    /// The next record; none at the end of what has been appended. Blocks for disk reads only.
    ///
    /// # Errors
    /// [`WalError::Purged`] if retention has deleted the version, I/O errors, damage, and kinds of a later release. The
    /// reader stays where it is.
    #[allow(clippy::should_implement_trait, reason = "fallible, and not at its end after None")]
    pub fn next(&mut self) -> Result<Option<Record>> {
        self.advance(|position, block, limit| {
            let What::Record { term, kind, flags } = block.header.what else { return Ok(None) };
            let body = position
                .cursor
                .body(block, limit)
                .map_err(|stop| position.segment.stopped(stop, block.offset, block.header.version))?;
            let segment = Arc::clone(&position.segment);
            let (version, time_ns) = (block.header.version, block.header.time_ns);
            Ok(Some(Record { version, term, time_ns, kind, flags, body, segment }))
        })
    }

    /// Passes the next record without reading its body.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_identity(&mut self) -> Result<Option<LastRecord>> {
        self.advance(|_, block, _| {
            let What::Record { term, .. } = block.header.what else { return Ok(None) };
            Ok(Some(LastRecord { version: block.header.version, term, time_ns: block.header.time_ns }))
        })
    }

    /// Waits until there is something to read: at once, or with the append of the version that this reader stands at.
    /// No wake-up is missed, and nothing polls.
    pub fn ready(&self) -> Passed<'_> {
        self.shared.next.passed(self.at)
    }

    /// Finds the block of the record at `self.at`, hands it to `take` and moves behind it.
    fn advance<T>(
        &mut self,
        take: impl FnOnce(&mut Position, &crate::cursor::Block, u64) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            // First the version, then the end of the segment: what is published in the other order is then covered.
            if self.at >= self.shared.next() {
                return Ok(None);
            }
            let mut position = match self.position.take() {
                Some(position) if position.cursor.offset() < position.segment.end() => position,
                old => self.locate(old)?,
            };
            let limit = position.segment.end();
            let offset = position.cursor.offset();
            let block = position.cursor.block(limit);
            let block = block.map_err(|stop| position.segment.stopped(stop, offset, self.at))?;
            let Some(block) = block else { continue }; // cut meanwhile: look again
            match block.header.what {
                What::Unknown(kind) => return Err(position.segment.unknown_kind(&block, kind)),
                What::Record { .. } if block.header.version == self.at => {
                    let taken = take(&mut position, &block, limit)?;
                    position.cursor.pass(&block);
                    self.position = Some(position);
                    self.at = self.at.next();
                    return Ok(taken);
                }
                What::Record { .. } | What::Schema(_) => position.cursor.pass(&block),
            }
            self.position = Some(position);
        }
    }

    /// Opens the segment of `self.at`, near that version. Uses the buffer of the position before.
    fn locate(&mut self, mut old: Option<Position>) -> Result<Position> {
        let mut tries = 0;
        loop {
            let segment = self.shared.segment_of(self.at)?;
            let opened = segment.start_near(self.at).and_then(|start| Ok((segment.file()?, start)));
            match opened {
                Ok((file, start)) => return Ok(self.place(segment, file, start, old.take())),
                // deleted or replaced since it was looked up
                Err(WalError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound && tries < LOOKUPS_MAX => {}
                Err(e) => return Err(e),
            }
            tries += 1;
        }
    }

    fn place(
        &mut self,
        segment: Arc<Segment>,
        file: Arc<dyn DiskFile>,
        start: Start,
        old: Option<Position>,
    ) -> Position {
        let cursor = match old {
            Some(mut old) => {
                old.cursor.restart(file, segment.seed, start);
                old.cursor
            }
            None => {
                let cursor = Cursor::new(file, segment.seed, start, self.shared.options.read_bytes);
                cursor.with_buffer(std::mem::take(&mut self.spare))
            }
        };
        Position { segment, cursor }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("at", &self.at).finish_non_exhaustive()
    }
}
