//! What the catalogue says of a database, a super table and a table: the shapes that the planner, the shards and the
//! command line pass to each other.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{DatabaseId, DatabaseOptions, TableSchema, TableUid, Value, Version, VgroupId};

/// A database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatabaseInfo {
    /// Never reused.
    pub id: DatabaseId,
    /// In the case it was given.
    pub name: String,
    /// As given at creation and altered since.
    pub options: DatabaseOptions,
    /// In slot order: a table lives in `vgroups[vgroup_slot(name, vgroups.len())]`.
    pub vgroups: Vec<VgroupId>,
    /// Nanoseconds since the epoch.
    pub create_time_ns: i64,
}

/// A super table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StableInfo {
    /// Given out by the mnode.
    pub uid: TableUid,
    /// In the case it was given.
    pub name: String,
    /// Columns and tags now.
    pub schema: Arc<TableSchema>,
    /// Nanoseconds since the epoch.
    pub create_time_ns: i64,
    /// COMMENT.
    pub comment: Option<String>,
}

/// A child or normal table as its vnode knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Given out by the vnode.
    pub uid: TableUid,
    /// In the case it was given.
    pub name: String,
    /// Child with its tags, or normal with its schema.
    pub kind: TableKind,
    /// Nanoseconds since the epoch.
    pub create_time_ns: i64,
    /// Log version that created it: older rows under its name are of another table.
    pub created_at: Version,
    /// Days to live, 0 for ever.
    pub ttl_days: u32,
    /// COMMENT.
    pub comment: Option<String>,
}

/// What kind of table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TableKind {
    /// Of a super table, whose schema it has.
    Child {
        /// The super table.
        stable: TableUid,
        /// In the order of the super table's tags.
        tags: Arc<[Value]>,
    },
    /// On its own.
    Normal {
        /// Its columns; no tags.
        schema: Arc<TableSchema>,
    },
}
