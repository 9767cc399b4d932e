//! Functions of time.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use arrow_schema::DataType as Arrow;
use datafusion::common::internal_err;
use datafusion::logical_expr::{Expr as DfExpr, Operator, lit};
use model::{Code, DataType, DurationLiteral, Error, Precision, Result, TimeUnit, Zone};

use crate::function::native::call;
use crate::function::{Call, cast, time_format, type_error, unit_ticks, value_error, week};
use crate::plan::coerce::{binary, ticks, to_double};
use crate::plan::error::to_datafusion;
use crate::plan::expr::Binder;
use crate::plan::grid::{checked_add_months, local, standard_offset};
use crate::plan::types::{Ty, Typed, scalar_ticks};

pub(super) fn knows(name: &str) -> bool {
    matches!(
        name,
        "now"
            | "today"
            | "to_iso8601"
            | "to_unixtimestamp"
            | "to_char"
            | "to_timestamp"
            | "timediff"
            | "timetruncate"
            | "week"
            | "weekofyear"
            | "weekday"
            | "dayofweek"
            | "date"
    )
}

pub(super) fn bind(binder: &Binder<'_, '_>, call: &Call<'_>) -> Result<Typed> {
    let session = binder.cx.session;
    let precision = binder.precision();
    match call.name {
        "now" => {
            call.count(0, 0)?;
            Ok(Typed::timestamp(Some(precision.ticks_from_ns(session.now_ns)), precision))
        }
        "today" => {
            call.count(0, 0)?;
            let now = precision.ticks_from_ns(session.now_ns);
            let midnight = local(now, precision, session.zone).map_or(now, |t| {
                let seconds = session.zone.to_unix_s(t.date().and_time(chrono::NaiveTime::MIN));
                seconds * precision.ticks_per_second()
            });
            Ok(Typed::timestamp(Some(midnight), precision))
        }
        "to_iso8601" => to_iso8601(call, session.zone),
        "to_unixtimestamp" => to_unixtimestamp(call, precision, session.zone),
        "to_char" => time_format::to_char(call, session.zone),
        "to_timestamp" => time_format::to_timestamp(call, precision, session.zone),
        "timediff" => time_difference(call, precision, session.zone),
        "timetruncate" => {
            truncate(call, precision, session.zone, standard_offset(session.zone, session.now_ns))
        }
        "date" => {
            call.only()?;
            let value = instant(call, 0, precision, session.zone)?;
            let (precision, zone) = (value.ty.precision, session.zone);
            let expr = native(format!("date_{precision}_{zone:?}"), Arrow::Utf8, value, move |values| {
                let dates: StringArray = values
                    .iter()
                    .map(|v| {
                        v.and_then(|v| local(v, precision, zone)).map(|t| t.format("%Y-%m-%d").to_string())
                    })
                    .collect();
                Arc::new(dates)
            })?;
            Ok(Typed::new(expr, Ty::plain(DataType::Varchar(10))))
        }
        _ => week::bind(call, precision, session.zone),
    }
}

/// A function of the ticks of one TIMESTAMP.
pub(super) fn native(
    name: String,
    result: Arrow,
    value: Typed,
    body: impl Fn(&Int64Array) -> ArrayRef + Send + Sync + 'static,
) -> Result<DfExpr> {
    Ok(call(name, result, vec![ticks(value)?.expr], move |args, _| {
        let [array] = args else { return internal_err!("one argument expected") };
        Ok(body(array.as_primitive::<Int64Type>()))
    }))
}

/// An argument as a time: TIMESTAMP, ticks, or text that gives NULL where it is no time.
pub(super) fn instant(call: &Call<'_>, index: usize, precision: Precision, zone: Zone) -> Result<Typed> {
    let value = call.arg(index)?.clone();
    let ty = Ty::of(DataType::Timestamp, precision);
    if value.ty.is_timestamp() {
        Ok(value)
    } else if value.ty.is_null() {
        Ok(Typed::timestamp(None, precision))
    } else if value.ty.is_string() {
        parsed(value, ty, zone)
    } else if value.ty.is_integer() {
        cast::cast(value, ty, zone)
    } else {
        Err(type_error(call.name))
    }
}

/// Text as a time, NULL where it is none.
fn parsed(value: Typed, ty: Ty, zone: Zone) -> Result<Typed> {
    let precision = ty.precision;
    let name = format!("parse_time_{precision}_{zone:?}");
    let expr = call(name, ty.arrow(), vec![value.expr], move |args, _| {
        let ticks: Int64Array = args
            .iter()
            .flat_map(|a| a.as_string::<i32>().iter())
            .map(|t| t.and_then(|t| model::parse_timestamp(t, precision, zone)))
            .collect();
        Ok(arrow::compute::cast(&ticks, &ty.arrow())?)
    });
    Typed::new(expr, ty).folded()
}

