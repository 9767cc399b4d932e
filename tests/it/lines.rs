//! Lines of the line protocol: what they make, what they write, what they refuse.

use client::{Code, Connection, Error, TimeUnit};

use crate::support::{Server, connect, query};

async fn write(connection: &Connection, lines: &str) -> Result<u64, Error> {
    connection.write_lines(lines, TimeUnit::Millisecond).await
}

async fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let rows = query(connection, sql).await;
    rows.iter().map(|row| row.get(0).expect("text")).collect()
}

/// Names and types of a super table, as DESCRIBE has them.
async fn described(connection: &Connection, stable: &str) -> Vec<(String, String, i32, String)> {
    let rows = query(connection, &format!("DESCRIBE `{stable}`")).await;
    let row = |row: client::Row<'_>| {
        let text = |at| row.get::<String>(at).expect("text");
        (text(0), text(1), row.get::<i32>(2).expect("a length"), text(3))
    };
    rows.iter().map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_bring_their_schema_along() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2 KEEP 36500 PRECISION 'us'").await;
    query(&connection, "USE d").await;
    let first = "weather,city=oslo,st=a temp=1.5,note=\"hi\" 1700000000000\n\
                 weather,city=rome,st=b temp=9.5 1700000000000\n# nothing\n\
                 weather,city=oslo,st=a temp=2.5 1700000001000\n\
                 bare ok=true 1700000000000";
    assert_eq!(write(&connection, first).await.expect("written"), 4);
    let wider = "weather,city=constantinople,st=a,zone=n wind=7i,note=\"a longer note\" 1700000002000";
    assert_eq!(write(&connection, wider).await.expect("written"), 1);
    let column = |name: &str, data_type: &str, length, note: &str| {
        (name.to_owned(), data_type.to_owned(), length, note.to_owned())
    };
    assert_eq!(
        described(&connection, "weather").await,
        [
            column("_ts", "TIMESTAMP", 8, ""),
            column("temp", "DOUBLE", 8, ""),
            column("note", "VARCHAR", 16, ""),
            column("wind", "BIGINT", 8, ""),
            column("city", "NCHAR", 16, "TAG"),
            column("st", "NCHAR", 2, "TAG"),
            column("zone", "NCHAR", 2, "TAG"),
        ]
    );
    let rows =
        query(&connection, "SELECT CAST(_ts AS BIGINT), temp, wind FROM weather ORDER BY _ts, city").await;
    let rows: Vec<(i64, Option<f64>, Option<i64>)> = rows
        .iter()
        .map(|row| (row.get(0).expect("ticks"), row.get(1).expect("temp"), row.get(2).expect("wind")))
        .collect();
    assert_eq!(
        rows,
        [
            (1_700_000_000_000_000, Some(1.5), None),
            (1_700_000_000_000_000, Some(9.5), None),
            (1_700_000_001_000_000, Some(2.5), None),
            (1_700_000_002_000_000, None, Some(7)),
        ]
    );
    // Each set of tags is a child, under the name that TDengine gives it; the same lines again change nothing.
    assert_eq!(write(&connection, first).await.expect("written again"), 4);
    let names = "SELECT DISTINCT tbname FROM weather WHERE city = 'oslo'";
    assert_eq!(texts(&connection, names).await, ["t_0e1225c00499a666177db89fac7bd491"]);
    assert_eq!(query(&connection, "SELECT * FROM bare WHERE ok AND _tag_null IS NULL").await.len(), 1);
    // Without a time it is the server's.
    connection.write_lines("bare ok=false", TimeUnit::Nanosecond).await.expect("written");
    assert_eq!(query(&connection, "SELECT * FROM bare WHERE _ts > NOW - 1h").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_writes_nothing() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d KEEP 36500").await;
    query(&connection, "USE d").await;
    query(&connection, "CREATE STABLE st (ts TIMESTAMP, c1 INT) TAGS (t1 INT)").await;
    query(&connection, "CREATE TABLE n (ts TIMESTAMP, v INT)").await;
    let code = async |lines: &str| write(&connection, lines).await.expect_err(lines).code();
    let error = write(&connection, "new x=1 1700000000000\nnew x=1 no").await.expect_err("a word for a time");
    assert_eq!((error.code(), error.place().map(|p| (p.line, p.column))), (Code::LineFormat, Some((2, 9))));
    assert_eq!(code("new x=1 1700000000000\nnew x=1i 1700000000001").await, Code::LineType);
    assert_eq!(code("st,t1=1 c1=5i32 1700000000000").await, Code::LineFormat);
    assert_eq!(code("n v=1 1700000000000").await, Code::TableExists);
    assert_eq!(texts(&connection, "SHOW STABLES").await, ["st"]);
    query(&connection, "USE information_schema").await;
    assert!(write(&connection, "m x=1").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_want_the_same_columns_at_once() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d KEEP 36500").await;
    query(&connection, "USE d").await;
    let lines: Vec<String> = (0..8)
        .map(|at| format!("m,host=h{at},extra{}=x a=1,b{}=2,c{at}=3 1700000000000", at % 2, at % 3))
        .collect();
    let writes = lines.iter().map(|line| write(&connection, line));
    for written in futures::future::join_all(writes).await {
        assert_eq!(written.expect("written"), 1);
    }
    assert_eq!(query(&connection, "SELECT * FROM m").await.len(), 8);
    assert_eq!(described(&connection, "m").await.len(), 1 + 1 + 3 + 8 + 1 + 2);
}
