//! The one place that reads the machine's clock on behalf of the server's core.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Clock;
use tokio::sync::Notify;

/// The system's clock, moved on by what a test has advanced it.
#[derive(Debug, Default)]
pub struct SystemClock {
    advanced_ns: AtomicI64,
    advanced: Notify,
    is_held: bool,
}

impl SystemClock {
    /// One that a test holds: consumers are checked when it is advanced and not by themselves ([`super::held_clock`]).
    #[must_use]
    pub fn held() -> Self {
        Self { is_held: true, ..Self::default() }
    }

    /// Whether a test holds it.
    pub const fn is_held(&self) -> bool {
        self.is_held
    }

    /// Moves the clock on; only tests do.
    pub fn advance_ns(&self, by: i64) {
        self.advanced_ns.fetch_add(by, Ordering::SeqCst);
        self.advanced.notify_waiters();
    }

    /// Waits until the clock shows `until_ns`, by itself or because it was advanced.
    pub async fn sleep_until(&self, until_ns: i64) {
        loop {
            let mut advanced = std::pin::pin!(self.advanced.notified());
            // Registered before the clock is read: an advance in between is not missed.
            advanced.as_mut().enable();
            let left_ns = until_ns.saturating_sub(self.now_ns());
            let Ok(left_ns @ 1..) = u64::try_from(left_ns) else { return };
            tokio::select! {
                () = tokio::time::sleep(Duration::from_nanos(left_ns)) => {}
                () = advanced => {}
            }
        }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is given")]
    fn now_ns(&self) -> i64 {
        // A system clock before 1970 reads as the epoch: nothing stored is that old.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
        now_ns.saturating_add(self.advanced_ns.load(Ordering::SeqCst))
    }
}
