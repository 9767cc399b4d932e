//! The appending side: one open segment at the end of the log, and how the next one is started.

use std::io::IoSlice;
use std::sync::Arc;

use crate::batch::{Batch, Place};
use crate::disk::{DiskFile, temp_path, write_all_at};
use crate::error::{Result, WalError};
use crate::format::record::What;
use crate::format::segment::{HEADER_BYTES, PrevSegment, SegmentHeader, file_name};
use crate::index::Index;
use crate::record::NewRecord;
use crate::salt::Salts;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::{LastRecord, Rolling, Version};

/// Disk space is taken in steps of this.
const RESERVE_BYTES: u64 = 1 << 20;

/// State of the one writer. Owned by whoever holds the log's writer lock.
pub(crate) struct Writer {
    /// The last segment; none in a log that never had one.
    pub(crate) tail: Option<Tail>,
    /// The last record of the log, also if it is no longer there.
    pub(crate) last: Option<LastRecord>,
    /// Segments that retention took out of the log and whose files are still to be deleted, oldest first.
    pub(crate) expired: Vec<Arc<Segment>>,
    /// Segments that a cut or a reset took out of the log. Their files go once the segment is there that supersedes
    /// them.
    pub(crate) superseded: Vec<Arc<Segment>>,
    /// Whether the next version is fixed though there is no segment: a reset said so.
    pub(crate) anchored: bool,
    /// Number of the next segment.
    pub(crate) sequence: u64,
    pub(crate) salts: Salts,
    pub(crate) batch: Batch,
    pub(crate) rolling: Rolling,
}

/// The last segment.
pub(crate) struct Tail {
    pub(crate) segment: Arc<Segment>,
    /// Kept open: it also serves the readers.
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) end: End,
    /// Cleared by a failed write and by a cut: bytes behind the end are then not ours to write over.
    pub(crate) open: bool,
    /// How many bytes of the file have disk space for certain.
    pub(crate) reserved: u64,
}

/// Where the blocks of a segment end, and what the next one continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) offset: u64,
    /// Offset of the last block's header.
    pub(crate) last_offset: u64,
    /// CRC of that header, or of the segment header.
    pub(crate) chain: u32,
}

impl End {
    /// The end of a segment without blocks.
    pub(crate) fn of_empty(seed: u32) -> Self {
        Self { offset: HEADER_BYTES as u64, last_offset: 0, chain: seed }
    }
}

impl Tail {
    /// Whether it has no record; a crash may have left schema blocks. `next` is the log's next version.
    pub(crate) fn is_empty(&self, next: Version) -> bool {
        self.segment.first() == next
    }

    /// What the header of a segment that starts at `next`, if this one ends at `end`, says of its predecessor. An empty
    /// tail is replaced by its successor, which has the same name.
    pub(crate) fn prev(&self, end: End, next: Version) -> Option<PrevSegment> {
        if self.is_empty(next) {
            return self.segment.header.prev;
        }
        Some(PrevSegment {
            first: self.segment.first(),
            end: end.offset,
            last_offset: end.last_offset,
            last_crc: end.chain,
        })
    }
}

impl Writer {
    /// Whether a batch of `bytes` belongs into another segment than the last.
    pub(crate) fn must_roll(&self, shared: &Shared, bytes: u64, now_ns: i64) -> bool {
        let Some(tail) = self.tail.as_ref().filter(|tail| tail.open) else { return true };
        let full = tail.end.offset.saturating_add(bytes) > self.rolling.segment_bytes_max;
        !tail.is_empty(shared.next()) && (full || self.is_due(now_ns))
    }

    /// Whether the last segment is older than the roll period.
    pub(crate) fn is_due(&self, now_ns: i64) -> bool {
        let period_ns = self.rolling.roll_period_ns;
        let created_ns = self.tail.as_ref().map(|tail| tail.segment.header.created_ns);
        period_ns > 0 && created_ns.is_some_and(|created| created.saturating_add(period_ns) <= now_ns)
    }

