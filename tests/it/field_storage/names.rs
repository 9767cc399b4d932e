//! Names of tables on every way in.

use std::collections::BTreeSet;

use client::{Code, TimeUnit, Value};

use super::{column, consumed, refused};
use crate::support::{Server, connect, number, query};

/// As SQL quotes a name.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// C144: a bare name folds to lower case; one in backticks, and one that is no SQL text, is taken as it stands. Whatever
/// SHOW TABLES prints drops its table, in backticks.
#[tokio::test(flavor = "multi_thread")]
async fn c144_one_rule_for_names_on_every_way_in() {
    let longest = "n".repeat(192);
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    query(&connection, "CREATE TABLE d.Receiver1 USING d.s TAGS (0)").await;
    let names = ["receiver1", "Receiver1", "表一", "order", "a`b", longest.as_str()];
    for (name, tag) in names.into_iter().zip(0..).skip(1) {
        query(&connection, &format!("CREATE TABLE d.{} USING d.s TAGS ({tag})", quoted(name))).await;
    }
    let shown = column::<String>(&connection, "SHOW d.TABLES").await;
    assert_eq!(shown.iter().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(names));

    // Each way in finds the table: quoted, as a row's tbname, by the SDK.
    let writer = connection.writer("d", "s").await.expect("a writer");
    for (name, tag) in names.into_iter().zip(0..) {
        query(&connection, &format!("INSERT INTO d.{} VALUES (1700000000000, {tag})", quoted(name))).await;
        let sql = format!("INSERT INTO d.s (tbname, ts, v) VALUES ('{name}', 1700000000001, {tag})");
        query(&connection, &sql).await;
        let mut batch = writer.batch().expect("a batch");
        let table = batch.child(name, &[Value::Int(77)]).expect("a child");
        batch.push(table, &[Value::Timestamp(1_700_000_000_002), Value::Int(tag)]).expect("a row");
        writer.write(batch).await.expect("sent");
        assert_eq!(writer.flush().await.expect("written"), 1);
    }
    query(&connection, "INSERT INTO d.Receiver1 VALUES (1700000000003, 0)").await;
    query(&connection, "INSERT INTO d.RECEIVER1 VALUES (1700000000004, 0)").await;
    let shown = column::<String>(&connection, "SHOW d.TABLES").await;
    assert_eq!(shown.len(), names.len(), "no way in made a table of its own");
    for (name, tag) in names.into_iter().zip(0_i64..) {
        let rows = if name == "receiver1" { 5 } else { 3 };
        for from in [format!("d.{}", quoted(name)), format!("d.s WHERE tbname IN ('{name}')")] {
            let values = column::<i64>(&connection, &format!("SELECT v FROM {from}")).await;
            assert_eq!(values, vec![tag; rows], "{from}");
        }
        let create = query(&connection, &format!("SHOW CREATE TABLE d.{}", quoted(name))).await;
        let create: String = create.iter().next().expect("a row").get(1).expect("text");
        assert!(create.starts_with(&format!("CREATE TABLE {} USING `s`", quoted(name))), "{create}");
        query(&connection, &format!("CREATE TOPIC t{tag} AS SELECT v FROM d.{}", quoted(name))).await;
        let messages = consumed(&connection, &format!("t{tag}"), "g").await;
        let values: Vec<i64> =
            messages.iter().flat_map(client::Message::rows).map(|row| row.get(0).expect("v")).collect();
        assert_eq!(values, vec![tag; rows], "the topic on {name}");
    }

    // What is no name on one way is none on another.
    let too_long = "n".repeat(193);
    for (name, code) in [("a.b", Code::InvalidIdentifier), (too_long.as_str(), Code::InvalidIdentifier)] {
        for sql in [
            format!("CREATE TABLE d.{} USING d.s TAGS (1)", quoted(name)),
            format!("INSERT INTO d.{} USING d.s TAGS (1) VALUES (1700000000000, 1)", quoted(name)),
        ] {
            assert_eq!(refused(&connection, &sql).await.code(), code, "{sql}");
        }
        let mut batch = writer.batch().expect("a batch");
        let refused = match batch.child(name, &[Value::Int(1)]) {
            Err(error) => error,
            Ok(table) => {
                batch.push(table, &[Value::Timestamp(1_700_000_000_000), Value::Int(1)]).expect("a row");
                let sent = writer.write(batch).await;
                let answered = writer.flush().await.map(drop);
                sent.and(answered).expect_err("no such name")
            }
        };
        // SQL calls a name that is too long by the statement's fault, the shard by its own.
        assert!([code, Code::TableNameTooLong].contains(&refused.code()), "{refused}");
    }
    for sql in ["CREATE TABLE d.order (ts TIMESTAMP, v INT)", "CREATE TABLE d.表二 (ts TIMESTAMP, v INT)"] {
        assert_eq!(refused(&connection, sql).await.code(), Code::Syntax, "{sql}");
    }
    let missing = refused(&connection, "SELECT * FROM d.`RECEIVER1`").await;
    assert_eq!(missing.code(), Code::TableNotExist, "{missing}");

    for n in 0..names.len() {
        query(&connection, &format!("DROP TOPIC FORCE t{n}")).await;
    }
    for name in column::<String>(&connection, "SHOW d.TABLES").await {
        query(&connection, &format!("DROP TABLE d.{}", quoted(&name))).await;
    }
    assert_eq!(number(&connection, "SELECT COUNT(*) FROM d.s").await, 0);
    assert_eq!(query(&connection, "SHOW d.TABLES").await.len(), 0);
}

/// C144 on the line protocol: a measurement is the name of a super table, as it stands but for `.`.
#[tokio::test(flavor = "multi_thread")]
async fn c144_measurements_are_names_as_they_stand() {
    let longest = "n".repeat(192);
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d KEEP 36500").await;
    query(&connection, "USE d").await;
    let measured = ["receiver1", "Receiver1", "表一", "order", "a.b", "a`b", longest.as_str()];
    for (name, v) in measured.into_iter().zip(0..) {
        let line = format!("{name},g=x v={v}i64 1700000000000");
        let written = connection.write_lines(&line, TimeUnit::Millisecond).await;
        assert_eq!(written.unwrap_or_else(|e| panic!("{name}: {e}")), 1);
    }
    let named = measured.map(|name| name.replace('.', "_"));
    for (name, v) in named.iter().zip(0_i64..) {
        let values = column::<i64>(&connection, &format!("SELECT v FROM {}", quoted(name))).await;
        assert_eq!(values, [v], "{name}");
    }
    let line = format!("{},g=x v=1i64 1700000000000", "n".repeat(193));
    let error = connection.write_lines(&line, TimeUnit::Millisecond).await.expect_err("too long");
    assert!(matches!(error.code(), Code::InvalidIdentifier | Code::TableNameTooLong), "{error}");
    let shown: BTreeSet<String> = column(&connection, "SHOW d.STABLES").await.into_iter().collect();
    assert_eq!(shown, BTreeSet::from(named));
    for name in shown {
        query(&connection, &format!("DROP STABLE {}", quoted(&name))).await;
    }
    assert_eq!(query(&connection, "SHOW d.STABLES").await.len(), 0);
}
