//! The appending side: one open segment at the end of the log, and how the next one is started.

use std::io::IoSlice;
use std::sync::Arc;

use crate::batch::{Batch, Place};
use crate::disk::{Access, DiskFile, temp_path, write_all_at};
use crate::error::{Result, WalError};
use crate::format::FILLER_BYTES_MAX;
use crate::format::record::What;
use crate::format::segment::{HEADER_BYTES, PrevSegment, SegmentHeader, file_name};
use crate::index::Index;
use crate::record::NewRecord;
use crate::retained;
use crate::salt::Salts;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::{LastRecord, Rolling, Version};

/// Disk space is taken in steps of this.
const RESERVE_BYTES: u64 = 1 << 20;

/// What stands behind the blocks of a large append.
static FILLER: [u8; FILLER_BYTES_MAX] = [0; FILLER_BYTES_MAX];

/// State of the one writer. Owned by whoever holds the log's writer lock.
pub(crate) struct Writer {
    /// The last segment; none in a log that never had one.
    pub(crate) tail: Option<Tail>,
    /// The last record of the log, also if it is no longer there.
    pub(crate) last: Option<LastRecord>,
    /// Segments that retention took out of the log and whose files are still to be deleted, oldest first.
    pub(crate) expired: Vec<Arc<Segment>>,
    /// What the `retained` file is known to say: where the log may begin.
    pub(crate) retained: Version,
    /// Whether there is room for the next `retained` file.
    pub(crate) retained_reserved: bool,
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
    /// Open while the log is written to: it also serves the readers.
    pub(crate) file: Option<Arc<dyn DiskFile>>,
    /// Whether it was written to since the log was last asked to rest.
    pub(crate) used: bool,
    pub(crate) end: End,
    /// Cleared by a failed write and by a cut: bytes behind the end are then not ours to write over.
    pub(crate) open: bool,
    /// How many bytes of the file have disk space for certain.
    pub(crate) reserved: u64,
    /// Size of the file as far as we know. Behind the end it holds zeros up to here.
    pub(crate) file_len: u64,
    /// The next version when the blocks last passed a multiple of the filler's step.
    pub(crate) last_step: Version,
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

impl Tail {
    /// A tail that goes on at `end`, before `next`, with a file of `file_len` bytes.
    pub(crate) fn new(segment: Arc<Segment>, end: End, file_len: u64, next: Version) -> Self {
        Self { segment, file: None, used: false, end, open: true, reserved: 0, file_len, last_step: next }
    }

    /// The file, opened unless it is open.
    pub(crate) fn file(&mut self, shared: &Shared) -> Result<Arc<dyn DiskFile>> {
        self.used = true;
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = open_for_writing(shared, &self.segment)?;
        self.segment.share_file(&file);
        Ok(Arc::clone(self.file.insert(file)))
    }

    /// Takes disk space for the first `wanted` bytes.
    fn reserve(&mut self, shared: &Shared, wanted: u64) -> Result<()> {
        if wanted <= self.reserved {
            return Ok(());
        }
        // Some more, so that not every small write asks the file system.
        let wanted = wanted.checked_next_multiple_of(RESERVE_BYTES).unwrap_or(wanted);
        let reserved = self.file(shared)?.reserve(wanted);
        reserved.map_err(WalError::io("reserve space", self.segment.path()))?;
        self.reserved = wanted;
        Ok(())
    }

    /// Gives back space taken ahead. Nothing depends on it.
    fn release(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| self.reserved > self.end.offset) else { return };
        if let Err(error) = file.release() {
            tracing::debug!(file = %self.segment.path().display(), %error, "reserved space not given back");
        }
        self.reserved = 0;
    }

    /// Closes the file and lets go of the index. For a tail that is durable: what an fsync through another handle may
    /// not tell of is then behind us.
    fn rest(&mut self) {
        self.release();
        self.file = None;
        self.segment.rest_index();
    }

