//! A vgroup whose folder is gone: what tells of it, and what an operator can do all the same.

use std::path::PathBuf;

use client::{Code, Connection};

use crate::support::{PATIENCE, Server, connect, consumer, query, tidemark};

const CHILDREN: i64 = 20;
/// 1990: older than KEEP lets in at first.
const OLD_MS: i64 = 631_152_000_000;

/// A server with rows in the vgroups 2 and 3 of `d`, stopped; the folder of 3 lies beside the data directory.
fn without_a_vgroup() -> (Server, PathBuf, PathBuf) {
    let mut server = Server::start();
    server.sql("CREATE DATABASE d VGROUPS 2; CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (g INT)");
    let rows = (0..CHILDREN).map(|n| format!("d.c{n} USING d.s TAGS ({n}) VALUES (now, {n}) "));
    server.sql(&format!("INSERT INTO {}", rows.collect::<String>()));
    assert!(server.terminate().success());
    let (folder, aside) = (server.data_dir().join("vnode/3"), server.scratch().join("aside"));
    std::fs::rename(&folder, &aside).expect("put aside");
    (server, folder, aside)
}

async fn text(connection: &Connection, sql: &str) -> String {
    query(connection, sql).await.iter().next().expect("a row").get(0).expect("text")
}

#[test]
fn verify_names_the_vgroup_that_the_catalogue_knows_and_the_disk_does_not() {
    let (server, folder, aside) = without_a_vgroup();
    let verify = |command: &[&str]| {
        let output = tidemark().args(command).arg(server.data_dir()).output().expect("the command runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    for command in [&["verify"][..], &["wal", "verify"]] {
        let (status, said) = verify(command);
        assert!(status == Some(1) && said.contains("vgroup=3 database=d"), "{command:?}: {said}");
        assert!(!said.contains("vgroup=2"), "{command:?}: {said}");
    }
    // The folder without its log, too.
    std::fs::create_dir_all(folder.join("data")).expect("a folder");
    assert_eq!(verify(&["verify"]).0, Some(1));
    std::fs::remove_dir_all(&folder).expect("gone again");
    std::fs::rename(&aside, &folder).expect("put back");
    for command in [&["verify"][..], &["wal", "verify"]] {
        let (status, said) = verify(command);
        assert_eq!(status, Some(0), "{command:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_is_lengthened_rows_flushed_and_topics_made_while_a_vgroup_is_offline() {
    let (mut server, folder, aside) = without_a_vgroup();
    server.start_again();
    let root = connect(&server).await;
    let status = "SELECT status FROM information_schema.ins_databases WHERE name = 'd'";
    assert_eq!(text(&root, status).await, "unsynced");
    query(&root, "ALTER DATABASE d KEEP 36500 WAL_RETENTION_PERIOD 86400").await;
    let keep = "SELECT `keep` FROM information_schema.ins_databases WHERE name = 'd'";
    assert_eq!(text(&root, keep).await, "36500d,36500d,36500d");
    for statement in ["FLUSH DATABASE d", "TRIM DATABASE d", "TRIM DATABASE d WAL"] {
        let error = root.sql(statement).await.expect_err("one vgroup cannot");
        assert_eq!(error.code(), Code::Damaged, "{error}");
        assert!(error.message().contains("vgroups=3 done=1"), "{statement}: {error}");
    }
    let files = std::fs::read_dir(server.data_dir().join("vnode/2/data")).expect("the folder of files");
    assert!(files.count() > 0, "the other vgroup is flushed");
    for topic in ["t AS SELECT ts, v FROM d.s", "u AS STABLE d.s", "w AS DATABASE d"] {
        query(&root, &format!("CREATE TOPIC {topic}")).await;
    }
    let error =
        root.sql("CREATE STABLE d.z (ts TIMESTAMP, v INT) TAGS (g INT)").await.expect_err("half of it");
    assert_eq!(error.code(), Code::Damaged, "{error}");

    assert!(server.terminate().success());
    std::fs::rename(&aside, &folder).expect("put back");
    server.start_again();
    let root = connect(&server).await;
    assert_eq!(text(&root, status).await, "ready");
    // Every vgroup has the new KEEP ..
    let rows = (0..CHILDREN).map(|n| format!("d.c{n} VALUES ({OLD_MS}, {n}) "));
    query(&root, &format!("INSERT INTO {}", rows.collect::<String>())).await;
    // .. and the topics, with all that its log holds.
    for topic in ["t", "u", "w"] {
        let reader = consumer(&root, &format!("g{topic}"), &[("auto.offset.reset", "earliest")]);
        reader.subscribe([topic]).await.expect("subscribe");
        let mut rows = 0;
        while rows < 2 * CHILDREN as usize {
            let message = reader.poll(PATIENCE).await.expect("poll").expect("rows of both vgroups");
            rows += message.rows_len();
        }
        reader.close().await.expect("close");
    }
}
