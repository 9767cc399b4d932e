//! Collects what one batch carries, and says when it is full (tmq.md 2.4).

use arrow_array::RecordBatch;
use model::{Error, Result, Version};
use parking_lot::RwLock;

use super::compiled::{Compiled, Source};
use super::evaluate::{Shown, ShownWrite};
use super::{Batch, BatchKind, Block, Range, ReadOptions, RecordRun, meta};
use crate::record::{NewTable, TopicMeta};
use crate::state::VnodeState;

/// A batch is full with these bytes of rows too, however many rows were asked for: a message has a size at most, and so
/// has what a server holds for a consumer. One record is never cut, so that it may be larger by one.
const BYTES_MAX: usize = 16 << 20;

/// A batch in the making.
#[derive(Debug, Default)]
pub(super) struct Gather {
    blocks: Vec<Block>,
    batches: Vec<RecordBatch>,
    creates: Vec<NewTable>,
    events: Vec<String>,
    records: Vec<RecordRun>,
    rows: u64,
    bytes: usize,
    written_ns: i64,
}

/// What became of a record.
#[derive(Debug)]
pub(super) enum Added {
    /// It is in the batch, and there may be room for more.
    More,
    /// It is in the batch, which is full.
    Full,
    /// It belongs in a batch of its own, after this one.
    Later,
}

impl Gather {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.creates.is_empty() && self.rows == 0
    }

    /// Takes in a record, if it goes with what is here.
    pub(super) fn add(&mut self, options: ReadOptions, version: Version, shown: Shown) -> Added {
        let rows = match &shown {
            Shown::Nothing => return Added::More,
            // It ends a run of events, and is no part of the batch.
            Shown::Passed if !self.events.is_empty() => return Added::Full,
            Shown::Passed => return Added::More,
            Shown::Events(_) => 0,
            Shown::Writes(writes) => writes.iter().map(ShownWrite::rows).sum(),
        };
        let added = match shown {
            Shown::Nothing | Shown::Passed => Added::More,
            Shown::Events(events) => self.add_events(options, events),
            Shown::Writes(writes) => self.add_writes(options, writes),
        };
        if !matches!(added, Added::Later) {
            self.records.push(RecordRun { version, rows });
        }
        added
    }

    fn add_events(&mut self, options: ReadOptions, events: Vec<String>) -> Added {
        let has_rows = self.rows > 0 || !self.creates.is_empty();
        if has_rows || (!self.events.is_empty() && !options.batch_meta) {
            return Added::Later;
        }
        self.events.extend(events);
        let is_full = !options.batch_meta || self.events.len() as u64 >= options.min_poll_rows;
        if is_full { Added::Full } else { Added::More }
    }

    fn add_writes(&mut self, options: ReadOptions, writes: Vec<ShownWrite>) -> Added {
        if !self.events.is_empty() {
            return Added::Later;
        }
        for write in writes {
            self.rows += write.rows() as u64;
            self.written_ns = self.written_ns.max(write.received_ns);
            self.bytes += write.bytes();
            self.blocks.extend(write.blocks);
            self.batches.extend(write.batches);
            self.creates.extend(write.creates);
        }
        let count = self.rows.max(self.creates.len() as u64);
        if count >= options.min_poll_rows || self.bytes >= BYTES_MAX || options.replay {
            Added::Full
        } else {
            Added::More
        }
    }

    /// The batch.
    pub(super) fn finish(
        self,
        topic: &Compiled,
        options: ReadOptions,
        state: &RwLock<VnodeState>,
        begin: Version,
        range: Range,
    ) -> Result<Batch> {
        let mut blocks = self.blocks;
        if let Source::Query(query) = &topic.source
            && !self.batches.is_empty()
        {
            let columns = match &self.batches[..] {
                [only] => only.columns().to_vec(),
                several => arrow_select::concat::concat_batches(&query.topic.schema(), several)
                    .map_err(|e| Error::internal("rows of a topic").caused_by(e))?
                    .columns()
                    .to_vec(),
            };
            blocks.push(Block { table: None, schema: std::sync::Arc::clone(&query.schema), columns });
        }
        let created = meta::create_tables(&state.read(), &self.creates);
        let (kind, json) = match (self.rows > 0, created) {
            (true, None) => (BatchKind::Data, String::new()),
            // A topic of events alone shows what writes made in the form of several events, be it one.
            (_, Some(created)) if topic.meta == TopicMeta::Only => {
                (BatchKind::TableMeta, meta::batch(&[created]))
            }
            (_, Some(created)) => (BatchKind::Metadata, created),
            (false, None) => {
                let is_single = self.events.len() == 1 && !options.batch_meta;
                let single = self.events.first().filter(|_| is_single);
                (BatchKind::TableMeta, single.cloned().unwrap_or_else(|| meta::batch(&self.events)))
            }
        };
        let (next, written_ns) = (range.position, self.written_ns);
        let records = self.records;
        Ok(Batch { kind, begin, next, blocks, json, skipped: None, written_ns, records, range })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};

    use super::*;

    fn write(bytes: usize) -> Shown {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(bytes)]));
        let batches = vec![RecordBatch::try_from_iter([("s", text)]).unwrap()];
        Shown::Writes(vec![ShownWrite { batches, ..ShownWrite::default() }])
    }

    #[test]
    fn rows_that_are_not_shown_end_a_batch_of_events() {
        let options = ReadOptions { batch_meta: true, min_poll_rows: u64::MAX, ..ReadOptions::default() };
        let event = || Shown::Events(vec!["{}".into()]);
        let mut gather = Gather::default();
        assert!(matches!(gather.add(options, Version(1), Shown::Passed), Added::More), "nothing to end");
        assert!(matches!(gather.add(options, Version(2), event()), Added::More));
        assert!(matches!(gather.add(options, Version(3), event()), Added::More));
        assert!(matches!(gather.add(options, Version(4), write(8)), Added::Later), "rows come by themselves");
        assert!(matches!(gather.add(options, Version(4), Shown::Passed), Added::Full));
        assert_eq!(gather.records.iter().map(|run| run.version.0).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn bytes_fill_a_batch_too() {
        let options = ReadOptions { min_poll_rows: u64::MAX, ..ReadOptions::default() };
        let mut gather = Gather::default();
        assert!(matches!(gather.add(options, Version(1), write(BYTES_MAX / 2)), Added::More));
        assert!(matches!(gather.add(options, Version(2), write(BYTES_MAX / 2)), Added::Full));
    }
}
