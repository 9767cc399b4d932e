//! Columns that every row of a table shares: its name and its tags.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, StringBuilder};
use arrow_array::types::*;
use arrow_array::{
    Array as _, ArrayRef, ArrowPrimitiveType, DictionaryArray, Int32Array, PrimitiveArray, StringArray,
    new_null_array,
};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::take::take;
use model::{TableUid, Value};

use super::output::{Merged, Run};
use super::selection::SelectedTable;

/// Rows with the tables that they are of, one for each run where labels are wanted.
#[derive(Debug)]
pub(super) struct Labelled {
    pub(super) merged: Merged,
    pub(super) tables: Vec<SelectedTable>,
}

impl Labelled {
    /// In parts whose tags, those at these places, take no more than `bytes`, spread over the rows; a row whose tags
    /// take more is a part of its own.
    pub(super) fn split(self, tags: &[usize], bytes: usize) -> Vec<Self> {
        let width = |table: &SelectedTable| -> usize {
            tags.iter().map(|at| table.tags.get(*at).map_or(0, value_bytes)).sum::<usize>().max(1)
        };
        let (mut parts, mut part) = (Vec::new(), Part::default());
        let mut start = 0;
        for (number, run) in self.merged.runs.iter().enumerate() {
            let width = self.tables.get(number).map_or(0, width);
            while start < run.end {
                let room = (bytes - part.bytes).checked_div(width).unwrap_or(usize::MAX);
                let room = if part.rows == 0 { room.max(1) } else { room };
                if room == 0 {
                    parts.push(std::mem::take(&mut part));
                    continue;
                }
                let rows = room.min(run.end - start);
                part.add(number, run.table, rows);
                part.bytes = bytes.min(part.bytes.saturating_add(rows.saturating_mul(width)));
                start += rows;
            }
        }
        if parts.is_empty() {
            return vec![self];
        }
        parts.push(part);
        let mut start = 0;
        let cut = parts.into_iter().filter(|part| part.rows > 0).map(|part| {
            let columns = self.merged.columns.iter().map(|column| column.slice(start, part.rows)).collect();
            start += part.rows;
            let tables = part.numbers.iter().filter_map(|number| self.tables.get(*number).cloned()).collect();
            Self { merged: Merged { columns, runs: part.runs, rows: part.rows }, tables }
        });
        cut.collect()
    }
}

/// A part in the making.
#[derive(Debug, Default)]
struct Part {
    rows: usize,
    bytes: usize,
    runs: Vec<Run>,
    /// Of the runs that the part has rows of.
    numbers: Vec<usize>,
}

impl Part {
    fn add(&mut self, number: usize, table: TableUid, rows: usize) {
        self.rows += rows;
        match self.runs.last_mut() {
            Some(run) if self.numbers.last() == Some(&number) => run.end = self.rows,
            _ => {
                self.runs.push(Run { table, end: self.rows });
                self.numbers.push(number);
            }
        }
    }
}

/// Bytes that a value takes in an array.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len() + size_of::<i32>(),
        Value::Bytes(bytes) => bytes.len() + size_of::<i32>(),
        _ => size_of::<i64>(),
    }
}

/// Tables of a batch, one for each run, ready to be spread over the rows.
pub(super) struct Labels<'a> {
    tables: &'a [SelectedTable],
    /// For each row the number of its run.
    keys: Int32Array,
}

impl<'a> Labels<'a> {
    pub(super) fn new(tables: &'a [SelectedTable], runs: &[Run]) -> Self {
        let mut keys = Vec::with_capacity(runs.last().map_or(0, |run| run.end));
        for (number, run) in (0i32..).zip(runs) {
            keys.resize(run.end, number);
        }
        Self { tables, keys: keys.into() }
    }

    /// `tbname`: a dictionary with one entry a table.
    pub(super) fn tbname(&self) -> Result<ArrayRef, ArrowError> {
        let names = StringArray::from_iter_values(self.tables.iter().map(|table| &*table.name));
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(self.keys.clone(), Arc::new(names))?))
    }

    /// The tag at this place among the tags.
    pub(super) fn tag(&self, at: usize, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let values = value_array(data_type, self.tables.iter().map(|table| table.tags.get(at)));
        take(&values, &self.keys, None)
    }
}

