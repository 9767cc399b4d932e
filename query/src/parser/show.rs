//! SHOW.

use model::Result;

use super::{NameKind, Parser};
use crate::ast::{Show, ShowTableKind, Statement};
use crate::lexer::TokenKind;

/// What SHOW has in the dialect and not here, by the first words.
const UNSUPPORTED: &[&[&str]] = &[
    &["CREATE", "VIEW"],
    &["CREATE", "VTABLE"],
    &["VIRTUAL"],
    &["VTABLES"],
    &["TABLE", "TAGS"],
    &["TABLE", "DISTRIBUTED"],
    &["DNODES"],
    &["MNODES"],
    &["QNODES"],
    &["SNODES"],
    &["BNODES"],
    &["ANODES"],
    &["XNODES"],
    &["ARBGROUPS"],
    &["CLUSTER"],
    &["CLUSTERS"],
    &["VNODES"],
    &["STREAMS"],
    &["FUNCTIONS"],
    &["INDEXES"],
    &["USERS", "FULL"],
    &["GRANTS"],
    &["LICENCES"],
    &["LOCAL", "VARIABLES"],
    &["DNODE"],
    &["QUERIES"],
    &["CONNECTIONS"],
    &["APPS"],
    &["TRANSACTIONS"],
    &["TRANSACTION"],
    &["VIEWS"],
    &["TSMAS"],
    &["RSMAS"],
    &["TOKENS"],
    &["ROLES"],
    &["ROLE"],
    &["MOUNTS"],
    &["ENCRYPTIONS"],
    &["ENCRYPT_ALGORITHMS"],
    &["ENCRYPT_STATUS"],
    &["SCORES"],
    &["MACHINES"],
    &["DISK_INFO"],
    &["ALIVE"],
];

impl Parser<'_> {
    pub(super) fn show(&mut self) -> Result<Statement> {
        self.bump();
        self.show_what().map(Statement::Show)
    }

    fn show_what(&mut self) -> Result<Show> {
        let user = self.at_words(&["USER", "DATABASES"]);
        let system = self.at_words(&["SYSTEM", "DATABASES"]);
        if user || system {
            self.bump();
        }
        if self.take_word("DATABASES") {
            return Ok(Show::Databases { user, system });
        }
        if self.take_words(&["CLUSTER", "VARIABLES"]) || self.take_word("VARIABLES") {
            return Ok(Show::Variables { like: self.like()? });
        }
        if self.take_words(&["USER", "PRIVILEGES"]) {
            return Ok(Show::UserPrivileges);
        }
        self.refuse_unsupported()?;
        for (words, show) in [
            ("TOPICS", Show::Topics),
            ("CONSUMERS", Show::Consumers),
            ("SUBSCRIPTIONS", Show::Subscriptions),
            ("USERS", Show::Users),
            ("COMPACTS", Show::Compacts),
        ] {
            if self.take_word(words) {
                return Ok(show);
            }
        }
        if self.take_word("COMPACT") {
            return self.integer().map(Show::Compact);
        }
        if self.take_word("CREATE") {
            return self.show_create();
        }
        if self.take_word("TAGS") {
            return self.show_tags();
        }
        let kind = if self.take_word("NORMAL") {
            Some(ShowTableKind::Normal)
        } else if self.take_word("CHILD") {
            Some(ShowTableKind::Child)
        } else {
            None
        };
        let database = if self.at_name() {
            let name = self.name(NameKind::Database)?;
            self.expect(TokenKind::Dot)?;
            Some(name)
        } else {
            None
        };
        if self.take_word("TABLES") {
            return Ok(Show::Tables { kind, database, like: self.like()? });
        }
        if kind.is_none() && self.take_word("STABLES") {
            return Ok(Show::Stables { database, like: self.like()? });
        }
        if kind.is_none() && self.take_word("VGROUPS") {
            return Ok(Show::Vgroups { database });
        }
        self.refuse_unsupported()?;
        Err(self.unexpected())
    }

    fn refuse_unsupported(&self) -> Result<()> {
        match UNSUPPORTED.iter().find(|words| self.at_words(words)) {
            Some(words) => Err(self.unsupported(format_args!("SHOW {}", words.join(" ")))),
            None => Ok(()),
        }
    }

    fn show_create(&mut self) -> Result<Show> {
        if self.take_word("DATABASE") {
            return self.name(NameKind::Database).map(Show::CreateDatabase);
        }
        if self.take_word("TABLE") {
            return self.object_name(NameKind::Table).map(Show::CreateTable);
        }
        if self.take_word("STABLE") {
            return self.object_name(NameKind::Table).map(Show::CreateStable);
        }
        if self.take_word("TOPIC") {
            return self.name(NameKind::Topic).map(Show::CreateTopic);
        }
        Err(self.unexpected())
    }

    /// `TAGS FROM child [FROM db]`.
    fn show_tags(&mut self) -> Result<Show> {
        self.expect_word("FROM")?;
        let mut table = self.object_name(NameKind::Table)?;
        if table.database.is_none() && self.take_word("FROM") {
            table.database = Some(self.name(NameKind::Database)?);
        }
        Ok(Show::Tags(table))
    }

    fn like(&mut self) -> Result<Option<String>> {
        if self.take_word("LIKE") { self.string().map(Some) } else { Ok(None) }
    }
}
