//! Tag values against their declared types. They come from other processes and are stored as they are, so what does
//! not fit is refused here.

use model::{Code, ColumnDef, DataType, Error, Result, TableSchema, Value};

/// Bytes that the tags of one table may take together.
const TAGS_BYTES_MAX: usize = 16_384;

/// Checks the tags of one child.
pub(super) fn check_all(schema: &TableSchema, tags: &[Value]) -> Result<()> {
    if tags.len() != schema.tags.len() {
        let counts = format!("given={} wanted={}", tags.len(), schema.tags.len());
        return Err(Error::with(Code::TagsNotMatched, counts));
    }
    schema.tags.iter().zip(tags).try_for_each(|(tag, value)| check(tag, value))?;
    let bytes: usize = tags.iter().map(bytes_of).sum();
    if bytes > TAGS_BYTES_MAX {
        return Err(Error::with(Code::TagsTooLong, format!("bytes={bytes} bytes_max={TAGS_BYTES_MAX}")));
    }
    Ok(())
}

/// Checks one value.
pub(super) fn check(tag: &ColumnDef, value: &Value) -> Result<()> {
    let is_of_type = match (tag.data_type, value) {
        (_, Value::Null)
        | (DataType::Bool, Value::Bool(_))
        | (DataType::BigInt, Value::Int(_))
        | (DataType::UBigInt, Value::UInt(_))
        | (DataType::Float, Value::Float(_))
        | (DataType::Double, Value::Double(_))
        | (DataType::Timestamp, Value::Timestamp(_)) => true,
        (DataType::TinyInt, Value::Int(v)) => i8::try_from(*v).is_ok(),
        (DataType::SmallInt, Value::Int(v)) => i16::try_from(*v).is_ok(),
        (DataType::Int, Value::Int(v)) => i32::try_from(*v).is_ok(),
        (DataType::UTinyInt, Value::UInt(v)) => u8::try_from(*v).is_ok(),
        (DataType::USmallInt, Value::UInt(v)) => u16::try_from(*v).is_ok(),
        (DataType::UInt, Value::UInt(v)) => u32::try_from(*v).is_ok(),
        (DataType::Varbinary(_) | DataType::Geometry(_), Value::Bytes(bytes)) => {
            if !tag.data_type.fits_bytes(bytes) {
                return Err(Error::with(Code::ValueTooLong, &tag.name));
            }
            true
        }
        (DataType::Varchar(_) | DataType::NChar(_) | DataType::Json, Value::Text(text)) => {
            if !tag.data_type.fits(text) {
                return Err(Error::with(Code::ValueTooLong, &tag.name));
            }
            true
        }
        _ => false,
    };
    if is_of_type { Ok(()) } else { Err(Error::with(Code::WrongValueType, &tag.name)) }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Float(_) => 4,
        Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Timestamp(_) => 8,
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
    }
}
