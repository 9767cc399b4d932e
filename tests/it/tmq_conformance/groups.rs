//! Consumers and groups: who gets what, how often, and how they are shown.

use std::collections::BTreeSet;

use client::Message;

use super::{all, column, rows, sorted, start, subscribed, subscriptions, write};
use crate::support::{ByHand, consumer, number, query, shares, wait_for};

const TABLES: i64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn s15_07_a_topic_has_a_hundred_groups() {
    let (server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let mut first = ByHand::log_in(&server, 1, "g1").await;
    first.subscribe(&["t"]).await.expect("the first");
    for n in 2..=100 {
        let mut next = first.beside(n, &format!("g{n}"));
        assert_eq!(next.subscribe(&["t"]).await, Ok(()), "group {n}");
    }
    let refused = first.beside(101, "g101").subscribe(&["t"]).await.expect_err("one too many");
    assert_eq!(refused.number(), 0x4005);
    assert_eq!(first.beside(102, "g7").subscribe(&["t"]).await, Ok(()), "a group that is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_08_a_row_a_consumer_and_a_row_a_vgroup() {
    let (_server, connection) = start("VGROUPS 4").await;
    let mut consumers = Vec::new();
    for (topic, group) in [("t1", "g1"), ("t2", "g1"), ("t3", "g3"), ("t4", "g4")] {
        query(&connection, &format!("CREATE TOPIC {topic} AS DATABASE d")).await;
        consumers.push(subscribed(&connection, group, &[topic], &[]).await);
    }
    assert_eq!(query(&connection, "SHOW CONSUMERS").await.len(), 4);
    assert_eq!(query(&connection, "SHOW SUBSCRIPTIONS").await.len(), 16);
    for consumer in consumers {
        consumer.close().await.expect("close");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_12_parameters_are_shown_as_they_were_given() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    for reset in ["earliest", "latest", "none"] {
        for commit in ["true", "false"] {
            for tbname in ["true", "false"] {
                let parameters = [
                    ("auto.offset.reset", reset),
                    ("enable.auto.commit", commit),
                    ("msg.with.table.name", tbname),
                    ("auto.commit.interval.ms", "100"),
                ];
                let consumer = subscribed(&connection, "g", &["t"], &parameters).await;
                let told = query(&connection, "SHOW CONSUMERS").await;
                let told = told.iter().last().expect("a row").by_name::<String>("parameters");
                let flag = |value: &str| u8::from(value == "true");
                let wanted =
                    format!("tbname:{},commit:{},interval:100ms,reset:{reset}", flag(tbname), flag(commit));
                assert_eq!(told.expect("parameters"), wanted);
                consumer.close().await.expect("close");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_13_shown_offsets_and_rows_add_up() {
    let (_server, connection) = start("VGROUPS 4").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st WHERE c1 >= 20").await;
    write(&connection, TABLES, 0).await;
    let wanted = number(&connection, "SELECT COUNT(*) FROM d.st WHERE c1 >= 20").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    assert_eq!(rows(&all(&consumer).await) as i64, wanted);
    // The last report before a consumer leaves is final.
    consumer.close().await.expect("close");
    assert_eq!(subscriptions::<i64>(&connection, "g", "rows").await.iter().sum::<i64>(), wanted);
    let offsets = subscriptions::<String>(&connection, "g", "offset").await;
    assert_eq!(offsets.len(), 4);
    for shown in offsets {
        let (offset, end) = shown.strip_prefix("wal:").and_then(|s| s.split_once('/')).expect("a place");
        let [offset, end] = [offset, end].map(|n| n.parse::<u64>().expect("a version"));
        assert!(offset <= end, "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_16_a_name_in_backticks_listed_twice() {
    let (_server, connection) = start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC `UPPER case` AS SELECT ts, c1 FROM d.st").await;
    write(&connection, 10, 0).await;
    let consumer = subscribed(&connection, "g", &["UPPER case", "UPPER case"], &[]).await;
    assert_eq!(consumer.subscription(), ["UPPER case"]);
    assert_eq!(sorted(column::<i64>(&all(&consumer).await, "c1")), (0..10).collect::<Vec<_>>());
    let unknown = consumer.subscribe(["upper case"]).await.expect_err("names are taken literally");
    assert_eq!(unknown.code().number(), 0x03E1);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_17_unsubscribing_and_subscribing_twice_does_no_harm() {
    let (_server, connection) = start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    write(&connection, 10, 0).await;
    let consumer = consumer(&connection, "g", &[("auto.offset.reset", "earliest")]);
    for _ in 0..2 {
        consumer.unsubscribe().await.expect("unsubscribe");
    }
    for _ in 0..2 {
        consumer.subscribe(["t"]).await.expect("subscribe");
    }
    assert_eq!(sorted(column::<i64>(&all(&consumer).await, "c1")), (0..10).collect::<Vec<_>>());
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_18_one_handle_reads_another_topic() {
    let (_server, connection) = start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC t0 AS SELECT ts, c1 FROM d.st").await;
    query(&connection, "CREATE TOPIC t1 AS SELECT ts, c1 FROM d.n").await;
    write(&connection, 10, 0).await;
    query(&connection, "INSERT INTO d.n VALUES (now, 99, 'n')").await;
    let consumer = subscribed(&connection, "g", &["t0"], &[("min.poll.rows", "1")]).await;
    consumer.poll(std::time::Duration::from_secs(10)).await.expect("poll").expect("a message of t0");
    consumer.unsubscribe().await.expect("unsubscribe");
    assert!(consumer.poll(std::time::Duration::ZERO).await.expect("no error in between").is_none());
    consumer.subscribe(["t1"]).await.expect("subscribe");
    let messages = all(&consumer).await;
    assert_eq!(column::<i64>(&messages, "c1"), [99]);
    assert!(messages.iter().all(|message| message.topic() == "t1"));
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_19_two_topics_over_a_table_show_each_row_twice() {
    let (_server, connection) = start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    query(&connection, "CREATE TOPIC u AS STABLE d.st").await;
    write(&connection, 10, 0).await;
    let consumer = subscribed(&connection, "g", &["t", "u"], &[]).await;
    let (t, u): (Vec<Message>, Vec<_>) =
        all(&consumer).await.into_iter().partition(|message| message.topic() == "t");
    for messages in [t, u] {
        assert_eq!(sorted(column::<i64>(&messages, "c1")), (0..10).collect::<Vec<_>>());
    }
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_20_s15_21_a_group_gets_each_row_once_and_another_group_too() {
    let (_server, connection) = start("VGROUPS 4").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    let one = subscribed(&connection, "g", &["t"], &[]).await;
    let two = subscribed(&connection, "g", &["t"], &[]).await;
    let alone = subscribed(&connection, "h", &["t"], &[]).await;
    write(&connection, TABLES, 0).await;
    let every: Vec<_> = (0..TABLES).collect();
    let (ones, twos) = (all(&one).await, all(&two).await);
    assert!(rows(&ones) > 0 && rows(&twos) > 0, "both have vgroups");
    let both = [column::<i64>(&ones, "c1"), column(&twos, "c1")].concat();
    assert_eq!(sorted(both), every);
    assert_eq!(sorted(column::<i64>(&all(&alone).await, "c1")), every);
    for consumer in [one, two, alone] {
        consumer.close().await.expect("close");
    }
}

/// 500 rows, none committed; 2 of 4 vgroups move, and their rows come again.
#[tokio::test(flavor = "multi_thread")]
async fn s15_22_who_joins_gets_the_uncommitted_rows_of_what_moves() {
    const EACH: i64 = 100;
    let (_server, connection) = start("VGROUPS 4").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    for round in 0..5 {
        write(&connection, EACH, round * EACH).await;
    }
    let first = subscribed(&connection, "g", &["t"], &[]).await;
    let seen = all(&first).await;
    assert_eq!(sorted(column::<i64>(&seen, "c1")), (0..5 * EACH).collect::<Vec<_>>());
    // It polls on, as applications do, and so is done with what it has.
    let polls = async {
        loop {
            assert!(first.poll(std::time::Duration::from_millis(50)).await.expect("poll").is_none());
        }
    };
    let joins = subscribed(&connection, "g", &["t"], &[]);
    let second = tokio::select! { second = joins => second, () = polls => unreachable!("polls for ever") };
    let owned = shares(&connection, "g").await;
    assert_eq!(owned.values().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    let moved: BTreeSet<u32> =
        second.assignment("t").await.expect("assignment").iter().map(|part| part.vgroup).collect();
    let again: Vec<Message> = seen.into_iter().filter(|message| moved.contains(&message.vgroup())).collect();
    assert!(rows(&again) > 0);
    assert_eq!(sorted(column::<i64>(&all(&second).await, "c1")), sorted(column::<i64>(&again, "c1")));
    assert_eq!(rows(&all(&first).await), 0, "what it keeps it does not read again");
    wait_for("nobody is without vgroups", || async { shares(&connection, "g").await.len() == 2 }).await;
    first.close().await.expect("close");
    second.close().await.expect("close");
}
