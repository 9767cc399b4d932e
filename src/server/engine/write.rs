//! Rows on their way to the shards: INSERT text, lines and columnar writes, one path from the blocks on.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use model::{Clock as _, Code, DatabaseInfo, Error, Result, TableKind, TableSchema, TableUid, VgroupId};
use proto::write::WriteBlock;
use query::ast::ObjectName;
use query::insert::{InsertCatalog, InsertContext, InsertPlan, InsertTarget, TargetKind, parse_insert};
use vnode::{PendingWrite, WriteRequest};

use super::{Engine, Outcome, StatementContext};
use crate::server::sessions::Session;

/// A write that stands in its shards' queues, in order; [`StartedWrite::finish`] waits for it.
#[derive(Debug)]
pub struct StartedWrite {
    pending: Vec<PendingWrite>,
}

impl StartedWrite {
    /// Waits until all of it is written, as durable as the database's WAL level says; answers the rows.
    ///
    /// # Errors
    /// The first failure. Parts for other shards may be written: writing all of it again is safe.
    pub async fn finish(self) -> Result<u64> {
        let mut rows = 0;
        let mut first_error = None;
        for pending in self.pending {
            match pending.finish().await {
                Ok(outcome) => rows += outcome.affected_rows,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(rows), Err)
    }
}

/// What a columnar writer must know of its table.
#[derive(Debug)]
pub struct WriteTarget {
    /// Database.
    pub database: Arc<DatabaseInfo>,
    /// The super table; `None` for a normal table.
    pub stable: Option<TableUid>,
    /// Columns and tags.
    pub schema: Arc<TableSchema>,
}

impl WriteTarget {
    /// Ticks that a row may carry at `now_ns`, as the shards check it.
    pub fn times(&self, now_ns: i64) -> RangeInclusive<i64> {
        self.database.options.accepted_ticks(now_ns)
    }
}

impl Engine {
    /// Hands blocks to their shards. When this answers, their order against later writes is fixed.
    ///
    /// # Errors
    /// A shard that is off-line: nothing is written then. What a shard refused: blocks of other shards may be under
    /// way then.
    pub async fn start_write(
        &self,
        session: &Session,
        database: &str,
        blocks: Vec<(VgroupId, WriteBlock)>,
    ) -> Result<StartedWrite> {
        self.may_write(session, database)?;
        let info = self.mnode.catalog().database(database)?.info.clone();
        let mut by_vgroup: BTreeMap<VgroupId, Vec<WriteBlock>> = BTreeMap::new();
        for (vgroup, block) in blocks {
            if !info.vgroups.contains(&vgroup) {
                return Err(Error::with(Code::InvalidVgroup, format!("vgroup={vgroup} database={database}"))
                    .hint("ask for the database's vgroups again"));
            }
            by_vgroup.entry(vgroup).or_default().push(block);
        }
        self.begin_parts(session, by_vgroup.into_iter().collect(), self.clock.now_ns()).await
    }

    /// Hands the parts of one write to their shards, which all judge times as of `as_of_ns`. Every shard is looked up
    /// before the first of them gets anything.
    async fn begin_parts(
        &self,
        session: &Session,
        parts: Vec<(VgroupId, Vec<WriteBlock>)>,
        as_of_ns: i64,
    ) -> Result<StartedWrite> {
        let shards = parts.iter().map(|(vgroup, _)| self.shard(*vgroup)).collect::<Result<Vec<_>>>()?;
        let mut pending = Vec::with_capacity(parts.len());
        for (shard, (_, blocks)) in shards.into_iter().zip(parts) {
            let replicated = session.origin.is_replication();
            let request = WriteRequest { blocks, replicated, as_of_ns: Some(as_of_ns) };
            pending.push(shard.begin_write(request).await?);
        }
        Ok(StartedWrite { pending })
    }

