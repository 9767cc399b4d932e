//! The sparse index in memory: where in a segment a reader may start, and where the schema blocks are.

use std::collections::BTreeMap;

use crate::cursor::Block;
use crate::format::index::{IndexEntry, IndexFile};
use crate::{SchemaKey, Version};

#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    entries: Vec<IndexEntry>,
    schemas: BTreeMap<SchemaKey, u64>,
    /// Offset from which on the next block gets an entry.
    due: u64,
}

impl Index {
    /// Takes note of the next block.
    pub(crate) fn add(&mut self, block: &Block, index_bytes: u64) {
        if let Some(key) = block.schema_key() {
            self.schemas.entry(key).or_insert(block.offset);
        }
        if block.offset >= self.due {
            let (version, time_ns) = (block.header.version, block.header.time_ns);
            self.entries.push(IndexEntry { version, offset: block.offset, time_ns });
            self.due = block.offset.saturating_add(index_bytes);
        }
    }

    /// Forgets all that lies at or behind `end`.
    pub(crate) fn cut(&mut self, end: u64) {
        self.entries.retain(|entry| entry.offset < end);
        self.schemas.retain(|_, offset| *offset < end);
        self.due = end;
    }

    /// The last entry at or before `version`, and the one behind it.
    pub(crate) fn floor(&self, version: Version) -> Option<(IndexEntry, Option<IndexEntry>)> {
        let after = self.entries.partition_point(|entry| entry.version <= version);
        let floor = after.checked_sub(1).and_then(|at| self.entries.get(at)).copied()?;
        Some((floor, self.entries.get(after).copied()))
    }

    /// The last entry whose time lies before `time_ns`.
    pub(crate) fn before_time(&self, time_ns: i64) -> Option<IndexEntry> {
        let after = self.entries.partition_point(|entry| entry.time_ns < time_ns);
        after.checked_sub(1).and_then(|at| self.entries.get(at)).copied()
    }

    pub(crate) fn schema_offset(&self, key: SchemaKey) -> Option<u64> {
        self.schemas.get(&key).copied()
    }

    /// Memory that it takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<IndexEntry>()
            + self.schemas.len() * (size_of::<SchemaKey>() + size_of::<u64>())
    }

    pub(crate) fn schema_keys(&self) -> Vec<SchemaKey> {
        self.schemas.keys().copied().collect()
    }

    pub(crate) fn to_file(&self, salt: u64, end: u64) -> IndexFile {
        let schemas = self.schemas.iter().map(|(key, offset)| (*key, *offset)).collect();
        IndexFile { salt, end, entries: self.entries.clone(), schemas }
    }

    pub(crate) fn from_file(file: IndexFile) -> Self {
        Self { entries: file.entries, schemas: file.schemas.into_iter().collect(), due: file.end }
    }
}
