//! What a subscription is asked and what it gives.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use model::{ConsumerId, DataType, Epoch, TopicId, Version};

/// Who reads what, from where, and how much at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribeRequest {
    /// Topic.
    pub topic: TopicId,
    /// Group.
    pub group: String,
    /// Consumer.
    pub consumer: ConsumerId,
    /// Its token: reads are refused as soon as it is not the owner's any more.
    pub epoch: Epoch,
    /// Where to start; where absent, the committed offset, else what `reset` says.
    pub position: Option<Version>,
    /// For a group without an offset.
    pub reset: OffsetReset,
    /// Limits and options.
    pub options: ReadOptions,
}

/// Where a group without a committed offset starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// The first version kept.
    Earliest,
    /// What is written from now on; remembered until the group's last member leaves.
    #[default]
    Latest,
    /// An error.
    None,
}

/// How much a batch carries, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// `min.poll.rows`: a batch ends with the record that reaches it, or 16 MiB.
    pub min_poll_rows: u64,
    /// `msg.enable.batchmeta`: consecutive events come in one batch.
    pub batch_meta: bool,
    /// `msg.consume.excluded`: leave out writes that a replication made.
    pub exclude_replicated: bool,
    /// `enable.replay`: one write a batch, for the caller to pace by [`Batch::written_ns`].
    pub replay: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { min_poll_rows: 4_096, batch_meta: false, exclude_replicated: false, replay: false }
    }
}

/// Outcome of one look at the log.
#[derive(Clone, Debug)]
pub enum Read {
    /// Something to deliver.
    Batch(Box<Batch>),
    /// All that is applied has been read and there is nothing to deliver; [`super::Subscription::ready`] waits for more.
    CaughtUp(Range),
    /// The table that the topic reads is not here, or not any more: the reader stands still. [`super::Subscription::ready`]
    /// waits for a change.
    NoTable(Range),
    /// The deadline passed before anything was found; the position has advanced.
    Timeout(Range),
}

/// Where a reader stands in the log, all of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Next version to read.
    pub position: Version,
    /// First version that can be read.
    pub first: Version,
    /// Version after the last one applied.
    pub end: Version,
}

/// What one message to a consumer carries. Ends at the end of a record.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Rows, events, or both.
    pub kind: BatchKind,
    /// Position before it.
    pub begin: Version,
    /// Position behind it: what a commit stores.
    pub next: Version,
    /// Rows.
    pub blocks: Vec<Block>,
    /// Events as JSON text (tmq.md 2.5); empty for [`BatchKind::Data`].
    pub json: String,
    /// Versions that retention took before this batch, the second not included; `None` where there are none. For a group
    /// that starts at the earliest record this counts from the log's very first.
    pub skipped: Option<(Version, Version)>,
    /// Receive time of the last write in it, nanoseconds since the epoch; 0 where there is none.
    pub written_ns: i64,
    /// The records that it was made of, in order.
    pub records: Vec<RecordRun>,
    /// The log as this batch was read.
    pub range: Range,
}

/// A record's share of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRun {
    /// The record.
    pub version: Version,
    /// How many of the batch's rows, counted through all its blocks, are this record's: none where it gave events alone.
    pub rows: usize,
}

/// Kind of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// Rows.
    Data,
    /// One event, or several.
    TableMeta,
    /// Rows, and the children that their writes made.
    Metadata,
}

/// Rows of one table (database and stable topics), or of all (query topics).
#[derive(Clone, Debug)]
pub struct Block {
    /// The table; `None` for query topics.
    pub table: Option<Arc<str>>,
    /// Names and types. Blocks of one shape share it: compare the pointer.
    pub schema: Arc<BlockSchema>,
    /// Values, in the order of the schema. Slices of the log's own buffers where nothing had to be computed.
    pub columns: Vec<ArrayRef>,
}

/// Names and types of a block's columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockSchema {
    /// In order.
    pub columns: Vec<(String, DataType)>,
}

impl Block {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.len())
    }
}

impl Batch {
    /// Number of rows over all blocks.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.blocks.iter().map(Block::rows).sum()
    }
}
