//! From text to lines.

use model::{Code, DataType, Error, Place, Result, TimeUnit};

use super::{Field, Line};
use crate::literal::parse_binary;

/// Reads lines; empty ones and those that begin with `#` are passed over. `unit` is that of their times: an hour, a minute,
/// a second or a part of one.
///
/// # Errors
/// [`Code::LinePrecision`] for another unit; [`Code::LineFormat`], [`Code::DuplicateColumn`], with the place.
pub fn parse(text: &str, unit: TimeUnit) -> Result<Vec<Line>> {
    let unit_ns = match unit {
        TimeUnit::Day | TimeUnit::Week | TimeUnit::Month | TimeUnit::Year => None,
        unit => unit.fixed_ns(),
    };
    let unit_ns = unit_ns.ok_or_else(|| Error::with(Code::LinePrecision, unit.letter()))?;
    let mut reader = Reader { text, at: 0 };
    let mut lines = Vec::new();
    while reader.next_line() {
        lines.push(reader.line(unit_ns)?);
    }
    Ok(lines)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn at_end(&self) -> bool {
        matches!(self.peek(), None | Some(b'\n' | b'\r'))
    }

    fn error(&self, what: &str) -> Error {
        self.error_at(what, self.at)
    }

    fn error_at(&self, what: &str, at: usize) -> Error {
        Error::with(Code::LineFormat, what).at(Place::of(self.text, at))
    }

    /// Goes to the start of the next line that says something.
    fn next_line(&mut self) -> bool {
        loop {
            while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
                self.at += 1;
            }
            match self.peek() {
                None => return false,
                Some(b'#') => {
                    while !self.at_end() {
                        self.at += 1;
                    }
                }
                Some(_) => return true,
            }
        }
    }

    fn line(&mut self, unit_ns: i64) -> Result<Line> {
        // Names of tables have no dot: it would end the name of a database.
        let measurement = self.name("a measurement")?.replace('.', "_");
        let mut tags: Vec<(String, String)> = Vec::new();
        while self.take(b',') {
            let key = self.key(&tags)?;
            let value = self.name("the value of a tag")?;
            tags.push((key, value));
        }
        let mut fields: Vec<(String, Field)> = Vec::new();
        loop {
            if fields.is_empty() {
                self.blanks();
            }
            let key = self.key(&fields)?;
            let field = self.field()?;
            fields.push((key, field));
            if !self.take(b',') {
                break;
            }
        }
        let time_ns = self.time(unit_ns)?;
        Ok(Line { measurement, tags, fields, time_ns })
    }

    /// A name that is not there yet, with the `=` behind it.
    fn key<T>(&mut self, known: &[(String, T)]) -> Result<String> {
        let start = self.at;
        let key = self.name("a name")?;
        if known.iter().any(|(other, _)| *other == key) {
            return Err(Error::with(Code::DuplicateColumn, key).at(Place::of(self.text, start)));
        }
        if self.take(b'=') { Ok(key) } else { Err(self.error("= is expected")) }
    }

    /// Up to the next comma, blank or `=` that no backslash stands before.
    fn name(&mut self, what: &str) -> Result<String> {
        let mut name = String::new();
        let mut from = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b',' | b' ' | b'\t' | b'=' | b'\n' | b'\r' => break,
                b'\\' if matches!(self.text.as_bytes().get(self.at + 1), Some(b',' | b' ' | b'=')) => {
                    name.push_str(self.text.get(from..self.at).unwrap_or_default());
                    from = self.at + 1;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        name.push_str(self.text.get(from..self.at).unwrap_or_default());
        if name.is_empty() { Err(self.error(&format!("{what} is expected"))) } else { Ok(name) }
    }

    fn field(&mut self) -> Result<Field> {
        let start = self.at;
        let prefix = match self.text.as_bytes().get(self.at..) {
            Some([b'"', ..]) => None,
            Some([letter @ (b'L' | b'l' | b'B' | b'b' | b'G' | b'g'), b'"', ..]) => {
                self.at += 1;
                Some(letter.to_ascii_uppercase())
            }
            _ => {
                while !self.at_end() && !matches!(self.peek(), Some(b',' | b' ' | b'\t')) {
                    self.at += 1;
                }
                let text = self.text.get(start..self.at).unwrap_or_default();
                return bare(text).ok_or_else(|| self.error_at(&format!("{text:?} is no value"), start));
            }
        };
        let text = self.quoted()?;
        let hex = prefix == Some(b'B') && text.starts_with(r"\x");
        let text = if hex { text.trim_start_matches('\\').to_owned() } else { text };
        let bytes = |data_type| match hex {
            true => Ok(text.len() / 2),
            false => parse_binary(data_type, &text)
                .map(|bytes| bytes.len())
                .map_err(|misfit| self.error_at(&misfit.reason(), start)),
        };
        let length = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
        let data_type = match prefix {
            None => DataType::Varchar(length(text.len())),
            Some(b'L') => DataType::NChar(length(text.chars().count())),
            Some(b'B') => DataType::Varbinary(length(bytes(DataType::Varbinary(u16::MAX))?)),
            Some(_) => DataType::Geometry(length(bytes(DataType::Geometry(u16::MAX))?)),
        };
        Ok(Field { data_type, text, quoted: true, hex })
    }

    /// Text within double quotes, of which `\"` and `\\` stand for the second character.
    fn quoted(&mut self) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        let mut from = self.at;
        loop {
            match self.peek() {
                None => return Err(self.error_at("text without its second quote", start)),
                Some(b'"') => break,
                Some(b'\\') if matches!(self.text.as_bytes().get(self.at + 1), Some(b'"' | b'\\')) => {
                    text.push_str(self.text.get(from..self.at).unwrap_or_default());
                    from = self.at + 1;
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
        text.push_str(self.text.get(from..self.at).unwrap_or_default());
        self.at += 1;
        Ok(text)
    }

    fn time(&mut self, unit_ns: i64) -> Result<Option<i128>> {
        self.blanks();
        let start = self.at;
        while !self.at_end() && !matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        self.blanks();
        if !self.at_end() {
            return Err(self.error("nothing is expected behind the time"));
        }
        if text.is_empty() {
            return Ok(None);
        }
        let count: u64 = text.parse().map_err(|_| self.error_at(&format!("{text:?} is no time"), start))?;
        Ok((count > 0).then(|| i128::from(count) * i128::from(unit_ns)))
    }
}

/// A number or a boolean.
fn bare(text: &str) -> Option<Field> {
    let field =
        |data_type, text: &str| Some(Field { data_type, text: text.to_owned(), quoted: false, hex: false });
    match text {
        "t" | "T" | "true" | "True" | "TRUE" => return field(DataType::Bool, "true"),
        "f" | "F" | "false" | "False" | "FALSE" => return field(DataType::Bool, "false"),
        _ => {}
    }
    let end = text.bytes().rposition(|byte| matches!(byte, b'i' | b'I' | b'u' | b'U' | b'f' | b'F'));
    let (number, suffix) = match end {
        Some(end) => (text.get(..end)?, text.get(end..)?.to_ascii_lowercase()),
        None => (text, "f64".to_owned()),
    };
    let digits = number.trim_start_matches(['+', '-']);
    let is_one_sign = number.len() - digits.len() <= 1;
    let is_integer = is_one_sign && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_float = is_one_sign
        && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && number.parse::<f64>().is_ok_and(f64::is_finite);
    let data_type = match &*suffix {
        "f64" => DataType::Double,
        "f32" => DataType::Float,
        "i8" => DataType::TinyInt,
        "i16" => DataType::SmallInt,
        "i32" => DataType::Int,
        "i64" | "i" => DataType::BigInt,
        "u8" => DataType::UTinyInt,
        "u16" => DataType::USmallInt,
        "u32" => DataType::UInt,
        "u64" | "u" => DataType::UBigInt,
        _ => return None,
    };
    let fits = if data_type.is_integer() { is_integer } else { is_float };
    fits.then(|| field(data_type, number)).flatten()
}
