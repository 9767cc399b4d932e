//! COMPACT and TRIM.

use model::Result;

use super::{NameKind, Parser};
use crate::ast::{Compact, Statement, TimeText};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// `COMPACT DATABASE db`, or `COMPACT [db.]VGROUPS IN (id, ..)`; then `[START WITH t] [END WITH t]`.
    pub(super) fn compact(&mut self) -> Result<Statement> {
        self.bump();
        let (database, vgroups) = if self.take_word("DATABASE") {
            (Some(self.name(NameKind::Database)?), None)
        } else {
            let database = if self.peek_at(1).kind == TokenKind::Dot {
                let name = self.name(NameKind::Database)?;
                self.bump();
                Some(name)
            } else {
                None
            };
            self.expect_word("VGROUPS")?;
            self.expect_word("IN")?;
            self.expect(TokenKind::LeftParen)?;
            let vgroups = self.comma_separated(Self::integer)?;
            self.expect(TokenKind::RightParen)?;
            (database, Some(vgroups))
        };
        let start = if self.take_words(&["START", "WITH"]) { Some(self.time_text()?) } else { None };
        let end = if self.take_words(&["END", "WITH"]) { Some(self.time_text()?) } else { None };
        Ok(Statement::Compact(Compact { database, vgroups, start, end }))
    }

    /// `TRIM DATABASE db [WAL | BWLIMIT n]`; there is nothing to limit, as files are removed and not copied.
    pub(super) fn trim_database(&mut self) -> Result<Statement> {
        self.bump();
        self.expect_word("DATABASE")?;
        let name = self.name(NameKind::Database)?;
        if self.take_word("WAL") {
            return Ok(Statement::TrimDatabaseWal(name));
        }
        if self.take_word("BWLIMIT") {
            self.integer()?;
        }
        Ok(Statement::TrimDatabase(name))
    }

    /// An integer, a string, or TIMESTAMP before a string.
    fn time_text(&mut self) -> Result<TimeText> {
        if self.at(TokenKind::Integer) {
            let token = self.bump();
            return Ok(TimeText { text: self.text_of(token).to_owned(), quoted: false });
        }
        self.take_word("TIMESTAMP");
        Ok(TimeText { text: self.string()?, quoted: true })
    }
}
