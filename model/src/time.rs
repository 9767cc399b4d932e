//! Time literals: text to ticks and back.

use std::fmt::Write as _;

use chrono::{
    DateTime, FixedOffset, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone, Timelike,
};
use chrono_tz::Tz;

use crate::Precision;

/// The zone that times without an offset are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// An offset from UTC in seconds, east positive.
    Fixed(i32),
    /// A zone of the IANA data base.
    Named(Tz),
}

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

/// Offsets further than this from UTC are refused.
const OFFSET_SECONDS_MAX: i32 = 14 * 3_600;

impl Zone {
    /// UTC.
    pub const UTC: Self = Self::Fixed(0);

    /// Reads `UTC`, `Z`, an offset (`+08:00`, `-0330`, `+8`) or an IANA name (`Asia/Shanghai`).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if matches!(text, "Z" | "z") || text.eq_ignore_ascii_case("utc") {
            return Some(Self::UTC);
        }
        if let Some(seconds) = parse_offset(text) {
            return Some(Self::Fixed(seconds));
        }
        text.parse().ok().map(Self::Named)
    }

    /// Seconds east of UTC at the instant `unix_s`.
    #[must_use]
    pub fn offset_at(self, unix_s: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(tz) => DateTime::from_timestamp(unix_s, 0)
                .map_or(0, |utc| utc.with_timezone(&tz).offset().fix().local_minus_utc()),
        }
    }

    /// Seconds since the epoch of a local wall-clock time. One that a clock change skips is taken one hour on, one that
    /// occurs twice is the earlier.
    #[must_use]
    pub fn to_unix_s(self, local: NaiveDateTime) -> i64 {
        match self {
            Self::Fixed(seconds) => local.and_utc().timestamp() - i64::from(seconds),
            Self::Named(tz) => match tz.from_local_datetime(&local) {
                LocalResult::Single(t) | LocalResult::Ambiguous(t, _) => t.timestamp(),
                LocalResult::None => {
                    // In the gap the offset before the change still names an instant: the one after the jump.
                    let naive = local.and_utc().timestamp();
                    naive - i64::from(self.offset_at(naive - 86_400))
                }
            },
        }
    }
}

/// Reads `+HH:MM`, `+HHMM`, `+HH` or `+H` (or `-`) as seconds east of UTC.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, text.get(1..)?),
        b'-' => (-1, text.get(1..)?),
        _ => return None,
    };
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some((h, m)), 4 | 5) if m.len() == 2 => (h, m),
        (None, 4) => (digits.get(..2)?, digits.get(2..)?),
        (None, 1 | 2) => (digits, "0"),
        _ => return None,
    };
    let number = |t: &str| t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse::<i32>().ok()).flatten();
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let seconds = hours * 3_600 + minutes * 60;
    (minutes < 60 && seconds <= OFFSET_SECONDS_MAX).then_some(sign * seconds)
}

/// Reads a time literal as ticks of `precision`.
///
/// Accepts `YYYY-MM-DD`, `YYYY-MM-DD HH:MM[:SS[.fraction]]` and the same with `T`, each optionally followed directly by
/// `Z`, `+HH:MM`, `+HHMM` or `+HH`; single-digit month, day and hour; leading blanks. Without an offset the time is local
/// to `zone`. Fraction digits beyond the precision are cut. `None` for anything else: trailing blanks, an impossible
/// date, digits only.
#[must_use]
pub fn parse_timestamp(text: &str, precision: Precision, zone: Zone) -> Option<i64> {
    let mut scan = Scan(text.trim_start_matches(' ').as_bytes());
    let year = scan.number(4, 4)?;
    scan.take(b'-')?;
    let month = scan.number(1, 2)?;
    scan.take(b'-')?;
    let day = scan.number(1, 2)?;
    let (mut hour, mut minute, mut second, mut fraction_ns) = (0, 0, 0, 0);
    if matches!(scan.peek(), Some(b' ' | b'T' | b't')) {
        scan.skip();
        hour = scan.number(1, 2)?;
        scan.take(b':')?;
        minute = scan.number(1, 2)?;
        if scan.peek() == Some(b':') {
            scan.skip();
            second = scan.number(1, 2)?;
            if scan.peek() == Some(b'.') {
                scan.skip();
                fraction_ns = scan.fraction_ns()?;
            }
        }
    }
    let offset = match scan.rest()? {
        "" => None,
        "Z" | "z" => Some(0),
        offset => Some(parse_offset(offset)?),
    };
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    let local = date.and_time(NaiveTime::from_hms_opt(hour, minute, second)?);
    let unix_s = offset.map_or(zone, Zone::Fixed).to_unix_s(local);
    let ticks = unix_s.checked_mul(precision.ticks_per_second())?;
    ticks.checked_add(i64::from(fraction_ns) / precision.ns_per_tick())
}

