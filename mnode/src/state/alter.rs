//! What a definition of a super table must satisfy, and what ALTER STABLE makes of it: a pure function from schema and
//! change to schema or error.

use std::collections::BTreeSet;

use model::{
    Code, ColumnDef, ColumnId, DataType, Error, NCHAR_CHARS_MAX, NCHAR_TAG_CHARS_MAX, Result, SchemaVersion,
    TableSchema, VARCHAR_BYTES_MAX, VARCHAR_TAG_BYTES_MAX, limits,
};

use crate::spec::{ColumnSpec, StableChange};

const COLUMNS_MIN: usize = 2;
const COLUMN_NAME_BYTES_MAX: usize = 64;
const COMMENT_BYTES_MAX: usize = 1_024;

/// The first schema of a new super table.
pub(super) fn new_schema(columns: &[ColumnSpec], tags: &[ColumnSpec]) -> Result<TableSchema> {
    if columns.first().is_none_or(|c| c.data_type != DataType::Timestamp) {
        return Err(Error::of(Code::FirstColumn));
    }
    if columns.len() < COLUMNS_MIN {
        return Err(Error::of(Code::ColumnCount));
    }
    let mut names = BTreeSet::new();
    for spec in columns.iter().chain(tags) {
        check_column_name(&spec.name)?;
        if !names.insert(&spec.name) {
            return Err(Error::with(Code::DuplicateColumn, &spec.name));
        }
    }
    let named = |specs: &[ColumnSpec]| specs.iter().map(|s| (s.name.clone(), s.data_type)).collect();
    let mut schema = TableSchema::new(named(columns), named(tags));
    for (column, spec) in schema.columns.iter_mut().zip(columns) {
        *column = spec.column(column.id);
    }
    schema.check_key()?;
    check_sizes(&schema, None)?;
    Ok(schema)
}

/// The schema after `change`. A comment leaves it as it is, version too.
pub(super) fn altered(schema: &TableSchema, change: &StableChange) -> Result<TableSchema> {
    let mut next = schema.clone();
    match change {
        StableChange::AddColumn(spec) => {
            check_new_name(schema, &spec.name)?;
            if spec.is_key {
                return Err(Error::of(Code::KeyChange));
            }
            let column = spec.column(take_id(&mut next)?);
            next.columns.push(column);
        }
        StableChange::DropColumn(name) => {
            let (at, column) = column_at(schema, name)?;
            if at == 0 {
                return Err(Error::of(Code::PrimaryTimestampDrop));
            }
            if column.is_key {
                return Err(Error::of(Code::KeyChange));
            }
            if schema.columns.len() <= COLUMNS_MIN {
                return Err(Error::of(Code::NothingLeft));
            }
            next.columns.remove(at);
        }
        StableChange::ModifyColumn { name, data_type } => {
            let (at, column) = column_at(schema, name)?;
            if column.is_key {
                return Err(Error::of(Code::KeyChange));
            }
            widen(column, *data_type, next.columns.get_mut(at))?;
        }
        StableChange::ModifyStorage { name, storage } => {
            let (at, column) = column_at(schema, name)?;
            storage.check(column.data_type)?;
            if let Some(column) = next.columns.get_mut(at) {
                storage.apply(column);
            }
        }
        StableChange::RenameColumn { .. } => {
            return Err(Error::text(Code::InvalidAlter, "Rename column only available for normal table"));
        }
        StableChange::AddTag(spec) => {
            check_new_name(schema, &spec.name)?;
            let tag = spec.tag(take_id(&mut next)?);
            next.tags.push(tag);
        }
        StableChange::DropTag(name) => {
            let (at, _) = tag_at(schema, name)?;
            if schema.tags.len() == 1 {
                return Err(Error::text(Code::InvalidAlter, "the last tag cannot be dropped"));
            }
            next.tags.remove(at);
        }
        StableChange::ModifyTag { name, data_type } => {
            let (at, tag) = tag_at(schema, name)?;
            widen(tag, *data_type, next.tags.get_mut(at))?;
        }
        StableChange::RenameTag { name, new_name } => {
            let (at, _) = schema.tag(name).ok_or_else(|| Error::with(Code::TagNotExist, name))?;
            check_new_name(schema, new_name)?;
            if let Some(tag) = next.tags.get_mut(at) {
                tag.name.clone_from(new_name);
            }
        }
        StableChange::Comment(text) => {
            check_comment(Some(text))?;
            return Ok(next);
        }
    }
    check_sizes(&next, changed(change))?;
    next.version = SchemaVersion(schema.version.0.saturating_add(1));
    Ok(next)
}

