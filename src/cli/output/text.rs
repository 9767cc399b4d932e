//! One value as text.

use client::Column;
use model::{Value, Zone, format_timestamp};

/// For whom a value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For people: local time without offset, `NULL`, control characters escaped.
    Plain,
    /// For programs: RFC 3339, nothing for NULL, text as it is.
    Exact,
}

/// The text of a value of `column`.
#[must_use]
pub fn cell(value: &Value, column: &Column, zone: Zone, style: Style) -> String {
    match (value, style) {
        (Value::Null, Style::Plain) => "NULL".to_owned(),
        (Value::Null, Style::Exact) => String::new(),
        (Value::Bool(v), _) => v.to_string(),
        (Value::Int(v), _) => v.to_string(),
        (Value::UInt(v), _) => v.to_string(),
        (Value::Float(v), _) => number(f64::from(*v), format!("{v:?}")),
        (Value::Double(v), _) => number(*v, format!("{v:?}")),
        (Value::Timestamp(v), Style::Exact) => format_timestamp(*v, column.precision, zone),
        (Value::Timestamp(v), Style::Plain) => local(&format_timestamp(*v, column.precision, zone)),
        (Value::Text(v), Style::Exact) => v.clone(),
        (Value::Text(v), Style::Plain) => escaped(v),
        (Value::Bytes(_), _) => value.to_string(),
    }
}

/// The shortest text that reads as the same number; whole numbers without `.0`.
fn number(value: f64, exact: String) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        exact.strip_suffix(".0").map_or(exact.clone(), str::to_owned)
    }
}

/// `2024-01-01T00:00:00.000+08:00` as people write it in one zone.
fn local(rfc: &str) -> String {
    let Some((date, time)) = rfc.split_once('T') else { return rfc.to_owned() };
    let end = time.find(['Z', '+', '-']).unwrap_or(time.len());
    format!("{date} {}", time.get(..end).unwrap_or(time))
}

fn escaped(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Columns that `text` takes on a terminal.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Combining marks take none, East Asian wide characters and emoji two.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036F | 0x200B..=0x200F | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F
        | 0x2E80..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use model::{DataType, Precision};

    use super::*;

    #[test]
    fn values_read_as_they_are() {
        let column = Column { name: "x".into(), data_type: DataType::Timestamp, precision: Precision::Us };
        let plain = |value| cell(&value, &column, Zone::UTC, Style::Plain);
        assert_eq!(plain(Value::Timestamp(-1)), "1969-12-31 23:59:59.999999");
        assert_eq!(plain(Value::Double(3.0)), "3");
        assert_eq!(plain(Value::Double(1e300)), "1e300");
        assert_eq!(plain(Value::Float(0.1)), "0.1");
        assert_eq!(plain(Value::Double(f64::NEG_INFINITY)), "-Infinity");
        assert_eq!(plain(Value::Text("a\tb".into())), "a\\tb");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!((width("abc"), width("中文"), width("é"), width("e\u{301}")), (3, 4, 1, 1));
    }
}
