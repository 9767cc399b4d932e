//! Cases from the field, of replay, on a clock that the test moves. A minute stands for a second of the case, so that no
//! machine is slow enough to get there by itself. Each test carries the case's id.

use std::process::{Child, Stdio};
use std::time::Duration;

use client::{Connection, Consumer, Message};
use proto::v1;
use proto::v1::consume_request::Action;
use proto::v1::consume_response::Event;

use crate::support::one_table::values;
use crate::support::{
    ByHand, PATIENCE, Server, connect, consumer, number, patient, query, send, tidemark, wait_for,
};

const MINUTE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// 2024-03-09T06:30:00Z
const HALF_PAST_SIX_MS: i64 = 1_709_965_800_000;

/// A super table in one vgroup behind a topic. No check of consumers is due, however far the clock is moved.
async fn start() -> (Server, Connection) {
    let server = Server::start_on_held_clock();
    let connection = connect(&server).await;
    for statement in [
        "ALTER ALL DNODES 'mqRebalanceInterval' '10000'",
        "CREATE DATABASE d VGROUPS 1",
        "CREATE STABLE d.s (ts TIMESTAMP, v BIGINT) TAGS (n INT)",
        "CREATE TOPIC t AS SELECT ts, v FROM d.s",
    ] {
        query(&connection, statement).await;
    }
    (server, connection)
}

async fn replaying(connection: &Connection, group: &str) -> Consumer {
    let consumer =
        consumer(connection, group, &[("enable.replay", "true"), ("auto.offset.reset", "earliest")]);
    consumer.subscribe(["t"]).await.expect("subscribe");
    consumer
}

async fn next(consumer: &Consumer) -> Message {
    consumer.poll(PATIENCE).await.expect("poll").expect("a message")
}

/// C061: the pauses of the writes come back, the first row at once; polls in a pause are empty, and ask nothing of the
/// server: a consumer that reads a tape knows that something is still to come.
#[tokio::test(flavor = "multi_thread")]
async fn c061_rows_come_back_at_their_pace() {
    let (server, connection) = start().await;
    let pauses = [4, 7];
    for (at, v) in [0, 4, 11].into_iter().zip(0..) {
        if v > 0 {
            server.advance(pauses[v as usize - 1] * MINUTE);
        }
        let ts = HALF_PAST_SIX_MS + at * 1_000;
        query(&connection, &format!("INSERT INTO d.c USING d.s TAGS (1) VALUES ({ts}, {v})")).await;
    }
    let tape = replaying(&connection, "g").await;
    assert_eq!(values(&[next(&tape).await]), [0], "at once");
    for (pause, v) in pauses.into_iter().zip(1..) {
        for minute in 0..pause {
            assert!(tape.poll(LOOK).await.expect("poll").is_none(), "minute {minute} of {pause}");
            assert!(tape.is_reading(), "a pause is no end");
            server.advance(MINUTE);
        }
        assert_eq!(values(&[next(&tape).await]), [v], "after {pause} minutes");
    }
    wait_for("the tape is at its end", || async {
        assert!(tape.poll(LOOK).await.expect("poll").is_none());
        !tape.is_reading()
    })
    .await;
    tape.close().await.expect("close");
}

/// C063: rows of one instant in a hundred tables come in the order of their writing, each time.
#[tokio::test(flavor = "multi_thread")]
async fn c063_rows_of_one_instant_keep_their_order() {
    let (server, connection) = start().await;
    for second in 0..2 {
        if second > 0 {
            server.advance(MINUTE);
        }
        let ts = HALF_PAST_SIX_MS + second * 1_000;
        // Written from the last table to the first, ten a statement.
        for tens in (0..10).rev() {
            let row = |n: i64| format!("d.c{n} USING d.s TAGS ({n}) VALUES ({ts}, {})", second * 100 + n);
            let rows: Vec<_> = (tens * 10..tens * 10 + 10).rev().map(row).collect();
            query(&connection, &format!("INSERT INTO {}", rows.join(" "))).await;
        }
    }
    let mut runs = Vec::new();
    for run in 0..5 {
        let tape = replaying(&connection, &format!("g{run}")).await;
        let mut rows = Vec::new();
        for second in 0..2 {
            while rows.len() < 100 * (second + 1) {
                let message = next(&tape).await;
                assert_eq!(message.rows_len(), 10, "a write a message");
                rows.extend(values(&[message]));
            }
            let together: std::collections::BTreeSet<_> =
                rows[100 * second..].iter().map(|v| v / 100).collect();
            assert_eq!(together, [second as i64].into(), "run {run}");
            assert!(tape.poll(LOOK).await.expect("poll").is_none(), "run {run}: nothing before its time");
            server.advance(MINUTE);
        }
        tape.close().await.expect("close");
        runs.push(rows);
    }
    let tens: Vec<_> = runs[0].chunks(10).map(|write| write[0] / 10).collect();
    let wanted: Vec<i64> = (0..10).rev().chain((10..20).rev()).collect();
    assert_eq!(tens, wanted, "the order of writing");
    assert!(runs.windows(2).all(|pair| pair[0] == pair[1]), "each time the same");
}

