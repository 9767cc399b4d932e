//! A batch to writes: rows regrouped by vgroup and table, ascending by time (and composite key), each key once.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::{DataType as Arrow, TimeUnit};
use model::{Code, ColumnId, Error, Result, VgroupId, vgroup_slot};
use proto::keys::RowKeys;
use proto::write::{TableRun, WriteBlock};

use super::batch::{Finished, Table, TableRows};
use super::target::Target;

/// A request grows to about this many bytes.
const REQUEST_BYTES: usize = 16 << 20;

/// The writes that `batch` becomes, each for one vgroup.
pub(super) fn split(target: &Target, batch: Finished) -> Result<Vec<(VgroupId, WriteBlock)>> {
    let Finished { columns, tables, runs } = batch;
    let Some((_, times)) = columns.first() else { return Ok(Vec::new()) };
    if times.null_count() > 0 {
        return Err(Error::with(Code::InvalidTimestamp, "the primary timestamp is NULL"));
    }
    u32::try_from(times.len())
        .map_err(|_| Error::with(Code::InvalidParameters, "too many rows in a batch"))?;
    let order = Order { ticks: ticks(times)?, keys: keys(target, &columns)? };
    let rows_max = rows_max(&columns);
    let mut writes = Vec::new();
    for (slot, rows) in by_slot(target, &tables, &runs, &order)? {
        let vgroup =
            target.vgroups.get(slot).copied().ok_or_else(|| Error::internal("slot without vgroup"))?;
        for part in cut(rows, rows_max) {
            writes.push((vgroup, block(target, &columns, &tables, part)?));
        }
    }
    Ok(writes)
}

/// Rows of one table that go into one write.
struct RowsOf {
    table: Table,
    rows: Vec<u32>,
}

fn ticks(times: &ArrayRef) -> Result<&[i64]> {
    match times.data_type() {
        Arrow::Timestamp(TimeUnit::Millisecond, _) => {
            Ok(times.as_primitive::<TimestampMillisecondType>().values())
        }
        Arrow::Timestamp(TimeUnit::Microsecond, _) => {
            Ok(times.as_primitive::<TimestampMicrosecondType>().values())
        }
        Arrow::Timestamp(TimeUnit::Nanosecond, _) => {
            Ok(times.as_primitive::<TimestampNanosecondType>().values())
        }
        other => Err(Error::with(Code::FirstColumn, other)),
    }
}

/// Row numbers by slot and table; tables in the order in which the batch first named them.
fn by_slot(
    target: &Target,
    tables: &[TableRows],
    runs: &[(Table, usize)],
    order: &Order<'_>,
) -> Result<BTreeMap<usize, Vec<RowsOf>>> {
    let mut by_table: BTreeMap<Table, Vec<u32>> = BTreeMap::new();
    let mut start = 0_u32;
    for (table, end) in runs {
        let end = u32::try_from(*end).unwrap_or(u32::MAX);
        by_table.entry(*table).or_default().extend(start..end);
        start = end;
    }
    let mut slots: BTreeMap<usize, Vec<RowsOf>> = BTreeMap::new();
    for (table, mut rows) in by_table {
        let name = tables.get(table.0 as usize).map_or("", |entry| entry.name.as_str());
        let slot = vgroup_slot(name, target.vgroups.len()).unwrap_or(0);
        order.sort(&mut rows);
        slots.entry(slot).or_default().push(RowsOf { table, rows });
    }
    Ok(slots)
}

/// The values of a composite key.
fn keys(target: &Target, columns: &[(ColumnId, ArrayRef)]) -> Result<RowKeys> {
    let Some(key) = target.key() else { return Ok(RowKeys::None) };
    let found = columns.iter().find(|(id, _)| *id == key.id);
    let (_, values) = found.ok_or_else(|| Error::internal("a batch without its key column"))?;
    if values.null_count() > 0 {
        return Err(Error::with(Code::KeyNull, &key.column.name));
    }
    RowKeys::of(values).ok_or_else(|| Error::with(Code::KeyType, key.column.data_type))
}

/// What rows of a table are ordered by.
struct Order<'a> {
    ticks: &'a [i64],
    keys: RowKeys,
}

impl Order<'_> {
    fn compare(&self, a: u32, b: u32) -> Ordering {
        let time = |row: u32| self.ticks.get(row as usize).copied().unwrap_or(0);
        time(a).cmp(&time(b)).then_with(|| self.keys.compare(a as usize, b as usize))
    }

    /// Ascending by time and key; of rows of one key the last stays.
    fn sort(&self, rows: &mut Vec<u32>) {
        if rows.windows(2).all(|pair| matches!(pair, [a, b] if self.compare(*a, *b).is_lt())) {
            return;
        }
        rows.sort_by(|a, b| self.compare(*a, *b));
        rows.reverse();
        rows.dedup_by(|a, b| self.compare(*a, *b).is_eq());
        rows.reverse();
    }
}

/// How many rows a request of [`REQUEST_BYTES`] holds.
fn rows_max(columns: &[(ColumnId, ArrayRef)]) -> usize {
    let rows = columns.first().map_or(0, |(_, column)| column.len()).max(1);
    let bytes: usize = columns.iter().map(|(_, column)| column.get_buffer_memory_size()).sum();
    (REQUEST_BYTES / (bytes / rows).max(1)).max(1)
}

/// Cuts rows into parts of at most `rows_max`.
fn cut(tables: Vec<RowsOf>, rows_max: usize) -> Vec<Vec<RowsOf>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut room = rows_max;
    for RowsOf { table, mut rows } in tables {
        while rows.len() > room {
            let rest = rows.split_off(room);
            part.push(RowsOf { table, rows: std::mem::replace(&mut rows, rest) });
            part.retain(|of: &RowsOf| !of.rows.is_empty());
            parts.push(std::mem::take(&mut part));
            room = rows_max;
        }
        room -= rows.len();
        part.push(RowsOf { table, rows });
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

fn block(
    target: &Target,
    columns: &[(ColumnId, ArrayRef)],
    tables: &[TableRows],
    part: Vec<RowsOf>,
) -> Result<WriteBlock> {
    let mut end = 0;
    let mut runs = Vec::with_capacity(part.len());
    let mut rows = Vec::new();
    for of in part {
        end += of.rows.len();
        let entry = tables.get(of.table.0 as usize).ok_or_else(|| Error::internal("rows without a table"))?;
        runs.push(TableRun {
            table: entry.name.clone(),
            end: u32::try_from(end).map_err(|e| Error::internal("too many rows").caused_by(e))?,
            create_tags: entry.create_tags.clone(),
        });
        rows.extend(of.rows);
    }
    let columns = pick(columns, &rows)?;
    Ok(WriteBlock { stable: target.stable, columns, runs })
}

/// The rows of each column: a slice where they lie together already.
fn pick(columns: &[(ColumnId, ArrayRef)], rows: &[u32]) -> Result<Vec<(ColumnId, ArrayRef)>> {
    let first = rows.first().copied().unwrap_or(0);
    let together = (first..).zip(rows).all(|(expected, row)| expected == *row);
    if together {
        let slice = |(id, column): &(ColumnId, ArrayRef)| (*id, column.slice(first as usize, rows.len()));
        return Ok(columns.iter().map(slice).collect());
    }
    let rows = UInt32Array::from(rows.to_vec());
    let take = |(id, column): &(ColumnId, ArrayRef)| {
        let taken = arrow_select::take::take(column.as_ref(), &rows, None);
        Ok((*id, taken.map_err(|e| Error::internal(&e).caused_by(e))?))
    };
    columns.iter().map(take).collect()
}
