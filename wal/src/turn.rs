//! Whose turn it is to sync: one at a time. A sync wakes those whom it served and hands the turn to one of the others; the
//! rest sleep on, since a wake-up for nothing costs as much as the fsync of a fast disk. It stands alone for the same
//! reason as [`watermark`](crate::watermark).

use std::collections::VecDeque;
use std::sync::Arc;

use super::Version;
use super::sync::{AtomicUsize, Mutex, Ordering, Thread, current_thread, park};

pub(crate) struct Turns(Mutex<Queue>);

struct Queue {
    is_taken: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

struct Waiter {
    /// Up to where (not included) the log is to be durable.
    wanted: Version,
    thread: Thread,
    told: AtomicUsize,
}

const WAIT: usize = 0;
const SERVED: usize = 1;
const LEAD: usize = 2;

impl Waiter {
    fn tell(&self, what: usize) {
        self.told.store(what, Ordering::Release);
        self.thread.unpark();
    }
}

/// Holds the turn while it lives.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    served: Option<Version>,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Queue { is_taken: false, waiting: VecDeque::new() }))
    }

    /// Waits for the turn; none if meanwhile a turn has [served](Turn::serve) `wanted`, or `is_done` says that it is not
    /// needed any more.
    pub(crate) fn take_unless(&self, wanted: Version, is_done: impl Fn() -> bool) -> Option<Turn<'_>> {
        if is_done() {
            return None;
        }
        if let Some(waiter) = self.join(wanted) {
            loop {
                match waiter.told.load(Ordering::Acquire) {
                    SERVED => return None,
                    LEAD => break,
                    _ => park(),
                }
            }
        }
        // Held from here on: dropped, it goes to the next one.
        let turn = Turn { turns: self, served: None };
        (!is_done()).then_some(turn)
    }

    /// Takes the turn if it is free (then there is nothing to wait for), else stands in line for it.
    fn join(&self, wanted: Version) -> Option<Arc<Waiter>> {
        let mut queue = self.0.lock();
        if !queue.is_taken {
            queue.is_taken = true;
            return None;
        }
        let waiter = Arc::new(Waiter { wanted, thread: current_thread(), told: AtomicUsize::new(WAIT) });
        queue.waiting.push_back(Arc::clone(&waiter));
        Some(waiter)
    }
}

impl Turn<'_> {
    /// Ends it: the log is durable up to `next`, not included.
    pub(crate) fn serve(mut self, next: Version) {
        self.served = Some(next);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let (served, leader) = {
            let mut queue = self.turns.0.lock();
            let is_served = |waiter: &Arc<Waiter>| self.served.is_some_and(|next| waiter.wanted <= next);
            let (served, rest): (VecDeque<_>, VecDeque<_>) = queue.waiting.drain(..).partition(is_served);
            queue.waiting = rest;
            let leader = queue.waiting.pop_front();
            queue.is_taken = leader.is_some();
            (served, leader)
        };
        // The leader first: the disk is idle until it runs.
        leader.iter().for_each(|waiter| waiter.tell(LEAD));
        served.iter().for_each(|waiter| waiter.tell(SERVED));
    }
}
