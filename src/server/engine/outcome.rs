//! What a statement answers.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::memory::MemoryStream;
use model::{Error, Result};
use query::engine::QueryStream;
use query::plan::OutputColumn;

/// Answer of one statement.
#[derive(Debug)]
pub enum Outcome {
    /// Rows, as they come.
    Rows(QueryStream),
    /// Rows written or deleted.
    Affected(u64),
    /// Done.
    Done,
    /// The current database is another from here on.
    Use(String),
}

impl Outcome {
    /// Rows that are all there.
    pub fn rows(columns: Vec<OutputColumn>, batch: RecordBatch) -> Result<Self> {
        let schema = batch.schema();
        let stream =
            MemoryStream::try_new(vec![batch], Arc::clone(&schema), None).map_err(Error::internal)?;
        Ok(Self::Rows(QueryStream { columns, stream: Box::pin(stream) }))
    }
}
