//! Rules of section 16 that need a client, a server and the wire between them. The others stand with the code that keeps
//! them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use client::{Code, Consumer, ConsumerConfig};
use parking_lot::Mutex;

use super::{all, column, start, subscribed, write};
use crate::support::{PATIENCE, connect, query, wait_for};

type Told = Arc<Mutex<Vec<Result<(), Code>>>>;

fn tell(told: &Told) -> impl Fn(client::Result<()>) + Send + Sync + 'static {
    let told = Arc::clone(told);
    move |done| told.lock().push(done.map_err(|error| error.code()))
}

async fn told_once(told: &Told) -> Result<(), Code> {
    wait_for("the callback", || async { !told.lock().is_empty() }).await;
    let told = told.lock();
    assert_eq!(told.len(), 1, "{told:?}");
    told[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_14_a_commits_callback_is_called_once_with_what_the_shard_said() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.n").await;
    query(&connection, "INSERT INTO d.n VALUES (now, 1, 'x')").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    let message = all(&consumer).await.remove(0);
    let told = Told::default();
    consumer.commit_async(&message, tell(&told));
    assert_eq!(told_once(&told).await, Ok(()));
    // Equal to what is stored, with nothing to ask.
    let told = Told::default();
    consumer.commit_async(&message, tell(&told));
    assert_eq!(told_once(&told).await, Ok(()));
    // Of a vgroup that was another's meanwhile: refused by the shard, and told so.
    consumer.unsubscribe().await.expect("unsubscribe");
    let other = subscribed(&connection, "g", &["t"], &[]).await;
    other.close().await.expect("close");
    consumer.subscribe(["t"]).await.expect("subscribe");
    let told = Told::default();
    consumer.commit_async(&message, tell(&told));
    assert_eq!(told_once(&told).await, Err(Code::ConsumerMismatch));
    consumer.close().await.expect("close");
}

/// The client's runtime ends while a commit is under way to a server that is gone.
#[test]
fn rule_14_a_commits_callback_is_called_at_shutdown_too() {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let (outer, inner) = (runtime(), runtime());
    let (mut server, _connection) = outer.block_on(start("VGROUPS 1"));
    let told = Told::default();
    let consumer = inner.block_on(async {
        let connection = connect(&server).await;
        query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.n").await;
        query(&connection, "INSERT INTO d.n VALUES (now, 1, 'x')").await;
        let consumer = subscribed(&connection, "g", &["t"], &[]).await;
        let message = all(&consumer).await.remove(0);
        server.kill();
        consumer.commit_async(&message, tell(&told));
        consumer
    });
    assert!(told.lock().is_empty(), "it tries for a while to reach the server");
    drop(inner);
    drop(consumer);
    let done = outer.block_on(told_once(&told));
    assert!(done.is_err(), "nobody has stored it");
}

/// A callback that asks the consumer whose commit it is told of.
/// On a thread of its own: a deadlock would hold that of whoever looks, too.
#[test]
fn rule_23_a_callback_may_use_its_consumer() {
    let (says, said) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(a_callback_uses_its_consumer());
        says.send(()).expect("somebody waits");
    });
    said.recv_timeout(2 * PATIENCE).expect("no deadlock, and no failure above");
}

async fn a_callback_uses_its_consumer() {
    let (_server, connection) = start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    let place: Arc<OnceLock<Weak<Consumer>>> = Arc::default();
    let asked = Arc::new(AtomicU32::new(0));
    let callback = {
        let (place, asked) = (Arc::clone(&place), Arc::clone(&asked));
        move |done: client::Result<()>| {
            done.expect("an automatic commit");
            let Some(consumer) = place.get().and_then(Weak::upgrade) else { return };
            assert_eq!(consumer.subscription(), ["t"]);
            let nothing = consumer.position("t", 9_999).expect_err("no such vgroup");
            assert_eq!(nothing.code(), Code::VgroupNotAssigned);
            consumer.commit_all_async(|_| ());
            asked.fetch_add(1, Ordering::Relaxed);
        }
    };
    let config = ConsumerConfig::new("g")
        .with("auto.offset.reset", "earliest")
        .and_then(|config| config.with("auto.commit.interval.ms", "1"))
        .expect("parameters")
        .on_auto_commit(callback);
    let consumer = Arc::new(connection.consumer(config).expect("a consumer"));
    place.set(Arc::downgrade(&consumer)).expect("once");
    consumer.subscribe(["t"]).await.expect("subscribe");
    let mut seen = 0;
    for round in 0..3 {
        write(&connection, 10, 10 * round).await;
        seen += column::<i64>(&all(&consumer).await, "c1").len();
    }
    assert_eq!(seen, 30);
    wait_for("a callback that has asked", || async {
        assert!(consumer.poll(Duration::from_millis(20)).await.expect("poll").is_none());
        asked.load(Ordering::Relaxed) > 0
    })
    .await;
    consumer.close().await.expect("close");
}
