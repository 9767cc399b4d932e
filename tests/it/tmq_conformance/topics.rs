//! Topics as statements: what may be made of what, limits, and what stands in the way of dropping.

use super::{code, run, start, subscribed, subscriptions, write};
use crate::support::{connect, query, refusal, wait_for};

async fn topics(connection: &client::Connection) -> Vec<String> {
    let rows = query(connection, "SHOW TOPICS").await;
    rows.iter().map(|row| row.get(0).expect("a name")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_01_nine_topics_survive_restarts() {
    let (mut server, connection) = start("VGROUPS 2").await;
    let selected = ["*", "ts, c1", "ts, abs(c1), length(c2)"];
    let mut made = Vec::new();
    for table in ["st", "c", "n"] {
        for (at, columns) in selected.iter().enumerate() {
            made.push(format!("{table}_{at}"));
            query(&connection, &format!("CREATE TOPIC {table}_{at} AS SELECT {columns} FROM d.{table}"))
                .await;
        }
    }
    made.sort();
    assert!(server.terminate().success());
    server.start_again();
    let connection = connect(&server).await;
    assert_eq!(topics(&connection).await, made);
    query(&connection, &format!("DROP TOPIC {}", made.remove(4))).await;
    server.kill();
    server.start_again();
    assert_eq!(topics(&connect(&server).await).await, made);
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_02_conditions_on_tags_and_names_make_stable_topics() {
    let (_server, connection) = start("VGROUPS 1").await;
    for condition in ["t1>0", "t1>0 AND t1<0", "1>0", "abs(t1)>0", "tbname IS NOT NULL", "tbname>'a'"] {
        let create = format!("CREATE TOPIC t AS STABLE d.st WHERE {condition}");
        assert_eq!(code(&connection, &create).await, 0, "{condition}");
        query(&connection, "DROP TOPIC t").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_03_other_conditions_are_refused() {
    let (_server, connection) = start("VGROUPS 1").await;
    for (condition, refused) in
        [("last(t1)>0", 0x2608), ("sum(t1)>0", 0x2608), ("nope>0", 0x2600), ("c1>0", 0x2600)]
    {
        let create = format!("CREATE TOPIC t AS STABLE d.st WHERE {condition}");
        assert_eq!(code(&connection, &create).await, refused, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_04_aggregates_make_no_topics() {
    let (_server, connection) = start("VGROUPS 1").await;
    for call in [
        "avg(c1)",
        "count(*)",
        "spread(c1)",
        "stddev(c1)",
        "sum(c1)",
        "hyperloglog(c1)",
        "apercentile(c1, 50)",
        "percentile(c1, 50)",
        "histogram(c1, 'user_input', '[1,3]', 0)",
        "leastsquares(c1, 1, 1)",
    ] {
        assert_ne!(
            code(&connection, &format!("CREATE TOPIC t AS SELECT {call} FROM d.c")).await,
            0,
            "{call}"
        );
    }
    assert_eq!(code(&connection, "CREATE TOPIC t AS SELECT sum(c1) FROM d.st").await, 0x2639);
    assert!(topics(&connection).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_05_what_is_missing_is_named_by_its_code() {
    let (_server, connection) = start("VGROUPS 1").await;
    for meta in ["", "WITH META "] {
        for (source, missing) in
            [("DATABASE nix", 0x0388), ("STABLE d.nix", 0x0362), ("STABLE nix.st", 0x0388)]
        {
            let create = format!("CREATE TOPIC t {meta}AS {source}");
            assert_eq!(code(&connection, &create).await, missing, "{create}");
        }
    }
    assert_eq!(code(&connection, "CREATE TOPIC t AS SELECT * FROM d.nix").await, 0x2603);
    assert_eq!(code(&connection, "CREATE TOPIC t AS SELECT * FROM nix.n").await, 0x0388);
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_06_there_are_so_many_topics_and_no_more() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "ALTER ALL DNODES 'tmqMaxTopicNum' '3'").await;
    for n in 0..3 {
        query(&connection, &format!("CREATE TOPIC t{n} AS DATABASE d")).await;
    }
    assert_eq!(code(&connection, "CREATE TOPIC t3 AS DATABASE d").await, 0x4004);
    run(&connection, &["DROP TOPIC t1", "CREATE TOPIC t3 AS DATABASE d"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_38_a_topic_with_a_consumer_stays() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    assert_eq!(code(&connection, "DROP TOPIC t").await, 0x03EB);
    consumer.close().await.expect("close");
    assert_eq!(code(&connection, "DROP TOPIC t").await, 0, "at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_39_a_topic_goes_while_its_consumers_close() {
    let (_server, connection) = start("VGROUPS 4").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let mut closing = Vec::new();
    for _ in 0..3 {
        let consumer = subscribed(&connection, "g", &["t"], &[]).await;
        closing.push(tokio::spawn(async move { consumer.close().await.expect("close") }));
    }
    wait_for("the topic is dropped", || async {
        let ended = code(&connection, "DROP TOPIC t").await;
        assert!([0, 0x03EB, 0x03EF].contains(&ended), "{ended:#x}");
        ended == 0
    })
    .await;
    assert!(query(&connection, "SHOW SUBSCRIPTIONS").await.is_empty());
    for consumer in closing {
        consumer.await.expect("closed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_40_a_forced_drop_is_of_one_topic() {
    let (_server, connection) = start("VGROUPS 2").await;
    run(
        &connection,
        &["CREATE DATABASE e VGROUPS 2", "CREATE TOPIC t AS DATABASE d", "CREATE TOPIC u AS DATABASE e"],
    )
    .await;
    run(&connection, &["CREATE TABLE e.n (ts TIMESTAMP, v INT)", "INSERT INTO e.n VALUES (now, 1)"]).await;
    write(&connection, 20, 0).await;
    let loses = subscribed(&connection, "g", &["t"], &[("min.poll.rows", "1")]).await;
    let stays = subscribed(&connection, "h", &["u"], &[]).await;
    loses.poll(std::time::Duration::from_secs(10)).await.expect("poll").expect("a message");
    assert_eq!(code(&connection, "DROP TOPIC FORCE t").await, 0);
    assert_eq!(topics(&connection).await, ["u"]);
    let told = refusal_after_messages(&loses).await;
    assert_eq!(told.code().number(), 0x03E6);
    query(&connection, "INSERT INTO e.n VALUES (now + 1s, 2)").await;
    assert_eq!(super::rows(&super::all(&stays).await), 2);
    stays.close().await.expect("close");
    assert_eq!(subscriptions::<Option<String>>(&connection, "h", "consumer_id").await, [None, None]);
    loses.close().await.expect("the one that is gone closes too");
}

/// What a poll is refused with once it has handed out what had come before.
async fn refusal_after_messages(consumer: &client::Consumer) -> client::Error {
    let wait = std::time::Duration::from_secs(2);
    loop {
        match consumer.poll(wait).await {
            Ok(Some(_)) => {}
            Ok(None) => return refusal(consumer, wait).await,
            Err(error) => return error,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_41_a_group_goes_when_its_members_have() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    assert_eq!(code(&connection, "DROP CONSUMER GROUP g ON t").await, 0x03EC);
    consumer.close().await.expect("close");
    assert_eq!(code(&connection, "DROP CONSUMER GROUP g ON t").await, 0);
    for list in ["SHOW CONSUMERS", "SHOW SUBSCRIPTIONS"] {
        assert!(query(&connection, list).await.is_empty(), "{list}");
    }
    assert_eq!(code(&connection, "DROP CONSUMER GROUP g ON t").await, 0x03E8);
    assert_eq!(code(&connection, "DROP CONSUMER GROUP IF EXISTS g ON t").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_42_a_database_with_a_topic_stays() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT * FROM d.n").await;
    assert_eq!(code(&connection, "DROP DATABASE d").await, 0x03ED);
    run(&connection, &["DROP TOPIC t", "DROP DATABASE d"]).await;
}

/// C089: of a log that is deleted as soon as it is flushed, a topic could deliver nothing reliably.
#[tokio::test(flavor = "multi_thread")]
async fn s15_43_no_topic_without_retention_and_no_end_of_retention_with_one() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    assert_eq!(code(&connection, "ALTER DATABASE d WAL_RETENTION_PERIOD 0").await, 0x038C);
    run(&connection, &["DROP TOPIC t", "ALTER DATABASE d WAL_RETENTION_PERIOD 0"]).await;
    assert_eq!(code(&connection, "CREATE TOPIC t AS DATABASE d").await, 0x038C);
    run(&connection, &["ALTER DATABASE d WAL_RETENTION_PERIOD 1", "CREATE TOPIC t AS DATABASE d"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_44_a_query_topic_stands_in_the_way_of_no_alter_of_its_stable() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1, c2, t1, t2 FROM d.st").await;
    for (change, ended) in [
        ("RENAME COLUMN c2 c3", 0x2649),
        ("DROP COLUMN c1", 0),
        ("DROP TAG t1", 0),
        ("MODIFY COLUMN c2 VARCHAR(16)", 0),
        ("MODIFY TAG t2 VARCHAR(16)", 0),
        ("RENAME TAG t2 t3", 0),
    ] {
        assert_eq!(code(&connection, &format!("ALTER STABLE d.st {change}")).await, ended, "{change}");
    }
    // It goes on as it was defined: a dropped column is NULL, a dropped tag is what it was (its value may decide what a
    // topic shows, `s15_49_..`), what was renamed is still that.
    query(&connection, &format!("INSERT INTO d.c (ts, c2) VALUES ({START}, 'x')", START = super::START_MS))
        .await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    let messages = super::all(&consumer).await;
    let names: Vec<_> = messages[0].blocks()[0].columns().iter().map(|c| c.name.clone()).collect();
    assert_eq!(names, ["ts", "c1", "c2", "t1", "t2"]);
    assert_eq!(super::texts(&messages), [format!("{},NULL,x,1,one", super::START_MS)]);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_45_nor_of_its_normal_table() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1, c2 FROM d.n").await;
    for change in ["DROP COLUMN c1", "MODIFY COLUMN c2 VARCHAR(16)", "RENAME COLUMN c2 c3"] {
        assert_eq!(code(&connection, &format!("ALTER TABLE d.n {change}")).await, 0, "{change}");
    }
    query(&connection, &format!("INSERT INTO d.n (ts, c3) VALUES ({}, 'x')", super::START_MS)).await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    assert_eq!(super::texts(&super::all(&consumer).await), [format!("{},NULL,x", super::START_MS)]);
    consumer.close().await.expect("close");
}

/// CREATE INDEX is not there at all (docs/sql.md).
#[tokio::test(flavor = "multi_thread")]
async fn s15_55_compression_changes_under_a_topic() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT * FROM d.st").await;
    assert_eq!(code(&connection, "ALTER STABLE d.st MODIFY COLUMN c1 COMPRESS 'zstd'").await, 0);
    query(&connection, "CREATE TOPIC u AS SELECT * FROM d.n").await;
    assert_eq!(code(&connection, "ALTER TABLE d.n MODIFY COLUMN c1 COMPRESS 'zstd'").await, 0);
}
