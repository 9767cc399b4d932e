//! What a statement answers.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::memory::MemoryStream;
use model::{Error, Result};
use query::engine::QueryStream;
use query::memory::QueryMemory;
use query::plan::OutputColumn;

use super::result::ResultMemory;

/// Answer of one statement.
#[derive(Debug)]
pub enum Outcome {
    /// Rows, as they come.
    Rows(ResultStream),
    /// Rows written or deleted.
    Affected(u64),
    /// Done.
    Done,
    /// Nothing was to be done. Why, for people.
    Unchanged(String),
    /// The current database is another from here on.
    Use(String),
}

/// Rows, and what they hold of the queries' memory on their way.
#[derive(Debug)]
pub struct ResultStream {
    /// The rows. Dropping it ends the query.
    pub query: QueryStream,
    /// For as long as messages are made of the rows and not taken by the client.
    pub memory: Arc<ResultMemory>,
}

impl ResultStream {
    /// Of a query that nobody has taken a batch of.
    pub(super) fn new(query: QueryStream) -> Self {
        let memory = ResultMemory::new(query.memory.clone(), query.batches_between);
        Self { query, memory: Arc::new(memory) }
    }
}

impl Outcome {
    /// Rows that are all there.
    pub fn rows(columns: Vec<OutputColumn>, batch: RecordBatch) -> Result<Self> {
        let schema = batch.schema();
        let stream =
            MemoryStream::try_new(vec![batch], Arc::clone(&schema), None).map_err(Error::internal)?;
        let memory = QueryMemory::default();
        let query = QueryStream { columns, stream: Box::pin(stream), memory, batches_between: 0 };
        Ok(Self::Rows(ResultStream::new(query)))
    }
}
