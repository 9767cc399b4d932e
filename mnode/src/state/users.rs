//! Users and what they may do.

use std::collections::{BTreeMap, BTreeSet};

use model::{Code, DatabaseId, Error, Result, TopicId};
use serde::{Deserialize, Serialize};

use super::{Command, Database, Event, MnodeState};
use crate::shards::TopicInfo;
use crate::spec::{Access, Grant};

/// The built-in super user.
pub const ROOT: &str = "root";
/// Longest user name in bytes.
const NAME_BYTES_MAX: usize = 23;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Name.
    pub name: String,
    /// Password hash in PHC form, with its salt and costs.
    pub hash: String,
    /// May do everything.
    pub super_user: bool,
    /// May log in.
    pub enable: bool,
    /// May see the system's own tables.
    pub sysinfo: bool,
    /// May create databases.
    pub createdb: bool,
    /// Nanoseconds since the epoch.
    pub create_time_ns: i64,
    /// Topics it was granted SUBSCRIBE on.
    pub topics: BTreeSet<TopicId>,
    /// Databases it was granted access to.
    pub databases: BTreeMap<DatabaseId, Access>,
    /// Access to every database.
    pub everywhere: Access,
}

impl User {
    fn new(name: &str, hash: &str, time_ns: i64) -> Self {
        Self {
            name: name.to_owned(),
            hash: hash.to_owned(),
            super_user: false,
            enable: true,
            sysinfo: true,
            createdb: false,
            create_time_ns: time_ns,
            topics: BTreeSet::new(),
            databases: BTreeMap::new(),
            everywhere: Access::default(),
        }
    }
}

