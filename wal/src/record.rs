use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::segment::Segment;
use crate::{Kind, Result, Version};

/// Names a schema: who owns it (a table, a super table; the log does not care) and which version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaKey {
    /// Id of the owner.
    pub owner: u64,
    /// Version of the owner's schema.
    pub version: u32,
}

/// A schema as the log stores it: opaque bytes under a key. The bytes of one key never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaBlock {
    /// The key.
    pub key: SchemaKey,
    /// Whatever a reader needs to decode bodies that name this key.
    pub bytes: Bytes,
}

/// A record to append. Its version follows from its place in the batch.
#[derive(Debug, Clone)]
pub struct NewRecord {
    /// Raft term.
    pub term: u64,
    /// Receive time at the leader, nanoseconds since the epoch. Never below that of the record before it.
    pub time_ns: i64,
    /// What the body is.
    pub kind: Kind,
    /// Free for the owner of the log; stored and handed back.
    pub flags: u8,
    /// The body.
    pub body: Bytes,
    /// The schema blocks that a reader needs for this body. Each is written once per segment, before the first record
    /// of that segment which names it.
    pub schemas: Vec<SchemaBlock>,
}

/// A record as read back, its header and body verified.
#[derive(Clone)]
pub struct Record {
    /// Position in the log.
    pub version: Version,
    /// Raft term.
    pub term: u64,
    /// Receive time at the leader, nanoseconds since the epoch.
    pub time_ns: i64,
    /// What the body is.
    pub kind: Kind,
    /// As appended.
    pub flags: u8,
    /// The body, starting on 64 bytes: a slice of the reader's buffer, not a copy. It keeps that whole buffer (256 KiB
    /// or the record's size) alive; copy it out where a small body is kept for long.
    pub body: Bytes,
    pub(crate) segment: Arc<Segment>,
}

impl Record {
    /// The schema stored under `key` in this record's own segment; none if the writer did not name it there. Reads the
    /// block from disk: keep what you decoded from it.
    ///
    /// # Errors
    /// I/O errors and damage of that block.
    pub fn schema(&self, key: SchemaKey) -> Result<Option<Bytes>> {
        self.segment.schema(key)
    }

    /// First version of the segment that holds this record. Decoded schemas may be cached under (segment, key).
    #[must_use]
    pub fn segment_first(&self) -> Version {
        self.segment.first()
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("version", &self.version)
            .field("term", &self.term)
            .field("time_ns", &self.time_ns)
            .field("kind", &self.kind)
            .field("flags", &self.flags)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
