//! What a shard is asked to change. Names are resolved by the shard itself, since only it knows which tables exist at
//! the moment of the change.

use model::{
    ColumnId, ColumnStorage, Compression, ConsumerId, DataType, Encoding, Epoch, Level, Origin, StableInfo,
    TableSchema, TableUid, TopicId, Value, Version,
};
use proto::write::WriteBlock;
use query::source::TimeRange;

use crate::record::{SchemaChange, TopicDefinition};

/// Rows of one request. All of them are written, or none.
#[derive(Clone, Debug, Default)]
pub struct WriteRequest {
    /// Blocks, as they came: nothing in them is trusted.
    pub blocks: Vec<WriteBlock>,
    /// Written by a replication from another cluster, so that consumers may leave it out.
    pub replicated: bool,
    /// The instant, in nanoseconds since the epoch, as of which times are checked against KEEP: one for all parts of a
    /// statement, so that a row at the edge is not old for one shard and young enough for another. `None`: the shard's
    /// own now, which is the receive time of the record in either case.
    pub as_of_ns: Option<i64>,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Where it stands in the log.
    pub version: Version,
    /// Distinct keys written.
    pub affected_rows: u64,
}

/// One table of CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// Name, in the case that counts.
    pub name: String,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// Child or normal.
    pub kind: CreateTableKind,
    /// TTL, 0 for ever.
    pub ttl_days: u32,
    /// COMMENT
    pub comment: Option<String>,
}

/// What kind of table to create.
#[derive(Clone, Debug, PartialEq)]
pub enum CreateTableKind {
    /// USING a super table.
    Child {
        /// The super table.
        stable: TableUid,
        /// All tags in its order; those not given are NULL.
        tags: Vec<Value>,
    },
    /// On its own. The parser has checked the definition.
    Normal(TableSchema),
}

/// One table of DROP TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTable {
    /// Name.
    pub name: String,
    /// IF EXISTS
    pub if_exists: bool,
}

/// ALTER TABLE of a child or normal table.
#[derive(Clone, Debug, PartialEq)]
pub enum TableChange {
    /// ADD COLUMN, normal tables only.
    AddColumn {
        /// Name.
        name: String,
        /// Type.
        data_type: DataType,
        /// ENCODE, where given.
        encoding: Option<Encoding>,
        /// COMPRESS, where given.
        compression: Option<Compression>,
        /// LEVEL, where given.
        level: Option<Level>,
    },
    /// DROP COLUMN, normal tables only.
    DropColumn {
        /// Which.
        name: String,
    },
    /// MODIFY COLUMN, normal tables only: a longer VARCHAR or NCHAR.
    ModifyColumn {
        /// Which.
        name: String,
        /// New type.
        data_type: DataType,
    },
    /// MODIFY COLUMN .. ENCODE, COMPRESS, LEVEL, normal tables only.
    ModifyStorage {
        /// Which.
        name: String,
        /// What is named.
        storage: ColumnStorage,
    },
    /// RENAME COLUMN, normal tables only.
    RenameColumn {
        /// From.
        name: String,
        /// To.
        new_name: String,
    },
    /// SET TAG, children only: one or several.
    SetTags(Vec<(String, Value)>),
    /// COMMENT or TTL; `None` keeps what is.
    Options {
        /// COMMENT
        comment: Option<String>,
        /// TTL
        ttl_days: Option<u32>,
    },
}

/// A change of child and normal tables.
#[derive(Clone, Debug, PartialEq)]
pub enum TableDdl {
    /// CREATE TABLE of children and normal tables that live here. What is wrong with the first that cannot be made; then
    /// none is.
    Create(Vec<CreateTable>),
    /// DROP TABLE. [`Code::TableNotExist`](model::Code::TableNotExist) for one that is not there and not `if_exists`; then
    /// none is dropped.
    Drop(Vec<DropTable>),
    /// ALTER TABLE of a child or normal table. No such table, or a change that it cannot have.
    Alter {
        /// Which.
        name: String,
        /// How.
        change: TableChange,
    },
}

/// DELETE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    /// Whose rows.
    pub target: DeleteTarget,
    /// Which, both ends included; may be wider than what is there.
    pub range: TimeRange,
    /// Who deletes.
    pub origin: Origin,
}

/// Whose rows a DELETE takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteTarget {
    /// A child or normal table.
    Table(String),
    /// A super table with all its children.
    Stable(TableUid),
    /// Those children of a super table that a condition on tags found.
    Children {
        /// The super table.
        stable: TableUid,
        /// They; what is dropped meanwhile is passed over.
        tables: Vec<TableUid>,
    },
}

/// What a DELETE did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// Where it stands in the log.
    pub version: Version,
    /// Rows that were there.
    pub affected_rows: u64,
}

/// A change of a super table, by the mnode. Idempotent: what is applied already makes no second record.
#[derive(Clone, Debug, PartialEq)]
pub enum StableDdl {
    /// CREATE STABLE
    Create(StableInfo),
    /// ALTER STABLE
    Alter {
        /// The super table after the change; its schema version says whether it is applied already. A change that
        /// leaves the schema as it is (COMMENT) is applied where the definition differs.
        stable: StableInfo,
        /// What changed.
        change: SchemaChange,
    },
    /// DROP STABLE with all its children.
    Drop {
        /// Which.
        uid: TableUid,
    },
}

/// A change of a topic, by the mnode. Idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicDdl {
    /// CREATE TOPIC
    Create(TopicDefinition),
    /// RELOAD TOPIC: readers switch at this record.
    Reload(TopicDefinition),
    /// DROP TOPIC with its groups and offsets; their readers end.
    Drop(TopicId),
}

impl TopicDdl {
    /// Which topic, and whether it goes.
    pub(crate) const fn topic(&self) -> (TopicId, bool) {
        match self {
            Self::Create(topic) | Self::Reload(topic) => (topic.id, false),
            Self::Drop(id) => (*id, true),
        }
    }
}

/// Who reads this vgroup for a (topic, group), by the mnode. Idempotent; an epoch below the one in force changes nothing
/// and is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerChange {
    /// Topic.
    pub topic: TopicId,
    /// Group.
    pub group: String,
    /// Fencing token.
    pub epoch: Epoch,
    /// The consumer; `None` when the group has no members any more, which also forgets where `latest` was resolved.
    pub owner: Option<ConsumerId>,
}

/// A commit of an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// Topic.
    pub topic: TopicId,
    /// Group.
    pub group: String,
    /// Who commits.
    pub consumer: ConsumerId,
    /// Its token.
    pub epoch: Epoch,
    /// Next version to deliver. May go back; whether it is in range is checked by the client against what it has seen.
    pub offset: Version,
    /// Rises with each commit of the consumer: one that is not above the last is a retry that came late and changes
    /// nothing.
    pub sequence: u64,
    /// Also sets the vgroup's keep version to the offset, some time after the commit is answered.
    pub keep: bool,
}

/// A column that a write supplies, for messages.
pub(crate) fn column_name(schema: &TableSchema, id: ColumnId) -> String {
    schema.column_by_id(id).map_or_else(|| format!("#{id}"), |(_, column)| column.name.clone())
}
