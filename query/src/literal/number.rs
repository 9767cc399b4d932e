//! Numbers and bools.

use super::{Misfit, Raw};

/// A number as written: integers exact, the rest as DOUBLE.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Integer(i128),
    Float(f64),
}

/// An integer type that a column may have.
pub(super) trait Integer: Copy + TryFrom<i128> + TryFrom<i64> {
    /// What error texts call it.
    const WORD: &'static str;
    /// Whether it has negatives.
    const SIGNED: bool;
}

macro_rules! integers {
    ($($type:ty, $word:literal, $signed:literal;)+) => {
        $(impl Integer for $type {
            const WORD: &'static str = $word;
            const SIGNED: bool = $signed;
        })+
    };
}

integers! {
    i8, "tinyint", true;
    i16, "smallint", true;
    i32, "int", true;
    i64, "bigint", true;
    u8, "unsigned tinyint", false;
    u16, "unsigned smallint", false;
    u32, "unsigned int", false;
    u64, "unsigned bigint", false;
}

/// The integer that `raw` is, floats rounded half away from zero.
pub(super) fn integer<T: Integer>(raw: Raw<'_>) -> Result<T, Misfit> {
    let text = match raw {
        Raw::Bare(text) | Raw::Quoted(text) | Raw::Hex(text) => text,
        Raw::Shifted { .. } => return Err(Misfit::Invalid(T::WORD)),
    };
    if let Some(value) = short_integer(text.as_bytes())
        && let Ok(value) = T::try_from(value)
    {
        return Ok(value);
    }
    if text.is_empty() {
        return Err(Misfit::Empty);
    }
    let value = match number(text) {
        Some(Number::Integer(value)) => value,
        Some(Number::Float(value)) => rounded(value),
        None => return Err(Misfit::Invalid(T::WORD)),
    };
    if value < 0 && !T::SIGNED {
        return Err(Misfit::Invalid(T::WORD));
    }
    T::try_from(value).map_err(|_| Misfit::Overflow(T::WORD))
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which the range check then refuses")]
fn rounded(value: f64) -> i128 {
    value.round() as i128
}

/// Decimal integers of at most 18 digits, which cannot overflow.
#[inline]
pub(super) fn short_integer(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0_i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// Any number: decimal, `0x..`, `0b..`, or with point or exponent. No blanks, no words.
fn number(text: &str) -> Option<Number> {
    let bytes = text.as_bytes();
    if let Some(value) = short_integer(bytes) {
        return Some(Number::Integer(value.into()));
    }
    let (negative, unsigned) = match bytes.first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let sign = |value: i128| Number::Integer(if negative { -value } else { value });
    match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => return radix(unsigned.get(2..)?, 16).map(sign),
        [b'0', b'b' | b'B', ..] => return radix(unsigned.get(2..)?, 2).map(sign),
        [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => {}
        _ => return None,
    }
    if unsigned.len() < 38 && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return unsigned.parse().ok().map(sign);
    }
    text.parse().ok().map(Number::Float)
}

fn radix(digits: &str, radix: u32) -> Option<i128> {
    if digits.starts_with(['+', '-']) || digits.len() > 100 {
        return None;
    }
    i128::from_str_radix(digits, radix).ok()
}

/// Whether `text` is a number.
pub(super) fn is_number(text: &str) -> bool {
    number(text).is_some()
}

/// The DOUBLE that `raw` is.
pub(super) fn double(raw: Raw<'_>) -> Result<f64, Misfit> {
    let text = match raw {
        Raw::Bare(text) | Raw::Quoted(text) | Raw::Hex(text) => text,
        Raw::Shifted { .. } => return Err(Misfit::IllegalFloat),
    };
    if let Some(value) = short_float(text.as_bytes()) {
        return Ok(value);
    }
    let value = match number(text) {
        Some(Number::Float(value)) => value,
        Some(Number::Integer(value)) => wide_to_double(value),
        None if is_nan_or_infinity(text) => return Err(Misfit::IllegalDouble),
        None => return Err(Misfit::IllegalFloat),
    };
    if value.is_finite() { Ok(value) } else { Err(Misfit::IllegalFloat) }
}

#[expect(clippy::cast_precision_loss, reason = "a DOUBLE column holds the nearest double")]
fn wide_to_double(value: i128) -> f64 {
    value as f64
}

/// Decimals of at most 15 digits with at most 15 behind the point: numerator and power of ten are exact, so that one
/// division rounds correctly (Clinger 1990).
#[inline]
fn short_float(bytes: &[u8]) -> Option<f64> {
    const TENS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 16 || !digits.last()?.is_ascii_digit() {
        return None;
    }
    let mut value = 0_i64;
    let mut decimals = None;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + i64::from(digit);
            decimals = decimals.map(|d: usize| d + 1);
        } else if byte == b'.' && decimals.is_none() {
            decimals = Some(0);
        } else {
            return None;
        }
    }
    if value >= 1 << 53 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    let value = value as f64 / TENS.get(decimals.unwrap_or(0))?;
    Some(if negative { -value } else { value })
}

/// The FLOAT that `raw` is.
pub(super) fn float(raw: Raw<'_>) -> Result<f32, Misfit> {
    let value = double(raw).map_err(|_| Misfit::IllegalFloat)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to FLOAT is the meaning; infinity is refused below"
    )]
    let value = value as f32;
    if value.is_finite() { Ok(value) } else { Err(Misfit::IllegalFloat) }
}

fn is_nan_or_infinity(text: &str) -> bool {
    let text = text.trim_start_matches(['+', '-']);
    ["nan", "inf", "infinity"].iter().any(|w| text.eq_ignore_ascii_case(w))
}

/// `true` or `false` in any case.
pub(super) fn word_bool(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// The BOOL that `raw` is: the words, or any number, 0 being false.
pub(super) fn boolean(raw: Raw<'_>) -> Result<bool, Misfit> {
    let (Raw::Bare(text) | Raw::Quoted(text) | Raw::Hex(text)) = raw else { return Err(Misfit::Bool) };
    if let Some(value) = word_bool(text) {
        return Ok(value);
    }
    match number(text) {
        Some(Number::Integer(value)) => Ok(value != 0),
        Some(Number::Float(value)) => Ok(value != 0.0),
        None => Err(Misfit::Bool),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn short_floats_are_the_nearest_double(whole in 0_u64..1_000_000_000, fraction in 0_u32..1_000_000, negative: bool) {
            let text = format!("{}{whole}.{fraction:06}", if negative { "-" } else { "" });
            prop_assert_eq!(double(Raw::Bare(&text)), Ok(text.parse::<f64>().unwrap()), "{}", text);
        }

        #[test]
        fn integers_read_what_they_print(value: i64) {
            prop_assert_eq!(integer::<i64>(Raw::Bare(&value.to_string())), Ok(value));
            prop_assert_eq!(integer::<u64>(Raw::Quoted(&value.unsigned_abs().to_string())), Ok(value.unsigned_abs()));
        }

        #[test]
        fn never_panics(text in "[-+.0-9eExXbBaf]{0,50}") {
            let _ = (integer::<i8>(Raw::Bare(&text)), float(Raw::Bare(&text)), boolean(Raw::Bare(&text)));
        }
    }
}
