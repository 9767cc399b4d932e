//! Users and what they may do.

use std::collections::{BTreeMap, BTreeSet};

use model::{Code, DatabaseId, Error, Result, TopicId};
use serde::{Deserialize, Serialize};

use super::{Command, Event, MnodeState};
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
                // Everybody may change their own password, and only that.
                let own_password = by == name && enable.is_none() && sysinfo.is_none() && createdb.is_none();
                if !(own_password && hash.is_some()) {
                    self.require_super(by)?;
                }
                let user = self.user(name)?;
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
            Grant::Subscribe(topic) => self.require_owner(by, &self.topic_seen(by, topic)?.creator)?,
            Grant::Database { name: Some(name), .. } => {
                self.require_owner(by, &self.database_seen(by, name)?.creator)?;
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
                // Or a later user of that name would own it.
                self.catalog_mut().hand_over(name, ROOT);
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
