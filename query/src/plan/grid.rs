//! Where INTERVAL windows begin and end.

use chrono::{Datelike, NaiveDate, NaiveTime, TimeDelta};
use model::{Code, DurationLiteral, Error, Precision, Result, TimeUnit, Zone};

use crate::ast::{Window, WindowDuration};
use crate::source::TimeRange;

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Ticks(i64),
    /// Calendar months.
    Months(i64),
}

/// Longest step of months: ten thousand years, longer than any timestamp's range. The calendar ends some way beyond.
const MONTHS_MAX: i64 = 12 * 10_000;

/// Where the calendar ends, in months from 1900 either way.
const MONTHS_END: i64 = 12 * 262_143;

/// The windows of one INTERVAL clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    interval: Step,
    /// Distance of neighbouring starts.
    sliding: Step,
    /// The grid lies this much to the right.
    offset: Step,
    /// Ticks that local midnight is ahead of UTC's, for days and weeks.
    shift: i64,
    precision: Precision,
    zone: Zone,
}

impl Grid {
    /// Reads the clause. `range` are the bounds that WHERE sets, for an offset of AUTO; `now_ns` says which standard
    /// offset the zone has.
    pub(crate) fn new(
        window: &Window,
        precision: Precision,
        zone: Zone,
        range: TimeRange,
        now_ns: i64,
    ) -> Result<Self> {
        let (interval, offset, sliding) = match window {
            Window::Interval { interval, offset, sliding } => (interval, offset, sliding),
            Window::NotBuilt(name) => return Err(Error::not_supported(name)),
        };
        let step = |d: WindowDuration| -> Result<Step> {
            Ok(match d {
                WindowDuration::Ticks(ticks) => Step::Ticks(ticks),
                WindowDuration::Literal(d) => {
                    let too_long = || Error::with(Code::OutOfRange, format_args!("a window of {d}"));
                    match d.months() {
                        Some(months) if months > MONTHS_MAX => return Err(too_long()),
                        Some(months) => Step::Months(months),
                        None => Step::Ticks(d.ticks(precision).ok_or_else(too_long)?),
                    }
                }
                WindowDuration::Auto => Step::Ticks(0),
            })
        };
        let length = step(*interval)?;
        if matches!(length, Step::Ticks(n) | Step::Months(n) if n < 1) {
            return Err(Error::text(Code::IntervalTooSmall, "Interval cannot be less than 1 ms"));
        }
        let unit = |d: &WindowDuration| match d {
            WindowDuration::Literal(d) => Some(d.unit),
            _ => None,
        };
        let shift = match unit(interval) {
            Some(TimeUnit::Day | TimeUnit::Week | TimeUnit::Month | TimeUnit::Year) => {
                i64::from(standard_offset(zone, now_ns)) * precision.ticks_per_second()
            }
            _ => 0,
        };
        let mut grid =
            Self { interval: length, sliding: length, offset: Step::Ticks(0), shift, precision, zone };
        if let Some(sliding) = sliding {
            grid.sliding = checked_sliding(step(*sliding)?, length, precision)?;
        }
        match offset {
            None => {}
            Some(WindowDuration::Auto) => grid.align_to(range.first),
            Some(offset) => {
                check_offset(unit(offset), step(*offset)?, length, precision)?;
                grid.offset = step(*offset)?;
            }
        }
        Ok(grid)
    }

    /// Shifts the grid so that a window begins at the lower bound.
    fn align_to(&mut self, first: i64) {
        if first == i64::MIN {
            return;
        }
        if let Step::Ticks(interval) = self.sliding {
            self.offset = Step::Ticks((first.saturating_add(self.shift)).rem_euclid(interval));
        } else {
            let start = self.last_start(first);
            self.offset = Step::Ticks(within_time(i128::from(first).saturating_sub(start)));
        }
    }

    /// The latest start at or before `ticks`. Windows may begin before the first tick and end behind the last one.
    fn last_start(&self, ticks: i64) -> i128 {
        let ticks = i128::from(ticks);
        match self.sliding {
            Step::Ticks(sliding) => {
                let offset = match self.offset {
                    Step::Ticks(offset) => offset,
                    // Months only shift a grid of months.
                    Step::Months(_) => 0,
                };
                let (sliding, origin) = (i128::from(sliding), i128::from(offset) - i128::from(self.shift));
                (ticks - origin).div_euclid(sliding) * sliding + origin
            }
            Step::Months(months) => {
                let mut index = self.month_index(self.unshifted(ticks)).div_euclid(months) * months;
                // An offset of days may reach past the month's own end.
                while self.month_start(index) > ticks {
                    index -= months;
                }
                while self.month_start(index + months) <= ticks {
                    index += months;
                }
                self.month_start(index)
            }
        }
    }

