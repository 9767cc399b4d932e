//! TO_CHAR and TO_TIMESTAMP: times by a format of codes.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use arrow_schema::DataType as Arrow;
use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use datafusion::common::internal_err;
use model::{Code, DataType, Error, Precision, Result, Zone};

use crate::function::native::call;
use crate::function::{Call, type_error};
use crate::plan::coerce::ticks;
use crate::plan::error::to_datafusion;
use crate::plan::grid::local;
use crate::plan::types::{Ty, Typed};

/// Code words, longest first where one begins another.
const CODES: &[&str] = &[
    "hh24", "hh12", "yyyy", "month", "a.m.", "p.m.", "yyy", "mon", "day", "ddd", "tzh", "am", "pm", "yy",
    "mm", "dd", "dy", "hh", "mi", "ss", "ms", "us", "ns", "y", "d",
];

/// A piece of a format.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    /// Index into [`CODES`] by name, and how it was written.
    Code(&'static str, String),
    Text(String),
}

fn pieces(format: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = format;
    while let Some(c) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            literal.push_str(text);
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix("\\\"") {
            literal.push('"');
            rest = after;
            continue;
        }
        let code =
            CODES.iter().find(|code| rest.get(..code.len()).is_some_and(|t| t.eq_ignore_ascii_case(code)));
        if let Some(code) = code {
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            let (word, after) = rest.split_at(code.len());
            pieces.push(Piece::Code(code, word.to_owned()));
            rest = after;
            continue;
        }
        literal.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    pieces
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A name in the case of the code: `MONTH`, `Month`, `month`.
fn cased(name: &str, word: &str) -> String {
    let mut letters = word.chars();
    match (letters.next().is_some_and(char::is_uppercase), letters.next().is_some_and(char::is_uppercase)) {
        (true, true) => name.to_uppercase(),
        (true, false) => name.to_owned(),
        (false, _) => name.to_lowercase(),
    }
}

/// TO_CHAR.
pub(super) fn to_char(source: &Call<'_>, zone: Zone) -> Result<Typed> {
    source.count(2, 2)?;
    let value = source.arg(0)?.clone();
    if !value.ty.is_timestamp() {
        return Err(type_error(source.name));
    }
    let precision = value.ty.precision;
    let format = source.string(1)?.clone();
    let name = format!("to_char_{precision}_{zone:?}");
    let expr = call(name, Arrow::Utf8, vec![ticks(value)?.expr, format.expr], move |args, _| {
        let [values, formats] = args else { return internal_err!("two arguments expected") };
        let mut known: Option<(String, Vec<Piece>)> = None;
        let mut texts = Vec::with_capacity(values.len());
        for (value, format) in values.as_primitive::<Int64Type>().iter().zip(formats.as_string::<i32>()) {
            texts.push(match (value, format) {
                (Some(value), Some(format)) => {
                    if known.as_ref().is_none_or(|(f, _)| f != format) {
                        known = Some((format.to_owned(), pieces(format)));
                    }
                    known.as_ref().map(|(_, pieces)| written(value, precision, zone, pieces))
                }
                _ => None,
            });
        }
        Ok(Arc::new(StringArray::from(texts)) as ArrayRef)
    });
    Ok(Typed::new(expr, Ty::plain(DataType::Varchar(1024))))
}

fn written(ticks: i64, precision: Precision, zone: Zone, pieces: &[Piece]) -> String {
    let Some(t) = local(ticks, precision, zone) else { return ticks.to_string() };
    let mut text = String::new();
    for piece in pieces {
        let (code, word) = match piece {
            Piece::Text(literal) => {
                text.push_str(literal);
                continue;
            }
            Piece::Code(code, word) => (*code, word.as_str()),
        };
        let month = MONTHS.get(usize::try_from(t.month0()).unwrap_or(0)).copied().unwrap_or_default();
        let weekday = usize::try_from(t.weekday().num_days_from_sunday()).unwrap_or(0);
        let day = DAYS.get(weekday).copied().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = match code {
            "yyyy" => write!(text, "{:04}", t.year()),
            "yyy" => write!(text, "{:03}", t.year().rem_euclid(1000)),
            "yy" => write!(text, "{:02}", t.year().rem_euclid(100)),
            "y" => write!(text, "{}", t.year().rem_euclid(10)),
            "month" => write!(text, "{:<9}", cased(month, word)),
            "mon" => write!(text, "{}", cased(month.get(..3).unwrap_or(month), word)),
            "mm" => write!(text, "{:02}", t.month()),
            "dd" => write!(text, "{:02}", t.day()),
            "ddd" => write!(text, "{:03}", t.ordinal()),
            "d" => write!(text, "{}", weekday + 1),
            "day" => write!(text, "{:<9}", cased(day, word)),
            "dy" => write!(text, "{}", cased(day.get(..3).unwrap_or(day), word)),
            "hh24" => write!(text, "{:02}", t.hour()),
            "hh12" | "hh" => write!(text, "{:02}", t.hour12().1),
            "mi" => write!(text, "{:02}", t.minute()),
            "ss" => write!(text, "{:02}", t.second()),
            "ms" => write!(text, "{:03}", t.nanosecond() / 1_000_000),
            "us" => write!(text, "{:06}", t.nanosecond() / 1_000),
            "ns" => write!(text, "{:09}", t.nanosecond()),
            "tzh" => {
                let seconds = ticks.div_euclid(precision.ticks_per_second());
                let offset = zone.offset_at(seconds);
                let sign = if offset < 0 { '-' } else { '+' };
                write!(text, "{sign}{:02}", offset.abs() / 3_600)
            }
            _ => {
                let half = if t.hour() >= 12 { "pm" } else { "am" };
                let half = if code.contains('.') {
                    format!("{}.m.", half.get(..1).unwrap_or("a"))
                } else {
                    half.to_owned()
                };
                let upper = word.starts_with(char::is_uppercase);
                write!(text, "{}", if upper { half.to_uppercase() } else { half })
            }
        };
    }
    text
}

/// TO_TIMESTAMP.
pub(super) fn to_timestamp(source: &Call<'_>, precision: Precision, zone: Zone) -> Result<Typed> {
    source.count(2, 2)?;
    let (text, format) = (source.string(0)?.clone(), source.string(1)?.clone());
    let ty = Ty::of(DataType::Timestamp, precision);
    let name = format!("to_timestamp_{precision}_{zone:?}");
    let expr = call(name, ty.arrow(), vec![text.expr, format.expr], move |args, _| {
        let [texts, formats] = args else { return internal_err!("two arguments expected") };
        let mut ticks = Vec::with_capacity(texts.len());
        for (text, format) in texts.as_string::<i32>().iter().zip(formats.as_string::<i32>()) {
            ticks.push(match (text, format) {
                (Some(text), Some(format)) => {
                    Some(read(text, &pieces(format), precision, zone).map_err(to_datafusion)?)
                }
                _ => None,
            });
        }
        Ok(arrow::compute::cast(&Int64Array::from(ticks), &ty.arrow())?)
    });
    Ok(Typed::new(expr, ty))
}

/// Fields as they are read; the last of a repeated one wins.
#[derive(Default)]
struct Fields {
    year: i32,
    month: Option<i64>,
    day: Option<i64>,
    hour: i64,
    afternoon: Option<bool>,
    twelve: bool,
    minute: i64,
    second: i64,
    nanos: i64,
    offset_h: Option<i64>,
}

fn wrong() -> Error {
    Error::of(Code::WrongTimestamp)
}

fn read(text: &str, pieces: &[Piece], precision: Precision, zone: Zone) -> Result<i64> {
    let mut fields = Fields::default();
    let mut rest = text;
    for piece in pieces {
        rest = rest.trim_start_matches(' ');
        let taken = match piece {
            Piece::Text(literal) => literal
                .chars()
                .filter(|c| *c != ' ')
                .try_fold(rest, |r, c| r.trim_start_matches(' ').strip_prefix(c)),
            Piece::Code(code, _) => read_code(code, rest, &mut fields)?,
        };
        // Where the text stops matching, what is missing keeps its default.
        let Some(after) = taken else { break };
        rest = after;
    }
    assemble(&fields, precision, zone)
}

fn digits(text: &str, most: usize) -> Option<(i64, usize, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let number = text.get(..count)?.parse().ok()?;
    Some((number, count, text.get(count..)?))
}

fn read_code<'t>(code: &str, text: &'t str, fields: &mut Fields) -> Result<Option<&'t str>> {
    let prefix = |names: &[&str], length: usize| {
        names.iter().position(|n| {
            let name = n.get(..length.min(n.len())).unwrap_or(n);
            text.get(..name.len()).is_some_and(|t| t.eq_ignore_ascii_case(name))
        })
    };
    if code == "ddd" {
        return Err(Error::of(Code::TimestampFormat));
    }
    let most = match code {
        "yyyy" => 4,
        "yyy" | "ms" => 3,
        "us" => 6,
        "ns" => 9,
        "y" | "d" => 1,
        _ => 2,
    };
    Ok(match code {
        "month" | "mon" => {
            let length = if code == "mon" { 3 } else { 9 };
            let Some(index) = prefix(&MONTHS, length) else { return Ok(None) };
            fields.month = i64::try_from(index).ok().map(|i| i + 1);
            let length = MONTHS.get(index).map_or(0, |n| n.len().min(length));
            text.get(length..)
        }
        "day" | "dy" => {
            let length = if code == "dy" { 3 } else { 9 };
            let Some(index) = prefix(&DAYS, length) else { return Ok(None) };
            text.get(DAYS.get(index).map_or(0, |n| n.len().min(length))..)
        }
        "am" | "pm" | "a.m." | "p.m." => {
            let halves = ["a.m.", "p.m.", "am", "pm"];
            let Some(index) = prefix(&halves, 4) else { return Ok(None) };
            fields.afternoon = Some(index % 2 == 1);
            text.get(halves.get(index).map_or(0, |h| h.len())..)
        }
        "tzh" => {
            let (sign, unsigned) = match text.strip_prefix('-') {
                Some(rest) => (-1, rest),
                None => (1, text.strip_prefix('+').unwrap_or(text)),
            };
            let Some((hours, _, rest)) = digits(unsigned, 2) else { return Ok(None) };
            fields.offset_h = Some(sign * hours);
            Some(rest)
        }
        _ => {
            let Some((number, count, rest)) = digits(text, most) else { return Ok(None) };
            set(code, number, count, most, fields);
            Some(rest)
        }
    })
}

