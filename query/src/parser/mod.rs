//! Tokens to statements: recursive descent, and for expressions precedence climbing.
//!
//! Nothing is looked up: whatever needs the catalogue is checked later. What the dialect has and Tidemark does not
//! answers [`model::Code::NotSupported`] with the construct's name; anything else is a syntax error with its place.

mod call;
mod database;
mod expr;
mod grant;
mod options;
mod query;
mod show;
mod statement;
mod storage;
mod table;
mod topic;
mod types;
mod user;
pub(crate) mod words;

use model::{Code, Error, Place, Result};

use crate::ast::{At, Expr, ObjectName, Query, Statement};
use crate::lexer::{Lexer, Token, TokenKind, fold, unquote_name, unquote_text};

pub use user::check_password;

/// Longest statement in bytes where the caller does not say.
pub const SQL_BYTES_MAX_DEFAULT: usize = 1 << 20;
/// Longest statement that a caller may allow.
pub const SQL_BYTES_MAX_LIMIT: usize = 64 << 20;

/// Levels of nesting (parentheses, subqueries, chains of operators): bounds the stack of the parser and of everyone
/// who walks the tree.
const DEPTH_MAX: usize = 128;
/// Bytes of the statement that an error shows.
const NEAR_BYTES_MAX: usize = 256;

/// What a caller may set.
#[derive(Clone, Copy, Debug)]
pub struct ParseOptions {
    /// Longer statements are refused; at most [`SQL_BYTES_MAX_LIMIT`].
    pub sql_bytes_max: usize,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self { sql_bytes_max: SQL_BYTES_MAX_DEFAULT }
    }
}

/// Parses one statement (INSERT excepted: see [`is_insert`]) with default options.
pub fn parse(sql: &str) -> Result<Statement> {
    parse_with(sql, &ParseOptions::default())
}

/// Parses one statement, an optional `;` behind it.
pub fn parse_with(sql: &str, options: &ParseOptions) -> Result<Statement> {
    check_length(sql, options.sql_bytes_max)?;
    let mut parser = Parser::new(sql);
    let statement = parser.statement()?;
    parser.end()?;
    Ok(statement)
}

/// Parses a SELECT: the stored text of a topic or view.
pub fn parse_query(sql: &str) -> Result<Query> {
    // It was accepted once, whatever the limit was then.
    check_length(sql, SQL_BYTES_MAX_LIMIT)?;
    let mut parser = Parser::new(sql);
    let query = parser.query()?;
    parser.end()?;
    Ok(query)
}

/// Parses an expression by itself.
pub fn parse_expr(sql: &str) -> Result<Expr> {
    check_length(sql, SQL_BYTES_MAX_LIMIT)?;
    let mut parser = Parser::new(sql);
    let expr = parser.expr()?;
    parser.end()?;
    Ok(expr)
}

/// Whether `sql` is for [`crate::insert::parse_insert`]: its first word is INSERT or IMPORT.
#[must_use]
pub fn is_insert(sql: &str) -> bool {
    let token = Lexer::new(sql).next_token();
    let word = sql.get(token.start..token.end).unwrap_or_default();
    word.eq_ignore_ascii_case("insert") || word.eq_ignore_ascii_case("import")
}

/// Splits a script at the semicolons that stand outside quotes and comments. Pieces without a token are left out.
///
/// A piece whose quote or comment does not end reaches to the end of the script.
#[must_use]
pub fn split_statements(script: &str) -> Vec<&str> {
    let mut lexer = Lexer::new(script);
    let mut statements = Vec::new();
    let mut first = None;
    let mut last_end = 0;
    loop {
        let token = lexer.next_token();
        match token.kind {
            TokenKind::Semicolon | TokenKind::End => {
                if let Some(statement) = first.take().and_then(|start| script.get(start..last_end)) {
                    statements.push(statement);
                }
                if token.kind == TokenKind::End {
                    return statements;
                }
            }
            _ => {
                first.get_or_insert(token.start);
                last_end = token.end;
            }
        }
    }
}

/// Refuses a statement that is too long.
pub(crate) fn check_length(sql: &str, bytes_max: usize) -> Result<()> {
    let bytes_max = bytes_max.min(SQL_BYTES_MAX_LIMIT);
    if sql.len() > bytes_max {
        let detail = format!("{} bytes, at most {bytes_max} are allowed", sql.len());
        return Err(Error::with(Code::SqlTooLong, detail));
    }
    Ok(())
}

/// The start of `text` that fits `bytes_max`, cut between characters.
pub(crate) fn clip(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Kinds of names, each with its greatest length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    Database,
    Table,
    Topic,
    Column,
    User,
}

impl NameKind {
    const fn bytes_max(self) -> usize {
        match self {
            Self::Database | Self::Column => 64,
            Self::Table | Self::Topic => 192,
            Self::User => 23,
        }
    }
}

