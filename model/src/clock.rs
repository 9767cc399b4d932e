//! The seam through which drivers learn the time. Deciding code is given `now` and never holds a clock.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

/// Wall clock. The server's own reads the system's; tests move a [`ManualClock`].
pub trait Clock: Send + Sync + fmt::Debug {
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    fn now_ns(&self) -> i64;
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Standing at `now_ns`.
    #[must_use]
    pub const fn at(now_ns: i64) -> Self {
        Self(AtomicI64::new(now_ns))
    }

    /// Moves it; negative moves it back, as operators do.
    pub fn advance_ns(&self, by: i64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}
