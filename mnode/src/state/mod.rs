//! The replicated state and its one way to change: [`MnodeState::apply`]. No clock, no chance, no disk, and nothing but
//! ordered maps: the same commands give the same state on every node and at every replay.

mod alter;
mod catalog;
mod command;
mod consumer;
mod databases;
mod group;
mod intent;
mod rights;
pub mod settings;
mod snapshot;
mod stables;
mod subscribe;
mod switch;
#[cfg(test)]
mod tests;
mod topics;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{ConsumerId, Error, Result, Version};
use serde::{Deserialize, Serialize};

pub use catalog::{Catalog, Database};
pub use command::{Command, Rebalance};
pub use consumer::{Consumer, ConsumerState};
pub use group::{Group, GroupKey, Owner, Pending, Place, ReportedOffset, Settled};
pub use intent::{Intent, IntentKind};
pub(crate) use snapshot::Snapshot;
pub use subscribe::GROUPS_MAX;
pub use users::{ROOT, User};

/// What applying a command brought about; the shell acts on it.
#[derive(Clone, Debug)]
pub enum Event {
    /// The command no longer fits the state: nothing was changed.
    Refused(Error),
    /// Nothing had to be changed: IF NOT EXISTS, IF EXISTS, unsubscribe of an unknown consumer.
    Unchanged,
    /// The catalogue is another one.
    Catalog,
    /// Users or their rights changed.
    Users,
    /// Settings changed.
    Settings,
    /// A statement for the shards was logged, or turned to be taken back.
    Intent(u64),
    /// A statement for the shards came to its end.
    IntentDone {
        /// Which.
        id: u64,
        /// Whether it was taken back.
        undone: bool,
    },
    /// A subscribe request was accepted: the consumer is alive.
    Subscribed(ConsumerId),
    /// Look whether groups need a rebalance.
    Membership,
    /// A group has a pending assignment to be told to the shards.
    Pending(GroupKey),
    /// These have a new assignment, or are about to lose a part of theirs.
    Assigned(BTreeSet<ConsumerId>),
    /// These are no longer known.
    Gone(BTreeSet<ConsumerId>),
    /// These are being removed by force, with what each is told of it. Their [`Gone`](Self::Gone) follows.
    Dropped(BTreeMap<ConsumerId, Farewell>),
}

/// What a consumer that was removed is told.
#[derive(Clone, Debug)]
pub struct Farewell {
    /// Whose it was: nobody else is told.
    pub user: String,
    /// 0x03E6 with its cause.
    pub error: Error,
}

/// The next number of each kind. A number that was given out is not given again, whatever becomes of its bearer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Counters {
    database: u32,
    vgroup: u32,
    stable: u64,
    topic: u64,
    intent: u64,
}

/// Everything the metadata group agrees on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MnodeState {
    applied: Version,
    counters: Counters,
    settings: BTreeMap<String, i64>,
    users: BTreeMap<String, User>,
    catalog: Arc<Catalog>,
    intents: BTreeMap<u64, Intent>,
    groups: BTreeMap<GroupKey, Group>,
    consumers: BTreeMap<ConsumerId, Consumer>,
}

impl Default for MnodeState {
    fn default() -> Self {
        Self {
            applied: Version(0),
            // Vgroup 1 is the metadata group itself.
            counters: Counters { database: 1, vgroup: 2, stable: 1, topic: 1, intent: 1 },
            settings: BTreeMap::new(),
            users: BTreeMap::new(),
            catalog: Arc::default(),
            intents: BTreeMap::new(),
            groups: BTreeMap::new(),
            consumers: BTreeMap::new(),
        }
    }
}

impl MnodeState {
    /// The last command applied.
    #[must_use]
    pub const fn applied(&self) -> Version {
        self.applied
    }

    /// Databases, super tables and topics as they are now.
    #[must_use]
    pub const fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn catalog_mut(&mut self) -> &mut Catalog {
        Arc::make_mut(&mut self.catalog)
    }

