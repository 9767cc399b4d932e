//! Limits, and what stands just before and just behind them.

use client::{Code, Connection, FromValue, TimeUnit};
use model::limits::{COLUMNS_MAX, ROW_BYTES_MAX};

use super::{PASSAGES, Passage, column, consumed, refused};
use crate::support::{Server, connect, number, query};

/// Names, types and lengths, as DESCRIBE has them.
async fn described(connection: &Connection, table: &str) -> Vec<(String, String, i64)> {
    let rows = query(connection, &format!("DESCRIBE d.{table}")).await;
    rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap())).collect()
}

/// Declared length of the last column.
async fn length(connection: &Connection, table: &str) -> i64 {
    described(connection, table).await.last().expect("a column").2
}

/// C155: the length that is asked for is the one that DESCRIBE shows, or it is refused with the limit. None is taken
/// modulo 65,536.
#[tokio::test(flavor = "multi_thread")]
async fn c155_no_length_is_taken_modulo() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    // Behind each limit, and what becomes small, or the limit itself, in 16 and 32 bits.
    let beyond: [u64; 8] =
        [65_518, 65_535, 65_536, 65_636, 131_172, 4_294_967_296, 4_294_967_396, 18_446_744_073_709_551_615];
    for (name, place, max) in [
        ("VARCHAR", "column", 65_517_u64),
        ("VARBINARY", "column", 65_517),
        ("NCHAR", "column", 16_379),
        ("VARCHAR", "tag", 16_382),
        ("VARBINARY", "tag", 16_382),
        ("NCHAR", "tag", 4_095),
    ] {
        let (create, add, modify) = match place {
            "column" => ("CREATE TABLE d.x (ts TIMESTAMP, c @)", "ADD COLUMN c @", "MODIFY COLUMN c @"),
            _ => ("CREATE STABLE d.x (ts TIMESTAMP, v INT) TAGS (c @)", "ADD TAG c @", "MODIFY TAG c @"),
        };
        // ALTER TABLE takes super tables and normal ones.
        let bare = match place {
            "column" => "CREATE TABLE d.x (ts TIMESTAMP, v BOOL)",
            _ => "CREATE STABLE d.x (ts TIMESTAMP, v INT) TAGS (g BOOL)",
        };
        let with = |text: &str, length: &str| text.replace('@', &format!("{name}({length})"));
        for good in [1, max - 1, max] {
            query(&connection, &with(create, &good.to_string())).await;
            assert_eq!(length(&connection, "x").await, good as i64, "{name} {place}");
            query(&connection, "DROP TABLE d.x").await;
        }
        let refusals =
            beyond.iter().copied().chain([max + 1, 0]).map(|n| (n.to_string(), Code::ColumnLength));
        for (bad, code) in refusals.chain([("-1".to_owned(), Code::Syntax)]) {
            let check = async |sql: String| {
                let error = refused(&connection, &sql).await;
                assert_eq!(error.code(), code, "{sql}: {error}");
                if code == Code::ColumnLength {
                    assert!(
                        error.to_string().contains(&format!("{bad} is not within 1..{max}")),
                        "{sql}: {error}"
                    );
                }
            };
            check(with(create, &bad)).await;
            query(&connection, bare).await;
            check(with(&format!("ALTER TABLE d.x {add}"), &bad)).await;
            query(&connection, &format!("ALTER TABLE d.x {}", with(add, "8"))).await;
            check(with(&format!("ALTER TABLE d.x {modify}"), &bad)).await;
            assert_eq!(length(&connection, "x").await, 8, "{name} {place}({bad})");
            query(&connection, "DROP TABLE d.x").await;
        }
    }
}

