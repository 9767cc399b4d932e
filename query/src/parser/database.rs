//! CREATE DATABASE and ALTER DATABASE.

use model::{Code, DatabaseOptions, Error, Result};

use super::options::{DatabaseOption, OptionPlace};
use super::{NameKind, Parser, is_system_database};
use crate::ast::Statement;
use crate::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn create_database(&mut self) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name(NameKind::Database)?;
        if is_system_database(&name) {
            let text = format!("Cannot create system database: `{name}`");
            return Err(Error::text(Code::InvalidOperation, text));
        }
        let mut options = Box::<DatabaseOptions>::default();
        while let Some(option) = self.database_option(OptionPlace::Create)? {
            apply(&mut options, option);
        }
        if self.at(TokenKind::Word) {
            return Err(self.no_option(OptionPlace::Create));
        }
        options.check_keep()?;
        Ok(Statement::CreateDatabase { if_not_exists, name, options })
    }

    pub(super) fn alter_database(&mut self) -> Result<Statement> {
        let name = self.name(NameKind::Database)?;
        let mut changes = Vec::new();
        let mut any = false;
        while let Some(option) = self.database_option(OptionPlace::Alter)? {
            any = true;
            if let DatabaseOption::Change(change) = option {
                changes.push(change);
            }
        }
        if !any || self.at(TokenKind::Word) {
            return Err(self.no_option(OptionPlace::Alter));
        }
        Ok(Statement::AlterDatabase { name, changes })
    }
}

fn apply(options: &mut DatabaseOptions, option: DatabaseOption) {
    match option {
        DatabaseOption::Change(change) => change.apply(options),
        DatabaseOption::Vgroups(n) => options.vgroups = n,
        DatabaseOption::Precision(precision) => options.precision = precision,
        DatabaseOption::PagesizeKib(n) => options.pagesize_kib = n,
        DatabaseOption::TsdbPagesizeKib(n) => options.tsdb_pagesize_kib = n,
        DatabaseOption::Comp(n) => options.comp = n,
        DatabaseOption::DurationMinutes(n) => options.duration_minutes = n,
        DatabaseOption::Maxrows(n) => options.maxrows = n,
        DatabaseOption::SingleStable(yes) => options.single_stable = yes,
        DatabaseOption::TablePrefix(n) => options.table_prefix = n,
        DatabaseOption::TableSuffix(n) => options.table_suffix = n,
        DatabaseOption::Ignored => {}
    }
}
