//! Numbers in text, read and written as C does it: the dialect inherits `strtod`, `strtoll` and `%.15g`.

/// The number that `text` begins with, 0 where it begins with none.
pub(crate) fn prefix_double(text: &str) -> f64 {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(sign);
    let mut end = whole;
    let mut any = whole > sign;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        any |= fraction > end + 1;
        end = fraction;
    }
    if !any {
        return 0.0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    text.get(..end).and_then(|t| t.trim_end_matches('.').parse().ok()).unwrap_or(0.0)
}

/// The integer that `text` begins with, 0 where it begins with none; clipped to 64 bits.
pub(crate) fn prefix_integer(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..)),
        Some(b'+') => (false, text.get(1..)),
        _ => (false, Some(text)),
    };
    let mut value: i64 = 0;
    for byte in digits.unwrap_or_default().bytes().take_while(u8::is_ascii_digit) {
        let digit = i64::from(byte - b'0');
        value = value.saturating_mul(10);
        value = if negative { value.saturating_sub(digit) } else { value.saturating_add(digit) };
    }
    value
}

/// As [`prefix_integer`] for BIGINT UNSIGNED; a minus sign wraps, as `strtoull` does.
pub(crate) fn prefix_unsigned(text: &str) -> u64 {
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..)),
        Some(b'+') => (false, text.get(1..)),
        _ => (false, Some(text)),
    };
    let mut value: u64 = 0;
    for byte in digits.unwrap_or_default().bytes().take_while(u8::is_ascii_digit) {
        value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    }
    if negative { value.wrapping_neg() } else { value }
}

/// C's `%.{digits}g`.
pub(crate) fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| -> String {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    let limit = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= limit {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    } else {
        let decimals = usize::try_from(limit - 1 - exponent).unwrap_or(0);
        trim(&format!("{value:.decimals$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_prefixes() {
        for (text, value) in [
            ("12ab", 12.0),
            ("ab", 0.0),
            (" -1.5e2x", -150.0),
            ("1e", 1.0),
            (".5", 0.5),
            ("1.", 1.0),
            ("-", 0.0),
            ("", 0.0),
        ] {
            assert_eq!(prefix_double(text), value, "{text:?}");
        }
        assert_eq!(prefix_integer("12.9"), 12);
        assert_eq!(prefix_integer("-99999999999999999999"), i64::MIN);
        assert_eq!(prefix_unsigned("18446744073709551615"), u64::MAX);
    }

    #[test]
    fn prints_like_c() {
        for (value, text) in [
            (1.0, "1"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e20, "1e+20"),
            (-2.5, "-2.5"),
            (1e-5, "1e-05"),
            (123_456_789.0, "123456789"),
        ] {
            assert_eq!(general(value, 15), text);
        }
    }
}
