//! One column of a batch while it grows.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Float32Builder, Float64Builder, Int8Builder, Int16Builder,
    Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, TimestampMillisecondBuilder,
    TimestampNanosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::{Array, ArrayRef};
use model::{Code, DataType, Error, Precision, Result, Value};

use crate::decode::Column;

/// Values of one column. Appends check type, range and length, so that a wrong value is told where it is given.
#[derive(Debug)]
pub struct ColumnBuilder {
    column: Column,
    pending: Pending,
    /// Whole arrays that were appended, and what was pending before each.
    chunks: Vec<ArrayRef>,
    chunk_rows: usize,
}

macro_rules! pending {
    ($($variant:ident($builder:ty)),+) => {
        #[derive(Debug)]
        enum Pending { $($variant($builder)),+ }

        impl Pending {
            fn len(&self) -> usize {
                match self { $(Self::$variant(b) => b.len()),+ }
            }

            fn append_null(&mut self) {
                match self { $(Self::$variant(b) => b.append_null()),+ }
            }

            fn finish(&mut self) -> ArrayRef {
                match self { $(Self::$variant(b) => Arc::new(b.finish())),+ }
            }
        }
    };
}

pending! {
    Bool(BooleanBuilder), Int8(Int8Builder), Int16(Int16Builder), Int32(Int32Builder), Int64(Int64Builder),
    UInt8(UInt8Builder), UInt16(UInt16Builder), UInt32(UInt32Builder), UInt64(UInt64Builder),
    Float(Float32Builder), Double(Float64Builder), Text(StringBuilder), Bytes(BinaryBuilder),
    Ms(TimestampMillisecondBuilder), Us(TimestampMicrosecondBuilder), Ns(TimestampNanosecondBuilder)
}

impl Pending {
    fn new(data_type: DataType, precision: Precision) -> Result<Self> {
        Ok(match (data_type, precision) {
            (DataType::Bool, _) => Self::Bool(BooleanBuilder::new()),
            (DataType::TinyInt, _) => Self::Int8(Int8Builder::new()),
            (DataType::SmallInt, _) => Self::Int16(Int16Builder::new()),
            (DataType::Int, _) => Self::Int32(Int32Builder::new()),
            (DataType::BigInt, _) => Self::Int64(Int64Builder::new()),
            (DataType::UTinyInt, _) => Self::UInt8(UInt8Builder::new()),
            (DataType::USmallInt, _) => Self::UInt16(UInt16Builder::new()),
            (DataType::UInt, _) => Self::UInt32(UInt32Builder::new()),
            (DataType::UBigInt, _) => Self::UInt64(UInt64Builder::new()),
            (DataType::Float, _) => Self::Float(Float32Builder::new()),
            (DataType::Double, _) => Self::Double(Float64Builder::new()),
            (DataType::Varchar(_) | DataType::NChar(_), _) => Self::Text(StringBuilder::new()),
            (DataType::Varbinary(_) | DataType::Geometry(_), _) => Self::Bytes(BinaryBuilder::new()),
            (DataType::Timestamp, Precision::Ms) => Self::Ms(TimestampMillisecondBuilder::new()),
            (DataType::Timestamp, Precision::Us) => Self::Us(TimestampMicrosecondBuilder::new()),
            (DataType::Timestamp, Precision::Ns) => Self::Ns(TimestampNanosecondBuilder::new()),
            (other, _) => return Err(Error::not_supported(format!("writing columns of type {other}"))),
        })
    }
}

impl ColumnBuilder {
    pub(super) fn new(column: Column) -> Result<Self> {
        let pending = Pending::new(column.data_type, column.precision)?;
        Ok(Self { column, pending, chunks: Vec::new(), chunk_rows: 0 })
    }