/// C155: the longest values there are go through memory, files, a restart and a topic whole; a byte more is refused.
#[tokio::test(flavor = "multi_thread")]
async fn c155_the_longest_values_stay_whole() {
    let mut server = Server::start();
    let mut connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    let columns =
        [("a", "VARCHAR(65517)", "x".repeat(65_517), "x"), ("b", "NCHAR(16379)", "🙂".repeat(16_379), "é")];
    for (table, data_type, value, more) in &columns {
        query(&connection, &format!("CREATE TABLE d.{table} (ts TIMESTAMP, c {data_type})")).await;
        query(&connection, &format!("CREATE TOPIC t{table} AS SELECT c FROM d.{table}")).await;
        query(&connection, &format!("INSERT INTO d.{table} VALUES (1700000000000, '{value}')")).await;
        let longer = format!("INSERT INTO d.{table} VALUES (1700000000001, '{value}{more}')");
        let error = refused(&connection, &longer).await;
        assert_eq!(error.code(), Code::ValueTooLong, "{table}");
        assert!(error.message().contains('c'), "{table}");
    }
    for passage in PASSAGES {
        connection = passage.take(&mut server, &connection, "d").await;
        for (table, _, value, _) in &columns {
            let found: Vec<String> = column(&connection, &format!("SELECT c FROM d.{table}")).await;
            assert!(found == [value.as_str()], "{table} {passage:?}: cut or changed");
            let messages = consumed(&connection, &format!("t{table}"), &format!("{passage:?}")).await;
            let found: Vec<String> =
                messages.iter().flat_map(client::Message::rows).map(|row| row.get(0).unwrap()).collect();
            assert!(found == [value.as_str()], "{table} {passage:?}: cut or changed in the topic");
        }
    }
}

async fn numbers<T: FromValue>(connection: &Connection, sql: &str) -> Vec<T> {
    query(connection, sql)
        .await
        .iter()
        .flat_map(|row| (0..row.values().count()).map(move |at| row.get(at).expect("a number")))
        .collect()
}

fn assert_close(found: &[f64], expected: &[f64], sql: &str) {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-15 * b.abs();
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(close), "{sql}: {found:?}");
}

/// C157: of the largest numbers there are, means are right and sums are right or an error; in memory and in files, of the
/// whole table, its groups and its windows.
#[tokio::test(flavor = "multi_thread")]
async fn c157_large_numbers_are_summed_up_or_refused() {
    const MAX: f64 = 9_223_372_036_854_775_807.0;
    const UNSIGNED_MAX: f64 = 18_446_744_073_709_551_615.0;
    let mut server = Server::start();
    let mut connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    query(
        &connection,
        "CREATE STABLE d.s (ts TIMESTAMP, a BIGINT, u BIGINT UNSIGNED, m BIGINT) TAGS (g INT)",
    )
    .await;
    query(
        &connection,
        "INSERT INTO d.c1 USING d.s TAGS (1) VALUES \
         (1700000000000, 9223372036854775807, 18446744073709551615, -9223372036854775808) \
         (1700000000001, 9223372036854775807, 18446744073709551615, -1) \
         (1700000000002, 9223372036854775807, NULL, NULL) \
         d.c2 USING d.s TAGS (2) VALUES (1700000000000, 5, 7, 1)",
    )
    .await;
    for passage in [Passage::InMemory, Passage::Flushed, Passage::Restarted] {
        connection = passage.take(&mut server, &connection, "d").await;
        for (sql, expected) in [
            ("SELECT AVG(a), AVG(u), AVG(m) FROM d.c1", vec![MAX, UNSIGNED_MAX, -(MAX / 2.0)]),
            ("SELECT AVG(a), AVG(u) FROM d.s WHERE g = 1 GROUP BY g", vec![MAX, UNSIGNED_MAX]),
            ("SELECT AVG(a), AVG(u) FROM d.c1 INTERVAL(1s)", vec![MAX, UNSIGNED_MAX]),
            ("SELECT AVG(a) FROM d.s PARTITION BY tbname ORDER BY 1", vec![5.0, MAX]),
            ("SELECT SPREAD(a), SPREAD(u), STDDEV(a), STDDEV(u) FROM d.c1", vec![0.0; 4]),
            ("SELECT SPREAD(m), STDDEV(m) FROM d.c1", vec![MAX, MAX / 2.0]),
            ("SELECT SUM(CAST(a AS DOUBLE)) FROM d.c1", vec![MAX * 3.0]),
        ] {
            assert_close(&numbers::<f64>(&connection, sql).await, &expected, sql);
        }
        for sql in [
            "SELECT SUM(a) FROM d.c1",
            "SELECT SUM(u) FROM d.c1",
            "SELECT SUM(m) FROM d.c1",
            "SELECT SUM(a) FROM d.s",
            "SELECT SUM(a) FROM d.s GROUP BY g",
            "SELECT SUM(a) FROM d.s PARTITION BY tbname INTERVAL(1s)",
            "SELECT SUM(a) FROM d.c1 WHERE ts < 1700000000002",
        ] {
            let error = refused(&connection, sql).await;
            assert_eq!(error.code(), Code::FunctionFailed, "{sql}: {error}");
            assert!(error.to_string().contains("does not fit BIGINT"), "{sql}: {error}");
        }
        // To the last unit, also where it passes the range on the way.
        let exact = "SELECT SUM(m), SUM(a) FROM d.c2";
        assert_eq!(numbers::<i64>(&connection, exact).await, [1, 5]);
        let whole = "SELECT SUM(m) FROM d.s";
        assert_eq!(numbers::<i64>(&connection, whole).await, [i64::MIN]);
        let one = "SELECT SUM(u) FROM d.c1 WHERE ts = 1700000000000";
        assert_eq!(numbers::<u64>(&connection, one).await, [u64::MAX]);
    }
}

