//! What tests ask of a server through the SDK.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use client::{Code, ConnectOptions, Connection, Consumer, ConsumerConfig, Message, Rows};

use super::{PATIENCE, Server};

/// A connection to the server.
pub async fn connect(server: &Server) -> Connection {
    let options = ConnectOptions { host: server.address().to_owned(), ..ConnectOptions::default() };
    Connection::connect(options).await.expect("the server answers")
}

/// All rows of a statement that must succeed.
pub async fn query(connection: &Connection, sql: &str) -> Rows {
    let result = connection.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    result.rows().await.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// What `sql` is refused with; `None` where it is not.
pub async fn sql_refusal(connection: &Connection, sql: &str) -> Option<Code> {
    match connection.sql(sql).await {
        Ok(result) => result.rows().await.err().map(|error| error.code()),
        Err(error) => Some(error.code()),
    }
}

/// The whole number that a query of one row and column answers with.
pub async fn number(connection: &Connection, sql: &str) -> i64 {
    query(connection, sql).await.iter().next().expect("a row").get(0).expect("a number")
}

/// A consumer of `group` with the shortest timeouts there are, and these parameters.
pub fn consumer(connection: &Connection, group: &str, parameters: &[(&str, &str)]) -> Consumer {
    let mut config = ConsumerConfig::new(group);
    let shortest = [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "1000")];
    for (key, value) in shortest.iter().chain(parameters) {
        config.set(key, value).unwrap_or_else(|e| panic!("{key}={value}: {e}"));
    }
    connection.consumer(config).expect("a consumer")
}

/// Polls until nothing came for `quiet`; the messages.
pub async fn drain(consumer: &Consumer, quiet: Duration) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(message) = consumer.poll(quiet).await.expect("poll") {
        messages.push(message);
    }
    messages
}

/// One look.
const LOOK: Duration = Duration::from_millis(150);
/// Looks in vain after which nothing more is expected of a topic that has nothing to read and so stands still.
const LOOKS_MAX: u32 = 6;

/// Everything there is to deliver now: polls until each vgroup was read up to where its log ended at the start.
pub async fn read_to_the_end(consumer: &Consumer) -> Result<Vec<Message>, client::Error> {
    let mut ends = Vec::new();
    for topic in consumer.subscription() {
        for part in consumer.assignment(&topic).await? {
            ends.push((topic.clone(), part.vgroup, part.end));
        }
    }
    let mut messages = Vec::new();
    let mut looks = 0;
    loop {
        match consumer.poll(LOOK).await? {
            Some(message) => {
                messages.push(message);
                looks = 0;
            }
            None => {
                looks += 1;
                let is_read = |(topic, vgroup, end): &(String, u32, i64)| {
                    consumer.position(topic, *vgroup).is_ok_and(|position| position >= *end)
                };
                if looks >= LOOKS_MAX || ends.iter().all(is_read) {
                    return Ok(messages);
                }
            }
        }
    }
}

/// Polls a consumer that gets no rows until it is told why.
pub async fn refusal(consumer: &Consumer, timeout: Duration) -> client::Error {
    for _ in 0..10 {
        match consumer.poll(timeout).await {
            Err(error) => return error,
            Ok(message) => assert!(message.is_none(), "{message:?}"),
        }
    }
    panic!("polled in vain for an error");
}

/// Looks until `done` holds. The bound is for a hang, not a measurement.
pub async fn wait_for<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let started = Instant::now();
    while !done().await {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Vgroups of a group by owner; `None` owns what nobody does.
pub type Shares = BTreeMap<Option<String>, Vec<i64>>;

/// Who owns what, as SHOW SUBSCRIPTIONS tells.
pub async fn shares(connection: &Connection, group: &str) -> Shares {
    let mut shares = Shares::new();
    for row in query(connection, "SHOW SUBSCRIPTIONS").await.iter() {
        if row.by_name::<String>("consumer_group").expect("consumer_group") == group {
            let owner = row.by_name("consumer_id").expect("consumer_id");
            shares.entry(owner).or_default().push(row.by_name("vgroup_id").expect("vgroup_id"));
        }
    }
    shares
}
