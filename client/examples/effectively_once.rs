//! Rows of a topic in SQLite, each of them once, whatever is killed when.
//!
//! The sink keeps the offset: a message's rows and where it ends are one transaction of SQLite. So the sink says where to go
//! on, and a message that it has already is not written again. What the group has committed at the server only serves to
//! begin near that place, and to show how far the group is.
//!
//! `cargo run -p tidemark-client --example effectively_once -- HOST:PORT TOPIC GROUP FILE` reads `tbname`, `ts` and a whole
//! number from a query topic until nothing comes any more. The integration tests kill it over and over.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::collections::HashMap;
use std::time::Duration;

use client::{
    AutoOffsetReset, Code, ConnectOptions, Connection, Consumer, ConsumerConfig, Error, Message, Result,
};
use rusqlite::{OptionalExtension as _, TransactionBehavior, params};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, topic, group, file] = &arguments[..] else {
        return Err(Error::with(Code::InvalidParameters, "HOST:PORT TOPIC GROUP FILE"));
    };
    let connection =
        Connection::connect(ConnectOptions { host: host.clone(), ..ConnectOptions::default() }).await?;
    let mut config = ConsumerConfig::new(group.as_str());
    // A sink that knows of no offset begins at the beginning; what it knows, it seeks.
    config.auto_offset_reset = AutoOffsetReset::Earliest;
    config.enable_auto_commit = false;
    // Small messages, so that there is much to interrupt.
    config.min_poll_rows = 1;
    config.session_timeout_ms = 6_000;
    config.heartbeat_interval_ms = 1_000;
    let consumer = connection.consumer(config)?;
    consumer.subscribe([topic.as_str()]).await?;
    copy(&consumer, topic, &mut Sink::open(file)?).await?;
    consumer.close().await
}

/// What is known of a vgroup: under which assignment, and where the sink stood when this process last looked.
#[derive(Clone, Copy)]
struct Known {
    epoch: u64,
    next: Option<i64>,
}

async fn copy(consumer: &Consumer, topic: &str, sink: &mut Sink) -> Result<()> {
    let mut known: HashMap<u32, Known> = HashMap::new();
    loop {
        let Some(message) = consumer.poll(Duration::from_secs(1)).await? else {
            if consumer.is_reading() {
                continue;
            }
            return Ok(());
        };
        let (vgroup, epoch) = (message.vgroup(), message.epoch());
        let before = known.get(&vgroup).filter(|known| known.epoch == epoch);
        let next = match before {
            Some(known) => known.next,
            // The vgroup has just become this process's: the sink says where to go on.
            None => {
                let next = sink.next(topic, vgroup)?;
                known.insert(vgroup, Known { epoch, next });
                if next.is_some_and(|next| next != message.begin()) {
                    seek(consumer, topic, vgroup, next)?;
                    continue;
                }
                next
            }
        };
        println!("store vgroup={vgroup} next={}", message.next());
        match sink.store(topic, &message, next)? {
            Stored::Yes => {
                known.insert(vgroup, Known { epoch, next: Some(message.next()) });
                println!("stored vgroup={vgroup} next={}", message.next());
                match consumer.commit_sync(&message).await {
                    // Another member has it now: it begins at what the sink says.
                    Err(error) if is_of_others(&error) => drop(known.remove(&vgroup)),
                    committed => committed?,
                }
                println!("committed vgroup={vgroup} next={}", message.next());
            }
            // Another process has written since, which had the vgroup before or has it now.
            Stored::Moved(next) => {
                known.insert(vgroup, Known { epoch, next });
                seek(consumer, topic, vgroup, next)?;
            }
        }
    }
}

fn is_of_others(error: &Error) -> bool {
    matches!(error.code(), Code::ConsumerMismatch | Code::VgroupNotAssigned | Code::TopicNotAssigned)
}

fn seek(consumer: &Consumer, topic: &str, vgroup: u32, next: Option<i64>) -> Result<()> {
    match next.map_or(Ok(()), |next| consumer.seek(topic, vgroup, next)) {
        Err(error) if is_of_others(&error) => Ok(()),
        sought => sought,
    }
}

/// Where rows go.
struct Sink {
    db: rusqlite::Connection,
}

/// How storing a message ended.
enum Stored {
    Yes,
    /// The sink is not where it was when this process last looked, but here; nothing is written.
    Moved(Option<i64>),
}

impl Sink {
    fn open(file: &str) -> Result<Self> {
        let db = rusqlite::Connection::open(file).map_err(of_sink)?;
        db.busy_timeout(Duration::from_secs(10)).map_err(of_sink)?;
        // No key on the readings: a row that came twice would be there twice.
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS readings (tbname TEXT, ts INTEGER, value INTEGER);
             CREATE TABLE IF NOT EXISTS offsets (
                 topic TEXT, vgroup INTEGER, next INTEGER, PRIMARY KEY (topic, vgroup));",
        )
        .map_err(of_sink)?;
        Ok(Self { db })
    }

    /// The version that the sink goes on with.
    fn next(&self, topic: &str, vgroup: u32) -> Result<Option<i64>> {
        next(&self.db, topic, vgroup)
    }

    /// Writes a message's rows and where it ends, in one transaction and only if the sink still stands at `expected`.
    fn store(&mut self, topic: &str, message: &Message, expected: Option<i64>) -> Result<Stored> {
        let transaction =
            self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of_sink)?;
        let stands = next(&transaction, topic, message.vgroup())?;
        if stands != expected {
            return Ok(Stored::Moved(stands));
        }
        for row in message.rows() {
            let (table, value): (String, i64) = (row.get(0)?, row.get(2)?);
            let client::Value::Timestamp(ts) = row.value(1) else {
                return Err(Error::with(Code::WrongValueType, "the second column is the time"));
            };
            transaction
                .execute("INSERT INTO readings VALUES (?1, ?2, ?3)", params![table, ts, value])
                .map_err(of_sink)?;
        }
        transaction
            .execute(
                "INSERT INTO offsets VALUES (?1, ?2, ?3)
                 ON CONFLICT (topic, vgroup) DO UPDATE SET next = excluded.next",
                params![topic, message.vgroup(), message.next()],
            )
            .map_err(of_sink)?;
        transaction.commit().map_err(of_sink)?;
        Ok(Stored::Yes)
    }
}

fn next(db: &rusqlite::Connection, topic: &str, vgroup: u32) -> Result<Option<i64>> {
    db.query_row("SELECT next FROM offsets WHERE topic = ?1 AND vgroup = ?2", params![topic, vgroup], |row| {
        row.get(0)
    })
    .optional()
    .map_err(of_sink)
}

fn of_sink(error: rusqlite::Error) -> Error {
    Error::text(Code::Io, format!("sink: {error}")).caused_by(error)
}
