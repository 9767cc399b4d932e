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
use crate::{LastRecord, Version};

/// Disk space is taken in steps of this.
const RESERVE_BYTES: u64 = 1 << 20;

/// State of the one writer. Owned by whoever holds the log's writer lock.
pub(crate) struct Writer {
    /// The last segment; none in a log that never had one.
    pub(crate) tail: Option<Tail>,
    /// The last record of the log, also if it is no longer there.
    pub(crate) last: Option<LastRecord>,
    /// Segments that retention took out of the log and whose files are still to be deleted, oldest first.
    pub(crate) doomed: Vec<Arc<Segment>>,
    pub(crate) salts: Salts,
    pub(crate) batch: Batch,
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
    pub(crate) fn is_empty(&self) -> bool {
        self.end.offset == HEADER_BYTES as u64
    }

    /// What the header of a segment that starts here says of its predecessor. An empty tail is replaced by its
    /// successor, which has the same name.
    fn prev(&self) -> Option<PrevSegment> {
        if self.is_empty() {
            return self.segment.header.prev;
        }
        Some(PrevSegment {
            first: self.segment.first(),
            end: self.end.offset,
            last_offset: self.end.last_offset,
            last_crc: self.end.chain,
        })
    }
}

impl Writer {
    /// Whether a batch of `bytes` belongs into another segment than the last.
    pub(crate) fn must_roll(&self, shared: &Shared, bytes: u64, now_ns: i64) -> bool {
        let Some(tail) = self.tail.as_ref().filter(|tail| tail.open) else { return true };
        let full = tail.end.offset + bytes > shared.options.segment_bytes_max;
        !tail.is_empty() && (full || self.is_due(shared, now_ns))
    }

    /// Whether the last segment is older than the roll period.
    pub(crate) fn is_due(&self, shared: &Shared, now_ns: i64) -> bool {
        let period_ns = shared.options.roll_period_ns;
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

    /// Closes the last segment and starts the one of `shared.next()`. Closed segments are durable: only the last segment
    /// of a log can ever be torn.
    pub(crate) fn start_segment(&mut self, shared: &Shared, now_ns: i64) -> Result<()> {
        self.sync(shared)?;
        let header = self.successor(shared, now_ns, self.tail.as_ref().and_then(Tail::prev));
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
        let first = shared.next();
        SegmentHeader { first, salt: self.salts.next(), created_ns: now_ns, prev, before: self.last }
    }

    /// Makes a segment file with `blocks` in it, durably, under its final name: whoever sees the name sees all of it.
    pub(crate) fn create(
        &self,
        shared: &Shared,
        header: &SegmentHeader,
        blocks: &[IoSlice<'_>],
    ) -> Result<Arc<dyn DiskFile>> {
        let path = shared.dir.join(file_name(header.first));
        let temp = temp_path(&path);
        let encoded = header.encode();
        let mut slices = vec![IoSlice::new(&encoded)];
        slices.extend_from_slice(blocks);
        let created = (|| {
            let file = shared.disk.create(&temp)?;
            write_all_at(&*file, &mut slices, 0)?;
            file.sync()?;
            shared.disk.rename(&temp, &path)?;
            shared.disk.sync_dir(&shared.dir)?;
            Ok(file)
        })();
        created.map_err(WalError::io("start segment", &path))
    }

    /// Makes a created segment the last one, in place of an empty tail if there is one.
    pub(crate) fn adopt(
        &mut self,
        shared: &Shared,
        header: SegmentHeader,
        file: Arc<dyn DiskFile>,
        end: End,
    ) {
        let segment =
            Segment::new(Arc::clone(&shared.disk), &shared.dir, header, end.offset, &shared.options);
        segment.set_index(Index::default());
        segment.share_file(&file);
        let segment = Arc::new(segment);
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
    }

    /// Deletes files, oldest first, as far as it goes.
    pub(crate) fn delete_doomed(&mut self, shared: &Shared) -> Result<()> {
        while let Some(segment) = self.doomed.first() {
            shared.delete(segment)?;
            self.doomed.remove(0);
        }
        Ok(())
    }

    /// Takes disk space for `bytes` behind the tail's end.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<()> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        let wanted = tail.end.offset + bytes;
        if wanted <= tail.reserved {
            return Ok(());
        }
        // Some more, so that not every small write asks the file system.
        let wanted = wanted.next_multiple_of(RESERVE_BYTES);
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
