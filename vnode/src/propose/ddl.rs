//! Checks of statements that change tables.

use std::collections::HashSet;
use std::sync::Arc;

use model::{
    Code, ColumnDef, ColumnId, ColumnStorage, DataType, Error, Result, SchemaVersion, StableInfo, TableKind,
    TableSchema, TableUid, Value, limits,
};
use wal::Kind;

use super::write::check_new_name;
use super::{
    Checked, Context, CreateTable, CreateTableKind, DropTable, Overlay, StableDdl, TableChange, no_stable,
    tags,
};
use crate::record::{DroppedTable, MetaRecord, NewTable, NewTableKind, SchemaChange, TagChange};
use crate::state::{TableEntry, VnodeState};

fn meta(record: &MetaRecord) -> Result<Option<Checked>> {
    Checked::new(Kind::Meta, record.encode()).map(Some)
}

/// What the mnode says of super tables. It has checked it; what is applied already makes no second record.
pub(crate) fn stable(state: &VnodeState, ddl: StableDdl) -> Result<Option<Checked>> {
    let is_applied = |new: &StableInfo| {
        state.stables.entry(new.uid).is_some_and(|old| {
            let (held, wanted) = (old.info.schema.version, new.schema.version);
            old.dropped_at.is_some() || held > wanted || (held == wanted && *old.info == *new)
        })
    };
    match ddl {
        StableDdl::Create(new) if state.stables.entry(new.uid).is_some() => Ok(None),
        StableDdl::Create(new) => meta(&MetaRecord::CreateStable(new)),
        StableDdl::Alter { stable, .. } if is_applied(&stable) => Ok(None),
        StableDdl::Alter { stable, change } => meta(&MetaRecord::AlterStable { stable, change }),
        StableDdl::Drop { uid } => match state.stables.get(uid) {
            Some(found) => meta(&MetaRecord::DropStable { uid, name: found.name.clone() }),
            None => Ok(None),
        },
    }
}

/// Outcome of a check of CREATE TABLE: which of the tables are new, in the order of the statement.
pub(crate) fn create_tables(
    state: &VnodeState,
    context: &Context,
    overlay: &mut Overlay,
    tables: Vec<CreateTable>,
) -> Result<Option<Checked>> {
    let mut names = HashSet::new();
    let mut created = Vec::new();
    for table in tables {
        let exists = state.tables.named(&table.name).is_some() || !names.insert(table.name.clone());
        if exists {
            let is_of_other = |entry: &TableEntry| match table.kind {
                CreateTableKind::Child { stable, .. } => entry.stable().is_some_and(|found| found != stable),
                CreateTableKind::Normal(_) => false,
            };
            if state.tables.named(&table.name).is_some_and(is_of_other) {
                return Err(Error::with(Code::OtherStable, &table.name));
            }
            if table.if_not_exists {
                continue;
            }
            return Err(Error::with(Code::TableExists, &table.name));
        }
        check_new_name(state, context, &table.name)?;
        created.push(new_table(state, context.uid(overlay.next_table)?, table)?);
        overlay.next_table += 1;
    }
    if created.is_empty() { Ok(None) } else { meta(&MetaRecord::CreateTables(created)) }
}

fn new_table(state: &VnodeState, uid: TableUid, table: CreateTable) -> Result<NewTable> {
    let kind = match table.kind {
        CreateTableKind::Child { stable, tags } => {
            let found = state.stables.get(stable).ok_or_else(|| no_stable(stable))?;
            tags::check_all(&found.schema, &tags)?;
            NewTableKind::Child { stable, schema_version: found.schema.version, tags: tags.into() }
        }
        CreateTableKind::Normal(schema) => {
            check_schema(&schema, None)?;
            NewTableKind::Normal { schema: Arc::new(schema) }
        }
    };
    Ok(NewTable { uid, name: table.name, kind, ttl_days: table.ttl_days, comment: table.comment })
}

/// What rows rest on; the finer rules are the parser's. `changed` is the column that an ALTER is about.
fn check_schema(schema: &TableSchema, changed: Option<&str>) -> Result<()> {
    let first = schema.columns.first();
    if !first.is_some_and(|c| c.id == ColumnId::TIMESTAMP && c.data_type == DataType::Timestamp) {
        return Err(Error::of(Code::FirstColumn));
    }
    limits::check_columns(schema.columns.iter().map(ColumnDef::named), changed)?;
    schema.check_key()?;
    let mut names = HashSet::new();
    let mut ids = HashSet::new();
    let is_new = |column: &ColumnDef| names.insert(column.name.clone()) && ids.insert(column.id);
    if schema.columns.iter().all(is_new) { Ok(()) } else { Err(Error::of(Code::DuplicateColumn)) }
}

pub(crate) fn drop_tables(state: &VnodeState, tables: Vec<DropTable>) -> Result<Option<Checked>> {
    let mut dropped: Vec<DroppedTable> = Vec::new();
    for table in tables {
        match state.tables.named(&table.name) {
            Some(entry) if dropped.iter().any(|known| known.uid == entry.info.uid) => {}
            Some(entry) => {
                dropped.push(DroppedTable { uid: entry.info.uid, name: table.name, stable: entry.stable() });
            }
            None if table.if_exists => {}
            None => return Err(Error::with(Code::TableNotExist, &table.name)),
        }
    }
    if dropped.is_empty() { Ok(None) } else { meta(&MetaRecord::DropTables(dropped)) }
}

