//! kill -9 at random moments while writers and consumer groups run: what was acknowledged is there, every row reaches each
//! group at least once, order holds within a vgroup, and committed offsets never go back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::{Connection, Value};
use parking_lot::Mutex;

use crate::support::{Server, connect, consumer, query, wait_for};

const ROUNDS: u64 = 20;
const WRITERS: i64 = 4;
const GROUPS: [&str; 2] = ["first", "second"];

/// A small generator of our own, so that a failure's moments can be repeated: `CRASH_SEED=n`.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Rows that a writer has acknowledged: (writer, number).
type Acknowledged = Mutex<BTreeSet<(i64, i64)>>;

/// Writes rows one batch after the other, whatever happens to the server, until told to stop.
async fn write(connection: Connection, writer: i64, stop: Arc<AtomicBool>, acknowledged: Arc<Acknowledged>) {
    let sink = connection.writer("d", "s").await.expect("a writer");
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut batch = sink.batch().expect("a batch");
        let rows: Vec<(i64, i64)> = (next..next + 10).map(|n| (writer, n)).collect();
        let table = batch.child(&format!("w{writer}_{}", next % 7), &[Value::Int(writer)]).expect("a child");
        for (writer, n) in &rows {
            let row = [Value::Timestamp(1_700_000_000_000 + n), Value::Int(*writer), Value::Int(*n)];
            batch.push(table, &row).expect("a row");
        }
        // An error means that the fate of the batch is unknown; writing it again is safe.
        if sink.write(batch).await.is_ok() && sink.flush().await.is_ok() {
            acknowledged.lock().extend(rows);
            next += 10;
        }
    }
}

/// What one group has seen.
#[derive(Default)]
struct Seen {
    rows: Mutex<BTreeSet<(i64, i64)>>,
    /// Highest version delivered in each vgroup since the last time the group began again, to see order.
    disorder: AtomicU64,
}

async fn consume(connection: Connection, group: &'static str, stop: Arc<AtomicBool>, seen: Arc<Seen>) {
    let parameters = [("auto.offset.reset", "earliest"), ("auto.commit.interval.ms", "100")];
    let consumer = consumer(&connection, group, &parameters);
    let mut positions: BTreeMap<u32, i64> = BTreeMap::new();
    let mut subscribed = false;
    while !stop.load(Ordering::Relaxed) {
        if !subscribed {
            subscribed = consumer.subscribe(["t"]).await.is_ok();
            positions.clear();
            continue;
        }
        match consumer.poll(Duration::from_millis(200)).await {
            Ok(Some(message)) => {
                // Within one membership a vgroup's messages go forward; going on after a crash may repeat some.
                let position = positions.entry(message.vgroup()).or_insert(message.begin());
                if message.next() <= message.begin() || message.begin() < *position {
                    seen.disorder.fetch_add(1, Ordering::Relaxed);
                }
                *position = message.next();
                let rows = message.rows().map(|row| (row.get(0).expect("w"), row.get(1).expect("n")));
                seen.rows.lock().extend(rows.collect::<Vec<_>>());
            }
            Ok(None) => {}
            Err(error) if error.code() == client::Code::ConsumerNotExist => subscribed = false,
            Err(_) => {}
        }
    }
    consumer.close().await.expect("close");
}

/// Committed offsets as the server shows them, by group and vgroup.
async fn committed(connection: &Connection) -> BTreeMap<(String, i64), u64> {
    let rows = query(connection, "SHOW SUBSCRIPTIONS").await;
    let mut offsets = BTreeMap::new();
    for row in rows.iter() {
        let text: Option<String> = row.by_name("committed").expect("committed");
        if let Some(version) = text.and_then(|text| text.strip_prefix("wal:")?.parse().ok()) {
            let group = row.by_name("consumer_group").expect("group");
            offsets.insert((group, row.by_name("vgroup_id").expect("vgroup")), version);
        }
    }
    offsets
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_committed_goes_back() {
    let seed = std::env::var("CRASH_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed_u64);
    eprintln!("repeat with CRASH_SEED={seed}");
    let mut chance = Chance(seed.max(1));
    let mut server = Server::start_with(&[]);
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 3").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, w INT, n INT) TAGS (g INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT w, n FROM d.s").await;

    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(Acknowledged::default());
    let seen: Vec<Arc<Seen>> = GROUPS.iter().map(|_| Arc::default()).collect();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let connection = connect(&server).await;
        writers.push(tokio::spawn(write(connection, writer, stop.clone(), acknowledged.clone())));
    }
    let stop_consumers = Arc::new(AtomicBool::new(false));
    let mut consumers = Vec::new();
    for (group, seen) in GROUPS.into_iter().zip(&seen) {
        let connection = connect(&server).await;
        consumers.push(tokio::spawn(consume(connection, group, stop_consumers.clone(), seen.clone())));
    }

    let mut floor: BTreeMap<(String, i64), u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        // So far the writers get before the next kill.
        let enough = acknowledged.lock().len() + 200 + chance.below(2_000) as usize;
        wait_for("the writers go on", || async { acknowledged.lock().len() >= enough }).await;
        if chance.below(4) == 0 {
            query(&connection, "FLUSH DATABASE d").await;
        }
        // What the server shows as committed has been answered, or is about to be: it must not go back.
        for (place, version) in committed(&connection).await {
            let held = floor.entry(place).or_insert(version);
            *held = (*held).max(version);
        }
        server.kill_and_restart_on_the_same_port();
        for (place, version) in committed(&connection).await {
            let held = floor.get(&place).copied().unwrap_or(0);
            assert!(version >= held, "round {round}: offset of {place:?} went back from {held} to {version}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("a writer");
    }
    let acknowledged = acknowledged.lock().clone();
    assert!(acknowledged.len() > 500, "the writers got somewhere: {}", acknowledged.len());

    let rows = query(&connection, "SELECT w, n FROM d.s").await;
    let stored: BTreeSet<(i64, i64)> = rows.iter().map(|r| (r.get(0).unwrap(), r.get(1).unwrap())).collect();
    let lost: Vec<_> = acknowledged.difference(&stored).take(5).collect();
    assert!(lost.is_empty(), "acknowledged rows are gone: {lost:?}");
    for (group, seen) in GROUPS.into_iter().zip(&seen) {
        wait_for(&format!("group {group} has every row"), || async {
            acknowledged.is_subset(&seen.rows.lock().clone())
        })
        .await;
        assert_eq!(seen.disorder.load(Ordering::Relaxed), 0, "order within a vgroup, group {group}");
    }
    stop_consumers.store(true, Ordering::Relaxed);
    for consumer in consumers {
        consumer.await.expect("a consumer");
    }
}
