//! Schemas, tags and tables that change under a topic, and RELOAD TOPIC, over SQL.

use client::{Connection, Message};

use super::{START_MS, all, code, column, run, sorted, start, subscribed, texts};
use crate::support::query;

/// One row of a table, by its columns in order.
async fn insert(connection: &Connection, table: &str, second: i64, rest: &str) {
    query(connection, &format!("INSERT INTO d.{table} VALUES ({}, {rest})", START_MS + second)).await;
}

fn names(message: &Message) -> Vec<Vec<String>> {
    message.blocks().iter().map(|b| b.columns().iter().map(|c| c.name.clone()).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_46_a_star_keeps_the_columns_that_there_were() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT * FROM d.st").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    insert(&connection, "c", 0, "1, 'a'").await;
    let before = all(&consumer).await;
    run(&connection, &["ALTER STABLE d.st ADD COLUMN c3 INT", "ALTER STABLE d.st ADD TAG t3 INT"]).await;
    insert(&connection, "c", 1, "2, 'b', 9").await;
    let after = all(&consumer).await;
    for messages in [&before, &after] {
        assert_eq!(names(&messages[0]), [["ts", "c1", "c2", "t1", "t2"]]);
    }
    assert_eq!(texts(&after), [format!("{},2,b,1,one", START_MS + 1)]);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_47_rule_19_new_children_join_if_they_match_and_dropped_ones_leave() {
    let (_server, connection) = start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC q AS SELECT * FROM d.st WHERE t1 > 10").await;
    query(&connection, "CREATE TOPIC s AS STABLE d.st WHERE t1 > 10").await;
    let query_topic = subscribed(&connection, "g", &["q"], &[]).await;
    let stable_topic = subscribed(&connection, "g", &["s"], &[]).await;
    assert!(all(&query_topic).await.is_empty() && all(&stable_topic).await.is_empty());
    run(
        &connection,
        &[
            "CREATE TABLE d.two USING d.st TAGS (2, 'x')",
            "CREATE TABLE d.many USING d.st TAGS (21, 'x')",
            "INSERT INTO d.auto USING d.st TAGS (22, 'x') VALUES (1700000000000, 30, 'x')",
            "INSERT INTO d.less USING d.st TAGS (3, 'x') VALUES (1700000000000, 31, 'x')",
        ],
    )
    .await;
    insert(&connection, "two", 1, "32, 'x'").await;
    insert(&connection, "many", 1, "33, 'x'").await;
    let seen = all(&query_topic).await;
    assert_eq!(sorted(column::<i64>(&seen, "c1")), [30, 33]);
    assert_eq!(sorted(column::<i64>(&seen, "t1")), [21, 22]);
    let seen = all(&stable_topic).await;
    assert_eq!(sorted(column::<i64>(&seen, "c1")), [30, 33]);
    // Gone, and made again so that it does not match: neither its going nor what it says now is a row.
    run(&connection, &["DROP TABLE d.many", "CREATE TABLE d.many USING d.st TAGS (1, 'x')"]).await;
    insert(&connection, "many", 2, "34, 'x'").await;
    query(&connection, "INSERT INTO d.auto VALUES (1700000000003, 35, 'x')").await;
    assert_eq!(column::<i64>(&all(&query_topic).await, "c1"), [35]);
    assert_eq!(column::<i64>(&all(&stable_topic).await, "c1"), [35]);
    for consumer in [query_topic, stable_topic] {
        consumer.close().await.expect("close");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_48_a_changed_tag_lets_a_child_in_or_out() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT * FROM d.st WHERE t1 > 10").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    run(
        &connection,
        &[
            "CREATE TABLE d.entering USING d.st TAGS (2, 'x')",
            "CREATE TABLE d.leaving USING d.st TAGS (21, 'x')",
            "ALTER TABLE d.entering SET TAG t1 = 100",
            "ALTER TABLE d.leaving SET TAG t1 = 10",
        ],
    )
    .await;
    insert(&connection, "entering", 0, "1, 'x'").await;
    insert(&connection, "leaving", 0, "2, 'x'").await;
    assert_eq!(texts(&all(&consumer).await), [format!("{START_MS},1,x,100,x")]);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_49_a_dropped_tag_still_filters() {
    let (_server, connection) = start("VGROUPS 1").await;
    run(
        &connection,
        &[
            "CREATE TOPIC t AS SELECT ts, c1 FROM d.st WHERE t1 > 0",
            "CREATE TABLE d.zero USING d.st TAGS (0, 'x')",
        ],
    )
    .await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    insert(&connection, "c", 0, "1, 'x'").await;
    assert_eq!(column::<i64>(&all(&consumer).await, "c1"), [1]);
    query(&connection, "ALTER STABLE d.st DROP TAG t1").await;
    insert(&connection, "c", 1, "2, 'x'").await;
    insert(&connection, "zero", 1, "3, 'x'").await;
    assert_eq!(column::<i64>(&all(&consumer).await, "c1"), [2], "under the old definition");
    run(
        &connection,
        &["RELOAD TOPIC t AS SELECT * FROM d.st", "CREATE TABLE d.fresh USING d.st (t2) TAGS ('new')"],
    )
    .await;
    insert(&connection, "fresh", 2, "4, 'x'").await;
    let after = all(&consumer).await;
    assert_eq!(names(&after[0]), [["ts", "c1", "c2", "t2"]], "the consumer that there is switches");
    assert_eq!(texts(&after), [format!("{},4,x,new", START_MS + 2)]);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_50_what_is_not_delivered_yet_comes_as_the_reload_says() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1, t1 FROM d.st WHERE t1 = 1").await;
    insert(&connection, "c", 0, "1, 'x'").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    assert_eq!(texts(&all(&consumer).await), [format!("{START_MS},1,1")]);
    consumer.commit_all_sync().await.expect("commit");
    consumer.close().await.expect("close");
    insert(&connection, "c", 1, "2, 'x'").await;
    run(
        &connection,
        &[
            "ALTER STABLE d.st RENAME TAG t1 zone",
            "ALTER STABLE d.st RENAME TAG t2 label",
            "ALTER STABLE d.st MODIFY TAG label VARCHAR(20)",
            "RELOAD TOPIC t AS SELECT ts, c1, zone, label FROM d.st WHERE zone = 1",
        ],
    )
    .await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    let messages = all(&consumer).await;
    assert_eq!(names(&messages[0]), [["ts", "c1", "zone", "label"]]);
    assert_eq!(texts(&messages), [format!("{},2,1,one", START_MS + 1)], "from where the group was");
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_52_what_cannot_be_reloaded_says_so() {
    let (_server, connection) = start("VGROUPS 1").await;
    let select = "AS SELECT ts, c1 FROM d.st";
    assert_eq!(code(&connection, &format!("RELOAD TOPIC nope {select}")).await, 0x03E1);
    assert_eq!(code(&connection, &format!("RELOAD TOPIC IF EXISTS nope {select}")).await, 0);
    run(&connection, &["CREATE TOPIC s AS STABLE d.st", "CREATE TOPIC b AS DATABASE d"]).await;
    for topic in ["s", "b"] {
        assert_eq!(code(&connection, &format!("RELOAD TOPIC {topic} {select}")).await, 0x03E5, "{topic}");
    }
    query(&connection, "CREATE TOPIC q AS SELECT ts FROM d.st").await;
    assert_eq!(code(&connection, "RELOAD TOPIC q AS SELECT ts FROM d.nope").await, 0x2603);
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_51_a_widened_column_delivers_its_longer_values() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c2 FROM d.st").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    insert(&connection, "c", 0, "1, '12345678'").await;
    assert_eq!(column::<String>(&all(&consumer).await, "c2"), ["12345678"]);
    query(&connection, "ALTER STABLE d.st MODIFY COLUMN c2 VARCHAR(16)").await;
    insert(&connection, "c", 1, "1, '1234567890123456'").await;
    assert_eq!(column::<String>(&all(&consumer).await, "c2"), ["1234567890123456"]);
    consumer.close().await.expect("close");
}

/// What RELOAD then finds: `s15_53_reload_finds_what_a_standing_topic_left`.
#[tokio::test(flavor = "multi_thread")]
async fn s15_53_a_table_made_again_is_another_one() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC of_child AS SELECT ts, c1 FROM d.c").await;
    query(&connection, "CREATE TOPIC of_super AS SELECT ts, c1 FROM d.st").await;
    run(&connection, &["DROP TABLE d.c", "CREATE TABLE d.c USING d.st TAGS (1, 'one')"]).await;
    insert(&connection, "c", 0, "1, 'x'").await;
    let child = subscribed(&connection, "g", &["of_child"], &[]).await;
    assert!(all(&child).await.is_empty());
    query(&connection, "DROP STABLE d.st").await;
    run(&connection, &super::SCHEMA[..2]).await;
    insert(&connection, "c", 1, "2, 'x'").await;
    let of_stable = subscribed(&connection, "g", &["of_super"], &[]).await;
    assert!(all(&of_stable).await.is_empty());
    run(
        &connection,
        &[
            "RELOAD TOPIC of_child AS SELECT ts, c1 FROM d.c",
            "RELOAD TOPIC of_super AS SELECT ts, c1 FROM d.st",
        ],
    )
    .await;
    for consumer in [child, of_stable] {
        assert_eq!(
            column::<i64>(&all(&consumer).await, "c1"),
            [2],
            "what the log holds of the table that is"
        );
        consumer.close().await.expect("close");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_54_a_row_carries_the_tag_that_it_was_written_under() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, t1 FROM d.st").await;
    insert(&connection, "c", 0, "1, 'x'").await;
    query(&connection, "ALTER TABLE d.c SET TAG t1 = 7").await;
    insert(&connection, "c", 1, "1, 'x'").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    assert_eq!(column::<i64>(&all(&consumer).await, "t1"), [1, 7]);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_57_each_block_has_the_columns_of_its_write() {
    const ROUNDS: i64 = 6;
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let consumer = subscribed(&connection, "g", &["t"], &[("min.poll.rows", "1000")]).await;
    for round in 0..ROUNDS {
        query(&connection, &format!("ALTER STABLE d.st ADD COLUMN a{round} INT")).await;
        let at = START_MS + 10 * round;
        query(&connection, &format!("INSERT INTO d.c (ts, a{round}) VALUES ({at}, {round})")).await;
        query(&connection, &format!("INSERT INTO d.c (ts, a0, c1) VALUES ({}, NULL, {round})", at + 1)).await;
    }
    let messages = all(&consumer).await;
    let blocks: Vec<_> = messages.iter().flat_map(Message::blocks).collect();
    let mut found = Vec::new();
    for block in blocks {
        let names: Vec<_> = block.columns().iter().map(|c| c.name.as_str()).collect();
        for row in block.rows() {
            let cells = row.values().skip(1).map(|v| v.to_string());
            found.push(names.iter().skip(1).zip(cells).map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>());
        }
    }
    let wanted = (0..ROUNDS).flat_map(|round| {
        [vec![format!("a{round}={round}")], vec![format!("c1={round}"), "a0=NULL".to_owned()]]
    });
    assert_eq!(found, wanted.collect::<Vec<_>>());
    consumer.close().await.expect("close");
}
