//! Random changes, flushes and restarts against a map that shows what must be there.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const SEEDS: u64 = 6;
const STEPS: usize = 60;
const TABLES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Default)]
struct Expected {
    tables: BTreeSet<&'static str>,
    rows: BTreeMap<(&'static str, i64), i32>,
    /// Rows written to each table. Those of a dropped one are shown to no consumer that comes later.
    written: BTreeMap<&'static str, usize>,
}

impl Expected {
    fn rows(&self) -> Vec<Row> {
        self.rows.iter().map(|((table, tick), v)| row(table, *tick, *v)).collect()
    }
}

async fn run(seed: u64) {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let mut expected = Expected::default();
    let mut vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    for step in 0..STEPS {
        time.advance_ns(chance.random_range(0..2_000_000_000));
        let table = TABLES[chance.random_range(0..TABLES.len())];
        match chance.random_range(0..20) {
            0..=10 => {
                let first = chance.random_range(0..30);
                let v = i32::try_from(step).unwrap();
                let some: Vec<_> =
                    (first..first + chance.random_range(1..5)).map(|tick| (table, tick, v)).collect();
                vnode.write(rows(&some, Some(1))).await.unwrap();
                expected.tables.insert(table);
                *expected.written.entry(table).or_default() += some.len();
                expected.rows.extend(some.into_iter().map(|(table, tick, v)| ((table, tick), v)));
            }
            11 | 12 if expected.tables.contains(table) => {
                let first = chance.random_range(0..30);
                let range = TimeRange { first: START_MS + first, last_inclusive: START_MS + first + 5 };
                let target = DeleteTarget::Table(table.into());
                let outcome =
                    vnode.delete(DeleteRequest { target, range, origin: Origin::Client }).await.unwrap();
                let before = expected.rows.len();
                expected.rows.retain(|(of, tick), _| *of != table || !(first..=first + 5).contains(tick));
                assert_eq!(
                    outcome.affected_rows,
                    (before - expected.rows.len()) as u64,
                    "seed {seed} step {step}"
                );
            }
            13 if expected.tables.contains(table) => {
                vnode.drop_tables(vec![DropTable { name: table.into(), if_exists: false }]).await.unwrap();
                expected.tables.remove(table);
                expected.written.remove(table);
                expected.rows.retain(|(of, _), _| *of != table);
            }
            14 | 15 => vnode.flush().await.unwrap(),
            18 => vnode.compact(TimeRange::ALL, &Arc::default()).await.unwrap(),
            16 => {
                crash(vnode).await;
                vnode = open(dir.path(), &time).await;
            }
            17 => {
                vnode.close().await.unwrap();
                drop(vnode);
                vnode = open(dir.path(), &time).await;
            }
            _ => {}
        }
        assert_eq!(scan(&vnode).await, expected.rows(), "seed {seed} step {step}");
        assert_eq!(vnode.counts().tables, expected.tables.len(), "seed {seed} step {step}");
    }
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let delivered: usize = drain(&mut reader).iter().map(|(_, rows)| rows.len()).sum();
    let written: usize = expected.written.values().sum();
    assert_eq!(delivered, written, "seed {seed}: every row that was written, once");
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_shard_keeps_what_it_was_told() {
    for seed in 0..SEEDS {
        run(seed).await;
    }
}
