//! Replay's pace: messages go out with the gaps that lay between their writes.

/// When the last message was due and when its write had come, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace(Option<(i64, i64)>);

impl Pace {
    /// When the next message, whose write came at `written_ns`, is due: the first one at once, each other one as long
    /// after the one before as their writes lay apart. Counted from when that one was due, not from when it went out:
    /// lateness does not add up.
    pub(super) fn due_ns(&mut self, now_ns: i64, written_ns: i64) -> i64 {
        let due_ns = match self.0 {
            None => now_ns,
            Some((last_due_ns, last_written_ns)) => {
                last_due_ns.saturating_add(written_ns.saturating_sub(last_written_ns).max(0))
            }
        };
        self.0 = Some((due_ns, written_ns));
        due_ns
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Clock as _;

    use super::*;
    use crate::server::clock::SystemClock;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn gaps_of_five_and_three_seconds_come_back() {
        let mut pace = Pace::default();
        // Written at 0 s, 5 s and 8 s; replayed from 100 s on, each message noticed a little late.
        let due: Vec<i64> = [(100, 0), (101, 5), (106, 8)]
            .map(|(now, written)| pace.due_ns(now * SECOND, written * SECOND) / SECOND)
            .into();
        assert_eq!(due, [100, 105, 108]);
        assert_eq!(pace.due_ns(0, 8 * SECOND), 108 * SECOND, "writes of one instant follow at once");
    }

    #[tokio::test]
    async fn a_message_waits_on_the_clock_that_it_is_given() {
        let clock = Arc::new(SystemClock::default());
        let mut pace = Pace::default();
        let start_ns = pace.due_ns(clock.now_ns(), 0);
        clock.sleep_until(start_ns).await;
        let due_ns = pace.due_ns(clock.now_ns(), 3_600 * SECOND);
        let waiting = tokio::spawn({
            let clock = Arc::clone(&clock);
            async move { clock.sleep_until(due_ns).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "an hour lies between the writes");
        // The virtual hour passes.
        clock.advance_ns(3_600 * SECOND);
        waiting.await.expect("it wakes");
        assert!(clock.now_ns() >= due_ns);
    }
}
