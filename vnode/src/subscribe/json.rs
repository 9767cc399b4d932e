//! JSON text as the metadata of a subscription is written: compact, members in a fixed order, numbers as C prints them.

use std::fmt::Write as _;

use model::{DataType, Value};

/// Appends `text` as a JSON string.
pub(super) fn put_str(text: &str, out: &mut String) {
    // Strings always serialize.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// A tag value of a create event: numbers bare, text within quotes of its own, a JSON document as its text.
pub(super) fn put_value(value: &Value, data_type: DataType, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(v) => out.push(if *v { '1' } else { '0' }),
        Value::Int(v) | Value::Timestamp(v) => push(out, format_args!("{v}")),
        Value::UInt(v) => push(out, format_args!("{v}")),
        Value::Float(v) => put_number(f64::from(*v), out),
        Value::Double(v) => put_number(*v, out),
        Value::Text(v) if data_type == DataType::Json => put_str(v, out),
        Value::Text(_) | Value::Bytes(_) => put_str(&format!("\"{value}\""), out),
    }
}

/// A tag value of an alter event: always a string.
pub(super) fn put_text_value(value: &Value, data_type: DataType, out: &mut String) {
    let text = match value {
        Value::Null => String::new(),
        Value::Bool(v) => v.to_string(),
        Value::Int(v) | Value::Timestamp(v) => v.to_string(),
        Value::UInt(v) => v.to_string(),
        Value::Float(v) => scientific(|digits| format!("{v:.digits$e}"), |text| text.parse() == Ok(*v)),
        Value::Double(v) => scientific(|digits| format!("{v:.digits$e}"), |text| text.parse() == Ok(*v)),
        Value::Text(v) if data_type == DataType::Json => v.clone(),
        Value::Text(_) | Value::Bytes(_) => format!("\"{value}\""),
    };
    put_str(&text, out);
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text); // a String takes everything
}

/// `%e`, with more digits than its six where those do not say which number it was.
fn scientific(print: impl Fn(usize) -> String, is_same: impl Fn(&str) -> bool) -> String {
    let text = (6..=16).map(print).find(|text| is_same(text));
    text.map_or_else(|| "0.000000e+00".to_owned(), |text| c_exponent(&text))
}

/// `1.5e7` as `1.5e+07`.
fn c_exponent(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// `%.15g`, or `%.17g` where 15 digits do not say which number it was. JSON knows no infinities.
fn put_number(value: f64, out: &mut String) {
    if !value.is_finite() {
        out.push_str("null");
        return;
    }
    let short = general(value, 15);
    let text = if short.parse() == Ok(value) { short } else { general(value, 17) };
    out.push_str(&text);
}

/// `%.{digits}g`.
fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits = i32::try_from(digits).unwrap_or(17);
    if (-4..digits).contains(&exponent) {
        let decimals = usize::try_from(digits - 1 - exponent).unwrap_or_default();
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    c_exponent(&format!("{}e{exponent}", without_zeros(mantissa)))
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value: &Value) -> String {
        let mut out = String::new();
        put_value(value, DataType::Varchar(9), &mut out);
        out
    }

    fn text_value(value: &Value) -> String {
        let mut out = String::new();
        put_text_value(value, DataType::Varchar(9), &mut out);
        out
    }

    #[test]
    fn numbers_of_create_events_are_as_captured() {
        for (number, text) in [
            (3.399_999_952_144_364_2e38, "3.3999999521443642e+38"),
            (1.7e308, "1.7e+308"),
            (f64::from(0.333_333_34_f32), "0.3333333432674408"),
            (0.333_333_333_333_333_3, "0.33333333333333331"),
            (-2.25, "-2.25"),
            (0.1, "0.1"),
            (7.0, "7"),
            (0.0, "0"),
            (1e-7, "1e-07"),
            (1e15, "1e+15"),
            (123_456.0, "123456"),
        ] {
            assert_eq!(value(&Value::Double(number)), text);
        }
        assert_eq!(value(&Value::UInt(u64::MAX)), "18446744073709551615");
        assert_eq!(value(&Value::Double(f64::NAN)), "null");
        assert_eq!(value(&Value::Bytes(vec![0, 0xFF, 0x10])), r#""\"\\x00FF10\"""#);
        let mut document = String::new();
        put_value(&Value::Text(r#"{"a":1}"#.into()), DataType::Json, &mut document);
        assert_eq!(document, r#""{\"a\":1}""#);
    }

    #[test]
    fn values_of_alter_events_are_strings() {
        for (number, text) in [
            (Value::Float(3.25), r#""3.250000e+00""#),
            (Value::Double(1e-7), r#""1.000000e-07""#),
            (Value::Double(0.1 + 0.2), r#""3.0000000000000004e-01""#),
            (Value::Int(-9_223_372_036_854_775_807), r#""-9223372036854775807""#),
            (Value::Bool(false), r#""false""#),
            (Value::Text("quo\"te".into()), r#""\"quo\"te\"""#),
            (Value::Text(String::new()), r#""\"\"""#),
            (Value::Timestamp(1_704_067_200_000), r#""1704067200000""#),
        ] {
            let written = text_value(&number);
            let expected = text.replace("\\\"quo\"te\\\"", "\\\"quo\\\"te\\\"");
            assert_eq!(written, expected);
        }
    }
}
