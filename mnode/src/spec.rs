//! What callers hand in: statements and subscriptions, resolved from SQL or the wire but not yet checked.

use model::{
    ColumnDef, ColumnId, ColumnStorage, Compression, ConsumerId, DataType, DatabaseOptions, Encoding, Level,
    StoredLevel,
};
use serde::{Deserialize, Serialize};

/// CREATE DATABASE. Ranges of the options are the parser's to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseSpec {
    /// Name, in the case that counts.
    pub name: String,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Options; those not given are defaults.
    pub options: DatabaseOptions,
}

/// A column or tag in DDL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredSpec", into = "StoredSpec")]
pub struct ColumnSpec {
    /// Name.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// ENCODE
    pub encoding: Option<Encoding>,
    /// COMPRESS
    pub compression: Option<Compression>,
    /// LEVEL
    pub level: Option<Level>,
    /// PRIMARY KEY or COMPOSITE KEY
    pub is_key: bool,
}

/// A column as commands hold it.
#[derive(Serialize, Deserialize)]
struct StoredSpec {
    name: String,
    data_type: DataType,
    encoding: Option<Encoding>,
    compression: Option<Compression>,
    level: StoredLevel,
}

impl From<ColumnSpec> for StoredSpec {
    fn from(spec: ColumnSpec) -> Self {
        let ColumnSpec { name, data_type, encoding, compression, level, is_key } = spec;
        Self { name, data_type, encoding, compression, level: StoredLevel::new(level, is_key) }
    }
}

impl From<StoredSpec> for ColumnSpec {
    fn from(stored: StoredSpec) -> Self {
        let StoredSpec { name, data_type, encoding, compression, level } = stored;
        Self { name, data_type, encoding, compression, level: level.level(), is_key: level.is_key() }
    }
}

impl ColumnSpec {
    /// With the type's default encoding, compression and level.
    #[must_use]
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self { name: name.into(), data_type, encoding: None, compression: None, level: None, is_key: false }
    }

    pub(crate) fn column(&self, id: ColumnId) -> ColumnDef {
        let mut column = ColumnDef::column(id, self.name.clone(), self.data_type);
        column.encoding = self.encoding.or(column.encoding);
        column.compression = self.compression.or(column.compression);
        column.level = self.level.or(column.level);
        column.is_key = self.is_key;
        column
    }

    pub(crate) fn tag(&self, id: ColumnId) -> ColumnDef {
        ColumnDef::tag(id, self.name.clone(), self.data_type)
    }
}

/// CREATE STABLE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StableSpec {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Data columns, the primary timestamp first.
    pub columns: Vec<ColumnSpec>,
    /// Tags.
    pub tags: Vec<ColumnSpec>,
    /// COMMENT
    pub comment: Option<String>,
}

/// What ALTER STABLE changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StableChange {
    /// ADD COLUMN
    AddColumn(ColumnSpec),
    /// DROP COLUMN
    DropColumn(String),
    /// MODIFY COLUMN: a longer VARCHAR or NCHAR
    ModifyColumn {
        /// Column.
        name: String,
        /// New type.
        data_type: DataType,
    },
    /// RENAME COLUMN: always refused for a super table, with its own code.
    RenameColumn {
        /// From.
        name: String,
        /// To.
        new_name: String,
    },
    /// ADD TAG
    AddTag(ColumnSpec),
    /// DROP TAG
    DropTag(String),
    /// MODIFY TAG
    ModifyTag {
        /// Tag.
        name: String,
        /// New type.
        data_type: DataType,
    },
    /// RENAME TAG
    RenameTag {
        /// From.
        name: String,
        /// To.
        new_name: String,
    },
    /// COMMENT
    Comment(String),
    /// MODIFY COLUMN .. ENCODE, COMPRESS, LEVEL
    ModifyStorage {
        /// Column.
        name: String,
        /// What is named.
        storage: ColumnStorage,
    },
}

/// What a topic reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicKind {
    /// AS SELECT: of one table.
    Query {
        /// Whether that is a super table, which replay allows over one vgroup only.
        of_stable: bool,
    },
    /// AS STABLE: rows of matching children. Holds the super table's name.
    Stable(String),
    /// AS DATABASE
    Database,
}

/// Which kinds of records a topic shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicMeta {
    /// Rows.
    #[default]
    Without,
    /// WITH META: rows and events.
    With,
    /// ONLY META: events.
    Only,
}

