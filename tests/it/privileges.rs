//! GRANT and REVOKE over the wire: what a user may do, and what stops when the right is taken.

use std::time::Duration;

use client::{Code, Connection};

use crate::rights::people::{PASSWORD, connect_as};
use crate::support::{Server, connect, consumer, query, refusal, shares, sql_refusal, wait_for};

async fn rights(connection: &Connection) -> Vec<String> {
    let rows = query(connection, "SHOW USER PRIVILEGES").await;
    let text = |row: client::Row<'_>, name: &str| row.by_name::<String>(name).expect("text");
    rows.iter()
        .map(|row| format!("{} {} {}", text(row, "user_name"), text(row, "privilege"), text(row, "db_name")))
        .collect()
}

async fn prepared(server: &Server) -> (Connection, Connection) {
    let root = connect(server).await;
    for sql in [
        "CREATE DATABASE d VGROUPS 1",
        "CREATE DATABASE other VGROUPS 1",
        "CREATE TABLE d.t (ts TIMESTAMP, v INT)",
        "CREATE TABLE other.t (ts TIMESTAMP, v INT)",
        "INSERT INTO d.t VALUES (now, 1)",
        &format!("CREATE USER ann PASS '{PASSWORD}'"),
    ] {
        query(&root, sql).await;
    }
    let ann = connect_as(server, "ann").await;
    (root, ann)
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_on_databases_are_given_and_taken() {
    let server = Server::start();
    let (root, ann) = prepared(&server).await;
    let (read, write) = ("SELECT * FROM d.t", "INSERT INTO d.t VALUES (now, 2)");
    let denied = Some(Code::PermissionDenied);
    assert_eq!((sql_refusal(&ann, read).await, sql_refusal(&ann, write).await), (denied, denied));

    query(&root, "GRANT READ ON d.* TO ann").await;
    assert_eq!((sql_refusal(&ann, read).await, sql_refusal(&ann, write).await), (None, denied));
    assert_eq!(sql_refusal(&ann, "SELECT * FROM other.t").await, denied);
    assert_eq!(sql_refusal(&ann, "DROP TABLE d.t").await, denied);
    assert_eq!(sql_refusal(&ann, "DELETE FROM d.t").await, denied);

    query(&root, "GRANT WRITE ON d.* TO ann").await;
    assert_eq!((sql_refusal(&ann, read).await, sql_refusal(&ann, write).await), (None, None));
    let own = ["ann read d", "ann write d"];
    assert_eq!(rights(&ann).await, own, "a user sees their own");
    assert_eq!(rights(&root).await, ["ann read d", "ann write d", "root all all"]);

    query(&root, "REVOKE READ ON d.* FROM ann").await;
    assert_eq!((sql_refusal(&ann, read).await, sql_refusal(&ann, write).await), (denied, None));
    query(&root, "REVOKE ALL ON d.* FROM ann").await;
    query(&root, "GRANT ALL ON *.* TO ann").await;
    assert_eq!(sql_refusal(&ann, "INSERT INTO other.t VALUES (now, 1)").await, None);
    query(&root, "REVOKE ALL ON *.* FROM ann").await;
    assert_eq!(rights(&ann).await, Vec::<String>::new());

    // Nobody gives what is not theirs, and nothing is given to nobody.
    assert_eq!(sql_refusal(&ann, "GRANT ALL ON d.* TO ann").await, Some(Code::PermissionDenied));
    assert_eq!(sql_refusal(&root, "GRANT READ ON d.* TO nobody").await, Some(Code::UserNotExist));
    assert_eq!(sql_refusal(&root, "GRANT READ ON nodb.* TO ann").await, Some(Code::DatabaseNotExist));
    for sql in
        ["GRANT ALTER ON d.* TO ann", "GRANT READ ON d.t TO ann", "GRANT READ ON d.* WITH a = 1 TO ann"]
    {
        assert_eq!(sql_refusal(&root, sql).await, Some(Code::NotSupported), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_see_themselves_and_root_sees_all() {
    let server = Server::start();
    let (root, ann) = prepared(&server).await;
    let names = |rows: client::Rows| {
        rows.iter().map(|row| row.by_name::<String>("name").expect("a name")).collect::<Vec<_>>()
    };
    for sql in ["SHOW USERS", "SELECT name FROM information_schema.ins_users ORDER BY name"] {
        assert_eq!(names(query(&ann, sql).await), ["ann"], "{sql}");
        assert_eq!(names(query(&root, sql).await), ["ann", "root"], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_write_can_delete_and_see_what_a_table_looks_like() {
    let server = Server::start();
    let (root, ann) = prepared(&server).await;
    query(&root, "GRANT WRITE ON d.* TO ann").await;
    assert_eq!(query(&ann, "DESCRIBE d.t").await.len(), 2);
    query(&ann, "DELETE FROM d.t").await;
    assert_eq!(query(&root, "SELECT * FROM d.t").await.len(), 0);
    // What others have not read yet is not hers to take.
    assert_eq!(sql_refusal(&ann, "TRIM DATABASE d WAL").await, Some(Code::NoPrivilege));
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_74_the_right_to_subscribe_is_checked_while_consuming_too() {
    let server = Server::start();
    let (root, ann) = prepared(&server).await;
    query(&root, "CREATE TOPIC p AS SELECT ts, v FROM d.t").await;
    let config = [("auto.offset.reset", "earliest")];
    let consumer = consumer(&ann, "g", &config);
    let refused = consumer.subscribe(["p"]).await.expect_err("no right yet");
    assert_eq!(refused.code(), Code::NoPrivilege);
    assert_eq!(sql_refusal(&ann, "SHOW CREATE TOPIC p").await, Some(Code::NoPrivilege));
    assert_eq!(sql_refusal(&root, "GRANT SUBSCRIBE ON nope TO ann").await, Some(Code::TopicNotExist));

    query(&root, "GRANT SUBSCRIBE ON p TO ann").await;
    assert_eq!(rights(&ann).await, ["ann subscribe p"]);
    assert_eq!(
        sql_refusal(&ann, "SELECT * FROM d.t").await,
        Some(Code::PermissionDenied),
        "of the topic only"
    );
    consumer.subscribe(["p"]).await.expect("subscribe");
    let poll = || async { consumer.poll(Duration::from_millis(200)).await.expect("poll").is_some() };
    wait_for("the first row", poll).await;

    query(&root, "REVOKE SUBSCRIBE ON p FROM ann").await;
    query(&root, "INSERT INTO d.t VALUES (now, 2)").await;
    let taken = consumer.poll(Duration::MAX).await.expect_err("no further rows");
    assert_eq!(taken.code(), Code::NoPrivilege);
    assert!(taken.to_string().contains("topic=p"), "{taken}");
    assert!(consumer.poll(Duration::from_secs(2)).await.expect("told once").is_none());
    query(&root, "GRANT SUBSCRIBE ON p TO ann").await;
    wait_for("the row once the right is back", poll).await;
    consumer.close().await.expect("close");
}

/// When the right goes, so do the vgroups, and the others of the group go on.
#[tokio::test(flavor = "multi_thread")]
async fn who_loses_the_right_is_told_and_gives_the_vgroups_up() {
    let server = Server::start();
    let (root, ann) = prepared(&server).await;
    for sql in [
        "CREATE DATABASE wide VGROUPS 2",
        "CREATE STABLE wide.s (ts TIMESTAMP, v INT) TAGS (g INT)",
        "CREATE TOPIC w AS SELECT ts, v FROM wide.s",
        "GRANT SUBSCRIBE ON w TO ann",
    ] {
        query(&root, sql).await;
    }
    let config = [("auto.offset.reset", "earliest")];
    let (hers, other) = (consumer(&ann, "g", &config), consumer(&root, "g", &config));
    hers.subscribe(["w"]).await.expect("her right");
    other.subscribe(["w"]).await.expect("root's right");
    let owners = || async {
        let shares = shares(&root, "g").await;
        shares.values().map(Vec::len).collect::<Vec<_>>()
    };
    wait_for("one vgroup each", || async { owners().await == [1, 1] }).await;

    query(&root, "REVOKE SUBSCRIBE ON w FROM ann").await;
    let taken = refusal(&hers, Duration::from_secs(10)).await;
    assert_eq!(taken.code(), Code::NoPrivilege);
    wait_for("both with the one that may read", || async { owners().await == [2] }).await;
    for n in 0..20 {
        query(&root, &format!("INSERT INTO wide.c{n} USING wide.s TAGS ({n}) VALUES (now, {n})")).await;
    }
    let mut rows = 0;
    while rows < 20 {
        let message = other.poll(Duration::from_secs(60)).await.expect("poll").expect("a message");
        rows += message.rows_len();
    }
    assert!(hers.poll(Duration::from_secs(2)).await.expect("told once").is_none());
    assert_eq!(query(&root, "SHOW CONSUMERS").await.len(), 2, "she is still a member");
    // And has her share again with the right.
    query(&root, "GRANT SUBSCRIBE ON w TO ann").await;
    wait_for("one vgroup each again", || async { owners().await == [1, 1] }).await;
    hers.close().await.expect("close");
    other.close().await.expect("close");
}
