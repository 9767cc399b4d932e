//! Options of a database's log while the server runs: ALTER DATABASE, keep versions, TRIM DATABASE .. WAL.

use client::{Code, Connection, Row};

use crate::support::{Server, connect, consumer, query, wait_for};

async fn vgroup(connection: &Connection, column: &str) -> Option<i64> {
    let rows = query(connection, "SHOW d.VGROUPS").await;
    let row: Row<'_> = rows.iter().next().expect("a vgroup");
    row.by_name(column).expect("a number")
}

async fn insert(connection: &Connection, from: i64, to: i64) {
    for n in from..to {
        query(connection, &format!("INSERT INTO d.n VALUES ({}, {n})", 1_700_000_000_000 + n)).await;
    }
}

/// Segment files of all vgroups.
fn segments(server: &Server) -> usize {
    let logs = walkdir(&server.data_dir().join("vnode"));
    logs.iter().filter(|path| path.extension().is_some_and(|extension| extension == "log")).count()
}

fn walkdir(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(walkdir(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn altered_options_count_at_once_and_after_a_restart() {
    let mut server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT)").await;
    insert(&connection, 0, 40).await;
    assert_eq!(segments(&server), 2, "one each");
    let all = "WAL_LEVEL 2 WAL_FSYNC_PERIOD 0 WAL_RETENTION_PERIOD 7200 WAL_RETENTION_SIZE 100000 \
               WAL_SEGMENT_SIZE 1 WAL_ROLL_PERIOD 3600";
    query(&connection, &format!("ALTER DATABASE d {all}")).await;
    insert(&connection, 40, 80).await;
    let before = segments(&server);
    assert!(before > 4, "{before} segments of 1 KiB");
    // As it was: 0x038A.
    let again =
        connection.sql(&format!("ALTER DATABASE d {all}")).await.map(drop).expect_err("no difference");
    assert_eq!(again.code(), Code::OptionsNotChanged, "{again}");

    server.kill();
    server.start_again();
    let connection = connect(&server).await;
    let shown = query(&connection, "SHOW CREATE DATABASE d").await;
    let shown: String = shown.iter().next().expect("a row").get(1).expect("text");
    for pair in all.split(' ').collect::<Vec<_>>().chunks(2) {
        assert!(shown.contains(&pair.join(" ")), "{pair:?}: {shown}");
    }
    insert(&connection, 80, 120).await;
    assert!(segments(&server) > before + 2, "still 1 KiB");

    query(&connection, "ALTER DATABASE d WAL_SEGMENT_SIZE 0 WAL_RETENTION_PERIOD 0").await;
    query(&connection, "FLUSH DATABASE d").await;
    assert_eq!(segments(&server), 2, "what is flushed is gone");
}

/// tmq.md 11.4
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_with_a_marker_keeps_the_log_until_trim() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1 WAL_RETENTION_PERIOD 1").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT)").await;
    query(&connection, "CREATE TOPIC t AS DATABASE d").await;
    let parameters =
        [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false"), ("enable.wal.marker", "true")];
    let marking = consumer(&connection, "g", &parameters);
    marking.subscribe(["t"]).await.expect("subscribe");
    insert(&connection, 0, 5).await;
    let mut rows = 0;
    while rows < 5 {
        if let Some(message) = marking.poll(std::time::Duration::from_secs(1)).await.expect("poll") {
            rows += message.rows_len();
        }
    }
    assert_eq!(vgroup(&connection, "keep_version").await, None);
    marking.commit_all_sync().await.expect("commit");
    wait_for("the keep version", || async { vgroup(&connection, "keep_version").await.is_some() }).await;
    let kept = vgroup(&connection, "keep_version").await.expect("a version");
    let committed = query(&connection, "SHOW SUBSCRIPTIONS").await;
    let committed: String = committed.iter().next().expect("a row").by_name("committed").expect("committed");
    assert_eq!(committed, format!("wal:{kept}"));
    let time =
        query(&connection, "SELECT COUNT(keep_version_time) FROM information_schema.ins_vgroups").await;
    assert_eq!(time.iter().next().expect("a row").get::<i64>(0).expect("a count"), 1);

    // Another database of the same age shows that retention has passed this one by.
    query(&connection, "CREATE DATABASE e VGROUPS 1 WAL_RETENTION_PERIOD 1").await;
    for n in 5..8 {
        insert(&connection, n, n + 1).await;
        query(&connection, "FLUSH DATABASE d").await;
    }
    query(&connection, "FLUSH DATABASE e").await;
    wait_for("retention of the other one", || async {
        let rows = query(&connection, "SHOW e.VGROUPS").await;
        rows.iter().next().expect("a vgroup").by_name::<i64>("wal_first").expect("wal_first") > 1
    })
    .await;
    let first = vgroup(&connection, "wal_first").await.expect("a version");
    assert!(first <= kept, "{first} and {kept}");
    query(&connection, "TRIM DATABASE d WAL").await;
    let first = vgroup(&connection, "wal_first").await.expect("a version");
    assert!(first > kept, "{first} and {kept}");
}
