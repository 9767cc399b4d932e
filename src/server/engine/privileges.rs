//! Who may do what: the checks before a statement touches a database, GRANT and REVOKE, and how rights are shown.

use mnode::{Access, Grant, User};
use model::{Code, Error, Result};
use query::ast::Right;

use super::Engine;
use super::system::{Cell, Kind, SystemTable};
use crate::server::sessions::Session;

impl Engine {
    /// Refuses databases of which the session may not know, in the words for those that are not there.
    pub(super) fn require_seen(&self, session: &Session, database: &str) -> Result<()> {
        self.mnode.access(&session.user, database).map(|_| ())
    }

    pub(super) fn may_read(&self, session: &Session, database: &str) -> Result<()> {
        let access = self.mnode.access(&session.user, database)?;
        access.read.then_some(()).ok_or_else(|| needs("READ", database))
    }

    pub(super) fn may_write(&self, session: &Session, database: &str) -> Result<()> {
        let access = self.mnode.access(&session.user, database)?;
        access.write.then_some(()).ok_or_else(|| needs("WRITE", database))
    }

    /// For what tables look like: who fills them has to know, too.
    pub(super) fn may_read_or_write(&self, session: &Session, database: &str) -> Result<()> {
        let access = self.mnode.access(&session.user, database)?;
        (access.read || access.write).then_some(()).ok_or_else(|| needs("READ or WRITE", database))
    }

    /// GRANT, or REVOKE where not `give`.
    pub(super) async fn grant(&self, session: &Session, give: bool, right: Right, user: &str) -> Result<()> {
        let grant = match right {
            Right::Subscribe(topic) => Grant::Subscribe(topic),
            Right::Database { name, read, write } => Grant::Database { name, access: Access { read, write } },
        };
        if give {
            self.mnode.grant(&session.user, user, grant).await
        } else {
            self.mnode.revoke(&session.user, user, grant).await
        }
    }

    /// The users that the session may know of: super users know all, others themselves.
    pub(super) fn users_seen(&self, session: &Session) -> Vec<User> {
        let mut users = self.mnode.users();
        let is_own = |user: &User| *user.name == *session.user;
        if !users.iter().any(|user| user.super_user && is_own(user)) {
            users.retain(is_own);
        }
        users
    }

    /// Who may do what; only root sees the rights of others.
    pub(super) fn ins_user_privileges(&self, session: &Session) -> SystemTable {
        let mut table = SystemTable::new(&[
            ("user_name", Kind::Text),
            ("privilege", Kind::Text),
            ("db_name", Kind::Text),
            ("table_name", Kind::Text),
            ("condition", Kind::Text),
            ("notes", Kind::Text),
        ]);
        let catalog = self.mnode.catalog();
        for user in &self.users_seen(session) {
            let mut row = |privilege: &str, object: &str| {
                let cells = [user.name.as_str(), privilege, object, "", "", ""];
                table.push(cells.map(Cell::from));
            };
            if user.super_user {
                row("all", "all");
            }
            let names = user.databases.iter().filter_map(|(id, access)| {
                let found = catalog.databases().find(|database| database.info.id == *id)?;
                Some((found.info.name.as_str(), *access))
            });
            for (name, access) in names.chain([("all", user.everywhere)]) {
                for (granted, privilege) in [(access.read, "read"), (access.write, "write")] {
                    if granted {
                        row(privilege, name);
                    }
                }
            }
            for topic in user.topics.iter().filter_map(|id| catalog.topic_by_id(*id)) {
                row("subscribe", &topic.name);
            }
        }
        table
    }
}

/// What a user who may know of the database lacks.
fn needs(right: &str, database: &str) -> Error {
    Error::with(Code::PermissionDenied, database).hint(format!("ask root for {right} on {database}.*"))
}
