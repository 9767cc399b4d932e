//! Queries that want more memory than there is for them.

use client::{Code, Connection};

use crate::support::{Server, connect, query};

/// Bytes of a value.
const WIDTH: usize = 60_000;
const ROWS: usize = 1_000;

/// Sixty megabytes of rows that are as wide as rows can be.
async fn write_wide_rows(connection: &Connection) {
    query(connection, "CREATE DATABASE d VGROUPS 1 KEEP 36500").await;
    query(connection, &format!("CREATE TABLE d.w (ts TIMESTAMP, v VARCHAR({WIDTH}))")).await;
    for statement in (0..ROWS).collect::<Vec<_>>().chunks(10) {
        let rows = statement
            .iter()
            .map(|row| format!("({}, '{}')", 1_700_000_000_000_i64 + *row as i64, "w".repeat(WIDTH)));
        query(connection, &format!("INSERT INTO d.w VALUES {}", rows.collect::<String>())).await;
    }
}

async fn count(connection: &Connection) -> i64 {
    query(connection, "SELECT COUNT(*) FROM d.w").await.iter().next().unwrap().get(0).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_past_the_memory_of_queries_ends_in_an_error_and_the_server_goes_on() {
    let server = Server::start_with(&["--query-memory-bytes", "33554432"]);
    let connection = connect(&server).await;
    write_wide_rows(&connection).await;
    // From memory, then from files.
    for _ in 0..2 {
        assert_eq!(
            query(&connection, "SELECT * FROM d.w").await.len(),
            ROWS,
            "rows that go through are no burden"
        );
        let sql = "SELECT a.v FROM d.w a JOIN d.w b ON a.ts = b.ts";
        let error = match connection.sql(sql).await {
            Err(error) => error,
            Ok(result) => result.rows().await.expect_err("one side of the join is twice the budget"),
        };
        assert_eq!(error.code(), Code::OutOfMemory, "{error}");
        assert!(error.to_string().contains("query_memory_bytes"), "{error}");
        assert_eq!(count(&connection).await, ROWS as i64);
        query(&connection, "FLUSH DATABASE d").await;
    }
}
