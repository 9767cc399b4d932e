//! Database options: spelling, ranges and the messages about them.
//!
//! Messages call an option by the name that clients know from TDengine (`daysPerFile`, `sstTrigger`, `walLevel`).

use std::fmt::Display;

use model::{CacheModel, Code, DatabaseChange, Error, Precision, Result};

use super::Parser;
use crate::lexer::TokenKind;

const MINUTES_PER_DAY: u64 = 24 * 60;

/// Options with an effect that ALTER takes too, as hints list them.
#[rustfmt::skip]
const ALTERABLE: &[&str] = &[
    "BUFFER", "CACHEMODEL", "CACHESIZE", "KEEP", "KEEP_TIME_OFFSET", "MINROWS", "PAGES", "REPLICA", "STT_TRIGGER",
    "WAL_FSYNC_PERIOD", "WAL_LEVEL", "WAL_RETENTION_PERIOD", "WAL_RETENTION_SIZE", "WAL_ROLL_PERIOD", "WAL_SEGMENT_SIZE",
];

/// Options with an effect that only CREATE takes.
#[rustfmt::skip]
const ONLY_AT_CREATION: &[&str] = &[
    "COMP", "DURATION", "MAXROWS", "PAGESIZE", "PRECISION", "SINGLE_STABLE", "TABLE_PREFIX", "TABLE_SUFFIX",
    "TSDB_PAGESIZE", "VGROUPS",
];

/// One option as written.
pub(super) enum DatabaseOption {
    /// One that ALTER takes too.
    Change(DatabaseChange),
    /// VGROUPS
    Vgroups(u32),
    /// PRECISION
    Precision(Precision),
    /// PAGESIZE
    PagesizeKib(u32),
    /// TSDB_PAGESIZE
    TsdbPagesizeKib(u32),
    /// COMP
    Comp(u8),
    /// DURATION
    DurationMinutes(u64),
    /// MAXROWS
    Maxrows(u32),
    /// SINGLE_STABLE
    SingleStable(bool),
    /// TABLE_PREFIX
    TablePrefix(i16),
    /// TABLE_SUFFIX
    TableSuffix(i16),
    /// Checked, and of no effect.
    Ignored,
}

/// Which options may stand here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionPlace {
    Create,
    Alter,
}

fn invalid(name: &str, value: impl Display, valid: impl Display) -> Error {
    Error::text(Code::InvalidDatabaseOption, format!("Invalid option {name}: {value}{valid}"))
}

fn in_range<N: TryFrom<i64>>(name: &str, value: i64, min: i64, max: i64) -> Result<N> {
    let error = || invalid(name, value, format_args!(", valid range: [{min}, {max}]"));
    if !(min..=max).contains(&value) {
        return Err(error());
    }
    N::try_from(value).map_err(|_| error())
}

