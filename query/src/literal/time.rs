//! Times: quoted, ticks, `now`, `today`, and any of them with a duration added.

use std::cell::Cell;

use chrono::{DateTime, NaiveDate};
use model::{DurationLiteral, Precision, Zone, parse_timestamp};

use super::number::short_integer;
use super::{Misfit, Raw};

const SECONDS_PER_HOUR: i64 = 3_600;

/// What times are read against. One statement has one, so that all its `now` are one instant.
#[derive(Debug)]
pub struct LiteralContext {
    precision: Precision,
    zone: Zone,
    now_ns: i64,
    /// The local hour (hours since the local epoch) last seen and its start in seconds since the epoch. Rows of a
    /// statement crowd into few hours, and asking a named zone costs more than all the rest.
    hour: Cell<Option<(i64, i64)>>,
}

impl LiteralContext {
    /// Ticks of `precision`, local times in `zone`, `now` at `now_ns` nanoseconds since the epoch.
    #[must_use]
    pub fn new(precision: Precision, zone: Zone, now_ns: i64) -> Self {
        Self { precision, zone, now_ns, hour: Cell::new(None) }
    }

    /// The precision.
    #[must_use]
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// The time that `raw` is, in ticks.
    pub fn ticks(&self, raw: Raw<'_>) -> Result<i64, Misfit> {
        match raw {
            Raw::Quoted(text) | Raw::Hex(text) => self.quoted(text),
            Raw::Bare(text) => self.bare(text),
            Raw::Shifted { base, quoted, shift } => {
                let base = if quoted { self.quoted(base)? } else { self.bare(base)? };
                let ticks = DurationLiteral { count: shift.count.saturating_abs(), unit: shift.unit }
                    .ticks(self.precision)
                    .ok_or(Misfit::Timestamp)?;
                let moved = if shift.count < 0 { base.checked_sub(ticks) } else { base.checked_add(ticks) };
                moved.ok_or(Misfit::OutOfRange)
            }
        }
    }

    fn bare(&self, text: &str) -> Result<i64, Misfit> {
        if let Some(ticks) = short_integer(text.as_bytes()) {
            return Ok(ticks);
        }
        if text.eq_ignore_ascii_case("now") {
            return Ok(self.precision.ticks_from_ns(self.now_ns));
        }
        if text.eq_ignore_ascii_case("today") {
            return self.today().ok_or(Misfit::Timestamp);
        }
        text.parse().map_err(|_| Misfit::Timestamp)
    }

    fn quoted(&self, text: &str) -> Result<i64, Misfit> {
        if let Some(ticks) = self.plain(text.as_bytes()) {
            return Ok(ticks);
        }
        if let Some(ticks) = short_integer(text.as_bytes()) {
            return Ok(ticks);
        }
        parse_timestamp(text, self.precision, self.zone).ok_or_else(|| {
            // Nanoseconds end in 2262: what coarser ticks can say is a time all the same.
            match parse_timestamp(text, Precision::Ms, self.zone) {
                Some(_) => Misfit::OutOfRange,
                None => Misfit::Timestamp,
            }
        })
    }

    /// Local midnight before now.
    fn today(&self) -> Option<i64> {
        let now_s = self.now_ns.div_euclid(1_000_000_000);
        let local_s = now_s + i64::from(self.zone.offset_at(now_s));
        let date = DateTime::from_timestamp(local_s, 0)?.date_naive();
        let unix_s = self.zone.to_unix_s(date.and_hms_opt(0, 0, 0)?);
        unix_s.checked_mul(self.precision.ticks_per_second())
    }

    /// `YYYY-MM-DD HH:MM:SS[.f..]` with exactly these digits and no offset: what loggers write. `None` for all else.
    #[inline]
    fn plain(&self, text: &[u8]) -> Option<i64> {
        let (head, fraction) = text.split_at_checked(19)?;
        let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b' ' | b'T', h0, h1, b':', n0, n1, b':', s0, s1] =
            head
        else {
            return None;
        };
        let pair = |tens: u8, ones: u8| -> Option<u32> {
            let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
            (tens <= 9 && ones <= 9).then(|| u32::from(tens) * 10 + u32::from(ones))
        };
        let year = pair(y0, y1)? * 100 + pair(y2, y3)?;
        let (month, day, hour) = (pair(m0, m1)?, pair(d0, d1)?, pair(h0, h1)?);
        let (minute, second) = (pair(n0, n1)?, pair(s0, s1)?);
        if hour > 23 || minute > 59 || second > 59 || !is_date(year, month, day) {
            return None;
        }
        let fraction_ns = match fraction {
            [] => 0,
            [b'.', digits @ ..] => fraction_ns(digits)?,
            _ => return None,
        };
        let local_hour = days_since_epoch(year, month, day) * 24 + i64::from(hour);
        let unix_s = self.hour_start(local_hour)? + i64::from(minute * 60 + second);
        let ticks = unix_s.checked_mul(self.precision.ticks_per_second())?;
        ticks.checked_add(fraction_ns / self.precision.ns_per_tick())
    }

    /// Start of a local hour in seconds since the epoch; `None` for an hour in which the zone's clock changes.
    fn hour_start(&self, local_hour: i64) -> Option<i64> {
        let local_s = local_hour * SECONDS_PER_HOUR;
        if let Zone::Fixed(offset) = self.zone {
            return Some(local_s - i64::from(offset));
        }
        if let Some((hour, start)) = self.hour.get()
            && hour == local_hour
        {
            return Some(start);
        }
        let at = |s: i64| Some(self.zone.to_unix_s(DateTime::from_timestamp(s, 0)?.naive_utc()));
        let start = at(local_s)?;
        if at(local_s + SECONDS_PER_HOUR - 1)? != start + SECONDS_PER_HOUR - 1 {
            return None;
        }
        self.hour.set(Some((local_hour, start)));
        Some(start)
    }
}