    fn unshifted(&self, ticks: i128) -> i64 {
        match self.offset {
            Step::Ticks(offset) => within_time(ticks.saturating_sub(i128::from(offset))),
            Step::Months(offset) => {
                let ticks = within_time(ticks);
                checked_add_months(ticks, -offset, self.precision, self.zone).unwrap_or(ticks)
            }
        }
    }

    /// Months from January 1900 to the local month of `ticks`.
    fn month_index(&self, ticks: i64) -> i64 {
        local(ticks, self.precision, self.zone)
            .map_or(MONTHS_END * ticks.signum(), |t| i64::from(t.year() - 1900) * 12 + i64::from(t.month0()))
    }

    /// Start of the window of month `index`, offset included. Where the calendar has no such month, it lies beyond all time.
    fn month_start(&self, index: i64) -> i128 {
        let beyond = if index < 0 { i128::MIN } else { i128::MAX };
        let index = match self.offset {
            Step::Months(offset) => index + offset,
            Step::Ticks(_) => index,
        };
        let Ok(year) = i32::try_from(index.div_euclid(12) + 1900) else { return beyond };
        let month = u32::try_from(index.rem_euclid(12)).unwrap_or(0) + 1;
        let Some(date) = NaiveDate::from_ymd_opt(year, month, 1) else { return beyond };
        let midnight = i128::from(self.zone.to_unix_s(date.and_time(NaiveTime::MIN)));
        let start = midnight * i128::from(self.precision.ticks_per_second());
        match self.offset {
            Step::Ticks(offset) => start + i128::from(offset),
            Step::Months(_) => start,
        }
    }

    fn after(&self, start: i128) -> i128 {
        match self.sliding {
            Step::Ticks(sliding) => start + i128::from(sliding),
            Step::Months(months) => self.month_start(self.month_index(self.unshifted(start)) + months),
        }
    }

    fn before(&self, start: i128) -> i128 {
        match self.sliding {
            Step::Ticks(sliding) => start - i128::from(sliding),
            Step::Months(months) => self.month_start(self.month_index(self.unshifted(start)) - months),
        }
    }

    fn end_of(&self, start: i128) -> i128 {
        match self.interval {
            Step::Ticks(interval) => start + i128::from(interval),
            Step::Months(_) if self.interval == self.sliding => self.after(start),
            Step::Months(months) => {
                let start = within_time(start);
                let end = checked_add_months(start, months, self.precision, self.zone);
                end.map_or(i128::MAX, i128::from)
            }
        }
    }

    /// The start after `start`. The first and the last tick stand for what lies beyond time, here and below.
    pub(crate) fn next(&self, start: i64) -> i64 {
        within_time(self.after(i128::from(start)))
    }

    /// End of the window that begins at `start`, not included.
    pub(crate) fn end(&self, start: i64) -> i64 {
        within_time(self.end_of(i128::from(start)))
    }

    /// Whether windows overlap.
    pub(crate) fn slides(&self) -> bool {
        self.sliding != self.interval
    }

    /// Start and end of the one window that holds `ticks`; of windows that slide, of the last.
    pub(crate) fn holding(&self, ticks: i64) -> (i64, i64) {
        let start = self.last_start(ticks);
        (within_time(start), within_time(self.end_of(start)))
    }

    /// Starts of all windows that hold `ticks`, ascending.
    pub(crate) fn starts(&self, ticks: i64, into: &mut Vec<i64>) {
        let begin = into.len();
        let mut start = self.last_start(ticks);
        while self.end_of(start) > i128::from(ticks) {
            into.push(within_time(start));
            let previous = self.before(start);
            // Of windows that began before time there is one.
            if previous >= start || start < i128::from(i64::MIN) {
                break;
            }
            start = previous;
        }
        if let Some(new) = into.get_mut(begin..) {
            new.reverse();
        }
    }

    /// Start of the first window that holds `ticks`.
    pub(crate) fn first_containing(&self, ticks: i64) -> i64 {
        let mut starts = Vec::new();
        self.starts(ticks, &mut starts);
        starts.first().copied().unwrap_or_else(|| self.holding(ticks).0)
    }
}

/// The tick nearest to it.
fn within_time(ticks: i128) -> i64 {
    i64::try_from(ticks).unwrap_or(if ticks < 0 { i64::MIN } else { i64::MAX })
}

/// Seconds east of UTC in the zone's winter.
pub(crate) fn standard_offset(zone: Zone, now_ns: i64) -> i32 {
    let now = now_ns.div_euclid(1_000_000_000);
    let half_year = 182 * 86_400;
    // Summer time is ahead, so the lesser of two offsets half a year apart is the standard one.
    zone.offset_at(now).min(zone.offset_at(now - half_year))
}

