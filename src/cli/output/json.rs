//! Rows as JSON, exact to the last digit.

use client::Column;
use model::{Value, Zone, format_timestamp};

/// A name each: one that repeats gets `_2`, `_3` and so on.
#[must_use]
pub fn unique_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = name.to_owned();
        let mut count = 1_u32;
        while unique.contains(&candidate) {
            count += 1;
            candidate = format!("{name}_{count}");
        }
        unique.push(candidate);
    }
    unique
}

/// A row as an object, columns in order.
pub fn json_row(
    names: &[String],
    columns: &[Column],
    values: impl Iterator<Item = Value>,
    zone: Zone,
) -> String {
    let mut text = String::from("{");
    for ((name, column), value) in names.iter().zip(columns).zip(values) {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&json_string(name));
        text.push(':');
        push_value(&mut text, &value, column, zone);
    }
    text.push('}');
    text
}

fn push_value(text: &mut String, value: &Value, column: &Column, zone: Zone) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(v) => text.push_str(if *v { "true" } else { "false" }),
        Value::Int(v) => text.push_str(&v.to_string()),
        Value::UInt(v) => text.push_str(&v.to_string()),
        Value::Float(v) => push_number(text, f64::from(*v), format!("{v:?}")),
        Value::Double(v) => push_number(text, *v, format!("{v:?}")),
        Value::Timestamp(v) => text.push_str(&json_string(&format_timestamp(*v, column.precision, zone))),
        Value::Text(v) => text.push_str(&json_string(v)),
        Value::Bytes(_) => text.push_str(&json_string(&value.to_string())),
    }
}

/// JSON has no number for these three.
fn push_number(text: &mut String, value: f64, exact: String) {
    if value.is_finite() {
        text.push_str(&exact);
    } else if value.is_nan() {
        text.push_str("\"NaN\"");
    } else {
        text.push_str(if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
    }
}

/// Text as a JSON string.
#[must_use]
pub fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_names_are_told_apart_also_from_given_ones() {
        assert_eq!(unique_names(["a", "a_2", "a", "a"].into_iter()), ["a", "a_2", "a_3", "a_4"]);
    }
}
