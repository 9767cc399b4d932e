//! What TDengine's own tests check of subscriptions (tmq.md section 15), a test a row over the wire, named `s15_ROW_..`;
//! and what of the rules that its users learned the hard way (section 16) needs the whole server, named `rule_NUMBER_..`.
//!
//! [`table`] finds all of them, also those that stand elsewhere, by their numbers. Timeouts run on a clock that a test
//! moves (`Server::start_on_held_clock`).

mod contents;
mod groups;
mod liveness;
mod offsets;
mod replay;
mod rules;
mod schemas;
mod table;
mod topics;

use client::{Connection, Consumer, FromValue, Message};

use crate::support::{Server, connect, consumer, query, read_to_the_end, sql_refusal};

const START_MS: i64 = 1_700_000_000_000;

/// A super table with a child, and a normal table; columns and tags of two kinds.
const SCHEMA: [&str; 3] = [
    "CREATE STABLE d.st (ts TIMESTAMP, c1 INT, c2 VARCHAR(8)) TAGS (t1 INT, t2 VARCHAR(8))",
    "CREATE TABLE d.c USING d.st TAGS (1, 'one')",
    "CREATE TABLE d.n (ts TIMESTAMP, c1 INT, c2 VARCHAR(8))",
];

/// A server with database `d` of `options` and [`SCHEMA`].
async fn start(options: &str) -> (Server, Connection) {
    let server = Server::start();
    let connection = prepared(&server, options).await;
    (server, connection)
}

async fn prepared(server: &Server, options: &str) -> Connection {
    let connection = connect(server).await;
    query(&connection, &format!("CREATE DATABASE d {options}")).await;
    run(&connection, &SCHEMA).await;
    connection
}

async fn run(connection: &Connection, statements: &[&str]) {
    for statement in statements {
        query(connection, statement).await;
    }
}

/// The number of the code that a statement ends with: 0 is success.
async fn code(connection: &Connection, sql: &str) -> u16 {
    sql_refusal(connection, sql).await.map_or(0, |code| code.number())
}

fn code_of<T: std::fmt::Debug>(result: client::Result<T>) -> u16 {
    result.map_or_else(|error| error.code().number(), |_| 0)
}

/// One row of each child `d.w0`, `d.w1`, .. of `d.st`, made where it is missing, `c1` counting on from `first`; enough
/// children reach every vgroup.
async fn write(connection: &Connection, children: i64, first: i64) {
    let row = |n: i64| {
        let v = first + n;
        format!("d.w{n} USING d.st TAGS ({n}, 't{n}') VALUES ({}, {v}, 'r{v}')", START_MS + v)
    };
    let rows: Vec<_> = (0..children).map(row).collect();
    query(connection, &format!("INSERT INTO {}", rows.join(" "))).await;
}

/// A consumer that starts at the earliest record and commits by hand, less what `parameters` say.
async fn subscribed(
    connection: &Connection,
    group: &str,
    topics: &[&str],
    parameters: &[(&str, &str)],
) -> Consumer {
    let all = [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    let all: Vec<_> = all.into_iter().chain(parameters.iter().copied()).collect();
    let consumer = consumer(connection, group, &all);
    consumer.subscribe(topics.iter().copied()).await.expect("subscribe");
    consumer
}

/// All there is to deliver now.
async fn all(consumer: &Consumer) -> Vec<Message> {
    read_to_the_end(consumer).await.expect("poll")
}

/// One column of the rows, in their order.
fn column<T: FromValue>(messages: &[Message], name: &str) -> Vec<T> {
    messages.iter().flat_map(Message::rows).map(|row| row.by_name(name).expect(name)).collect()
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values
}

fn rows(messages: &[Message]) -> usize {
    messages.iter().map(Message::rows_len).sum()
}

/// Each row as text, its cells parted by commas.
fn texts(messages: &[Message]) -> Vec<String> {
    let text = |row: client::Row<'_>| row.values().map(|v| v.to_string()).collect::<Vec<_>>().join(",");
    messages.iter().flat_map(Message::rows).map(text).collect()
}

/// A cell of SHOW SUBSCRIPTIONS in every row of this group.
async fn subscriptions<T: FromValue>(connection: &Connection, group: &str, column: &str) -> Vec<T> {
    let rows = query(connection, "SHOW SUBSCRIPTIONS").await;
    let of_group = |row: &client::Row<'_>| row.by_name::<String>("consumer_group").expect("a group") == group;
    rows.iter().filter(of_group).map(|row| row.by_name(column).expect(column)).collect()
}