/// Checks a name that was written with or without quotes.
pub(crate) fn check_name(name: &str, kind: NameKind) -> Result<()> {
    if name.is_empty() {
        return Err(Error::text(Code::InvalidIdentifier, "Invalid identifier name: empty name"));
    }
    if name.len() > kind.bytes_max() {
        if kind == NameKind::User {
            return Err(Error::of(Code::NameOrPasswordTooLong).hint("a user name has at most 23 bytes"));
        }
        return Err(Error::with(Code::InvalidIdentifier, clip(name, NEAR_BYTES_MAX))
            .hint(format!("at most {} bytes", kind.bytes_max())));
    }
    let what = match kind {
        NameKind::Database => "database",
        NameKind::Table => "table",
        NameKind::Topic | NameKind::Column | NameKind::User => return Ok(()),
    };
    if name.contains('.') {
        return Err(Error::text(Code::InvalidIdentifier, format!("The {what} name cannot contain '.'")));
    }
    Ok(())
}

/// Whether `name` is one of the databases that hold system tables.
pub(crate) fn is_system_database(name: &str) -> bool {
    matches!(name, "information_schema" | "performance_schema")
}

/// The parser's state: where it stands in the tokens.
#[derive(Debug)]
pub(crate) struct Parser<'a> {
    sql: &'a str,
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    /// Reading the query of a topic.
    in_topic: bool,
    /// A byte of the text and its place: the next one asked for is counted from there.
    placed: (usize, Place),
}

impl<'a> Parser<'a> {
    fn new(sql: &'a str) -> Self {
        let placed = (0, Place { line: 1, column: 1 });
        Self { sql, tokens: Lexer::new(sql).tokens(), next: 0, depth: 0, in_topic: false, placed }
    }

    // Looking.

    fn peek(&self) -> Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Token {
        let end = self.sql.len();
        self.tokens.get(self.next + ahead).copied().unwrap_or(Token { kind: TokenKind::End, start: end, end })
    }