/// Bytes still to be read of a literal.
struct Scan<'a>(&'a [u8]);

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn skip(&mut self) {
        self.0 = self.0.get(1..).unwrap_or_default();
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.skip())
    }

    fn number(&mut self, digits_min: usize, digits_max: usize) -> Option<u32> {
        let mut value = 0;
        let mut digits = 0;
        while digits < digits_max
            && let Some(byte @ b'0'..=b'9') = self.peek()
        {
            value = value * 10 + u32::from(byte - b'0');
            digits += 1;
            self.skip();
        }
        (digits >= digits_min).then_some(value)
    }

    /// Digits after the point as nanoseconds; at least one digit, those past the ninth are cut.
    fn fraction_ns(&mut self) -> Option<u32> {
        let mut ns = 0;
        let mut weight = 100_000_000;
        let mut any = false;
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            ns += u32::from(byte - b'0') * weight;
            weight /= 10;
            any = true;
            self.skip();
        }
        any.then_some(ns)
    }

    fn rest(&self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }
}

/// RFC 3339 in `zone` with the precision's digits: `2024-03-01T08:00:00.000+08:00`, `Z` for UTC.
///
/// Instants outside the calendar's range (years beyond ±262,000) come as their number of ticks.
#[must_use]
pub fn format_timestamp(ticks: i64, precision: Precision, zone: Zone) -> String {
    let per_second = precision.ticks_per_second();
    let (seconds, rest) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
    let offset = zone.offset_at(seconds);
    let Some(local) = FixedOffset::east_opt(offset)
        .zip(DateTime::from_timestamp(seconds, 0))
        .map(|(offset, utc)| utc.with_timezone(&offset))
    else {
        return ticks.to_string();
    };
    let mut text = local.format("%Y-%m-%dT").to_string();
    // Writing to a string cannot fail.
    let _ = write!(text, "{:02}:{:02}:{:02}", local.hour(), local.minute(), local.second());
    let _ = write!(text, ".{rest:0width$}", width = precision.digits());
    if offset == 0 {
        text.push('Z');
    } else {
        let minutes = offset.abs() / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        let _ = write!(text, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(text: &str) -> Option<i64> {
        parse_timestamp(text, Precision::Ms, Zone::UTC)
    }

    #[test]
    fn reads_every_form() {
        let day = 1_704_067_200_000;
        assert_eq!(ms("2024-01-01"), Some(day));
        assert_eq!(ms("2024-1-1 8:00:00"), Some(day + 8 * 3_600_000));
        assert_eq!(ms("  2024-01-01T00:00:00.1239"), Some(day + 123));
        assert_eq!(ms("2024-01-01T08:00:00.123+08:00"), Some(day + 123));
        assert_eq!(ms("2024-01-01 08:00:00+0800"), Some(day));
        assert_eq!(ms("2024-01-01 08:00:00+08"), Some(day));
        assert_eq!(ms("2023-12-31T10:00:00-14:00"), Some(day));
        assert_eq!(ms("2024-01-01T00:00:00Z"), Some(day));
        assert_eq!(
            parse_timestamp("2024-01-01 00:00:00.1234567", Precision::Us, Zone::UTC),
            Some(1_704_067_200_123_456)
        );
        let shanghai = Zone::parse("Asia/Shanghai").unwrap();
        assert_eq!(parse_timestamp("2024-01-01 08:00:00", Precision::Ms, shanghai), Some(day));
    }

    #[test]
    fn refuses_the_rest() {
        for bad in [
            "",
            "2024",
            "20240101",
            "2024/01/01",
            "2024-01-01 ",
            "2024-02-30",
            "2023-02-29",
            "2024-01-01 24:00:00",
            "2024-13-01",
            "2024-01-01 00:00:00 +08:00",
            "2024-01-01 00:00:00+15:00",
            "2024-01-01 00:00:00.",
            "2024-01-01 00:61:00",
            "1704067200000",
            "2024-01-01 00:00:00+8:0",
            "now",
        ] {
            assert_eq!(ms(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn follows_clock_changes() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let at = |t| parse_timestamp(t, Precision::Ms, berlin).unwrap();
        assert_eq!(at("2024-03-31 01:59:59") + 1_000, at("2024-03-31 03:00:00"));
        // 02:30 does not exist: it is read as 03:30.
        assert_eq!(at("2024-03-31 02:30:00"), at("2024-03-31 03:30:00"));
        assert_eq!(
            format_timestamp(at("2024-07-01 12:00:00"), Precision::Ms, berlin),
            "2024-07-01T12:00:00.000+02:00"
        );
    }

    #[test]
    fn prints_the_precision() {
        assert_eq!(format_timestamp(-1, Precision::Ms, Zone::UTC), "1969-12-31T23:59:59.999Z");
        assert_eq!(format_timestamp(1, Precision::Ns, Zone::UTC), "1970-01-01T00:00:00.000000001Z");
        assert_eq!(
            format_timestamp(0, Precision::Us, Zone::Fixed(-12_600)),
            "1969-12-31T20:30:00.000000-03:30"
        );
    }

    proptest! {
        #[test]
        fn reads_what_it_prints(ticks in -62_000_000_000_000_i64..250_000_000_000_000, offset in -56_i32..=56) {
            let zone = Zone::Fixed(offset * 900);
            let text = format_timestamp(ticks, Precision::Ms, zone);
            prop_assert_eq!(parse_timestamp(&text, Precision::Ms, Zone::UTC), Some(ticks), "{}", text);
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = parse_timestamp(&text, Precision::Ns, Zone::UTC);
            let _ = Zone::parse(&text);
        }
    }
}
