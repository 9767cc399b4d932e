//! What a topic shows of one record: a pure function of the topic and the record. Tables and tags are looked up as they
//! were at the record's version, so that the answer is the same whenever it is asked for, with one exception: rows of a
//! table that has been dropped meanwhile are left out, unless a reader in step had them already ([`super::together`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, RecordBatch};
use bytes::Bytes;
use model::{ColumnId, Error, Result, SchemaVersion, TableUid, Version};
use parking_lot::RwLock;
use proto::size::{batch_bytes, rows_bytes};
use query::source::ScanColumn;
use wal::{Kind, Record};

use super::compiled::{Compiled, Source};
use super::rows::{self, RunTable};
use super::together::Effort;
use super::{Block, BlockSchema, meta};
use crate::block::RowBlock;
use crate::record::{
    BlockHeader, DataHeader, DeleteRecord, MetaRecord, NewTable, NewTableKind, REPLICATED, TopicMeta,
    WriteHeader,
};
use crate::state::VnodeState;

/// Schemas of blocks, so that blocks of one shape share one.
pub(super) type Shapes = HashMap<(TableUid, SchemaVersion, Vec<ColumnId>), Arc<BlockSchema>>;

/// What is seen of a record.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    /// Nothing.
    Nothing,
    /// Events, as JSON; more than one only for a DELETE.
    Events(Vec<String>),
    /// Writes with rows or tables made.
    Writes(Vec<ShownWrite>),
    /// Nothing of a write whose rows are the topic's, all the same: it shows events only, or the tables are gone. Events
    /// before it and behind it do not come in one batch.
    Passed,
}

/// What is seen of a write.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownWrite {
    pub(super) received_ns: i64,
    /// Rows by table, for database and stable topics.
    pub(super) blocks: Vec<Block>,
    /// Rows of a query topic.
    pub(super) batches: Vec<RecordBatch>,
    /// Tables that it made; only for topics that show events.
    pub(super) creates: Vec<NewTable>,
    /// It has rows of the topic that are not shown.
    pub(super) passed_over: bool,
}

impl ShownWrite {
    pub(super) fn rows(&self) -> usize {
        let batches: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        self.blocks.iter().map(Block::rows).sum::<usize>() + batches
    }

    /// Bytes of its rows.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.blocks.iter().flat_map(|block| &block.columns);
        let blocks: usize = columns.map(|column| rows_bytes(column, 0..column.len())).sum();
        blocks + self.batches.iter().map(batch_bytes).sum::<usize>()
    }

    fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.rows() == 0
    }
}

/// A topic, and what reading it needs beside the record.
pub(super) struct Evaluator<'a> {
    pub(super) topic: &'a Compiled,
    pub(super) state: &'a RwLock<VnodeState>,
    pub(super) exclude_replicated: bool,
    pub(super) shapes: &'a mut Shapes,
    pub(super) effort: &'a Effort,
}

