//! Options of a database: defaults here, spelling and the ranges of single ones in the SQL crate.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{Code, Error, Precision, Result, Zone, format_timestamp};

/// Everything CREATE DATABASE can say that Tidemark keeps. Options that only tune TDengine's own files are kept to be
/// shown and have no effect; `docs/sql.md` lists them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseOptions {
    /// VGROUPS, 1..=1024.
    pub vgroups: u32,
    /// PRECISION.
    pub precision: Precision,
    /// REPLICA.
    pub replica: u8,
    /// BUFFER: memtable budget of one vnode in MiB.
    pub buffer_mib: u32,
    /// PAGES (shown only).
    pub pages: u32,
    /// PAGESIZE in KiB (shown only).
    pub pagesize_kib: u32,
    /// TSDB_PAGESIZE in KiB (shown only).
    pub tsdb_pagesize_kib: u32,
    /// CACHEMODEL.
    pub cache_model: CacheModel,
    /// CACHESIZE in MiB.
    pub cachesize_mib: u32,
    /// COMP (shown only).
    pub comp: u8,
    /// DURATION: time that one data file covers, in minutes.
    pub duration_minutes: u64,
    /// KEEP: three tiers in minutes, each at least the one before; rows older than the last are gone.
    pub keep_minutes: [u64; 3],
    /// KEEP_TIME_OFFSET in hours (shown only).
    pub keep_time_offset_hours: u8,
    /// MINROWS (shown only).
    pub minrows: u32,
    /// MAXROWS (shown only).
    pub maxrows: u32,
    /// STT_TRIGGER (shown only).
    pub stt_trigger: u8,
    /// SINGLE_STABLE: at most one super table.
    pub single_stable: bool,
    /// TABLE_PREFIX (shown only).
    pub table_prefix: i16,
    /// TABLE_SUFFIX (shown only).
    pub table_suffix: i16,
    /// WAL_*.
    pub wal: WalOptions,
}

/// One option of ALTER DATABASE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is the option of the same name in [`DatabaseOptions`]")]
pub enum DatabaseChange {
    Replica(u8),
    BufferMib(u32),
    Pages(u32),
    CacheModel(CacheModel),
    CachesizeMib(u32),
    KeepMinutes([u64; 3]),
    KeepTimeOffsetHours(u8),
    Minrows(u32),
    SttTrigger(u8),
    WalLevel(u8),
    WalFsyncPeriodMs(u32),
    WalRetentionPeriodS(i64),
    WalRetentionSizeKib(i64),
    WalRollPeriodS(u64),
    WalSegmentSizeKib(u64),
}

impl DatabaseChange {
    /// Puts the change into `options`.
    pub fn apply(self, options: &mut DatabaseOptions) {
        match self {
            Self::Replica(n) => options.replica = n,
            Self::BufferMib(n) => options.buffer_mib = n,
            Self::Pages(n) => options.pages = n,
            Self::CacheModel(model) => options.cache_model = model,
            Self::CachesizeMib(n) => options.cachesize_mib = n,
            Self::KeepMinutes(keep) => options.keep_minutes = keep,
            Self::KeepTimeOffsetHours(n) => options.keep_time_offset_hours = n,
            Self::Minrows(n) => options.minrows = n,
            Self::SttTrigger(n) => options.stt_trigger = n,
            Self::WalLevel(n) => options.wal.level = n,
            Self::WalFsyncPeriodMs(n) => options.wal.fsync_period_ms = n,
            Self::WalRetentionPeriodS(n) => options.wal.retention_period_s = n,
            Self::WalRetentionSizeKib(n) => options.wal.retention_size_kib = n,
            Self::WalRollPeriodS(n) => options.wal.roll_period_s = n,
            Self::WalSegmentSizeKib(n) => options.wal.segment_size_kib = n,
        }
    }
}

const MINUTES_PER_DAY: u64 = 24 * 60;
const KEEP_MINUTES_MAX: u64 = 365_000 * MINUTES_PER_DAY;
/// 64 bits of nanoseconds end 106,751 days after 1970; TDengine draws the line a little before.
const KEEP_MINUTES_MAX_NS: u64 = 106_580 * MINUTES_PER_DAY;

/// Minutes as the dialect writes them, in the largest unit that holds them: `10d`, `25h`, `61m`.
#[must_use]
pub fn minutes_text(minutes: u64) -> String {
    match minutes {
        m if m.is_multiple_of(MINUTES_PER_DAY) => format!("{}d", m / MINUTES_PER_DAY),
        m if m.is_multiple_of(60) => format!("{}h", m / 60),
        m => format!("{m}m"),
    }
}

impl DatabaseOptions {
    /// What is wrong with KEEP beside DURATION, in numbers.
    fn keep_hint(&self) -> String {
        let [keep0, keep1, keep2] = self.keep_minutes;
        if keep0 > keep1 || keep1 > keep2 {
            let [keep0, keep1, keep2] = [keep0, keep1, keep2].map(minutes_text);
            return format!("KEEP {keep0},{keep1},{keep2} falls: write rising values, or one");
        }
        let least = self.duration_minutes.saturating_mul(3);
        format!(
            "with DURATION {} KEEP is at least {}; with KEEP {} DURATION, which only CREATE DATABASE sets, is at most {}",
            minutes_text(self.duration_minutes),
            minutes_text(least),
            minutes_text(keep0),
            minutes_text(keep0 / 3),
        )
    }

