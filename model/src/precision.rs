//! Tick length of a database's timestamps.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How long one tick of a TIMESTAMP lasts. A timestamp never travels without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Precision {
    /// Milliseconds.
    #[default]
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl Precision {
    /// Nanoseconds in one tick.
    #[must_use]
    pub const fn ns_per_tick(self) -> i64 {
        match self {
            Self::Ms => 1_000_000,
            Self::Us => 1_000,
            Self::Ns => 1,
        }
    }

    /// Ticks in one second.
    #[must_use]
    pub const fn ticks_per_second(self) -> i64 {
        1_000_000_000 / self.ns_per_tick()
    }

    /// Digits after the decimal point of the second.
    #[must_use]
    pub const fn digits(self) -> usize {
        match self {
            Self::Ms => 3,
            Self::Us => 6,
            Self::Ns => 9,
        }
    }

    /// Nanoseconds since the epoch as ticks, rounded down.
    #[must_use]
    pub fn ticks_from_ns(self, ns: i64) -> i64 {
        ns.div_euclid(self.ns_per_tick())
    }

    /// The same instant in ticks of `to`; rounded toward zero to a coarser one, clamped where a finer one overflows.
    #[must_use]
    pub fn convert(self, ticks: i64, to: Self) -> i64 {
        let (from_ns, to_ns) = (self.ns_per_tick(), to.ns_per_tick());
        if from_ns >= to_ns { ticks.saturating_mul(from_ns / to_ns) } else { ticks / (to_ns / from_ns) }
    }

    /// Latest timestamp that a row may carry: 2970-01-01T00:00:00Z, or the end of 64-bit nanoseconds (2262-04-11).
    #[must_use]
    pub const fn max_ticks(self) -> i64 {
        match self {
            Self::Ms => 31_556_995_200_000,
            Self::Us => 31_556_995_200_000_000,
            Self::Ns => i64::MAX,
        }
    }

    /// Reads `ms`, `us` or `ns` in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Ms, Self::Us, Self::Ns].into_iter().find(|p| p.as_str().eq_ignore_ascii_case(text))
    }

    /// `ms`, `us` or `ns`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Us => "us",
            Self::Ns => "ns",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
