//! LIKE and MATCH.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow_schema::DataType as Arrow;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{Expr, lit};
use model::{Code, DataType, Error, Result};
use regex::bytes::{Regex, RegexBuilder};

use crate::function::json;
use crate::function::native::call;
use crate::plan::error::to_datafusion;
use crate::plan::types::Typed;

/// Longest pattern of LIKE against a column, in bytes.
const LIKE_BYTES_MAX: usize = 100;
/// Longest regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 128;

type Compile = fn(&str, bool) -> Result<Regex>;

/// `value [NOT] LIKE pattern`; NULL where either is.
pub(crate) fn like(value: Typed, pattern: Typed, negated: bool) -> Result<Expr> {
    let bytes = !matches!(value.ty.data, Some(DataType::NChar(_)));
    if value.constant().is_none() && pattern.text().is_some_and(|p| p.len() > LIKE_BYTES_MAX) {
        return Err(Error::text(Code::InvalidOperation, "LIKE pattern is longer than 100 bytes"));
    }
    search("like", value, pattern, negated, bytes, like_regex)
}

/// `value [N]MATCH pattern`; NULL where either is.
pub(crate) fn matches(value: Typed, pattern: Typed, negated: bool) -> Result<Expr> {
    search("match", value, pattern, negated, false, match_regex)
}

fn search(
    name: &str,
    value: Typed,
    pattern: Typed,
    negated: bool,
    bytes: bool,
    compile: Compile,
) -> Result<Expr> {
    let value = json::as_text(value);
    for operand in [&value, &pattern] {
        if !operand.ty.is_string() && !operand.ty.is_null() {
            return Err(Error::of(Code::InvalidOperation));
        }
    }
    if value.ty.is_null() || pattern.constant().is_some_and(ScalarValue::is_null) {
        return Ok(lit(false));
    }
    let expr = if let Some(text) = pattern.text() {
        let regex = compile(text, bytes)?;
        let name = format!("{name}_{negated}_{bytes}_{text}");
        call(name, Arrow::Boolean, vec![value.expr], move |args, _| {
            let found: BooleanArray = args
                .iter()
                .flat_map(|a| a.as_string::<i32>().iter())
                .map(|v| v.map(|v| regex.is_match(v.as_bytes()) != negated))
                .collect();
            Ok(Arc::new(found) as ArrayRef)
        })
    } else {
        let name = format!("{name}_{negated}_{bytes}");
        call(name, Arrow::Boolean, vec![value.expr, pattern.expr], move |args, _| {
            rows(args, negated, bytes, compile)
        })
    };
    Ok(Typed::bool(expr).folded()?.expr)
}

/// A pattern of its own on each row; neighbours mostly share one, so the last is kept.
fn rows(args: &[ArrayRef], negated: bool, bytes: bool, compile: Compile) -> DfResult<ArrayRef> {
    let [values, patterns] = args else { return datafusion::common::internal_err!("two arguments expected") };
    let mut last: Option<(String, Regex)> = None;
    let mut found = BooleanArray::builder(values.len());
    for (value, pattern) in values.as_string::<i32>().iter().zip(patterns.as_string::<i32>()) {
        let (Some(value), Some(pattern)) = (value, pattern) else {
            found.append_null();
            continue;
        };
        let regex = match last.take() {
            Some((text, regex)) if text == pattern => regex,
            _ => compile(pattern, bytes).map_err(to_datafusion)?,
        };
        found.append_value(regex.is_match(value.as_bytes()) != negated);
        last = Some((pattern.to_owned(), regex));
    }
    Ok(Arc::new(found.finish()))
}

/// `%` is any run, `_` one byte of a VARCHAR and one character of an NCHAR; ASCII letters match in either case.
pub(crate) fn like_regex(pattern: &str, bytes: bool) -> Result<Regex> {
    let mut text = String::from(if bytes { "(?s-u)^" } else { "(?s)^" });
    let mut escaped = false;
    for c in pattern.chars() {
        match c {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '%' if !escaped => text.push_str(".*"),
            '_' if !escaped => text.push('.'),
            c => {
                if escaped && !matches!(c, '%' | '_' | '\\') {
                    text.push_str("\\\\");
                }
                push_literal(&mut text, c);
            }
        }
        escaped = false;
    }
    if escaped {
        text.push_str("\\\\");
    }
    text.push('$');
    Regex::new(&text).map_err(|e| Error::with(Code::RegexSyntax, e))
}

fn push_literal(text: &mut String, c: char) {
    if c.is_ascii_alphabetic() {
        text.extend(['[', c.to_ascii_lowercase(), c.to_ascii_uppercase(), ']']);
    } else {
        text.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }
}

fn match_regex(pattern: &str, _bytes: bool) -> Result<Regex> {
    if pattern.len() > REGEX_BYTES_MAX {
        return Err(Error::text(
            Code::RegexSyntax,
            "Syntax error in regular expression: longer than 128 bytes",
        ));
    }
    RegexBuilder::new(&posix(pattern))
        .size_limit(1 << 20)
        .build()
        .map_err(|_| Error::of(Code::RegexSyntax).hint("POSIX extended syntax, no look-around"))
}

/// POSIX has no `\\d`: a backslash before a letter is that letter, but for what the C library adds.
fn posix(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some(letter) if letter.is_ascii_alphanumeric() && !"wWsSbB".contains(letter) => text.push(letter),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_as_the_dialect_has_it() {
        for (text, pattern, bytes, expected) in [
            ("ABC", "a%", true, true),
            ("50%", "50\\%", true, true),
            ("500", "50\\%", true, false),
            ("日本", "__", true, false),
            ("日本", "__", false, true),
            ("", "_", true, false),
            ("a\nb", "a%b", true, true),
            ("É", "é", false, false),
            ("a_c", "a\\_c", true, true),
        ] {
            assert_eq!(
                like_regex(pattern, bytes).unwrap().is_match(text.as_bytes()),
                expected,
                "{text} {pattern}"
            );
        }
    }
}
