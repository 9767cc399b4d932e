//! Durations as the dialect writes them: `10s`, `1n`, `500a`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Precision;

/// Unit letter of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeUnit {
    /// `b`
    Nanosecond,
    /// `u`
    Microsecond,
    /// `a`
    Millisecond,
    /// `s`
    Second,
    /// `m`
    Minute,
    /// `h`
    Hour,
    /// `d`, 24 hours
    Day,
    /// `w`, 7 days
    Week,
    /// `n`, a calendar month
    Month,
    /// `y`, a calendar year
    Year,
}

impl TimeUnit {
    /// Reads a unit letter in either case.
    #[must_use]
    pub fn from_letter(letter: char) -> Option<Self> {
        Some(match letter.to_ascii_lowercase() {
            'b' => Self::Nanosecond,
            'u' => Self::Microsecond,
            'a' => Self::Millisecond,
            's' => Self::Second,
            'm' => Self::Minute,
            'h' => Self::Hour,
            'd' => Self::Day,
            'w' => Self::Week,
            'n' => Self::Month,
            'y' => Self::Year,
            _ => return None,
        })
    }

    /// The unit's letter.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Nanosecond => 'b',
            Self::Microsecond => 'u',
            Self::Millisecond => 'a',
            Self::Second => 's',
            Self::Minute => 'm',
            Self::Hour => 'h',
            Self::Day => 'd',
            Self::Week => 'w',
            Self::Month => 'n',
            Self::Year => 'y',
        }
    }

    /// Length in nanoseconds; `None` for months and years, which have no fixed length.
    #[must_use]
    pub const fn fixed_ns(self) -> Option<i64> {
        const SECOND: i64 = 1_000_000_000;
        Some(match self {
            Self::Nanosecond => 1,
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => SECOND,
            Self::Minute => 60 * SECOND,
            Self::Hour => 3_600 * SECOND,
            Self::Day => 86_400 * SECOND,
            Self::Week => 7 * 86_400 * SECOND,
            Self::Month | Self::Year => return None,
        })
    }
}

/// A count of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DurationLiteral {
    /// How many; negative only in time arithmetic and window offsets.
    pub count: i64,
    /// Of what.
    pub unit: TimeUnit,
}

impl DurationLiteral {
    /// Reads digits directly followed by one unit letter, nothing else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let unit = TimeUnit::from_letter(text.chars().next_back()?)?;
        let digits = text.get(..text.len().checked_sub(1)?)?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Self { count: digits.parse().ok()?, unit })
    }

    /// Whether it counts months or years.
    #[must_use]
    pub const fn is_calendar(self) -> bool {
        self.unit.fixed_ns().is_none()
    }

    /// Calendar months, for months and years.
    #[must_use]
    pub fn months(self) -> Option<i64> {
        match self.unit {
            TimeUnit::Month => Some(self.count),
            TimeUnit::Year => self.count.checked_mul(12),
            _ => None,
        }
    }

    /// Ticks of `precision`, parts of a tick dropped; `None` for calendar units and where 64 bits do not hold it.
    #[must_use]
    pub fn ticks(self, precision: Precision) -> Option<i64> {
        let ns = i128::from(self.count) * i128::from(self.unit.fixed_ns()?);
        i64::try_from(ns / i128::from(precision.ns_per_tick())).ok()
    }
}

impl fmt::Display for DurationLiteral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, self.unit.letter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units_in_either_case_and_nothing_else() {
        assert_eq!(
            DurationLiteral::parse("10S"),
            Some(DurationLiteral { count: 10, unit: TimeUnit::Second })
        );
        for bad in ["", "s", "10", "1.5s", "-1s", "10 s", "10x", "99999999999999999999s"] {
            assert_eq!(DurationLiteral::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn finer_than_a_tick_is_dropped() {
        assert_eq!(DurationLiteral::parse("1999u").unwrap().ticks(Precision::Ms), Some(1));
        assert_eq!(DurationLiteral::parse("2h").unwrap().ticks(Precision::Us), Some(7_200_000_000));
        assert_eq!(DurationLiteral::parse("1n").unwrap().ticks(Precision::Ms), None);
        assert_eq!(DurationLiteral::parse("2y").unwrap().months(), Some(24));
    }
}
