//! Wrong input of every kind: a clear error with its code, nothing half done, and a server that goes on.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use client::{Code, ConnectOptions, Connection};

use crate::support::{Server, connect, consumer, query};

async fn start() -> (Server, Connection) {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2 KEEP 30").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT, s VARCHAR(4)) TAGS (n INT)").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT, s VARCHAR(4))").await;
    (server, connection)
}

async fn refused(connection: &Connection, sql: &str) -> client::Error {
    match connection.sql(sql).await {
        Err(error) => error,
        Ok(result) => result.rows().await.err().unwrap_or_else(|| panic!("{sql} should fail")),
    }
}

/// Rows for other tables, of both vgroups, stand around the row that names what is no child of `d.s`.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_names_another_table_takes_its_statement_with_it() {
    const AROUND: usize = 8;
    let (_server, connection) = start().await;
    query(&connection, "CREATE STABLE d.o (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    query(&connection, "CREATE TABLE d.oc USING d.o TAGS (1)").await;
    for (name, code) in [("n", Code::OtherStable), ("oc", Code::OtherStable), ("o", Code::TableExists)] {
        for place in 0..=AROUND {
            let mut names: Vec<String> = (0..AROUND).map(|n| format!("q{n}")).collect();
            names.insert(place, name.to_owned());
            let rows: Vec<String> = names.iter().map(|name| format!("('{name}', now, 1, 1)")).collect();
            let sql = format!("INSERT INTO d.s (tbname, ts, v, n) VALUES {}", rows.join(" "));
            let error = refused(&connection, &sql).await;
            assert_eq!(error.code(), code, "{name} at {place}: {error}");
        }
    }
    let rows = query(&connection, "SELECT COUNT(*) FROM d.s").await;
    assert_eq!(rows.iter().next().and_then(|row| row.get::<i64>(0).ok()), Some(0), "nothing is written");
    assert_eq!(query(&connection, "SHOW d.TABLES").await.len(), 2, "and no child made");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_refused_with_their_codes() {
    let (_server, connection) = start().await;
    let cases = [
        ("SELEC 1", 0x2600),
        ("SELECT", 0x2601),
        ("SELECT * FROM nodb.t", 0x0388),
        ("SELECT * FROM d.zz", 0x2603),
        ("SELECT zz FROM d.n", 0x2602),
        ("SELECT MIN(v), MAX(v), s FROM d.n", 0x260C),
        ("INSERT INTO d.zz VALUES (now, 1, 'a')", 0x2603),
        ("INSERT INTO d.n (ts, zz) VALUES (now, 1)", 0x2602),
        ("INSERT INTO d.n VALUES (now, 'abc', 'a')", 0x0216),
        ("INSERT INTO d.n VALUES (now, 2147483648, 'a')", 0x0216),
        ("INSERT INTO d.n VALUES (now, 1, 'abcde')", 0x2653),
        ("INSERT INTO d.n VALUES ('1970-01-01', 1, 'a')", 0x060B),
        ("INSERT INTO d.n VALUES ('not a time', 1, 'a')", 0x0216),
        ("INSERT INTO d.n VALUES (now, 1)", 0x0216),
        ("CREATE DATABASE d", 0x0381),
        ("CREATE DATABASE e BUFFER 2", 0x2619),
        ("CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)", 0x0360),
        ("CREATE TABLE d.n (ts TIMESTAMP, v INT)", 0x0603),
        ("CREATE TABLE d.x (i INT, ts TIMESTAMP)", 0x2641),
        ("CREATE TABLE d.x USING d.nos TAGS (1)", 0x2603),
        ("CREATE TABLE d.x USING d.s TAGS (1, 2)", 0x260D),
        ("DROP TABLE d.zz", 0x2603),
        ("DROP DATABASE nodb", 0x0388),
        ("USE nodb", 0x0388),
        ("DELETE FROM d.n WHERE v > 5", 0x2655),
        ("CREATE TOPIC t AS SELECT COUNT(*) FROM d.n", 0x2639),
        ("CREATE TOPIC t AS DATABASE nodb", 0x0388),
        ("CREATE TOPIC t AS STABLE d.nos", 0x0362),
        ("DROP TOPIC t", 0x03E1),
        ("SELECT COUNT(*) FROM d.n SESSION(ts, 1s)", 0x0100),
    ];
    for (sql, code) in cases {
        let error = refused(&connection, sql).await;
        assert_eq!(error.code().number(), code, "{sql}: {error}");
        assert!(!error.message().is_empty(), "{sql}");
    }
    let error = refused(&connection, "SELECT v FROM d.n\nWHERE v >>> 1").await;
    assert!(error.to_string().contains("line 2"), "a syntax error tells where: {error}");
    assert_eq!(query(&connection, "SHOW d.TABLES").await.len(), 1, "nothing was made on the way");
}

/// What a new user of the dialect meets: each error says what, where, and what to write instead.
#[tokio::test(flavor = "multi_thread")]
async fn errors_lead_on() {
    let (_server, connection) = start().await;
    query(&connection, "CREATE TABLE d.`Upper` USING d.s TAGS (1)").await;
    query(&connection, "CREATE TABLE d.`Alone` (ts TIMESTAMP, v INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.n").await;
    let at = |column: usize| format!("; at line 1, column {column};");
    let cases: &[(&str, u16, &[&str])] = &[
        ("ALTER ALL DNODES 'foo' '1'", 0x6F09, &["name=foo", "SHOW VARIABLES"]),
        (
            "SELECT COUNT(DISTINCT v) FROM d.n",
            0x2600,
            &["SELECT COUNT(c) FROM (SELECT DISTINCT c FROM ..)", &at(14)],
        ),
        ("GRANT READ ON d TO u", 0x2600, &["write d.*"]),
        ("SELECT FIRST(timestamp) FROM d.n", 0x2600, &["`timestamp`", &at(23)]),
        ("SHOW TABLES", 0x2616, &["USE a database or write SHOW db.TABLES"]),
        ("SHOW STABLES", 0x2616, &["SHOW db.STABLES"]),
        ("DROP CONSUMER GROUP g ON nope", 0x03E8, &["Subcribe not exist: g", "there is no topic nope"]),
        ("DROP CONSUMER GROUP g ON t", 0x03E8, &["Subcribe not exist: g", "topic t has no such group"]),
        // Names that differ in case only.
        ("SELECT * FROM d.upper", 0x2603, &["there is `Upper`", &at(15)]),
        ("SELECT * FROM d.alone", 0x2603, &["there is `Alone`", &at(15)]),
        ("DESCRIBE d.upper", 0x2603, &["there is `Upper`", &at(10)]),
        ("INSERT INTO d.upper VALUES (now, 1, 'x')", 0x2603, &["there is `Upper`", &at(13)]),
        ("INSERT INTO d.x USING d.S1 TAGS (1) VALUES (now, 1, 'x')", 0x2603, &["s1", &at(23)]),
        ("DELETE FROM d.alone", 0x2603, &["there is `Alone`"]),
        ("DROP TABLE d.upper", 0x2603, &["there is `Upper`"]),
        ("ALTER TABLE d.alone ADD COLUMN z INT", 0x2603, &["there is `Alone`"]),
        ("SHOW TAGS FROM d.upper", 0x2603, &["there is `Upper`"]),
        ("SHOW CREATE TABLE d.alone", 0x2603, &["there is `Alone`"]),
        ("CREATE TABLE d.x USING d.alone TAGS (1)", 0x2603, &["there is `Alone`"]),
        ("CREATE TOPIC t2 AS STABLE d.`S`", 0x0362, &["there is `s`"]),
        // Codes that had no cure.
        ("SELECT s, COUNT(*) FROM d.n", 0x260C, &["LAST(s)", "GROUP BY s", &at(8)]),
        ("SELECT v, COUNT(*) FROM d.n GROUP BY s", 0x260A, &["add v to GROUP BY", &at(8)]),
        ("SELECT v FROM d.n HAVING v > 1", 0x260A, &["WHERE"]),
        ("SELECT TIMESTAMP 'abc'", 0x2605, &["YYYY-MM-DD"]),
        ("SELECT 1 + 1y", 0x2605, &["days (d)"]),
        ("CREATE TABLE d.x USING d.s TAGS (1, 2)", 0x260D, &["values given: 2; s has the tags n"]),
        (
            "INSERT INTO d.x USING d.s TAGS (1, 2) VALUES (now, 1, 'x')",
            0x260D,
            &["more than 1 values for 1 tags: n"],
        ),
        ("GRANT READ ON d.* TO nobody", 0x0351, &["SHOW USERS"]),
        ("SELECT COUNT(*) FROM d.n INTERVAL(1s) FILL(NULL)", 0x263B, &["bound the time in WHERE"]),
        ("SELECT * FROM d.n a JOIN d.n b ON a.v = b.v", 0x2701, &["ON a.ts = b.ts"]),
        ("SELECT * FROM d.n a, d.n b", 0x2702, &["a.ts = b.ts"]),
        ("DELETE FROM d.n WHERE v > 5", 0x2655, &["ts >= .. AND ts < .."]),
        // Rows of another width.
        ("INSERT INTO d.n VALUES (now, 1)", 0x0216, &["row 1 has 2 values for 3 columns: ts, v, s", &at(31)]),
        (
            "INSERT INTO d.n VALUES (now, 1, 'a') (now, 1, 'b', 5)",
            0x263F,
            &["row 2 has more than 3 values for 3 columns"],
        ),
        ("INSERT INTO d.n (ts, v) VALUES ()", 0x263F, &["row 1 has 0 values for 2 columns: ts, v"]),
        (
            "INSERT INTO d.s (tbname, ts, n) VALUES ('q', now)",
            0x0216,
            &["row 1 has 2 values for 3 columns: tbname, ts, n"],
        ),
        // Options.
        (
            "ALTER DATABASE d VGROUPS 3",
            0x2600,
            &["fixed when the database is created", "WAL_RETENTION_PERIOD"],
        ),
        ("ALTER DATABASE d KEEP 5", 0x2619, &["with DURATION 10d KEEP is at least 30d", "at most"]),
        ("CREATE DATABASE e KEEP 5 DURATION 2", 0x2619, &["with DURATION 2d KEEP is at least 6d"]),
        // What names mean is placed as what they are spelt like.
        ("SELECT v, zz FROM d.n", 0x2602, &[&at(11)]),
        ("SELECT v AS zz FROM d.n WHERE zz > 1", 0x2602, &[&at(31)]),
        ("SELECT v FROM d.n ORDER BY ABS(zz)", 0x2602, &[&at(32)]),
        ("SELECT x.v FROM d.n y", 0x2602, &["no table of FROM is called x, but y", &at(8)]),
        ("SELECT SUM(s) FROM d.n", 0x2802, &[&at(8)]),
        ("SELECT ABS(v, 1) FROM d.n", 0x2801, &["; at line 1, column 8"]),
        ("SELECT nosuch(v) FROM d.n", 0x0374, &[&at(8)]),
        ("SELECT v FROM d.n WHERE MAX(v) > 1", 0x2608, &[&at(25)]),
        ("SELECT a.v FROM d.n a, d.n b WHERE a.ts = b.ts AND v > 1", 0x2604, &[&at(52)]),
        ("SELECT * FROM nodb.n", 0x0388, &[&at(15)]),
    ];
    let mut wrong = Vec::new();
    for (sql, code, words) in cases {
        let error = refused(&connection, sql).await;
        let text = error.to_string();
        if error.code().number() != *code || !words.iter().all(|word| text.contains(word)) {
            wrong.push(format!("{sql}\n  {text}\n  should say {words:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let distinct = "SELECT COUNT(v) FROM (SELECT DISTINCT v FROM d.n)";
    query(
        &connection,
        "INSERT INTO d.n VALUES (now, 1, 'a') (now + 1s, 1, 'b') (now + 2s, 2, 'c') (now + 3s, NULL, 'd')",
    )
    .await;
    let counted = query(&connection, distinct).await;
    assert_eq!(counted.iter().next().and_then(|row| row.get::<i64>(0).ok()), Some(2), "the hint's way works");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_row_writes_nothing_of_its_statement() {
    let (_server, connection) = start().await;
    let sql = "INSERT INTO d.n VALUES (now, 1, 'a') d.x1 USING d.s TAGS (1) VALUES (now, 1, 'a') (now + 1s, 'oops', 'b')";
    assert_eq!(refused(&connection, sql).await.code(), Code::InsertSyntax);
    let old = "INSERT INTO d.x1 USING d.s TAGS (1) VALUES (now, 1, 'a') ('1990-01-01', 2, 'b')";
    assert_eq!(refused(&connection, old).await.code(), Code::TimestampOutOfRange);
    let count: i64 =
        query(&connection, "SELECT COUNT(*) FROM d.n").await.iter().next().unwrap().get(0).unwrap();
    assert_eq!(count, 0);
    assert_eq!(query(&connection, "SHOW d.TABLES").await.len(), 1, "no child was made either");
    query(&connection, "INSERT INTO d.x1 USING d.s TAGS (1) VALUES (now, 1, 'a')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_without_measure_are_answered() {
    let (_server, connection) = start().await;
    query(&connection, "INSERT INTO d.n VALUES (now, 1, 'a')").await;
    let numbers = (0..20_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let found = query(&connection, &format!("SELECT 1 WHERE 5 IN ({numbers})")).await;
    assert_eq!(found.len(), 1, "a constant in a long list");
    assert_eq!(query(&connection, "SELECT * FROM d.n LIMIT 18446744073709551615").await.len(), 1);
    for interval in ["300000y", "2147483648n", "9223372036854775807n"] {
        let error = refused(&connection, &format!("SELECT COUNT(*) FROM d.n INTERVAL({interval})")).await;
        assert_eq!(error.code(), Code::OutOfRange, "{interval}: {error}");
    }
    let columns: Vec<String> = (0..1_000).map(|n| format!("c{n} INT")).collect();
    query(&connection, &format!("CREATE TABLE d.wide (ts TIMESTAMP, {})", columns.join(", "))).await;
    query(&connection, "INSERT INTO d.wide (ts, c0) VALUES (now, 7)").await;
    assert_eq!(query(&connection, "SELECT * FROM d.wide").await.columns().len(), 1_001);
}

/// A KEEP that no CREATE would take would hide every row, and its file go with it.
#[tokio::test(flavor = "multi_thread")]
async fn keep_is_checked_when_it_is_altered_too() {
    let (_server, connection) = start().await;
    query(&connection, "INSERT INTO d.n VALUES (now - 2d, 1, 'a')").await;
    for keep in ["0", "0m", "10,5,20", "365001", "99999999999", "99999999999999999999"] {
        let error = refused(&connection, &format!("ALTER DATABASE d KEEP {keep}")).await;
        assert!(matches!(error.code(), Code::InvalidDatabaseOption | Code::Syntax), "{keep}: {error}");
    }
    assert_eq!(query(&connection, "SELECT v FROM d.n").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_calls_of_a_consumer() {
    let (_server, connection) = start().await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.s").await;
    let consumer = consumer(&connection, "g", &[("auto.offset.reset", "earliest")]);
    let poll = consumer.poll(Duration::from_millis(10)).await;
    assert_eq!(poll.expect_err("never subscribed").code(), Code::SubscribeFirst);
    assert_eq!(consumer.subscribe(["nix"]).await.expect_err("no topic").code(), Code::TopicNotExist);
    consumer.subscribe(["t"]).await.expect("subscribe");
    let not_owned = consumer.commit_offset_sync("t", 999, 1).await;
    assert_eq!(not_owned.expect_err("not owned").code(), Code::VgroupNotAssigned);
    assert_eq!(consumer.seek("t", 999, 1).expect_err("not owned").code(), Code::VgroupNotAssigned);
    let error = refused(&connection, "DROP TOPIC t").await;
    assert_eq!(error.code(), Code::TopicInUse, "{error}");
    assert_eq!(refused(&connection, "DROP DATABASE d").await.code(), Code::TopicMustDrop);
    consumer.close().await.expect("close");
    query(&connection, "DROP TOPIC t").await;

    let mut config = client::ConsumerConfig::new("g");
    assert!(config.set("session.timeout.ms", "5999").is_err());
    assert!(config.set("auto.offset.reset", "sometimes").is_err());
    assert!(config.set("no.such.key", "1").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_or_none() {
    let (server, connection) = start().await;
    let options = |user: &str, password: &str| ConnectOptions {
        host: server.address().to_owned(),
        user: user.into(),
        password: password.into(),
        ..ConnectOptions::default()
    };
    for (user, password) in [("root", "wrong"), ("root", ""), ("nobody", "taosdata")] {
        let error = Connection::connect(options(user, password)).await.map(|_| ()).expect_err("refused");
        assert_eq!(error.code(), Code::AuthFailure, "{user}");
    }
    query(&connection, "CREATE USER ann PASS 'Secret#123'").await;
    let ann = Connection::connect(options("ann", "Secret#123")).await.expect("ann may log in");
    assert!(ann.sql("DROP DATABASE d").await.is_err(), "but not drop what is not hers");
    query(&connection, "DROP USER ann").await;
    assert!(Connection::connect(options("ann", "Secret#123")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_on_the_port() {
    let (server, connection) = start().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut noise: Vec<Vec<u8>> =
        vec![b"GET / HTTP/1.1\r\n\r\n".to_vec(), preface[..10].to_vec(), vec![0; 4096]];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for length in [1_usize, 9, 100, 5_000] {
        let mut bytes = preface.to_vec();
        bytes.extend((0..length).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        }));
        noise.push(bytes);
    }
    for bytes in noise {
        let mut socket = TcpStream::connect(server.address()).expect("the port is open");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("timeout");
        let _ = socket.write_all(&bytes);
        let _ = socket.read(&mut [0; 64]);
    }
    assert_eq!(query(&connection, "SELECT SERVER_STATUS()").await.len(), 1, "the server goes on");
}

#[test]
fn a_wrong_cell_names_file_line_and_column() {
    let server = Server::start();
    server.sql("CREATE DATABASE d");
    let file = server.scratch().join("cells.csv");
    let mut text = String::from("ts,v\n");
    for n in 0..50 {
        text += &format!("2024-01-01 00:00:{n:02},{n}\n");
    }
    text += "2024-01-01 00:01:00,many\n2024-01-01 00:01:01,7\n";
    std::fs::write(&file, &text).expect("a file");
    server.sql("CREATE TABLE d.cells (ts TIMESTAMP, v BIGINT)");
    let path = file.to_str().expect("UTF-8");
    let stopped = server.run("import", &[path, "--into", "d.cells"]);
    assert_eq!(stopped.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&stopped.stderr);
    assert!(stderr.contains("cells.csv") && stderr.contains("52") && stderr.contains('v'), "{stderr}");
    let skipped = server.run("import", &[path, "--into", "d.cells", "--on-error", "skip"]);
    assert!(skipped.status.success());
    let stderr = String::from_utf8_lossy(&skipped.stderr);
    assert!(stderr.contains("rows=52 written=51 skipped=1"), "{stderr}");
    let listed = format!(
        "skipped: cell does not fit its column: file={path} line=52 column=v value=many is no BIGINT\n"
    );
    assert!(stderr.contains(&listed), "what, where, and not the cure that was taken: {stderr}");
    for (option, column) in [("--ts", "time"), ("--tags", "host")] {
        let unknown = server.run("import", &[path, "--into", "d.cells", option, column]);
        let stderr = String::from_utf8_lossy(&unknown.stderr).into_owned();
        assert!(stderr.contains(&format!("{option} {column}; the file has ts, v")), "{stderr}");
    }
    assert!(server.sql("SELECT COUNT(*) FROM d.cells").contains("51"));
}