impl MnodeState {
    /// Every user, by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values()
    }

    /// The user called `name`.
    ///
    /// # Errors
    /// 0x0351
    pub fn user(&self, name: &str) -> Result<&User> {
        self.users.get(name).ok_or_else(|| Error::with(Code::UserNotExist, name))
    }

    /// What `by` may do with a database: everything as super user or creator, else what was granted.
    #[must_use]
    pub fn access(&self, by: &str, database: &Database) -> Access {
        let Some(user) = self.users.get(by) else { return Access::default() };
        if user.super_user || database.creator == by {
            return Access { read: true, write: true };
        }
        let granted = user.databases.get(&database.info.id).copied().unwrap_or_default();
        Access { read: granted.read || user.everywhere.read, write: granted.write || user.everywhere.write }
    }

    /// Whether `by` may subscribe to a topic: super user, its creator, or granted. Rights on the database play no part.
    #[must_use]
    pub fn may_subscribe(&self, by: &str, topic: &TopicInfo) -> bool {
        self.users
            .get(by)
            .is_some_and(|u| u.super_user || topic.creator == by || u.topics.contains(&topic.id))
    }

    pub(super) fn require_super(&self, by: &str) -> Result<()> {
        let allowed = self.users.get(by).is_some_and(|u| u.super_user);
        if allowed { Ok(()) } else { Err(Error::of(Code::NoPrivilege)) }
    }

    pub(super) fn require_createdb(&self, by: &str) -> Result<()> {
        let allowed = self.users.get(by).is_some_and(|u| u.super_user || u.createdb);
        if allowed { Ok(()) } else { Err(Error::of(Code::NoPrivilege)) }
    }

    pub(super) fn require_access(&self, by: &str, database: &Database, need: Access) -> Result<()> {
        let has = self.access(by, database);
        if (need.read && !has.read) || (need.write && !has.write) {
            return Err(Error::of(Code::NoPrivilege));
        }
        Ok(())
    }

    /// Super user or creator.
    pub(super) fn require_owner(&self, by: &str, creator: &str) -> Result<()> {
        if by == creator && self.users.contains_key(by) { Ok(()) } else { self.require_super(by) }
    }

    pub(super) fn check_user(&self, command: &Command) -> Result<()> {
        match command {
            Command::CreateUser { by, name, .. } => {
                self.require_super(by)?;
                if name.is_empty() {
                    return Err(Error::of(Code::InvalidUserName));
                }
                if name.len() > NAME_BYTES_MAX {
                    return Err(Error::with(Code::NameOrPasswordTooLong, name));
                }
                if self.users.contains_key(name) {
                    return Err(Error::with(Code::UserExists, name));
                }
                Ok(())
            }
            Command::AlterUser { by, name, hash, enable, sysinfo, createdb } => {
                let user = self.user(name)?;
                // Everybody may change their own password, and only that.
                let own_password = by == name && enable.is_none() && sysinfo.is_none() && createdb.is_none();
                if !(own_password && hash.is_some()) {
                    self.require_super(by)?;
                }
                if user.super_user && (enable == &Some(false) || sysinfo == &Some(false)) {
                    return Err(Error::text(Code::InvalidOperation, "root cannot be restricted"));
                }
                Ok(())
            }
            Command::DropUser { by, name, if_exists } => {
                self.require_super(by)?;
                if name == ROOT {
                    return Err(Error::text(Code::InvalidOperation, "root cannot be dropped"));
                }
                if *if_exists { Ok(()) } else { self.user(name).map(|_| ()) }
            }
            Command::Grant { by, user, grant } | Command::Revoke { by, user, grant } => {
                self.check_grant(by, user, grant)
            }
            _ => Ok(()),
        }
    }

    fn check_grant(&self, by: &str, user: &str, grant: &Grant) -> Result<()> {
        match grant {
            Grant::Subscribe(topic) => self.require_owner(by, &self.catalog.topic(topic)?.creator)?,
            Grant::Database { name: Some(name), .. } => {
                self.require_owner(by, &self.catalog.database(name)?.creator)?;
            }
            Grant::Database { name: None, .. } => self.require_super(by)?,
        }
        self.user(user).map(|_| ())
    }

    pub(super) fn apply_user(&mut self, command: &Command, time_ns: i64) -> Vec<Event> {
        match command {
            Command::Bootstrap { root_hash } if self.users.is_empty() => {
                let mut root = User::new(ROOT, root_hash, time_ns);
                root.super_user = true;
                root.createdb = true;
                self.users.insert(ROOT.to_owned(), root);
            }
            Command::CreateUser { name, hash, sysinfo, createdb, .. } => {
                let mut user = User::new(name, hash, time_ns);
                user.sysinfo = *sysinfo;
                user.createdb = *createdb;
                self.users.insert(name.clone(), user);
            }
            Command::AlterUser { name, hash, enable, sysinfo, createdb, .. } => {
                let Some(user) = self.users.get_mut(name) else { return Vec::new() };
                if let Some(hash) = hash {
                    user.hash.clone_from(hash);
                }
                user.enable = enable.unwrap_or(user.enable);
                user.sysinfo = sysinfo.unwrap_or(user.sysinfo);
                user.createdb = createdb.unwrap_or(user.createdb);
            }
            Command::DropUser { name, .. } => {
                if self.users.remove(name).is_none() {
                    return vec![Event::Unchanged];
                }
            }
            Command::Grant { user, grant, .. } => self.edit_grant(user, grant, true),
            Command::Revoke { user, grant, .. } => self.edit_grant(user, grant, false),
            _ => return Vec::new(),
        }
        vec![Event::Users]
    }

    fn edit_grant(&mut self, user: &str, grant: &Grant, give: bool) {
        let catalog = self.catalog.clone();
        let Some(user) = self.users.get_mut(user) else { return };
        match grant {
            Grant::Subscribe(topic) => {
                let Ok(topic) = catalog.topic(topic) else { return };
                if give {
                    user.topics.insert(topic.id);
                } else {
                    user.topics.remove(&topic.id);
                }
            }
            Grant::Database { name, access } => {
                let held = match name {
                    None => &mut user.everywhere,
                    Some(name) => {
                        let Ok(database) = catalog.database(name) else { return };
                        user.databases.entry(database.info.id).or_default()
                    }
                };
                held.read = if access.read { give } else { held.read };
                held.write = if access.write { give } else { held.write };
                user.databases.retain(|_, a| a.read || a.write);
            }
        }
    }

    /// Rights on what is gone are forgotten; ids are not used again, so this only keeps the state small.
    pub(super) fn forget_rights(&mut self, topic: Option<TopicId>, database: Option<DatabaseId>) {
        for user in self.users.values_mut() {
            if let Some(topic) = topic {
                user.topics.remove(&topic);
            }
            if let Some(database) = database {
                user.databases.remove(&database);
            }
        }
    }
}
