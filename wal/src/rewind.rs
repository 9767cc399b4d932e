//! What moves the end of the log: a cut (Raft conflict), a reset (snapshot installed), healing after a failed sync.
//! None of them truncates or overwrites a file; each starts a segment whose header says where the one before it ends.

use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::batch::{Batch, Place};
use crate::disk::Access;
use crate::error::{Result, WalError};
use crate::format::record::What;
use crate::format::segment::{PrevSegment, SegmentHeader};
use crate::log::Wal;
use crate::record::{NewRecord, SchemaBlock};
use crate::segment::Segment;
use crate::shared::Shared;
use crate::writer::{End, Tail, Writer};
use crate::{LastRecord, Version};

impl Wal {
    /// Removes all versions from `from` on. Durable when it returns.
    ///
    /// # Errors
    /// [`WalError::Purged`] if `from` lies below the first version. After an I/O error some of the versions may be left;
    /// the log is whole, and [`next_version`](Self::next_version) tells where it ends.
    pub fn cut_from(&self, from: Version, now_ns: i64) -> Result<()> {
        let (_syncing, mut writer) = self.lock_all();
        self.shared.check_writable()?;
        if from >= self.shared.next() {
            return Ok(());
        }
        if from < self.shared.first() {
            return Err(WalError::Purged { version: from, first: self.shared.first() });
        }
        writer.drop_segments_above(&self.shared, from)?;
        writer.cut_tail(&self.shared, from)?;
        writer.start_segment(&self.shared, now_ns)
    }

    /// Empties the log and lets it go on at `next`, with `before` as the record that stands before it: a snapshot has
    /// been installed. Durable when it returns.
    ///
    /// # Errors
    /// I/O errors; the log is then whole or empty, never with a hole.
    pub fn reset(&self, next: Version, before: Option<LastRecord>, now_ns: i64) -> Result<()> {
        let (_syncing, mut writer) = self.lock_all();
        self.shared.check_writable()?;
        // Names at or above the new one first, then the new one, then the rest: every crash in between leaves a log.
        writer.drop_segments_above(&self.shared, next)?;
        if writer.tail.as_ref().is_some_and(|tail| tail.segment.first() == next) {
            writer.cut_tail(&self.shared, next)?;
        }
        let old = self.shared.segments();
        self.shared.publish_next(next);
        self.shared.publish_durable(next);
        writer.last = before;
        let header = writer.successor(&self.shared, now_ns, None);
        let file = writer.create(&self.shared, &header, &[])?;
        writer.adopt(&self.shared, header, file, End::of_empty(header.seed()));
        for segment in old.iter().filter(|segment| segment.first() != next) {
            self.shared.publish_segments(|all| all.retain(|other| other.first() != segment.first()));
            segment.publish_end(0);
            self.shared.delete(segment)?;
        }
        Ok(())
    }

    /// Makes a log writable again that a failed sync has made read-only: reads the records that are not known to be
    /// durable, as far as the page cache has them, and stores them anew in another segment.
    ///
    /// # Errors
    /// I/O errors; the log then stays read-only.
    pub fn heal(&self, now_ns: i64) -> Result<()> {
        let (_syncing, mut writer) = self.lock_all();
        if !self.shared.is_poisoned() {
            return Ok(());
        }
        let durable = self.shared.durable_next();
        let records = self.read_back(durable)?;
        let Some(tail) = &writer.tail else { return Ok(()) };
        let (end, before) = end_before(&tail.segment, durable)?;
        let prev = if end.offset == End::of_empty(0).offset {
            tail.segment.header.prev
        } else {
            let first = tail.segment.first();
            Some(PrevSegment { first, end: end.offset, last_offset: end.last_offset, last_crc: end.chain })
        };
        let mut header = writer.successor(&self.shared, now_ns, prev);
        header.first = durable;
        header.before = before;
        writer.store_anew(&self.shared, header, &records, end)?;
        self.shared.set_poisoned(false);
        tracing::info!(dir = %self.shared.dir.display(), from = %durable, records = records.len(), "log healed");
        Ok(())
    }

    fn lock_all(&self) -> (MutexGuard<'_, ()>, MutexGuard<'_, Writer>) {
        let syncing = self.syncing.lock();
        (syncing, self.writer.lock())
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
    /// Removes segments that start above `from`, newest first, so that a crash leaves no hole. After each the log simply
    /// ends earlier.
    fn drop_segments_above(&mut self, shared: &Shared, from: Version) -> Result<()> {
        while let Some(segment) = shared.segments().last().filter(|segment| segment.first() > from).cloned() {
            shared.delete(&segment)?;
            shared.publish_end_at(segment.first());
            shared.publish_segments(|segments| {
                segments.pop();
            });
            segment.publish_end(0);
            self.last = segment.header.before;
            self.tail = None;
            self.tail = match (shared.segments().last(), segment.header.prev) {
                (Some(last), Some(prev)) => Some(reopen(shared, last, prev)?),
                _ => None,
            };
        }
        Ok(())
    }

    /// Moves the end of the last segment to `from`, in memory; the segment started next makes it durable.
    fn cut_tail(&mut self, shared: &Shared, from: Version) -> Result<()> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        if from < shared.next() {
            let (end, before) = end_before(&tail.segment, from)?;
            shared.publish_end_at(from);
            tail.segment.cut_index(end.offset);
            tail.segment.publish_end(end.offset);
            tail.end = end;
            tail.open = false;
            self.last = before;
        }
        Ok(())
    }

    /// Starts a segment that holds `records` from its beginning, in place of what the tail has behind `old_end`.
    fn store_anew(
        &mut self,
        shared: &Shared,
        header: SegmentHeader,
        records: &[NewRecord],
        old_end: End,
    ) -> Result<()> {
        let (seed, first) = (header.seed(), header.first);
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

impl Shared {
    /// Makes the log end at `next`, for readers and for durability.
    fn publish_end_at(&self, next: Version) {
        self.publish_next(next);
        self.publish_durable(next.min(self.durable_next()));
    }
}

/// A closed segment as the last one again. It stays closed: what lies behind its end is unknown here.
fn reopen(shared: &Shared, segment: &Arc<Segment>, prev: PrevSegment) -> Result<Tail> {
    let path = segment.path();
    let file = shared.disk.open(path, Access::Write).map_err(WalError::io("open segment", path))?;
    let end = End { offset: prev.end, last_offset: prev.last_offset, chain: prev.last_crc };
    Ok(Tail { segment: Arc::clone(segment), file, end, open: false, reserved: 0 })
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