    /// Zeros to write behind a batch of `bytes`, up to a round place; the next ones go over them. The page cache takes
    /// what reaches to a round place in one piece, and what ends anywhere page by page (decision 10). Only where space is
    /// certain, so that the zeros never cost a batch its place, and while the owner does not sync with every step, which
    /// would store the zeros too.
    fn filler(&mut self, shared: &Shared, bytes: u64) -> &'static [u8] {
        let step = shared.options.filler_bytes.min(FILLER_BYTES_MAX as u64);
        let end = self.end.offset.saturating_add(bytes);
        if step == 0 || end <= self.file_len || end / step == self.end.offset / step {
            return &[];
        }
        let synced_since = shared.durable_next() > std::mem::replace(&mut self.last_step, shared.next());
        if synced_since {
            return &[];
        }
        let Some(to) = end.checked_next_multiple_of(step) else { return &[] };
        if let Err(error) = self.reserve(shared, to) {
            tracing::trace!(%error, "no space taken ahead");
            return &[];
        }
        usize::try_from(to - end).ok().and_then(|len| FILLER.get(..len)).unwrap_or(&[])
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
    pub(crate) fn sync(&mut self, shared: &Shared) -> Result<()> {
        let next = shared.next();
        if let Some(tail) = self.tail.as_mut().filter(|_| shared.durable_next() < next) {
            let file = tail.file(shared)?;
            sync_or_poison(shared, &*file, &tail.segment)?;
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
        self.adopt(shared, header, file, End::of_empty(shared.options.seed(&header)));
        self.reserve_retained(shared);
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
        if let Some(mut old) = self.tail.take() {
            let replaced = replaced(&old.segment);
            close(&mut old, replaced);
        }
        tracing::debug!(dir = %shared.dir.display(), first = %header.first, "segment started");
        let tail = Tail::new(segment, end, end.offset, header.first);
        self.tail = Some(Tail { file: Some(file), used: true, ..tail });
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
        let first = shared.first();
        if !self.expired.is_empty() && self.retained < first {
            // What it had is used now, also where this fails half way.
            self.retained_reserved = false;
            retained::store(&*shared.disk, &shared.dir, first)?;
            self.retained = first;
        }
        while let Some(segment) = self.expired.first() {
            shared.delete(segment)?;
            self.expired.remove(0);
        }
        self.reserve_retained(shared);
        Ok(())
    }

    /// Takes space for the note that retention makes before it deletes, once there is something that it may delete some
    /// day. Without it, retention needs room to make room.
    fn reserve_retained(&mut self, shared: &Shared) {
        if self.retained_reserved || self.tail.as_ref().is_none_or(|tail| tail.segment.header.prev.is_none())
        {
            return;
        }
        match retained::reserve(&*shared.disk, &shared.dir) {
            Ok(()) => self.retained_reserved = true,
            Err(error) => {
                tracing::debug!(dir = %shared.dir.display(), %error, "no space taken for retention")
            }
        }
    }

    /// Deletes the files of superseded segments as far as it goes, now that the one that starts at `first` is there.
    fn delete_superseded(&mut self, shared: &Shared, first: Version) {
        // A name that is in use again is not to be deleted.
        self.expired.retain(|segment| segment.first() != first);
        self.superseded.retain(|segment| segment.first() != first && shared.delete(segment).is_err());
    }

    /// Lets go of what a log needs only while it is written to, unless it was since the last call.
    pub(crate) fn rest(&mut self, shared: &Shared) {
        let durable = shared.durable_next() >= shared.next() && !shared.is_poisoned();
        if let Some(tail) = &mut self.tail
            && !std::mem::take(&mut tail.used)
            && durable
        {
            tail.rest();
            self.batch = Batch::default();
        }
    }

    /// Whether there is nothing to delete, to close or to let go of.
    pub(crate) fn is_at_rest(&self, shared: &Shared, now_ns: i64) -> bool {
        let tail_rests = self.tail.as_ref().is_none_or(|tail| {
            let must_close = self.is_due(now_ns) && !tail.is_empty(shared.next());
            !tail.used && tail.file.is_none() && !must_close
        });
        tail_rests && self.expired.is_empty() && self.superseded.is_empty()
    }

    /// Whether `bytes` behind the tail's end have disk space already.
    pub(crate) fn has_reserved(&self, bytes: u64) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.end.offset.saturating_add(bytes) <= tail.reserved)
    }

    /// Takes disk space for `bytes` behind the tail's end.
    pub(crate) fn reserve(&mut self, shared: &Shared, bytes: u64) -> Result<()> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        tail.reserve(shared, tail.end.offset.saturating_add(bytes))
    }

    /// Appends a batch that was checked to the open tail, and publishes it.
    pub(crate) fn write(&mut self, shared: &Shared, records: &[NewRecord]) -> Result<Version> {
        let Some(tail) = &mut self.tail else { return Ok(shared.next()) };
        let file = tail.file(shared)?;
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
        let filler = tail.filler(shared, self.batch.bytes());
        let mut slices = self.batch.slices();
        if !filler.is_empty() {
            slices.push(IoSlice::new(filler));
        }
        let written = write_all_at(&*file, &mut slices, tail.end.offset);
        drop(slices);
        let end = tail.end.offset + self.batch.bytes() + filler.len() as u64;
        tail.file_len = tail.file_len.max(end);
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

/// A handle of a segment that is or becomes the last one.
pub(crate) fn open_for_writing(shared: &Shared, segment: &Segment) -> Result<Arc<dyn DiskFile>> {
    shared.disk.open(segment.path(), Access::Write).map_err(WalError::io("open segment", segment.path()))
}

/// Tidies a segment that is written no more. Nothing depends on it.
fn close(tail: &mut Tail, replaced: bool) {
    tail.release();
    if replaced {
        tail.segment.publish_end(0); // whoever stands in it looks the version up again
    } else {
        tail.segment.close_index();
    }
}
