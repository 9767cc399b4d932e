//! A member joins: what the others have handled is not delivered again, and nobody waits long for one that is busy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Code, Connection, Consumer};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::support::{Server, connect, consumer, query, shares, wait_for};

const QUIET: Duration = Duration::from_millis(500);
const TABLES: i64 = 40;

/// How often each row was handed out.
type Seen = Arc<Mutex<BTreeMap<i64, u32>>>;

async fn start() -> (Server, Connection) {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 4").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v BIGINT) TAGS (n INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT v FROM d.s").await;
    (server, connection)
}

/// One row of each table, so that every vgroup gets some.
async fn write(connection: &Connection, round: i64) {
    let row = |n: i64| {
        format!("d.c{n} USING d.s TAGS ({n}) VALUES ({}, {})", 1_700_000_000_000 + round, round * TABLES + n)
    };
    let rows: Vec<_> = (0..TABLES).map(row).collect();
    query(connection, &format!("INSERT INTO {}", rows.join(" "))).await;
}

/// Commits by itself, but far too rarely for that to matter here.
async fn join(connection: &Connection, commits: &str) -> Consumer {
    let parameters = [
        ("auto.offset.reset", "earliest"),
        ("min.poll.rows", "1"),
        ("enable.auto.commit", commits),
        ("auto.commit.interval.ms", "600000"),
    ];
    let consumer = consumer(connection, "g", &parameters);
    consumer.subscribe(["t"]).await.expect("subscribe");
    consumer
}

/// An application: polls until told to stop, and commits what it has handled where it has to.
struct Member {
    consumer: Arc<Consumer>,
    stop: Arc<AtomicBool>,
    polling: JoinHandle<()>,
}

impl Member {
    fn start(consumer: Consumer, seen: &Seen) -> Self {
        let (consumer, stop) = (Arc::new(consumer), Arc::new(AtomicBool::new(false)));
        let polling = tokio::spawn(poll_on(Arc::clone(&consumer), Arc::clone(seen), Arc::clone(&stop)));
        Self { consumer, stop, polling }
    }

    async fn leave(self) {
        self.stop.store(true, Ordering::Release);
        self.polling.await.expect("no commit was refused");
        self.consumer.close().await.expect("close");
    }
}

async fn poll_on(consumer: Arc<Consumer>, seen: Seen, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Acquire) {
        let Some(message) = consumer.poll(QUIET).await.expect("poll") else { continue };
        for row in message.rows() {
            *seen.lock().entry(row.get(0).expect("v")).or_default() += 1;
        }
        if !consumer.config().enable_auto_commit {
            consumer.commit_sync(&message).await.expect("the vgroup is still its own");
        }
    }
}

async fn all_seen(seen: &Seen, rounds: i64) {
    let rows = usize::try_from(rounds * TABLES).expect("few");
    wait_for(&format!("{rows} rows"), || async { seen.lock().len() == rows }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_handled_is_not_delivered_again_when_a_member_joins() {
    for commits in ["true", "false"] {
        let (_server, connection) = start().await;
        for round in 0..5 {
            write(&connection, round).await;
        }
        let seen = Seen::default();
        let mut members = Vec::new();
        for joined in 1..=3 {
            // The others poll on meanwhile, and rows come in.
            let writing = write(&connection, 4 + joined);
            let (member, ()) = tokio::join!(join(&connection, commits), writing);
            members.push(Member::start(member, &seen));
            all_seen(&seen, 5 + joined).await;
        }
        write(&connection, 8).await;
        all_seen(&seen, 9).await;
        let owned = shares(&connection, "g").await;
        assert_eq!(owned.len(), 3, "{owned:?}");
        // Leaving hands over too.
        members.remove(0).leave().await;
        write(&connection, 9).await;
        all_seen(&seen, 10).await;
        let twice: Vec<_> = seen.lock().iter().filter(|(_, times)| **times > 1).map(|(v, _)| *v).collect();
        assert_eq!(twice, [0; 0], "enable.auto.commit={commits}");
        for member in members {
            member.leave().await;
        }
    }
}

/// What the application has in its hands when the other one joins is awaited.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_owner_waits_until_a_message_is_handled() {
    let (_server, connection) = start().await;
    write(&connection, 0).await;
    let first = join(&connection, "true").await;
    let seen = Seen::default();
    while seen.lock().len() < usize::try_from(TABLES).expect("few") {
        let message = first.poll(QUIET).await.expect("poll").expect("a message");
        for row in message.rows() {
            *seen.lock().entry(row.get(0).expect("v")).or_default() += 1;
        }
    }
    let handling = async {
        wait_for("the other one waits", || async {
            let rows = query(&connection, "SHOW CONSUMERS").await;
            rows.iter().any(|row| row.by_name::<String>("status").expect("status") == "rebalancing")
        })
        .await;
        // Done with it.
        Member::start(first, &seen)
    };
    let (next, first) = tokio::join!(join(&connection, "true"), handling);
    let next = Member::start(next, &seen);
    write(&connection, 1).await;
    all_seen(&seen, 2).await;
    assert!(seen.lock().values().all(|times| *times == 1), "{seen:?}");
    first.leave().await;
    next.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_handles_a_message_for_long_loses_it_to_the_next_owner() {
    let (_server, connection) = start().await;
    write(&connection, 0).await;
    let busy = join(&connection, "true").await;
    let mut in_hands = BTreeMap::new();
    // A message of every vgroup in its hands, the last poll not followed by another.
    while in_hands.len() < 4 {
        let message = busy.poll(QUIET).await.expect("poll").expect("a message");
        in_hands.insert(message.vgroup(), message);
    }
    let seen = Seen::default();
    let next = Member::start(join(&connection, "true").await, &seen);
    let taken: Vec<u32> =
        next.consumer.assignment("t").await.expect("assignment").iter().map(|a| a.vgroup).collect();
    assert_eq!(taken.len(), 2, "it is not waited for without end");
    for vgroup in taken {
        let refused = busy.commit_sync(&in_hands[&vgroup]).await.expect_err("it is another's now");
        assert!(matches!(refused.code(), Code::ConsumerMismatch | Code::VgroupNotAssigned), "{refused}");
    }
    write(&connection, 1).await;
    wait_for("rows of the second round", || async { seen.lock().keys().any(|v| *v >= TABLES) }).await;
    next.leave().await;
}