/// CREATE TOPIC, its statement already checked and compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicSpec {
    /// Name, literal.
    pub name: String,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Database of the table, super table or database that it reads.
    pub database: String,
    /// What it reads.
    pub kind: TopicKind,
    /// WITH META, ONLY META or neither.
    pub meta: TopicMeta,
    /// Statement text, for SHOW.
    pub sql: String,
    /// Row schema of a query topic as the JSON text of SHOW.
    pub schema_json: Option<String>,
    /// Compiled definition: opaque here, handed to the shards.
    pub definition: String,
}

/// RELOAD TOPIC, its statement already checked and compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadSpec {
    /// Name.
    pub name: String,
    /// IF EXISTS
    pub if_exists: bool,
    /// Database of the new statement's table: it must be the topic's.
    pub database: String,
    /// Whether the new statement reads a super table.
    pub of_stable: bool,
    /// Statement text.
    pub sql: String,
    /// Row schema as JSON text.
    pub schema_json: Option<String>,
    /// Compiled definition.
    pub definition: String,
}

/// DROP TOPIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropTopicSpec {
    /// Name.
    pub name: String,
    /// IF EXISTS
    pub if_exists: bool,
    /// FORCE: deletes the consumers that subscribe to it.
    pub force: bool,
}

/// DROP CONSUMER GROUP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropGroupSpec {
    /// Group.
    pub group: String,
    /// Topic.
    pub topic: String,
    /// IF EXISTS
    pub if_exists: bool,
    /// FORCE: deletes the members.
    pub force: bool,
}

/// A right that GRANT gives and REVOKE takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grant {
    /// SUBSCRIBE ON topic
    Subscribe(String),
    /// READ, WRITE or ALL on `db.*`, or on `*.*` where there is no name.
    Database {
        /// Database.
        name: Option<String>,
        /// Which accesses.
        access: Access,
    },
}

/// What a user may do with a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Query it and make topics of it.
    pub read: bool,
    /// Write rows and define tables.
    pub write: bool,
}

impl Access {
    /// Whether there is any.
    #[must_use]
    pub const fn any(self) -> bool {
        self.read || self.write
    }
}

/// Where a consumer starts in a vgroup without a committed offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OffsetReset {
    /// First version kept.
    Earliest,
    /// What is written from now on.
    #[default]
    Latest,
    /// Refuse to start.
    None,
}

impl OffsetReset {
    /// The parameter's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Latest => "latest",
            Self::None => "none",
        }
    }
}

/// Parameters of a consumer that the coordinator keeps: those it acts on, and those that SHOW CONSUMERS shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerParameters {
    /// `session.timeout.ms`, 6,000..=1,800,000.
    pub session_timeout_ms: u32,
    /// `max.poll.interval.ms`, at least 1,000.
    pub max_poll_interval_ms: u32,
    /// `enable.auto.commit` (shown).
    pub auto_commit: bool,
    /// `auto.commit.interval.ms` (shown).
    pub auto_commit_interval_ms: u32,
    /// `auto.offset.reset` (shown).
    pub offset_reset: OffsetReset,
    /// `msg.with.table.name` (shown).
    pub with_table_name: bool,
    /// `enable.replay`: narrows what may be subscribed.
    pub replay: bool,
}

impl Default for ConsumerParameters {
    fn default() -> Self {
        Self {
            session_timeout_ms: 12_000,
            max_poll_interval_ms: 300_000,
            auto_commit: true,
            auto_commit_interval_ms: 5_000,
            offset_reset: OffsetReset::Latest,
            with_table_name: false,
            replay: false,
        }
    }
}

/// A consumer as it introduces itself with each subscribe request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerSpec {
    /// Chosen at random by the client.
    pub id: ConsumerId,
    /// `group.id`
    pub group: String,
    /// `client.id`
    pub client_id: String,
    /// The session's user.
    pub user: String,
    /// The client's host.
    pub host: String,
    /// Address of the connection, for SHOW.
    pub end_point: String,
    /// Parameters.
    pub parameters: ConsumerParameters,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_a_key_have_the_bytes_that_they_always_had() {
        let mut spec = ColumnSpec::new("v", DataType::Int);
        let bytes = |spec: &ColumnSpec| postcard::to_stdvec(spec).unwrap();
        assert_eq!(bytes(&spec), [1, b'v', 3, 0, 0, 0]);
        spec.level = Some(Level::Low);
        assert_eq!(bytes(&spec), [1, b'v', 3, 0, 0, 1, 2]);
        spec.is_key = true;
        assert_eq!(bytes(&spec), [1, b'v', 3, 0, 0, 2, 1, 2]);
        assert_eq!(postcard::from_bytes::<ColumnSpec>(&bytes(&spec)).unwrap(), spec);
    }
}