/// C159: a column that makes the row too long is refused with what it came to, the limit and its name; the table, and
/// the topic on it, are as before. A byte less fits.
#[tokio::test(flavor = "multi_thread")]
async fn c159_a_row_is_filled_to_its_last_byte() {
    let mut server = Server::start();
    let mut connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, a VARCHAR(20000)) TAGS (g INT)").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, a VARCHAR(20000))").await;
    query(&connection, "INSERT INTO d.c USING d.s TAGS (1) VALUES (1700000000000, 'a')").await;
    query(&connection, "INSERT INTO d.n VALUES (1700000000000, 'a')").await;
    for table in ["s", "n"] {
        query(&connection, &format!("CREATE TOPIC t{table} AS SELECT ts, a FROM d.{table}")).await;
        for name in ["b", "w"] {
            query(&connection, &format!("ALTER TABLE d.{table} ADD COLUMN {name} VARCHAR(20000)")).await;
        }
        // Three texts with their lengths, and the instant.
        let room = ROW_BYTES_MAX - 3 * 20_002 - 8;
        let before = described(&connection, table).await;
        let told = async |change: String, bytes: u32, name: &str| {
            let error = refused(&connection, &format!("ALTER TABLE d.{table} {change}")).await;
            assert_eq!(error.code(), Code::RowTooLong, "{change}: {error}");
            let detail = format!("bytes={bytes} bytes_max={ROW_BYTES_MAX} column={name}");
            assert!(error.to_string().contains(&detail), "{table}, {change}: {error}");
        };
        told(format!("ADD COLUMN x VARCHAR({})", room - 1), ROW_BYTES_MAX + 1, "x").await;
        told("ADD COLUMN x VARCHAR(65517)".into(), ROW_BYTES_MAX - room + 65_519, "x").await;
        told(format!("MODIFY COLUMN a VARCHAR({})", 20_000 + room + 1), ROW_BYTES_MAX + 1, "a").await;
        assert_eq!(described(&connection, table).await, before);
        query(&connection, &format!("ALTER TABLE d.{table} ADD COLUMN x VARCHAR({})", room - 2)).await;
        told("ADD COLUMN y BOOL".into(), ROW_BYTES_MAX + 1, "y").await;
    }
    let error = refused(&connection, "CREATE TABLE d.m (ts TIMESTAMP, a VARCHAR(65517), b INT, c INT)").await;
    assert!(error.to_string().contains("bytes=65535 bytes_max=65531 column=c"), "{error}");
    let error =
        refused(&connection, "CREATE STABLE d.m (ts TIMESTAMP, v INT) TAGS (a VARCHAR(16382), b BOOL)").await;
    assert!(error.to_string().contains("bytes=16385 bytes_max=16384 tag=b"), "{error}");
    // A line that brings a column is told the same, and writes nothing.
    query(&connection, "USE d").await;
    query(&connection, "CREATE STABLE line (_ts TIMESTAMP, a VARCHAR(65517)) TAGS (g NCHAR(8))").await;
    let lines = "line,g=x a=\"fits\" 1700000000000\nline,g=x b=\"does not\" 1700000000001";
    let error = connection.write_lines(lines, TimeUnit::Millisecond).await.expect_err("no room");
    assert_eq!(error.code(), Code::RowTooLong, "{error}");
    assert!(error.to_string().contains("column=b"), "{error}");
    assert_eq!(number(&connection, "SELECT COUNT(*) FROM d.line").await, 0);

    let schemas = [described(&connection, "s").await, described(&connection, "n").await];
    for passage in [Passage::Flushed, Passage::Killed] {
        connection = passage.take(&mut server, &connection, "d").await;
        assert_eq!(
            [described(&connection, "s").await, described(&connection, "n").await],
            schemas,
            "{passage:?}"
        );
    }
    // A row of the longest values, as long as rows get.
    let values: Vec<String> = [20_000, 20_000, 20_000].map(|n| format!("'{}'", "v".repeat(n))).into();
    for (into, table) in [("c", "s"), ("n", "n")] {
        query(
            &connection,
            &format!("INSERT INTO d.{into} (ts, a, b, w) VALUES (1700000000001, {})", values.join(",")),
        )
        .await;
        let lengths =
            format!("SELECT LENGTH(a), LENGTH(b), LENGTH(w) FROM d.{table} ORDER BY ts DESC LIMIT 1");
        assert_eq!(numbers::<i64>(&connection, &lengths).await, [20_000; 3]);
        assert_eq!(
            consumed(&connection, &format!("t{table}"), "g")
                .await
                .iter()
                .flat_map(client::Message::rows)
                .count(),
            2
        );
    }
}