    /// Name and type.
    #[must_use]
    pub fn column(&self) -> &Column {
        &self.column
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunk_rows + self.pending.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends NULL.
    pub fn append_null(&mut self) {
        self.pending.append_null();
    }

    /// Appends an integer, also to FLOAT and DOUBLE, or ticks to TIMESTAMP.
    ///
    /// # Errors
    /// [`Code::OutOfRange`] when it is too wide, [`Code::WrongValueType`] for a BOOL or text column.
    pub fn append_i64(&mut self, value: i64) -> Result<()> {
        let column = &self.column;
        macro_rules! narrow {
            ($builder:expr) => {
                $builder
                    .append_value(value.try_into().map_err(|_| refusal(column, Code::OutOfRange, &value))?)
            };
        }
        match &mut self.pending {
            Pending::Int8(b) => narrow!(b),
            Pending::Int16(b) => narrow!(b),
            Pending::Int32(b) => narrow!(b),
            Pending::Int64(b) => b.append_value(value),
            Pending::UInt8(b) => narrow!(b),
            Pending::UInt16(b) => narrow!(b),
            Pending::UInt32(b) => narrow!(b),
            Pending::UInt64(b) => narrow!(b),
            Pending::Ms(b) => b.append_value(value),
            Pending::Us(b) => b.append_value(value),
            Pending::Ns(b) => b.append_value(value),
            #[expect(clippy::cast_precision_loss, reason = "what a float column is for")]
            Pending::Float(b) => b.append_value(value as f32),
            #[expect(clippy::cast_precision_loss, reason = "what a float column is for")]
            Pending::Double(b) => b.append_value(value as f64),
            Pending::Bool(_) | Pending::Text(_) | Pending::Bytes(_) => {
                return Err(self.column_error(Code::WrongValueType, &value));
            }
        }
        Ok(())
    }

    /// Appends a number to a FLOAT or DOUBLE column.
    ///
    /// # Errors
    /// [`Code::WrongValueType`] for any other column.
    pub fn append_f64(&mut self, value: f64) -> Result<()> {
        match &mut self.pending {
            #[expect(clippy::cast_possible_truncation, reason = "FLOAT keeps what 32 bits hold")]
            Pending::Float(b) => b.append_value(value as f32),
            Pending::Double(b) => b.append_value(value),
            _ => return Err(self.column_error(Code::WrongValueType, &value)),
        }
        Ok(())
    }

    /// Appends text to a VARCHAR or NCHAR column.
    ///
    /// # Errors
    /// [`Code::ValueTooLong`] past the declared length, [`Code::WrongValueType`] for any other column.
    pub fn append_str(&mut self, value: &str) -> Result<()> {
        if !self.column.data_type.fits(value) {
            return Err(self.column_error(Code::ValueTooLong, &value));
        }
        match &mut self.pending {
            Pending::Text(b) => b.append_value(value),
            _ => return Err(self.column_error(Code::WrongValueType, &value)),
        }
        Ok(())
    }

    /// Appends bytes to a VARBINARY column, or well-known binary to a GEOMETRY column.
    ///
    /// # Errors
    /// [`Code::ValueTooLong`] past the declared length, [`Code::WrongValueType`] for any other column.
    pub fn append_bytes(&mut self, value: &[u8]) -> Result<()> {
        let shown = || format!("{} bytes", value.len());
        if !self.column.data_type.fits_bytes(value) {
            return Err(self.column_error(Code::ValueTooLong, &shown()));
        }
        match &mut self.pending {
            Pending::Bytes(b) => b.append_value(value),
            _ => return Err(self.column_error(Code::WrongValueType, &shown())),
        }
        Ok(())
    }

    /// Appends to a BOOL column.
    ///
    /// # Errors
    /// [`Code::WrongValueType`] for any other column.
    pub fn append_bool(&mut self, value: bool) -> Result<()> {
        match &mut self.pending {
            Pending::Bool(b) => b.append_value(value),
            _ => return Err(self.column_error(Code::WrongValueType, &value)),
        }
        Ok(())
    }

    /// Appends any value that fits the column.
    ///
    /// # Errors
    /// As the typed appends.
    pub fn append(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Null => self.append_null(),
            Value::Bool(v) => self.append_bool(*v)?,
            Value::Int(v) | Value::Timestamp(v) => self.append_i64(*v)?,
            Value::UInt(v) => match (&mut self.pending, i64::try_from(*v)) {
                (Pending::UInt64(b), _) => b.append_value(*v),
                (_, Ok(v)) => self.append_i64(v)?,
                (_, Err(_)) => return Err(self.column_error(Code::OutOfRange, v)),
            },
            Value::Float(v) => self.append_f64(f64::from(*v))?,
            Value::Double(v) => self.append_f64(*v)?,
            Value::Text(v) => self.append_str(v)?,
            Value::Bytes(v) => self.append_bytes(v)?,
        }
        Ok(())
    }

    /// Appends a whole Arrow array, without copying it where it is the batch's only one.
    ///
    /// # Errors
    /// [`Code::WrongValueType`] when it is not of the type that carries the column's (see [`DataType::arrow`]).
    pub fn append_array(&mut self, array: ArrayRef) -> Result<()> {
        if *array.data_type() != self.column.data_type.arrow(self.column.precision) {
            return Err(self.column_error(Code::WrongValueType, array.data_type()));
        }
        self.seal();
        self.chunk_rows += array.len();
        self.chunks.push(array);
        Ok(())
    }

