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
    /// Start of the generator of segment salts. Give each opening another number; tests give a fixed one.
    pub salt_seed: u64,
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
            salt_seed: 0,
        }
    }
}