    /// What a columnar writer must know of `database.table`.
    ///
    /// # Errors
    /// [`Code::TableNotExist`]; for a child table too: rows of children are written through their super table.
    pub async fn write_target(&self, session: &Session, database: &str, table: &str) -> Result<WriteTarget> {
        self.may_write(session, database)?;
        let catalog = self.mnode.catalog();
        let found = catalog.database(database)?;
        let info = found.info.clone();
        if let Some(stable) = found.stables.get(table) {
            return Ok(WriteTarget {
                database: info,
                stable: Some(stable.uid),
                schema: stable.schema.clone(),
            });
        }
        let vnode = self.shard(Self::vgroup_for(&info, table)?)?;
        match vnode.table(table).as_deref().map(|table| &table.kind) {
            Some(TableKind::Normal { schema }) => {
                Ok(WriteTarget { database: info, stable: None, schema: schema.clone() })
            }
            Some(TableKind::Child { .. }) => {
                Err(Error::with(Code::TableNotExist, table)
                    .hint("write to its super table, naming the child"))
            }
            None => {
                let name = ObjectName::new(Some(database), table);
                Err(self.missing(database, &name, Error::with(Code::TableNotExist, table)))
            }
        }
    }
}

impl Engine {
    /// INSERT: read to its end first, so that a bad value, name or time anywhere writes nothing; then one write a
    /// vgroup, once all of the vgroups are known to serve.
    ///
    /// There is no transaction over vgroups. What may still part a statement: a shard that fails or is overloaded, a
    /// disk that is full, a table or option that changes, all while the statement is under way.
    ///
    /// # Errors
    /// What is wrong with the statement, or the first failure of a shard.
    pub(super) async fn insert(
        &self,
        session: &Session,
        cx: &StatementContext,
        sql: &str,
    ) -> Result<Outcome> {
        let context = InsertContext {
            now_ns: cx.now_ns,
            zone: cx.zone,
            database: cx.database.as_deref(),
            sql_bytes_max: self.sql_bytes_max(),
        };
        let plan = parse_insert(sql, &context, &mut Names { engine: self, session })?;
        self.carry_out(session, plan, cx.now_ns).await.map(Outcome::Affected)
    }

    /// Writes what was planned at `as_of_ns`, one write a vgroup; answers the rows.
    pub(super) async fn carry_out(&self, session: &Session, plan: InsertPlan, as_of_ns: i64) -> Result<u64> {
        let parts = plan.writes.into_iter().map(|write| (write.vgroup, write.blocks)).collect();
        self.begin_parts(session, parts, as_of_ns).await?.finish().await?;
        Ok(plan.affected)
    }
}

/// Names in INSERT.
struct Names<'a> {
    engine: &'a Engine,
    session: &'a Session,
}

impl InsertCatalog for Names<'_> {
    fn target(&mut self, name: &ObjectName, using: Option<&ObjectName>) -> Result<InsertTarget> {
        let database = name.database.as_deref().ok_or_else(|| Error::of(Code::DatabaseNotSpecified))?;
        self.engine.may_write(self.session, database)?;
        let catalog = self.engine.mnode.catalog();
        let found = catalog.database(database)?;
        let target = |kind| InsertTarget { database: found.info.clone(), kind };
        let missing = |name: &ObjectName| {
            self.engine.missing(database, name, Error::with(Code::TableNotExist, &name.name))
        };
        let used = match using {
            None => None,
            Some(using) if using.database.as_deref().is_some_and(|other| other != database) => {
                return Err(Error::of(Code::OtherDatabase));
            }
            Some(using) => Some(found.stables.get(&using.name).ok_or_else(|| missing(using))?),
        };
        if let Some(stable) = found.stables.get(&name.name) {
            return match used {
                None => Ok(target(TargetKind::Stable(stable.clone()))),
                Some(_) => Err(Error::with(Code::TableExists, &name.name)),
            };
        }
        let vnode = self.engine.shard(Engine::vgroup_for(&found.info, &name.name)?)?;
        let kind = match (vnode.table(&name.name).as_deref().map(|table| &table.kind), used) {
            (None, None) => return Err(missing(name)),
            (None, Some(stable)) => TargetKind::Child(stable.clone()),
            (Some(TableKind::Child { stable, .. }), Some(used)) if *stable == used.uid => {
                TargetKind::Child(used.clone())
            }
            (Some(TableKind::Child { stable, .. }), None) => {
                let stable = found.stable_by_uid(*stable).ok_or_else(|| missing(name))?;
                TargetKind::Child(stable.clone())
            }
            (Some(TableKind::Normal { schema }), None) => TargetKind::Normal(schema.clone()),
            (Some(_), Some(_)) => return Err(Error::with(Code::OtherStable, &name.name)),
        };
        Ok(target(kind))
    }

    fn check_children(&mut self, database: &DatabaseInfo, stable: TableUid, names: &[&str]) -> Result<()> {
        let catalog = self.engine.mnode.catalog();
        let found = catalog.database(&database.name)?;
        for &name in names {
            let vnode = self.engine.shard(Engine::vgroup_for(database, name)?)?;
            match vnode.table(name).as_deref().map(|table| &table.kind) {
                Some(TableKind::Child { stable: of, .. }) if *of == stable => {}
                Some(_) => return Err(Error::with(Code::OtherStable, name)),
                None if found.stables.contains_key(name) => return Err(Error::with(Code::TableExists, name)),
                None => {}
            }
        }
        Ok(())
    }
}
