//! Statements that define things: databases, super tables, tables, topics' ends, users, settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use mnode::{DatabaseSpec, DdlOutcome, DropGroupSpec, DropTopicSpec, StableSpec};
use model::{Code, Error, Result, StableInfo, Value, VgroupId};
use query::ast::{self, AlterTable, ColumnSpec, CreateChild, ObjectName, Statement, TableOptions};
use query::literal::{LiteralContext, parse_tag};
use vnode::{CreateTable, CreateTableKind, DropTable, TableChange, TableDdl};

use super::names::{Found, FoundTable};
use super::{Engine, Outcome, StatementContext, convert, system};
use crate::server::sessions::Session;

impl Engine {
    pub(super) async fn define(
        &self,
        session: &Session,
        cx: &StatementContext,
        statement: Statement,
    ) -> Result<Outcome> {
        let by = &*session.user;
        match statement {
            Statement::CreateDatabase { if_not_exists, name, options } => {
                let spec = DatabaseSpec { name, if_not_exists, options: *options };
                self.mnode.create_database(by, spec).await?;
            }
            Statement::AlterDatabase { name, changes } => {
                self.mnode.alter_database(by, &name, changes).await?;
            }
            Statement::DropDatabase { if_exists, name } => {
                self.mnode.drop_database(by, &name, if_exists).await?;
            }
            Statement::Use(name) => {
                if !system::is_system(&name) {
                    self.require_seen(session, &name)?;
                }
                return Ok(Outcome::Use(name));
            }
            Statement::FlushDatabase(name) => self.flush(session, &name).await?,
            Statement::TrimDatabase(name) => self.trim(session, &name).await?,
            Statement::KillCompact(id) => self.kill_compact(session, id)?,
            Statement::TrimDatabaseWal(name) => self.trim_log(session, &name).await?,
            Statement::CreateStable { if_not_exists, name, columns, tags, options } => {
                self.create_stable(session, cx, if_not_exists, name, (columns, tags), options).await?;
            }
            Statement::CreateTable { if_not_exists, name, columns, options } => {
                self.create_normal(session, cx, if_not_exists, &name, columns, options).await?;
            }
            Statement::CreateChildren(children) => self.create_children(session, cx, children).await?,
            Statement::DropTables(tables) => self.drop_tables(session, cx, tables).await?,
            Statement::DropStable { if_exists, name } => {
                let database = self.database_of(cx, &name)?;
                self.may_write(session, database)?;
                let dropped =
                    self.mnode.drop_stable(by, database, &name.name, if_exists, session.origin).await;
                dropped.map_err(|error| match error.code() {
                    Code::StableNotExist => self.missing(database, &name, error),
                    _ => error,
                })?;
            }
            Statement::AlterTable { stable, name, change } => {
                self.alter_table(session, cx, stable, &name, change).await?;
            }
            Statement::DropTopic { if_exists, force, name } => {
                self.mnode.drop_topic(by, DropTopicSpec { name, if_exists, force }).await?;
            }
            Statement::DropConsumerGroup { if_exists, force, group, topic } => {
                self.mnode.drop_group(by, DropGroupSpec { group, topic, if_exists, force }).await?;
            }
            Statement::CreateUser { name, password } => {
                self.mnode.create_user(by, &name, &password, true, false).await?;
            }
            Statement::AlterUserPassword { name, password } => {
                self.mnode.alter_user(by, &name, Some(&password), None, None, None).await?;
                self.sessions.close_user(&name);
            }
            Statement::DropUser { if_exists, name } => {
                self.mnode.drop_user(by, &name, if_exists).await?;
                self.sessions.close_user(&name);
            }
            Statement::Grant { give, right, user } => {
                self.grant(session, give, right, &user).await?;
            }
            // There is none: every query sees what is there.
            Statement::ResetQueryCache => {}
            Statement::AlterConfig { name, value } => self.mnode.set(by, &name, &value).await?,
            Statement::Query(_)
            | Statement::Explain { .. }
            | Statement::Show(_)
            | Statement::Describe(_)
            | Statement::Delete { .. }
            | Statement::Compact(_)
            | Statement::CreateTopic(_)
            | Statement::ReloadTopic(_) => return Err(Error::internal("statement in the wrong place")),
        }
        Ok(Outcome::Done)
    }

    async fn create_stable(
        &self,
        session: &Session,
        cx: &StatementContext,
        if_not_exists: bool,
        name: ObjectName,
        (columns, tags): (Vec<ColumnSpec>, Vec<ColumnSpec>),
        options: TableOptions,
    ) -> Result<DdlOutcome> {
        self.may_write(session, self.database_of(cx, &name)?)?;
        // A table of that name only its shard knows.
        if let Some(Found::Table(_)) = self.find(cx, &name)? {
            return Err(Error::with(Code::TableExists, &name.name));
        }
        if options.ttl_days.is_some() {
            return Err(Error::with(Code::InvalidTableOption, "TTL is for tables, not for super tables"));
        }
        let spec = StableSpec {
            database: self.database_of(cx, &name)?.to_owned(),
            if_not_exists,
            columns: columns.into_iter().map(convert::column_spec).collect(),
            tags: tags.into_iter().map(convert::column_spec).collect(),
            comment: options.comment,
            name: name.name,
        };
        self.mnode.create_stable(&session.user, spec, session.origin).await
    }

