//! Which statement it is, and the short ones.

use model::Result;

use super::{NameKind, Parser};
use crate::ast::Statement;
use crate::lexer::TokenKind;

/// Statements of the dialect that Tidemark does not have, by their first words.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (&["CREATE", "OR", "REPLACE", "VIEW"], "CREATE VIEW"),
    (&["CREATE", "VIEW"], "CREATE VIEW"),
    (&["CREATE", "OR", "REPLACE", "FUNCTION"], "CREATE FUNCTION"),
    (&["CREATE", "OR", "REPLACE", "AGGREGATE"], "CREATE FUNCTION"),
    (&["CREATE", "FUNCTION"], "CREATE FUNCTION"),
    (&["CREATE", "AGGREGATE"], "CREATE FUNCTION"),
    (&["CREATE", "STREAM"], "CREATE STREAM"),
    (&["CREATE", "TSMA"], "CREATE TSMA"),
    (&["CREATE", "RECURSIVE", "TSMA"], "CREATE TSMA"),
    (&["CREATE", "RSMA"], "CREATE RSMA"),
    (&["CREATE", "SMA", "INDEX"], "CREATE INDEX"),
    (&["CREATE", "INDEX"], "CREATE INDEX"),
    (&["CREATE", "VTABLE"], "CREATE VTABLE"),
    (&["CREATE", "VIRTUAL"], "CREATE VTABLE"),
    (&["CREATE", "DNODE"], "CREATE DNODE"),
    (&["CREATE", "MNODE"], "CREATE MNODE"),
    (&["CREATE", "QNODE"], "CREATE QNODE"),
    (&["CREATE", "SNODE"], "CREATE SNODE"),
    (&["CREATE", "BNODE"], "CREATE BNODE"),
    (&["CREATE", "ANODE"], "CREATE ANODE"),
    (&["CREATE", "XNODE"], "CREATE XNODE"),
    (&["CREATE", "MOUNT"], "CREATE MOUNT"),
    (&["CREATE", "ROLE"], "CREATE ROLE"),
    (&["CREATE", "TOKEN"], "CREATE TOKEN"),
    (&["CREATE", "TOTP_SECRET"], "CREATE TOTP_SECRET"),
    (&["CREATE", "ENCRYPT_KEY"], "CREATE ENCRYPT_KEY"),
    (&["DROP", "VIEW"], "DROP VIEW"),
    (&["DROP", "FUNCTION"], "DROP FUNCTION"),
    (&["DROP", "STREAM"], "DROP STREAM"),
    (&["DROP", "TSMA"], "DROP TSMA"),
    (&["DROP", "RSMA"], "DROP RSMA"),
    (&["DROP", "INDEX"], "DROP INDEX"),
    (&["DROP", "VTABLE"], "DROP VTABLE"),
    (&["DROP", "DNODE"], "DROP DNODE"),
    (&["DROP", "MNODE"], "DROP MNODE"),
    (&["DROP", "QNODE"], "DROP QNODE"),
    (&["DROP", "SNODE"], "DROP SNODE"),
    (&["DROP", "BNODE"], "DROP BNODE"),
    (&["DROP", "ANODE"], "DROP ANODE"),
    (&["DROP", "XNODE"], "DROP XNODE"),
    (&["DROP", "MOUNT"], "DROP MOUNT"),
    (&["DROP", "ROLE"], "DROP ROLE"),
    (&["DROP", "TOKEN"], "DROP TOKEN"),
    (&["DROP", "TOTP_SECRET"], "DROP TOTP_SECRET"),
    (&["ALTER", "LOCAL"], "ALTER LOCAL"),
    (&["ALTER", "CLUSTER"], "ALTER CLUSTER"),
    (&["ALTER", "DNODE"], "ALTER DNODE"),
    (&["ALTER", "VGROUP"], "ALTER VGROUP"),
    (&["ALTER", "TOKEN"], "ALTER TOKEN"),
    (&["ALTER", "VTABLE"], "ALTER VTABLE"),
    (&["ALTER", "ROLE"], "ALTER ROLE"),
    (&["ROLLUP", "DATABASE"], "ROLLUP DATABASE"),
    (&["SCAN", "DATABASE"], "SCAN DATABASE"),
    (&["S3MIGRATE"], "S3MIGRATE"),
    (&["SSMIGRATE"], "SSMIGRATE"),
    (&["KILL", "CONNECTION"], "KILL CONNECTION"),
    (&["KILL", "QUERY"], "KILL QUERY"),
    (&["KILL", "TRANSACTION"], "KILL TRANSACTION"),
    (&["BALANCE", "VGROUP"], "BALANCE VGROUP"),
    (&["REDISTRIBUTE", "VGROUP"], "REDISTRIBUTE VGROUP"),
    (&["SPLIT", "VGROUP"], "SPLIT VGROUP"),
    (&["MERGE", "VGROUP"], "MERGE VGROUP"),
    (&["ASSIGN", "LEADER"], "ASSIGN LEADER"),
    (&["RESTORE"], "RESTORE"),
    (&["PAUSE", "STREAM"], "PAUSE STREAM"),
    (&["RESUME", "STREAM"], "RESUME STREAM"),
    (&["START", "STREAM"], "START STREAM"),
    (&["STOP", "STREAM"], "STOP STREAM"),
    (&["RECALCULATE"], "RECALCULATE STREAM"),
    (&["LOCK", "ROLE"], "LOCK ROLE"),
    (&["UNLOCK", "ROLE"], "UNLOCK ROLE"),
];

