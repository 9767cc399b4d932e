//! Start, stop, and everything that a data directory can do wrong.

use client::{Code, ConnectOptions, Connection, RetryPolicy};
use futures::FutureExt as _;

use crate::support::{Server, connect, query, tidemark};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_one_directory_is_refused() {
    let server = Server::start();
    let output = tidemark()
        .args(["serve", "--grpc", "127.0.0.1:0", "--data-dir"])
        .arg(server.data_dir())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("error[0x6f03]") && stderr.contains(&format!("pid={}", server.pid())),
        "{stderr}"
    );
    assert!(output.stdout.is_empty(), "no ready line");
    // Nor is the lock gone with the file that names its holder.
    std::fs::remove_file(server.data_dir().join("LOCK")).expect("removed");
    let output = tidemark()
        .args(["serve", "--grpc", "127.0.0.1:0", "--data-dir"])
        .arg(server.data_dir())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE still_here").await;
}

#[test]
fn a_newer_format_is_refused() {
    let mut server = Server::start();
    server.terminate();
    std::fs::write(server.data_dir().join("FORMAT"), "tidemark data format 99\n").expect("a file");
    let error = server.try_start_again().expect_err("it is refused");
    assert!(error.contains("error[0x6f02]") && error.contains("format=99"), "{error}");
}

/// The client of a statement that takes longer than the server waits for it learns why it gets no answer.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_answered_before_the_server_stops_is_told_so() {
    let mut server = Server::start();
    let root = connect(&server).await;
    query(&root, "CREATE DATABASE d VGROUPS 1").await;
    query(&root, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (g INT)").await;
    let rows = (0..150).map(|n| format!("d.c{n} USING d.s TAGS ({n}) VALUES (1700000000000, {n}) "));
    query(&root, &format!("INSERT INTO {}", rows.collect::<String>())).await;
    let options = ConnectOptions {
        host: server.address().to_owned(),
        retry: RetryPolicy::never(),
        ..ConnectOptions::default()
    };
    let connection = Connection::connect(options).await.expect("connected");
    // Half a billion rows.
    let mut long = Box::pin(async {
        let joins = "JOIN d.s b ON a.ts = b.ts JOIN d.s c ON a.ts = c.ts JOIN d.s d ON a.ts = d.ts";
        let result = connection.sql(&format!("SELECT COUNT(*) FROM d.s a {joins}")).await?;
        result.rows().await
    });
    assert!(long.as_mut().now_or_never().is_none());
    // Came after the statement, on one connection.
    connection.ping().await.expect("answered");
    assert!(server.terminate().success());
    let error = long.await.expect_err("it takes longer than that");
    assert_eq!(error.code(), Code::ShuttingDown, "{error}");
    assert!(error.may_retry() && error.message().contains("may or may not"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_has_flushed_and_exits_cleanly() {
    let mut server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    for n in 0..20 {
        query(&connection, &format!("INSERT INTO d.c{n} USING d.s TAGS ({n}) VALUES (now, {n})")).await;
    }
    let status = server.terminate();
    assert_eq!(status.code(), Some(0));
    let files = walk(&server.data_dir()).into_iter().filter(|p| p.ends_with(".parquet")).count();
    assert!(files > 0, "rows were flushed to files");
    server.start_again();
    let connection = connect(&server).await;
    let rows = query(&connection, "SELECT COUNT(*), SUM(v) FROM d.s").await;
    let row = rows.iter().next().expect("a row");
    assert_eq!((row.get::<i64>(0).unwrap(), row.get::<i64>(1).unwrap()), (20, 190));
    let tags = query(&connection, "SELECT DISTINCT tbname, n FROM d.s").await;
    assert_eq!(tags.len(), 20);
}

fn walk(dir: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn settings_and_where_they_come_from() {
    let output = tidemark()
        .args(["serve", "--print-config", "--grpc", "127.0.0.1:7001"])
        .env("TIDEMARK_LOG", "debug")
        .env("TIDEMARK_GRPC", "127.0.0.1:7002")
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success());
    assert!(text.contains("grpc = \"127.0.0.1:7001\"  # flag"), "{text}");
    assert!(text.contains("log = \"debug\"  # environment"), "{text}");
}

#[test]
fn a_bad_log_filter_is_refused_whether_it_serves_or_shows() {
    let dir = tempfile::tempdir().expect("a folder");
    for show in [&["--print-config"][..], &[]] {
        let output = tidemark()
            .args(["serve", "--grpc", "127.0.0.1:0", "--data-dir"])
            .arg(dir.path().join("data"))
            .args(show)
            .env("TIDEMARK_LOG", "info,wal=loud")
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{show:?}");
        assert!(stderr.contains("log=info,wal=loud") && output.stdout.is_empty(), "{show:?}: {stderr}");
    }
}

#[test]
fn a_port_beyond_loopback_needs_a_password() {
    let dir = tempfile::tempdir().expect("a folder");
    let data_dir = dir.path().join("data");
    let output = tidemark()
        .args(["serve", "--grpc", "0.0.0.0:0", "--data-dir"])
        .arg(&data_dir)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("error[0x6f08]") && stderr.contains("--insecure"), "{stderr}");
    assert!(!data_dir.exists(), "a refused start leaves nothing behind");
}

#[test]
fn a_taken_port_is_noticed_before_anything_is_made() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let dir = tempfile::tempdir().expect("a folder");
    let data_dir = dir.path().join("data");
    let output = tidemark()
        .args(["serve", "--grpc", &address, "--data-dir"])
        .arg(&data_dir)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&format!("grpc={address}")) && stderr.contains("--grpc"), "{stderr}");
    assert!(!data_dir.exists() && output.stdout.is_empty());
}

#[test]
fn an_unknown_role_is_wrong_use() {
    let dir = tempfile::tempdir().expect("a folder");
    let data_dir = dir.path().join("data");
    let output =
        tidemark().args(["serve", "--roles", "foo", "--data-dir"]).arg(&data_dir).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("[possible values: all]"));
    assert!(!data_dir.exists());
}
