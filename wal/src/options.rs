use crate::format::FILLER_BYTES_MAX;
use crate::format::segment::SegmentHeader;

/// Settings of one log. Plain data. What may be altered while the log is open: [`Rolling`], and retention, which is
/// passed to [`Wal::retain`](crate::Wal::retain).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A segment that would grow past this is closed first. A single larger record still gets its segment.
    pub segment_bytes_max: u64,
    /// A segment older than this is closed at the next append or [`Wal::roll_if_due`](crate::Wal::roll_if_due);
    /// 0 = never by age.
    pub roll_period_ns: i64,
    /// Distance of entries in the sparse index.
    pub index_bytes: u64,
    /// How much a sequential reader asks of the disk at once, after smaller reads at its start.
    pub read_bytes: usize,
    /// A large append also writes zeros up to the next multiple of this, over which the next one goes; a power of two,
    /// 64 KiB at most, 0 = never. The page cache takes an aligned range in one piece and any other page by page.
    pub filler_bytes: u64,
    /// Start of the generator of segment salts. Give each opening another number; tests give a fixed one.
    pub salt_seed: u64,
    /// A bug to plant, for tests that show that they would find it.
    #[doc(hidden)]
    pub planted: Option<Planted>,
}

/// Bugs that a test plants.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Checksums of blocks start from 0 instead of the segment's own number.
    UnseededCrc,
    /// Opening takes the end of a closed segment from its file, not from its successor.
    EndIgnored,
}

/// When a segment is closed. May be altered while the log is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rolling {
    /// A segment that would grow past this is closed first. A single larger record still gets its segment.
    pub segment_bytes_max: u64,
    /// A segment older than this is closed at the next append or [`Wal::roll_if_due`](crate::Wal::roll_if_due);
    /// 0 = never by age.
    pub roll_period_ns: i64,
}

impl Options {
    /// What the checksums of a segment's blocks start from.
    pub(crate) fn seed(&self, header: &SegmentHeader) -> u32 {
        if self.planted == Some(Planted::UnseededCrc) { 0 } else { header.seed() }
    }

    pub(crate) fn rolling(&self) -> Rolling {
        Rolling { segment_bytes_max: self.segment_bytes_max, roll_period_ns: self.roll_period_ns }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes_max: 64 << 20,
            roll_period_ns: 0,
            index_bytes: 16 << 10,
            read_bytes: 256 << 10,
            filler_bytes: FILLER_BYTES_MAX as u64,
            salt_seed: 0,
            planted: None,
        }
    }
}