fn set(code: &str, number: i64, count: usize, most: usize, fields: &mut Fields) {
    // `.5` as milliseconds is 500: a fraction counts from its left.
    let scaled = |unit: i64| {
        let missing = u32::try_from(most.saturating_sub(count)).unwrap_or(0);
        number * 10_i64.pow(missing) * unit
    };
    match code {
        "yyyy" => fields.year = i32::try_from(number).unwrap_or(0),
        "yyy" => fields.year = 2000 + i32::try_from(number).unwrap_or(0),
        "yy" => {
            let short = i32::try_from(number).unwrap_or(0);
            fields.year = short + if short < 70 { 2000 } else { 1900 };
        }
        "y" => fields.year = 2020 + i32::try_from(number).unwrap_or(0),
        "mm" => fields.month = Some(number),
        "dd" => fields.day = Some(number),
        "hh24" => fields.hour = number,
        "hh12" | "hh" => {
            fields.hour = number;
            fields.twelve = true;
        }
        "mi" => fields.minute = number,
        "ss" => fields.second = number,
        "ms" => fields.nanos += scaled(1_000_000),
        "us" => fields.nanos += scaled(1_000),
        "ns" => fields.nanos += scaled(1),
        _ => {}
    }
}

fn assemble(fields: &Fields, precision: Precision, zone: Zone) -> Result<i64> {
    let (month, day) = (fields.month.unwrap_or(1), fields.day.unwrap_or(1));
    let mut hour = fields.hour;
    if fields.twelve {
        if !(1..=12).contains(&hour) {
            return Err(wrong());
        }
        hour %= 12;
    }
    if fields.afternoon == Some(true) && hour < 12 {
        hour += 12;
    }
    let fits = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour <= 23
        && fields.minute <= 59
        && fields.second <= 59;
    if !fits {
        return Err(wrong());
    }
    let time = || {
        let month = u32::try_from(month).ok()?;
        let first = NaiveDate::from_ymd_opt(fields.year, month, 1)?;
        // The 30th of February is the 1st of March, or the 2nd.
        let date = first.checked_add_days(Days::new(u64::try_from(day - 1).ok()?))?;
        let at = |v: i64| u32::try_from(v).ok();
        let time = NaiveTime::from_hms_opt(at(hour)?, at(fields.minute)?, at(fields.second)?)?;
        Some(NaiveDateTime::new(date, time))
    };
    let time = time().ok_or_else(wrong)?;
    let zone = match fields.offset_h {
        Some(hours) => Zone::Fixed(i32::try_from(hours * 3_600).unwrap_or(0)),
        None => zone,
    };
    let seconds = zone.to_unix_s(time);
    seconds
        .checked_mul(precision.ticks_per_second())
        .and_then(|t| t.checked_add(fields.nanos / precision.ns_per_tick()))
        .ok_or_else(wrong)
}
