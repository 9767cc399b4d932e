//! What poll hands out.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use model::Precision;

use super::state::{Key, TopicInfo};
use crate::decode::{Column, Layout};
use crate::row::{Row, rows_of};

/// What a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageKind {
    /// Rows.
    Data,
    /// Events of tables, as JSON.
    TableMeta,
    /// Rows, and the creation of tables that they brought into being.
    Metadata,
}

impl MessageKind {
    /// TMQ's number of it.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Data => 1,
            Self::TableMeta => 2,
            Self::Metadata => 3,
        }
    }
}

/// Versions that retention took before the group read them, `from..to`: the log goes on without them. A new group that
/// starts at the earliest record is told so too when that is no longer the log's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// First of them.
    pub from: i64,
    /// First version behind them.
    pub to: i64,
}

/// One message: rows or events of one vgroup of one topic, in the order they were written.
#[derive(Clone)]
pub struct Message {
    pub(crate) topic: Arc<TopicInfo>,
    pub(crate) key: Key,
    pub(crate) epoch: u64,
    pub(crate) begin: u64,
    pub(crate) next: u64,
    pub(crate) kind: MessageKind,
    pub(crate) blocks: Vec<Block>,
    pub(crate) json: Option<String>,
    pub(crate) skipped: Option<Skipped>,
    pub(crate) log_end: u64,
    pub(crate) written_ns: i64,
    pub(crate) records: Vec<RecordRun>,
}

/// A log record's share of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordRun {
    pub(crate) version: u64,
    /// Rows that are its own, counted through all blocks.
    pub(crate) rows: usize,
}

impl Message {
    /// Topic it was read from.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic.name
    }

    /// Database of the topic.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.topic.database
    }

    /// Tick length of the database's timestamps.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.topic.precision
    }

    /// Vgroup it was read from. Offsets of two vgroups have nothing to do with each other.
    #[must_use]
    pub fn vgroup(&self) -> u32 {
        self.key.vgroup
    }

    /// The assignment under which it was read: the token that its commit is fenced with. Another one than that of the message
    /// before means that the vgroup may have been another member's in between.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Position before it: seeking there delivers it again.
    #[must_use]
    pub fn begin(&self) -> i64 {
        offset(self.begin)
    }

    /// Position behind it: what committing it stores.
    #[must_use]
    pub fn next(&self) -> i64 {
        offset(self.next)
    }

    /// TMQ's offset of a message: where it begins, for events where it ends.
    #[must_use]
    pub fn offset(&self) -> i64 {
        if self.kind == MessageKind::TableMeta { self.next() } else { self.begin() }
    }

    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> MessageKind {
        self.kind
    }

    /// Its rows. Blocks of a query topic all have the topic's columns; a block of a stable or database topic is of one
    /// table and has only the columns that the write supplied.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Its events as JSON, where it has any.
    #[must_use]
    pub fn json(&self) -> Option<&str> {
        self.json.as_deref()
    }

    /// Number of rows.
    #[must_use]
    pub fn rows_len(&self) -> usize {
        self.blocks.iter().map(|block| block.batch.num_rows()).sum()
    }

    /// The version of the log record that each row is from, in the order of [`Self::rows`]. Rows of one write of one vgroup
    /// share theirs; seeking there delivers them again.
    pub fn row_versions(&self) -> impl Iterator<Item = i64> {
        self.records.iter().flat_map(|record| std::iter::repeat_n(offset(record.version), record.rows))
    }

    /// The version of the last log record in it: of an event, where that is the message's only one.
    #[must_use]
    pub fn last_version(&self) -> i64 {
        self.records.last().map_or_else(|| self.begin(), |record| offset(record.version))
    }

    /// Row after row, through all blocks.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.blocks.iter().flat_map(Block::rows)
    }

    /// What retention took just before this message; reading fell too far behind.
    #[must_use]
    pub fn skipped(&self) -> Option<Skipped> {
        self.skipped
    }

    /// Versions of the log behind this message when it was sent: how far the consumer is behind the writers.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.log_end.saturating_sub(self.next)
    }

    /// When the server received the last write in it, in nanoseconds since the epoch.
    #[must_use]
    pub fn written_ns(&self) -> i64 {
        self.written_ns
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic())
            .field("vgroup", &self.vgroup())
            .field("begin", &self.begin)
            .field("next", &self.next)
            .field("kind", &self.kind)
            .field("rows", &self.rows_len())
            .finish_non_exhaustive()
    }
}

/// Versions stay far below 2^63.
pub(crate) fn offset(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

/// Rows of one schema; of one table in stable and database topics.
#[derive(Clone, Debug)]
pub struct Block {
    pub(crate) table: Option<String>,
    pub(crate) layout: Layout,
    pub(crate) batch: RecordBatch,
}

impl Block {
    /// The table; `None` in query topics, which select `tbname` if they want it.
    #[must_use]
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// Names and types.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.layout.columns
    }

    /// The rows as columns.
    #[must_use]
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Row after row.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        rows_of(&self.layout.columns, &self.batch)
    }
}
