//! The plain vector that the log is compared with.

use bytes::Bytes;
use wal::{Kind, LastRecord, NewRecord, Record, SchemaKey};

use crate::common::schema_bytes;

/// A record as the model keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rec {
    pub(crate) term: u64,
    pub(crate) time_ns: i64,
    pub(crate) kind: Kind,
    pub(crate) body: Bytes,
    pub(crate) schema: Option<SchemaKey>,
}

impl Rec {
    pub(crate) fn to_new(&self) -> NewRecord {
        let schemas = self.schema.map(|key| wal::SchemaBlock { key, bytes: schema_bytes(key) });
        NewRecord {
            term: self.term,
            time_ns: self.time_ns,
            kind: self.kind,
            flags: 0,
            body: self.body.clone(),
            schemas: schemas.into_iter().collect(),
        }
    }

    /// Says what differs, if anything.
    pub(crate) fn compare(&self, found: &Record) -> Result<(), String> {
        let same = (self.term, self.time_ns, self.kind) == (found.term, found.time_ns, found.kind);
        if !same || self.body != found.body {
            return Err(format!("wrong record {found:?}, expected {self:?}"));
        }
        if let Some(key) = self.schema {
            let schema = match found.schema(key) {
                Err(wal::WalError::Io { .. }) => return Ok(()), // a planned fault
                read => read.map_err(|e| e.to_string())?,
            };
            if schema.as_ref() != Some(&schema_bytes(key)) {
                return Err(format!("wrong schema of {found:?}: {schema:?}"));
            }
        }
        Ok(())
    }
}

/// A log's content: `recs[0]` has version `base`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) base: u64,
    pub(crate) recs: Vec<Rec>,
    /// What a crash must not take: versions below this.
    pub(crate) durable: u64,
    /// The record before `base`, if known.
    pub(crate) before: Option<LastRecord>,
}

impl Content {
    pub(crate) fn next(&self) -> u64 {
        self.base + self.recs.len() as u64
    }

    pub(crate) fn get(&self, version: u64) -> Option<&Rec> {
        self.recs.get(usize::try_from(version.checked_sub(self.base)?).unwrap())
    }

    pub(crate) fn last(&self) -> Option<LastRecord> {
        let last = self.recs.last().map(|rec| LastRecord {
            version: wal::Version(self.next() - 1),
            term: rec.term,
            time_ns: rec.time_ns,
        });
        last.or(self.before)
    }

    pub(crate) fn truncate(&mut self, next: u64) {
        self.recs.truncate(usize::try_from(next - self.base).unwrap());
        self.durable = self.durable.min(next);
    }

    /// Whether `found`, starting at `first`, is this content up to some version that is not below `floor`, and `last` the
    /// record before that version, which may be all that tells two empty logs apart.
    pub(crate) fn explains(
        &self,
        first: u64,
        found: &[Record],
        last: Option<LastRecord>,
        floor: u64,
    ) -> Result<(), String> {
        let next = first + found.len() as u64;
        if first < self.base || next > self.next() || next < floor {
            return Err(format!(
                "found {first}..{next}, expected {}..{} at least to {floor}",
                self.base,
                self.next()
            ));
        }
        for (version, record) in (first..).zip(found) {
            if record.version.0 != version {
                return Err(format!("version {} at the place of {version}", record.version));
            }
            self.get(version).ok_or("no such version")?.compare(record)?;
        }
        let mut content = self.clone();
        content.truncate(next);
        if content.last() != last {
            return Err(format!("the last record is {last:?}, expected {:?}", content.last()));
        }
        Ok(())
    }
}
