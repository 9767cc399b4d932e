//! What messages hold: rows of filters and projections, tables by name, every version of a row, types and precisions.

use std::collections::BTreeMap;

use client::{MessageKind, Precision};

use super::{START_MS, all, column, rows, run, sorted, start, subscribed, texts, write};
use crate::support::query;

#[tokio::test(flavor = "multi_thread")]
async fn s15_09_ten_thousand_rows_come_once_and_in_order() {
    const TABLES: i64 = 40;
    const EACH: i64 = 250;
    let (_server, connection) = start("VGROUPS 4").await;
    query(&connection, "CREATE TOPIC t AS SELECT tbname, ts, c1 FROM d.st").await;
    for half in [0..EACH / 2, EACH / 2..EACH] {
        for n in 0..TABLES {
            let rows: Vec<_> = half.clone().map(|v| format!("({}, {v}, 'x')", START_MS + v)).collect();
            let rows = rows.join(" ");
            query(&connection, &format!("INSERT INTO d.w{n} USING d.st TAGS ({n}, 'w') VALUES {rows}")).await;
        }
    }
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    let messages = all(&consumer).await;
    let mut tables: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (table, v) in column::<String>(&messages, "tbname").into_iter().zip(column(&messages, "c1")) {
        tables.entry(table).or_default().push(v);
    }
    assert_eq!(rows(&messages), 10_000);
    assert_eq!(tables.len(), 40);
    for (table, values) in tables {
        assert_eq!(values, (0..EACH).collect::<Vec<_>>(), "{table}");
    }
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_14_filters_and_functions_give_what_the_query_gives() {
    let (_server, connection) = start("VGROUPS 2").await;
    let select = "SELECT ts, log(c1), ceil(pow(c1, 3)) FROM d.st WHERE c1 % 7 = 0 AND c1 > 0";
    query(&connection, &format!("CREATE TOPIC t AS {select}")).await;
    write(&connection, 60, 0).await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    let wanted = query(&connection, select).await;
    let text = |row: client::Row<'_>| row.values().map(|v| v.to_string()).collect::<Vec<_>>().join(",");
    let wanted: Vec<_> = wanted.iter().map(text).collect();
    assert_eq!(wanted.len(), 8);
    assert_eq!(sorted(texts(&all(&consumer).await)), sorted(wanted));
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_15_tbname_is_a_column() {
    let (_server, connection) = start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC t AS SELECT tbname, ts, c1 FROM d.st").await;
    write(&connection, 10, 0).await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    let messages = all(&consumer).await;
    let named = column::<i64>(&messages, "c1").into_iter().map(|v| format!("w{v}")).collect::<Vec<_>>();
    assert_eq!((rows(&messages), column::<String>(&messages, "tbname")), (10, named));
    assert!(messages.iter().flat_map(|m| m.blocks()).all(|block| block.table().is_none()));
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_56_tables_are_dropped_while_they_are_read() {
    for (drop, left) in [("DROP TABLE d.w0, d.w1, d.w2, d.w3, d.w4", 15), ("DROP STABLE d.other", 20)] {
        let (_server, connection) = start("VGROUPS 2").await;
        query(&connection, "CREATE STABLE d.other (ts TIMESTAMP, v INT) TAGS (g INT)").await;
        query(&connection, "CREATE TOPIC t AS DATABASE d").await;
        let others = usize::from(drop.contains("other")) * 20;
        for n in 0..others {
            let sql = format!("INSERT INTO d.o{n} USING d.other TAGS ({n}) VALUES ({START_MS}, {n})");
            query(&connection, &sql).await;
        }
        write(&connection, 20, 0).await;
        let consumer = subscribed(&connection, "g", &["t"], &[("min.poll.rows", "1")]).await;
        let first = consumer.poll(std::time::Duration::from_secs(10)).await.expect("poll").expect("rows");
        query(&connection, drop).await;
        let rest = all(&consumer).await;
        let seen = first.rows_len() + rows(&rest);
        assert!((left..=20 + others).contains(&seen), "{drop}: {seen}");
        consumer.close().await.expect("close");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_58_a_delete_takes_nothing_back() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.st").await;
    write(&connection, 4, 0).await;
    query(&connection, &format!("DELETE FROM d.st WHERE ts >= {START_MS}")).await;
    write(&connection, 1, 10).await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    let messages = all(&consumer).await;
    assert_eq!(column::<i64>(&messages, "c1"), [0, 1, 2, 3, 10]);
    assert!(messages.iter().all(|message| message.kind() == MessageKind::Data), "the delete is not told");
    assert_eq!(query(&connection, "SELECT * FROM d.st").await.len(), 1);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_59_both_versions_of_a_row_are_delivered() {
    let (_server, connection) = start("VGROUPS 1").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, c1 FROM d.n").await;
    for v in [1, 2] {
        query(&connection, &format!("INSERT INTO d.n VALUES ({START_MS}, {v}, 'x')")).await;
    }
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    assert_eq!(texts(&all(&consumer).await), [format!("{START_MS},1"), format!("{START_MS},2")]);
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_60_a_mixed_statement_is_delivered_whole() {
    let (_server, connection) = start("VGROUPS 2").await;
    query(&connection, "CREATE TOPIC dense AS SELECT tbname, ts, c1, c2 FROM d.st").await;
    query(&connection, "CREATE TOPIC sparse AS SELECT c2 FROM d.st").await;
    query(&connection, "CREATE TABLE d.a USING d.st TAGS (1, 'a')").await;
    let [one, two, three] = [1, 2, 3].map(|n| START_MS + n);
    let insert = format!(
        "INSERT INTO d.a VALUES ({three}, 3, NULL) ({one}, NULL, 'x') \
         d.b USING d.st TAGS (2, 'b') VALUES ({two}, NULL, NULL) \
         d.a (ts, c2) VALUES ({two}, 'y') d.c (ts, c1) VALUES ({one}, 7)"
    );
    query(&connection, &insert).await;
    let dense = subscribed(&connection, "g", &["dense"], &[]).await;
    let wanted = [
        format!("a,{one},NULL,x"),
        format!("a,{two},NULL,y"),
        format!("a,{three},3,NULL"),
        format!("b,{two},NULL,NULL"),
        format!("c,{one},7,NULL"),
    ];
    assert_eq!(sorted(texts(&all(&dense).await)), wanted);
    let sparse = subscribed(&connection, "g", &["sparse"], &[]).await;
    assert_eq!(sorted(texts(&all(&sparse).await)), ["NULL", "NULL", "NULL", "x", "y"]);
    for consumer in [dense, sparse] {
        consumer.close().await.expect("close");
    }
}

/// DECIMAL is not built (docs/sql.md).
#[tokio::test(flavor = "multi_thread")]
async fn s15_66_rare_types_are_delivered_and_can_be_written_again() {
    let (_server, connection) = start("VGROUPS 1").await;
    run(
        &connection,
        &[
            "CREATE STABLE d.rare (ts TIMESTAMP, b VARBINARY(8), g GEOMETRY(64)) TAGS (j JSON)",
            "CREATE STABLE d.rare2 (ts TIMESTAMP, v INT) TAGS (b VARBINARY(8), g GEOMETRY(64))",
            "CREATE TOPIC t WITH META AS DATABASE d",
        ],
    )
    .await;
    let sql =
        r#"INSERT INTO d.r USING d.rare TAGS ('{"k":1}') VALUES (1700000000000, '\xDEADBEEF', 'POINT(1 2)')"#;
    query(&connection, sql).await;
    let sql = r"INSERT INTO d.r2 USING d.rare2 TAGS ('\x00FF', 'POINT(3 4)') VALUES (1700000000000, 1)";
    query(&connection, sql).await;
    let consumer = subscribed(&connection, "g", &["t"], &[]).await;
    let messages = all(&consumer).await;
    let events: String = messages.iter().filter_map(|message| message.json()).collect();
    let rows: Vec<_> = messages
        .iter()
        .flat_map(|message| message.blocks())
        .filter(|block| block.table() == Some("r"))
        .flat_map(|block| block.rows())
        .map(|row| (row.by_name::<Vec<u8>>("b").expect("b"), row.by_name::<Vec<u8>>("g").expect("g")))
        .collect();
    // Little-endian well-known binary of POINT(1 2).
    let point = [&[1_u8, 1, 0, 0, 0][..], &1.0_f64.to_le_bytes(), &2.0_f64.to_le_bytes()].concat();
    assert_eq!(rows, [(vec![0xDE, 0xAD, 0xBE, 0xEF], point)]);
    assert!(events.contains(r#"{"name":"j","type":15,"value":"{\"k\":1}"}"#), "{events}");
    assert!(events.contains(r#"{"name":"b","type":16,"value":"\"\\x00FF\""}"#), "{events}");
    assert!(events.contains(r#""value":"\"\\x0101000000000000000000084000000000000010"#), "{events}");
    consumer.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_77_times_are_in_the_precision_of_their_database() {
    let (_server, connection) = start("VGROUPS 1").await;
    for (name, precision, tick) in [
        ("ms", Precision::Ms, 1_700_000_000_123_i64),
        ("us", Precision::Us, 1_700_000_000_123_456),
        ("ns", Precision::Ns, 1_700_000_000_123_456_789),
    ] {
        run(
            &connection,
            &[
                &format!("CREATE DATABASE d{name} VGROUPS 1 PRECISION '{name}'"),
                &format!("CREATE TABLE d{name}.n (ts TIMESTAMP, b TIMESTAMP)"),
                &format!("CREATE TOPIC t{name} AS SELECT ts, b FROM d{name}.n"),
                &format!("INSERT INTO d{name}.n VALUES ({tick}, {tick})"),
            ],
        )
        .await;
        let consumer = subscribed(&connection, "g", &[&format!("t{name}")], &[]).await;
        let messages = all(&consumer).await;
        assert_eq!(messages[0].precision(), precision);
        assert_eq!(texts(&messages), [format!("{tick},{tick}")]);
        consumer.close().await.expect("close");
    }
}