fn replay_process(server: &Server, group: &str) -> Child {
    tidemark()
        .args(["subscribe", "t", "-g", group, "--replay", "--from", "earliest", "-h", server.address()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a consumer process")
}

/// Memory of the server that is resident, in kB.
fn resident_kb(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("its status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).expect("kB").parse().expect("a number")
}

/// C066: replay consumers that are killed leave nothing that grows. 24 processes for 50, eight at a time, so that the test
/// takes seconds; they are killed once they read, and the session timeouts pass on the clock. A group itself stays listed
/// without members until it is dropped, as every group does (tmq.md section 8).
#[tokio::test(flavor = "multi_thread")]
async fn c066_killed_replay_consumers_leave_no_members() {
    const ROUNDS: usize = 3;
    const EACH: usize = 8;
    let (mut server, connection) = start().await;
    query(&connection, "ALTER ALL DNODES 'mqRebalanceInterval' '2'").await;
    for v in 0..2 {
        query(
            &connection,
            &format!("INSERT INTO d.c USING d.s TAGS (1) VALUES ({}, {v})", HALF_PAST_SIX_MS + v),
        )
        .await;
        server.advance(30 * MINUTE);
    }
    let consumers =
        async || number(&connection, "SELECT COUNT(*) FROM performance_schema.perf_consumers").await;
    let mut memory = Vec::new();
    for round in 0..ROUNDS {
        let mut processes: Vec<_> =
            (0..EACH).map(|n| replay_process(&server, &format!("g{round}_{n}"))).collect();
        wait_for("all of them are members", || async { consumers().await == EACH as i64 }).await;
        for process in &mut processes {
            process.kill().expect("killed");
            process.wait().expect("waited for");
        }
        wait_for("all of them are gone", || async {
            server.advance(Duration::from_secs(24));
            consumers().await == 0
        })
        .await;
        memory.push(resident_kb(&server));
    }
    let owned = "SELECT COUNT(*) FROM information_schema.ins_subscriptions WHERE consumer_id IS NOT NULL";
    assert_eq!(number(&connection, owned).await, 0, "and own nothing");
    // A consumer's readers, streams and messages in memory are megabytes; what a group leaves listed is not.
    assert!(memory[ROUNDS - 1] < memory[0] + 32 * 1024, "{memory:?} kB");
    server.kill();
    server.start_again();
    let connection = connect(&server).await;
    assert!(query(&connection, "SHOW CONSUMERS").await.is_empty());
    for round in 0..ROUNDS {
        for n in 0..EACH {
            query(&connection, &format!("DROP CONSUMER GROUP g{round}_{n} ON t")).await;
        }
    }
    assert!(query(&connection, "SHOW SUBSCRIPTIONS").await.is_empty());
}

/// C068: a tape with pauses that are longer than the session timeout and the longest time between polls: who beats and polls
/// all the while stays, and the tape does not start over.
#[tokio::test(flavor = "multi_thread")]
async fn c068_a_pause_of_the_tape_is_no_absence() {
    const PAUSE: Duration = Duration::from_secs(30);
    const BEAT: Duration = Duration::from_secs(6);
    let (server, connection) = start().await;
    query(&connection, "ALTER ALL DNODES 'mqRebalanceInterval' '2'").await;
    for v in 0..3 {
        if v > 0 {
            server.advance(PAUSE);
        }
        query(
            &connection,
            &format!("INSERT INTO d.c USING d.s TAGS (1) VALUES ({}, {v})", HALF_PAST_SIX_MS + v),
        )
        .await;
    }
    let mut tape = ByHand::log_in(&server, 1, "g").await;
    let short = v1::ConsumerParameters {
        session_timeout_ms: 12_000,
        max_poll_interval_ms: 10_000,
        replay: true,
        ..patient()
    };
    tape.subscribe_with(&["t"], short).await.expect("subscribed");
    let (vgroup, held) = tape.assigned(1).await.pop_first().expect("the vgroup");
    let (requests, mut stream) =
        tape.consume_with(v1::ConsumeOpen { replay: true, ..v1::ConsumeOpen::default() }).await;
    let start = v1::ConsumeStart {
        topic: held.topic,
        vgroup,
        epoch: held.epoch,
        generation: 1,
        position: None,
        reset: v1::ResetPolicy::Earliest.into(),
    };
    send(&requests, Action::Start(start)).await;
    let mut rows = Vec::new();
    for v in 0..3_u32 {
        if v > 0 {
            let mut passed = Duration::ZERO;
            while passed < PAUSE {
                tape.beat(true).await.expect("still a member");
                server.advance(BEAT);
                passed += BEAT;
            }
        }
        loop {
            match stream.message().await.expect("the stream goes on").expect("a message").event {
                Some(Event::Message(message)) => {
                    rows.extend(message.blocks.iter().map(|block| (message.begin, block.rows)));
                    break;
                }
                Some(Event::Schema(_) | Event::CaughtUp(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(rows.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [1, 1, 1]);
    assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "each row once, onwards: {rows:?}");
    assert_eq!(query(&connection, "SHOW CONSUMERS").await.len(), 1);
}