/// Prefix of the functions that move a time: a shifted timestamp is no timestamp of its row any more.
pub(crate) const SHIFTED: &str = "shift_";

/// TIMESTAMP plus a duration; months keep the local time of day.
///
/// A time that the precision cannot hold is an error, in rows too.
pub(crate) fn shift(value: Typed, by: DurationLiteral, zone: Zone) -> Result<Typed> {
    let ty = value.ty;
    let precision = ty.precision;
    let too_far = move || Error::with(Code::OutOfRange, format_args!("a time moved by {by}"));
    let Some(months) = by.months() else {
        let count = by.ticks(precision).ok_or_else(too_far)?;
        return plus_ticks(value, Operator::Plus, Typed::bigint(lit(count)));
    };
    let moved = move |t: i64| checked_add_months(t, months, precision, zone).ok_or_else(too_far);
    if let Some(constant) = value.constant() {
        return Ok(Typed::timestamp(scalar_ticks(constant).map(moved).transpose()?, precision));
    }
    let name = format!("{SHIFTED}months_{months}_{precision}_{zone:?}");
    let expr = call(name, Arrow::Int64, vec![ticks(value)?.expr], move |args, _| {
        let [array] = args else { return internal_err!("one argument expected") };
        let array = array.as_primitive::<Int64Type>();
        let shifted: Int64Array = array.try_unary(|t| moved(t).map_err(to_datafusion))?;
        Ok(Arc::new(shifted))
    });
    Ok(Typed::new(datafusion::logical_expr::cast(expr, ty.arrow()), ty))
}

fn plus_ticks(value: Typed, op: Operator, by: Typed) -> Result<Typed> {
    let ty = value.ty;
    let moved = move |t: i64, by: i64| {
        let moved = if op == Operator::Minus { t.checked_sub(by) } else { t.checked_add(by) };
        moved.ok_or_else(|| Error::with(Code::OutOfRange, format_args!("{t} {op} {by} as a time")))
    };
    if let (Some(constant), Some(by)) = (value.constant(), by.integer()) {
        let ticks = scalar_ticks(constant).map(|t| moved(t, by)).transpose()?;
        return Ok(Typed::timestamp(ticks, ty.precision));
    }
    let arguments = vec![ticks(value)?.expr, by.arrow_cast(DataType::BigInt)?.expr];
    let sum = call(format!("{SHIFTED}ticks_{op}"), Arrow::Int64, arguments, move |args, _| {
        let [times, counts] = args else { return internal_err!("two arguments expected") };
        let (times, counts) = (times.as_primitive::<Int64Type>(), counts.as_primitive::<Int64Type>());
        let pairs = times.iter().zip(counts);
        let sums = pairs.map(|(t, by)| t.zip(by).map(|(t, by)| moved(t, by)).transpose());
        Ok(Arc::new(sums.collect::<Result<Int64Array>>().map_err(to_datafusion)?))
    });
    Ok(Typed::new(datafusion::logical_expr::cast(sum, ty.arrow()), ty))
}

/// `+` and `-` where a side is a TIMESTAMP: with an integer a TIMESTAMP, of two their distance in ticks.
pub(crate) fn shift_by_value(left: Typed, op: Operator, right: Typed) -> Result<Typed> {
    let counts = |t: &Typed| t.ty.is_integer() || t.ty.is_bool();
    if left.ty.is_timestamp() && right.ty.is_timestamp() && op == Operator::Minus {
        return Ok(Typed::bigint(binary(ticks(left)?.expr, op, ticks(right)?.expr)));
    }
    if left.ty.is_timestamp() && counts(&right) {
        return plus_ticks(left, op, right);
    }
    if right.ty.is_timestamp() && counts(&left) && op == Operator::Plus {
        return plus_ticks(right, op, left);
    }
    if left.ty.is_timestamp() && right.ty.is_timestamp() {
        return Err(Error::of(Code::InvalidOperation));
    }
    Ok(Typed::double(binary(to_double(left)?.expr, op, to_double(right)?.expr)))
}

