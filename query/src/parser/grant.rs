//! GRANT and REVOKE.

use model::Result;

use super::{NameKind, Parser};
use crate::ast::{Right, Statement};
use crate::lexer::TokenKind;

/// Rights of the dialect that Tidemark has no check for: granting them would promise something.
const UNSUPPORTED: &[&[&str]] = &[
    &["ALTER"],
    &["ROLE"],
    &["SELECT"],
    &["INSERT"],
    &["DELETE"],
    &["CREATE"],
    &["DROP"],
    &["USE"],
    &["SHOW"],
    &["FLUSH"],
    &["COMPACT"],
    &["TRIM"],
    &["ROLLUP"],
    &["SCAN"],
    &["SSMIGRATE"],
    &["START"],
    &["STOP"],
    &["RECALCULATE"],
];

/// A name as it has to be written.
fn shown(name: &str) -> String {
    let plain = name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit());
    if plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

impl Parser<'_> {
    /// `{GRANT | REVOKE} right ON object {TO | FROM} user`; `toward` is the word before the user.
    pub(super) fn grant(&mut self, toward: &str) -> Result<Statement> {
        self.bump();
        let right = if self.take_word("SUBSCRIBE") { self.topic_right()? } else { self.database_right()? };
        if self.at_word("WITH") {
            return Err(self.unsupported("GRANT .. WITH a condition on tags"));
        }
        self.expect_word(toward)?;
        Ok(Statement::Grant { give: toward == "TO", right, user: self.name(NameKind::User)? })
    }

    /// `ON [TOPIC] [db.]topic`.
    fn topic_right(&mut self) -> Result<Right> {
        self.expect_word("ON")?;
        self.take_word("TOPIC");
        let first = self.name(NameKind::Topic)?;
        let topic = if self.take(TokenKind::Dot) { self.name(NameKind::Topic)? } else { first };
        Ok(Right::Subscribe(topic))
    }

    /// `{ALL [PRIVILEGES] | READ [, WRITE] ..} ON {*.* | db.*}`.
    fn database_right(&mut self) -> Result<Right> {
        let (mut read, mut write) = (false, false);
        loop {
            if let Some(words) = UNSUPPORTED.iter().find(|words| self.at_words(words)) {
                return Err(self.unsupported(format_args!("GRANT {}", words.join(" "))));
            }
            if self.take_word("ALL") {
                self.take_word("PRIVILEGES");
                (read, write) = (true, true);
            } else if self.take_word("WRITE") {
                write = true;
            } else {
                self.expect_word("READ")?;
                read = true;
            }
            if !self.take(TokenKind::Comma) {
                break;
            }
        }
        if !self.take_word("ON") {
            return Err(self.unexpected().hint("say of what: ON db.*, or ON *.* for all databases"));
        }
        self.take_word("DATABASE");
        let name = if self.take(TokenKind::Star) { None } else { Some(self.name(NameKind::Database)?) };
        let whole = name.as_ref().map_or_else(|| "*.*".to_owned(), |name| format!("{}.*", shown(name)));
        if !self.take(TokenKind::Dot) {
            return Err(self
                .unexpected()
                .hint(format!("rights are on all tables of a database: write {whole}")));
        }
        if name.is_some() && self.at_name() {
            let hint = format!("rights are on all tables of a database: write {whole}");
            return Err(self.unsupported("GRANT on a single table").hint(hint));
        }
        self.expect(TokenKind::Star)?;
        Ok(Right::Database { name, read, write })
    }
}
