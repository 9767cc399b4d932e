//! CREATE, ALTER and DROP STABLE.

use std::sync::Arc;

use model::{Code, DatabaseId, Error, Origin, Result, StableInfo, TableUid};

use super::alter::{altered, check_comment, new_schema};
use super::{Event, IntentKind, MnodeState};
use crate::shards::StableDdl;
use crate::spec::{StableChange, StableSpec};

const NAME_BYTES_MAX: usize = 192;
/// Issuer part of the uids given out here; the shards use their vgroup's number.
const ISSUER: u32 = 0;

impl MnodeState {
    pub(super) fn check_create_stable(&self, by: &str, spec: &StableSpec) -> Result<()> {
        if spec.name.is_empty() || spec.name.contains('.') {
            return Err(Error::with(Code::InvalidIdentifier, &spec.name));
        }
        if spec.name.len() > NAME_BYTES_MAX {
            return Err(Error::with(Code::TableNameTooLong, &spec.name));
        }
        new_schema(&spec.columns, &spec.tags)?;
        check_comment(spec.comment.as_ref())?;
        let database = self.writable_database(by, &spec.database)?;
        if database.stable(&spec.name).is_ok() {
            if spec.if_not_exists {
                return Ok(());
            }
            return Err(Error::with(Code::StableExists, &spec.name));
        }
        if database.info.options.single_stable && !database.stables.is_empty() {
            return Err(Error::of(Code::SingleStableMode));
        }
        self.check_free(database.info.id)?;
        TableUid::issued(ISSUER, self.counters.stable)
            .map(|_| ())
            .ok_or_else(|| Error::internal("no numbers for super tables are left"))
    }

    pub(super) fn apply_create_stable(
        &mut self,
        spec: &StableSpec,
        origin: Origin,
        time_ns: i64,
    ) -> Vec<Event> {
        let Ok(database) = self.catalog.database(&spec.database).cloned() else { return Vec::new() };
        if database.stable(&spec.name).is_ok() {
            return vec![Event::Unchanged];
        }
        let schema = new_schema(&spec.columns, &spec.tags);
        let uid = TableUid::issued(ISSUER, self.counters.stable);
        let (Ok(schema), Some(uid)) = (schema, uid) else { return Vec::new() };
        self.counters.stable += 1;
        let stable = Arc::new(StableInfo {
            uid,
            name: spec.name.clone(),
            schema: Arc::new(schema),
            create_time_ns: time_ns,
            comment: spec.comment.clone(),
        });
        let kind = IntentKind::stable(StableDdl::Create(stable), origin);
        self.log_intent(database.info.id, kind, time_ns)
    }

    pub(super) fn check_alter_stable(
        &self,
        by: &str,
        database: &str,
        name: &str,
        change: &StableChange,
    ) -> Result<()> {
        let database = self.writable_database(by, database)?;
        altered(&database.stable(name)?.schema, change)?;
        self.check_free(database.info.id)
    }

    pub(super) fn apply_alter_stable(
        &mut self,
        database: &str,
        name: &str,
        change: &StableChange,
        origin: Origin,
        time_ns: i64,
    ) -> Vec<Event> {
        let Ok(database) = self.catalog.database(database) else { return Vec::new() };
        let Ok(stable) = database.stable(name) else { return Vec::new() };
        let Ok(schema) = altered(&stable.schema, change) else { return Vec::new() };
        let mut stable = (**stable).clone();
        stable.schema = Arc::new(schema);
        if let StableChange::Comment(text) = change {
            stable.comment = Some(text.clone());
        }
        let ddl = StableDdl::Alter { stable: Arc::new(stable), change: change.clone() };
        self.log_intent(database.info.id, IntentKind::stable(ddl, origin), time_ns)
    }

    pub(super) fn check_drop_stable(
        &self,
        by: &str,
        database: &str,
        name: &str,
        if_exists: bool,
    ) -> Result<()> {
        let database = self.writable_database(by, database)?;
        let stable = match database.stable(name) {
            Err(_) if if_exists => return Ok(()),
            found => found?,
        };
        // Query topics on it go on and yield nothing; only a stable topic is bound to it.
        if let Some(topic) = self.catalog.topics_of(database.info.id).find(|t| t.stable == Some(stable.uid)) {
            return Err(self.topic_in_the_way(by, topic));
        }
        self.check_free(database.info.id)
    }

    pub(super) fn apply_drop_stable(
        &mut self,
        database: &str,
        name: &str,
        origin: Origin,
        time_ns: i64,
    ) -> Vec<Event> {
        let Ok(database) = self.catalog.database(database).cloned() else { return Vec::new() };
        let Ok(stable) = database.stable(name) else { return vec![Event::Unchanged] };
        let ddl = StableDdl::Drop { uid: stable.uid, name: stable.name.clone() };
        self.catalog_mut().edit_database(database.info.id, |d| {
            d.stables.remove(name);
        });
        let mut events = self.log_intent(database.info.id, IntentKind::stable(ddl, origin), time_ns);
        events.push(Event::Catalog);
        events
    }

    pub(super) fn finish_stable(&mut self, database: DatabaseId, ddl: &StableDdl) {
        if let StableDdl::Create(stable) | StableDdl::Alter { stable, .. } = ddl {
            self.catalog_mut().edit_database(database, |d| {
                d.stables.insert(stable.name.clone(), stable.clone());
            });
        }
    }
}
