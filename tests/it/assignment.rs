//! Who owns which vgroup: shares within one, and vgroups that need not move do not.

use std::collections::BTreeSet;

use client::{Connection, Consumer};

use crate::support::{Server, Shares, connect, consumer, query, shares, wait_for};

const GROUP: &str = "g";

async fn start() -> (Server, Connection) {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 4").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.s").await;
    (server, connection)
}

async fn join(connection: &Connection) -> Consumer {
    let consumer = consumer(connection, GROUP, &[]);
    consumer.subscribe(["t"]).await.expect("subscribe");
    consumer
}

/// Waits until the owned vgroups are shared in these sizes among exactly as many owners as have any.
async fn settled(connection: &Connection, sizes: &[usize]) -> Shares {
    wait_for(&format!("shares of {sizes:?}"), || async {
        let shares = shares(connection, GROUP).await;
        let mut counts: Vec<usize> =
            shares.iter().filter(|(owner, _)| owner.is_some()).map(|(_, v)| v.len()).collect();
        counts.sort_unstable();
        counts == sizes && !shares.contains_key(&None)
    })
    .await;
    shares(connection, GROUP).await
}

/// Vgroups that have another owner than before.
fn moved(before: &Shares, after: &Shares) -> BTreeSet<i64> {
    let owner = |shares: &Shares, vgroup: i64| {
        shares.iter().find(|(_, owned)| owned.contains(&vgroup)).and_then(|(owner, _)| owner.clone())
    };
    before.values().flatten().copied().filter(|&v| owner(before, v) != owner(after, v)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_share_vgroups_evenly_and_few_move() {
    let (_server, connection) = start().await;
    let first = join(&connection).await;
    let one = settled(&connection, &[4]).await;
    let second = join(&connection).await;
    let two = settled(&connection, &[2, 2]).await;
    assert_eq!(moved(&one, &two).len(), 2);
    let third = join(&connection).await;
    let three = settled(&connection, &[1, 1, 2]).await;
    assert_eq!(moved(&two, &three).len(), 1);
    let fourth = join(&connection).await;
    let four = settled(&connection, &[1, 1, 1, 1]).await;
    assert_eq!(moved(&three, &four).len(), 1);
    // The fifth idles, a member without vgroups.
    let fifth = join(&connection).await;
    let five = settled(&connection, &[1, 1, 1, 1]).await;
    assert_eq!(moved(&four, &five), BTreeSet::new());
    assert_eq!(query(&connection, "SHOW CONSUMERS").await.len(), 5);
    assert_eq!(fifth.assignment("t").await.expect("assignment"), []);

    // Leaving gives back what is left, to the idle one first.
    first.close().await.expect("close");
    let left = settled(&connection, &[1, 1, 1, 1]).await;
    assert_eq!(moved(&five, &left).len(), 1);
    assert_eq!(fifth.assignment("t").await.expect("assignment").len(), 1);
    for consumer in [second, third, fourth, fifth] {
        consumer.close().await.expect("close");
    }
    wait_for("nobody is left", || async { shares(&connection, GROUP).await.keys().all(Option::is_none) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn show_tells_of_consumers_and_topics() {
    let (_server, connection) = start().await;
    let config =
        [("client.id", "bakery"), ("auto.commit.interval.ms", "100"), ("auto.offset.reset", "earliest")];
    let consumer = consumer(&connection, GROUP, &config);
    consumer.subscribe(["t"]).await.expect("subscribe");
    let rows = query(&connection, "SHOW CONSUMERS").await;
    let row = rows.iter().next().expect("a consumer");
    let text = |name: &str| row.by_name::<String>(name).expect("text");
    assert_eq!((text("consumer_group"), text("client_id")), (GROUP.into(), "bakery".into()));
    assert_eq!((text("user"), text("status"), text("topics")), ("root".into(), "ready".into(), "t".into()));
    assert_eq!(text("parameters"), "tbname:0,commit:1,interval:100ms,reset:earliest");
    let topics = query(&connection, "SHOW TOPICS").await;
    assert_eq!(topics.iter().map(|r| r.get::<String>(0).expect("a name")).collect::<Vec<_>>(), ["t"]);
    consumer.close().await.expect("close");
    query(&connection, "DROP TOPIC t").await;
    assert!(query(&connection, "SHOW SUBSCRIPTIONS").await.is_empty());
}