/// Values as an array of `data_type`; NULL where there is none and where one does not fit the type.
pub(crate) fn value_array<'a>(
    data_type: &DataType,
    values: impl Iterator<Item = Option<&'a Value>> + Clone,
) -> ArrayRef {
    match data_type {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            for value in values {
                builder.append_option(match value {
                    Some(Value::Bool(v)) => Some(*v),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            for value in values {
                builder.append_option(match value {
                    Some(Value::Text(v)) => Some(v),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Binary => {
            let mut builder = BinaryBuilder::new();
            for value in values {
                builder.append_option(match value {
                    Some(Value::Bytes(v)) => Some(v),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Int8 => integers::<Int8Type>(data_type, values),
        DataType::Int16 => integers::<Int16Type>(data_type, values),
        DataType::Int32 => integers::<Int32Type>(data_type, values),
        DataType::Int64 => integers::<Int64Type>(data_type, values),
        DataType::UInt8 => integers::<UInt8Type>(data_type, values),
        DataType::UInt16 => integers::<UInt16Type>(data_type, values),
        DataType::UInt32 => integers::<UInt32Type>(data_type, values),
        DataType::UInt64 => integers::<UInt64Type>(data_type, values),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            integers::<TimestampMillisecondType>(data_type, values)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            integers::<TimestampMicrosecondType>(data_type, values)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            integers::<TimestampNanosecondType>(data_type, values)
        }
        DataType::Float32 => primitive::<Float32Type>(data_type, values, |value| match value {
            Value::Float(v) => Some(*v),
            _ => None,
        }),
        DataType::Float64 => primitive::<Float64Type>(data_type, values, |value| match value {
            Value::Double(v) => Some(*v),
            Value::Float(v) => Some(f64::from(*v)),
            _ => None,
        }),
        other => new_null_array(other, values.count()),
    }
}

fn integers<'a, T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: impl Iterator<Item = Option<&'a Value>>,
) -> ArrayRef
where
    T::Native: TryFrom<i64> + TryFrom<u64>,
{
    primitive::<T>(data_type, values, |value| match value {
        Value::Int(v) | Value::Timestamp(v) => T::Native::try_from(*v).ok(),
        Value::UInt(v) => T::Native::try_from(*v).ok(),
        _ => None,
    })
}

fn primitive<'a, T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: impl Iterator<Item = Option<&'a Value>>,
    convert: impl Fn(&Value) -> Option<T::Native>,
) -> ArrayRef {
    let array: PrimitiveArray<T> = values.map(|value| value.and_then(&convert)).collect();
    Arc::new(array.with_data_type(data_type.clone()))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array as _, Int64Array};

    use super::*;

    fn table(uid: u64, width: usize) -> SelectedTable {
        let tags = Arc::from([Value::Int(1), Value::Text("t".repeat(width))]);
        SelectedTable { uid: TableUid(uid), name: "d".into(), tags }
    }

    #[test]
    fn wide_tags_make_parts_of_few_rows() {
        let runs = [(1, 10), (2, 11), (3, 100)].map(|(table, end)| Run { table: TableUid(table), end });
        let ticks: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let merged = || Merged { columns: vec![Arc::clone(&ticks)], runs: runs.to_vec(), rows: 100 };
        let tables = || vec![table(1, 96), table(2, 5_000), table(3, 1)];
        let whole = Labelled { merged: merged(), tables: tables() }.split(&[0], 1_000);
        assert_eq!(whole.len(), 1, "numbers are narrow");
        let parts = Labelled { merged: merged(), tables: tables() }.split(&[1], 500);
        let mut row = 0;
        for Labelled { merged, tables } in &parts {
            assert_eq!((merged.columns[0].len(), merged.runs.len()), (merged.rows, tables.len()));
            assert_eq!(merged.runs.last().map(|run| run.end), Some(merged.rows));
            let mut start = 0;
            let mut bytes = 0;
            for (run, table) in merged.runs.iter().zip(tables) {
                assert_eq!(run.table, table.uid);
                bytes += (run.end - start) * value_bytes(&table.tags[1]);
                for _ in start..run.end {
                    let whose = runs.iter().find(|run| row < run.end).map(|run| run.table);
                    assert_eq!(whose, Some(table.uid), "row {row}");
                    row += 1;
                }
                start = run.end;
            }
            assert!(bytes <= 500 || merged.rows == 1, "{bytes} of {} rows", merged.rows);
        }
        assert_eq!(row, 100, "every row once, in order");
        assert_eq!(parts[0].merged.rows, 5);
    }
}
