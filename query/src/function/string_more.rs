//! More string functions: lists in strings, character codes, base64.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::Int64Type;
use arrow_schema::DataType as Arrow;
use model::{DataType, Result, Zone};

use crate::function::native::call;
use crate::function::string::{integers, text_type, texts};
use crate::function::{Call, cast, count_error, type_error, value_error};
use crate::plan::types::{Ty, Typed};

pub(super) fn knows(name: &str) -> bool {
    matches!(name, "substring_index" | "find_in_set" | "char" | "to_base64" | "from_base64" | "crc32")
}

pub(super) fn bind(call: &Call<'_>) -> Result<Typed> {
    match call.name {
        "substring_index" => {
            call.count(3, 3)?;
            call.integer(2)?;
            let ty = text_type(call.string(0)?);
            texts(call, 1, ty, |s, n| match (s, n) {
                ([text, delimiter], [count]) => Some(substring_index(text, delimiter, *count).to_owned()),
                _ => None,
            })
        }
        "find_in_set" => {
            call.count(2, 3)?;
            if let Some(separator) = call.args.get(2)
                && separator.text().is_none_or(str::is_empty)
            {
                return Err(value_error(call.name));
            }
            integers(call, |s| {
                let (needle, list) = (s.first()?, s.get(1)?);
                let separator = s.get(2).copied().unwrap_or(",");
                let index = list.split(separator).position(|item| item == *needle);
                Some(index.and_then(|i| i64::try_from(i).ok()).map_or(0, |i| i + 1))
            })
        }
        "char" => characters(call),
        "to_base64" => {
            call.only()?;
            texts(call, 0, Ty::plain(DataType::Varchar(u16::MAX)), |s, _| {
                s.first().map(|s| encode(s.as_bytes()))
            })
        }
        "from_base64" => {
            call.only()?;
            texts(call, 0, text_type(call.string(0)?), |s, _| {
                s.first().and_then(|s| decode(s)).and_then(|bytes| String::from_utf8(bytes).ok())
            })
        }
        _ => checksum(call),
    }
}

/// The part before the `count`-th delimiter, from the right where `count` is negative.
fn substring_index<'t>(text: &'t str, delimiter: &str, count: i64) -> &'t str {
    if count == 0 || delimiter.is_empty() {
        return "";
    }
    let nth = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) - 1;
    if count > 0 {
        text.match_indices(delimiter).nth(nth).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
    } else {
        let found = text.rmatch_indices(delimiter).nth(nth);
        found.and_then(|(at, _)| text.get(at + delimiter.len()..)).unwrap_or(text)
    }
}

/// CHAR: codes to characters, NULLs left out, large codes as several bytes.
fn characters(source: &Call<'_>) -> Result<Typed> {
    if source.args.is_empty() {
        return Err(count_error("char"));
    }
    let mut args = Vec::with_capacity(source.args.len());
    for arg in &source.args {
        if arg.ty.is_timestamp() {
            return Err(type_error("char"));
        }
        args.push(cast::cast(arg.clone(), Ty::plain(DataType::BigInt), Zone::UTC)?.expr);
    }
    let expr = call("char", Arrow::Utf8, args, |arrays, rows| {
        let texts: StringArray = (0..rows)
            .map(|row| {
                let mut bytes = Vec::new();
                for array in arrays {
                    let codes = array.as_primitive::<Int64Type>();
                    if codes.is_valid(row) {
                        let code = codes.value(row).to_be_bytes();
                        let skip = code.iter().take(7).take_while(|b| **b == 0).count();
                        bytes.extend(code.iter().skip(skip));
                    }
                }
                Some(String::from_utf8_lossy(&bytes).into_owned())
            })
            .collect();
        Ok(Arc::new(texts) as ArrayRef)
    });
    Ok(Typed::new(expr, Ty::plain(DataType::Varchar(64))))
}

/// CRC-32 of the text form.
fn checksum(source: &Call<'_>) -> Result<Typed> {
    let value = source.only()?.clone();
    let text = cast::cast(value, Ty::plain(DataType::Varchar(0)), Zone::UTC)?;
    let expr = call("crc32", Arrow::UInt32, vec![text.expr], |args, _| {
        let sums: arrow::array::UInt32Array = args
            .iter()
            .flat_map(|a| a.as_string::<i32>().iter())
            .map(|t| t.map(|t| crc32(t.as_bytes())))
            .collect();
        Ok(Arc::new(sums) as ArrayRef)
    });
    Ok(Typed::new(expr, Ty::plain(DataType::UInt)))
}

/// CRC-32 as in zlib (reflected polynomial 0xEDB88320).
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding (RFC 4648).
fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |g, b| (g << 8) | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let index = usize::try_from((group >> (18 - 6 * i)) & 63).unwrap_or(0);
            let symbol = ALPHABET.get(index).copied().unwrap_or(b'=');
            text.push(if i <= chunk.len() { char::from(symbol) } else { '=' });
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let trimmed = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - trimmed.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(trimmed.len() * 3 / 4);
    let (mut group, mut bits) = (0_u32, 0);
    for byte in trimmed.bytes() {
        let value = ALPHABET.iter().position(|a| *a == byte)?;
        group = (group << 6) | u32::try_from(value).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from((group >> bits) & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_there_and_back() {
        for text in ["", "a", "ab", "abc", "日本"] {
            assert_eq!(decode(&encode(text.as_bytes())).unwrap(), text.as_bytes());
        }
        assert_eq!(encode(b"light"), "bGlnaHQ=");
        assert_eq!(decode("a"), None);
    }

    #[test]
    fn known_checksums() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(substring_index("a.b.c", ".", -2), "b.c");
        assert_eq!(substring_index("a.b.c", ".", 10), "a.b.c");
    }
}
