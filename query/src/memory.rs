//! The memory that all queries share: whoever holds rows for one says how many bytes, and is refused past the budget.
//!
//! DataFusion's operators say so themselves. What is ours does it here: scans of shards and the operators of
//! [`crate::operator`].

mod pool;

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use model::Result;

use crate::plan::error::from_datafusion;

#[cfg(test)]
pub(crate) use pool::GROUPS;
pub use pool::Waiting;
pub(crate) use pool::{Budget, QueryPool};

/// A query's way to the shared budget. Without one (see [`Default`]) nothing is refused: for reads that no query makes.
#[derive(Clone, Debug)]
pub struct QueryMemory(Arc<dyn MemoryPool>);

/// Holders of rows that wait to be taken: what [`QueryMemory::wait`] bounds. All else is what an operator works with.
const WAITING_ROWS: [&str; 2] = [SCAN_ROWS, RESULT_ROWS];
/// Rows that a scan has read, and what it reads them from.
pub const SCAN_ROWS: &str = "rows of a scan";
/// Rows of a result on their way to the client.
pub const RESULT_ROWS: &str = "rows of a result";

impl Default for QueryMemory {
    fn default() -> Self {
        Self(Arc::new(UnboundedMemoryPool::default()))
    }
}

impl QueryMemory {
    /// The budget of the queries that `pool` is for.
    #[must_use]
    pub fn new(pool: Arc<dyn MemoryPool>) -> Self {
        Self(pool)
    }

    pub(crate) fn of(context: &TaskContext) -> Self {
        Self(Arc::clone(context.memory_pool()))
    }

    /// The query's rows wait for its client from here on, until what it answers is dropped. The rows of all queries that
    /// wait take half of the budget at most: where it would be more, those that have waited longest are to end (see
    /// [`Waiting::evicted`]), so that clients which read go on.
    #[must_use]
    pub fn wait(&self) -> Waiting {
        QueryPool::of(&self.0).map(Waiting::new).unwrap_or_default()
    }

    /// A reservation of nothing yet, under a name that the error of a refusal shows.
    #[must_use]
    pub fn reservation(&self, holder: &str) -> Reservation {
        Reservation(MemoryConsumer::new(holder).register(&self.0))
    }
}

/// Bytes of the budget. Dropped, it gives them back.
#[derive(Debug)]
pub struct Reservation(MemoryReservation);

impl Reservation {
    /// Makes it so many bytes in all.
    ///
    /// # Errors
    /// [`model::Code::OutOfMemory`]; it is as it was then.
    pub fn resize(&self, bytes: usize) -> Result<()> {
        self.0.try_resize(bytes).map_err(from_datafusion)
    }

    /// Adds so many bytes.
    ///
    /// # Errors
    /// [`model::Code::OutOfMemory`]; it is as it was then.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        self.0.try_grow(bytes).map_err(from_datafusion)
    }

    /// Another one of the same holder, of so many bytes.
    ///
    /// # Errors
    /// [`model::Code::OutOfMemory`].
    pub fn another(&self, bytes: usize) -> Result<Self> {
        let other = Self(self.0.new_empty());
        other.grow(bytes)?;
        Ok(other)
    }
}