/// C159: the 4,096th column is the last. Column after column is scaled down to those around the limit.
#[tokio::test(flavor = "multi_thread")]
async fn c159_a_table_is_filled_to_its_last_column() {
    let mut server = Server::start();
    let mut connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1").await;
    let columns: Vec<String> = (1..COLUMNS_MAX - 1).map(|n| format!("c{n} BOOL")).collect();
    let columns = columns.join(",");
    let more = format!("{columns},x BOOL,y BOOL,z BOOL");
    let error = refused(&connection, &format!("CREATE TABLE d.m (ts TIMESTAMP,{more})")).await;
    let too_many = format!("columns={} columns_max={COLUMNS_MAX} column=", COLUMNS_MAX + 2);
    assert!(error.to_string().contains(&format!("{too_many}y")), "{error}");
    query(&connection, &format!("CREATE STABLE d.s (ts TIMESTAMP,{columns}) TAGS (g INT)")).await;
    query(&connection, &format!("CREATE TABLE d.n (ts TIMESTAMP,{columns})")).await;
    query(&connection, "INSERT INTO d.c USING d.s TAGS (1) (ts, c1) VALUES (1700000000000, true)").await;
    query(&connection, "INSERT INTO d.n (ts, c1) VALUES (1700000000000, true)").await;
    for table in ["s", "n"] {
        query(&connection, &format!("CREATE TOPIC t{table} AS SELECT ts, c1 FROM d.{table}")).await;
        query(&connection, &format!("ALTER TABLE d.{table} ADD COLUMN x BOOL")).await;
        let error = refused(&connection, &format!("ALTER TABLE d.{table} ADD COLUMN y BOOL")).await;
        assert_eq!(error.code(), Code::TooManyColumns, "{error}");
        let detail = format!("columns={} columns_max={COLUMNS_MAX} column=y", COLUMNS_MAX + 1);
        assert!(error.to_string().contains(&detail), "{error}");
    }
    for passage in [Passage::Flushed, Passage::Killed] {
        connection = passage.take(&mut server, &connection, "d").await;
        for (table, of_tags) in [("s", 1), ("n", 0)] {
            let columns = described(&connection, table).await;
            assert_eq!(columns.len(), COLUMNS_MAX + of_tags, "{passage:?}");
            assert_eq!(columns[COLUMNS_MAX - 1].0, "x", "{passage:?}");
            let rows =
                query(&connection, &format!("SELECT * FROM d.{}", if table == "s" { "c" } else { "n" }))
                    .await;
            let row = rows.iter().next().expect("a row");
            assert_eq!(row.values().count(), COLUMNS_MAX, "{passage:?}");
            assert_eq!(row.get::<Option<bool>>(1).expect("c1"), Some(true), "{passage:?}");
            assert_eq!(row.get::<Option<bool>>(COLUMNS_MAX - 1).expect("x"), None, "{passage:?}");
        }
    }
    for table in ["s", "n"] {
        let messages = consumed(&connection, &format!("t{table}"), "g").await;
        assert_eq!(messages.iter().flat_map(client::Message::rows).count(), 1);
    }
}
