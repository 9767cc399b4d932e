use std::path::PathBuf;

/// Settings of one group. Disk, clock and state machine are given beside them.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// Names the group in traces: the vgroup's number, 1 for the mnode's group.
    pub group: u32,
    /// This node's number within the group.
    pub node: u64,
    /// Where the log and the group's own small files lie. Created if it is missing.
    pub dir: PathBuf,
    /// The log's settings.
    pub wal: wal::Options,
    /// What an answer rests on.
    pub fsync: Fsync,
    /// Interval of a leader's heartbeats when there are other voters, at least 1 s. A lone voter sends none and runs no
    /// timer.
    pub heartbeat_ms: u64,
    /// Bound of what is proposed and not yet applied. [`enqueue`](crate::Group::enqueue) waits at the bound.
    pub in_flight_bytes_max: u32,
    /// Where all chance of this group starts: its election timeout. Give each replica another one.
    pub seed: u64,
}

impl GroupOptions {
    /// Takes over a database's options of the log, as [`alter`](crate::Group::alter) does later.
    #[must_use]
    pub fn with_wal(mut self, options: &model::WalOptions) -> Self {
        let wal::Rolling { segment_bytes_max, roll_period_ns } = rolling_of(options);
        self.wal.segment_bytes_max = segment_bytes_max;
        self.wal.roll_period_ns = roll_period_ns;
        self.fsync = Fsync::from(options);
        self
    }

    /// The defaults for group `group` in `dir`.
    #[must_use]
    pub fn new(group: u32, dir: impl Into<PathBuf>) -> Self {
        Self {
            group,
            node: 1,
            dir: dir.into(),
            wal: wal::Options::default(),
            fsync: Fsync::Never,
            heartbeat_ms: 1_000,
            in_flight_bytes_max: 16 << 20,
            seed: u64::from(group),
        }
    }
}

const NS_PER_S: i64 = 1_000_000_000;

/// When a segment is closed, as a database's options say.
pub(crate) fn rolling_of(options: &model::WalOptions) -> wal::Rolling {
    wal::Rolling {
        segment_bytes_max: options.segment_bytes(),
        roll_period_ns: i64::try_from(options.roll_period_s).unwrap_or(i64::MAX).saturating_mul(NS_PER_S),
    }
}

/// When the log is fsynced, and so what an acknowledged proposal survives. Votes and checkpoints are always fsynced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// WAL_LEVEL 1: answers after the write. Survives the end of the process, not that of the machine.
    Never,
    /// WAL_LEVEL 2 with a period: answers after the write; the machine's end costs at most what was written within
    /// the period and the duration of one fsync.
    Every {
        /// Milliseconds between the first write that is not on disk and the fsync.
        period_ms: u32,
    },
    /// WAL_LEVEL 2 with period 0: answers after an fsync that covers the record. One fsync serves all who wait.
    BeforeAck,
}

impl From<&model::WalOptions> for Fsync {
    fn from(options: &model::WalOptions) -> Self {
        match options {
            o if o.acknowledges_after_sync() => Self::BeforeAck,
            o if o.level >= 2 => Self::Every { period_ms: o.fsync_period_ms },
            _ => Self::Never,
        }
    }
}
