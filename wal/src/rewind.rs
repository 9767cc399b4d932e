//! What moves the end of the log: a cut (Raft conflict), a reset (snapshot installed), healing after a failed sync.
//! None of them truncates or overwrites a file; each starts a segment whose header says where the one before it ends.

use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::batch::{Batch, Place};
use crate::error::{Result, WalError};
use crate::format::record::What;
use crate::format::segment::SegmentHeader;
use crate::log::Wal;
use crate::record::{NewRecord, SchemaBlock};
use crate::segment::Segment;
use crate::shared::Shared;
use crate::turn::Turn;
use crate::writer::{End, Tail, Writer, open_for_writing};
use crate::{LastRecord, Version};

impl Wal {
    /// Removes all versions from `from` on. Durable when it returns.
    ///
    /// # Errors
    /// [`WalError::Purged`] if `from` lies below the first version. After an I/O error
    /// [`next_version`](Self::next_version) tells whether the versions are still there. If not, they are gone for
    /// readers and appends, and the next append makes that durable; after a crash before it they may be back.
    pub fn cut_from(&self, from: Version, now_ns: i64) -> Result<()> {
        let (_turn, mut writer) = self.lock_all();
        self.shared.check_writable()?;
        if from >= self.shared.next() {
            return Ok(());
        }
        if from < self.shared.first() {
            return Err(WalError::Purged { version: from, first: self.shared.first() });
        }
        writer.move_end(&self.shared, from)?;
        writer.start_segment(&self.shared, now_ns)
    }

    /// Empties the log and lets it go on at `next`, with `before` as the record that stands before it: a snapshot has
    /// been installed. Durable when it returns.
    ///
    /// # Errors
    /// I/O errors. To readers and appends the log is reset all the same, and the next append tries again what failed;
    /// after a crash before that, the old log may be back, whole.
    pub fn reset(&self, next: Version, before: Option<LastRecord>, now_ns: i64) -> Result<()> {
        let (_turn, mut writer) = self.lock_all();
        self.shared.check_writable()?;
        let old = self.shared.segments();
        self.shared.publish_next(next);
        self.shared.publish_durable(next);
        self.shared.publish_segments(Vec::clear);
        writer.supersede(&old);
        writer.tail = None;
        writer.last = before;
        writer.anchored = true;
        writer.start_segment(&self.shared, now_ns)
    }

    /// Makes a log writable again that a failed sync has made read-only: reads the records that are not known to be
    /// durable, as far as the page cache has them, and stores them anew in another segment. Opening does the same if
    /// the process ended before.
    ///
    /// # Errors
    /// I/O errors; the log then stays read-only.
    pub fn heal(&self, now_ns: i64) -> Result<()> {
        let (_turn, mut writer) = self.lock_all();
        if !self.shared.is_poisoned() {
            return Ok(());
        }
        let durable = self.shared.durable_next();
        let records = self.read_back(durable)?;
        let Some(tail) = &writer.tail else { return Ok(()) };
        let (end, before) = end_before(&tail.segment, durable)?;
        let prev = tail.prev(end, durable);
        let mut header = writer.successor(&self.shared, now_ns, prev);
        header.first = durable;
        header.before = before;
        writer.store_anew(&self.shared, header, &records, end)?;
        self.shared.remove_doubt_mark()?;
        self.shared.set_poisoned(false);
        tracing::info!(dir = %self.shared.dir.display(), from = %durable, records = records.len(), "log healed");
        Ok(())
    }

    fn lock_all(&self) -> (Option<Turn<'_>>, MutexGuard<'_, Writer>) {
        // No sync serves this one.
        let turn = self.turns.take_unless(Version(u64::MAX), || false);
        (turn, self.writer.lock())
    }

