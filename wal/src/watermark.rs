//! The hand-over between whoever publishes a position and those who wait for it: "nothing new, so park" against
//! "published, so wake". It stands alone so that a model checker can run through every order of the two
//! (`wal/tests/it/handover.rs` compiles this file against loom).

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Version;
use super::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence};

/// A position that one side moves and any number of tasks wait for. Publishing takes no lock while nobody waits, so
/// waiting costs an appender nothing before somebody does; and whoever waits is woken, never polls.
pub struct Watermark {
    at: AtomicU64,
    /// How many wait. Looked at without the lock.
    parked: AtomicUsize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    tickets: u64,
    /// By ticket: above which position to wake whom.
    wakers: BTreeMap<u64, (u64, Waker)>,
}

impl Watermark {
    /// A mark that stands at `at`.
    #[must_use]
    pub fn new(at: Version) -> Self {
        Self {
            at: AtomicU64::new(at.0),
            parked: AtomicUsize::new(0),
            waiting: Mutex::new(Waiting::default()),
        }
    }

    /// Where it stands. What was written before it was moved there can be seen.
    #[must_use]
    pub fn get(&self) -> Version {
        Version(self.at.load(Ordering::Acquire))
    }

    /// Moves it, forwards or (a cut) backwards, and wakes who waits for that.
    pub fn set(&self, to: Version) {
        self.at.store(to.0, Ordering::Release);
        // With the fence in `poll`: either this sees that somebody has parked, or they see where the mark is now.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let woken: Vec<_> = {
            let mut waiting = self.waiting.lock();
            let at = self.get().0;
            let passed = waiting.wakers.extract_if(.., |_, (above, _)| *above < at);
            let woken = passed.map(|(_, (_, waker))| waker).collect();
            self.parked.store(waiting.wakers.len(), Ordering::Relaxed);
            woken
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Waits until the mark stands above `version`. Safe to drop and to call again.
    pub fn passed(&self, version: Version) -> Passed<'_> {
        Passed { mark: self, above: version.0, ticket: None }
    }
}

impl fmt::Debug for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watermark").field("at", &self.get()).finish_non_exhaustive()
    }
}

/// See [`Watermark::passed`].
#[must_use = "futures do nothing unless polled"]
pub struct Passed<'a> {
    mark: &'a Watermark,
    above: u64,
    ticket: Option<u64>,
}

impl Passed<'_> {
    fn is_passed(&self) -> bool {
        self.mark.get().0 > self.above
    }
}

impl Future for Passed<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_passed() {
            return Poll::Ready(());
        }
        let mut waiting = self.mark.waiting.lock();
        let ticket = *self.ticket.get_or_insert_with(|| {
            waiting.tickets += 1;
            waiting.tickets
        });
        waiting.wakers.insert(ticket, (self.above, context.waker().clone()));
        self.mark.parked.store(waiting.wakers.len(), Ordering::Relaxed);
        drop(waiting);
        fence(Ordering::SeqCst); // see `set`
        if self.is_passed() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut waiting = self.mark.waiting.lock();
        waiting.wakers.remove(&ticket);
        self.mark.parked.store(waiting.wakers.len(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Passed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passed").field("above", &self.above).finish_non_exhaustive()
    }
}
