//! String functions. Positions and lengths count characters.

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use datafusion::common::{Result as DfResult, resources_err};
use datafusion::logical_expr::Expr as DfExpr;
use model::{DataType, Result};

use crate::function::native::call;
use crate::function::{Call, type_error};
use crate::plan::types::{Ty, Typed};

/// Text that a function may make of one batch of rows, in bytes: no operator has reserved it yet.
const TEXT_BYTES_MAX: usize = 256 << 20;

pub(super) fn knows(name: &str) -> bool {
    matches!(
        name,
        "length"
            | "char_length"
            | "concat"
            | "concat_ws"
            | "lower"
            | "upper"
            | "ltrim"
            | "rtrim"
            | "trim"
            | "substr"
            | "substring"
            | "position"
            | "replace"
            | "repeat"
            | "ascii"
    )
}

pub(super) fn bind(call: &Call<'_>) -> Result<Typed> {
    match call.name {
        "length" => count(call, |s| s.len()),
        "char_length" => count(call, |s| s.chars().count()),
        "concat" => {
            call.count(2, 8)?;
            texts(call, 0, joined_type(call)?, |s, _| Some(s.concat()))
        }
        "concat_ws" => {
            call.count(3, 9)?;
            texts(call, 0, joined_type(call)?, |s, _| {
                let (separator, parts) = s.split_first()?;
                Some(parts.join(separator))
            })
        }
        "lower" => same(call, |s| s.to_ascii_lowercase()),
        "upper" => same(call, |s| s.to_ascii_uppercase()),
        "ltrim" => same(call, |s| s.trim_start_matches(' ').to_owned()),
        "rtrim" => same(call, |s| s.trim_end_matches(' ').to_owned()),
        "trim" if call.args.len() == 1 => same(call, |s| s.trim_matches(' ').to_owned()),
        "trim" => {
            call.count(3, 3)?;
            let ty = text_type(call.string(2)?);
            texts(call, 0, ty, |s, _| match s {
                [side, what, text] => Some(trim(side, what, text).to_owned()),
                _ => None,
            })
        }
        "substr" | "substring" => {
            call.count(2, 3)?;
            for index in 1..call.args.len() {
                call.integer(index)?;
            }
            let ty = text_type(call.string(0)?);
            texts(call, call.args.len() - 1, ty, |s, n| {
                Some(substr(s.first()?, *n.first()?, n.get(1).copied()))
            })
        }
        "position" => {
            call.count(2, 2)?;
            integers(call, |s| match s {
                [needle, text] => Some(position(needle, text)),
                _ => None,
            })
        }
        "replace" => {
            call.count(3, 3)?;
            let ty = text_type(call.string(0)?);
            texts(call, 0, ty, |s, _| match s {
                [text, "", _] => Some((*text).to_owned()),
                [text, from, to] => Some(text.replace(from, to)),
                _ => None,
            })
        }
        "repeat" => {
            call.count(2, 2)?;
            call.integer(1)?;
            let ty = text_type(call.string(0)?);
            texts(call, 1, ty, |s, n| {
                let times = usize::try_from(*n.first()?).unwrap_or(0);
                let text = s.first()?;
                // What no column could hold is not built either.
                let times = times.min(usize::from(u16::MAX) / text.len().max(1));
                Some(text.repeat(times))
            })
        }
        _ => {
            call.only()?;
            not_null(call)?;
            let expr = row_call("ascii", DataType::UTinyInt, call, 0, |strings, _, rows| {
                let first = strings.first();
                let codes: UInt8Array = (0..rows)
                    .map(|i| first.filter(|a| a.is_valid(i)).map(|a| a.value(i).bytes().next().unwrap_or(0)))
                    .collect();
                Ok(Arc::new(codes))
            })?;
            Ok(Typed::new(expr, Ty::plain(DataType::UTinyInt)))
        }
    }
}

/// The literal NULL is no string for functions of one argument.
fn not_null(call: &Call<'_>) -> Result<()> {
    if call.string(0)?.ty.is_null() { Err(type_error(call.name)) } else { Ok(()) }
}

pub(super) fn text_type(value: &Typed) -> Ty {
    match value.ty.data {
        Some(data) => Ty::plain(data),
        None => Ty::plain(DataType::Varchar(1)),
    }
}

/// NCHAR as soon as one argument is.
fn joined_type(call: &Call<'_>) -> Result<Ty> {
    let mut nchar = false;
    let mut length: u16 = 0;
    for index in 0..call.args.len() {
        match call.string(index)?.ty.declared() {
            DataType::NChar(n) => {
                nchar = true;
                length = length.saturating_add(n);
            }
            DataType::Varchar(n) => length = length.saturating_add(n),
            _ => {}
        }
    }
    Ok(Ty::plain(if nchar { DataType::NChar(length) } else { DataType::Varchar(length) }))
}

/// Binds a call whose last `integers` arguments are integers and the others strings.
fn row_call(
    name: &str,
    to: DataType,
    source: &Call<'_>,
    integers: usize,
    body: impl Fn(&[&StringArray], &[&Int64Array], usize) -> DfResult<ArrayRef> + Send + Sync + 'static,
) -> Result<DfExpr> {
    let strings = source.args.len() - integers.min(source.args.len());
    let mut args = Vec::with_capacity(source.args.len());
    for (index, arg) in source.args.iter().enumerate() {
        if index < strings {
            args.push(source.string(index)?.expr.clone());
        } else {
            args.push(arg.clone().arrow_cast(DataType::BigInt)?.expr);
        }
    }
    let arrow = to.arrow(model::Precision::Ms);
    Ok(call(name, arrow, args, move |arrays, rows| {
        let (text, numbers) = arrays.split_at(strings.min(arrays.len()));
        let text: Vec<&StringArray> = text.iter().map(|a| a.as_string::<i32>()).collect();
        let numbers: Vec<&Int64Array> = numbers.iter().map(|a| a.as_primitive::<Int64Type>()).collect();
        body(&text, &numbers, rows)
    }))
}

