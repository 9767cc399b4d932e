//! Starts after a crash.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use client::{Code, ConnectOptions, Connection, RetryPolicy};

use crate::support::{Server, connect, number, query, wait_for};

const LIVE: i64 = 20;

/// Asks how many rows there are, as one who has just come. `None` where nobody answers.
async fn ask(address: &str) -> Option<i64> {
    let options =
        ConnectOptions { host: address.to_owned(), retry: RetryPolicy::never(), ..ConnectOptions::default() };
    let answer = async {
        let connection = Connection::connect(options).await?;
        connection.sql("SELECT COUNT(*) FROM d.live").await?.rows().await
    };
    match answer.await {
        Ok(rows) => Some(rows.iter().next().expect("a row").get(0).expect("a number")),
        Err(error) => {
            let told = matches!(error.code(), Code::Unreachable | Code::ShuttingDown);
            assert!(told, "neither an answer nor that it is starting: {error}");
            None
        }
    }
}

/// C082: a super table with many children is dropped before a crash. From then on whoever comes is either told that
/// nobody is there or gets the right answer, and the ready line means the second. 10,000 children, a twentieth of the case's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c082_ready_means_that_queries_are_answered() {
    const CHILDREN: usize = 10_000;
    let mut server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    for name in ["live", "gone"] {
        query(&connection, &format!("CREATE STABLE d.{name} (ts TIMESTAMP, v INT) TAGS (n INT)")).await;
    }
    for child in 0..LIVE {
        let sql =
            format!("INSERT INTO d.l{child} USING d.live TAGS ({child}) VALUES (1700000000000, {child})");
        query(&connection, &sql).await;
    }
    for chunk in (0..CHILDREN).collect::<Vec<_>>().chunks(2_500) {
        let mut sql = "CREATE TABLE".to_owned();
        for child in chunk {
            write!(sql, " d.g{child} USING d.gone TAGS ({child})").unwrap();
        }
        query(&connection, &sql).await;
    }
    assert_eq!(number(&connection, "SELECT COUNT(*) FROM (SELECT DISTINCT tbname FROM d.live)").await, LIVE);
    query(&connection, "DROP STABLE d.gone").await;

    let (stop, answers, refusals) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let guest = tokio::spawn({
        let address = server.address().to_owned();
        let (stop, answers, refusals) = (Arc::clone(&stop), Arc::clone(&answers), Arc::clone(&refusals));
        async move {
            while !stop.load(Ordering::Relaxed) {
                match ask(&address).await {
                    Some(rows) => {
                        assert_eq!(rows, LIVE, "a half answer");
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                    None => drop(refusals.fetch_add(1, Ordering::Relaxed)),
                }
            }
        }
    });
    for _ in 0..3 {
        let before = answers.load(Ordering::Relaxed);
        wait_for("an answer between two starts", || async {
            answers.load(Ordering::Relaxed) > before || guest.is_finished()
        })
        .await;
        let started = Instant::now();
        server.kill_and_restart_on_the_same_port();
        eprintln!("ready after {:?}", started.elapsed());
        assert_eq!(ask(server.address()).await, Some(LIVE), "ready, and no answer");
    }
    stop.store(true, Ordering::Relaxed);
    guest.await.expect("whoever came got a right answer or none");
    assert!(refusals.load(Ordering::Relaxed) > 0, "somebody came while nobody was there");
    let connection = connect(&server).await;
    assert_eq!(query(&connection, "SHOW d.TABLES").await.len() as i64, LIVE, "what was dropped is gone");
}
