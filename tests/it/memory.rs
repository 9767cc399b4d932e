//! Queries that want more memory than there is for them.

use std::time::Duration;

use client::{Code, Connection, QueryResult};

use crate::support::{Server, connect, query, wait_for};

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

/// Results that nobody reads.
const UNREAD: usize = 30;
/// What they share with all other queries.
const BUDGET_BYTES: u64 = 32 << 20;
/// What else the server may hold for them: of each a message in the transport, and what its allocator does not give back.
const BESIDES_BYTES: u64 = 96 << 20;

/// Anonymous memory of the server that is resident, in bytes.
fn resident_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

/// Results of all wide rows, each over a connection of its own, of which nothing but the header is read.
async fn unread_results(server: &Server) -> Vec<Result<QueryResult, client::Error>> {
    let mut results = Vec::new();
    for _ in 0..UNREAD {
        results.push(connect(server).await.sql("SELECT * FROM d.w").await);
    }
    results
}

/// Returns when the server's memory stands still.
async fn stands_still(server: &Server) {
    const LOOKS: usize = 20;
    let mut looks = [0; LOOKS];
    let mut look = 0;
    wait_for("memory that stands still", || {
        look += 1;
        looks[look % LOOKS] = resident_bytes(server);
        let (least, most) = (looks.iter().min().unwrap(), looks.iter().max().unwrap());
        let still = most - least < 1 << 20;
        async move { still }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_nobody_reads_stay_within_the_memory_of_queries_and_leave_room_for_others() {
    let server = Server::start_with(&["--query-memory-bytes", &BUDGET_BYTES.to_string()]);
    let connection = connect(&server).await;
    write_wide_rows(&connection).await;
    query(&connection, "FLUSH DATABASE d").await;
    stands_still(&server).await;
    let before = resident_bytes(&server);
    let results = unread_results(&server).await;
    stands_still(&server).await;
    let now = resident_bytes(&server);
    let (before_mb, now_mb) = (before >> 20, now >> 20);
    assert!(now < before + BUDGET_BYTES + BESIDES_BYTES, "{before_mb} MB before, {now_mb} MB now");
    for _ in 0..10 {
        assert_eq!(count(&connection).await, ROWS as i64);
        assert_eq!(query(&connection, "SELECT v FROM d.w LIMIT 3").await.len(), 3);
    }
    // Those that are still there go on where they are read; the others say why they ended.
    let mut read = 0;
    let mut refusals = Vec::new();
    for result in results {
        let rows = match result {
            Ok(result) => result.rows().await,
            Err(error) => Err(error),
        };
        match rows {
            Ok(rows) => {
                assert_eq!(rows.len(), ROWS);
                read += 1;
            }
            Err(error) => {
                assert_eq!(error.code(), Code::OutOfMemory, "{error}");
                refusals.push(error.to_string());
            }
        }
    }
    assert!(read > 0, "one at least has room: {refusals:#?}");
    // Who reads is behind now and then too, but others have waited longer.
    let _unread = unread_results(&server).await;
    stands_still(&server).await;
    for _ in 0..5 {
        assert_eq!(query(&connection, "SELECT * FROM d.w").await.len(), ROWS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_not_read_for_long_ends_and_gives_its_memory_back() {
    let budget = BUDGET_BYTES.to_string();
    let arguments = ["--held-clock", "--query-memory-bytes", &budget, "--result-idle-timeout-ms", "600000"];
    let server = Server::start_with(&arguments);
    let connection = connect(&server).await;
    write_wide_rows(&connection).await;
    query(&connection, "FLUSH DATABASE d").await;
    let result = connect(&server).await.sql("SELECT * FROM d.w").await.unwrap();
    stands_still(&server).await;
    server.advance(Duration::from_secs(600));
    let error = result.rows().await.expect_err("nothing was read for ten minutes");
    assert_eq!(error.code(), Code::Terminated, "{error}");
    assert!(error.help().contains("result_idle_timeout_ms"), "{error}");
}
