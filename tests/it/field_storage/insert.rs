//! Edges of INSERT.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use client::{Code, Connection, Value};
use model::{Precision, Zone, parse_timestamp};

use super::{PASSAGES, Pair, affected, column, pairs, refused};
use crate::support::{Csv, Server, connect, data_file, number, query};

/// C136: `NOW` is one instant for the whole statement, in every table and vgroup of it. Two rows with it are one row, and
/// the count that comes back says so. A third of the case's statements.
#[tokio::test(flavor = "multi_thread")]
async fn c136_now_is_one_instant_a_statement() {
    const STATEMENTS: i64 = 33;
    const TABLES: i64 = 8; // in both vgroups
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    query(&connection, "CREATE TABLE d.log1 (ts TIMESTAMP, s VARCHAR(8), v INT)").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    let mut last = 0;
    for n in 0..STATEMENTS {
        query(&connection, "DELETE FROM d.log1").await;
        assert_eq!(affected(&connection, "INSERT INTO d.log1 VALUES (NOW,'a',1) (NOW,'b',0)").await, 1);
        let rows = query(&connection, "SELECT CAST(ts AS BIGINT), s, v FROM d.log1").await;
        let rows: Vec<(i64, String, i64)> =
            rows.iter().map(|r| (r.get(0).unwrap(), r.get(1).unwrap(), r.get(2).unwrap())).collect();
        let [(instant, s, v)] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((s.as_str(), *v), ("b", 0), "the later one stands");
        assert!(*instant >= last, "time goes on: {instant} after {last}");
        last = *instant;

        query(&connection, "DELETE FROM d.log1").await;
        let both = "INSERT INTO d.log1 VALUES (NOW,'a',1) (NOW+1a,'b',0)";
        assert_eq!(affected(&connection, both).await, 2);
        let instants: Vec<i64> = column(&connection, "SELECT CAST(ts AS BIGINT) FROM d.log1").await;
        assert_eq!(instants, [instants[0], instants[0] + 1]);

        let mut sql = "INSERT INTO".to_owned();
        for table in 0..TABLES {
            write!(sql, " d.c{table} USING d.s TAGS ({table}) VALUES (NOW, {n})").unwrap();
        }
        assert_eq!(affected(&connection, &sql).await, TABLES as u64);
        let of_this = format!("SELECT DISTINCT CAST(ts AS BIGINT) FROM d.s WHERE v = {n}");
        assert_eq!(column::<i64>(&connection, &of_this).await.len(), 1, "one instant in all tables");
    }
    // Statements may come within one millisecond, then the later one stands.
    let rows = number(&connection, "SELECT COUNT(*) FROM d.s").await;
    let instants = column::<i64>(&connection, "SELECT DISTINCT CAST(ts AS BIGINT) FROM d.s").await.len();
    assert_eq!(rows, TABLES * instants as i64);
}

/// A file of the machine's instants and numbers, for `tidemark import`.
fn write_csv(path: &Path, rows: &[(&str, f64)]) {
    let mut text = "ts,machine,v\n".to_owned();
    for (ts, v) in rows {
        writeln!(text, "{ts},m,{v}").unwrap();
    }
    std::fs::write(path, text).expect("a file");
}

