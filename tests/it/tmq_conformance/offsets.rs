//! Where a group goes on: after commits, without them, by its policy, and after the server was killed in between.

use std::time::Duration;

use client::{Code, Connection};

use super::{all, subscriptions};
use crate::support::one_table::{reading, values, write};
use crate::support::{Server, connect, consumer, number, query, refusal, wait_for};

const QUIET: Duration = Duration::from_secs(1);

async fn start() -> (Server, Connection) {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.n").await;
    (server, connection)
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_24_uncommitted_work_comes_again() {
    let (_server, connection) = start().await;
    write(&connection, 0..6).await;
    let first = reading(&connection, "g", "earliest").await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let message = first.poll(QUIET).await.expect("poll").expect("a message");
        seen.extend(values(std::slice::from_ref(&message)));
        first.commit_sync(&message).await.expect("commit");
    }
    first.close().await.expect("close");
    assert_eq!(seen, [0, 1, 2]);

    let second = reading(&connection, "g", "earliest").await;
    let rest = all(&second).await;
    assert_eq!(values(&rest), [3, 4, 5], "goes on with the record after the commit");
    second.close().await.expect("close");

    let third = reading(&connection, "g", "latest").await;
    assert_eq!(values(&all(&third).await), [3, 4, 5], "uncommitted work comes again");
    third.close().await.expect("close");

    let other = reading(&connection, "other", "earliest").await;
    assert_eq!(values(&all(&other).await), [0, 1, 2, 3, 4, 5], "groups are independent");
    other.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_10_latest_is_what_comes_after_the_first_poll() {
    let (_server, connection) = start().await;
    write(&connection, 0..3).await;
    let latest = reading(&connection, "late", "latest").await;
    assert_eq!(values(&all(&latest).await), [0; 0]);
    write(&connection, 3..5).await;
    assert_eq!(values(&all(&latest).await), [3, 4]);
    latest.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_11_without_a_policy_there_has_to_be_a_commit() {
    let (_server, connection) = start().await;
    write(&connection, 0..3).await;
    let none = reading(&connection, "g", "none").await;
    assert_eq!(refusal(&none, QUIET).await.code(), Code::NoCommittedOffset, "no offset to go on from");
    wait_for("its report", || async {
        let offset = subscriptions::<Option<String>>(&connection, "g", "offset").await;
        offset == [Some("none/0".to_owned())]
    })
    .await;
    assert_eq!(subscriptions::<i64>(&connection, "g", "rows").await, [0]);
    // With one it goes on from there.
    let part = none.assignment("t").await.expect("assignment").remove(0);
    none.commit_offset_sync("t", part.vgroup, part.end).await.expect("commit");
    none.close().await.expect("close");
    let again = reading(&connection, "g", "none").await;
    write(&connection, 3..4).await;
    assert_eq!(values(&all(&again).await), [3]);
    again.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_23_a_group_that_commits_by_itself_gets_what_is_new() {
    let (_server, connection) = start().await;
    let automatic = [("auto.offset.reset", "earliest"), ("auto.commit.interval.ms", "100")];
    for round in 0..3 {
        write(&connection, 10 * round..10 * round + 10).await;
        let consumer = consumer(&connection, "g", &automatic);
        consumer.subscribe(["t"]).await.expect("subscribe");
        let wanted: Vec<_> = (10 * round..10 * round + 10).collect();
        assert_eq!(values(&all(&consumer).await), wanted, "round {round}");
        consumer.close().await.expect("close");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_26_idle_polls_commit_what_was_read() {
    let (_server, connection) = super::start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    super::write(&connection, 20, 0).await;
    let automatic = [("auto.offset.reset", "earliest"), ("auto.commit.interval.ms", "10")];
    let consumer = consumer(&connection, "g", &automatic);
    consumer.subscribe(["t"]).await.expect("subscribe");
    assert_eq!(super::rows(&all(&consumer).await), 20);
    let parts = consumer.assignment("t").await.expect("assignment");
    assert_eq!(parts.len(), 2);
    wait_for("position and commit agree on every vgroup", || async {
        assert!(consumer.poll(Duration::from_millis(20)).await.expect("poll").is_none());
        let mut agree = 0;
        for part in &parts {
            let position = consumer.position("t", part.vgroup).expect("position");
            let committed = consumer.committed("t", part.vgroup).await;
            agree += usize::from(committed.is_ok_and(|committed| committed == position));
        }
        agree == 2
    })
    .await;
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_27_the_next_poll_starts_where_it_was_sought() {
    let (_server, connection) = super::start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    for round in 0..5 {
        super::write(&connection, 20, 20 * round).await;
    }
    let consumer = super::subscribed(&connection, "g", &["t"], &[]).await;
    all(&consumer).await;
    consumer.commit_all_sync().await.expect("commit");
    let parts = consumer.assignment("t").await.expect("assignment");
    for part in &parts {
        assert!(part.end > 5, "{part:?}");
        let committed = consumer.committed("t", part.vgroup).await.expect("committed");
        consumer.seek("t", part.vgroup, 5).expect("seek");
        assert_eq!(consumer.position("t", part.vgroup).expect("position"), 5);
        assert_eq!(consumer.committed("t", part.vgroup).await.expect("committed"), committed, "unchanged");
    }
    let messages = all(&consumer).await;
    for part in parts {
        let first = messages.iter().find(|message| message.vgroup() == part.vgroup).expect("a message");
        assert_eq!(first.begin(), 5);
        assert!(first.row_versions().all(|version| version >= 5));
    }
    consumer.close().await.expect("close");
}

/// What was sought is delivered again, and only that.
#[tokio::test(flavor = "multi_thread")]
async fn s15_27_seeking_a_message_delivers_it_again() {
    let (_server, connection) = start().await;
    write(&connection, 0..4).await;
    let consumer = reading(&connection, "g", "earliest").await;
    let messages = all(&consumer).await;
    assert_eq!(values(&messages), [0, 1, 2, 3]);
    let second = messages.iter().find(|m| values(std::slice::from_ref(m)).contains(&1)).expect("row 1");
    consumer.seek("t", second.vgroup(), second.begin()).expect("seek");
    assert_eq!(values(&all(&consumer).await), [1, 2, 3]);
    consumer.commit_all_sync().await.expect("commit");
    let position = consumer.position("t", second.vgroup()).expect("position");
    assert_eq!(consumer.committed("t", second.vgroup()).await.expect("committed"), position);
    consumer.close().await.expect("close");
    assert_eq!(consumer.poll(QUIET).await.expect_err("closed").code(), Code::ConsumerClosed);
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_28_offsets_are_checked_before_they_are_taken() {
    let (_server, connection) = start().await;
    write(&connection, 0..4).await;
    let consumer = reading(&connection, "g", "earliest").await;
    all(&consumer).await;
    let part = consumer.assignment("t").await.expect("assignment").remove(0);
    for (topic, vgroup, offset, ended) in [
        ("t", part.vgroup + 90, 1, 0x4008),
        ("u", part.vgroup, 1, 0x4009),
        ("t", part.vgroup, part.end + 1, 0x4007),
        ("t", part.vgroup, part.end, 0),
        ("t", part.vgroup, -2, 0x4007),
        ("t", part.vgroup, -1, 0),
    ] {
        let sought = super::code_of(consumer.seek(topic, vgroup, offset));
        let committed = super::code_of(consumer.commit_offset_sync(topic, vgroup, offset).await);
        assert_eq!((sought, committed), (ended, ended), "{topic} {vgroup} {offset}");
    }
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_29_s15_30_nothing_is_known_before_it_was_asked_for_or_committed() {
    let (_server, connection) = start().await;
    write(&connection, 0..4).await;
    let vgroup = number(&connection, "SELECT vgroup_id FROM information_schema.ins_vgroups").await;
    let vgroup = u32::try_from(vgroup).expect("a vgroup");
    let consumer = reading(&connection, "g", "earliest").await;
    assert_eq!(super::code_of(consumer.position("t", vgroup)), 0x4010);
    assert_eq!(super::code_of(consumer.committed("t", vgroup).await), 0x4011);
    consumer.assignment("t").await.expect("assignment");
    assert_eq!(super::code_of(consumer.position("t", vgroup)), 0);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_31_the_next_consumer_starts_at_the_committed_offset() {
    let (_server, connection) = start().await;
    write(&connection, 0..6).await;
    let first = reading(&connection, "g", "earliest").await;
    let messages = all(&first).await;
    let offset = messages[3].begin();
    first.commit_offset_sync("t", messages[3].vgroup(), offset).await.expect("commit");
    first.close().await.expect("close");
    let second = reading(&connection, "g", "earliest").await;
    let messages = all(&second).await;
    assert_eq!(values(&messages), [3, 4, 5]);
    assert!(messages[0].begin() >= offset);
    second.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_32_an_assignment_right_after_subscribing() {
    let (_server, connection) = super::start("VGROUPS 4").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    super::write(&connection, 20, 0).await;
    let one = super::subscribed(&connection, "g", &["t"], &[]).await;
    let parts = one.assignment("t").await.expect("assignment");
    assert_eq!(parts.len(), 4);
    assert!(parts.iter().all(|part| part.begin <= part.current && part.current <= part.end), "{parts:?}");
    assert!(parts.iter().all(|part| part.end > part.begin), "{parts:?}");
    one.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_25_killed_between_delivery_and_commit() {
    let (mut server, connection) = start().await;
    write(&connection, 0..4).await;
    let consumer = reading(&connection, "g", "earliest").await;
    let first = consumer.poll(QUIET).await.expect("poll").expect("a message");
    consumer.commit_sync(&first).await.expect("commit");
    let delivered = all(&consumer).await;
    assert_eq!(values(&delivered), [1, 2, 3]);
    drop(consumer);
    server.kill();
    server.start_again();

    let connection = connect(&server).await;
    wait_for("the dead consumer is gone", || async { query(&connection, "SHOW CONSUMERS").await.is_empty() })
        .await;
    let consumer = reading(&connection, "g", "earliest").await;
    assert_eq!(values(&all(&consumer).await), [1, 2, 3], "from the commit, which the kill did not take");
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn seeking_again_and_again_does_not_use_up_the_flow() {
    let (_server, connection) = start().await;
    write(&connection, 0..40).await;
    let consumer = reading(&connection, "g", "earliest").await;
    let first = consumer.poll(QUIET).await.expect("poll").expect("a message");
    // Each seek stops a reader in the middle of what it sends.
    for _ in 0..200 {
        consumer.seek("t", first.vgroup(), first.next()).expect("seek");
        let message = consumer.poll(QUIET).await.expect("poll").expect("a message");
        assert_eq!(values(&[message]), [1]);
    }
    consumer.close().await.expect("close");
}
