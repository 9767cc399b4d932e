//! C003, C006: a consumer that has lost its vgroups and does not know it. It speaks the protocol by hand, so that no
//! client library keeps it from anything.

use std::collections::BTreeMap;

use client::{Code, Connection};
use proto::status::{from_detail, from_status};
use proto::v1;
use proto::v1::consume_request::Action;
use proto::v1::consume_response::Event;
use tonic::Streaming;

use crate::support::{ByHand, Held, Server, connect, consumer, query, send, shares, wait_for};

const GROUP: &str = "g";
const ZOMBIE: u64 = 0x2041;

fn start(vgroup: u32, held: Held, generation: u64, position: Option<u64>) -> Action {
    let Held { topic, epoch } = held;
    let reset = v1::ResetPolicy::Earliest.into();
    Action::Start(v1::ConsumeStart { topic, vgroup, epoch, generation, position, reset })
}

/// The code of the next fault; messages before it are of generations in `allowed`.
async fn fault(stream: &mut Streaming<v1::ConsumeResponse>, allowed: &[u64]) -> (u64, Code) {
    loop {
        match stream.message().await.expect("the stream goes on").expect("and on").event.expect("an event") {
            Event::Fault(fault) => {
                return (fault.generation, from_detail(fault.error.expect("an error")).code());
            }
            Event::Message(message) => assert!(allowed.contains(&message.generation), "{message:?}"),
            Event::CaughtUp(_) | Event::Schema(_) => {}
        }
    }
}

