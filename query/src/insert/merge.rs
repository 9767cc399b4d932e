//! Rows that did not come in order: sorted by table, time and composite key, rows of one key merged.
//!
//! Within a statement the last value that is not NULL wins, column by column; against what is stored, a listed NULL
//! overwrites, but that is the vnode's business.

use arrow::compute::{interleave, take};
use arrow_array::{Array as _, ArrayRef, UInt32Array};
use model::{Error, Result};
use proto::keys::RowKeys;

use super::finish::Finished;
use super::gather::Relation;

/// A block without its ids: columns, and each table with the first row that is not its.
#[derive(Debug)]
pub(super) struct Assembled {
    pub(super) places: Vec<usize>,
    pub(super) columns: Vec<ArrayRef>,
    pub(super) runs: Vec<(usize, usize)>,
}

/// A row in the order of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    slot: usize,
    table: usize,
    ticks: i64,
    /// Place of the composite key's value in the order of these; 0 where time is the whole key.
    key: i64,
    /// Number in the statement.
    sequence: u64,
    batch: usize,
    /// Row of the batch.
    row: usize,
}

impl Row {
    fn same_key(&self, other: &Self) -> bool {
        (self.table, self.ticks, self.key) == (other.table, other.ticks, other.key)
    }
}

/// Numbers in the order of a composite key's values.
#[derive(Debug)]
struct KeyNumbers {
    /// By batch.
    keys: Vec<RowKeys>,
    /// All texts, ascending, each once.
    texts: Vec<String>,
}

impl KeyNumbers {
    fn of(relation: &Relation, batches: &[Finished]) -> Self {
        let keys: Vec<RowKeys> = batches.iter().map(|batch| batch.keys(relation)).collect();
        let mut texts = Vec::new();
        for values in &keys {
            if let RowKeys::Text(values) = values {
                texts.extend(values.iter().flatten().map(str::to_owned));
            }
        }
        texts.sort_unstable();
        texts.dedup();
        Self { keys, texts }
    }

    fn get(&self, batch: usize, row: usize) -> i64 {
        match self.keys.get(batch) {
            None | Some(RowKeys::None) => 0,
            Some(keys @ RowKeys::Text(_)) => {
                let place = self.texts.binary_search_by(|text| text.as_str().cmp(keys.text(row)));
                i64::try_from(place.unwrap_or_else(|place| place)).unwrap_or(i64::MAX)
            }
            Some(keys) => keys.number(row),
        }
    }
}

/// The rows of `batch`: of the tables that have all their rows in it, or (`scattered`) of the others.
fn rows_of(
    relation: &Relation,
    index: usize,
    batch: &Finished,
    keys: &KeyNumbers,
    scattered: bool,
) -> Vec<Row> {
    let ticks = batch.ticks();
    let mut rows = Vec::with_capacity(ticks.len());
    for run in &batch.runs {
        let Some(table) = relation.tables.get(run.table).filter(|t| t.scattered == scattered) else {
            continue;
        };
        let values = ticks.get(run.start..run.end).unwrap_or_default();
        let numbered = values.iter().zip(run.start..).zip(run.sequence..);
        rows.extend(numbered.map(|((&ticks, row), sequence)| Row {
            slot: table.slot,
            table: run.table,
            ticks,
            key: keys.get(index, row),
            sequence,
            batch: index,
            row,
        }));
    }
    rows
}

/// The batch as blocks of the slots it has rows for.
pub(super) fn rearrange(relation: &Relation, batch: &Finished) -> Result<Vec<(usize, Assembled)>> {
    let keys = KeyNumbers::of(relation, std::slice::from_ref(batch));
    let mut rows = rows_of(relation, 0, batch, &keys, false);
    rows.sort_unstable();
    let mut parts = Vec::new();
    for rows in rows.chunk_by(|a, b| a.slot == b.slot) {
        let keys: Vec<&[Row]> = rows.chunk_by(Row::same_key).collect();
        let columns = batch.columns.iter().map(|column| pick(column, &keys)).collect::<Result<_>>()?;
        let slot = rows.first().map_or(0, |r| r.slot);
        parts.push((slot, Assembled { places: batch.places.clone(), columns, runs: runs_of(&keys) }));
    }
    Ok(parts)
}

