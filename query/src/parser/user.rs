//! CREATE USER and ALTER USER.

use model::{Code, Error, Result};

use super::{NameKind, Parser};
use crate::ast::Statement;
use crate::lexer::TokenKind;

/// Options of a user with the value that changes nothing.
const DEFAULTS: &[(&str, u64)] =
    &[("SYSINFO", 1), ("CREATEDB", 0), ("IS_IMPORT", 0), ("ENABLE", 1), ("CHANGEPASS", 2)];

const SPECIAL: &str = "!@#$%^&*()-_+=[]{}:;><?|~,.";

impl Parser<'_> {
    pub(super) fn create_user(&mut self) -> Result<Statement> {
        let name = self.name(NameKind::User)?;
        self.expect_word("PASS")?;
        let password = self.password()?;
        while let Some((option, default)) = self.user_option() {
            let token = self.bump();
            if self.integer()? != default {
                return Err(self.unsupported_at(format_args!("CREATE USER .. {option}"), token));
            }
        }
        if self.at_word("HOST") {
            return Err(self.unsupported("CREATE USER .. HOST"));
        }
        Ok(Statement::CreateUser { name, password })
    }

    pub(super) fn alter_user(&mut self) -> Result<Statement> {
        let name = self.name(NameKind::User)?;
        if let Some((option, _)) = self.user_option() {
            return Err(self.unsupported(format_args!("ALTER USER .. {option}")));
        }
        if self.at_words(&["ADD", "HOST"]) || self.at_words(&["DROP", "HOST"]) {
            return Err(self.unsupported("ALTER USER .. HOST"));
        }
        self.expect_word("PASS")?;
        Ok(Statement::AlterUserPassword { name, password: self.password()? })
    }

    fn user_option(&self) -> Option<(&'static str, u64)> {
        DEFAULTS.iter().copied().find(|(word, _)| self.at_word(word))
    }

    fn password(&mut self) -> Result<String> {
        if !self.at(TokenKind::Text) {
            return Err(self.unexpected());
        }
        let password = self.string()?;
        check_password(&password).map(|()| password)
    }
}

/// The rules on a new password: 8 to 255 characters, three of upper, lower, digit and special.
pub fn check_password(password: &str) -> Result<()> {
    match password.chars().count() {
        0..8 => return Err(Error::of(Code::PasswordTooShort).hint("at least 8 characters")),
        8..=255 => {}
        _ => return Err(Error::of(Code::NameOrPasswordTooLong).hint("at most 255 characters")),
    }
    let has = |class: &dyn Fn(char) -> bool| usize::from(password.chars().any(class));
    let special = |c: char| SPECIAL.contains(c);
    if password.chars().any(|c| !c.is_ascii_alphanumeric() && !special(c)) {
        let hint = format!("letters, digits and {SPECIAL} are allowed");
        return Err(Error::of(Code::InvalidPassword).hint(hint));
    }
    let classes = has(&|c| c.is_ascii_uppercase())
        + has(&|c| c.is_ascii_lowercase())
        + has(&|c| c.is_ascii_digit())
        + has(&special);
    if classes < 3 { Err(Error::of(Code::InvalidPasswordFormat)) } else { Ok(()) }
}
