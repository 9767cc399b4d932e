//! Small bodies: a format byte, then postcard. Enums may only grow at their end.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RecordError;

const FORMAT: u8 = 1;

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Bytes, RecordError> {
    Ok(Bytes::from(postcard::to_extend(value, vec![FORMAT])?))
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    match bytes.split_first() {
        Some((&FORMAT, body)) => Ok(postcard::from_bytes(body)?),
        Some((&format, _)) => Err(RecordError::Format(format)),
        None => Err(RecordError::Truncated { at: 0, have: 0 }),
    }
}
