//! Users: made, changed, authenticated.

use model::{Code, Error, Result};

use super::password::{DEFAULT_PASSWORD, check_password};
use super::{DdlOutcome, Inner, Mnode};
use crate::state::settings::STRONG_PASSWORD;
use crate::state::{Command, ROOT, User};

/// Users.
impl Mnode {
    /// CREATE USER.
    ///
    /// # Errors
    /// 0x2611, 0x2610, 0x2648, 0x0353 password; 0x0207, 0x2610 name; 0x0350 exists; 0x0303.
    pub async fn create_user(
        &self,
        by: &str,
        name: &str,
        password: &str,
        sysinfo: bool,
        createdb: bool,
    ) -> Result<()> {
        let make = |hash| Command::CreateUser { by: by.into(), name: name.into(), hash, sysinfo, createdb };
        // Before the slow hash; checked again when it is applied.
        self.inner.read(|state| state.check(&make(String::new())))?;
        let hash = self.inner.new_hash(password).await?;
        self.inner.submit(&make(hash)).await.map(|_| ())
    }

    /// ALTER USER: each part that is given. Everybody may change their own password.
    ///
    /// # Errors
    /// 0x0351 unknown; those of a password; 0x0200 restricting root; 0x0303.
    pub async fn alter_user(
        &self,
        by: &str,
        name: &str,
        password: Option<&str>,
        enable: Option<bool>,
        sysinfo: Option<bool>,
        createdb: Option<bool>,
    ) -> Result<()> {
        let make =
            |hash| Command::AlterUser { by: by.into(), name: name.into(), hash, enable, sysinfo, createdb };
        self.inner.read(|state| state.check(&make(password.map(str::to_owned))))?;
        let hash = match password {
            Some(password) => Some(self.inner.new_hash(password).await?),
            None => None,
        };
        self.inner.submit(&make(hash)).await.map(|_| ())
    }

    /// DROP USER. What the user owned is root's.
    ///
    /// # Errors
    /// 0x0351 unknown; 0x0200 root; 0x0303.
    pub async fn drop_user(&self, by: &str, name: &str, if_exists: bool) -> Result<DdlOutcome> {
        let outcome =
            self.inner.submit(&Command::DropUser { by: by.into(), name: name.into(), if_exists }).await?;
        Ok(if outcome.unchanged { DdlOutcome::Unchanged } else { DdlOutcome::Done })
    }

    /// Checks a login. Slow on purpose (tens of milliseconds, off the async threads): keep the session, and end it when
    /// [`changes`](Self::changes) shows the user gone, disabled or with another hash.
    ///
    /// # Errors
    /// 0x0357 unknown user or wrong password, which an answer does not tell apart; 0x0315 disabled.
    pub async fn authenticate(&self, name: &str, password: &str) -> Result<User> {
        let user = self.inner.read(|state| state.user(name).cloned().ok());
        let verified = self.inner.hasher.verify(password, user.as_ref().map(|u| u.hash.clone())).await?;
        let user = user.filter(|_| verified).ok_or_else(|| Error::of(Code::AuthFailure))?;
        if user.enable { Ok(user) } else { Err(Error::of(Code::UserDisabled)) }
    }

    /// Whether `root` still has [`DEFAULT_PASSWORD`]: a listener beyond loopback is refused then. Slow like a login.
    ///
    /// # Errors
    /// Internal ones only.
    pub async fn root_has_default_password(&self) -> Result<bool> {
        let hash = self.inner.read(|state| state.user(ROOT).ok().map(|u| u.hash.clone()));
        self.inner.hasher.verify(DEFAULT_PASSWORD, hash).await
    }

    /// The user called `name` as it is now.
    ///
    /// # Errors
    /// 0x0351
    pub fn user(&self, name: &str) -> Result<User> {
        self.inner.read(|state| state.user(name).cloned())
    }

    /// Every user, by name.
    #[must_use]
    pub fn users(&self) -> Vec<User> {
        self.inner.read(|state| state.users().cloned().collect())
    }
}

impl Inner {
    async fn new_hash(&self, password: &str) -> Result<String> {
        let strong = self.read(|state| state.setting(STRONG_PASSWORD)) != 0;
        check_password(password, strong)?;
        self.hasher.hash(password).await
    }
}
