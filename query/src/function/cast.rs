//! CAST, which never fails on bad data: numbers wrap, text gives the number it begins with, bad times are the epoch.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float32Array, Float64Array, Int64Array,
    PrimitiveArray, StringArray,
};
use arrow::datatypes::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_schema::DataType as Arrow;
use datafusion::common::{Result as DfResult, ScalarValue};
use model::{Code, DataType, Error, Precision, Result, Zone};

use crate::function::native::call;
use crate::function::text::{general, prefix_double, prefix_integer, prefix_unsigned};
use crate::plan::coerce;
use crate::plan::types::{Ty, Typed};

/// `value` as `to`. A VARCHAR or NCHAR of length 0 takes the length of its source.
pub(crate) fn cast(value: Typed, to: Ty, zone: Zone) -> Result<Typed> {
    let Some(target) = to.data else { return Ok(value) };
    if value.ty.is_null() {
        let null = ScalarValue::try_from(&to.arrow()).unwrap_or(ScalarValue::Null);
        return Ok(Typed::literal(null, to));
    }
    let from = value.ty;
    if from.is_binary() || from.data == Some(DataType::Json) {
        return Err(Error::of(Code::ParameterType).hint("VARBINARY, GEOMETRY and JSON cannot be cast"));
    }
    if from.is_timestamp() && to.is_timestamp() {
        return coerce::rescaled(value, to.precision);
    }
    let target = match target {
        DataType::Varchar(0) => DataType::Varchar(text_length(from)),
        DataType::NChar(0) => DataType::NChar(text_length(from)),
        target => target,
    };
    let to = Ty::of(target, to.precision);
    if lossless(from, target) {
        return value.arrow_cast(target);
    }
    let name = format!("cast_{from:?}_{to:?}_{zone:?}");
    let expr = call(name, to.arrow(), vec![value.expr], move |args, _| match args {
        [array] => convert(array, from, to, zone),
        _ => datafusion::common::internal_err!("CAST takes one argument"),
    });
    Typed::new(expr, to).folded()
}

fn text_length(from: Ty) -> u16 {
    match from.declared() {
        DataType::Varchar(n) | DataType::NChar(n) => n.max(1),
        _ => 64,
    }
}

/// Whether Arrow's own cast gives the same answer.
fn lossless(from: Ty, to: DataType) -> bool {
    let Some(source) = from.data else { return false };
    match (source, to) {
        (a, b) if a == b => true,
        (DataType::Varchar(a) | DataType::NChar(a), DataType::Varchar(b)) => {
            // An NCHAR character takes up to four bytes.
            let bytes = if matches!(source, DataType::NChar(_)) { u32::from(a) * 4 } else { u32::from(a) };
            bytes <= u32::from(b)
        }
        (DataType::Varchar(a) | DataType::NChar(a), DataType::NChar(b)) => a <= b,
        (a, DataType::Double) => a.is_numeric(),
        (a, DataType::BigInt) => (a.is_integer() && a != DataType::UBigInt) || a == DataType::Timestamp,
        (DataType::UTinyInt | DataType::USmallInt | DataType::UInt, DataType::UBigInt) => true,
        _ => false,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "integers wrap by the dialect's rule")]
fn convert(array: &ArrayRef, from: Ty, to: Ty, zone: Zone) -> DfResult<ArrayRef> {
    Ok(match to.declared() {
        DataType::Bool => Arc::new(to_bool(array, from)?),
        DataType::TinyInt => wrapped::<Int8Type>(array, |v| v as i8)?,
        DataType::SmallInt => wrapped::<Int16Type>(array, |v| v as i16)?,
        DataType::Int => wrapped::<Int32Type>(array, |v| v as i32)?,
        DataType::BigInt => wrapped::<Int64Type>(array, |v| v)?,
        DataType::UTinyInt => wrapped::<UInt8Type>(array, |v| v as u8)?,
        DataType::USmallInt => wrapped::<UInt16Type>(array, |v| v as u16)?,
        DataType::UInt => wrapped::<UInt32Type>(array, |v| v as u32)?,
        DataType::UBigInt => to_unsigned(array)?,
        DataType::Float => {
            let doubles = to_double(array)?;
            let floats: Float32Array = doubles.iter().map(|v| v.map(|v| v as f32)).collect();
            Arc::new(floats)
        }
        DataType::Double => Arc::new(to_double(array)?),
        DataType::Timestamp => to_timestamp(array, to.precision, zone)?,
        target @ (DataType::Varchar(_) | DataType::NChar(_)) => Arc::new(to_text(array, target)?),
        other => return datafusion::common::not_impl_err!("CAST AS {other}"),
    })
}

fn wrapped<T: ArrowPrimitiveType>(array: &ArrayRef, narrow: fn(i64) -> T::Native) -> DfResult<ArrayRef> {
    let values: PrimitiveArray<T> = to_integer(array)?.iter().map(|v| v.map(narrow)).collect();
    Ok(Arc::new(values))
}