    /// Whether an array of that many rows can be appended.
    pub(super) fn takes(&self, array: &ArrayRef, rows: usize) -> Result<()> {
        if *array.data_type() != self.column.data_type.arrow(self.column.precision) {
            return Err(self.column_error(Code::WrongValueType, array.data_type()));
        }
        if array.len() != rows {
            return Err(self.column_error(Code::ColumnCount, &format!("{} of {rows} rows", array.len())));
        }
        Ok(())
    }

    /// Takes the last value back.
    pub(super) fn pop(&mut self) -> Result<()> {
        let all = self.finish()?;
        let kept = all.slice(0, all.len().saturating_sub(1));
        if !kept.is_empty() {
            self.append_array(kept)?;
        }
        Ok(())
    }

    fn seal(&mut self) {
        if self.pending.len() > 0 {
            self.chunk_rows += self.pending.len();
            self.chunks.push(self.pending.finish());
        }
    }

    /// All values; the builder is empty then.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        self.seal();
        self.chunk_rows = 0;
        let mut chunks = std::mem::take(&mut self.chunks);
        match (chunks.len(), chunks.pop()) {
            (_, None) => Ok(self.pending.finish()),
            (1, Some(only)) => Ok(only),
            (_, Some(last)) => {
                chunks.push(last);
                let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
                arrow_select::concat::concat(&chunks).map_err(|e| Error::internal(&e).caused_by(e))
            }
        }
    }

    fn column_error(&self, code: Code, value: &dyn std::fmt::Display) -> Error {
        refusal(&self.column, code, value)
    }
}

fn refusal(column: &Column, code: Code, value: &dyn std::fmt::Display) -> Error {
    let Column { name, data_type, .. } = column;
    Error::with(code, format!("column={name} type={data_type} value={value}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, Int64Array};

    use super::*;

    fn builder(data_type: DataType) -> ColumnBuilder {
        ColumnBuilder::new(Column { name: "v".into(), data_type, precision: Precision::Ms }).unwrap()
    }

    #[test]
    fn values_are_checked_where_they_are_given() {
        let code = |data_type, value: Value| builder(data_type).append(&value).err().map(|e| e.code());
        assert_eq!(code(DataType::TinyInt, Value::Int(128)), Some(Code::OutOfRange));
        assert_eq!(code(DataType::TinyInt, Value::Int(-128)), None);
        assert_eq!(code(DataType::UInt, Value::Int(-1)), Some(Code::OutOfRange));
        assert_eq!(code(DataType::UBigInt, Value::UInt(u64::MAX)), None);
        assert_eq!(code(DataType::BigInt, Value::UInt(u64::MAX)), Some(Code::OutOfRange));
        assert_eq!(code(DataType::Varchar(3), Value::Text("abcd".into())), Some(Code::ValueTooLong));
        assert_eq!(code(DataType::NChar(3), Value::Text("äöü".into())), None);
        assert_eq!(code(DataType::Int, Value::Text("7".into())), Some(Code::WrongValueType));
        assert_eq!(code(DataType::Varbinary(2), Value::Bytes(vec![1, 2])), None);
        assert_eq!(code(DataType::Varbinary(2), Value::Bytes(vec![1, 2, 3])), Some(Code::ValueTooLong));
        assert_eq!(code(DataType::Varchar(9), Value::Bytes(vec![1])), Some(Code::WrongValueType));
        assert_eq!(code(DataType::Double, Value::Int(7)), None);
        assert_eq!(code(DataType::Bool, Value::Null), None);
    }

    #[test]
    fn values_and_arrays_mix_in_order() {
        let mut builder = builder(DataType::Int);
        builder.append_i64(1).unwrap();
        builder.append_array(Arc::new(Int32Array::from(vec![2, 3]))).unwrap();
        builder.append_null();
        assert_eq!(builder.len(), 4);
        let wrong = builder.append_array(Arc::new(Int64Array::from(vec![9]))).unwrap_err();
        assert_eq!(wrong.code(), Code::WrongValueType);
        let array = builder.finish().unwrap();
        assert_eq!(array.as_ref(), &Int32Array::from(vec![Some(1), Some(2), Some(3), None]) as &dyn Array);
        assert!(builder.is_empty() && builder.finish().unwrap().is_empty());
    }
}