fn fraction_ns(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let mut ns = 0_i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        ns = ns * 10 + i64::from(digit);
    }
    for _ in digits.len()..9 {
        ns *= 10;
    }
    Some(ns)
}

/// Whether the day exists. Days up to the 28th always do, the calendar is asked for the rest.
fn is_date(year: u32, month: u32, day: u32) -> bool {
    if !(1..=12).contains(&month) || day == 0 {
        return false;
    }
    day <= 28 || i32::try_from(year).is_ok_and(|year| NaiveDate::from_ymd_opt(year, month, day).is_some())
}

/// Days from 1970-01-01 of a date of the proleptic Gregorian calendar (Hinnant, "chrono-compatible low-level date
/// algorithms").
fn days_since_epoch(year: u32, month: u32, day: u32) -> i64 {
    let (year, month, day) = (i64::from(year), i64::from(month), i64::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// A bare text that is a time with something added.
#[derive(Debug)]
pub(super) struct ShiftedText<'a> {
    base: std::borrow::Cow<'a, str>,
    quoted: bool,
    shift: DurationLiteral,
}

impl ShiftedText<'_> {
    pub(super) fn raw(&self) -> Raw<'_> {
        Raw::Shifted { base: &self.base, quoted: self.quoted, shift: self.shift }
    }
}

/// Splits `now() + 1d`, `'2024-01-01' - 2h`, `1704067200000+1d`. `None` where nothing is added.
pub(super) fn split_shift(text: &str) -> Option<ShiftedText<'_>> {
    let unsigned_end = text.trim_end().rfind(['+', '-'])?;
    let (base, rest) = (text.get(..unsigned_end)?.trim(), text.get(unsigned_end..)?);
    let mut shift = DurationLiteral::parse(rest.get(1..)?.trim())?;
    if rest.starts_with('-') {
        shift.count = -shift.count;
    }
    let quoted = base.starts_with(['\'', '"']);
    let base = if quoted { crate::lexer::unquote_text(base) } else { without_parentheses(base).into() };
    (!base.is_empty()).then_some(ShiftedText { base, quoted, shift })
}

/// `now()` as `now`.
pub(super) fn without_parentheses(text: &str) -> &str {
    match text.split_once('(') {
        Some((word, rest)) if rest.trim_end().strip_suffix(')').is_some_and(|r| r.trim().is_empty()) => {
            word.trim_end()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The short way and the long way are one.
        #[test]
        fn plain_times_agree_with_the_general_reader(
            ticks in -62_000_000_000_000_i64..250_000_000_000_000,
            zone in prop::sample::select(vec!["UTC", "+05:30", "Europe/Berlin", "Asia/Shanghai", "Australia/Lord_Howe"]),
        ) {
            let zone = Zone::parse(zone).unwrap();
            let text = model::format_timestamp(ticks, Precision::Us, Zone::UTC);
            let local = text.trim_end_matches('Z').replace('T', " ");
            let context = LiteralContext::new(Precision::Us, zone, 0);
            prop_assert_eq!(
                context.ticks(Raw::Quoted(&local)).ok(),
                parse_timestamp(&local, Precision::Us, zone),
                "{}", local
            );
        }
    }

    #[test]
    fn day_numbers() {
        for (year, month, day) in [(1970, 1, 1), (2000, 2, 29), (1969, 12, 31), (0, 1, 1), (9999, 12, 31)] {
            let date = NaiveDate::from_ymd_opt(year, month, day).unwrap();
            let expected = date.and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp() / 86_400;
            assert_eq!(days_since_epoch(u32::try_from(year).unwrap(), month, day), expected);
        }
    }
}