    async fn create_normal(
        &self,
        session: &Session,
        cx: &StatementContext,
        if_not_exists: bool,
        name: &ObjectName,
        columns: Vec<ColumnSpec>,
        options: TableOptions,
    ) -> Result<()> {
        let database = self.database_of(cx, name)?;
        self.may_write(session, database)?;
        if let Some(Found::Stable { .. }) = self.find(cx, name)? {
            return Err(Error::with(Code::TableExists, &name.name));
        }
        let info = self.mnode.catalog().database(database)?.info.clone();
        let table = CreateTable {
            name: name.name.clone(),
            if_not_exists,
            kind: CreateTableKind::Normal(ast::first_schema(columns, Vec::new())),
            ttl_days: options.ttl_days.unwrap_or(0),
            comment: options.comment,
        };
        let shard = self.shard(Self::vgroup_for(&info, &name.name)?)?;
        shard.define(TableDdl::Create(vec![table]), session.origin).await.map(|_| ())
    }

    /// All children of a statement; those of one vgroup are one record.
    async fn create_children(
        &self,
        session: &Session,
        cx: &StatementContext,
        children: Vec<CreateChild>,
    ) -> Result<()> {
        let catalog = self.mnode.catalog();
        let mut by_vgroup: BTreeMap<VgroupId, Vec<CreateTable>> = BTreeMap::new();
        for child in children {
            let database_name = self.database_of(cx, &child.name)?;
            self.may_write(session, database_name)?;
            let database = catalog.database(database_name)?;
            if child.stable.database.as_deref().is_some_and(|name| name != database_name) {
                return Err(Error::of(Code::OtherDatabase));
            }
            let stable = database.stables.get(&child.stable.name).ok_or_else(|| {
                let error = Error::with(Code::TableNotExist, &child.stable.name);
                self.missing(database_name, &child.stable, error)
            })?;
            if database.stables.contains_key(&child.name.name) {
                return Err(Error::with(Code::TableExists, &child.name.name));
            }
            let literals = LiteralContext::new(database.info.options.precision, cx.zone, cx.now_ns);
            let tags = child_tags(stable, child.tag_names.as_deref(), &child.values, &literals)?;
            by_vgroup.entry(Self::vgroup_for(&database.info, &child.name.name)?).or_default().push(
                CreateTable {
                    name: child.name.name,
                    if_not_exists: child.if_not_exists,
                    kind: CreateTableKind::Child { stable: stable.uid, tags },
                    ttl_days: child.options.ttl_days.unwrap_or(0),
                    comment: child.options.comment,
                },
            );
        }
        // Asked before anything is made, so that a statement over several vgroups is not half done.
        for (&vgroup, tables) in &by_vgroup {
            let vnode = self.shard(vgroup)?;
            let taken =
                tables.iter().find(|table| !table.if_not_exists && vnode.table(&table.name).is_some());
            if let Some(table) = taken {
                return Err(Error::with(Code::TableExists, &table.name));
            }
        }
        for (vgroup, tables) in by_vgroup {
            self.shard(vgroup)?.define(TableDdl::Create(tables), session.origin).await?;
        }
        Ok(())
    }

    async fn drop_tables(
        &self,
        session: &Session,
        cx: &StatementContext,
        tables: Vec<ast::DropTable>,
    ) -> Result<()> {
        let single = tables.len() == 1;
        let mut by_vgroup: BTreeMap<VgroupId, Vec<DropTable>> = BTreeMap::new();
        for table in tables {
            let database = self.database_of(cx, &table.name)?;
            self.may_write(session, database)?;
            let info = self.mnode.catalog().database(database)?.info.clone();
            match self.find(cx, &table.name)? {
                Some(Found::Stable { stable, .. }) if single => {
                    let (by, origin) = (&session.user, session.origin);
                    self.mnode.drop_stable(by, database, &stable.name, table.if_exists, origin).await?;
                    return Ok(());
                }
                Some(Found::Stable { .. }) => return Err(Error::of(Code::DropStableInBatch)),
                None if !table.if_exists => {
                    let error = Error::with(Code::TableNotExist, &table.name.name);
                    return Err(self.missing(database, &table.name, error));
                }
                None => {}
                Some(Found::Table(_)) => {
                    let vgroup = Self::vgroup_for(&info, &table.name.name)?;
                    let drop = DropTable { name: table.name.name, if_exists: table.if_exists };
                    by_vgroup.entry(vgroup).or_default().push(drop);
                }
            }
        }
        for (vgroup, tables) in by_vgroup {
            self.shard(vgroup)?.define(TableDdl::Drop(tables), session.origin).await?;
        }
        Ok(())
    }

