//! The answer to a statement: batches as they come, then what the server says at the end.

use std::fmt;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use model::{Code, Error, Result};
use proto::v1;
use proto::v1::execute_response::Part;
use tonic::Streaming;

use crate::connection::Connection;
use crate::decode::{Column, Layout};
use crate::row::Rows;

/// What the server says of a statement that has run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Rows in the result.
    pub rows: u64,
    /// Rows written or deleted, for statements that do such things.
    pub affected_rows: Option<u64>,
    /// Time spent in the server.
    pub elapsed: Duration,
    /// For people: what a statement that succeeded did not do, such as CREATE TOPIC IF NOT EXISTS of a topic that exists.
    /// Empty where there is nothing to say.
    pub note: String,
}

/// A statement's answer. Rows arrive as they are read; dropping this before the end cancels the statement.
pub struct QueryResult {
    stream: Streaming<v1::ExecuteResponse>,
    connection: Connection,
    layout: Layout,
    summary: Option<Summary>,
}

impl fmt::Debug for QueryResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layout, summary, .. } = self;
        f.debug_struct("QueryResult").field("columns", &layout.columns).field("summary", summary).finish()
    }
}

impl QueryResult {
    /// Reads the header; of a statement without columns also the end, so that its error is the call's.
    pub(crate) async fn open(
        mut stream: Streaming<v1::ExecuteResponse>,
        connection: Connection,
    ) -> Result<Self, tonic::Status> {
        let header = match stream.message().await?.and_then(|m| m.part) {
            Some(Part::Header(header)) => header,
            _ => return Err(refused(&Error::with(Code::InvalidMessage, "an answer starts with its header"))),
        };
        let layout = Layout::from_wire(header.columns).map_err(|e| refused(&e))?;
        let mut result = Self { stream, connection, layout, summary: None };
        if !result.has_rows() {
            while result.next_status().await?.is_some() {}
        }
        Ok(result)
    }

    /// Names and types; none for statements that do not answer with rows.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.layout.columns
    }

    /// Arrow schema of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.layout.schema)
    }

    /// Whether the statement answers with rows, be there none.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        !self.layout.columns.is_empty()
    }

    /// The next rows; `None` at the end, when [`QueryResult::summary`] is known.
    ///
    /// # Errors
    /// What ended the statement.
    pub async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.next_status().await.map_err(|status| proto::status::from_status(&status))
    }

    async fn next_status(&mut self) -> Result<Option<RecordBatch>, tonic::Status> {
        if self.summary.is_some() {
            return Ok(None);
        }
        match self.stream.message().await?.and_then(|m| m.part) {
            Some(Part::Batch(batch)) => self.layout.batch(&batch.frame).map(Some).map_err(|e| refused(&e)),
            Some(Part::End(end)) => {
                if !end.database.is_empty() {
                    self.connection.set_database(end.database);
                }
                self.summary = Some(Summary {
                    rows: end.rows,
                    affected_rows: end.affected_rows,
                    elapsed: Duration::from_micros(end.elapsed_us),
                    note: end.note,
                });
                Ok(None)
            }
            Some(Part::Header(_)) => Err(refused(&Error::with(Code::InvalidMessage, "a second header"))),
            // A stream that just stops has lost its server; rows may be missing.
            None => Err(refused(&Error::with(Code::Unreachable, "the answer broke off"))),
        }
    }

    /// Reads what is left and keeps it.
    ///
    /// # Errors
    /// What ended the statement.
    pub async fn rows(mut self) -> Result<Rows> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next_batch().await? {
            batches.push(batch);
        }
        Ok(Rows { columns: self.layout.columns, batches })
    }

    /// What the server said at the end; `None` before it was read.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Rows written or deleted; 0 for statements that do not say.
    #[must_use]
    pub fn affected_rows(&self) -> u64 {
        self.summary.as_ref().and_then(|s| s.affected_rows).unwrap_or(0)
    }
}

fn refused(error: &Error) -> tonic::Status {
    proto::status::to_status(error)
}
