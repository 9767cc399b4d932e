//! How long a consumer that joins a busy group waits for its first message.

use std::sync::Arc;
use std::time::Duration;

use client::{Connection, Consumer, ConsumerConfig};
use tokio::time::interval;

use super::Bench;
use crate::error::{Error, Result};
use crate::figures::{Latency, Line, note, now};
use crate::load::{Load, Schema};
use crate::peer::tidemark::{Tidemark, Topic};

const AIM_MS: f64 = 300.0;
const VGROUPS: u32 = 4;
const GROUP: &str = "joined";
/// One-row writes a second, of as many tables in turn: no vgroup is without for longer than some milliseconds.
const PER_SECOND: u32 = 1_000;
const TABLES: u64 = 64;
const POLL: Duration = Duration::from_millis(500);
/// A hand-over that takes so long has failed.
const LOST: Duration = Duration::from_secs(30);

/// Measures.
pub async fn run(bench: &Bench) -> Result<Line> {
    let server = Tidemark::start(&bench.tidemark)?;
    let connection = server.connect().await?;
    server.create(&connection, VGROUPS, Schema::Meters).await?;
    Topic::Stable.create(&connection).await?;
    let writer = server.writer(64).await?;
    // The tables are there before anybody joins.
    let one_row = Load { schema: Schema::Meters, tables: TABLES, writes: 1, rows: 1 };
    Load { writes: TABLES, ..one_row }.write(&writer, 0).await?;
    let writing = tokio::spawn(async move {
        let mut ticks = interval(Duration::from_secs(1) / PER_SECOND);
        for number in TABLES.. {
            ticks.tick().await;
            one_row.write(&writer, number).await?;
        }
        Ok::<(), Error>(())
    });

    let first = Arc::new(consumer(&connection)?);
    first.subscribe([Topic::Stable.name()]).await?;
    let polled = Arc::clone(&first);
    let polling = tokio::spawn(async move {
        loop {
            polled.poll(POLL).await?;
        }
        #[expect(unreachable_code, reason = "tells the type of what `?` answers")]
        Ok::<(), Error>(())
    });
    let mut times = Vec::new();
    for number in 0..u64::from(bench.rounds) * bench.amount(10) {
        owns(&first, usize::try_from(VGROUPS).unwrap_or(0)).await?;
        let second = consumer(&server.connect().await?)?;
        let started = now();
        second.subscribe([Topic::Stable.name()]).await?;
        let subscribed = started.elapsed();
        if second.poll(LOST).await?.is_none() {
            return Err(Error::Odd(format!("no message within {LOST:?} of joining")));
        }
        times.push(started.elapsed());
        note(&format!("join {number}: {subscribed:?} to its vgroups, {:?} to a message", started.elapsed()));
        second.close().await?;
    }
    if writing.is_finished() || polling.is_finished() {
        return Err(Error::Odd("the writer or the first consumer ended early".into()));
    }
    writing.abort();
    polling.abort();
    let joins = times.len();
    let worst = times.iter().max().map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    let p50 = Latency::of(times)?.p50_ms;
    Ok(Line {
        work: format!(
            "join to first message at the new owner, second consumer of {VGROUPS} vgroups, {PER_SECOND} one-row writes a second"
        ),
        ours: format!("median {p50:.0} ms, worst of {joins} {worst:.0} ms"),
        reference: "-".into(),
        ratio: "-".into(),
        aim: "< 300 ms",
        met: worst < AIM_MS,
    })
}

fn consumer(connection: &Connection) -> Result<Consumer> {
    let mut config = ConsumerConfig::new(GROUP);
    config.min_poll_rows = 1;
    Ok(connection.consumer(config)?)
}

/// Waits until the consumer has so many vgroups.
async fn owns(consumer: &Consumer, vgroups: usize) -> Result<()> {
    let started = now();
    while consumer.membership().vgroups.len() != vgroups {
        if started.elapsed() > LOST {
            return Err(Error::Odd(format!(
                "not {vgroups} vgroups after {LOST:?}: {:?}",
                consumer.membership()
            )));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
