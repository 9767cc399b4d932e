//! The memory that all queries share: whoever holds rows for one says how many bytes, and is refused past the budget.
//!
//! DataFusion's operators say so themselves. What is ours does it here: scans of shards and the operators of
//! [`crate::operator`].

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use model::Result;

use crate::plan::error::from_datafusion;

/// A way to the shared budget. Without one (see [`Default`]) nothing is refused: for reads that no query makes.
#[derive(Clone, Debug)]
pub struct QueryMemory(Arc<dyn MemoryPool>);

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
