//! Row-wise reading of record batches, for those who do not need columns.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType as Arrow, TimeUnit};
use model::{Code, Error, Result, Value};

use crate::decode::Column;

/// The value at `row` of `array`; NULL behind its end and for types that Tidemark does not send.
#[must_use]
pub fn value_at(array: &dyn Array, row: usize) -> Value {
    if row >= array.len() || array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        Arrow::Boolean => Value::Bool(array.as_boolean().value(row)),
        Arrow::Int8 => Value::Int(array.as_primitive::<Int8Type>().value(row).into()),
        Arrow::Int16 => Value::Int(array.as_primitive::<Int16Type>().value(row).into()),
        Arrow::Int32 => Value::Int(array.as_primitive::<Int32Type>().value(row).into()),
        Arrow::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(row)),
        Arrow::UInt8 => Value::UInt(array.as_primitive::<UInt8Type>().value(row).into()),
        Arrow::UInt16 => Value::UInt(array.as_primitive::<UInt16Type>().value(row).into()),
        Arrow::UInt32 => Value::UInt(array.as_primitive::<UInt32Type>().value(row).into()),
        Arrow::UInt64 => Value::UInt(array.as_primitive::<UInt64Type>().value(row)),
        Arrow::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(row)),
        Arrow::Float64 => Value::Double(array.as_primitive::<Float64Type>().value(row)),
        Arrow::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        Arrow::Binary => Value::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        Arrow::Timestamp(TimeUnit::Millisecond, _) => {
            Value::Timestamp(array.as_primitive::<TimestampMillisecondType>().value(row))
        }
        Arrow::Timestamp(TimeUnit::Microsecond, _) => {
            Value::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        Arrow::Timestamp(TimeUnit::Nanosecond, _) => {
            Value::Timestamp(array.as_primitive::<TimestampNanosecondType>().value(row))
        }
        _ => Value::Null,
    }
}

/// All rows of a result, in memory.
#[derive(Clone, Debug)]
pub struct Rows {
    pub(crate) columns: Arc<[Column]>,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Rows {
    /// Names and types.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The same rows as columns.
    #[must_use]
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Row after row.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.batches.iter().flat_map(|batch| rows_of(&self.columns, batch))
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = Row<'a>;
    type IntoIter = Box<dyn Iterator<Item = Row<'a>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

/// The rows of one batch.
pub(crate) fn rows_of<'a>(columns: &'a [Column], batch: &'a RecordBatch) -> impl Iterator<Item = Row<'a>> {
    (0..batch.num_rows()).map(move |row| Row { columns, batch, row })
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a [Column],
    batch: &'a RecordBatch,
    row: usize,
}

impl<'a> Row<'a> {
    /// Names and types.
    #[must_use]
    pub fn columns(&self) -> &'a [Column] {
        self.columns
    }

    /// The value of the column at `index`, from 0; NULL where there is no such column.
    #[must_use]
    pub fn value(&self, index: usize) -> Value {
        self.batch.columns().get(index).map_or(Value::Null, |array| value_at(array, self.row))
    }

    /// Every value, in order.
    pub fn values(&self) -> impl Iterator<Item = Value> + use<'a> {
        let row = self.row;
        self.batch.columns().iter().map(move |array| value_at(array, row))
    }

    /// The value of the column at `index` as a Rust type; `Option` takes NULL.
    ///
    /// # Errors
    /// [`Code::WrongValueType`] when it is of another type, too wide, or NULL; [`Code::InvalidColumn`] when there is no
    /// such column.
    pub fn get<T: FromValue>(&self, index: usize) -> Result<T> {
        let column = self.columns.get(index);
        let column = column.ok_or_else(|| Error::with(Code::InvalidColumn, format!("index={index}")))?;
        let value = self.value(index);
        T::from_value(&value).ok_or_else(|| {
            let wanted = std::any::type_name::<T>();
            let text = format!("column={} value={value} wanted={wanted}", column.name);
            Error::with(Code::WrongValueType, text)
        })
    }

    /// The value of the first column called `name`.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn by_name<T: FromValue>(&self, name: &str) -> Result<T> {
        let index = self.columns.iter().position(|column| column.name == name);
        self.get(index.ok_or_else(|| Error::with(Code::InvalidColumn, name))?)
    }
}

/// A Rust type that a value can be read as.
pub trait FromValue: Sized {
    /// `None` where the value is of another type or does not fit.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! integer {
    ($($t:ty),+) => {$(
        impl FromValue for $t {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Int(v) | Value::Timestamp(v) => Self::try_from(*v).ok(),
                    Value::UInt(v) => Self::try_from(*v).ok(),
                    _ => None,
                }
            }
        }
    )+};
}

integer!(i8, i16, i32, i64, u8, u16, u32, u64, usize);

impl FromValue for f64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Double(v) => Some(*v),
            Value::Float(v) => Some(Self::from(*v)),
            _ => None,
        }
    }
}

impl FromValue for f32 {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Float(v) = value { Some(*v) } else { None }
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Bool(v) = value { Some(*v) } else { None }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Text(v) = value { Some(v.clone()) } else { None }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        if let Value::Bytes(v) = value { Some(v.clone()) } else { None }
    }
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::from_value(value).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};
    use model::{DataType, Precision};

    use super::*;
    use crate::decode::Layout;

    #[test]
    fn rows_read_as_rust_types() {
        let column =
            |name: &str, data_type| Column { name: name.into(), data_type, precision: Precision::Ms };
        let layout = Layout::new(vec![column("n", DataType::BigInt), column("s", DataType::Varchar(8))]);
        let batch = RecordBatch::try_new(
            Arc::clone(&layout.schema),
            vec![
                Arc::new(Int64Array::from(vec![Some(300), None])),
                Arc::new(StringArray::from(vec![Some("a"), None])),
            ],
        )
        .unwrap();
        let rows = Rows { columns: layout.columns, batches: vec![batch] };
        let read: Vec<_> = rows.iter().collect();
        assert_eq!(read[0].get::<i64>(0).unwrap(), 300);
        assert_eq!(read[0].by_name::<String>("s").unwrap(), "a");
        assert_eq!(read[0].get::<u8>(0).unwrap_err().code(), Code::WrongValueType, "300 is no u8");
        assert_eq!(read[1].get::<Option<i64>>(0).unwrap(), None);
        assert_eq!(read[1].get::<i64>(0).unwrap_err().code(), Code::WrongValueType);
        assert_eq!(read[0].by_name::<i64>("zz").unwrap_err().code(), Code::InvalidColumn);
        assert_eq!(read[0].value(7), Value::Null);
    }
}
