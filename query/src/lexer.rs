//! Text to tokens. A token is a kind and a place in the text; nothing is copied until the parser wants a name or a
//! string.
//!
//! INSERT does not come through here: [`crate::insert`] reads its values from the bytes.

use std::borrow::Cow;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Keyword or unquoted name, ASCII.
    Word,
    /// Unquoted word with letters beyond ASCII: only good as an alias.
    WideWord,
    /// Name in backticks.
    Quoted,
    /// String in single or double quotes.
    Text,
    /// `123`
    Integer,
    /// `1.5`, `.5`, `1e3`
    Float,
    /// `10s`
    Duration,
    /// `0x1F` or `0b101`: a value in INSERT, an error in queries.
    Radix,
    /// `1q`: digits that run into letters.
    Malformed,
    /// A quote or comment without its end, or a character that means nothing.
    Illegal,
    /// `?`
    Placeholder,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `[`
    LeftBracket,
    /// `]`
    RightBracket,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `.`
    Dot,
    /// `=` or `==`
    Eq,
    /// `<>` or `!=`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `&`
    And,
    /// `|`
    Or,
    /// `->`
    Arrow,
    /// End of the text.
    End,
}

/// A token: `sql[start..end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Byte where it starts.
    pub start: usize,
    /// First byte behind it.
    pub end: usize,
}