impl Parser<'_> {
    /// One statement.
    pub(super) fn statement(&mut self) -> Result<Statement> {
        if self.at_word("SELECT") || self.at(TokenKind::LeftParen) {
            return Ok(Statement::Query(Box::new(self.query()?)));
        }
        let first = self.peek();
        if let Some((_, construct)) = UNSUPPORTED.iter().find(|(words, _)| self.at_words(words)) {
            return Err(self.unsupported(construct));
        }
        if first.kind != TokenKind::Word {
            return Err(self.unexpected());
        }
        match self.text_of(first).to_ascii_uppercase().as_str() {
            "CREATE" => self.create(),
            "DROP" => self.drop_statement(),
            "ALTER" => self.alter(),
            "SHOW" => self.show(),
            "USE" => {
                self.bump();
                self.name(NameKind::Database).map(Statement::Use)
            }
            "FLUSH" => {
                self.bump();
                self.expect_word("DATABASE")?;
                self.name(NameKind::Database).map(Statement::FlushDatabase)
            }
            "COMPACT" => self.compact(),
            "TRIM" => self.trim_database(),
            "RELOAD" => self.reload_topic(),
            "KILL" => {
                self.bump();
                self.expect_word("COMPACT")?;
                self.integer().map(Statement::KillCompact)
            }
            "DESCRIBE" | "DESC" => {
                self.bump();
                self.object_name(NameKind::Table).map(Statement::Describe)
            }
            "DELETE" => self.delete(),
            "EXPLAIN" => self.explain(),
            "GRANT" => self.grant("TO"),
            "REVOKE" => self.grant("FROM"),
            "RESET" => {
                self.bump();
                self.expect_word("QUERY")?;
                self.expect_word("CACHE").map(|()| Statement::ResetQueryCache)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn create(&mut self) -> Result<Statement> {
        self.bump();
        if self.take_word("DATABASE") {
            return self.create_database();
        }
        if self.take_word("STABLE") {
            return self.create_stable();
        }
        if self.take_word("TABLE") {
            return self.create_table();
        }
        if self.take_word("TOPIC") {
            return self.create_topic();
        }
        if self.take_word("USER") {
            return self.create_user();
        }
        Err(self.unexpected())
    }

    fn drop_statement(&mut self) -> Result<Statement> {
        self.bump();
        if self.take_word("DATABASE") {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropDatabase { if_exists, name: self.name(NameKind::Database)? });
        }
        if self.take_word("STABLE") {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropStable { if_exists, name: self.object_name(NameKind::Table)? });
        }
        if self.take_word("TABLE") {
            return self.drop_tables();
        }
        if self.take_word("TOPIC") {
            let if_exists = self.if_exists()?;
            let force = self.take_word("FORCE");
            return Ok(Statement::DropTopic { if_exists, force, name: self.name(NameKind::Topic)? });
        }
        if self.take_words(&["CONSUMER", "GROUP"]) {
            return self.drop_consumer_group();
        }
        if self.take_word("USER") {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropUser { if_exists, name: self.name(NameKind::User)? });
        }
        Err(self.unexpected())
    }

    fn alter(&mut self) -> Result<Statement> {
        self.bump();
        if self.take_word("DATABASE") {
            return self.alter_database();
        }
        if self.take_word("STABLE") {
            return self.alter_table(true);
        }
        if self.take_word("TABLE") {
            return self.alter_table(false);
        }
        if self.take_word("USER") {
            return self.alter_user();
        }
        if self.take_words(&["ALL", "DNODES"]) {
            return self.alter_config();
        }
        Err(self.unexpected())
    }

    /// `'name' ['value']`, or both in one string.
    fn alter_config(&mut self) -> Result<Statement> {
        let first = self.string()?;
        if self.at(TokenKind::Text) {
            return Ok(Statement::AlterConfig { name: first, value: self.string()? });
        }
        let (name, value) = first.split_once(' ').unwrap_or((&first, ""));
        Ok(Statement::AlterConfig { name: name.into(), value: value.trim().into() })
    }

    fn delete(&mut self) -> Result<Statement> {
        self.bump();
        self.expect_word("FROM")?;
        let table = self.object_name(NameKind::Table)?;
        let filter = if self.take_word("WHERE") { Some(self.expr()?) } else { None };
        Ok(Statement::Delete { table, filter })
    }

    fn explain(&mut self) -> Result<Statement> {
        self.bump();
        let analyze = self.take_word("ANALYZE");
        if self.take_word("VERBOSE") && !self.take_word("TRUE") {
            self.expect_word("FALSE")?;
        }
        if self.take_word("RATIO") && !self.take(TokenKind::Float) {
            self.expect(TokenKind::Integer)?;
        }
        Ok(Statement::Explain { analyze, query: Box::new(self.query()?) })
    }
}
