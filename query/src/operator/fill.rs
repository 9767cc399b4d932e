//! FILL: windows without rows, by the partition, over a range of time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::{Result as DfResult, ScalarValue};

use crate::memory::Reservation;
use crate::operator::node::{Operator, Running};
use crate::operator::partition::{row_key, runs};
use crate::plan::error::to_datafusion;
use crate::plan::grid::Grid;
use crate::source::TimeRange;
use model::{Code, Error};
use proto::size::batch_bytes;

/// Most windows that one FILL may make.
const WINDOWS_MAX: usize = 10_000_000;

/// What a missing value becomes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FillMode {
    Null,
    Prev,
    Next,
    Linear,
    /// A constant a filled column, in order.
    Value(Vec<ScalarValue>),
}

/// Fills windows. Input columns: keys, then the window's start, then the values to fill; sorted by keys and start.
#[derive(Debug)]
pub(crate) struct FillOperator {
    pub(crate) keys: usize,
    pub(crate) mode: FillMode,
    /// Windows are made even where no row lies in the whole range.
    pub(crate) force: bool,
    pub(crate) grid: Grid,
    pub(crate) range: TimeRange,
    pub(crate) schema: SchemaRef,
}

impl Operator for FillOperator {
    fn describe(&self) -> String {
        format!(
            "Fill: mode={:?}, force={}, range=[{}, {}], {:?}",
            self.mode, self.force, self.range.first, self.range.last_inclusive, self.grid
        )
    }

    fn start(&self, memory: Reservation) -> Box<dyn Running> {
        Box::new(Run {
            keys: self.keys,
            mode: self.mode.clone(),
            force: self.force,
            windows: Windows::All { grid: self.grid.clone(), range: self.range },
            schema: Arc::clone(&self.schema),
            partition: None,
            held: Vec::new(),
            held_bytes: 0,
            memory,
            any: false,
        })
    }
}

/// Starts of all windows of the range: made at the first need.
enum Windows {
    All { grid: Grid, range: TimeRange },
    Known(Arc<[i64]>),
}

struct Run {
    keys: usize,
    mode: FillMode,
    force: bool,
    windows: Windows,
    schema: SchemaRef,
    partition: Option<Vec<ScalarValue>>,
    /// Rows of the current partition.
    held: Vec<RecordBatch>,
    held_bytes: usize,
    /// For these, and for what filling makes of them until more rows come.
    memory: Reservation,
    any: bool,
}

impl Running for Run {
    fn push(&mut self, batch: RecordBatch) -> DfResult<Vec<RecordBatch>> {
        let keys: Vec<usize> = (0..self.keys).collect();
        let mut output = Vec::new();
        for (start, rows) in runs(&batch, &keys)? {
            let key = row_key(&batch, &keys, start)?;
            if self.partition.as_ref() != Some(&key) {
                output.extend(self.fill_partition()?);
                self.partition = Some(key);
            }
            self.any = true;
            let rows = batch.slice(start, rows).with_schema(Arc::clone(&self.schema))?;
            self.held_bytes += batch_bytes(&rows);
            self.memory.resize(self.held_bytes).map_err(to_datafusion)?;
            self.held.push(rows);
        }
        Ok(output)
    }

    fn finish(&mut self) -> DfResult<Vec<RecordBatch>> {
        if !self.any {
            // Without keys the whole result is one partition, which may be forced into being.
            return if self.force && self.keys == 0 {
                self.partition = Some(Vec::new());
                self.held.push(RecordBatch::new_empty(Arc::clone(&self.schema)));
                Ok(self.fill_partition()?.into_iter().collect())
            } else {
                Ok(Vec::new())
            };
        }
        Ok(self.fill_partition()?.into_iter().collect())
    }
}

impl Run {
    fn windows(&mut self) -> DfResult<Arc<[i64]>> {
        let known = match &self.windows {
            Windows::Known(known) => return Ok(Arc::clone(known)),
            Windows::All { grid, range } => window_starts(grid, *range).map_err(to_datafusion)?,
        };
        let known: Arc<[i64]> = known.into();
        self.windows = Windows::Known(Arc::clone(&known));
        Ok(known)
    }