/// Whether `byte` may stand in an unquoted name (bytes beyond ASCII are handled apart).
pub(crate) const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Reads tokens from the left; blanks and comments (hints too) are passed over.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Starts at the beginning of `sql`.
    #[must_use]
    pub fn new(sql: &'a str) -> Self {
        Self { bytes: sql.as_bytes(), at: 0 }
    }

    /// The next token; [`TokenKind::End`] for ever once the text is used up.
    pub fn next_token(&mut self) -> Token {
        if let Some(unfinished) = self.skip_blanks() {
            return self.token(TokenKind::Illegal, unfinished);
        }
        let start = self.at;
        let Some(byte) = self.peek(0) else {
            return self.token(TokenKind::End, start);
        };
        let kind = match byte {
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_some_and(|b| b.is_ascii_digit()) => self.number(),
            b'\'' | b'"' => self.quoted(byte, TokenKind::Text),
            b'`' => self.quoted(byte, TokenKind::Quoted),
            b if is_word_byte(b) || !b.is_ascii() => self.word(),
            _ => self.symbol(byte),
        };
        self.token(kind, start)
    }

    /// All tokens, the last of which is [`TokenKind::End`].
    #[must_use]
    pub fn tokens(mut self) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(self.bytes.len() / 5 + 2);
        loop {
            let token = self.next_token();
            tokens.push(token);
            if token.kind == TokenKind::End {
                return tokens;
            }
        }
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token { kind, start, end: self.at }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn skip_while(&mut self, keep: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&keep) {
            self.at += 1;
        }
    }

    /// Passes blanks and comments. Where a comment does not end: its start.
    fn skip_blanks(&mut self) -> Option<usize> {
        loop {
            self.skip_while(|b| b.is_ascii_whitespace());
            match (self.peek(0), self.peek(1)) {
                (Some(b'-'), Some(b'-')) => self.skip_while(|b| b != b'\n'),
                (Some(b'/'), Some(b'*')) => {
                    let start = self.at;
                    self.at += 2;
                    while self.peek(0).is_some() && (self.peek(0), self.peek(1)) != (Some(b'*'), Some(b'/')) {
                        self.at += 1;
                    }
                    if self.peek(0).is_none() {
                        return Some(start);
                    }
                    self.at += 2;
                }
                _ => return None,
            }
        }
    }

    fn word(&mut self) -> TokenKind {
        let start = self.at;
        self.skip_while(|b| is_word_byte(b) || !b.is_ascii());
        let wide = self.bytes.get(start..self.at).is_some_and(|word| !word.is_ascii());
        if wide { TokenKind::WideWord } else { TokenKind::Word }
    }

    fn quoted(&mut self, quote: u8, kind: TokenKind) -> TokenKind {
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            self.at += 1;
            if byte == b'\\' && kind == TokenKind::Text && self.peek(0).is_some() {
                self.at += 1;
            } else if byte == quote {
                if self.peek(0) != Some(quote) {
                    return kind;
                }
                self.at += 1;
            }
        }
        TokenKind::Illegal
    }

    fn number(&mut self) -> TokenKind {
        let kind = self.number_body();
        if self.peek(0).is_some_and(|b| is_word_byte(b) || !b.is_ascii()) {
            self.skip_while(|b| is_word_byte(b) || !b.is_ascii());
            return TokenKind::Malformed;
        }
        kind
    }

    fn number_body(&mut self) -> TokenKind {
        let radix_digit =
            |b: u8, hex: bool| if hex { b.is_ascii_hexdigit() } else { matches!(b, b'0' | b'1') };
        if self.peek(0) == Some(b'0')
            && let Some(letter @ (b'x' | b'X' | b'b' | b'B')) = self.peek(1)
            && self.peek(2).is_some_and(|b| radix_digit(b, letter.eq_ignore_ascii_case(&b'x')))
        {
            self.at += 2;
            self.skip_while(|b| radix_digit(b, letter.eq_ignore_ascii_case(&b'x')));
            return TokenKind::Radix;
        }
        let mut kind = TokenKind::Integer;
        self.skip_while(|b| b.is_ascii_digit());
        if self.peek(0) == Some(b'.') {
            kind = TokenKind::Float;
            self.at += 1;
            self.skip_while(|b| b.is_ascii_digit());
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let digits = 1 + usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self.peek(digits).is_some_and(|b| b.is_ascii_digit()) {
                self.at += digits;
                self.skip_while(|b| b.is_ascii_digit());
                return TokenKind::Float;
            }
        }
        if kind == TokenKind::Integer
            && self.peek(0).is_some_and(|b| model::TimeUnit::from_letter(char::from(b)).is_some())
            && !self.peek(1).is_some_and(|b| is_word_byte(b) || !b.is_ascii())
        {
            self.at += 1;
            return TokenKind::Duration;
        }
        kind
    }

    fn symbol(&mut self, byte: u8) -> TokenKind {
        let (kind, length) = match (byte, self.peek(1)) {
            (b'(', _) => (TokenKind::LeftParen, 1),
            (b')', _) => (TokenKind::RightParen, 1),
            (b'[', _) => (TokenKind::LeftBracket, 1),
            (b']', _) => (TokenKind::RightBracket, 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b'.', _) => (TokenKind::Dot, 1),
            (b'=', Some(b'=')) => (TokenKind::Eq, 2),
            (b'=', _) => (TokenKind::Eq, 1),
            (b'<', Some(b'=')) => (TokenKind::LtEq, 2),
            (b'<', Some(b'>')) | (b'!', Some(b'=')) => (TokenKind::NotEq, 2),
            (b'<', _) => (TokenKind::Lt, 1),
            (b'>', Some(b'=')) => (TokenKind::GtEq, 2),
            (b'>', _) => (TokenKind::Gt, 1),
            (b'-', Some(b'>')) => (TokenKind::Arrow, 2),
            (b'-', _) => (TokenKind::Minus, 1),
            (b'+', _) => (TokenKind::Plus, 1),
            (b'*', _) => (TokenKind::Star, 1),
            (b'/', _) => (TokenKind::Slash, 1),
            (b'%', _) => (TokenKind::Percent, 1),
            (b'&', _) => (TokenKind::And, 1),
            (b'|', _) => (TokenKind::Or, 1),
            (b'?', _) => (TokenKind::Placeholder, 1),
            _ => (TokenKind::Illegal, 1),
        };
        self.at += length;
        kind
    }
}

/// What stands between the quotes of a string token, quotes and escapes undone.
///
/// `\%` and `\_` keep their backslash: LIKE wants it.
#[must_use]
pub fn unquote_text(token: &str) -> Cow<'_, str> {
    let quote = token.chars().next().unwrap_or('\'');
    let inner = token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains(['\\', quote]) {
        return Cow::Borrowed(inner);
    }
    let mut text = String::with_capacity(inner.len());
    unescape_into(inner, quote, &mut text);
    Cow::Owned(text)
}

