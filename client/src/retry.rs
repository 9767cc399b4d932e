//! How often, and how long apart, something that failed for lack of a server is tried again.

use std::time::Duration;

/// Attempts with growing pauses between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, at least one.
    pub attempts: u32,
    /// Pause before the second attempt; each further pause is twice as long.
    pub pause_first: Duration,
    /// No pause is longer.
    pub pause_max: Duration,
}

impl Default for RetryPolicy {
    /// Ten attempts within about eight seconds: a server that restarts comes back in that time.
    fn default() -> Self {
        Self { attempts: 10, pause_first: Duration::from_millis(50), pause_max: Duration::from_secs(2) }
    }
}

impl RetryPolicy {
    /// One attempt and no more.
    #[must_use]
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// Pause after `failed` attempts (1 after the first); `None` when they are used up.
    #[must_use]
    pub fn pause_after(&self, failed: u32) -> Option<Duration> {
        (failed < self.attempts).then(|| self.pause(failed))
    }

    /// That pause, however many attempts there were: for those who must not give up.
    pub(crate) fn pause(&self, failed: u32) -> Duration {
        let doubled = self.pause_first.saturating_mul(1_u32 << failed.saturating_sub(1).min(16));
        doubled.min(self.pause_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_end() {
        let policy = RetryPolicy::default();
        let pauses: Vec<_> = (1..).map_while(|n| policy.pause_after(n)).map(|p| p.as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000]);
        assert_eq!(RetryPolicy::never().pause_after(1), None);
        assert_eq!(policy.pause(u32::MAX), policy.pause_max);
    }
}
