//! What the names in statements mean.

use std::sync::Arc;

use model::{Code, DatabaseInfo, Error, Result, StableInfo, TableInfo, TableKind, VgroupId, vgroup_slot};
use query::ast::{ObjectName, Query};
use query::plan::{Relations, no_table, relations_named};
use query::source::{Relation, RelationKind, Shard};
use vnode::Vnode;

use super::{Engine, StatementContext, system};
use crate::server::sessions::Session;

/// A child or normal table, and the shard that has it.
pub(super) struct FoundTable {
    pub database: Arc<DatabaseInfo>,
    pub vnode: Arc<Vnode>,
    pub table: Arc<TableInfo>,
}

/// What `db.name` is.
pub(super) enum Found {
    Stable { database: Arc<DatabaseInfo>, stable: Arc<StableInfo> },
    Table(FoundTable),
}

/// What a table is looked up for: which right that takes, and which shards of a super table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its rows are read.
    Read,
    /// Rows of it are deleted.
    Delete,
    /// A topic is made of it: what it is, is asked, not what is in its shards, and of these some may be offline.
    Topic,
}

impl Engine {
    /// The database that a name is in: its own, else the session's.
    pub(super) fn database_of<'a>(&self, cx: &'a StatementContext, name: &'a ObjectName) -> Result<&'a str> {
        let database = name.database.as_deref().or(cx.database.as_deref());
        database.ok_or_else(|| Error::of(Code::DatabaseNotSpecified).or_at(name.at.0))
    }

    /// `error` for a table or super table that is not there, with the place where it was named, and with a name of the
    /// database that differs in case only.
    pub(super) fn missing(&self, database: &str, name: &ObjectName, error: Error) -> Error {
        let error = error.or_at(name.at.0);
        let catalog = self.mnode.catalog();
        let Ok(found) = catalog.database(database) else { return error };
        let vnodes = found.info.vgroups.iter().filter_map(|&vgroup| self.shard(vgroup).ok());
        let stables = found.stables.keys().find(|known| known.eq_ignore_ascii_case(&name.name)).cloned();
        let known = stables
            .or_else(|| vnodes.into_iter().find_map(|vnode| vnode.table_name_but_for_case(&name.name)));
        error.hint_case(&name.name, known.as_deref())
    }

    /// The vgroup where a table of this name lives, whether it exists or not.
    pub(super) fn vgroup_for(database: &DatabaseInfo, table: &str) -> Result<VgroupId> {
        vgroup_slot(table, database.vgroups.len())
            .and_then(|slot| database.vgroups.get(slot).copied())
            .ok_or_else(|| Error::internal(format!("database {} has no vgroups", database.name)))
    }

    /// The shard of a vgroup that the catalogue has or had a moment ago: one that is not there went with its database.
    ///
    /// # Errors
    /// Why it does not serve.
    pub(super) fn shard(&self, vgroup: VgroupId) -> Result<Arc<Vnode>> {
        match self.vnodes.slot(vgroup) {
            None => Err(Error::of(Code::DatabaseDropping)),
            Some(_) => self.vnodes.get(vgroup),
        }
    }

    /// Looks a table or super table up.
    pub(super) fn find(&self, cx: &StatementContext, name: &ObjectName) -> Result<Option<Found>> {
        let catalog = self.mnode.catalog();
        let database = catalog.database(self.database_of(cx, name)?)?;
        if let Some(stable) = database.stables.get(&name.name) {
            return Ok(Some(Found::Stable { database: database.info.clone(), stable: stable.clone() }));
        }
        let vnode = self.shard(Self::vgroup_for(&database.info, &name.name)?)?;
        let table = vnode.table(&name.name);
        Ok(table.map(|table| Found::Table(FoundTable { database: database.info.clone(), vnode, table })))
    }

    /// Resolves every table of a query, with the right to do so.
    pub(super) fn resolve(
        &self,
        session: &Session,
        cx: &StatementContext,
        query: &Query,
        purpose: Purpose,
    ) -> Result<Relations> {
        let mut relations = Relations::new();
        for name in relations_named(query) {
            let relation = self.relation(session, cx, &name, purpose)?;
            relations.insert(name, relation);
        }
        Ok(relations)
    }

    /// What a query's table is.
    pub(super) fn relation(
        &self,
        session: &Session,
        cx: &StatementContext,
        name: &ObjectName,
        purpose: Purpose,
    ) -> Result<Relation> {
        let database = self.database_of(cx, name)?;
        if system::is_system(database) {
            return self.system_relation(session, database, &name.name);
        }
        let may = match purpose {
            Purpose::Read | Purpose::Topic => self.may_read(session, database),
            Purpose::Delete => self.may_write(session, database),
        };
        may.map_err(|error| match error.code() {
            Code::DatabaseNotExist => {
                no_table(Code::DatabaseNotExist, name).hint(error.help()).or_at(name.at.0)
            }
            _ => error.or_at(name.at.0),
        })?;
        let missing = || self.missing(database, name, no_table(Code::TableNotExist, name));
        match self.find(cx, name)?.ok_or_else(missing)? {
            Found::Stable { database, stable } => {
                let shards = database.vgroups.iter().map(|&id| self.shard(id).map(|v| v as Arc<dyn Shard>));
                let shards: Vec<Arc<dyn Shard>> = match purpose {
                    Purpose::Read | Purpose::Delete => shards.collect::<Result<_>>()?,
                    Purpose::Topic => shards.filter_map(Result::ok).collect(),
                };
                Ok(Relation { shards, database, kind: RelationKind::Stable(stable) })
            }
            Found::Table(FoundTable { database, vnode, table }) => {
                let kind = match &table.kind {
                    TableKind::Normal { .. } => RelationKind::Normal(table),
                    TableKind::Child { stable, .. } => {
                        let catalog = self.mnode.catalog();
                        let stable = catalog
                            .database(&database.name)?
                            .stable_by_uid(*stable)
                            .cloned()
                            .ok_or_else(missing)?;
                        RelationKind::Child { table, stable }
                    }
                };
                Ok(Relation { shards: vec![vnode], database, kind })
            }
        }
    }
}