/// C137: a second file repeats five hundred instants of the first with other values. The instants that the files
/// themselves repeat, where the machine's clock was set, count once too.
#[tokio::test(flavor = "multi_thread")]
async fn c137_the_later_import_wins() {
    const REPEATED: usize = 500;
    let Some(path) = data_file("machine_temperature.csv") else { return };
    let csv = Csv::read(&path);
    let (ts, value) = (csv.column("timestamp"), csv.column("value"));
    let rows: Vec<(&str, f64)> =
        csv.rows.iter().map(|row| (row[ts].as_str(), row[value].parse().expect("a number"))).collect();
    let (first, rest) = rows.split_at(rows.len() / 2);
    let repeated = first[first.len() - REPEATED..].iter().map(|(ts, v)| (*ts, v + 1_000.0));
    let second: Vec<(&str, f64)> = repeated.chain(rest.iter().copied()).collect();
    let instant = |ts: &str| parse_timestamp(ts, Precision::Ms, Zone::UTC).expect("a time");
    let mut expected = BTreeMap::new();
    for (ts, v) in first.iter().chain(&second) {
        expected.insert(instant(ts), *v);
    }
    assert!(expected.len() < rows.len(), "the file repeats instants of its own");

    let mut server = Server::start();
    let mut connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d KEEP 36500").await;
    for (n, rows) in [first, &second].into_iter().enumerate() {
        let file = server.scratch().join(format!("{n}.csv"));
        write_csv(&file, rows);
        let file = file.to_str().expect("UTF-8");
        let output =
            server.run("import", &[file, "--into", "d.s", "--tags", "machine", "--name", "c_{machine}"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        if n == 0 {
            query(&connection, "FLUSH DATABASE d").await;
        }
    }
    for passage in PASSAGES {
        connection = passage.take(&mut server, &connection, "d").await;
        for table in ["d.c_m", "d.s"] {
            let count = number(&connection, &format!("SELECT COUNT(*) FROM {table}")).await;
            assert_eq!(count, expected.len() as i64, "{table} {passage:?}");
            let counted = number(&connection, &format!("SELECT COUNT(v) FROM {table} WHERE v > 900")).await;
            let replaced = expected.values().filter(|v| **v > 900.0).count();
            assert_eq!(counted, replaced as i64, "{table} {passage:?}");
            for order in ["", " ORDER BY ts"] {
                let rows =
                    query(&connection, &format!("SELECT CAST(ts AS BIGINT), v FROM {table}{order}")).await;
                let found: BTreeMap<i64, f64> =
                    rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect();
                assert_eq!(rows.len(), expected.len(), "{table}{order} {passage:?}: each once");
                assert!(found == expected, "{table}{order} {passage:?}: other values than in the files");
            }
        }
    }
}

async fn two_databases() -> (Server, Connection) {
    let server = Server::start();
    let connection = connect(&server).await;
    for (database, keep) in [("old", "36500"), ("new", "3650")] {
        query(&connection, &format!("CREATE DATABASE {database} KEEP {keep}")).await;
        query(&connection, &format!("CREATE TABLE {database}.m1 (ts TIMESTAMP, v INT)")).await;
    }
    (server, connection)
}

/// C140: an instant is never NULL. 0 and what is before it are instants: KEEP decides, and says what it accepts.
#[tokio::test(flavor = "multi_thread")]
async fn c140_null_is_no_instant_and_zero_is_one() {
    let (_server, connection) = two_databases().await;
    for (sql, code) in [
        ("INSERT INTO old.m1 VALUES (NULL, 1)", Code::InsertSyntax),
        ("INSERT INTO old.m1 VALUES ('null', 1)", Code::InsertSyntax),
        ("INSERT INTO old.m1 VALUES ('', 1)", Code::InsertSyntax),
        ("INSERT INTO old.m1 (v) VALUES (1)", Code::InvalidOperation),
        ("INSERT INTO old.m1 (v, ts) VALUES (1, NULL)", Code::InsertSyntax),
    ] {
        let error = refused(&connection, sql).await;
        assert_eq!(error.code(), code, "{sql}: {error}");
    }

    // The same by the SDK's columns.
    let writer = connection.writer("old", "m1").await.expect("a writer");
    let error = writer.batch_of(&["v"]).map(drop).expect_err("no instant");
    assert_eq!(error.code(), Code::FirstColumn, "{error}");
    let mut batch = writer.batch().expect("a batch");
    let table = batch.table("m1").expect("a table");
    let pushed = batch.push(table, &[Value::Null, Value::Int(1)]);
    let error = match pushed {
        Err(error) => error,
        Ok(()) => writer.write(batch).await.expect_err("no instant"),
    };
    assert!(error.to_string().contains("ts") || error.code() == Code::InvalidTimestamp, "{error}");
    assert_eq!(
        pairs(&connection, "SELECT CAST(ts AS BIGINT), v FROM old.m1").await,
        [],
        "nothing is written"
    );

    for (n, instant) in [0, -1, -86_400_000].into_iter().enumerate() {
        query(&connection, &format!("INSERT INTO old.m1 VALUES ({instant}, {n})")).await;
        let error = refused(&connection, &format!("INSERT INTO new.m1 VALUES ({instant}, {n})")).await;
        assert_eq!(error.code(), Code::TimestampOutOfRange, "{error}");
        assert!(error.to_string().contains("accepted now: "), "{error}");
    }
    for extreme in [i64::MIN, i64::MAX] {
        let error = refused(&connection, &format!("INSERT INTO old.m1 VALUES ({extreme}, 1)")).await;
        assert_eq!(error.code(), Code::TimestampOutOfRange, "{error}");
        assert!(error.to_string().contains("accepted now: "), "{error}");
    }
    let mut batch = writer.batch().expect("a batch");
    let table = batch.table("m1").expect("a table");
    batch.push(table, &[Value::Timestamp(-2), Value::Int(3)]).expect("a row");
    writer.write(batch).await.expect("sent");
    assert_eq!(writer.flush().await.expect("written"), 1);
    let expected: [Pair; 4] = [(-86_400_000, Some(2)), (-2, Some(3)), (-1, Some(1)), (0, Some(0))];
    for flushed in [false, true] {
        if flushed {
            query(&connection, "FLUSH DATABASE old").await;
        }
        assert_eq!(
            pairs(&connection, "SELECT CAST(ts AS BIGINT), v FROM old.m1 ORDER BY ts").await,
            expected
        );
        let before = "SELECT CAST(ts AS BIGINT), v FROM old.m1 WHERE ts < 0 ORDER BY ts";
        assert_eq!(pairs(&connection, before).await, expected[..3]);
    }
    assert_eq!(number(&connection, "SELECT COUNT(*) FROM new.m1").await, 0);
}

/// C142: tags are given at the creation; who gives others later adds rows, no more. ALTER TABLE changes them.
#[tokio::test(flavor = "multi_thread")]
async fn c142_tags_are_those_of_the_creation() {
    let mut server = Server::start();
    let mut connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    let tags = "SELECT DISTINCT n FROM d.s";
    query(&connection, "INSERT INTO d.a USING d.s TAGS (1) VALUES (1700000000000, 1)").await;
    let again = "INSERT INTO d.a USING d.s TAGS (2) VALUES (1700000000001, 2) (1700000000002, 3)";
    assert_eq!(affected(&connection, again).await, 2);
    let named = "INSERT INTO d.s (tbname, n, ts, v) VALUES ('a', 3, 1700000000003, 4)";
    assert_eq!(affected(&connection, named).await, 1);
    let writer = connection.writer("d", "s").await.expect("a writer");
    let mut batch = writer.batch().expect("a batch");
    let child = batch.child("a", &[Value::Int(4)]).expect("a child");
    batch.push(child, &[Value::Timestamp(1_700_000_000_004), Value::Int(5)]).expect("a row");
    writer.write(batch).await.expect("sent");
    assert_eq!(writer.flush().await.expect("written"), 1);
    for passage in PASSAGES {
        connection = passage.take(&mut server, &connection, "d").await;
        assert_eq!(column::<i64>(&connection, tags).await, [1], "{passage:?}");
        assert_eq!(column::<i64>(&connection, "SELECT v FROM d.a ORDER BY ts").await, [1, 2, 3, 4, 5]);
    }
    let error = refused(&connection, "INSERT INTO d.a USING d.s TAGS ('x') VALUES (1700000000009, 9)").await;
    assert_eq!(error.code(), Code::InsertSyntax, "ignored, and yet checked: {error}");
    query(&connection, "ALTER TABLE d.a SET TAG n = 9").await;
    for passage in PASSAGES {
        connection = passage.take(&mut server, &connection, "d").await;
        assert_eq!(column::<i64>(&connection, tags).await, [9], "{passage:?}");
    }
    assert_eq!(number(&connection, "SELECT COUNT(*) FROM d.a").await, 5);
}