/// Local wall-clock time.
pub(crate) fn local(ticks: i64, precision: Precision, zone: Zone) -> Option<chrono::NaiveDateTime> {
    let per_second = precision.ticks_per_second();
    let (seconds, rest) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
    let offset = i64::from(zone.offset_at(seconds));
    let nanos = u32::try_from(rest * precision.ns_per_tick()).ok()?;
    chrono::DateTime::from_timestamp(seconds.checked_add(offset)?, nanos).map(|t| t.naive_utc())
}

/// The same local time of day, `months` later; the day is clipped to the month's end.
///
/// `None` where the precision has no such time.
pub(crate) fn checked_add_months(ticks: i64, months: i64, precision: Precision, zone: Zone) -> Option<i64> {
    let time = local(ticks, precision, zone)?;
    let index = (i64::from(time.year()) * 12 + i64::from(time.month0())).checked_add(months)?;
    let year = i32::try_from(index.div_euclid(12)).ok()?;
    let month = u32::try_from(index.rem_euclid(12)).ok()? + 1;
    let first = NaiveDate::from_ymd_opt(year, month, 1)?;
    let last = first.checked_add_months(chrono::Months::new(1))?.checked_sub_signed(TimeDelta::days(1))?;
    let date = first.with_day(time.day().min(last.day()))?;
    let seconds = zone.to_unix_s(date.and_time(time.time()));
    let per_second = precision.ticks_per_second();
    seconds.checked_mul(per_second)?.checked_add(ticks.rem_euclid(per_second))
}

fn average(step: Step, precision: Precision) -> i64 {
    match step {
        Step::Ticks(ticks) => ticks,
        // As TDengine compares months with ticks: 30 days each.
        Step::Months(months) => {
            let month = DurationLiteral { count: 30, unit: TimeUnit::Day };
            month.ticks(precision).unwrap_or(i64::MAX).saturating_mul(months)
        }
    }
}

fn checked_sliding(sliding: Step, interval: Step, precision: Precision) -> Result<Step> {
    let Step::Ticks(ticks) = sliding else {
        return if sliding == interval { Ok(sliding) } else { Err(Error::of(Code::SlidingCalendar)) };
    };
    let length = average(interval, precision);
    if ticks > length {
        return Err(Error::of(Code::SlidingTooLarge));
    }
    if ticks < 1 || ticks < length / 100 {
        return Err(Error::of(Code::SlidingTooSmall));
    }
    Ok(sliding)
}

