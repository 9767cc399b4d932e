//! Days and weeks of the calendar, counted as MySQL counts them.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use arrow_schema::DataType as Arrow;
use chrono::{Datelike, NaiveDate};
use datafusion::common::internal_err;
use datafusion::logical_expr::lit;
use model::{DataType, Precision, Result, Zone};

use crate::function::native::call;
use crate::function::time::{instant, native};
use crate::function::{Call, type_error, value_error};
use crate::plan::coerce::ticks;
use crate::plan::grid::local;
use crate::plan::types::Typed;

/// WEEK, WEEKOFYEAR, WEEKDAY, DAYOFWEEK.
pub(super) fn bind(source: &Call<'_>, precision: Precision, zone: Zone) -> Result<Typed> {
    source.count(1, if source.name == "week" { 2 } else { 1 })?;
    let value = instant(source, 0, precision, zone)?;
    let precision = value.ty.precision;
    let date = move |t: i64| local(t, precision, zone).map(|t| t.date());
    let name = format!("{}_{precision}_{zone:?}", source.name);
    if source.name != "week" {
        let of: fn(NaiveDate) -> i64 = match source.name {
            "weekofyear" => |d| week(d, 3),
            "weekday" => |d| i64::from(d.weekday().num_days_from_monday()),
            _ => |d| i64::from(d.weekday().num_days_from_sunday()) + 1,
        };
        let expr = native(name, Arrow::Int64, value, move |values| {
            let numbers: Int64Array = values.iter().map(|v| v.and_then(date).map(of)).collect();
            Arc::new(numbers)
        })?;
        return Ok(Typed::bigint(expr));
    }
    let mode = match source.args.get(1) {
        // A mode of NULL is the mode of none given.
        None => Typed::bigint(lit(0_i64)),
        Some(mode) if mode.ty.is_null() => Typed::bigint(lit(0_i64)),
        Some(mode) if !mode.ty.is_integer() => return Err(type_error(source.name)),
        Some(mode) => {
            if mode.integer().is_some_and(|m| !(0..=7).contains(&m)) {
                return Err(value_error(source.name));
            }
            mode.clone().arrow_cast(DataType::BigInt)?
        }
    };
    let expr = call(name, Arrow::Int64, vec![ticks(value)?.expr, mode.expr], move |args, _| {
        let [values, modes] = args else { return internal_err!("two arguments expected") };
        let modes = modes.as_primitive::<Int64Type>();
        let numbers: Int64Array = values
            .as_primitive::<Int64Type>()
            .iter()
            .zip(modes)
            .map(|(v, mode)| v.and_then(date).map(|d| week(d, mode.unwrap_or(0))))
            .collect();
        Ok(Arc::new(numbers))
    });
    Ok(Typed::bigint(expr))
}

/// Week of the year. Bit 0 of `mode`: weeks begin on Monday, else on Sunday; bit 1: the days before week 1 belong to the
/// last week of the year before, else to week 0; bit 2 swaps what bit 0 implies for week 1: that it has at least four
/// days (Monday), or that it begins with the first first-day (Sunday).
fn week(date: NaiveDate, mode: i64) -> i64 {
    let monday = mode & 1 != 0;
    let from_one = mode & 2 != 0;
    let four_days = (mode & 4 != 0) != monday;
    let day_of_week = |d: NaiveDate| {
        i64::from(if monday {
            d.weekday().num_days_from_monday()
        } else {
            d.weekday().num_days_from_sunday()
        })
    };
    // Day of the year on which week 1 begins; may lie in the year before.
    let first_week = |year: i32| {
        let first = NaiveDate::from_ymd_opt(year, 1, 1).map_or(0, day_of_week);
        match (four_days, first) {
            (true, f) if f <= 3 => -f,
            (false, 0) => 0,
            (_, f) => 7 - f,
        }
    };
    let day = i64::from(date.ordinal0());
    let begin = first_week(date.year());
    if day < begin {
        if !from_one {
            return 0;
        }
        let before = NaiveDate::from_ymd_opt(date.year() - 1, 12, 31).map_or(365, |d| i64::from(d.ordinal()));
        return (day + before - first_week(date.year() - 1)).div_euclid(7) + 1;
    }
    let number = (day - begin).div_euclid(7) + 1;
    let days = NaiveDate::from_ymd_opt(date.year(), 12, 31).map_or(365, |d| i64::from(d.ordinal()));
    if from_one && day >= days + first_week(date.year() + 1) {
        return 1;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_in_every_mode() {
        for (date, weeks) in [
            ((2024, 1, 1), [0, 1, 53, 1, 1, 1, 1, 1]),
            ((2021, 1, 3), [1, 0, 1, 53, 1, 0, 1, 52]),
            ((2020, 12, 31), [52, 53, 52, 53, 53, 52, 53, 52]),
            ((2016, 1, 1), [0, 0, 52, 53, 0, 0, 52, 52]),
        ] {
            let day = NaiveDate::from_ymd_opt(date.0, date.1, date.2).unwrap();
            for (mode, expected) in weeks.into_iter().enumerate() {
                assert_eq!(week(day, i64::try_from(mode).unwrap()), expected, "{day} mode {mode}");
            }
        }
    }
}
