//! Which closed segments go: tmq.md 11.3 as a pure function.

/// How long closed segments are kept. May be altered while the log is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Seconds that a segment is kept after it was closed; -1 for ever, 0 not at all.
    pub period_s: i64,
    /// Above this total the oldest go, in KiB; 0 and -1: no limit.
    pub size_kb: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { period_s: 3600, size_kb: 0 }
    }
}

/// A closed segment that nothing but retention holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) bytes: u64,
    pub(crate) closed_ns: i64,
}

/// How many of `candidates`, oldest first, go. A candidate goes if the log is over its size limit, or if its period is
/// over; everything before the last one that goes, goes too. `total_bytes` is the whole log, the open segment included.
pub(crate) fn count_expired(
    candidates: &[Candidate],
    total_bytes: u64,
    now_ns: i64,
    retention: Retention,
) -> usize {
    let size_max =
        u64::try_from(retention.size_kb).ok().filter(|kb| *kb > 0).map(|kb| kb.saturating_mul(1024));
    let mut count = 0;
    let mut freed = 0;
    let mut passed = 0;
    for (at, candidate) in candidates.iter().enumerate() {
        passed += candidate.bytes;
        let too_large = size_max.is_some_and(|max| total_bytes.saturating_sub(freed) > max);
        if too_large || is_over(candidate.closed_ns, now_ns, retention.period_s) {
            count = at + 1;
            freed = passed;
        }
    }
    count
}

fn is_over(closed_ns: i64, now_ns: i64, period_s: i64) -> bool {
    let period_ns = period_s.saturating_mul(1_000_000_000);
    period_s == 0 || (period_s > 0 && closed_ns.saturating_add(period_ns) < now_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;
    const KB: u64 = 1024;

    /// Three closed segments of 10 KiB, closed at 100, 200 and 300 s, and an open one of 10 KiB.
    fn expired(now_s: i64, period_s: i64, size_kb: i64) -> usize {
        let closed = [100, 200, 300].map(|s| Candidate { bytes: 10 * KB, closed_ns: s * S });
        count_expired(&closed, 40 * KB, now_s * S, Retention { period_s, size_kb })
    }

    #[test]
    fn table() {
        for (now_s, period_s, size_kb, expected) in [
            (1000, -1, 0, 0),  // for ever
            (1000, -1, -1, 0), // for ever, no limit
            (0, 0, 0, 3),      // at once
            (150, 50, 0, 0),   // exactly at the period: not yet
            (151, 50, 0, 1),   // past it
            (251, 50, 0, 2),
            (1000, 50, 0, 3),
            (50, 50, 0, 0),   // clock set back before the segments were closed
            (0, 3600, 40, 0), // exactly at the limit
            (0, 3600, 39, 1), // over it: one is enough
            (0, 3600, 20, 2),
            (0, 3600, 1, 3),  // the open one stays whatever the limit
            (0, -1, 20, 2),   // size counts where the period is endless
            (251, 50, 30, 2), // both: whichever takes more
            (151, 50, 1, 3),
        ] {
            assert_eq!(
                expired(now_s, period_s, size_kb),
                expected,
                "now={now_s} period={period_s} size={size_kb}"
            );
        }
    }

    #[test]
    fn everything_before_the_last_that_goes_goes_too() {
        // The clock was set back between the first closing and the second.
        let closed = [500, 100].map(|s| Candidate { bytes: KB, closed_ns: s * S });
        assert_eq!(count_expired(&closed, 3 * KB, 200 * S, Retention { period_s: 50, size_kb: 0 }), 2);
    }
}
