//! Single values as Arrow arrays and scalars.

use arrow::array::ArrayRef;
use arrow_schema::DataType as Arrow;
use datafusion::common::{Result as DfResult, ScalarValue};
use model::Value;

/// One value as a scalar of `to`, wrapped or cut as Arrow's cast does it, NULL where it does not fit.
pub(crate) fn scalar(value: &Value, to: &Arrow) -> DfResult<ScalarValue> {
    let plain = match value {
        Value::Null => return ScalarValue::try_from(to),
        Value::Bool(v) => ScalarValue::Boolean(Some(*v)),
        Value::Int(v) | Value::Timestamp(v) => ScalarValue::Int64(Some(*v)),
        Value::UInt(v) => ScalarValue::UInt64(Some(*v)),
        Value::Float(v) => ScalarValue::Float32(Some(*v)),
        Value::Double(v) => ScalarValue::Float64(Some(*v)),
        Value::Text(v) => ScalarValue::Utf8(Some(v.clone())),
        Value::Bytes(v) => ScalarValue::Binary(Some(v.clone())),
    };
    plain.cast_to(to)
}

/// Values as an array of `to`.
pub(crate) fn array<'v>(values: impl Iterator<Item = &'v Value>, to: &Arrow) -> DfResult<ArrayRef> {
    let scalars = values.map(|v| scalar(v, to)).collect::<DfResult<Vec<_>>>()?;
    if scalars.is_empty() {
        return Ok(arrow::array::new_empty_array(to));
    }
    ScalarValue::iter_to_array(scalars)
}
