//! Columns that every row of a table shares: its name and its tags.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, StringBuilder};
use arrow_array::types::*;
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, DictionaryArray, Int32Array, PrimitiveArray, StringArray, new_null_array,
};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::take::take;
use model::Value;

use super::output::Run;
use super::selection::SelectedTable;

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
