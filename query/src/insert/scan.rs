//! The cursor over the text of an INSERT: blanks, words, names, values.

use model::{Code, DurationLiteral, Error, Place, Result, TableSchema};

use crate::ast::ObjectName;
use crate::lexer::{fold, is_word_byte, unescape_into};
use crate::literal::Raw;
use crate::parser::{NameKind, check_name, clip};

/// Bytes of the statement that an error shows.
const NEAR_BYTES_MAX: usize = 64;

/// Where in the text a value stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Its first byte, the quote where it has one.
    pub(super) start: usize,
    /// Whether it stands in quotes.
    pub(super) quoted: bool,
}

/// The cursor.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    sql: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Where a string with escapes is undone.
    scratch: String,
}

impl<'a> Scan<'a> {
    pub(super) fn new(sql: &'a str) -> Self {
        Self { sql, bytes: sql.as_bytes(), at: 0, scratch: String::new() }
    }

    // Errors.

    /// `syntax error near '<rest>' (<reason>)`.
    pub(super) fn error(&self, reason: &str) -> Error {
        self.error_at(self.at, reason)
    }

    pub(super) fn error_at(&self, at: usize, reason: &str) -> Error {
        let text = format!("syntax error near '{}' ({reason})", self.near(at));
        Error::text(Code::InsertSyntax, text).at(self.place(at))
    }

    pub(super) fn place(&self, at: usize) -> Place {
        Place::of(self.sql, at)
    }

    /// A column or tag that the table does not have.
    pub(super) fn unknown_column(&self, schema: &TableSchema, name: &str, at: usize) -> Error {
        let known = schema.columns.iter().chain(&schema.tags).map(|column| &*column.name);
        Error::with(Code::InvalidColumn, name).at(self.place(at)).hint_case(name, known)
    }

    /// The text from `at`, as errors show it.
    pub(super) fn near(&self, at: usize) -> String {
        fold(clip(self.sql.get(at..).unwrap_or_default(), NEAR_BYTES_MAX).trim_end())
    }

    // Bytes.