    async fn alter_table(
        &self,
        session: &Session,
        cx: &StatementContext,
        stable_wanted: bool,
        name: &ObjectName,
        change: AlterTable,
    ) -> Result<()> {
        let database = self.database_of(cx, name)?;
        self.may_write(session, database)?;
        match self.find(cx, name)? {
            Some(Found::Stable { .. }) => {
                let change = convert::stable_change(change)?;
                let (by, origin) = (&session.user, session.origin);
                self.mnode.alter_stable(by, database, &name.name, change, origin).await?;
                Ok(())
            }
            _ if stable_wanted => {
                Err(self.missing(database, name, Error::with(Code::StableNotExist, &name.name)))
            }
            None => Err(self.missing(database, name, Error::with(Code::TableNotExist, &name.name))),
            Some(Found::Table(found)) => {
                let change = self.table_change(cx, &found, change)?;
                let ddl = TableDdl::Alter { name: name.name.clone(), change };
                found.vnode.define(ddl, session.origin).await.map(|_| ())
            }
        }
    }

    fn table_change(
        &self,
        cx: &StatementContext,
        found: &FoundTable,
        change: AlterTable,
    ) -> Result<TableChange> {
        Ok(match change {
            AlterTable::AddColumn(column) => TableChange::AddColumn {
                name: column.name,
                data_type: column.data_type,
                encoding: column.encoding,
                compression: column.compression,
                level: column.level,
            },
            AlterTable::DropColumn(name) => TableChange::DropColumn { name },
            AlterTable::ModifyColumn { name, data_type } => TableChange::ModifyColumn { name, data_type },
            AlterTable::ModifyStorage { name, storage } => TableChange::ModifyStorage { name, storage },
            AlterTable::RenameColumn { name, new_name } => TableChange::RenameColumn { name, new_name },
            AlterTable::Options(options) => {
                TableChange::Options { comment: options.comment, ttl_days: options.ttl_days }
            }
            AlterTable::SetTags(tags) => {
                let model::TableKind::Child { stable, .. } = &found.table.kind else {
                    return Err(Error::of(Code::InvalidAlter).hint("only child tables have tags"));
                };
                let catalog = self.mnode.catalog();
                let stable = catalog
                    .database(&found.database.name)?
                    .stable_by_uid(*stable)
                    .ok_or_else(|| Error::internal("a child without its super table"))?;
                let literals = LiteralContext::new(found.database.options.precision, cx.zone, cx.now_ns);
                let values = tags.into_iter().map(|(name, literal)| {
                    let (_, tag) =
                        stable.schema.tag(&name).ok_or_else(|| Error::with(Code::InvalidAlter, &name))?;
                    let value = parse_tag(tag.data_type, &literal, &name, &literals)?;
                    Ok((name, value))
                });
                TableChange::SetTags(values.collect::<Result<_>>()?)
            }
            AlterTable::AddTag(_)
            | AlterTable::DropTag(_)
            | AlterTable::ModifyTag { .. }
            | AlterTable::RenameTag { .. } => {
                return Err(Error::of(Code::InvalidAlter).hint("tags are defined by the super table"));
            }
        })
    }
}

/// A child's tags in the super table's order; those not named are NULL.
fn child_tags(
    stable: &Arc<StableInfo>,
    names: Option<&[String]>,
    literals: &[ast::TagLiteral],
    context: &LiteralContext,
) -> Result<Vec<Value>> {
    let tags = &stable.schema.tags;
    let mut values = vec![Value::Null; tags.len()];
    let places: Vec<usize> = match names {
        None => (0..tags.len()).collect(),
        Some(names) => names
            .iter()
            .map(|name| {
                stable.schema.tag(name).map(|(at, _)| at).ok_or_else(|| Error::with(Code::InvalidTag, name))
            })
            .collect::<Result<_>>()?,
    };
    if places.len() != literals.len() {
        let counts = match names {
            Some(names) => format!("{} tags are named", names.len()),
            None => {
                let names: Vec<_> = tags.iter().map(|tag| tag.name.as_str()).collect();
                format!("{} has the tags {}", stable.name, names.join(", "))
            }
        };
        let error = Error::of(Code::TagsNotMatched);
        return Err(error.hint(format!("values given: {}; {counts}", literals.len())));
    }
    for (&place, literal) in places.iter().zip(literals) {
        if let (Some(value), Some(tag)) = (values.get_mut(place), tags.get(place)) {
            *value = parse_tag(tag.data_type, literal, &tag.name, context)?;
        }
    }
    Ok(values)
}
