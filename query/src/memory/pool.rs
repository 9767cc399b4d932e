//! The shared budget, and each query's part of it.

use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use model::{Code, Error, Result};
use parking_lot::Mutex;

use super::WAITING_ROWS;

/// Rows that wait for clients may take the budget divided by this, all together.
const WAITING_PART: usize = 2;

/// What an aggregate of DataFusion says that its groups take counts this many times. It copies them all when it puts them
/// out or on disk, and its tables double as they grow; neither is asked for.
const GROUPS_FACTOR: usize = 2;
/// Part of the name of each of its holders.
pub(crate) const GROUPS: &str = "Aggregate";

/// Bytes that all queries share.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    /// Reserved by all queries.
    bytes: usize,
    /// Of these, rows of queries that wait for their clients.
    waiting_bytes: usize,
}

/// One query's part of a [`Budget`].
pub(crate) struct QueryPool {
    budget: Arc<Budget>,
    /// Locked before the budget's.
    own: Mutex<Own>,
    /// What [`Waiting`] holds on to.
    this: Weak<Self>,
}

#[derive(Debug, Default)]
struct Own {
    /// Reserved by its holders of rows that wait to be taken.
    rows_bytes: usize,
    is_waiting: bool,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, used: Mutex::default() })
    }

    /// The part of a query that begins.
    pub(crate) fn query(self: &Arc<Self>) -> Arc<QueryPool> {
        let budget = Arc::clone(self);
        Arc::new_cyclic(|this| QueryPool { budget, own: Mutex::default(), this: Weak::clone(this) })
    }

    fn waiting_bytes_max(&self) -> usize {
        self.bytes / WAITING_PART
    }
}

impl QueryPool {
    pub(super) fn of(pool: &Arc<dyn MemoryPool>) -> Option<Arc<Self>> {
        pool.downcast_ref::<Self>().and_then(|pool| pool.this.upgrade())
    }

    /// Adds to what is used, under the limits where `limited`.
    fn add(&self, reservation: &MemoryReservation, bytes: usize, limited: bool) -> DfResult<()> {
        let name = reservation.consumer().name();
        let is_rows = WAITING_ROWS.contains(&name);
        let bytes = counted(name, bytes);
        let mut own = self.own.lock();
        let mut used = self.budget.used.lock();
        let total = used.bytes.saturating_add(bytes);
        if limited && total > self.budget.bytes {
            let free = self.budget.bytes.saturating_sub(used.bytes);
            return Err(DataFusionError::ResourcesExhausted(format!(
                "holder={name} has={} wants={bytes} free={free}",
                reservation.size()
            )));
        }
        if is_rows && own.is_waiting {
            let waiting = used.waiting_bytes.saturating_add(bytes);
            if limited && waiting > self.budget.waiting_bytes_max() {
                return Err(DataFusionError::ResourcesExhausted(format!(
                    "holder={name} wants={bytes} waiting_for_clients={}",
                    used.waiting_bytes
                )));
            }
            used.waiting_bytes = waiting;
        }
        if is_rows {
            own.rows_bytes += bytes;
        }
        used.bytes = total;
        Ok(())
    }
}

/// What a holder's bytes count.
fn counted(holder: &str, bytes: usize) -> usize {
    if holder.contains(GROUPS) { bytes.saturating_mul(GROUPS_FACTOR) } else { bytes }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        // Without limits nothing is refused.
        let _ = self.add(reservation, additional, false);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
        self.add(reservation, additional, true)
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let shrink = counted(reservation.consumer().name(), shrink);
        let mut own = self.own.lock();
        let mut used = self.budget.used.lock();
        used.bytes = used.bytes.saturating_sub(shrink);
        if WAITING_ROWS.contains(&reservation.consumer().name()) {
            own.rows_bytes = own.rows_bytes.saturating_sub(shrink);
            if own.is_waiting {
                used.waiting_bytes = used.waiting_bytes.saturating_sub(shrink);
            }
        }
    }

    fn reserved(&self) -> usize {
        self.budget.used.lock().bytes
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.budget.bytes)
    }
}

impl fmt::Debug for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryPool").field("own", &self.own).field("budget", &self.budget).finish()
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query_memory_bytes={} used={}", self.budget.bytes, self.reserved())
    }
}

