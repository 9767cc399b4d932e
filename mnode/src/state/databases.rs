//! CREATE, ALTER and DROP DATABASE.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Code, DatabaseChange, DatabaseId, DatabaseInfo, DatabaseOptions, Error, Result, VgroupId};

use super::{Database, Event, Intent, IntentKind, MnodeState};
use crate::spec::{Access, DatabaseSpec};

const NAME_BYTES_MAX: usize = 64;
const VGROUPS_MAX: u32 = 1_024;
/// Vgroup numbers above this do not fit into the uids of their tables.
const VGROUP_ID_MAX: u32 = (1 << 24) - 1;

impl MnodeState {
    pub(super) fn check_create_database(&self, by: &str, spec: &DatabaseSpec) -> Result<()> {
        check_name(&spec.name)?;
        self.require_createdb(by)?;
        if let Ok(database) = self.catalog.database(&spec.name) {
            // Not a success to who does not see it: the database it asked for is not there for it.
            if spec.if_not_exists && self.sees_database(by, database) {
                return Ok(());
            }
            return Err(Error::with(Code::DatabaseExists, &spec.name));
        }
        let being_made = |k: &IntentKind| matches!(k, IntentKind::CreateDatabase { database, .. } if database.name == spec.name);
        if self.intents.values().any(|i| being_made(&i.kind)) {
            return Err(Error::of(Code::Conflict));
        }
        check_options(&spec.options)?;
        if self.counters.vgroup > VGROUP_ID_MAX - spec.options.vgroups {
            return Err(Error::with(Code::InvalidDatabaseOptions, "no vgroup numbers are left"));
        }
        Ok(())
    }

    pub(super) fn apply_create_database(
        &mut self,
        by: &str,
        spec: &DatabaseSpec,
        time_ns: i64,
    ) -> Vec<Event> {
        if self.catalog.database(&spec.name).is_ok() {
            return vec![Event::Unchanged];
        }
        let first = self.counters.vgroup;
        self.counters.vgroup += spec.options.vgroups;
        let id = DatabaseId(self.counters.database);
        self.counters.database += 1;
        let database = Arc::new(DatabaseInfo {
            id,
            name: spec.name.clone(),
            options: spec.options.clone(),
            vgroups: (first..self.counters.vgroup).map(VgroupId).collect(),
            create_time_ns: time_ns,
        });
        self.log_intent(id, IntentKind::CreateDatabase { database, creator: by.to_owned() }, time_ns)
    }

    pub(super) fn check_alter_database(
        &self,
        by: &str,
        name: &str,
        changes: &[DatabaseChange],
    ) -> Result<()> {
        let database = self.database_seen(by, name)?;
        self.require_owner(by, &database.creator)?;
        let options = changed(&database.info.options, changes);
        check_options(&options)?;
        if options == database.info.options {
            return Err(Error::of(Code::OptionsNotChanged));
        }
        if options.wal.retention_period_s == 0 && self.catalog.topics_of(database.info.id).next().is_some() {
            return Err(Error::of(Code::WalRetentionZero));
        }
        self.check_free(database.info.id)
    }

    pub(super) fn apply_alter_database(
        &mut self,
        name: &str,
        changes: &[DatabaseChange],
        time_ns: i64,
    ) -> Vec<Event> {
        let Ok(database) = self.catalog.database(name) else { return Vec::new() };
        let mut info = (*database.info).clone();
        info.options = changed(&info.options, changes);
        self.log_intent(info.id, IntentKind::AlterDatabase { database: Arc::new(info) }, time_ns)
    }

    pub(super) fn check_drop_database(&self, by: &str, name: &str, if_exists: bool) -> Result<()> {
        let database = match self.database_seen(by, name) {
            Err(_) if if_exists => return Ok(()),
            found => found?,
        };
        self.require_owner(by, &database.creator)?;
        if let Some(topic) = self.catalog.topics_of(database.info.id).next() {
            return Err(self.topic_in_the_way(by, topic));
        }
        // A CREATE that is going well is waited for. Anything else may hang on a damaged shard for ever, and dropping
        // the database is the way out of that.
        let going_well = |i: &Intent| i.database == database.info.id && i.can_undo() && !i.undo;
        if self.intents.values().any(going_well) { Err(Error::of(Code::Conflict)) } else { Ok(()) }
    }

    /// The database is out of sight at once: nothing is written to it while its shards go.
    pub(super) fn apply_drop_database(&mut self, by: &str, name: &str, time_ns: i64) -> Vec<Event> {
        let Ok(database) = self.database_seen(by, name).cloned() else { return vec![Event::Unchanged] };
        let info = database.info.clone();
        self.catalog_mut().remove_database(info.id);
        self.intents.retain(|_, i| i.database != info.id);
        self.forget_rights(None, Some(info.id));
        let mut events = self.log_intent(info.id, IntentKind::DropDatabase { database: info }, time_ns);
        events.push(Event::Catalog);
        events
    }

    pub(super) fn finish_create_database(&mut self, info: Arc<DatabaseInfo>, creator: String) {
        let creator = self.owner_of(creator);
        self.catalog_mut().put_database(Database { info, creator, stables: BTreeMap::new() });
    }

    pub(super) fn finish_alter_database(&mut self, info: Arc<DatabaseInfo>) {
        self.catalog_mut().edit_database(info.id, |database| database.info = info);
    }

    /// The database of a statement about its tables, which `by` must be allowed to change.
    pub(super) fn writable_database(&self, by: &str, name: &str) -> Result<&Arc<Database>> {
        let database = self.database_seen(by, name)?;
        self.require_access(by, database, Access { read: false, write: true })?;
        Ok(database)
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('.') {
        return Err(Error::with(Code::InvalidIdentifier, name));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::with(Code::DatabaseNameTooLong, name));
    }
    Ok(())
}

/// The parser has checked single ranges; these concern several options, or are ones on which something here would break.
fn check_options(options: &DatabaseOptions) -> Result<()> {
    if !(1..=VGROUPS_MAX).contains(&options.vgroups) {
        return Err(Error::with(
            Code::InvalidDatabaseOption,
            format_args!("vgroups: {} valid range: [1, {VGROUPS_MAX}]", options.vgroups),
        ));
    }
    options.check_keep()?;
    if options.replica != 1 {
        return Err(Error::not_supported("REPLICA above 1").hint("one node holds one replica"));
    }
    Ok(())
}

fn changed(options: &DatabaseOptions, changes: &[DatabaseChange]) -> DatabaseOptions {
    let mut options = options.clone();
    changes.iter().for_each(|change| change.apply(&mut options));
    options
}