    /// KEEP against its own range, its order and DURATION: a KEEP of nothing would hide every row, and its files go.
    ///
    /// # Errors
    /// [`Code::InvalidDatabaseOption`].
    pub fn check_keep(&self) -> Result<()> {
        let [keep0, keep1, keep2] = self.keep_minutes;
        let max = if self.precision == Precision::Ns { KEEP_MINUTES_MAX_NS } else { KEEP_MINUTES_MAX };
        if self.keep_minutes.iter().any(|k| !(MINUTES_PER_DAY..=max).contains(k)) {
            let text = format!(
                "Invalid option keep: {keep0}, {keep1}, {keep2} valid range: [{MINUTES_PER_DAY}m, {max}m]"
            );
            let days = max / MINUTES_PER_DAY;
            return Err(Error::text(Code::InvalidDatabaseOption, text)
                .hint(format!("KEEP is 1d to {days}d; a number without a unit counts days")));
        }
        if keep0 > keep1 || keep1 > keep2 || keep0 < self.duration_minutes.saturating_mul(3) {
            let text = "Invalid duration value, should be keep2 >= keep1 >= keep0 >= 3 * duration";
            return Err(Error::text(Code::InvalidDatabaseOption, text).hint(self.keep_hint()));
        }
        Ok(())
    }
}

/// The log's options, see the queue chapter of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalOptions {
    /// WAL_LEVEL: 1 write without fsync, 2 write and fsync.
    pub level: u8,
    /// WAL_FSYNC_PERIOD in ms, level 2 only; 0 acknowledges after fsync.
    pub fsync_period_ms: u32,
    /// WAL_RETENTION_PERIOD in s; -1 for ever, 0 deletes as soon as flushed.
    pub retention_period_s: i64,
    /// WAL_RETENTION_SIZE in KiB; 0 and -1 are no limit.
    pub retention_size_kib: i64,
    /// WAL_ROLL_PERIOD in s; 0 by size and at flush only.
    pub roll_period_s: u64,
    /// WAL_SEGMENT_SIZE in KiB; 0 is 64 MiB.
    pub segment_size_kib: u64,
}

/// Which last values are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheModel {
    /// none
    #[default]
    None,
    /// last_row
    LastRow,
    /// last_value
    LastValue,
    /// both
    Both,
}

impl CacheModel {
    /// The word that DDL uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LastRow => "last_row",
            Self::LastValue => "last_value",
            Self::Both => "both",
        }
    }

    /// Reads that word in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::LastRow, Self::LastValue, Self::Both]
            .into_iter()
            .find(|m| m.as_str().eq_ignore_ascii_case(text))
    }
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            vgroups: 2,
            precision: Precision::Ms,
            replica: 1,
            buffer_mib: 256,
            pages: 256,
            pagesize_kib: 4,
            tsdb_pagesize_kib: 4,
            cache_model: CacheModel::None,
            cachesize_mib: 1,
            comp: 2,
            duration_minutes: 10 * MINUTES_PER_DAY,
            keep_minutes: [3_650 * MINUTES_PER_DAY; 3],
            keep_time_offset_hours: 0,
            minrows: 100,
            maxrows: 4_096,
            stt_trigger: 2,
            single_stable: false,
            table_prefix: 0,
            table_suffix: 0,
            wal: WalOptions::default(),
        }
    }
}

impl DatabaseOptions {
    /// Age in ticks of the database's precision past which a row is refused and hidden.
    #[must_use]
    pub fn keep_ticks(&self) -> i64 {
        minutes_to_ticks(self.keep_minutes[2], self.precision)
    }

    /// Ticks that a row may carry at `now_ns`: as far back as KEEP says, as far ahead as the type goes.
    #[must_use]
    pub fn accepted_ticks(&self, now_ns: i64) -> RangeInclusive<i64> {
        let now = self.precision.ticks_from_ns(now_ns);
        now.saturating_sub(self.keep_ticks())..=self.precision.max_ticks()
    }

    /// Checks a row's time against [`accepted_ticks`](Self::accepted_ticks).
    ///
    /// # Errors
    /// [`Code::TimestampOutOfRange`] with the time, the table and what is accepted.
    pub fn check_tick(&self, accepted: &RangeInclusive<i64>, tick: i64, table: &str) -> Result<()> {
        if accepted.contains(&tick) {
            return Ok(());
        }
        let show = |tick| format_timestamp(tick, self.precision, Zone::UTC);
        let error = Error::with(Code::TimestampOutOfRange, format!("{} table={table}", show(tick)));
        Err(error.hint(format!(
            "accepted now: {} to {} (KEEP)",
            show(*accepted.start()),
            show(*accepted.end())
        )))
    }

    /// Ticks that one data file covers.
    #[must_use]
    pub fn duration_ticks(&self) -> i64 {
        minutes_to_ticks(self.duration_minutes, self.precision)
    }
}

fn minutes_to_ticks(minutes: u64, precision: Precision) -> i64 {
    let ticks = i128::from(minutes) * 60 * i128::from(precision.ticks_per_second());
    i64::try_from(ticks).unwrap_or(i64::MAX)
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            level: 1,
            fsync_period_ms: 3_000,
            retention_period_s: 3_600,
            retention_size_kib: 0,
            roll_period_s: 0,
            segment_size_kib: 0,
        }
    }
}

impl WalOptions {
    /// Default size at which a segment is closed.
    pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;

    /// Size at which a segment is closed.
    #[must_use]
    pub const fn segment_bytes(&self) -> u64 {
        match self.segment_size_kib {
            0 => Self::SEGMENT_BYTES_DEFAULT,
            kib => kib.saturating_mul(1_024),
        }
    }

    /// Whether an answer waits for fsync.
    #[must_use]
    pub const fn acknowledges_after_sync(&self) -> bool {
        self.level >= 2 && self.fsync_period_ms == 0
    }
}