/// A query whose rows wait for its client. Dropped, they no longer do.
#[derive(Debug, Default)]
pub struct Waiting(Option<Arc<QueryPool>>);

impl Waiting {
    pub(super) fn new(pool: Arc<QueryPool>) -> Result<Self> {
        let mut own = pool.own.lock();
        let mut used = pool.budget.used.lock();
        if own.is_waiting {
            // Somebody else says so, and will say when it ends.
            return Ok(Self(None));
        }
        let waiting = used.waiting_bytes.saturating_add(own.rows_bytes);
        // The only one that waits is not refused: there would be nobody to leave the room to.
        let beside_others = used.waiting_bytes > 0 && own.rows_bytes > 0;
        if beside_others && waiting > pool.budget.waiting_bytes_max() {
            let text = format!(
                "results that clients do not read: waiting_bytes={waiting} query_memory_bytes={}",
                pool.budget.bytes
            );
            return Err(Error::with(Code::OutOfMemory, text).hint(
                "read results as they come, close those that are not wanted, or raise query_memory_bytes",
            ));
        }
        used.waiting_bytes = waiting;
        own.is_waiting = true;
        drop((own, used));
        Ok(Self(Some(pool)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(pool) = &self.0 else { return };
        let mut own = pool.own.lock();
        let mut used = pool.budget.used.lock();
        own.is_waiting = false;
        used.waiting_bytes = used.waiting_bytes.saturating_sub(own.rows_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{QueryMemory, RESULT_ROWS, SCAN_ROWS};
    use super::*;

    fn query(budget: &Arc<Budget>) -> QueryMemory {
        QueryMemory::new(budget.query())
    }

    fn code(result: Result<impl fmt::Debug>) -> Code {
        result.unwrap_err().code()
    }

    #[test]
    fn all_queries_share_one_budget() {
        let budget = Budget::new(100);
        let [a, b] = [query(&budget), query(&budget)];
        let of_a = a.reservation("groups");
        of_a.grow(70).unwrap();
        let of_b = b.reservation(SCAN_ROWS);
        assert_eq!(code(of_b.grow(31)), Code::OutOfMemory);
        of_b.grow(30).unwrap();
        drop(of_a);
        of_b.grow(70).unwrap();
        drop(of_b);
        assert_eq!(budget.used.lock().bytes, 0);
    }

    #[test]
    fn groups_count_twice() {
        let budget = Budget::new(100);
        let groups = query(&budget).reservation("SingleHashAggregateStream[0] ()");
        groups.grow(50).unwrap();
        assert_eq!(code(groups.grow(1)), Code::OutOfMemory);
        groups.resize(20).unwrap();
        assert_eq!(budget.used.lock().bytes, 40);
        drop(groups);
        assert_eq!(budget.used.lock().bytes, 0);
    }

    #[test]
    fn what_waits_for_clients_leaves_half_to_others() {
        let budget = Budget::new(100);
        let [a, b, c] = [query(&budget), query(&budget), query(&budget)];
        let (of_a, of_b) = (a.reservation(RESULT_ROWS), b.reservation(RESULT_ROWS));
        of_a.grow(30).unwrap();
        of_b.grow(30).unwrap();
        let a_waits = a.wait().unwrap();
        assert_eq!(code(b.wait()), Code::OutOfMemory, "sixty of a hundred");
        assert_eq!(code(of_a.grow(21)), Code::OutOfMemory, "no more rows are read ahead");
        of_a.grow(20).unwrap();
        // What operators work with is not rows that wait.
        let groups = a.reservation("groups");
        groups.grow(10).unwrap();
        drop(of_b);
        c.reservation(SCAN_ROWS).grow(40).unwrap();
        drop(a_waits);
        b.wait().unwrap();
        drop((of_a, groups));
        let used = budget.used.lock();
        assert_eq!((used.bytes, used.waiting_bytes), (0, 0));
    }

    #[test]
    fn who_waits_alone_is_not_refused() {
        let budget = Budget::new(100);
        let [a, b] = [query(&budget), query(&budget)];
        let of_a = a.reservation(RESULT_ROWS);
        of_a.grow(80).unwrap();
        let waits = a.wait().unwrap();
        b.wait().unwrap();
        drop(of_a);
        drop(waits);
        assert_eq!(budget.used.lock().waiting_bytes, 0);
    }
}
