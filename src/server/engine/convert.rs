//! The same thing in the words of the next crate: tree to metadata spec, metadata to shard.

use mnode::{StableChange, TopicInfo};
use model::{ColumnDef, ColumnId, Error, Result, TableSchema};
use query::ast;

/// A column of DDL as the metadata group takes it.
pub fn column_spec(column: ast::ColumnSpec) -> mnode::ColumnSpec {
    mnode::ColumnSpec {
        name: column.name,
        data_type: column.data_type,
        encoding: column.encoding,
        compression: column.compression,
        level: column.level,
        is_key: column.is_key,
    }
}

/// A change of a super table as the metadata group takes it.
///
/// # Errors
/// For what only tables have: SET TAG and TTL.
pub fn stable_change(change: ast::AlterTable) -> Result<StableChange> {
    use ast::AlterTable as From;
    Ok(match change {
        From::AddColumn(column) => StableChange::AddColumn(column_spec(column)),
        From::DropColumn(name) => StableChange::DropColumn(name),
        From::ModifyColumn { name, data_type } => StableChange::ModifyColumn { name, data_type },
        From::ModifyStorage { name, storage } => StableChange::ModifyStorage { name, storage },
        From::RenameColumn { name, new_name } => StableChange::RenameColumn { name, new_name },
        From::AddTag(tag) => StableChange::AddTag(column_spec(tag)),
        From::DropTag(name) => StableChange::DropTag(name),
        From::ModifyTag { name, data_type } => StableChange::ModifyTag { name, data_type },
        From::RenameTag { name, new_name } => StableChange::RenameTag { name, new_name },
        From::Options(ast::TableOptions { comment: Some(comment), ttl_days: None }) => {
            StableChange::Comment(comment)
        }
        From::Options(_) => return Err(Error::of(model::Code::InvalidTableOption)),
        From::SetTags(_) => return Err(Error::of(model::Code::InvalidAlter).hint("name a child table")),
    })
}

/// A change of a super table as its shards log it; `after` is the super table with the change made.
pub fn schema_change(change: &StableChange, after: &TableSchema) -> vnode::record::SchemaChange {
    use vnode::record::SchemaChange as To;
    let added = |columns: &[ColumnDef], spec: &mnode::ColumnSpec| {
        let found = columns.iter().rev().find(|column| column.name == spec.name).cloned();
        found.unwrap_or_else(|| ColumnDef::column(ColumnId(0), spec.name.clone(), spec.data_type))
    };
    match change {
        StableChange::AddColumn(spec) => To::AddColumn {
            column: added(&after.columns, spec),
            storage_given: spec.encoding.is_some() || spec.compression.is_some() || spec.level.is_some(),
        },
        StableChange::AddTag(spec) => To::AddTag { tag: added(&after.tags, spec) },
        StableChange::DropColumn(name) => To::DropColumn { name: name.clone() },
        StableChange::DropTag(name) => To::DropTag { name: name.clone() },
        StableChange::ModifyColumn { name, data_type } => {
            To::ModifyColumn { name: name.clone(), data_type: *data_type }
        }
        StableChange::ModifyStorage { name, storage } => To::Storage {
            name: name.clone(),
            encoding: storage.encoding,
            compression: storage.compression,
            level: storage.level,
        },
        StableChange::ModifyTag { name, data_type } => {
            To::ModifyTag { name: name.clone(), data_type: *data_type }
        }
        StableChange::RenameColumn { name, new_name } => {
            To::RenameColumn { name: name.clone(), new_name: new_name.clone() }
        }
        StableChange::RenameTag { name, new_name } => {
            To::RenameTag { name: name.clone(), new_name: new_name.clone() }
        }
        StableChange::Comment(_) => To::Options,
    }
}

/// A topic as its shards know it.
pub fn topic_definition(topic: &TopicInfo) -> vnode::record::TopicDefinition {
    let kind = match (&topic.kind, topic.stable) {
        (mnode::TopicKind::Query { .. }, _) => vnode::record::TopicKind::Query,
        (mnode::TopicKind::Stable(_), Some(stable)) => vnode::record::TopicKind::Stable { stable },
        (mnode::TopicKind::Stable(_), None) | (mnode::TopicKind::Database, _) => {
            vnode::record::TopicKind::Database
        }
    };
    vnode::record::TopicDefinition {
        id: topic.id,
        name: topic.name.clone(),
        kind,
        meta: match topic.meta {
            mnode::TopicMeta::Without => vnode::record::TopicMeta::Without,
            mnode::TopicMeta::With => vnode::record::TopicMeta::With,
            mnode::TopicMeta::Only => vnode::record::TopicMeta::Only,
        },
        definition: topic.definition.clone(),
        definition_version: topic.definition_version,
    }
}

/// WITH META, ONLY META or neither.
pub fn topic_meta(meta: ast::TopicMeta) -> mnode::TopicMeta {
    match meta {
        ast::TopicMeta::Without => mnode::TopicMeta::Without,
        ast::TopicMeta::With => mnode::TopicMeta::With,
        ast::TopicMeta::Only => mnode::TopicMeta::Only,
    }
}