    #[inline]
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Goes back to an earlier position.
    pub(super) fn go_back(&mut self, position: usize) {
        self.at = self.at.min(position);
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Passes blanks and comments; the next byte, if any.
    #[inline]
    pub(super) fn next_byte(&mut self) -> Option<u8> {
        loop {
            let byte = self.peek()?;
            if byte > b' ' && byte != b'-' && byte != b'/' {
                return Some(byte);
            }
            if byte.is_ascii_whitespace() {
                self.at += 1;
            } else if !self.skip_comment() {
                return Some(byte);
            }
        }
    }

    fn skip_comment(&mut self) -> bool {
        match (self.peek(), self.peek_at(1)) {
            (Some(b'-'), Some(b'-')) => {
                while self.peek().is_some_and(|b| b != b'\n') {
                    self.at += 1;
                }
                true
            }
            (Some(b'/'), Some(b'*')) => {
                let rest = self.sql.get(self.at + 2..).unwrap_or_default();
                self.at = rest.find("*/").map_or(self.bytes.len(), |end| self.at + 2 + end + 2);
                true
            }
            _ => false,
        }
    }

    /// Takes `byte` if it comes next.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.next_byte() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes `byte`, which must come next.
    pub(super) fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) { Ok(()) } else { Err(self.error(&format!("{} expected", char::from(byte)))) }
    }

    // Words and names.

    fn word_end(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at + rest.iter().position(|&b| !is_word_byte(b) && b.is_ascii()).unwrap_or(rest.len())
    }

    /// Whether `word` comes next.
    pub(super) fn at_word(&mut self, word: &str) -> bool {
        self.next_byte();
        self.sql.get(self.at..self.word_end()).is_some_and(|w| w.eq_ignore_ascii_case(word))
    }

    /// Takes `word` if it comes next.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// `INSERT INTO`, and something behind it.
    pub(super) fn statement_start(&mut self) -> Result<()> {
        if !self.take_word("INSERT") && !self.take_word("IMPORT") {
            return Err(self.error("keyword INSERT is expected"));
        }
        if self.next_byte().is_none() {
            return Err(Error::of(Code::IncompleteSql));
        }
        if !self.take_word("INTO") {
            return Err(self.error("keyword INTO is expected"));
        }
        if self.next_byte().is_none() {
            return Err(Error::of(Code::IncompleteSql));
        }
        Ok(())
    }

    /// A name in or out of backticks.
    pub(super) fn name(&mut self, kind: NameKind) -> Result<String> {
        let start = self.at;
        let name = self.any_name()?;
        check_name(&name, kind).map_err(|error| error.at(self.place(start)))?;
        Ok(name)
    }

    fn any_name(&mut self) -> Result<String> {
        if self.next_byte() == Some(b'`') {
            return self.backticked();
        }
        let end = self.word_end();
        let word = self.sql.get(self.at..end).unwrap_or_default();
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) || !word.is_ascii() {
            if word.is_empty() && self.peek() == Some(b'?') {
                return Err(self.placeholder());
            }
            return Err(self.error("a name is expected"));
        }
        self.at = end;
        Ok(word.to_ascii_lowercase())
    }

    fn backticked(&mut self) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut name = String::new();
        loop {
            let rest = self.sql.get(self.at..).unwrap_or_default();
            let Some(length) = rest.find('`') else {
                return Err(self.error_at(start, "closing backtick is expected"));
            };
            name.push_str(rest.get(..length).unwrap_or_default());
            self.at += length + 1;
            if self.peek() != Some(b'`') {
                return Ok(name);
            }
            name.push('`');
            self.at += 1;
        }
    }

    /// `[db.]table`, no blanks around the point. It does not know its place: a statement may name thousands, and only one
    /// of them can be wrong.
    pub(super) fn object_name(&mut self) -> Result<ObjectName> {
        let start = self.at;
        let first = self.any_name()?;
        if self.peek() == Some(b'.') {
            self.at += 1;
            check_name(&first, NameKind::Database)?;
            return Ok(ObjectName::new(Some(&first), self.name(NameKind::Table)?));
        }
        check_name(&first, NameKind::Table).map_err(|error| error.at(self.place(start)))?;
        Ok(ObjectName::new(None, first))
    }

    /// What stands in the quotes at `start`, for an error.
    pub(super) fn quoted_at(&mut self, start: usize) -> String {
        self.at = start;
        let quote = self.peek().unwrap_or(b'\'');
        match self.quoted(quote) {
            Ok(text) => self.slice(&text).to_owned(),
            Err(_) => String::new(),
        }
    }

    fn placeholder(&self) -> Error {
        Error::not_supported("? outside a prepared statement").at(self.place(self.at))
    }

    // Values.

    /// The next value. Where `time` is set, `± duration` behind it belongs to it.
    #[inline]
    pub(super) fn value(&mut self, time: bool) -> Result<(Raw<'_>, Span)> {
        let first = self.next_byte();
        let start = self.at;
        let (text, quoted) = match first {
            Some(quote @ (b'\'' | b'"')) => (self.quoted(quote)?, true),
            Some(_) => (self.bare()?, false),
            None => return Err(self.error_at(start, "invalid data or symbol")),
        };
        let span = Span { start, quoted };
        if time {
            if !quoted && is_instant(self.slice(&text)) && self.next_byte() == Some(b'(') {
                self.at += 1;
                self.expect(b')')?;
            }
            if matches!(self.next_byte(), Some(b'+' | b'-')) {
                let shift = self.shift(span, &text)?;
                return Ok((Raw::Shifted { base: self.slice(&text), quoted, shift }, span));
            }
        }
        let is_hex = self.bytes.get(start + 1..start + 3) == Some(br"\x");
        let text = self.slice(&text);
        let raw = match quoted {
            true if is_hex => Raw::Hex(text),
            true => Raw::Quoted(text),
            false => Raw::Bare(text),
        };
        Ok((raw, span))
    }

    #[inline]
    fn slice(&self, text: &Text) -> &str {
        match *text {
            Text::Source { start, end } => self.sql.get(start..end).unwrap_or_default(),
            Text::Scratch => &self.scratch,
        }
    }

    #[inline]
    fn quoted(&mut self, quote: u8) -> Result<Text> {
        let start = self.at + 1;
        let mut end = start;
        let mut plain = true;
        loop {
            match self.bytes.get(end) {
                Some(&byte) if byte == quote => {
                    if self.bytes.get(end + 1) != Some(&quote) {
                        break;
                    }
                    plain = false;
                    end += 2;
                }
                Some(b'\\') => {
                    plain = false;
                    end += 2;
                }
                Some(_) => end += 1,
                None => return Err(self.error("closing quote is expected")),
            }
        }
        self.at = end + 1;
        if plain {
            return Ok(Text::Source { start, end });
        }
        self.scratch.clear();
        let inner = self.sql.get(start..end).unwrap_or_default();
        unescape_into(inner, char::from(quote), &mut self.scratch);
        Ok(Text::Scratch)
    }

    #[inline]
    fn bare(&mut self) -> Result<Text> {
        let start = self.at;
        let signed = matches!(self.peek(), Some(b'+' | b'-'));
        let mut end = start + usize::from(signed);
        let numeric = self.bytes.get(end).is_some_and(|b| b.is_ascii_digit() || *b == b'.');
        while let Some(&byte) = self.bytes.get(end) {
            let exponent_sign = matches!(byte, b'+' | b'-')
                && numeric
                && matches!(self.bytes.get(end - 1), Some(b'e' | b'E'))
                && self.bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
            if is_word_byte(byte) || byte == b'.' || exponent_sign || !byte.is_ascii() {
                end += 1;
            } else {
                break;
            }
        }
        if end == start + usize::from(signed) {
            if self.peek() == Some(b'?') {
                return Err(self.placeholder());
            }
            return Err(self.error("invalid data or symbol"));
        }
        self.at = end;
        Ok(Text::Source { start, end })
    }

    /// `+ 1d`, once.
    fn shift(&mut self, span: Span, text: &Text) -> Result<DurationLiteral> {
        let negative = self.peek() == Some(b'-');
        self.at += 1;
        self.next_byte();
        let end = self.word_end();
        let duration =
            self.sql.get(self.at..end).and_then(DurationLiteral::parse).filter(|d| !d.is_calendar());
        self.at = end;
        match duration {
            Some(duration) if !matches!(self.next_byte(), Some(b'+' | b'-')) => {
                let count = if negative { -duration.count } else { duration.count };
                Ok(DurationLiteral { count, unit: duration.unit })
            }
            _ if span.quoted => {
                let text = format!("syntax error near '{}' (invalid timestamp)", self.slice(text));
                Err(Error::text(Code::InsertSyntax, text).at(self.place(span.start)))
            }
            _ => Err(self.error_at(span.start, "invalid timestamp")),
        }
    }
}

/// Where the text of a value is.
#[derive(Debug)]
enum Text {
    Source { start: usize, end: usize },
    Scratch,
}

fn is_instant(text: &str) -> bool {
    text.eq_ignore_ascii_case("now") || text.eq_ignore_ascii_case("today")
}