/// Calls `f` with the values of each row that has no NULL.
fn each_row<R>(
    strings: &[&StringArray],
    numbers: &[&Int64Array],
    rows: usize,
    f: impl Fn(&[&str], &[i64]) -> Option<R>,
) -> Vec<Option<R>> {
    let mut results = Vec::with_capacity(rows);
    for row in 0..rows {
        let null = strings.iter().any(|a| a.is_null(row)) || numbers.iter().any(|a| a.is_null(row));
        results.push(if null {
            None
        } else {
            let text: Vec<&str> = strings.iter().map(|a| a.value(row)).collect();
            let integers: Vec<i64> = numbers.iter().map(|a| a.value(row)).collect();
            f(&text, &integers)
        });
    }
    results
}

/// A function to a string.
pub(super) fn texts(
    call: &Call<'_>,
    integers: usize,
    ty: Ty,
    f: impl Fn(&[&str], &[i64]) -> Option<String> + Send + Sync + 'static,
) -> Result<Typed> {
    let name = call.name.to_owned();
    let expr = row_call(call.name, ty.declared(), call, integers, move |strings, numbers, rows| {
        // Functions in functions multiply: a batch of rows is bounded as it is read, not as it is made.
        let bytes = Cell::new(0_usize);
        let values = each_row(strings, numbers, rows, |s, n| {
            if bytes.get() > TEXT_BYTES_MAX {
                return None;
            }
            let text = f(s, n)?;
            bytes.set(bytes.get().saturating_add(text.len()));
            Some(text)
        });
        if bytes.get() > TEXT_BYTES_MAX {
            return resources_err!(
                "{name} makes more than {TEXT_BYTES_MAX} bytes of text out of {rows} rows"
            );
        }
        Ok(Arc::new(StringArray::from(values)) as ArrayRef)
    })?;
    Ok(Typed::new(expr, ty))
}

/// A function of strings to BIGINT.
pub(super) fn integers(
    call: &Call<'_>,
    f: impl Fn(&[&str]) -> Option<i64> + Send + Sync + 'static,
) -> Result<Typed> {
    let expr = row_call(call.name, DataType::BigInt, call, 0, move |strings, numbers, rows| {
        Ok(Arc::new(Int64Array::from(each_row(strings, numbers, rows, |s, _| f(s)))))
    })?;
    Ok(Typed::bigint(expr))
}

fn count(call: &Call<'_>, f: fn(&str) -> usize) -> Result<Typed> {
    call.only()?;
    not_null(call)?;
    integers(call, move |s| s.first().map(|s| i64::try_from(f(s)).unwrap_or(i64::MAX)))
}

/// A function of one string to a string of its type.
fn same(call: &Call<'_>, f: fn(&str) -> String) -> Result<Typed> {
    call.only()?;
    not_null(call)?;
    let ty = text_type(call.arg(0)?);
    texts(call, 0, ty, move |s, _| s.first().map(|s| f(s)))
}

/// Takes `what` off the ends, again and again.
fn trim<'t>(side: &str, what: &str, mut text: &'t str) -> &'t str {
    if what.is_empty() {
        return text;
    }
    if side != "trailing" {
        while let Some(rest) = text.strip_prefix(what) {
            text = rest;
        }
    }
    if side != "leading" {
        while let Some(rest) = text.strip_suffix(what) {
            text = rest;
        }
    }
    text
}

fn substr(text: &str, start: i64, length: Option<i64>) -> String {
    let characters = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let skip = match start {
        0 => return String::new(),
        s if s > 0 => s - 1,
        s => (characters.saturating_add(s)).max(0),
    };
    let take = length.unwrap_or(i64::MAX);
    if take < 1 {
        return String::new();
    }
    let (skip, take) =
        (usize::try_from(skip).unwrap_or(usize::MAX), usize::try_from(take).unwrap_or(usize::MAX));
    text.chars().skip(skip).take(take).collect()
}

fn position(needle: &str, text: &str) -> i64 {
    match text.find(needle) {
        None => 0,
        Some(at) => {
            let before = text.get(..at).map_or(0, |t| t.chars().count());
            i64::try_from(before).unwrap_or(i64::MAX).saturating_add(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_substrings() {
        assert_eq!(substr("windmill", -4, Some(2)), "mi");
        assert_eq!(substr("windmill", -20, None), "windmill");
        assert_eq!(substr("windmill", 0, None), "");
        assert_eq!(substr("日本語", 2, None), "本語");
        assert_eq!(substr("abc", 2, Some(0)), "");
    }

    #[test]
    fn trims_whole_strings() {
        assert_eq!(trim("both", "ab", "ababxab"), "x");
        assert_eq!(trim("trailing", "ab", "ababxab"), "ababx");
        assert_eq!(trim("both", "", "abc"), "abc");
    }

    #[test]
    fn finds_positions() {
        assert_eq!(position("語", "日本語"), 3);
        assert_eq!(position("", "abc"), 1);
        assert_eq!(position("x", "abc"), 0);
    }
}