    fn text_of(&self, token: Token) -> &'a str {
        self.sql.get(token.start..token.end).unwrap_or_default()
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.peek().kind == kind
    }

    fn at_word(&self, word: &str) -> bool {
        self.is_word(self.peek(), word)
    }

    fn at_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.is_word(self.peek_at(ahead), word))
    }

    fn is_word(&self, token: Token, word: &str) -> bool {
        token.kind == TokenKind::Word && self.text_of(token).eq_ignore_ascii_case(word)
    }

    /// Source from `start` to the last token taken.
    fn source_from(&self, start: usize) -> &'a str {
        let end = self.next.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(start, |t| t.end);
        self.sql.get(start..end).unwrap_or_default()
    }

    /// Where `token` stands. Names are met from left to right, so that a statement of many is looked through once.
    fn spot(&mut self, token: Token) -> At {
        let (known, place) = self.placed;
        let place = match self.sql.get(known..token.start) {
            Some(between) => Place::of(between, between.len()).in_whole(place),
            None => Place::of(self.sql, token.start),
        };
        self.placed = (token.start, place);
        At(Some(place))
    }

    // Taking.

    fn bump(&mut self) -> Token {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.next += 1;
        }
        token
    }

    fn take(&mut self, kind: TokenKind) -> bool {
        let found = self.at(kind);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, kind: TokenKind) -> Result<Token> {
        if self.at(kind) { Ok(self.bump()) } else { Err(self.unexpected()) }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    /// Takes all of `words` or none.
    fn take_words(&mut self, words: &[&str]) -> bool {
        let found = self.at_words(words);
        if found {
            self.next += words.len();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn if_exists(&mut self) -> Result<bool> {
        if !self.take_word("IF") {
            return Ok(false);
        }
        self.expect_word("EXISTS").map(|()| true)
    }

    fn if_not_exists(&mut self) -> Result<bool> {
        if !self.take_word("IF") {
            return Ok(false);
        }
        self.expect_word("NOT")?;
        self.expect_word("EXISTS").map(|()| true)
    }

    /// `one, two, three`.
    fn comma_separated<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// An optional semicolon, and nothing behind it.
    fn end(&mut self) -> Result<()> {
        while self.take(TokenKind::Semicolon) {}
        if self.at(TokenKind::End) { Ok(()) } else { Err(self.superfluous()) }
    }

    // Names and simple values.

    fn at_name(&self) -> bool {
        let token = self.peek();
        match token.kind {
            TokenKind::Word => !words::is_reserved(self.text_of(token)),
            TokenKind::Quoted => true,
            _ => false,
        }
    }

    /// Whether a name comes where nothing but a name may stand.
    fn at_any_name(&self) -> bool {
        let token = self.peek();
        self.at_name() || (token.kind == TokenKind::Word && words::is_name(self.text_of(token)))
    }

    fn name(&mut self, kind: NameKind) -> Result<String> {
        if !self.at_any_name() {
            return Err(self.unexpected_name());
        }
        let token = self.bump();
        let name = self.name_of(token);
        if name.is_empty() {
            // Clients know the text that begins with the second of the two backticks.
            let rest = clip(self.sql.get(token.start + 1..).unwrap_or_default(), NEAR_BYTES_MAX);
            return Err(Error::with(Code::InvalidIdentifier, rest).at(Place::of(self.sql, token.start)));
        }
        check_name(&name, kind)?;
        Ok(name)
    }

    fn name_of(&self, token: Token) -> String {
        let text = self.text_of(token);
        if token.kind == TokenKind::Quoted { unquote_name(text) } else { text.to_ascii_lowercase() }
    }

    /// `[db.]name`.
    fn object_name(&mut self, kind: NameKind) -> Result<ObjectName> {
        let at = self.spot(self.peek());
        if self.peek_at(1).kind == TokenKind::Dot {
            let database = self.name(NameKind::Database)?;
            self.bump();
            return Ok(ObjectName { database: Some(database), name: self.name(kind)?, at });
        }
        Ok(ObjectName { database: None, name: self.name(kind)?, at })
    }

    fn string(&mut self) -> Result<String> {
        let token = self.expect(TokenKind::Text)?;
        Ok(unquote_text(self.text_of(token)).into_owned())
    }

    fn integer(&mut self) -> Result<u64> {
        let token = self.expect(TokenKind::Integer)?;
        // Digits only, so what does not parse is too large.
        Ok(self.text_of(token).parse().unwrap_or(u64::MAX))
    }

    // Failing.

    /// The statement does not go on like this.
    fn unexpected(&self) -> Error {
        self.unexpected_at(self.peek())
    }

    fn unexpected_at(&self, token: Token) -> Error {
        let at_end = token.kind == TokenKind::End
            || (token.kind == TokenKind::Semicolon && self.peek_at(1).kind == TokenKind::End);
        let place = Place::of(self.sql, token.start);
        if at_end {
            return Error::of(Code::IncompleteSql).at(place).hint("more is expected there");
        }
        if token.kind == TokenKind::Illegal {
            let text = clip(self.text_of(token), NEAR_BYTES_MAX);
            return Error::text(Code::Syntax, format!("unrecognized token: \"{text}\"")).at(place);
        }
        let rest = clip(self.sql.get(token.start..).unwrap_or_default(), NEAR_BYTES_MAX);
        Error::text(Code::Syntax, format!("syntax error near \"{}\"", fold(rest).trim_end())).at(place)
    }

    /// As [`Self::unexpected`], where a name is expected: a reserved word may be meant as one.
    fn unexpected_name(&self) -> Error {
        let (error, token) = (self.unexpected(), self.peek());
        let word = self.text_of(token);
        if token.kind == TokenKind::Word && !words::is_name(word) {
            let name = word.to_ascii_lowercase();
            return error
                .hint(format!("{word} is a reserved word: if it is meant as a name, write `{name}`"));
        }
        error
    }

    /// As [`Self::unexpected`], where the statement could end: a clause in the wrong place, or a reserved word that is
    /// meant as an alias.
    fn superfluous(&self) -> Error {
        let (error, token) = (self.unexpected(), self.peek());
        let word = self.text_of(token);
        let before = self.next.checked_sub(1).and_then(|before| self.tokens.get(before));
        if before.is_some_and(|token| token.kind == TokenKind::Semicolon) {
            return error.hint("one statement at a time");
        }
        if token.kind != TokenKind::Word || !words::is_reserved(word) {
            return error;
        }
        let is_query = self.tokens.first().is_some_and(|first| self.is_word(*first, "SELECT"));
        if words::begins_clause(word) {
            return if is_query { error.hint(words::CLAUSE_ORDER) } else { error };
        }
        let name = word.to_ascii_lowercase();
        error.hint(format!("{word} is a reserved word: if it is meant as an alias, write AS `{name}`"))
    }

    /// Of a query inside an expression: a topic has none, whatever is built.
    fn subquery(&self, what: &str) -> Error {
        match self.in_topic {
            true => Error::with(Code::InvalidTopicQuery, "a subquery is not allowed")
                .at(Place::of(self.sql, self.peek().start)),
            false => self.unsupported(what),
        }
    }

    /// The dialect has it, Tidemark does not.
    fn unsupported(&self, construct: impl std::fmt::Display) -> Error {
        self.unsupported_at(construct, self.peek())
    }

    fn unsupported_at(&self, construct: impl std::fmt::Display, token: Token) -> Error {
        Error::not_supported(construct).at(Place::of(self.sql, token.start))
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&self) -> Error {
        Error::text(Code::Syntax, format!("statement is nested more than {DEPTH_MAX} levels deep"))
            .at(Place::of(self.sql, self.peek().start))
    }
}

#[cfg(test)]
mod tests;
