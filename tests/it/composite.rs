//! Composite keys over the wire: as captured, and through a server that is killed.

use client::{Code, Connection, TimeUnit, Value};
use serde_json::Value as Json;

use crate::support::{Server, connect, consumer, query, read_to_the_end, sql_refusal};

const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/sql.jsonl");

fn cell(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Int(number) | Value::Timestamp(number) => number.into(),
        other => other.to_string().into(),
    }
}

/// What the server says to a statement, in the form of a captured line.
async fn answer(connection: &Connection, sql: &str) -> Result<(Json, u64), String> {
    let code = |error: client::Error| format!("0x{:04X}", error.code().number());
    let mut result = connection.sql(sql).await.map_err(code)?;
    let mut rows = Vec::new();
    while let Some(batch) = result.next_batch().await.map_err(code)? {
        for row in 0..batch.num_rows() {
            rows.push(Json::from_iter(batch.columns().iter().map(|c| cell(client::value_at(c, row)))));
        }
    }
    Ok((rows.into(), result.affected_rows()))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_as_captured() {
    let server = Server::start();
    let connection = connect(&server).await;
    let text = std::fs::read_to_string(ORACLE).expect("the captured answers");
    let (mut compared, mut not_supported) = (0, 0);
    for line in text.lines() {
        let line: Json = serde_json::from_str(line).expect("a JSON line");
        if line["area"] != "composite" {
            continue;
        }
        for statement in line["setup"].as_array().expect("a setup") {
            query(&connection, statement.as_str().expect("a statement")).await;
        }
        let sql = line["sql"].as_str().expect("a statement");
        match answer(&connection, sql).await {
            // Windows other than INTERVAL, INTERP and functions of several rows: docs/sql.md lists them.
            Err(code) if code == "0x0100" => {
                not_supported += 1;
                continue;
            }
            Err(code) => assert_eq!(line["error"]["code"], *code, "{sql}"),
            Ok((_, affected)) if line.get("affected").is_some() => {
                assert_eq!(line["affected"], affected, "{sql}")
            }
            Ok((rows, _)) => assert_eq!(line["rows"], rows, "{sql}"),
        }
        compared += 1;
    }
    assert_eq!((compared, not_supported), (12, 5));
}

/// `ts` in seconds, `k`, `a`, `b` of the child `c` in the order that they come.
async fn rows(connection: &Connection) -> Vec<(i64, String, Option<i32>, Option<i32>)> {
    let rows =
        query(connection, "SELECT (CAST(ts AS BIGINT) - 1700000000000) / 1000, k, a, b FROM d.c").await;
    let row = |row: client::Row<'_>| {
        let seconds: f64 = row.get(0).expect("ts");
        (seconds as i64, row.get(1).expect("k"), row.get(2).expect("a"), row.get(3).expect("b"))
    };
    rows.iter().map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_composite_key_survives_a_kill_and_is_told_everywhere() {
    let mut server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d KEEP 36500 VGROUPS 2").await;
    let columns = "ts TIMESTAMP, k VARCHAR(8) PRIMARY KEY, a INT, b INT";
    query(&connection, &format!("CREATE STABLE d.s ({columns}) TAGS (g INT)")).await;
    query(&connection, "CREATE TABLE d.c USING d.s TAGS (1)").await;
    query(&connection, "CREATE TOPIC t AS SELECT k FROM d.s").await;
    let write =
        "INSERT INTO d.c VALUES (1700000001000,'y',1,1) (1700000000000,'b',2,2) (1700000000000,'a',3,3)";
    query(&connection, write).await;
    query(&connection, "FLUSH DATABASE d").await;
    // The columnar writer, rows in no order, over what is in a file.
    let writer = connection.writer("d", "s").await.expect("a writer");
    let mut batch = writer.batch().expect("a batch");
    let table = batch.table("c").expect("a table");
    for (k, a) in [("c", 6), ("a", 4), ("c", 5)] {
        let row = [Value::Timestamp(1_700_000_000_000), Value::Text(k.into()), Value::Int(a), Value::Null];
        batch.push(table, &row).expect("a row");
    }
    writer.write(batch).await.expect("written");
    writer.flush().await.expect("flushed");
    // A column that is left out keeps its value.
    query(&connection, "INSERT INTO d.c (ts,k,b) VALUES (1700000000000,'b',9)").await;
    let row = |seconds, k: &str, a, b| (seconds, k.to_owned(), a, b);
    let expected = [
        row(0, "a", Some(4), None),
        row(0, "b", Some(2), Some(9)),
        row(0, "c", Some(5), None),
        row(1, "y", Some(1), Some(1)),
    ];
    assert_eq!(rows(&connection).await, expected);
    server.kill_and_restart_on_the_same_port();
    let connection = connect(&server).await;
    assert_eq!(rows(&connection).await, expected);

    let consumer = consumer(&connection, "g", &[("auto.offset.reset", "earliest")]);
    consumer.subscribe(["t"]).await.expect("subscribe");
    let messages = read_to_the_end(&consumer).await.expect("poll");
    let keys = messages
        .iter()
        .flat_map(|m| m.rows().map(|row| row.get::<String>(0).expect("k")).collect::<Vec<_>>());
    assert_eq!(keys.collect::<Vec<_>>(), ["a", "b", "y", "a", "c", "b"], "as written, each write in order");
    consumer.close().await.expect("close");

    let last = query(
        &connection,
        "SELECT FIRST(a), LAST(b), LAST_ROW(k), FIRST(b) FROM d.s WHERE ts = 1700000000000",
    )
    .await;
    let last = last.iter().next().expect("a row");
    let picked: (i32, i32, String, i32) =
        (last.get(0).unwrap(), last.get(1).unwrap(), last.get(2).unwrap(), last.get(3).unwrap());
    assert_eq!(picked, (4, 9, "c".into(), 9), "ties are decided by the key");
    for (order, keys) in [
        ("ts DESC", "ycba"),
        ("ts", "abcy"),
        ("ts, k DESC", "cbay"),
        ("ts DESC, a", "ybac"),
        ("ts, a DESC", "caby"),
    ] {
        for table in ["s", "c"] {
            let found = query(&connection, &format!("SELECT k FROM d.{table} ORDER BY {order}")).await;
            let found: String = found.iter().map(|row| row.get::<String>(0).expect("k")).collect();
            assert_eq!(found, keys, "{table} by {order}");
        }
    }

    let described = query(&connection, "DESCRIBE d.s").await;
    let notes: Vec<String> = described.iter().map(|row| row.by_name("note").expect("note")).collect();
    assert_eq!(notes, ["", "COMPOSITE KEY", "", "", "TAG"]);
    let shown = query(&connection, "SHOW CREATE STABLE d.s").await;
    let shown: String = shown.iter().next().expect("a row").get(1).expect("text");
    query(&connection, "CREATE DATABASE e").await;
    query(&connection, &shown.replace("CREATE STABLE ", "CREATE STABLE e.")).await;
    let again = query(&connection, "SHOW CREATE STABLE e.s").await;
    assert_eq!(again.iter().next().expect("a row").get::<String>(1).expect("text"), shown);

    for (sql, code) in [
        ("ALTER STABLE d.s DROP COLUMN k", Code::KeyChange),
        ("ALTER STABLE d.s MODIFY COLUMN k VARCHAR(20)", Code::KeyChange),
        ("ALTER STABLE d.s ADD COLUMN l INT PRIMARY KEY", Code::KeyChange),
        ("INSERT INTO d.c (ts,a) VALUES (1700000000000,1)", Code::InvalidOperation),
        ("INSERT INTO d.c VALUES (1700000000000,NULL,1,1)", Code::KeyNull),
    ] {
        assert_eq!(sql_refusal(&connection, sql).await, Some(code), "{sql}");
    }
    query(&connection, "USE d").await;
    let line = connection.write_lines("s,g=1 a=1i 1700000000000", TimeUnit::Millisecond).await;
    assert_eq!(line.expect_err("lines have no key").code(), Code::LineKey);
    query(&connection, "DELETE FROM d.s WHERE ts <= 1700000000000").await;
    assert_eq!(rows(&connection).await, [row(1, "y", Some(1), Some(1))]);
}