/// One value a key: of the last row that has one.
fn pick(column: &ArrayRef, keys: &[&[Row]]) -> Result<ArrayRef> {
    let choose = |key: &&[Row]| {
        let valued = key.iter().rev().find(|row| column.is_valid(row.row));
        valued.or_else(|| key.last()).and_then(|row| u32::try_from(row.row).ok())
    };
    let rows: UInt32Array = keys.iter().map(choose).collect();
    take(column, &rows, None).map_err(Error::internal)
}

/// Each table of `keys` with the first row behind its own.
fn runs_of(keys: &[&[Row]]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, table) in keys.iter().filter_map(|key| key.first()).map(|row| row.table).enumerate() {
        match runs.last_mut() {
            Some(last) if last.0 == table => last.1 = index + 1,
            _ => runs.push((table, index + 1)),
        }
    }
    runs
}

/// Keys of one slot that have the same columns after merging.
struct Group<'k> {
    slot: usize,
    places: Vec<usize>,
    keys: Vec<&'k [Row]>,
}

/// The tables whose rows came with different column lists: merged over all batches. A key's columns are those that
/// any of its rows listed.
pub(super) fn scattered(relation: &Relation, batches: &[Finished]) -> Result<Vec<(usize, Assembled)>> {
    let keys = KeyNumbers::of(relation, batches);
    let mut rows: Vec<Row> =
        batches.iter().enumerate().flat_map(|(i, batch)| rows_of(relation, i, batch, &keys, true)).collect();
    rows.sort_unstable();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for key in rows.chunk_by(Row::same_key) {
        let Some(slot) = key.first().map(|r| r.slot) else { continue };
        let mut places: Vec<usize> =
            key.iter().filter_map(|r| batches.get(r.batch)).flat_map(|b| b.places.iter().copied()).collect();
        places.sort_unstable();
        places.dedup();
        match groups.iter_mut().find(|g| g.slot == slot && g.places == places) {
            Some(group) => group.keys.push(key),
            None => groups.push(Group { slot, places, keys: vec![key] }),
        }
    }
    groups.into_iter().map(|group| assemble(group, batches)).collect()
}

fn assemble(group: Group<'_>, batches: &[Finished]) -> Result<(usize, Assembled)> {
    let columns = group
        .places
        .iter()
        .map(|&place| gather_column(place, &group.keys, batches))
        .collect::<Result<_>>()?;
    Ok((group.slot, Assembled { columns, runs: runs_of(&group.keys), places: group.places }))
}

/// The column at `place` for each key, from whichever batches have it.
fn gather_column(place: usize, keys: &[&[Row]], batches: &[Finished]) -> Result<ArrayRef> {
    let of = |batch: &Finished| {
        batch.places.binary_search(&place).ok().and_then(|index| batch.columns.get(index).cloned())
    };
    let columns: Vec<Option<ArrayRef>> = batches.iter().map(of).collect();
    let mut sources = Vec::new();
    let mut source_of = vec![None; columns.len()];
    for (column, source) in columns.iter().zip(&mut source_of) {
        if let Some(column) = column {
            *source = Some(sources.len());
            sources.push(column.as_ref());
        }
    }
    let column_of = |row: &Row| columns.get(row.batch).and_then(Option::as_ref);
    let choose = |key: &&[Row]| {
        let listed = || key.iter().rev().filter(|row| column_of(row).is_some());
        let valued = listed().find(|row| column_of(row).is_some_and(|c| c.is_valid(row.row)));
        let row = valued.or_else(|| listed().next())?;
        Some((source_of.get(row.batch).copied().flatten()?, row.row))
    };
    let picks: Option<Vec<(usize, usize)>> = keys.iter().map(choose).collect();
    let picks = picks.ok_or_else(|| Error::internal("a key without a row for its column"))?;
    interleave(&sources, &picks).map_err(Error::internal)
}