/// Appends `inner` to `text` with escapes and doubled quotes undone.
pub(crate) fn unescape_into(inner: &str, quote: char, text: &mut String) {
    let mut rest = inner;
    while let Some(at) = rest.find(['\\', quote]) {
        let (plain, special) = rest.split_at(at);
        text.push_str(plain);
        let mut chars = special.chars();
        let first = chars.next();
        match (first, chars.next()) {
            (Some('\\'), Some('n')) => text.push('\n'),
            (Some('\\'), Some('r')) => text.push('\r'),
            (Some('\\'), Some('t')) => text.push('\t'),
            (Some('\\'), Some(c @ ('%' | '_'))) => {
                text.push('\\');
                text.push(c);
            }
            (Some('\\'), Some(c)) => text.push(c),
            (Some(c), _) => text.push(c),
            (None, _) => {}
        }
        rest = chars.as_str();
    }
    text.push_str(rest);
}

/// The name in a backtick token.
#[must_use]
pub fn unquote_name(token: &str) -> String {
    token.get(1..token.len().saturating_sub(1)).unwrap_or_default().replace("``", "`")
}

/// `sql` in lower case outside quotes and backticks, as error messages and default column names show it.
#[must_use]
pub fn fold(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut quote = None;
    let mut escaped = false;
    for c in sql.chars() {
        match quote {
            None => {
                if matches!(c, '\'' | '"' | '`') {
                    quote = Some(c);
                }
                text.push(c.to_ascii_lowercase());
            }
            Some(open) => {
                if escaped {
                    escaped = false;
                } else if c == '\\' && open != '`' {
                    escaped = true;
                } else if c == open {
                    quote = None;
                }
                text.push(c);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(sql: &str) -> Vec<(TokenKind, &str)> {
        Lexer::new(sql).tokens().into_iter().map(|t| (t.kind, &sql[t.start..t.end])).collect()
    }

    #[test]
    fn tokens_know_their_place() {
        use TokenKind::*;
        assert_eq!(
            kinds("SELECT a.`B``c`,'x''y' -- end\n/* c */ >=1.e3"),
            [
                (Word, "SELECT"),
                (Word, "a"),
                (Dot, "."),
                (Quoted, "`B``c`"),
                (Comma, ","),
                (Text, "'x''y'"),
                (GtEq, ">="),
                (Float, "1.e3"),
                (End, ""),
            ]
        );
    }

    #[test]
    fn numbers() {
        use TokenKind::*;
        for (text, kind) in [
            ("123", Integer),
            ("1.", Float),
            (".5", Float),
            ("1e-3", Float),
            ("1E3", Float),
            ("10s", Duration),
            ("1N", Duration),
            ("0b", Duration),
            ("0x1F", Radix),
            ("0b101", Radix),
            ("0b2", Malformed),
            ("0x", Malformed),
            ("1q", Malformed),
            ("1sx", Malformed),
            ("1e", Malformed),
            ("0x1G", Malformed),
            ("1日", Malformed),
        ] {
            assert_eq!(kinds(text), [(kind, text), (End, "")]);
        }
        assert_eq!(kinds("1-1d")[2], (Duration, "1d"));
    }

    #[test]
    fn what_does_not_end_is_illegal() {
        for text in ["'abc", "\"abc\\\"", "`a", "/* x", "#", "'a\\"] {
            assert_eq!(kinds(text)[0], (TokenKind::Illegal, text));
        }
        assert_eq!(kinds("名 x")[0], (TokenKind::WideWord, "名"));
    }

    #[test]
    fn escapes() {
        assert_eq!(unquote_text(r"'a\n\r\t\\\'\q\%\_'"), "a\n\r\t\\'q\\%\\_");
        assert_eq!(unquote_text("\"c\"\"d'\""), "c\"d'");
        assert_eq!(unquote_text("'a''b'"), "a'b");
        assert_eq!(unquote_text("''"), "");
        assert_eq!(unquote_name("`a``\\b`"), "a`\\b");
    }

    #[test]
    fn folds_outside_quotes_only() {
        assert_eq!(fold("SELECT 'A\\'B' \"C\" `D` É"), "select 'A\\'B' \"C\" `D` É");
    }
}