async fn offsets(connection: &Connection) -> BTreeMap<i64, (Option<String>, Option<String>, i64)> {
    let rows = query(connection, "SHOW SUBSCRIPTIONS").await;
    rows.iter()
        .map(|row| {
            let told = (
                row.by_name("offset").unwrap(),
                row.by_name("committed").unwrap(),
                row.by_name("rows").unwrap(),
            );
            (row.by_name("vgroup_id").unwrap(), told)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn c006_rule_06_a_zombie_neither_commits_nor_reads_nor_reports() {
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 2").await;
    query(&connection, "CREATE STABLE d.s (ts TIMESTAMP, v INT) TAGS (n INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT ts, v FROM d.s").await;
    let mut zombie = ByHand::log_in(&server, ZOMBIE, GROUP).await;
    zombie.subscribe(&["t"]).await.expect("subscribed");
    let before = zombie.assigned(2).await;
    let (requests, mut stream) = zombie.consume().await;
    for (&vgroup, &held) in &before {
        send(&requests, start(vgroup, held, u64::from(vgroup), None)).await;
        zombie.commit(vgroup, held, 1, 1).await.expect("the owner commits");
    }

    // Another member takes one of the two; the zombie takes no notice.
    let heir =
        consumer(&connection, GROUP, &[("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")]);
    heir.subscribe(["t"]).await.expect("subscribe");
    wait_for("one vgroup each", || async {
        let shares = shares(&connection, GROUP).await;
        shares.len() == 2 && shares.values().all(|owned| owned.len() == 1) && !shares.contains_key(&None)
    })
    .await;
    let lost = heir.assignment("t").await.expect("assignment")[0].vgroup;
    let held = before[&lost];
    // What it was reading ends by itself, before any row that is written now.
    for n in 0..20 {
        query(&connection, &format!("INSERT INTO d.c{n} USING d.s TAGS ({n}) VALUES (now, {n})")).await;
    }
    let kept: Vec<u64> = before.keys().filter(|v| **v != lost).map(|v| u64::from(*v)).collect();
    assert_eq!(fault(&mut stream, &kept).await, (u64::from(lost), Code::ConsumerMismatch));
    // Nor may it start there again: from the committed offset, or by a seek.
    for (generation, position) in [(100, None), (101, Some(0))] {
        send(&requests, start(lost, held, generation, position)).await;
        assert_eq!(fault(&mut stream, &kept).await, (generation, Code::ConsumerMismatch));
    }
    assert_eq!(zombie.commit(lost, held, 900, 2).await, Err(Code::ConsumerMismatch));

    // The heir reads and commits; nothing that the zombie says changes what is shown of that.
    let mut rows = 0;
    while let Some(message) = heir.poll(std::time::Duration::from_secs(1)).await.expect("poll") {
        assert_eq!(message.vgroup(), lost);
        rows += i64::try_from(message.rows_len()).expect("few");
        heir.commit_sync(&message).await.expect("the owner commits");
    }
    assert!(rows > 0);
    wait_for("the heir's report", || async { offsets(&connection).await[&i64::from(lost)].2 == rows }).await;
    let told = offsets(&connection).await[&i64::from(lost)].clone();
    zombie.report(lost, held, 777, 777).await;
    assert_eq!(zombie.commit(lost, held, 1, 3).await, Err(Code::ConsumerMismatch));
    let still = offsets(&connection).await[&i64::from(lost)].clone();
    assert_eq!((still.1, still.2), (told.1, told.2), "committed offset and rows");
    assert!(still.0.is_some_and(|offset| !offset.contains("777")));

    // It gets the vgroup back, under another token: a report from its first life says nothing of the second.
    heir.close().await.expect("close");
    let again = zombie.assigned(2).await;
    assert!(again[&lost].epoch > held.epoch, "{again:?}");
    zombie.report(lost, held, 777, 777).await;
    let shown = offsets(&connection).await[&i64::from(lost)].clone();
    assert_eq!(shown.2, rows, "rows of its first life are not counted again");
    assert!(shown.0.is_none_or(|offset| !offset.contains("777")));
    assert_eq!(zombie.commit(lost, held, 1, 4).await, Err(Code::ConsumerMismatch));
    zombie.commit(lost, again[&lost], 5, 5).await.expect("with the new token");
    zombie.report(lost, again[&lost], 6, 1).await;
    let shown = offsets(&connection).await[&i64::from(lost)].clone();
    assert_eq!((shown.0.as_deref(), shown.2), (Some("wal:6/6"), rows + 1));
    // Nobody has read what the log does not hold.
    zombie.report(lost, again[&lost], 778, 9_000).await;
    assert_eq!(offsets(&connection).await[&i64::from(lost)], shown);
    // What is shown is never behind a commit, however long the next report takes.
    zombie.commit(lost, again[&lost], 8, 6).await.expect("its own");
    let shown = offsets(&connection).await[&i64::from(lost)].clone();
    assert_eq!((shown.0.as_deref(), shown.1.as_deref()), (Some("wal:8/8"), Some("wal:8")));
}

/// Why the stream ends; what was under way before is of no interest.
async fn end(stream: &mut Streaming<v1::ConsumeResponse>) -> Code {
    loop {
        match stream.message().await {
            Ok(event) => assert!(event.is_some(), "it ends without a reason"),
            Err(status) => return from_status(&status).code(),
        }
    }
}

/// A topic of more than a stream takes along while its client does not read; its one vgroup is the zombie's.
async fn much_to_read(server: &Server, connection: &Connection) -> (ByHand, u32, Held) {
    query(connection, "CREATE DATABASE d VGROUPS 1").await;
    query(connection, "CREATE TABLE d.n (ts TIMESTAMP, s VARCHAR(9000))").await;
    query(connection, "CREATE TOPIC t AS SELECT ts, s FROM d.n").await;
    let text = "x".repeat(8_000);
    for n in 0..40 {
        let first = 1_700_000_000_000_i64 + n * 50;
        let rows: String = (first..first + 50).map(|ts| format!(" ({ts}, '{text}')")).collect();
        query(connection, &format!("INSERT INTO d.n VALUES{rows}")).await;
    }
    let mut zombie = ByHand::log_in(server, ZOMBIE, GROUP).await;
    zombie.subscribe(&["t"]).await.expect("subscribed");
    let (vgroup, held) = zombie.assigned(1).await.pop_first().expect("one vgroup");
    (zombie, vgroup, held)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_has_one_stream() {
    let server = Server::start();
    let connection = connect(&server).await;
    let (mut zombie, vgroup, held) = much_to_read(&server, &connection).await;
    let (first_requests, mut first) = zombie.consume().await;
    send(&first_requests, start(vgroup, held, 1, None)).await;
    let (requests, mut second) = zombie.consume().await;
    assert_eq!(end(&mut first).await, Code::Terminated);
    send(&requests, start(vgroup, held, 2, None)).await;
    let event = second.message().await.expect("it goes on").expect("an event").event;
    assert!(matches!(event, Some(Event::Schema(_) | Event::Message(_))), "{event:?}");
    // Nor does the end of the first take the place of the second.
    drop((first_requests, first));
    let (_requests, _third) = zombie.consume().await;
    assert_eq!(end(&mut second).await, Code::Terminated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_nobody_reads_ends_with_its_consumer() {
    let server = Server::start();
    let connection = connect(&server).await;
    let (mut zombie, vgroup, held) = much_to_read(&server, &connection).await;
    let (requests, mut stream) = zombie.consume().await;
    send(&requests, start(vgroup, held, 1, None)).await;
    let event = stream.message().await.expect("it goes on").expect("an event").event;
    assert!(event.is_some(), "it has begun to read");
    zombie.subscribe(&[]).await.expect("left");
    assert_eq!(end(&mut stream).await, Code::ConsumerNotExist);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_session() {
    let server = Server::start();
    let connection = connect(&server).await;
    let (mut zombie, vgroup, held) = much_to_read(&server, &connection).await;
    let (requests, mut stream) = zombie.consume().await;
    send(&requests, start(vgroup, held, 1, None)).await;
    query(&connection, "ALTER USER root PASS 'Secret-12'").await;
    assert_eq!(end(&mut stream).await, Code::Terminated);
}
