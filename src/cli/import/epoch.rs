//! Times that are written as whole numbers.

use model::Precision;

/// What a whole number counts since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EpochUnit {
    /// Ticks of the database, whatever they are.
    #[default]
    Ticks,
    /// Seconds.
    Seconds,
    /// Ticks of this length.
    Of(Precision),
}

impl EpochUnit {
    /// The unit that a number's digits give away: those of a time from September 2001 to November 2286. `None` for any
    /// other number.
    pub(super) fn of(number: i64) -> Option<Self> {
        match number {
            1_000_000_000..=9_999_999_999 => Some(Self::Seconds),
            1_000_000_000_000..=9_999_999_999_999 => Some(Self::Of(Precision::Ms)),
            1_000_000_000_000_000..=9_999_999_999_999_999 => Some(Self::Of(Precision::Us)),
            1_000_000_000_000_000_000.. => Some(Self::Of(Precision::Ns)),
            _ => None,
        }
    }

    /// For messages.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ticks => "ticks of the database",
            Self::Seconds => "seconds",
            Self::Of(Precision::Ms) => "milliseconds",
            Self::Of(Precision::Us) => "microseconds",
            Self::Of(Precision::Ns) => "nanoseconds",
        }
    }

    /// The coarsest precision that holds every such number.
    pub(super) const fn precision(self) -> Precision {
        match self {
            Self::Ticks | Self::Seconds => Precision::Ms,
            Self::Of(precision) => precision,
        }
    }

    /// `number` in ticks of `precision`; `None` where they are too coarse for it, or it is too large.
    pub(super) fn to_ticks(self, number: i64, precision: Precision) -> Option<i64> {
        let ns_per_unit = match self {
            Self::Ticks => return Some(number),
            Self::Seconds => 1_000_000_000,
            Self::Of(unit) => unit.ns_per_tick(),
        };
        let ns = i128::from(number) * i128::from(ns_per_unit);
        let ns_per_tick = i128::from(precision.ns_per_tick());
        (ns % ns_per_tick == 0).then_some(ns / ns_per_tick).and_then(|ticks| ticks.try_into().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_give_the_unit_away() {
        assert_eq!(EpochUnit::of(1_700_000_000), Some(EpochUnit::Seconds));
        assert_eq!(EpochUnit::of(1_700_000_000_000), Some(EpochUnit::Of(Precision::Ms)));
        assert_eq!(EpochUnit::of(1_700_000_000_000_000), Some(EpochUnit::Of(Precision::Us)));
        assert_eq!(EpochUnit::of(1_700_000_000_000_000_000), Some(EpochUnit::Of(Precision::Ns)));
        for number in [0, 17, -1_700_000_000, 99_999_999_999, 170_000_000_000_000] {
            assert_eq!(EpochUnit::of(number), None, "{number}");
        }
    }
}
