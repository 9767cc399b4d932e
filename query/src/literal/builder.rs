//! Columns under construction.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, Int64Array};
use model::{DataType, Precision};

use super::{LiteralContext, Misfit, Raw, binary, number, string};

/// A column that literals are appended to.
#[derive(Debug)]
pub struct ColumnBuilder {
    data_type: DataType,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Bool(BooleanBuilder),
    TinyInt(PrimitiveBuilder<Int8Type>),
    SmallInt(PrimitiveBuilder<Int16Type>),
    Int(PrimitiveBuilder<Int32Type>),
    BigInt(PrimitiveBuilder<Int64Type>),
    UTinyInt(PrimitiveBuilder<UInt8Type>),
    USmallInt(PrimitiveBuilder<UInt16Type>),
    UInt(PrimitiveBuilder<UInt32Type>),
    UBigInt(PrimitiveBuilder<UInt64Type>),
    Float(PrimitiveBuilder<Float32Type>),
    Double(PrimitiveBuilder<Float64Type>),
    Timestamp(PrimitiveBuilder<Int64Type>),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

/// Runs one expression on whichever builder it is.
macro_rules! each {
    ($values:expr, $builder:ident => $body:expr) => {
        match $values {
            Values::Bool($builder) => $body,
            Values::TinyInt($builder) => $body,
            Values::SmallInt($builder) => $body,
            Values::Int($builder) => $body,
            Values::BigInt($builder) | Values::Timestamp($builder) => $body,
            Values::UTinyInt($builder) => $body,
            Values::USmallInt($builder) => $body,
            Values::UInt($builder) => $body,
            Values::UBigInt($builder) => $body,
            Values::Float($builder) => $body,
            Values::Double($builder) => $body,
            Values::Text($builder) => $body,
            Values::Bytes($builder) => $body,
        }
    };
}

impl ColumnBuilder {
    /// An empty column.
    #[must_use]
    pub fn new(data_type: DataType) -> Self {
        let values = match data_type {
            DataType::Bool => Values::Bool(BooleanBuilder::new()),
            DataType::TinyInt => Values::TinyInt(PrimitiveBuilder::new()),
            DataType::SmallInt => Values::SmallInt(PrimitiveBuilder::new()),
            DataType::Int => Values::Int(PrimitiveBuilder::new()),
            DataType::BigInt => Values::BigInt(PrimitiveBuilder::new()),
            DataType::UTinyInt => Values::UTinyInt(PrimitiveBuilder::new()),
            DataType::USmallInt => Values::USmallInt(PrimitiveBuilder::new()),
            DataType::UInt => Values::UInt(PrimitiveBuilder::new()),
            DataType::UBigInt => Values::UBigInt(PrimitiveBuilder::new()),
            DataType::Float => Values::Float(PrimitiveBuilder::new()),
            DataType::Double => Values::Double(PrimitiveBuilder::new()),
            DataType::Timestamp => Values::Timestamp(PrimitiveBuilder::new()),
            DataType::Varbinary(_) | DataType::Geometry(_) => Values::Bytes(BinaryBuilder::new()),
            _ => Values::Text(StringBuilder::new()),
        };
        Self { data_type, values }
    }

    /// The column's type.
    #[must_use]
    pub const fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Appends `raw` as the column's type has it; nothing where it does not fit.
    #[inline]
    pub fn append(&mut self, raw: Raw<'_>, context: &LiteralContext) -> Result<(), Misfit> {
        if let Values::Text(builder) = &mut self.values {
            builder.append_option(string(self.data_type, raw)?);
            return Ok(());
        }
        if let Values::Bytes(builder) = &mut self.values {
            builder.append_option(binary::parse(self.data_type, raw)?);
            return Ok(());
        }
        if raw.is_null_word() {
            self.append_null();
            return Ok(());
        }
        match &mut self.values {
            Values::Bool(b) => b.append_value(number::boolean(raw)?),
            Values::TinyInt(b) => b.append_value(number::integer(raw)?),
            Values::SmallInt(b) => b.append_value(number::integer(raw)?),
            Values::Int(b) => b.append_value(number::integer(raw)?),
            Values::BigInt(b) => b.append_value(number::integer(raw)?),
            Values::UTinyInt(b) => b.append_value(number::integer(raw)?),
            Values::USmallInt(b) => b.append_value(number::integer(raw)?),
            Values::UInt(b) => b.append_value(number::integer(raw)?),
            Values::UBigInt(b) => b.append_value(number::integer(raw)?),
            Values::Float(b) => b.append_value(number::float(raw)?),
            Values::Double(b) => b.append_value(number::double(raw)?),
            Values::Timestamp(b) => b.append_value(context.ticks(raw)?),
            Values::Text(_) | Values::Bytes(_) => return Err(Misfit::Symbol),
        }
        Ok(())
    }

    /// Appends NULL.
    pub fn append_null(&mut self) {
        each!(&mut self.values, builder => builder.append_null());
    }

    /// Rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        use arrow_array::builder::ArrayBuilder as _;
        each!(&self.values, builder => builder.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column as Arrow has it ([`DataType::arrow`]).
    #[must_use]
    pub fn finish(mut self, precision: Precision) -> ArrayRef {
        if let Values::Timestamp(builder) = &mut self.values {
            return timestamps(&builder.finish(), precision);
        }
        each!(&mut self.values, builder => Arc::new(builder.finish()))
    }
}

/// Ticks as Arrow timestamps; the buffers stay where they are.
fn timestamps(ticks: &Int64Array, precision: Precision) -> ArrayRef {
    match precision {
        Precision::Ms => Arc::new(ticks.reinterpret_cast::<TimestampMillisecondType>()),
        Precision::Us => Arc::new(ticks.reinterpret_cast::<TimestampMicrosecondType>()),
        Precision::Ns => Arc::new(ticks.reinterpret_cast::<TimestampNanosecondType>()),
    }
}