fn check_offset(unit: Option<TimeUnit>, offset: Step, interval: Step, precision: Precision) -> Result<()> {
    let negative = matches!(offset, Step::Ticks(n) | Step::Months(n) if n < 0);
    if negative {
        return Err(Error::of(Code::OffsetNegative));
    }
    if unit == Some(TimeUnit::Year) && matches!(interval, Step::Months(m) if m % 12 != 0) {
        return Err(Error::of(Code::OffsetUnit));
    }
    let shorter = match (offset, interval) {
        (Step::Months(_), Step::Ticks(_)) => false,
        _ => average(offset, precision) < average(interval, precision),
    };
    if shorter { Ok(()) } else { Err(Error::of(Code::OffsetTooLarge)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(interval: &str, offset: Option<&str>, sliding: Option<&str>, zone: Zone) -> Result<Grid> {
        let d = |t: &str| WindowDuration::Literal(DurationLiteral::parse(t).unwrap());
        let window =
            Window::Interval { interval: d(interval), offset: offset.map(d), sliding: sliding.map(d) };
        Grid::new(&window, Precision::Ms, zone, TimeRange::ALL, 1_709_251_200_000_000_000)
    }

    fn at(text: &str) -> i64 {
        model::parse_timestamp(text, Precision::Ms, Zone::UTC).unwrap()
    }

    #[test]
    fn days_follow_the_zone_and_hours_do_not() {
        let shanghai = Zone::parse("Asia/Shanghai").unwrap();
        let row = at("2024-03-01T17:00:00Z");
        assert_eq!(grid("1d", None, None, shanghai).unwrap().holding(row).0, at("2024-03-01T16:00:00Z"));
        assert_eq!(grid("24h", None, None, shanghai).unwrap().holding(row).0, at("2024-03-01T00:00:00Z"));
        assert_eq!(grid("1w", None, None, Zone::UTC).unwrap().holding(at("2024-03-01")).0, at("2024-02-29"));
    }

    #[test]
    fn months_and_years() {
        let month = grid("1n", None, None, Zone::UTC).unwrap();
        assert_eq!(month.holding(at("2024-02-29")).0, at("2024-02-01"));
        assert_eq!(month.end(at("2024-02-01")), at("2024-03-01"));
        let shifted = grid("1n", Some("1d"), None, Zone::UTC).unwrap();
        assert_eq!(shifted.holding(at("2024-03-01")).0, at("2024-02-02"));
        assert_eq!(shifted.end(at("2024-02-02")), at("2024-03-02"));
        assert_eq!(grid("2y", None, None, Zone::UTC).unwrap().holding(at("2025-05-05")).0, at("2024-01-01"));
        assert_eq!(checked_add_months(at("2024-01-31"), 1, Precision::Ms, Zone::UTC), Some(at("2024-02-29")));
    }

    #[test]
    fn sliding_windows_that_hold_an_instant() {
        let grid = grid("2m", Some("30s"), Some("1m"), Zone::UTC).unwrap();
        let mut starts = Vec::new();
        grid.starts(at("2024-03-01 00:00:00"), &mut starts);
        assert_eq!(starts, [at("2024-02-29 23:58:30"), at("2024-02-29 23:59:30")]);
    }

    #[test]
    fn refuses_bad_clauses() {
        let code = |r: Result<Grid>| r.unwrap_err().code();
        assert_eq!(code(grid("1m", None, Some("2m"), Zone::UTC)), Code::SlidingTooLarge);
        assert_eq!(code(grid("1h", None, Some("1s"), Zone::UTC)), Code::SlidingTooSmall);
        assert_eq!(code(grid("1y", None, Some("1n"), Zone::UTC)), Code::SlidingCalendar);
        assert_eq!(code(grid("1m", Some("1m"), None, Zone::UTC)), Code::OffsetTooLarge);
        assert_eq!(code(grid("1n", Some("1y"), None, Zone::UTC)), Code::OffsetUnit);
        assert_eq!(code(grid("1u", None, None, Zone::UTC)), Code::IntervalTooSmall);
    }

    #[test]
    fn endless_months_are_one_window_or_refused() {
        for count in [MONTHS_MAX / 12, MONTHS_MAX, 300_000, 2_147_483_648, i64::MAX] {
            for (unit, months) in [(TimeUnit::Month, 1), (TimeUnit::Year, 12)] {
                let interval = WindowDuration::Literal(DurationLiteral { count, unit });
                let window = Window::Interval { interval, offset: None, sliding: None };
                let grid = Grid::new(&window, Precision::Ms, Zone::UTC, TimeRange::ALL, 0);
                if count > MONTHS_MAX / months {
                    assert_eq!(grid.unwrap_err().code(), Code::OutOfRange, "{count} {unit:?}");
                    continue;
                }
                let grid = grid.unwrap();
                let now = 1_709_251_200_000;
                let start = grid.holding(now).0;
                assert!(start <= now && now < grid.end(start), "{count} {unit:?}");
            }
        }
    }

    proptest::proptest! {
        /// Wherever a row lies between the first and the last tick.
        #[test]
        fn every_row_is_in_a_window(
            tick in proptest::prop_oneof![
                proptest::num::i64::ANY,
                i64::MIN..i64::MIN + 3,
                i64::MAX - 3..=i64::MAX,
            ],
            interval in proptest::sample::select(vec!["1a", "7s", "1d", "1w", "1n", "5n", "1y", "10000y"]),
            offset in proptest::option::of(proptest::sample::select(vec!["1a", "3d"])),
            sliding in proptest::sample::select(vec![None, Some(1), Some(2), Some(3)]),
            precision in proptest::sample::select(vec![Precision::Ms, Precision::Us, Precision::Ns]),
        ) {
            let d = |t: &str| WindowDuration::Literal(DurationLiteral::parse(t).unwrap());
            let literal = DurationLiteral::parse(interval).unwrap();
            let sliding = match (literal.unit, sliding) {
                (TimeUnit::Day | TimeUnit::Week, Some(part)) => Some(d(["12h", "1h", "5h"][part - 1])),
                _ => None,
            };
            let window = Window::Interval { interval: d(interval), offset: offset.map(d), sliding };
            let Ok(grid) = Grid::new(&window, precision, Zone::UTC, TimeRange::ALL, 0) else { return Ok(()) };
            let is_in = |start: i64, end: i64| start <= tick && (tick < end || end == i64::MAX);
            let (start, end) = grid.holding(tick);
            proptest::prop_assert!(is_in(start, end), "[{start}, {end})");
            let mut starts = Vec::new();
            grid.starts(tick, &mut starts);
            proptest::prop_assert!(!starts.is_empty() && starts.is_sorted(), "{starts:?}");
            proptest::prop_assert!(starts.iter().all(|start| is_in(*start, grid.end(*start))), "{starts:?}");
        }
    }
}