/// The column or tag that may make a table too large.
fn changed(change: &StableChange) -> Option<&str> {
    match change {
        StableChange::AddColumn(spec) | StableChange::AddTag(spec) => Some(&spec.name),
        StableChange::ModifyColumn { name, .. } | StableChange::ModifyTag { name, .. } => Some(name),
        _ => None,
    }
}

pub(super) fn check_comment(comment: Option<&String>) -> Result<()> {
    if comment.is_some_and(|c| c.len() > COMMENT_BYTES_MAX) {
        return Err(Error::of(Code::CommentTooLong));
    }
    Ok(())
}

fn column_at<'a>(schema: &'a TableSchema, name: &str) -> Result<(usize, &'a ColumnDef)> {
    schema.column(name).ok_or_else(|| Error::with(Code::InvalidColumn, name))
}

fn tag_at<'a>(schema: &'a TableSchema, name: &str) -> Result<(usize, &'a ColumnDef)> {
    schema.tag(name).ok_or_else(|| Error::with(Code::InvalidTag, name))
}

fn check_column_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > COLUMN_NAME_BYTES_MAX {
        return Err(Error::with(Code::InvalidIdentifier, name));
    }
    Ok(())
}

/// Columns and tags share one space of names; the code tells which of them has it.
fn check_new_name(schema: &TableSchema, name: &str) -> Result<()> {
    check_column_name(name)?;
    if schema.tag(name).is_some() {
        return Err(Error::with(Code::TagExists, name));
    }
    if schema.column(name).is_some() {
        return Err(Error::with(Code::ColumnExists, name));
    }
    Ok(())
}

fn take_id(schema: &mut TableSchema) -> Result<ColumnId> {
    let id = schema.next_column_id;
    let next = id.0.checked_add(1).ok_or_else(|| {
        Error::with(Code::TooManyColumns, "every column number of this super table has been used once")
    })?;
    schema.next_column_id = ColumnId(next);
    Ok(id)
}

fn widen(column: &ColumnDef, to: DataType, place: Option<&mut ColumnDef>) -> Result<()> {
    if !column.data_type.widens_to(to) {
        return Err(Error::of(Code::AlterLength));
    }
    if let Some(column) = place {
        column.data_type = to;
    }
    Ok(())
}

/// `changed` is what an ALTER is about.
fn check_sizes(schema: &TableSchema, changed: Option<&str>) -> Result<()> {
    for column in &schema.columns {
        check_length(column, VARCHAR_BYTES_MAX, NCHAR_CHARS_MAX)?;
    }
    for tag in &schema.tags {
        check_length(tag, VARCHAR_TAG_BYTES_MAX, NCHAR_TAG_CHARS_MAX)?;
    }
    limits::check_columns(schema.columns.iter().map(ColumnDef::named), changed)?;
    limits::check_tags(schema.tags.iter().map(ColumnDef::named), changed)
}

fn check_length(column: &ColumnDef, varchar_max: u16, nchar_max: u16) -> Result<()> {
    let fits = match column.data_type {
        DataType::Varchar(n) | DataType::Varbinary(n) | DataType::Geometry(n) => {
            (1..=varchar_max).contains(&n)
        }
        DataType::NChar(n) => (1..=nchar_max).contains(&n),
        _ => true,
    };
    if fits { Ok(()) } else { Err(Error::with(Code::ColumnLength, &column.name)) }
}
