//! From gathered rows to blocks for the vgroups.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow_array::types::{TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType};
use arrow_array::{Array as _, ArrayRef};
use model::{ColumnId, DatabaseId, Error, Precision, Result};
use proto::keys::RowKeys;
use proto::write::{TableRun, WriteBlock};

use super::gather::{Batch, Gather, Relation, Run};
use super::merge::{self, Assembled};
use super::{InsertPlan, VgroupWrite};

/// A batch whose columns are finished.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) slot: Option<usize>,
    pub(super) places: Vec<usize>,
    pub(super) columns: Vec<ArrayRef>,
    pub(super) runs: Vec<Run>,
}

impl Finished {
    fn new(batch: Batch, precision: Precision) -> Self {
        let columns = batch.columns.into_iter().map(|c| c.finish(precision)).collect();
        Self { slot: batch.slot, places: batch.places, columns, runs: batch.runs }
    }

    /// The primary timestamps.
    pub(super) fn ticks(&self) -> &[i64] {
        self.columns.first().map_or(&[], ticks)
    }

    /// The values of the relation's composite key.
    pub(super) fn keys(&self, relation: &Relation) -> RowKeys {
        let key = relation.schema.key().and_then(|key| relation.schema.column_by_id(key.id));
        let at = key.and_then(|(place, _)| self.places.binary_search(&place).ok());
        at.and_then(|at| self.columns.get(at)).and_then(|values| RowKeys::of(values)).unwrap_or_default()
    }
}

/// The values of a timestamp column.
pub(super) fn ticks(column: &ArrayRef) -> &[i64] {
    use arrow_schema::{DataType, TimeUnit};
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().values()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().values()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            column.as_primitive::<TimestampNanosecondType>().values()
        }
        _ => &[],
    }
}

impl Gather {
    /// Everything read, as writes.
    ///
    /// # Errors
    /// [`model::Code::TimestampOutOfRange`]. The vgroups check that themselves; here it is checked before the first of
    /// them gets anything, so that a statement with one bad time writes nothing.
    pub(super) fn finish(self, now_ns: i64) -> Result<InsertPlan> {
        let mut writes = Writes::default();
        for relation in self.relations {
            finish_relation(relation, now_ns, &mut writes)?;
        }
        Ok(writes.plan)
    }
}

#[derive(Default)]
struct Writes {
    plan: InsertPlan,
    by_vgroup: HashMap<(DatabaseId, usize), usize>,
}

impl Writes {
    fn push(&mut self, relation: &Relation, slot: usize, block: WriteBlock) -> Result<()> {
        self.plan.affected += u64::try_from(block.rows()).unwrap_or(u64::MAX);
        let database = &relation.database;
        let index = match self.by_vgroup.get(&(database.id, slot)) {
            Some(&index) => index,
            None => {
                let vgroup =
                    *database.vgroups.get(slot).ok_or_else(|| Error::internal("vgroup out of range"))?;
                self.plan.writes.push(VgroupWrite {
                    database: Arc::clone(database),
                    vgroup,
                    blocks: Vec::new(),
                });
                self.by_vgroup.insert((database.id, slot), self.plan.writes.len() - 1);
                self.plan.writes.len() - 1
            }
        };
        if let Some(write) = self.plan.writes.get_mut(index) {
            write.blocks.push(block);
        }
        Ok(())
    }
}

fn finish_relation(mut relation: Relation, now_ns: i64, writes: &mut Writes) -> Result<()> {
    let precision = relation.database.options.precision;
    let batches: Vec<Finished> =
        std::mem::take(&mut relation.batches).into_iter().map(|b| Finished::new(b, precision)).collect();
    for batch in &batches {
        check_times(&relation, batch, now_ns)?;
        if let Some(slot) = plain_slot(&relation, batch) {
            let runs = batch.runs.iter().map(|run| (run.table, run.end));
            let block = block(&relation, &batch.places, batch.columns.clone(), runs)?;
            writes.push(&relation, slot, block)?;
        } else {
            for part in merge::rearrange(&relation, batch)? {
                let block = assembled(&relation, part.1)?;
                writes.push(&relation, part.0, block)?;
            }
        }
    }
    if relation.tables.iter().any(|t| t.scattered) {
        for part in merge::scattered(&relation, &batches)? {
            let block = assembled(&relation, part.1)?;
            writes.push(&relation, part.0, block)?;
        }
    }
    Ok(())
}

fn check_times(relation: &Relation, batch: &Finished, now_ns: i64) -> Result<()> {
    let options = &relation.database.options;
    let accepted = options.accepted_ticks(now_ns);
    let ticks = batch.ticks();
    for run in &batch.runs {
        let name = relation.tables.get(run.table).map_or("", |table| table.name.as_str());
        for tick in ticks.get(run.start..run.end).unwrap_or_default() {
            options.check_tick(&accepted, *tick, name)?;
        }
    }
    Ok(())
}

/// The slot of a batch that can go out as it is: one vgroup, each table one run, each run rising.
fn plain_slot(relation: &Relation, batch: &Finished) -> Option<usize> {
    let first = relation.tables.get(batch.runs.first()?.table)?.slot;
    let slot = batch.slot.unwrap_or(first);
    let (ticks, keys) = (batch.ticks(), batch.keys(relation));
    let mut seen = vec![false; relation.tables.len()];
    for run in &batch.runs {
        let table = relation.tables.get(run.table)?;
        if table.scattered || table.slot != slot || std::mem::replace(seen.get_mut(run.table)?, true) {
            return None;
        }
        if !keys.ascend(ticks.get(run.start..run.end)?, run.start) {
            return None;
        }
    }
    Some(slot)
}

fn assembled(relation: &Relation, part: Assembled) -> Result<WriteBlock> {
    block(relation, &part.places, part.columns, part.runs.into_iter())
}

/// A block of finished columns; `runs` are tables with the first row that is not theirs.
fn block(
    relation: &Relation,
    places: &[usize],
    columns: Vec<ArrayRef>,
    runs: impl Iterator<Item = (usize, usize)>,
) -> Result<WriteBlock> {
    let id = |place: &usize| relation.schema.columns.get(*place).map_or(ColumnId::TIMESTAMP, |c| c.id);
    let columns = places.iter().map(id).zip(columns).collect();
    let runs = runs
        .map(|(table, end)| {
            let table = relation.tables.get(table).ok_or_else(|| Error::internal("table out of range"))?;
            let end = u32::try_from(end).map_err(|_| Error::internal("too many rows in one block"))?;
            Ok(TableRun { table: table.name.clone(), end, create_tags: table.tags.clone() })
        })
        .collect::<Result<_>>()?;
    Ok(WriteBlock { stable: relation.stable, columns, runs })
}