/// 64 bits of an integer of either sign: floats lose their fraction, text gives the integer that it begins with.
#[expect(clippy::cast_possible_truncation, reason = "a float beyond 64 bits is clipped")]
fn to_integer(array: &ArrayRef) -> DfResult<Int64Array> {
    Ok(match array.data_type() {
        Arrow::Utf8 => array.as_string::<i32>().iter().map(|v| v.map(prefix_integer)).collect(),
        Arrow::Float32 => array.as_primitive::<Float32Type>().iter().map(|v| v.map(|v| v as i64)).collect(),
        Arrow::Float64 => array.as_primitive::<Float64Type>().iter().map(|v| v.map(|v| v as i64)).collect(),
        Arrow::UInt64 => array.as_primitive::<UInt64Type>().iter().map(|v| v.map(u64::cast_signed)).collect(),
        _ => arrow::compute::cast(array, &Arrow::Int64)?.as_primitive::<Int64Type>().clone(),
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "wraps by the dialect's rule")]
fn to_unsigned(array: &ArrayRef) -> DfResult<ArrayRef> {
    let values: PrimitiveArray<UInt64Type> = match array.data_type() {
        Arrow::Utf8 => array.as_string::<i32>().iter().map(|v| v.map(prefix_unsigned)).collect(),
        Arrow::Float64 => array
            .as_primitive::<Float64Type>()
            .iter()
            .map(|v| v.map(|v| if v < 0.0 { (v as i64).cast_unsigned() } else { v as u64 }))
            .collect(),
        _ => to_integer(array)?.iter().map(|v| v.map(i64::cast_unsigned)).collect(),
    };
    Ok(Arc::new(values))
}

fn to_double(array: &ArrayRef) -> DfResult<Float64Array> {
    Ok(match array.data_type() {
        Arrow::Utf8 => array.as_string::<i32>().iter().map(|v| v.map(prefix_double)).collect(),
        Arrow::Boolean => array.as_boolean().iter().map(|v| v.map(|v| f64::from(u8::from(v)))).collect(),
        Arrow::Timestamp(..) => {
            let ticks = arrow::compute::cast(array, &Arrow::Int64)?;
            arrow::compute::cast(&ticks, &Arrow::Float64)?.as_primitive::<Float64Type>().clone()
        }
        _ => arrow::compute::cast(array, &Arrow::Float64)?.as_primitive::<Float64Type>().clone(),
    })
}

fn to_bool(array: &ArrayRef, from: Ty) -> DfResult<BooleanArray> {
    if from.is_string() {
        let truth = |text: &str| {
            if text.eq_ignore_ascii_case("true") { true } else { prefix_double(text) != 0.0 }
        };
        return Ok(array.as_string::<i32>().iter().map(|v| v.map(truth)).collect());
    }
    if let Arrow::UInt64 = array.data_type() {
        return Ok(array.as_primitive::<UInt64Type>().iter().map(|v| v.map(|v| v != 0)).collect());
    }
    Ok(to_double(array)?.iter().map(|v| v.map(|v| v != 0.0)).collect())
}

fn to_timestamp(array: &ArrayRef, precision: Precision, zone: Zone) -> DfResult<ArrayRef> {
    let ticks: Int64Array = match array.data_type() {
        Arrow::Utf8 => array
            .as_string::<i32>()
            .iter()
            .map(|v| v.map(|text| model::parse_timestamp(text, precision, zone).unwrap_or(0)))
            .collect(),
        _ => to_integer(array)?,
    };
    Ok(arrow::compute::cast(&ticks, &DataType::Timestamp.arrow(precision))?)
}

fn to_text(array: &ArrayRef, target: DataType) -> DfResult<StringArray> {
    let cut = |text: String| cut(text, target);
    Ok(match array.data_type() {
        Arrow::Utf8 => array.as_string::<i32>().iter().map(|v| v.map(|t| cut(t.to_owned()))).collect(),
        Arrow::Boolean => array.as_boolean().iter().map(|v| v.map(|b| cut(b.to_string()))).collect(),
        Arrow::Float64 => {
            array.as_primitive::<Float64Type>().iter().map(|v| v.map(|d| cut(general(d, 15)))).collect()
        }
        Arrow::Float32 => array
            .as_primitive::<Float32Type>()
            .iter()
            .map(|v| v.map(|d| cut(general(f64::from(d), 6))))
            .collect(),
        Arrow::UInt64 => {
            array.as_primitive::<UInt64Type>().iter().map(|v| v.map(|d| cut(d.to_string()))).collect()
        }
        _ => to_integer(array)?.iter().map(|v| v.map(|d| cut(d.to_string()))).collect(),
    })
}

/// Cuts to the declared length; a character that would be split is dropped.
pub(crate) fn cut(mut text: String, target: DataType) -> String {
    match target {
        DataType::Varchar(n) => {
            let mut end = usize::from(n).min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        DataType::NChar(n) => {
            if let Some((end, _)) = text.char_indices().nth(usize::from(n)) {
                text.truncate(end);
            }
        }
        _ => {}
    }
    text
}