    fn fill_partition(&mut self) -> DfResult<Option<RecordBatch>> {
        let Some(key) = self.partition.take() else { return Ok(None) };
        let rows = arrow::compute::concat_batches(&self.schema, &std::mem::take(&mut self.held))?;
        let starts = arrow::compute::cast(rows.column(self.keys), &arrow_schema::DataType::Int64)?;
        let starts = starts.as_primitive::<Int64Type>().values().to_vec();
        let windows = self.windows()?;
        // The rows twice, as they came and in one piece; places and windows; a column's values one by one, and all
        // columns as they go out. Text that is carried into windows counts as it is copied.
        let count = windows.len().saturating_add(starts.len());
        let place_bytes = size_of::<Place>() + 2 * size_of::<i64>() + size_of::<ScalarValue>();
        let column_bytes = (key.len() + rows.num_columns()).saturating_mul(size_of::<[i64; 2]>());
        let bytes = count.saturating_mul(place_bytes + column_bytes);
        let held_bytes = std::mem::take(&mut self.held_bytes);
        self.memory.resize(held_bytes.saturating_mul(2).saturating_add(bytes)).map_err(to_datafusion)?;
        let places = merge(&windows, &starts);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for value in &key {
            columns.push(value.to_array_of_size(places.len())?);
        }
        let ticks: arrow::array::Int64Array = places.iter().map(|p| Some(p.start)).collect();
        columns.push(arrow::compute::cast(&ticks, rows.column(self.keys).data_type())?);
        for (index, column) in rows.columns().iter().skip(self.keys + 1).enumerate() {
            columns.push(self.fill_column(index, column, &places)?);
        }
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?))
    }

    fn fill_column(&self, index: usize, column: &ArrayRef, places: &[Place]) -> DfResult<ArrayRef> {
        let nothing = ScalarValue::try_from(column.data_type())?;
        let mut values = Vec::with_capacity(places.len());
        for place in places {
            values.push(match place.row {
                Some(row) => ScalarValue::try_from_array(column, row)?,
                None => nothing.clone(),
            });
        }
        match &self.mode {
            FillMode::Null => {}
            FillMode::Prev => carry(values.iter_mut(), &self.memory)?,
            FillMode::Next => carry(values.iter_mut().rev(), &self.memory)?,
            FillMode::Linear => linear(&mut values, places)?,
            FillMode::Value(constants) => {
                let constant = constants.get(index).unwrap_or(&nothing);
                values.iter_mut().filter(|v| v.is_null()).for_each(|v| *v = constant.clone());
            }
        }
        if values.is_empty() {
            return Ok(arrow::array::new_empty_array(column.data_type()));
        }
        ScalarValue::iter_to_array(values)
    }
}

/// A window of the output.
struct Place {
    start: i64,
    /// Its row, where it had one.
    row: Option<usize>,
}

/// All windows in order: those of the range and those that have rows.
fn merge(windows: &[i64], starts: &[i64]) -> Vec<Place> {
    let mut places = Vec::with_capacity(windows.len().max(starts.len()));
    let mut rows = starts.iter().copied().enumerate().peekable();
    for &start in windows {
        while let Some((row, s)) = rows.next_if(|(_, s)| *s < start) {
            places.push(Place { start: s, row: Some(row) });
        }
        let row = rows.next_if(|(_, s)| *s == start).map(|(row, _)| row);
        places.push(Place { start, row });
    }
    places.extend(rows.map(|(row, start)| Place { start, row: Some(row) }));
    places
}

fn window_starts(grid: &Grid, range: TimeRange) -> model::Result<Vec<i64>> {
    let mut starts = Vec::new();
    if range.is_empty() {
        return Ok(starts);
    }
    let mut start = grid.first_containing(range.first);
    while start <= range.last_inclusive {
        if starts.len() >= WINDOWS_MAX {
            return Err(Error::of(Code::FillRange));
        }
        starts.push(start);
        let next = grid.next(start);
        if next <= start {
            break;
        }
        start = next;
    }
    Ok(starts)
}

/// Gives each NULL the last value before it.
fn carry<'v>(values: impl Iterator<Item = &'v mut ScalarValue>, memory: &Reservation) -> DfResult<()> {
    let mut last: Option<ScalarValue> = None;
    let mut text = 0;
    for value in values {
        if value.is_null() {
            if let Some(last) = &last {
                if text > 0 {
                    // As a value of its own and in the column.
                    memory.grow(2 * text).map_err(to_datafusion)?;
                }
                *value = last.clone();
            }
        } else {
            text = value.size().saturating_sub(size_of::<ScalarValue>());
            last = Some(value.clone());
        }
    }
    Ok(())
}

/// Puts windows that had no row on the line between their neighbours.
fn linear(values: &mut [ScalarValue], places: &[Place]) -> DfResult<()> {
    let kind = values.first().map(ScalarValue::data_type);
    if !kind.as_ref().is_some_and(arrow_schema::DataType::is_numeric) {
        return Ok(());
    }
    let number = |v: &ScalarValue| match v.cast_to(&arrow_schema::DataType::Float64) {
        Ok(ScalarValue::Float64(v)) => v,
        _ => None,
    };
    // The last window with a row: its place and value, NULL included.
    let mut before: Option<(usize, Option<f64>)> = None;
    for at in 0..places.len() {
        let (Some(place), Some(value)) = (places.get(at), values.get(at)) else { continue };
        if place.row.is_none() {
            continue;
        }
        let here = number(value);
        if let (Some((from, Some(a))), Some(b)) = (before, here)
            && let (Some(x0), Some(x1)) = (places.get(from).map(|p| p.start), places.get(at).map(|p| p.start))
        {
            for gap in from + 1..at {
                let (Some(x), Some(slot)) = (places.get(gap).map(|p| p.start), values.get_mut(gap)) else {
                    continue;
                };
                *slot = on_line((x0, a), (x1, b), x, &slot.data_type())?;
            }
        }
        before = Some((at, here));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a share of a span needs no exact ticks")]
fn on_line(from: (i64, f64), to: (i64, f64), x: i64, kind: &arrow_schema::DataType) -> DfResult<ScalarValue> {
    let share = (x - from.0) as f64 / (to.0 - from.0) as f64;
    let value = from.1 + (to.1 - from.1) * share;
    let value = if kind.is_integer() { value.trunc() } else { value };
    ScalarValue::Float64(Some(value)).cast_to(kind)
}
