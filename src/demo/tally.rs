//! What was written and what arrived.

use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::Mutex;
use serde::Deserialize;

/// A row of the demo: a table and an instant, as consumers print it.
type Key = (String, String);

/// Counts of the demo, shared by its writer and its consumers.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Rows acknowledged that the topic selects.
    expected: HashSet<Key>,
    /// How often each row arrived.
    delivered: HashMap<Key, u32>,
    by_consumer: BTreeMap<&'static str, u64>,
    /// Lines that are no rows of the demo.
    strange: u64,
    /// Rows that arrived although the topic's condition does not hold for them.
    unwanted: u64,
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    /// Acknowledged rows that the topic selects.
    pub(super) expected: usize,
    /// Of these, those that arrived at least once.
    pub(super) arrived: usize,
    /// Deliveries beyond the first of a row.
    pub(super) duplicates: u64,
    /// Deliveries that should not have been.
    pub(super) wrong: u64,
}

impl Totals {
    /// Acknowledged rows that have not arrived.
    pub(super) fn missing(self) -> usize {
        self.expected - self.arrived
    }
}

#[derive(Deserialize)]
struct Line {
    row: Row,
}

#[derive(Deserialize)]
struct Row {
    ts: String,
    tbname: String,
    voltage: i64,
}

impl Tally {
    /// Takes down rows that the server has acknowledged.
    pub(super) fn acknowledge(&self, rows: impl IntoIterator<Item = Key>) {
        self.0.lock().expected.extend(rows);
    }

    /// Takes down a line that a consumer printed.
    pub(super) fn deliver(&self, consumer: &'static str, line: &str) {
        let mut counts = self.0.lock();
        let Ok(Line { row }) = serde_json::from_str::<Line>(line) else {
            counts.strange += 1;
            return;
        };
        if row.voltage <= super::VOLTAGE_LIMIT {
            counts.unwanted += 1;
        }
        *counts.by_consumer.entry(consumer).or_default() += 1;
        *counts.delivered.entry((row.tbname, row.ts)).or_default() += 1;
    }

    /// The counts now.
    pub(super) fn totals(&self) -> Totals {
        let counts = self.0.lock();
        let arrived = counts.expected.iter().filter(|key| counts.delivered.contains_key(*key)).count();
        let duplicates = counts.delivered.values().map(|times| u64::from(times - 1)).sum();
        Totals {
            expected: counts.expected.len(),
            arrived,
            duplicates,
            wrong: counts.strange + counts.unwanted,
        }
    }

    /// Deliveries of each consumer.
    pub(super) fn by_consumer(&self) -> Vec<(&'static str, u64)> {
        self.0.lock().by_consumer.iter().map(|(name, rows)| (*name, *rows)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ts: &str, voltage: i64) -> String {
        format!(
            r#"{{"topic":"t","vgroup":2,"version":7,"row":{{"ts":"{ts}","tbname":"d1","voltage":{voltage}}}}}"#
        )
    }

    #[test]
    fn lost_and_duplicate_rows_are_seen() {
        let tally = Tally::default();
        tally.acknowledge([("d1".into(), "a".into()), ("d1".into(), "b".into())]);
        tally.deliver("A", &line("a", 230));
        assert_eq!(tally.totals().missing(), 1);
        tally.deliver("B", &line("b", 230));
        tally.deliver("B", &line("b", 230));
        tally.deliver("B", &line("b", 100));
        tally.deliver("B", "nonsense");
        assert_eq!(tally.totals(), Totals { expected: 2, arrived: 2, duplicates: 2, wrong: 2 });
        assert_eq!(tally.by_consumer(), [("A", 1), ("B", 3)]);
    }
}