fn to_iso8601(call: &Call<'_>, zone: Zone) -> Result<Typed> {
    call.count(1, 2)?;
    let value = call.arg(0)?.clone();
    if !value.ty.is_timestamp() && !value.ty.is_integer() {
        return Err(type_error(call.name));
    }
    let value = if value.ty.is_timestamp() {
        value
    } else {
        cast::cast(value, Ty::of(DataType::Timestamp, Precision::Ms), zone)?
    };
    let (zone, suffix) = match call.args.get(1) {
        None => (zone, None),
        Some(given) => {
            let text = given.text().ok_or_else(|| type_error(call.name))?;
            let offset = text.starts_with(['+', '-']) || matches!(text, "Z" | "z");
            let given = Zone::parse(text).filter(|_| offset);
            let given = given.ok_or_else(|| Error::text(Code::FunctionFailed, "Invalid timzone format"))?;
            (given, Some(text.to_owned()))
        }
    };
    let precision = value.ty.precision;
    let name = format!("to_iso8601_{precision}_{zone:?}_{suffix:?}");
    let expr = native(name, Arrow::Utf8, value, move |values| {
        let texts: StringArray =
            values.iter().map(|v| v.map(|v| iso8601(v, precision, zone, suffix.as_deref()))).collect();
        Arc::new(texts)
    })?;
    Ok(Typed::new(expr, Ty::plain(DataType::Varchar(64))))
}

fn iso8601(ticks: i64, precision: Precision, zone: Zone, suffix: Option<&str>) -> String {
    let per_second = precision.ticks_per_second();
    let seconds = ticks.div_euclid(per_second);
    let rest = ticks.rem_euclid(per_second);
    let Some(time) = local(ticks, precision, zone) else { return ticks.to_string() };
    let offset = match suffix {
        Some(suffix) => suffix.to_owned(),
        None => {
            let offset = zone.offset_at(seconds);
            let minutes = offset.abs() / 60;
            let sign = if offset < 0 { '-' } else { '+' };
            format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
        }
    };
    format!("{}.{rest:0width$}{offset}", time.format("%Y-%m-%dT%H:%M:%S"), width = precision.digits())
}

fn to_unixtimestamp(call: &Call<'_>, precision: Precision, zone: Zone) -> Result<Typed> {
    call.count(1, 2)?;
    let value = call.string(0)?.clone();
    if value.ty.is_null() {
        return Err(type_error(call.name));
    }
    let as_time = match call.args.get(1) {
        None => false,
        Some(flag) => match flag.integer() {
            Some(0) => false,
            Some(1) => true,
            _ => return Err(value_error(call.name)),
        },
    };
    let time = parsed(value, Ty::of(DataType::Timestamp, precision), zone)?;
    if as_time { Ok(time) } else { ticks(time) }
}

fn time_difference(call: &Call<'_>, precision: Precision, zone: Zone) -> Result<Typed> {
    call.count(2, 3)?;
    let precision = call.args.iter().find(|a| a.ty.is_timestamp()).map_or(precision, |a| a.ty.precision);
    let per = match call.unit(2)? {
        None => 1,
        Some(unit) => unit_ticks(call.name, unit, precision)?,
    };
    let (a, b) = (instant(call, 0, precision, zone)?, instant(call, 1, precision, zone)?);
    let difference = binary(ticks(a)?.expr, Operator::Minus, ticks(b)?.expr);
    Ok(Typed::bigint(if per == 1 { difference } else { binary(difference, Operator::Divide, lit(per)) }))
}

fn truncate(call: &Call<'_>, precision: Precision, zone: Zone, standard_offset_s: i32) -> Result<Typed> {
    call.count(2, 3)?;
    if call.arg(0)?.ty.is_null() {
        return Err(type_error(call.name));
    }
    let in_zone = match call.args.get(2) {
        None => true,
        Some(flag) => match flag.integer() {
            Some(0) => false,
            Some(1) => true,
            _ => return Err(value_error(call.name)),
        },
    };
    let value = instant(call, 0, precision, zone)?;
    let precision = value.ty.precision;
    let unit = call.unit(1)?.ok_or_else(|| type_error(call.name))?;
    let step = unit_ticks(call.name, unit, precision)?;
    let local = in_zone && matches!(unit.unit, TimeUnit::Day | TimeUnit::Week);
    let shift = if local { i64::from(standard_offset_s) * precision.ticks_per_second() } else { 0 };
    let ty = value.ty;
    let expr = native(format!("timetruncate_{step}_{shift}"), Arrow::Int64, value, move |values| {
        // Division toward zero: times before 1970 are cut toward 1970.
        let cut = |t: i64| (t.saturating_add(shift) / step).saturating_mul(step).saturating_sub(shift);
        Arc::new(values.unary::<_, Int64Type>(cut))
    })?;
    Ok(Typed::new(datafusion::logical_expr::cast(expr, ty.arrow()), ty))
}
