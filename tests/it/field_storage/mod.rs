//! Cases from the field that are about storage: restarts, order of arrival, edges of INSERT, limits. Each test carries the
//! case's id; those of the log and of retention are in `field.rs`.

use std::collections::BTreeSet;

use client::{Connection, Error, FromValue, Message, Row};

use crate::support::{Server, connect, consumer, query, read_to_the_end, wait_for};

mod insert;
mod limits;
mod names;
mod order;
mod restart;

/// What one row holds.
type Pair = (i64, Option<i64>);

fn pair(row: Row<'_>) -> Pair {
    (row.get(0).expect("an instant"), row.get(1).expect("a number"))
}

async fn pairs(connection: &Connection, sql: &str) -> Vec<Pair> {
    query(connection, sql).await.iter().map(pair).collect()
}

/// The first column of an answer.
async fn column<T: FromValue>(connection: &Connection, sql: &str) -> Vec<T> {
    query(connection, sql)
        .await
        .iter()
        .map(|row| row.get(0).unwrap_or_else(|e| panic!("{sql}: {e}")))
        .collect()
}

/// What `sql` is refused with.
async fn refused(connection: &Connection, sql: &str) -> Error {
    match connection.sql(sql).await {
        Err(error) => error,
        Ok(result) => result.rows().await.err().unwrap_or_else(|| panic!("{sql} should fail")),
    }
}

/// Rows that `sql` says it has written.
async fn affected(connection: &Connection, sql: &str) -> u64 {
    connection.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")).affected_rows()
}

/// Everything in a topic, for a group of its own.
async fn consumed(connection: &Connection, topic: &str, group: &str) -> Vec<Message> {
    let parameters = [("auto.offset.reset", "earliest"), ("min.poll.rows", "1")];
    let consumer = consumer(connection, group, &parameters);
    consumer.subscribe([topic]).await.expect("subscribe");
    let messages = read_to_the_end(&consumer).await.expect("read");
    consumer.close().await.expect("close");
    messages
}

/// Each row of a topic's messages that shows an instant and a number.
fn delivered(messages: &[Message]) -> BTreeSet<Pair> {
    messages.iter().flat_map(Message::rows).map(pair).collect()
}

/// What may happen to rows, one after the other, without changing what a query answers.
#[derive(Clone, Copy, Debug)]
enum Passage {
    InMemory,
    Flushed,
    Compacted,
    Killed,
    Restarted,
}

const PASSAGES: [Passage; 5] =
    [Passage::InMemory, Passage::Flushed, Passage::Compacted, Passage::Killed, Passage::Restarted];

impl Passage {
    /// Puts the rows of `database` into this state; the connection to go on with.
    async fn take(self, server: &mut Server, connection: &Connection, database: &str) -> Connection {
        match self {
            Self::InMemory => {}
            Self::Flushed => drop(query(connection, &format!("FLUSH DATABASE {database}")).await),
            Self::Compacted => {
                query(connection, &format!("COMPACT DATABASE {database}")).await;
                wait_for("the compact is done", || async {
                    let shown = query(connection, "SHOW COMPACTS").await;
                    let state = |row: Row<'_>| row.by_name::<String>("status").expect("a status");
                    shown.iter().map(state).all(|state| state != "running" && state != "waiting")
                })
                .await;
            }
            Self::Killed => {
                server.kill();
                server.start_again();
                return connect(server).await;
            }
            Self::Restarted => {
                assert_eq!(server.terminate().code(), Some(0));
                server.start_again();
                return connect(server).await;
            }
        }
        connection.clone()
    }
}