    /// Makes everything in the last segment durable. A failure poisons the log.
    pub(crate) fn sync(&self, shared: &Shared) -> Result<()> {
        let next = shared.next();
        if let Some(tail) = self.tail.as_ref().filter(|_| shared.durable_next() < next) {
            sync_or_poison(shared, &*tail.file, &tail.segment)?;
        }
        shared.raise_durable(next);
        Ok(())
    }

    /// Closes the last segment and starts the one of `shared.next()`. Closed segments are durable: only the last
    /// segment of a log can ever be torn.
    pub(crate) fn start_segment(&mut self, shared: &Shared, now_ns: i64) -> Result<()> {
        self.sync(shared)?;
        let prev = self.tail.as_ref().and_then(|tail| tail.prev(tail.end, shared.next()));
        let header = self.successor(shared, now_ns, prev);
        let file = self.create(shared, &header, &[])?;
        self.adopt(shared, header, file, End::of_empty(header.seed()));
        Ok(())
    }

    pub(crate) fn successor(
        &mut self,
        shared: &Shared,
        now_ns: i64,
        prev: Option<PrevSegment>,
    ) -> SegmentHeader {
        let (first, sequence) = (shared.next(), self.sequence);
        self.sequence += 1;
        SegmentHeader {
            first,
            salt: self.salts.next(),
            sequence,
            created_ns: now_ns,
            prev,
            before: self.last,
        }
    }

