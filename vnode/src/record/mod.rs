//! Bodies of the log's records, each kind with its own file, encoding and round-trip test.
//!
//! A Data record has a layout of its own (`data`), because its buffers are handed on without a copy; everything else
//! is small and postcard behind a format byte. Bytes come from the log, which has verified them; they are checked all
//! the same, since a fault must show as an error and never as a panic.
//!
//! `docs/data-record.md` draws the Data body, `docs/decisions/0002-what-a-data-record-holds.md` says why it is so.

mod bytes;
pub mod data;
pub mod delete;
pub mod meta;
pub mod offset;
pub mod owner;
pub mod schema;
mod small;
pub mod topic;

pub use data::{BlockHeader, DataHeader, DataRecord, WriteHeader, WriteRecord};
pub use delete::{DeleteRecord, DeleteScope, DeletedTable};
pub use meta::{DroppedTable, MetaRecord, NewTable, NewTableKind, SchemaChange, TagChange};
pub use offset::OffsetRecord;
pub use owner::OwnerRecord;
pub use topic::{TopicDefinition, TopicKind, TopicMeta, TopicRecord};

/// Bit of a record's header flags: replication brought this Meta or Delete record. A Data record holds several writes and
/// says it of each in its body.
pub const REPLICATED: u8 = 1;

/// Why bytes are not the body they should be, or a body cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The bytes end too early.
    #[error("record body is cut short: at={at} have={have}")]
    Truncated {
        /// Where more was needed.
        at: usize,
        /// Length of the body.
        have: usize,
    },
    /// A format number that this version does not know.
    #[error("record body has an unknown format: format={0}")]
    Format(u8),
    /// Numbers that contradict each other.
    #[error("record body is not valid: {0}")]
    Invalid(&'static str),
    /// Columns that are no frame.
    #[error("rows of a record body: {0}")]
    Frame(#[from] proto::frame::FrameError),
    /// A small body that does not decode.
    #[error("record body does not decode: {0}")]
    Small(#[from] postcard::Error),
}

impl From<RecordError> for model::Error {
    fn from(e: RecordError) -> Self {
        Self::with(model::Code::Damaged, &e).caused_by(e)
    }
}
