//! The shared budget, and each query's part of it.

use std::collections::BTreeMap;
use std::fmt;
use std::future;
use std::sync::{Arc, Weak};

use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use model::{Code, Error};
use parking_lot::Mutex;
use tokio::sync::Notify;

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
    /// Queries that wait for their clients, by their turn: whose rows they are, and how it is told that it is to end.
    waiting: BTreeMap<u64, Waiter>,
    next_turn: u64,
}

#[derive(Debug)]
struct Waiter {
    rows_bytes: usize,
    evicted: Arc<Notify>,
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
    /// Its turn among those that wait, if it does; another one may have ended that.
    turn: Option<u64>,
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

impl Used {
    /// Makes room for so many more bytes of rows that wait: those go that have waited longest.
    fn make_room(&mut self, bytes: usize, max: usize) {
        while self.waiting_bytes.saturating_add(bytes) > max {
            let Some((_, longest)) = self.waiting.pop_first() else { return };
            self.waiting_bytes = self.waiting_bytes.saturating_sub(longest.rows_bytes);
            longest.evicted.notify_one();
        }
    }

    fn wait(&mut self, waiter: Waiter) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting_bytes = self.waiting_bytes.saturating_add(waiter.rows_bytes);
        self.waiting.insert(turn, waiter);
        turn
    }

    fn end_wait(&mut self, turn: u64) {
        if let Some(waiter) = self.waiting.remove(&turn) {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(waiter.rows_bytes);
        }
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
        let used = &mut *used;
        let total = used.bytes.saturating_add(bytes);
        if limited && total > self.budget.bytes {
            let free = self.budget.bytes.saturating_sub(used.bytes);
            return Err(DataFusionError::ResourcesExhausted(format!(
                "holder={name} has={} wants={bytes} free={free}",
                reservation.size()
            )));
        }
        if is_rows {
            if let Some(waiter) = own.turn.and_then(|turn| used.waiting.get_mut(&turn)) {
                let waiting = used.waiting_bytes.saturating_add(bytes);
                if limited && waiting > self.budget.waiting_bytes_max() {
                    return Err(DataFusionError::ResourcesExhausted(format!(
                        "holder={name} wants={bytes} waiting_for_clients={}",
                        used.waiting_bytes
                    )));
                }
                waiter.rows_bytes = waiter.rows_bytes.saturating_add(bytes);
                used.waiting_bytes = waiting;
            }
            own.rows_bytes = own.rows_bytes.saturating_add(bytes);
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
        let name = reservation.consumer().name();
        let shrink = counted(name, shrink);
        let mut own = self.own.lock();
        let mut used = self.budget.used.lock();
        let used = &mut *used;
        used.bytes = used.bytes.saturating_sub(shrink);
        if WAITING_ROWS.contains(&name) {
            own.rows_bytes = own.rows_bytes.saturating_sub(shrink);
            if let Some(waiter) = own.turn.and_then(|turn| used.waiting.get_mut(&turn)) {
                waiter.rows_bytes = waiter.rows_bytes.saturating_sub(shrink);
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
pub struct Waiting(Option<Turn>);

#[derive(Debug)]
struct Turn {
    pool: Arc<QueryPool>,
    turn: u64,
    evicted: Arc<Notify>,
}

impl Waiting {
    pub(super) fn new(pool: Arc<QueryPool>) -> Self {
        let mut own = pool.own.lock();
        let mut used = pool.budget.used.lock();
        if own.turn.is_some() {
            // Somebody else says so, and will say when it ends.
            return Self(None);
        }
        let evicted = Arc::new(Notify::new());
        used.make_room(own.rows_bytes, pool.budget.waiting_bytes_max());
        let turn = used.wait(Waiter { rows_bytes: own.rows_bytes, evicted: Arc::clone(&evicted) });
        own.turn = Some(turn);
        drop((own, used));
        Self(Some(Turn { pool, turn, evicted }))
    }

    /// Returns once others that wait need the room more, with what the client is to be told: its rows have waited longest.
    pub async fn evicted(&self) -> Error {
        let Some(Turn { pool, evicted, .. }) = &self.0 else { return future::pending().await };
        evicted.notified().await;
        let text = format!(
            "results that clients do not read are more than half of query_memory_bytes={}, and this one has waited longest",
            pool.budget.bytes
        );
        Error::with(Code::OutOfMemory, text)
            .hint("read results as they come, close those that are not wanted, or raise query_memory_bytes")
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(Turn { pool, turn, .. }) = &self.0 else { return };
        pool.own.lock().turn = None;
        pool.budget.used.lock().end_wait(*turn);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::super::{QueryMemory, RESULT_ROWS, SCAN_ROWS};
    use super::*;

    fn query(budget: &Arc<Budget>) -> QueryMemory {
        QueryMemory::new(budget.query())
    }

    fn code(result: model::Result<impl fmt::Debug>) -> Code {
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
        let [a, b] = [query(&budget), query(&budget)];
        let of_a = a.reservation(RESULT_ROWS);
        of_a.grow(30).unwrap();
        let a_waits = a.wait();
        assert_eq!(code(of_a.grow(21)), Code::OutOfMemory, "no more rows are read ahead");
        of_a.grow(20).unwrap();
        // What operators work with is not rows that wait.
        let groups = a.reservation("groups");
        groups.grow(10).unwrap();
        b.reservation(SCAN_ROWS).grow(40).unwrap();
        drop(a_waits);
        drop((of_a, groups));
        let used = budget.used.lock();
        assert_eq!((used.bytes, used.waiting_bytes, used.waiting.len()), (0, 0, 0));
    }

    #[test]
    fn who_has_waited_longest_makes_room() {
        let budget = Budget::new(100);
        let queries = [query(&budget), query(&budget), query(&budget)];
        let rows = queries.each_ref().map(|query| query.reservation(RESULT_ROWS));
        for rows in &rows {
            rows.grow(20).unwrap();
        }
        let [first, second, third] = &queries;
        let slow = first.wait();
        let unread = second.wait();
        assert!(slow.evicted().now_or_never().is_none(), "forty of fifty");
        // Its client has taken a message: it has a new turn.
        drop(slow);
        let slow = first.wait();
        let newest = third.wait();
        let error = unread.evicted().now_or_never().unwrap();
        assert_eq!(error.code(), Code::OutOfMemory);
        assert!(error.help().contains("query_memory_bytes"), "{error}");
        assert!(slow.evicted().now_or_never().is_none());
        assert!(newest.evicted().now_or_never().is_none());
        assert_eq!(budget.used.lock().waiting_bytes, 40, "no longer with those of the one that is to go");
        drop((unread, slow, newest));
        drop(rows);
        let used = budget.used.lock();
        assert_eq!((used.bytes, used.waiting_bytes, used.waiting.len()), (0, 0, 0));
    }

    #[test]
    fn who_waits_alone_goes_on_however_large_it_is() {
        let budget = Budget::new(100);
        let [a, b] = [query(&budget), query(&budget)];
        let of_b = b.reservation(RESULT_ROWS);
        of_b.grow(10).unwrap();
        let b_waits = b.wait();
        let of_a = a.reservation(RESULT_ROWS);
        of_a.grow(80).unwrap();
        let a_waits = a.wait();
        assert!(b_waits.evicted().now_or_never().is_some());
        assert!(a_waits.evicted().now_or_never().is_none(), "there is nobody to leave the room to");
        drop((a_waits, b_waits, of_a));
        assert_eq!(budget.used.lock().waiting_bytes, 0);
    }
}
