//! C069: a disk without room, as a file-size limit shows it: writes fail one by one, what was acknowledged stays, and with room
//! again writes are taken again, without a restart where the log can go on in another file.

use client::{Code, Connection};

use crate::support::{Server, connect, query};

/// 1 MiB, in 512-byte blocks.
const LIMIT_BLOCKS: u32 = 2_048;
/// Text of one row: a few hundred rows fill the limit.
const TEXT_BYTES: usize = 8_000;

async fn count(connection: &Connection) -> i64 {
    query(connection, "SELECT COUNT(*) FROM d.n").await.iter().next().expect("a row").get(0).expect("a count")
}

async fn insert(connection: &Connection, n: i64) -> client::Result<()> {
    let text = "x".repeat(TEXT_BYTES);
    let sql = format!("INSERT INTO d.n VALUES ({}, {n}, '{text}')", 1_700_000_000_000 + n);
    connection.sql(&sql).await?.rows().await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_fails_writes_one_by_one() {
    let mut server = Server::start();
    {
        let connection = connect(&server).await;
        query(&connection, "CREATE DATABASE d VGROUPS 1").await;
        query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT, s VARCHAR(9000))").await;
    }
    server.terminate();
    server.limit_files(Some(LIMIT_BLOCKS));
    server.start_again();
    let connection = connect(&server).await;
    let mut acknowledged = Vec::new();
    let mut refused = 0;
    for n in 0..400 {
        match insert(&connection, n).await {
            Ok(()) => acknowledged.push(n),
            Err(error) => {
                refused += 1;
                assert!(matches!(error.code(), Code::NoDiskSpace | Code::Io), "{error}");
                assert!(error.may_retry(), "{error}");
                assert_eq!(query(&connection, "SELECT SERVER_STATUS()").await.len(), 1, "the server goes on");
            }
        }
    }
    assert!(refused > 0, "three times the limit was written and nothing was refused");
    let stored = count(&connection).await;
    assert!(stored >= i64::try_from(acknowledged.len()).expect("few"), "{stored} of {}", acknowledged.len());

    server.kill();
    server.limit_files(None);
    server.start_again();
    let connection = connect(&server).await;
    let rows = query(&connection, "SELECT v FROM d.n").await;
    let stored: Vec<i64> = rows.iter().map(|row| row.get(0).expect("v")).collect();
    assert!(acknowledged.iter().all(|n| stored.contains(n)), "an acknowledged row is gone");
    insert(&connection, 1_000).await.expect("there is room again");
}

/// SIGKILL, then a start on a disk that takes no byte: everything that was acknowledged can be read, every change is
/// refused with an error that may be retried, and with room again all goes on, without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_on_a_full_disk() {
    for flushes in [false, true] {
        let mut server = Server::start();
        {
            let connection = connect(&server).await;
            query(&connection, "CREATE DATABASE d VGROUPS 1").await;
            query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT, s VARCHAR(9000))").await;
            query(&connection, "CREATE TOPIC t AS DATABASE d").await;
            for n in 0..10 {
                if n == 5 && flushes {
                    query(&connection, "FLUSH DATABASE d").await;
                }
                insert(&connection, n).await.expect("written");
            }
        }
        server.kill();
        server.limit_files(Some(0));
        server.start_again();
        let connection = connect(&server).await;
        assert_eq!(count(&connection).await, 10, "flushes={flushes}");
        assert_eq!(query(&connection, "SHOW TOPICS").await.len(), 1);
        for sql in [
            "INSERT INTO d.n VALUES (1700000000100, 1, '')",
            "CREATE TABLE d.m (ts TIMESTAMP, v INT)",
            "DELETE FROM d.n WHERE ts > 0",
            "FLUSH DATABASE d",
            "CREATE DATABASE e VGROUPS 1",
            "ALTER DATABASE d WAL_RETENTION_PERIOD 7200",
            "CREATE TOPIC u AS DATABASE d",
            "DROP TOPIC t",
        ] {
            let refused = connection.sql(sql).await.map(drop).expect_err(sql);
            assert!(matches!(refused.code(), Code::NoDiskSpace | Code::Io), "{sql}: {refused}");
            assert!(refused.may_retry(), "{sql}: {refused}");
            assert_eq!(count(&connection).await, 10, "after {sql}");
        }
        server.lift_file_limit();
        insert(&connection, 10).await.expect("there is room again");
        query(&connection, "FLUSH DATABASE d").await;
        query(&connection, "CREATE DATABASE e VGROUPS 1").await;
        query(&connection, "DROP TOPIC t").await;
        server.kill();
        server.start_again();
        let connection = connect(&server).await;
        assert_eq!(count(&connection).await, 11, "flushes={flushes}");
        assert_eq!(query(&connection, "SHOW TOPICS").await.len(), 0);
    }
}