    /// Whether `command` would be carried out, its checks in the order in which users see their errors.
    ///
    /// # Errors
    /// The code of the first check that fails.
    pub fn check(&self, command: &Command) -> Result<()> {
        match command {
            Command::Bootstrap { .. } | Command::Expire { .. } | Command::Delete { .. } => Ok(()),
            Command::Set { by, name, value } => self.check_set(by, name, *value),
            Command::CreateUser { .. }
            | Command::AlterUser { .. }
            | Command::DropUser { .. }
            | Command::Grant { .. }
            | Command::Revoke { .. } => self.check_user(command),
            Command::CreateDatabase { by, spec } => self.check_create_database(by, spec),
            Command::AlterDatabase { by, name, changes } => self.check_alter_database(by, name, changes),
            Command::DropDatabase { by, name, if_exists } => self.check_drop_database(by, name, *if_exists),
            Command::CreateStable { by, spec } => self.check_create_stable(by, spec),
            Command::AlterStable { by, database, name, change } => {
                self.check_alter_stable(by, database, name, change)
            }
            Command::DropStable { by, database, name, if_exists } => {
                self.check_drop_stable(by, database, name, *if_exists)
            }
            Command::CreateTopic { by, spec } => self.check_create_topic(by, spec),
            Command::ReloadTopic { by, spec } => self.check_reload_topic(by, spec),
            Command::DropTopic { by, spec } => self.check_drop_topic(by, spec),
            Command::DropGroup { by, spec } => self.check_drop_group(by, spec),
            Command::FinishIntent { id } => self.check_intent(*id, false),
            Command::UndoIntent { id } => self.check_intent(*id, true),
            Command::Subscribe { consumer, topics } => self.check_subscribe(consumer, topics),
            Command::Rebalance(rebalance) => self.check_rebalance(rebalance),
            Command::Activate { key, epoch, .. } => self.check_activate(key, *epoch),
            Command::Replicated(command) => self.check(command),
        }
    }

    /// Carries out a command that the log agreed on. Total: what no longer fits is refused and changes nothing.
    pub fn apply(&mut self, version: Version, command: &Command, time_ns: i64) -> Vec<Event> {
        self.applied = version;
        // The proposer has checked too, but against an older state: several proposals may be in flight.
        if let Err(error) = self.check(command) {
            return vec![Event::Refused(error)];
        }
        let (command, origin) = command.origin();
        match command {
            Command::Bootstrap { .. }
            | Command::CreateUser { .. }
            | Command::AlterUser { .. }
            | Command::DropUser { .. }
            | Command::Grant { .. }
            | Command::Revoke { .. } => self.apply_user(command, time_ns),
            Command::Set { name, value, .. } => {
                self.apply_set(name, *value);
                vec![Event::Settings]
            }
            Command::CreateDatabase { by, spec } => self.apply_create_database(by, spec, time_ns),
            Command::AlterDatabase { name, changes, .. } => self.apply_alter_database(name, changes, time_ns),
            Command::DropDatabase { by, name, .. } => self.apply_drop_database(by, name, time_ns),
            Command::CreateStable { spec, .. } => self.apply_create_stable(spec, origin, time_ns),
            Command::AlterStable { database, name, change, .. } => {
                self.apply_alter_stable(database, name, change, origin, time_ns)
            }
            Command::DropStable { database, name, .. } => {
                self.apply_drop_stable(database, name, origin, time_ns)
            }
            Command::CreateTopic { by, spec } => self.apply_create_topic(by, spec, time_ns),
            Command::ReloadTopic { by, spec } => self.apply_reload_topic(by, spec, time_ns),
            Command::DropTopic { by, spec } => self.apply_drop_topic(by, spec, time_ns),
            Command::DropGroup { by, spec } => self.apply_drop_group(by, spec, time_ns),
            Command::FinishIntent { id } => self.finish_intent(*id),
            Command::UndoIntent { id } => self.undo_intent(*id),
            Command::Subscribe { consumer, topics } => self.apply_subscribe(consumer, topics, time_ns),
            Command::Expire { consumers } => self.apply_expire(consumers),
            Command::Delete { consumers } => self.apply_delete(consumers),
            Command::Rebalance(rebalance) => self.apply_rebalance(rebalance),
            Command::Activate { key, settled, .. } => self.apply_activate(key, settled, time_ns),
            // The command itself is inside, and was taken out above.
            Command::Replicated(_) => Vec::new(),
        }
    }
}

impl MnodeState {
    /// A vgroup more, as a split would make. No statement does that yet; rebalancing has to bear it all the same, and
    /// simulations see to it.
    ///
    /// # Errors
    /// 0x0388
    #[doc(hidden)]
    pub fn add_vgroup(&mut self, database: &str) -> Result<model::VgroupId> {
        let id = self.catalog.database(database)?.info.id;
        let vgroup = model::VgroupId(self.counters.vgroup);
        self.counters.vgroup += 1;
        self.catalog_mut().edit_database(id, |d| Arc::make_mut(&mut d.info).vgroups.push(vgroup));
        Ok(vgroup)
    }
}

#[cfg(test)]
impl MnodeState {
    pub(crate) fn remove_vgroup_for_test(&mut self, database: &str, vgroup: model::VgroupId) {
        let id = self.catalog.database(database).unwrap().info.id;
        self.catalog_mut().edit_database(id, |d| Arc::make_mut(&mut d.info).vgroups.retain(|v| *v != vgroup));
    }
}