pub(crate) fn alter_table(state: &VnodeState, name: &str, change: TableChange) -> Result<Option<Checked>> {
    let entry = state.tables.named(name).ok_or_else(|| Error::with(Code::TableNotExist, name))?;
    match (&entry.info.kind, change) {
        (TableKind::Child { stable, .. }, TableChange::SetTags(values)) => {
            set_tags(state, entry, *stable, values)
        }
        (_, TableChange::Options { comment, ttl_days }) => {
            let info = &entry.info;
            meta(&MetaRecord::AlterTable {
                uid: info.uid,
                name: info.name.clone(),
                schema: None,
                ttl_days: ttl_days.unwrap_or(info.ttl_days),
                comment: comment.or_else(|| info.comment.clone()),
                change: SchemaChange::Options,
            })
        }
        (TableKind::Child { .. }, TableChange::DropColumn { .. }) => Err(Error::of(Code::TableActionInvalid)),
        (TableKind::Child { .. }, _) | (TableKind::Normal { .. }, TableChange::SetTags(_)) => {
            Err(Error::of(Code::InvalidAlter))
        }
        (TableKind::Normal { schema }, change) => {
            let (schema, change) = changed(schema, change)?;
            let info = &entry.info;
            meta(&MetaRecord::AlterTable {
                uid: info.uid,
                name: info.name.clone(),
                schema: Some(Arc::new(schema)),
                ttl_days: info.ttl_days,
                comment: info.comment.clone(),
                change,
            })
        }
    }
}

fn set_tags(
    state: &VnodeState,
    entry: &TableEntry,
    stable: TableUid,
    values: Vec<(String, Value)>,
) -> Result<Option<Checked>> {
    let found = state.stables.get(stable).ok_or_else(|| no_stable(stable))?;
    let TableKind::Child { tags: current, .. } = &entry.info.kind else {
        return Err(Error::of(Code::InvalidAlter));
    };
    let mut tags = state.stables.arrange(stable, current, entry.tags_schema, found.schema.version).to_vec();
    let mut changes = Vec::with_capacity(values.len());
    for (name, value) in values {
        let (at, tag) = found.schema.tag(&name).ok_or_else(|| Error::with(Code::InvalidAlter, &name))?;
        tags::check(tag, &value)?;
        if let Some(place) = tags.get_mut(at) {
            *place = value.clone();
        }
        changes.push(TagChange { id: tag.id, name, data_type: tag.data_type, value });
    }
    tags::check_all(&found.schema, &tags)?;
    meta(&MetaRecord::SetTags {
        uid: entry.info.uid,
        name: entry.info.name.clone(),
        stable,
        schema_version: found.schema.version,
        tags: tags.into(),
        changes,
    })
}

/// The schema after a change of a normal table.
fn changed(schema: &TableSchema, change: TableChange) -> Result<(TableSchema, SchemaChange)> {
    let mut new = schema.clone();
    new.version = SchemaVersion(schema.version.0.saturating_add(1));
    let missing = |name: &str| Error::with(Code::InvalidColumn, name);
    let change = match change {
        TableChange::AddColumn { name, data_type, encoding, compression, level } => {
            if schema.column(&name).is_some() {
                return Err(Error::with(Code::DuplicateColumn, &name));
            }
            let mut column = ColumnDef::column(schema.next_column_id, name, data_type);
            let storage_given = encoding.is_some() || compression.is_some() || level.is_some();
            column.encoding = encoding.or(column.encoding);
            column.compression = compression.or(column.compression);
            column.level = level.or(column.level);
            new.next_column_id = ColumnId(schema.next_column_id.0.checked_add(1).ok_or_else(|| {
                Error::of(Code::TooManyColumns) // ids are never reused
            })?);
            new.columns.push(column.clone());
            SchemaChange::AddColumn { column, storage_given }
        }
        TableChange::DropColumn { name } => {
            let (at, column) = schema.column(&name).ok_or_else(|| missing(&name))?;
            if column.id == ColumnId::TIMESTAMP {
                return Err(Error::of(Code::AlterTimestamp));
            }
            if column.is_key {
                return Err(Error::of(Code::KeyChange));
            }
            if schema.columns.len() <= 2 {
                return Err(Error::of(Code::NothingLeft));
            }
            new.columns.remove(at);
            SchemaChange::DropColumn { name }
        }
        TableChange::ModifyColumn { name, data_type } => {
            let (at, column) = schema.column(&name).ok_or_else(|| missing(&name))?;
            if column.is_key {
                return Err(Error::of(Code::KeyChange));
            }
            if !column.data_type.widens_to(data_type) {
                return Err(Error::of(Code::AlterLength));
            }
            if let Some(column) = new.columns.get_mut(at) {
                column.data_type = data_type;
            }
            SchemaChange::ModifyColumn { name, data_type }
        }
        TableChange::ModifyStorage { name, storage } => {
            let (at, column) = schema.column(&name).ok_or_else(|| missing(&name))?;
            storage.check(column.data_type)?;
            if let Some(column) = new.columns.get_mut(at) {
                storage.apply(column);
            }
            let ColumnStorage { encoding, compression, level } = storage;
            SchemaChange::Storage { name, encoding, compression, level }
        }
        TableChange::RenameColumn { name, new_name } => {
            let (at, _) = schema.column(&name).ok_or_else(|| missing(&name))?;
            if schema.column(&new_name).is_some() {
                return Err(Error::with(Code::DuplicateColumn, &new_name));
            }
            if let Some(column) = new.columns.get_mut(at) {
                column.name.clone_from(&new_name);
            }
            SchemaChange::RenameColumn { name, new_name }
        }
        TableChange::SetTags(_) | TableChange::Options { .. } => return Err(Error::of(Code::InvalidAlter)),
    };
    let changed = match &change {
        SchemaChange::AddColumn { column, .. } => Some(column.name.as_str()),
        SchemaChange::ModifyColumn { name, .. } => Some(name.as_str()),
        _ => None,
    };
    check_schema(&new, changed)?;
    Ok((new, change))
}
