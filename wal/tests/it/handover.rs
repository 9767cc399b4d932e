//! Who waits for the log is woken. The hand-over runs through every order of its steps under loom, compiled from the
//! file that the log itself uses; then readers wait for a real log.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use wal::sim::SimDisk;
use wal::{Options, Version};

use crate::common::*;

/// Loom's types in place of `wal/src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::thread::{Thread, current as current_thread, park};

    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

#[path = "../../src/turn.rs"]
mod turn;
#[path = "../../src/watermark.rs"]
mod watermark;

use turn::Turns;
use watermark::Watermark;

/// Runs a model of so many threads through every order of their steps; of more than two, through those orders in which
/// threads are interrupted no more than twice, since all of them would take hours.
fn check(threads: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = (threads > 2).then_some(2);
    builder.check(model);
}

/// Moves the mark through `to` in another thread, while each of `above` is waited for. A lost wake-up is a deadlock,
/// which loom reports.
fn explore(to: &'static [u64], above: &'static [u64]) {
    check(1 + above.len(), move || {
        let mark = loom::sync::Arc::new(Watermark::new(Version(0)));
        let waiters: Vec<_> = above
            .iter()
            .map(|above| {
                let mark = loom::sync::Arc::clone(&mark);
                loom::thread::spawn(move || {
                    loom::future::block_on(mark.passed(Version(*above)));
                    assert!(mark.get() > Version(*above));
                })
            })
            .collect();
        to.iter().for_each(|to| mark.set(Version(*to)));
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn rule_08_no_order_of_parking_and_publishing_loses_a_wake_up() {
    explore(&[1], &[0]);
    explore(&[1, 2], &[1]);
    explore(&[1], &[0, 0]);
    explore(&[1, 2], &[0, 1]);
}

#[test]
fn what_was_written_before_the_mark_moved_is_seen_by_whom_it_woke() {
    check(2, || {
        let shared = loom::sync::Arc::new((Watermark::new(Version(0)), loom::cell::UnsafeCell::new(0)));
        let writer = loom::sync::Arc::clone(&shared);
        #[allow(unsafe_code)]
        let writer = loom::thread::spawn(move || {
            // SAFETY: loom checks that nobody reads meanwhile; that is the test.
            writer.1.with_mut(|body| unsafe { *body = 7 });
            writer.0.set(Version(1));
        });
        loom::future::block_on(shared.0.passed(Version(0)));
        #[allow(unsafe_code)]
        // SAFETY: as above.
        let seen = shared.1.with(|body| unsafe { *body });
        assert_eq!(seen, 7);
        writer.join().unwrap();
    });
}

#[test]
fn who_gives_up_waiting_takes_no_wake_up_with_him() {
    check(3, || {
        let mark = loom::sync::Arc::new(Watermark::new(Version(0)));
        let given_up = {
            let mark = loom::sync::Arc::clone(&mark);
            loom::thread::spawn(move || {
                let mut waits = pin!(mark.passed(Version(0)));
                let _ = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            })
        };
        let waiter = {
            let mark = loom::sync::Arc::clone(&mark);
            loom::thread::spawn(move || loom::future::block_on(mark.passed(Version(0))))
        };
        mark.set(Version(1));
        given_up.join().unwrap();
        waiter.join().unwrap();
    });
}

/// Each thread appends one record and syncs, as `Wal::sync` does; a turn serves what was appended when it began.
fn explore_turns(threads: usize) {
    check(threads, move || {
        let log = loom::sync::Arc::new((Turns::new(), sync::AtomicU64::new(0), sync::AtomicU64::new(0)));
        let append_and_sync = |log: &(Turns, sync::AtomicU64, sync::AtomicU64)| {
            let (turns, next, durable) = log;
            let load = |mark: &sync::AtomicU64| mark.load(sync::Ordering::Acquire);
            let wanted = next.fetch_add(1, sync::Ordering::AcqRel) + 1;
            if let Some(turn) = turns.take_unless(Version(wanted), || load(durable) >= wanted) {
                let until = load(next);
                durable.store(until, sync::Ordering::Release);
                turn.serve(Version(until));
            }
            assert!(load(durable) >= wanted);
        };
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let log = loom::sync::Arc::clone(&log);
                loom::thread::spawn(move || append_and_sync(&log))
            })
            .collect();
        append_and_sync(&log);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn no_order_of_taking_turns_leaves_one_asleep_or_lets_one_go_too_early() {
    explore_turns(2);
    explore_turns(3);
}

/// A turn that ends without serving anybody, as a failed sync does: everyone gets a turn of their own.
#[test]
fn a_turn_that_served_nobody_goes_from_hand_to_hand() {
    check(3, || {
        let turns = loom::sync::Arc::new(Turns::new());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let turns = loom::sync::Arc::clone(&turns);
                loom::thread::spawn(move || assert!(turns.take_unless(Version(1), || false).is_some()))
            })
            .collect();
        assert!(turns.take_unless(Version(1), || false).is_some());
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Wakes a thread, and counts.
struct Unpark(Thread, AtomicUsize);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.unpark();
    }
}

/// Runs a future to its end; how often it was woken.
fn block_on(future: impl Future<Output = ()>) -> usize {
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => return unpark.1.load(Ordering::Relaxed),
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn readers_park_at_the_end_and_go_on_with_each_append() {
    const RECORDS: u64 = 5_000;
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, Options::default()).unwrap();
    let wal = &wal;
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let mut reader = wal.reader(Version(0));
                for version in 0..RECORDS {
                    let woken = block_on(reader.ready());
                    assert!(woken <= 1, "woken once, for what it waits for");
                    assert_eq!(reader.next().unwrap().unwrap().body, body(version));
                }
            });
        }
        append(wal, 0, RECORDS);
    });
}

#[test]
fn a_cut_leaves_readers_waiting_for_what_comes_instead() {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, Options::default()).unwrap();
    append(&wal, 0, 10);
    let reader = wal.reader(Version(8));
    wal.cut_from(Version(5), 0).unwrap();
    let mut waits = pin!(reader.ready());
    let mut poll = || waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(poll(), Poll::Pending);
    append(&wal, 5, 8);
    assert_eq!(poll(), Poll::Pending);
    append(&wal, 8, 9);
    assert_eq!(poll(), Poll::Ready(()));
}