    /// Makes a segment file with `blocks` in it, durably, under its final name: whoever sees the name sees all of it.
    pub(crate) fn create(
        &mut self,
        shared: &Shared,
        header: &SegmentHeader,
        blocks: &[IoSlice<'_>],
    ) -> Result<Arc<dyn DiskFile>> {
        let path = shared.dir.join(file_name(header.first));
        let temp = temp_path(&path);
        let encoded = header.encode();
        let mut slices = vec![IoSlice::new(&encoded)];
        slices.extend_from_slice(blocks);
        let written = shared.disk.create(&temp).and_then(|file| {
            write_all_at(&*file, &mut slices, 0)?;
            file.sync()?;
            Ok(file)
        });
        let file = written.map_err(WalError::io("start segment", &path))?;
        // Should this fail half way, the name may be there and say that the log goes on in it. So nothing more is
        // written to the segment before it; the next one takes the name, or supersedes what has it.
        if let Some(tail) = &mut self.tail {
            tail.open = false;
        }
        let named = shared.disk.rename(&temp, &path).and_then(|()| shared.disk.sync_dir(&shared.dir));
        if let Err(e) = named {
            let failed = Segment::new(&shared.disk, &shared.dir, *header, 0, &shared.options);
            self.superseded.push(Arc::new(failed));
            return Err(WalError::io("start segment", &path)(e));
        }
        Ok(file)
    }

    /// Makes a created segment the last one, in place of an empty tail if there is one.
    pub(crate) fn adopt(
        &mut self,
        shared: &Shared,
        header: SegmentHeader,
        file: Arc<dyn DiskFile>,
        end: End,
    ) {
        let segment = Arc::new(Segment::new(&shared.disk, &shared.dir, header, end.offset, &shared.options));
        segment.set_index(Index::default());
        segment.share_file(&file);
        let replaced = |old: &Arc<Segment>| old.first() == segment.first();
        shared.publish_segments(|segments| {
            segments.pop_if(|last| replaced(last));
            segments.push(Arc::clone(&segment));
        });
        if let Some(old) = self.tail.take() {
            close(&old, replaced(&old.segment));
        }
        tracing::debug!(dir = %shared.dir.display(), first = %header.first, "segment started");
        self.tail = Some(Tail { segment, file, end, open: true, reserved: 0 });
        self.delete_superseded(shared, header.first);
    }

    /// Deletes the files of expired segments, oldest first, so that a crash leaves no hole. Superseded ones go before:
    /// opening knows them only beside the segment that superseded them, which may be among the expired.
    pub(crate) fn delete_expired(&mut self, shared: &Shared) -> Result<()> {
        let superseding = self.tail.as_ref().is_some_and(|tail| tail.open);
        if !superseding && !self.superseded.is_empty() {
            return Ok(()); // later
        }
        while let Some(segment) = self.superseded.last() {
            shared.delete(segment)?;
            self.superseded.pop();
        }
        while let Some(segment) = self.expired.first() {
            shared.delete(segment)?;
            self.expired.remove(0);
        }
        Ok(())
    }

    /// Deletes the files of superseded segments as far as it goes, now that the one that starts at `first` is there.
    fn delete_superseded(&mut self, shared: &Shared, first: Version) {
        // A name that is in use again is not to be deleted.
        self.expired.retain(|segment| segment.first() != first);
        self.superseded.retain(|segment| segment.first() != first && shared.delete(segment).is_err());
    }

    /// Whether `bytes` behind the tail's end have disk space already.
    pub(crate) fn has_reserved(&self, bytes: u64) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.end.offset.saturating_add(bytes) <= tail.reserved)
    }

    /// Takes disk space for `bytes` behind the tail's end.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<()> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        let wanted = tail.end.offset.saturating_add(bytes);
        if wanted <= tail.reserved {
            return Ok(());
        }
        // Some more, so that not every small write asks the file system.
        let wanted = wanted.checked_next_multiple_of(RESERVE_BYTES).unwrap_or(wanted);
        tail.file.reserve(wanted).map_err(WalError::io("reserve space", tail.segment.path()))?;
        tail.reserved = wanted;
        Ok(())
    }

    /// Appends a batch that was checked to the open tail, and publishes it.
    pub(crate) fn write(&mut self, shared: &Shared, records: &[NewRecord]) -> Result<Version> {
        let Some(tail) = &mut self.tail else { return Ok(shared.next()) };
        let place = Place {
            seed: tail.segment.seed,
            offset: tail.end.offset,
            chain: tail.end.chain,
            version: shared.next(),
            durable_next: shared.durable_next(),
        };
        let known = tail.segment.with_index(|index| {
            self.batch.encode(place, records, |key| index.schema_offset(key).is_some());
        });
        known?;
        let written = write_all_at(&*tail.file, &mut self.batch.slices(), tail.end.offset);
        self.batch.release();
        if let Err(e) = written {
            tail.open = false;
            return Err(WalError::io("append", tail.segment.path())(e));
        }
        Ok(self.publish(shared))
    }

    /// Shows the blocks of the batch, which are in the tail's file, to readers.
    pub(crate) fn publish(&mut self, shared: &Shared) -> Version {
        let mut next = shared.next();
        if let (Some(tail), Some(block)) = (&mut self.tail, self.batch.blocks.last()) {
            tail.end = End { offset: block.end(), last_offset: block.offset, chain: block.crc };
            tail.segment.index_blocks(&self.batch.blocks);
            tail.segment.publish_end(tail.end.offset);
            if let What::Record { term, .. } = block.header.what {
                let (version, time_ns) = (block.header.version, block.header.time_ns);
                self.last = Some(LastRecord { version, term, time_ns });
                next = version.next();
            }
            shared.publish_next(next);
        }
        next
    }
}

/// Syncs the last segment. After a failure the page cache proves nothing, so nothing more is written until the log has
/// been healed. One sync at a time: the kernel tells a failure once, and who waited must hear of it too.
pub(crate) fn sync_or_poison(shared: &Shared, file: &dyn DiskFile, segment: &Segment) -> Result<()> {
    let _one = shared.fsync.lock();
    shared.check_writable()?;
    file.sync().map_err(|e| {
        shared.set_poisoned(true);
        shared.leave_doubt_mark();
        tracing::error!(file = %segment.path().display(), error = %e, "sync failed, log is read-only");
        WalError::io("sync", segment.path())(e)
    })
}

/// Tidies a segment that is written no more. Nothing depends on it.
fn close(tail: &Tail, replaced: bool) {
    if tail.reserved > tail.end.offset
        && let Err(error) = tail.file.release()
    {
        tracing::debug!(file = %tail.segment.path().display(), %error, "reserved space not given back");
    }
    if replaced {
        tail.segment.publish_end(0); // whoever stands in it looks the version up again
    } else {
        tail.segment.close_index();
    }
}
