//! Who was heard of, counted in ticks since (tmq.md 7.1).

use std::collections::BTreeMap;

use model::{Code, ConsumerId, Error};

use crate::state::settings::REBALANCE_INTERVAL_S;
use crate::state::{Farewell, MnodeState};

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    since_heartbeat: u32,
    since_poll: u32,
    poll_time_ns: Option<i64>,
}

/// A consumer that has not been heard of for too long.
#[derive(Debug)]
pub(super) struct Overdue {
    pub(super) consumer: ConsumerId,
    /// Its subscribe that is overdue: a later one is not.
    pub(super) subscription: u64,
    pub(super) farewell: Farewell,
}

/// The two counters of every consumer.
#[derive(Debug, Default)]
pub(super) struct Liveness(BTreeMap<ConsumerId, Counters>);

impl Liveness {
    pub(super) fn heard(&mut self, consumer: ConsumerId, polled: bool, now_ns: i64) {
        let counters = self.0.entry(consumer).or_default();
        counters.since_heartbeat = 0;
        if polled {
            counters.since_poll = 0;
            counters.poll_time_ns = Some(now_ns);
        }
    }

    pub(super) fn reset(&mut self, consumer: ConsumerId) {
        let counters = self.0.entry(consumer).or_default();
        counters.since_heartbeat = 0;
        counters.since_poll = 0;
    }

    pub(super) fn poll_time_ns(&self, consumer: ConsumerId) -> Option<i64> {
        self.0.get(&consumer)?.poll_time_ns
    }

    /// Counts one tick. Returns who is overdue.
    ///
    /// A consumer that a new leader has never heard of starts from nothing here, and so gets its whole timeout.
    pub(super) fn tick(&mut self, state: &MnodeState) -> Vec<Overdue> {
        self.0.retain(|id, _| state.consumer_or_expired(*id).is_some());
        let interval_ms = state.setting(REBALANCE_INTERVAL_S).saturating_mul(1_000);
        let overdue = |ticks: u32, timeout_ms: u32| {
            i64::from(ticks).saturating_mul(interval_ms) >= i64::from(timeout_ms)
        };
        let mut expired = Vec::new();
        for consumer in state.consumers().filter(|c| !c.expired && !c.is_clear()) {
            let counters = self.0.entry(consumer.id).or_default();
            counters.since_heartbeat = counters.since_heartbeat.saturating_add(1);
            counters.since_poll = counters.since_poll.saturating_add(1);
            let p = &consumer.parameters;
            let why = if overdue(counters.since_heartbeat, p.session_timeout_ms) {
                format!("no heartbeat came for session.timeout.ms={}", p.session_timeout_ms)
            } else if overdue(counters.since_poll, p.max_poll_interval_ms) {
                format!("it did not poll for max.poll.interval.ms={}", p.max_poll_interval_ms)
            } else {
                continue;
            };
            let why = format!("removed from group={}: {why}", consumer.group);
            let error = Error::with(Code::ConsumerNotExist, why);
            let farewell = Farewell { user: consumer.user.clone(), error };
            expired.push(Overdue { consumer: consumer.id, subscription: consumer.subscription, farewell });
        }
        expired
    }
}