impl Parser<'_> {
    /// The next option; `None` where no option stands.
    pub(super) fn database_option(&mut self, place: OptionPlace) -> Result<Option<DatabaseOption>> {
        let token = self.peek();
        if token.kind != TokenKind::Word {
            return Ok(None);
        }
        let word = self.text_of(token).to_ascii_uppercase();
        if let Some(option) = self.alterable(&word, place)? {
            return Ok(Some(option));
        }
        if place == OptionPlace::Alter {
            return Ok(None);
        }
        self.only_at_creation(&word)
    }

    fn alterable(&mut self, word: &str, place: OptionPlace) -> Result<Option<DatabaseOption>> {
        use DatabaseChange as Change;
        let change = match word {
            "REPLICA" | "REPLICAS" => {
                Change::Replica(self.one_of("replications", &[1, 2, 3], "only 1, 2, 3 allowed")?)
            }
            "BUFFER" => Change::BufferMib(self.ranged("buffer", 3, 16_384)?),
            "PAGES" => Change::Pages(self.ranged("pages", 64, 2_147_483_646)?),
            "CACHEMODEL" => {
                let text = self.option_text()?;
                let bad = || invalid("cacheModel", &text, "");
                Change::CacheModel(CacheModel::parse(&text).ok_or_else(bad)?)
            }
            "CACHESIZE" => Change::CachesizeMib(self.ranged("cacheSize", 1, 65_536)?),
            "KEEP" => Change::KeepMinutes(self.keep()?),
            "KEEP_TIME_OFFSET" => {
                Change::KeepTimeOffsetHours(self.plain_ranged("keep_time_offset", 0, 23)?)
            }
            "MINROWS" => Change::Minrows(self.ranged("minRowsPerBlock", 10, 1_000_000)?),
            "STT_TRIGGER" => Change::SttTrigger(self.ranged("sstTrigger", 1, 16)?),
            "WAL_LEVEL" => Change::WalLevel(self.wal_level()?),
            "WAL_FSYNC_PERIOD" => Change::WalFsyncPeriodMs(self.ranged("walFsyncPeriod", 0, 180_000)?),
            "WAL_RETENTION_PERIOD" => Change::WalRetentionPeriodS(self.retention(
                place,
                "walRetentionPeriod",
                i64::from(i32::MAX),
            )?),
            "WAL_RETENTION_SIZE" => {
                Change::WalRetentionSizeKib(self.retention(place, "walRetentionSize", i64::MAX)?)
            }
            "WAL_ROLL_PERIOD" => {
                Change::WalRollPeriodS(self.ranged("walRollPeriod", 0, i64::from(i32::MAX))?)
            }
            "WAL_SEGMENT_SIZE" => {
                Change::WalSegmentSizeKib(self.ranged("walSegmentSize", 0, i64::from(i32::MAX))?)
            }
            "ENCRYPT_ALGORITHM" => {
                let token = self.peek();
                let text = self.option_text()?;
                if text.is_empty() || text.eq_ignore_ascii_case("none") {
                    return Ok(Some(DatabaseOption::Ignored));
                }
                return Err(self.unsupported_at("ENCRYPT_ALGORITHM", token));
            }
            "SS_CHUNKPAGES" | "S3_CHUNKPAGES" | "S3_CHUNKSIZE" => {
                return self.ignored(|p| p.ranged::<u32>("ssChunkSize", 131_072, 1_048_576));
            }
            "SS_KEEPLOCAL" | "S3_KEEPLOCAL" | "COMPACT_INTERVAL" => {
                return self.ignored(Self::option_minutes);
            }
            "SS_COMPACT" | "S3_COMPACT" => {
                return self.ignored(|p| p.one_of("ssCompact", &[0, 1], "only 1, 0 allowed"));
            }
            "COMPACT_TIME_RANGE" => return self.ignored(Self::compact_time_range),
            "COMPACT_TIME_OFFSET" => {
                return self.ignored(|p| {
                    p.bump();
                    if p.take(TokenKind::Duration) {
                        Ok(())
                    } else {
                        p.expect(TokenKind::Integer).map(|_| ())
                    }
                });
            }
            _ => return Ok(None),
        };
        Ok(Some(DatabaseOption::Change(change)))
    }

    /// The word that stands here is no option that may stand here.
    pub(super) fn no_option(&self, place: OptionPlace) -> Error {
        let (error, token) = (self.unexpected(), self.peek());
        if token.kind != TokenKind::Word {
            return error;
        }
        let word = self.text_of(token).to_ascii_uppercase();
        match place {
            OptionPlace::Create => error.hint(format!(
                "options of a database: {}, {}",
                ONLY_AT_CREATION.join(", "),
                ALTERABLE.join(", ")
            )),
            OptionPlace::Alter if ONLY_AT_CREATION.contains(&word.as_str()) => error.hint(format!(
                "{word} is fixed when the database is created; ALTER DATABASE changes {}",
                ALTERABLE.join(", ")
            )),
            OptionPlace::Alter => error.hint(format!("ALTER DATABASE changes {}", ALTERABLE.join(", "))),
        }
    }

    fn only_at_creation(&mut self, word: &str) -> Result<Option<DatabaseOption>> {
        use DatabaseOption as Option_;
        Ok(Some(match word {
            "VGROUPS" => Option_::Vgroups(self.ranged("vgroups", 1, 1_024)?),
            "PRECISION" => {
                let text = self.option_text()?;
                let bad = || invalid("precision", &text, "");
                Option_::Precision(Precision::parse(&text).ok_or_else(bad)?)
            }
            "PAGESIZE" => Option_::PagesizeKib(self.ranged("pagesize", 1, 16_384)?),
            "TSDB_PAGESIZE" => Option_::TsdbPagesizeKib(self.ranged("tsdbPageSize", 1, 16_384)?),
            "COMP" => Option_::Comp(self.ranged("compression", 0, 2)?),
            "DURATION" => {
                let minutes = i64::try_from(self.option_minutes()?).unwrap_or(i64::MAX);
                Option_::DurationMinutes(in_range("daysPerFile", minutes, 60, 5_256_000).map_err(
                    |error| error.hint("DURATION is 1h to 3650d; a number without a unit counts days"),
                )?)
            }
            "MAXROWS" => Option_::Maxrows(self.ranged("maxRowsPerBlock", 200, 10_000_000)?),
            "SINGLE_STABLE" => {
                Option_::SingleStable(self.one_of("singleStable", &[0, 1], "only 1, 0 allowed")? == 1)
            }
            "TABLE_PREFIX" => Option_::TablePrefix(self.plain_ranged("table_prefix", -191, 191)?),
            "TABLE_SUFFIX" => Option_::TableSuffix(self.plain_ranged("table_suffix", -191, 191)?),
            "DNODES" => return self.ignored(Self::option_text),
            "RETENTIONS" => return Err(self.unsupported("RETENTIONS")),
            "SCHEMALESS" | "STRICT" | "IS_AUDIT" | "ALLOW_DROP" | "SECURE_DELETE" | "CACHESHARDBITS" => {
                return self.ignored(|p| {
                    p.bump();
                    if p.take(TokenKind::Text) { Ok(()) } else { p.expect(TokenKind::Integer).map(|_| ()) }
                });
            }
            _ => return Ok(None),
        }))
    }

    fn ignored<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<DatabaseOption>> {
        read(self).map(|_| Some(DatabaseOption::Ignored))
    }

    // Values, each behind the option's name.

    fn option_text(&mut self) -> Result<String> {
        self.bump();
        self.string()
    }

    fn option_integer(&mut self) -> Result<i64> {
        self.bump();
        Ok(i64::try_from(self.integer()?).unwrap_or(i64::MAX))
    }

    fn option_signed(&mut self) -> Result<i64> {
        self.bump();
        let negative = self.take(TokenKind::Minus);
        let value = i64::try_from(self.integer()?).unwrap_or(i64::MAX);
        Ok(if negative { -value } else { value })
    }

    fn ranged<N: TryFrom<i64>>(&mut self, name: &str, min: i64, max: i64) -> Result<N> {
        let value = self.option_integer()?;
        in_range(name, value, min, max)
    }

    /// How long or how much to keep of the log: -1 is without limit. ALTER takes any number below 0 for that, CREATE does
    /// not.
    fn retention(&mut self, place: OptionPlace, name: &str, max: i64) -> Result<i64> {
        let value = self.option_signed()?;
        match place {
            OptionPlace::Create => in_range(name, value, -1, max),
            OptionPlace::Alter => in_range(name, value.max(-1), -1, max),
        }
    }

    /// As [`Self::ranged`] with a sign, for the options whose message has no comma.
    fn plain_ranged<N: TryFrom<i64>>(&mut self, name: &str, min: i64, max: i64) -> Result<N> {
        let value = self.option_signed()?;
        let error = || invalid(name, value, format_args!(" valid range: [{min}, {max}]"));
        if (min..=max).contains(&value) { N::try_from(value).map_err(|_| error()) } else { Err(error()) }
    }

    fn one_of(&mut self, name: &str, allowed: &[u8], text: &str) -> Result<u8> {
        let value = self.option_integer()?;
        let found = allowed.iter().copied().find(|&a| i64::from(a) == value);
        found.ok_or_else(|| invalid(name, value, format_args!(", {text}")))
    }

    fn wal_level(&mut self) -> Result<u8> {
        let token = self.peek();
        match self.one_of("walLevel", &[0, 1, 2], "only 0, 1, 2 allowed")? {
            // The log is the queue and the redo log: there is no running without it.
            0 => Err(self.unsupported_at("WAL_LEVEL 0", token)),
            level => Ok(level),
        }
    }

    /// `90`, `90d`, `36h`, `600m` as minutes; bare numbers are days.
    fn option_minutes(&mut self) -> Result<u64> {
        self.bump();
        self.minutes()
    }

    fn minutes(&mut self) -> Result<u64> {
        let token = self.peek();
        if token.kind == TokenKind::Integer {
            return Ok(self.integer()?.saturating_mul(MINUTES_PER_DAY));
        }
        if token.kind != TokenKind::Duration {
            return Err(self.unexpected());
        }
        let text = self.text_of(token);
        let (digits, unit) = text.split_at(text.len() - 1);
        let count: u64 = digits.parse().unwrap_or(u64::MAX);
        let factor = match unit {
            "m" | "M" => 1,
            "h" | "H" => 60,
            "d" | "D" => MINUTES_PER_DAY,
            _ => {
                return Err(invalid("unit", unit, ", only m, h, d allowed")
                    .at(model::Place::of(self.sql, token.start)));
            }
        };
        self.bump();
        Ok(count.saturating_mul(factor))
    }

    fn keep(&mut self) -> Result<[u64; 3]> {
        self.bump();
        let tiers = self.comma_separated(Self::minutes)?;
        match *tiers.as_slice() {
            [keep] => Ok([keep; 3]),
            [keep0, keep1] => Ok([keep0, keep1, keep1]),
            [keep0, keep1, keep2] => Ok([keep0, keep1, keep2]),
            _ => Err(invalid("keep", format_args!("{} values", tiers.len()), ", one to three are allowed")),
        }
    }

    fn compact_time_range(&mut self) -> Result<()> {
        self.bump();
        self.comma_separated(|p| {
            p.take(TokenKind::Minus);
            p.minutes()
        })
        .map(|_| ())
    }
}