    /// Records from `from` on, the first with all schemas of its segment: which of them a later record needs is for its
    /// owner to know.
    fn read_back(&self, from: Version) -> Result<Vec<NewRecord>> {
        let mut reader = self.reader(from);
        let mut records = Vec::new();
        while let Some(record) = reader.next()? {
            let mut schemas = Vec::new();
            if records.is_empty() {
                for key in record.segment.schema_keys()? {
                    schemas.extend(record.schema(key)?.map(|bytes| SchemaBlock { key, bytes }));
                }
            }
            let (term, time_ns, kind, flags) = (record.term, record.time_ns, record.kind, record.flags);
            records.push(NewRecord { term, time_ns, kind, flags, body: record.body, schemas });
        }
        Ok(records)
    }
}

impl Writer {
    /// Moves the end of the log to `from`, in memory; the segment started next makes it durable. Nothing has changed if
    /// this fails.
    fn move_end(&mut self, shared: &Shared, from: Version) -> Result<()> {
        let segments = shared.segments();
        let kept = segments.partition_point(|segment| segment.first() <= from);
        let (kept, dropped) = segments.split_at(kept);
        let Some(segment) = kept.last() else { return Ok(()) };
        let (end, before) = end_before(segment, from)?;
        let (file, reserved) = match &self.tail {
            Some(tail) if dropped.is_empty() => (tail.file.clone(), tail.reserved),
            _ => (Some(open_for_writing(shared, segment)?), 0),
        };
        shared.publish_next(from);
        shared.publish_durable(from.min(shared.durable_next()));
        shared.publish_segments(|all| all.truncate(kept.len()));
        self.supersede(dropped);
        segment.cut_index(end.offset);
        segment.publish_end(end.offset);
        self.last = before;
        let tail = Tail::new(Arc::clone(segment), end, end.offset, from);
        self.tail = Some(Tail { file, used: true, open: false, reserved, ..tail });
        Ok(())
    }

    /// Takes note of segments that are out of the log; whoever reads there looks its version up again.
    fn supersede(&mut self, segments: &[Arc<Segment>]) {
        segments.iter().for_each(|segment| segment.publish_end(0));
        self.superseded.extend_from_slice(segments);
    }

    /// Starts a segment that holds `records` from its beginning, in place of what the tail has behind `old_end`.
    fn store_anew(
        &mut self,
        shared: &Shared,
        header: SegmentHeader,
        records: &[NewRecord],
        old_end: End,
    ) -> Result<()> {
        let (seed, first) = (shared.options.seed(&header), header.first);
        let end = End::of_empty(seed);
        let mut batch = Batch::default();
        let place = Place { seed, offset: end.offset, chain: end.chain, version: first, durable_next: first };
        batch.encode(place, records, |_| false);
        let file = self.create(shared, &header, &batch.slices())?;
        if let Some(old) = &mut self.tail {
            old.segment.cut_index(old_end.offset);
            old.segment.publish_end(old_end.offset);
            old.end = old_end;
        }
        self.adopt(shared, header, file, end);
        self.batch = batch;
        self.publish(shared);
        self.batch.release();
        shared.publish_durable(shared.next());
        Ok(())
    }
}

/// The end that a segment has without `version` and what follows, and the record before that.
fn end_before(segment: &Segment, version: Version) -> Result<(End, Option<LastRecord>)> {
    let start = match version.prev() {
        Some(before) => segment.start_near(before)?,
        None => segment.start(),
    };
    let mut cursor = segment.cursor(start)?;
    let mut end = End::of_empty(segment.seed);
    let mut last = segment.header.before;
    let limit = segment.end();
    loop {
        let offset = cursor.offset();
        let block = cursor.block(limit).map_err(|stop| segment.stopped(stop, offset, version))?;
        let Some(block) = block.filter(|block| block.header.version < version) else {
            return Ok((end, last));
        };
        if let What::Record { term, .. } = block.header.what {
            last = Some(LastRecord { version: block.header.version, term, time_ns: block.header.time_ns });
        }
        end = End { offset: block.end(), last_offset: block.offset, chain: block.crc };
        cursor.pass(&block);
    }
}
