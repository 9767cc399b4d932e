//! Errors across the border to DataFusion.

use datafusion::common::DataFusionError;
use model::{Code, Error};

/// What the user is told of a DataFusion error. An error of our own that travelled through DataFusion comes out as it
/// went in.
pub(crate) fn from_datafusion(error: DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => ours.clone(),
            None => Error::internal(&error),
        },
        DataFusionError::ResourcesExhausted(text) => Error::with(
            Code::OutOfMemory,
            format_args!("past query_memory_bytes, which all queries share: {text}"),
        ),
        _ => Error::internal(&error),
    }
}

/// Sends an error of ours through DataFusion.
pub(crate) fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