impl Evaluator<'_> {
    /// Looks at a record.
    pub(super) fn show(&mut self, record: &Record) -> Result<Shown> {
        let (version, body) = (record.version, &record.body);
        // A Data record says it of each of its writes.
        if self.exclude_replicated && record.kind != Kind::Data && record.flags & REPLICATED != 0 {
            return Ok(Shown::Nothing);
        }
        match record.kind {
            Kind::Data => self.data(version, body),
            Kind::Meta if self.topic.meta != TopicMeta::Without => {
                self.meta(version, MetaRecord::decode(body)?)
            }
            Kind::Delete if self.topic.meta == TopicMeta::With => {
                let record = DeleteRecord::decode(body)?;
                let is_shown = match &self.topic.source {
                    Source::Database => true,
                    Source::Stable { stable, .. } => record.owner == *stable,
                    Source::Query(_) => false,
                };
                Ok(if is_shown { Shown::Events(meta::delete(&record)) } else { Shown::Nothing })
            }
            _ => Ok(Shown::Nothing),
        }
    }

    fn meta(&self, version: Version, record: MetaRecord) -> Result<Shown> {
        let record = match &self.topic.source {
            Source::Query(_) => return Ok(Shown::Nothing),
            Source::Database => Some(record),
            Source::Stable { stable, .. } => self.cut_down(version, *stable, record)?,
        };
        let event = record.and_then(|record| meta::event(&self.state.read(), &record));
        Ok(event.map_or(Shown::Nothing, |event| Shown::Events(vec![event])))
    }

    /// What of a record concerns a stable topic: its super table, and those children that match.
    fn cut_down(&self, version: Version, of: TableUid, record: MetaRecord) -> Result<Option<MetaRecord>> {
        Ok(match record {
            MetaRecord::CreateStable(ref stable) | MetaRecord::AlterStable { ref stable, .. } => {
                (stable.uid == of).then_some(record)
            }
            MetaRecord::DropStable { uid, .. } => (uid == of).then_some(record),
            MetaRecord::CreateTables(tables) => {
                let tables = self.matching(version, of, tables, |table| table.uid)?;
                (!tables.is_empty()).then_some(MetaRecord::CreateTables(tables))
            }
            MetaRecord::SetTags { uid, stable, .. } if stable == of => {
                let matches = !self.matching(version, of, vec![uid], |uid| *uid)?.is_empty();
                matches.then_some(record)
            }
            MetaRecord::AlterTable { uid, .. } => {
                let matches = !self.matching(version, of, vec![uid], |uid| *uid)?.is_empty();
                matches.then_some(record)
            }
            MetaRecord::SetTags { .. } => None,
            MetaRecord::DropTables(tables) => {
                let tables = self.matching(version, of, tables, |table| table.uid)?;
                (!tables.is_empty()).then_some(MetaRecord::DropTables(tables))
            }
        })
    }

    /// Those that are children of `of` and pass the topic's filter with the tags they have from `version` on.
    fn matching<T>(
        &self,
        version: Version,
        of: TableUid,
        items: Vec<T>,
        uid: impl Fn(&T) -> TableUid,
    ) -> Result<Vec<T>> {
        let uids: Vec<_> = items.iter().map(uid).collect();
        let tables = rows::tables_at(&self.state.read(), version, &uids);
        let passes = self.passes(of, &tables)?;
        Ok(items.into_iter().zip(passes).filter(|(_, passes)| *passes).map(|(item, _)| item).collect())
    }

    /// Which of the tables are children of `of` that the topic shows.
    fn passes(&self, of: TableUid, tables: &[Option<RunTable>]) -> Result<Vec<bool>> {
        let is_child = |table: &Option<RunTable>| table.as_ref().is_some_and(|table| table.owner == of);
        let Source::Stable { filter: Some(filter), .. } = &self.topic.source else {
            return Ok(tables.iter().map(is_child).collect());
        };
        let children: Vec<&RunTable> = tables.iter().flatten().filter(|table| table.owner == of).collect();
        if children.is_empty() {
            return Ok(vec![false; tables.len()]);
        }
        let batch = rows::label_batch(&children, filter.required(), &filter.schema())?;
        let verdict = filter.matches(&batch)?;
        let mut verdicts = verdict.iter();
        Ok(tables.iter().map(|table| is_child(table) && verdicts.next().flatten() == Some(true)).collect())
    }

    fn data(&mut self, version: Version, body: &Bytes) -> Result<Shown> {
        let header = DataHeader::decode(body)?;
        let mut shown = Vec::new();
        let mut passed_over = false;
        for write in header.writes {
            if write.replicated && self.exclude_replicated {
                continue;
            }
            let write = self.write(version, write, body)?;
            passed_over |= write.passed_over;
            if !write.is_empty() {
                shown.push(write);
            }
        }
        Ok(match shown.is_empty() {
            false => Shown::Writes(shown),
            true if passed_over => Shown::Passed,
            true => Shown::Nothing,
        })
    }

    fn write(&mut self, version: Version, write: WriteHeader, body: &Bytes) -> Result<ShownWrite> {
        let made: HashSet<TableUid> = write.creates.iter().map(|table| table.uid).collect();
        let mut shown = ShownWrite { received_ns: write.received_ns, ..ShownWrite::default() };
        if self.topic.meta != TopicMeta::Without {
            shown.creates = self.shown_creates(version, write.creates)?;
        }
        if self.topic.meta == TopicMeta::Only {
            shown.passed_over = write.blocks.iter().any(|header| self.concerns(header.owner));
            return Ok(shown);
        }
        for header in &write.blocks {
            if !self.concerns(header.owner) {
                self.effort.passed(); // its rows are not even looked at
                continue;
            }
            let uids: Vec<_> = header.runs.iter().map(|run| run.table).collect();
            let tables = rows::live_tables_at(&self.state.read(), version, &uids);
            shown.passed_over |= tables.iter().any(Option::is_none);
            match &self.topic.source {
                Source::Query(query) => {
                    let mut runs = uids.iter().zip(&tables);
                    if !runs.any(|(uid, table)| table.is_some() && query.reads(*uid)) {
                        self.effort.passed();
                        continue;
                    }
                    let block = header
                        .rows_of(body, |id| query.topic.required().contains(&ScanColumn::Column(id)))?;
                    self.effort.decoded(block.columns.len());
                    let input = rows::query_input(&query.topic, &block, &tables, |uid| query.reads(uid))?;
                    let batch = query.topic.evaluate(&input)?;
                    if batch.num_rows() > 0 {
                        shown.batches.push(batch);
                    }
                }
                Source::Stable { stable, .. } => {
                    let passes = self.passes(*stable, &tables)?;
                    self.all_rows(header, body, &tables, &passes, &mut shown.blocks)?;
                }
                Source::Database => {
                    let passes: Vec<_> = tables.iter().map(Option::is_some).collect();
                    self.all_rows(header, body, &tables, &passes, &mut shown.blocks)?;
                }
            }
        }
        if !made.is_empty() {
            // Tables made by the write come before those that were there.
            let names: HashSet<Arc<str>> = {
                let state = self.state.read();
                let entries = made.iter().filter_map(|uid| state.tables.entry(*uid));
                entries.map(|entry| Arc::from(entry.info.name.as_str())).collect()
            };
            shown
                .blocks
                .sort_by_key(|block| !block.table.as_ref().is_some_and(|table| names.contains(table)));
        }
        Ok(shown)
    }

    fn concerns(&self, owner: TableUid) -> bool {
        match &self.topic.source {
            Source::Query(query) => query.owner() == owner,
            Source::Stable { stable, .. } => *stable == owner,
            Source::Database => true,
        }
    }

    fn shown_creates(&self, version: Version, creates: Vec<NewTable>) -> Result<Vec<NewTable>> {
        match &self.topic.source {
            Source::Query(_) => Ok(Vec::new()),
            Source::Database => Ok(creates),
            Source::Stable { stable, .. } => {
                let of = *stable;
                let is_of = |table: &NewTable| match table.kind {
                    NewTableKind::Child { stable, .. } => stable == of,
                    NewTableKind::Normal { .. } => false,
                };
                let creates: Vec<_> = creates.into_iter().filter(is_of).collect();
                self.matching(version, of, creates, |table| table.uid)
            }
        }
    }

    /// The rows of the tables that pass, with all columns; not decoded where none does.
    fn all_rows(
        &mut self,
        header: &BlockHeader,
        body: &Bytes,
        tables: &[Option<RunTable>],
        passes: &[bool],
        blocks: &mut Vec<Block>,
    ) -> Result<()> {
        if !passes.contains(&true) {
            self.effort.passed();
            return Ok(());
        }
        let block = header.rows(body)?;
        self.effort.decoded(block.columns.len());
        self.slices(&block, tables, passes, blocks)
    }

    /// A block a table, each a slice of the write's buffers.
    fn slices(
        &mut self,
        block: &RowBlock,
        tables: &[Option<RunTable>],
        passes: &[bool],
        blocks: &mut Vec<Block>,
    ) -> Result<()> {
        let schema = self.shape(block)?;
        let mut start = 0_usize;
        for ((run, table), passes) in block.runs.iter().zip(tables).zip(passes) {
            let end = usize::try_from(run.end).unwrap_or(usize::MAX);
            if let Some(table) = table.as_ref().filter(|_| *passes) {
                let len = end.saturating_sub(start);
                let columns: Vec<ArrayRef> = block.columns.iter().map(|(_, c)| c.slice(start, len)).collect();
                let table = Some(Arc::from(table.info.name.as_str()));
                blocks.push(Block { table, schema: Arc::clone(&schema), columns });
            }
            start = end;
        }
        Ok(())
    }

    /// Names and types of a write's columns, as they were when it was written.
    fn shape(&mut self, block: &RowBlock) -> Result<Arc<BlockSchema>> {
        let ids: Vec<_> = block.columns.iter().map(|(id, _)| *id).collect();
        let key = (block.owner, block.schema_version, ids);
        if let Some(known) = self.shapes.get(&key) {
            return Ok(Arc::clone(known));
        }
        let state = self.state.read();
        let schema = state.schema(block.owner, block.schema_version);
        let schema = schema
            .ok_or_else(|| Error::internal(format!("schema of rows is unknown owner={}", block.owner)))?;
        let column = |id: &ColumnId| {
            let (_, column) = schema.column_by_id(*id)?;
            Some((column.name.clone(), column.data_type))
        };
        let columns = key.2.iter().map(column).collect::<Option<Vec<_>>>();
        let columns = columns
            .ok_or_else(|| Error::internal(format!("column of rows is unknown owner={}", block.owner)))?;
        let shape = Arc::new(BlockSchema { columns });
        self.shapes.insert(key, Arc::clone(&shape));
        Ok(shape)
    }
}
