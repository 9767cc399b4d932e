//! Time from before a write is sent to after it was delivered, at a rate that keeps nothing busy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use client::{ConsumerConfig, Value, Writer};
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::time::{Interval, interval};

use super::Bench;
use crate::error::{Error, Result};
use crate::figures::{Latency, Line, Meter, count, note, now};
use crate::load::{ROW_BYTES, Schema, instant};
use crate::peer::nats::{self, NAME, Nats, STREAM};
use crate::peer::reference::{Client, Reference};
use crate::peer::tidemark::{Tidemark, Topic};

const AIM_P50: f64 = 2.0;
const AIM_P99: f64 = 4.0;
const PER_SECOND: u32 = 1_000;
/// Delivered before anything is counted, so that nothing is measured cold.
const WARM_UP: u64 = 200;
/// Poll timeout: a latency of a queue is only told with it.
const POLL: Duration = Duration::from_secs(1);
/// What does not come within this does not come.
const LOST: Duration = Duration::from_secs(20);
const ECHO_BYTES: usize = 64;

/// When each was sent, by its number.
type Sent = Arc<Mutex<Vec<Instant>>>;

/// Latencies of one peer, round by round, and CPU seconds of its server for each second of load.
#[derive(Default)]
struct Rounds {
    latencies: Vec<Latency>,
    cpu_shares: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, (times, cpu_share): (Vec<Duration>, f64)) -> Result<()> {
        self.latencies.push(Latency::of(times)?);
        self.cpu_shares.push(cpu_share);
        Ok(())
    }

    fn shown(&self) -> String {
        let Latency { p50_ms, p99_ms } = self.latency();
        let share = crate::figures::median(self.cpu_shares.iter().copied()) * 100.0;
        format!("{p50_ms:.3} / {p99_ms:.3} ms ({share:.0} % of a core)")
    }

    fn last_shown(&self) -> String {
        let last = self.latencies.last();
        last.map_or_else(String::new, |l| format!("{:.3} / {:.3} ms", l.p50_ms, l.p99_ms))
    }

    fn latency(&self) -> Latency {
        Latency::median(&self.latencies)
    }
}

/// Measures; a row for each kind of topic.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let server = Tidemark::start(&bench.tidemark)?;
    let connection = server.connect().await?;
    server.create(&connection, 1, Schema::Meters).await?;
    for topic in Topic::ALL {
        topic.create(&connection).await?;
    }
    let writer = Arc::new(server.writer(64).await?);
    let nats = Nats::start().await?;
    let context = nats.connect(super::publish::IN_FLIGHT).await?;
    let stream = nats.create(&context).await?;
    let reference = Reference::start()?;
    let bare = reference.connect().await?;

    let total = WARM_UP + bench.amount(10 * u64::from(PER_SECOND));
    let mut echo = Rounds::default();
    let mut echo_paced = Rounds::default();
    let mut by_nats = Rounds::default();
    let mut by_topic = Topic::ALL.map(|topic| (topic, Rounds::default()));
    let mut first_row = 0;
    for round in 0..bench.rounds {
        echo.add(round_trips(&reference, bare.clone(), total, false).await?)?;
        for (topic, rounds) in &mut by_topic {
            rounds.add(deliveries(&server, &writer, *topic, first_row, total).await?)?;
            first_row += total;
        }
        by_nats.add(deliveries_of_nats(&nats, &context, &stream, total).await?)?;
        echo_paced.add(round_trips(&reference, bare.clone(), total, true).await?)?;
        let told = by_topic.iter().map(|(topic, rounds)| (topic.kind(), rounds));
        let told = told.chain([("bare", &echo), ("bare, paced", &echo_paced), ("NATS", &by_nats)]);
        let told: Vec<_> = told.map(|(name, rounds)| format!("{name} {}", rounds.last_shown())).collect();
        note(&format!("round {round}: {}", told.join("; ")));
    }
    Ok(by_topic.iter().map(|(topic, rounds)| line(*topic, rounds, &echo, &echo_paced, &by_nats)).collect())
}

fn line(topic: Topic, ours: &Rounds, echo: &Rounds, echo_paced: &Rounds, by_nats: &Rounds) -> Line {
    let against = |theirs: &Rounds| Latency::ratio(&ours.latencies, &theirs.latencies);
    let ((p50, p99), (p50_paced, p99_paced), (p50_nats, _)) =
        (against(echo), against(echo_paced), against(by_nats));
    Line {
        work: format!(
            "write to delivery, {PER_SECOND} one-row writes a second, {} topic, poll timeout {POLL:?}: p50 / p99",
            topic.kind()
        ),
        ours: ours.shown(),
        reference: format!(
            "tonic round trip of {ECHO_BYTES} bytes, one after the other: {}; at the same {PER_SECOND}/s: {}; \
             NATS, {ROW_BYTES} bytes: {}",
            echo.shown(),
            echo_paced.shown(),
            by_nats.shown()
        ),
        ratio: format!(
            "{p50:.2} / {p99:.2} of the round trip, {p50_paced:.2} / {p99_paced:.2} of that at the same rate, \
             {p50_nats:.2} of NATS' p50"
        ),
        aim: "<= 2 / <= 4, < 1",
        met: p50 <= AIM_P50 && p99 <= AIM_P99 && p50_nats < 1.0,
    }
}

async fn round_trips(
    reference: &Reference,
    mut bare: Client,
    total: u64,
    paced: bool,
) -> Result<(Vec<Duration>, f64)> {
    let mut ticks = ticks();
    let payload = Bytes::from(vec![0x5a; ECHO_BYTES]);
    let meter = Meter::start(&reference.process)?;
    let mut times = Vec::new();
    for number in 0..total {
        if paced {
            ticks.tick().await;
        }
        let started = now();
        bare.echo(payload.clone()).await?;
        if number >= WARM_UP {
            times.push(started.elapsed());
        }
    }
    let cost = meter.stop()?;
    Ok((times, cost.cpu_s / cost.seconds))
}

async fn deliveries(
    server: &Tidemark,
    writer: &Arc<Writer>,
    topic: Topic,
    first_row: u64,
    total: u64,
) -> Result<(Vec<Duration>, f64)> {
    let mut config = ConsumerConfig::new(format!("latency{first_row}"));
    config.min_poll_rows = 1;
    let consumer = server.connect().await?.consumer(config)?;
    consumer.subscribe([topic.name()]).await?;
    // Resolves `latest`: what is written from here on is delivered.
    consumer.poll(Duration::from_millis(200)).await?;
    let meter = Meter::start(&server.process)?;
    let sent = Sent::default();
    let writing = tokio::spawn(write(Arc::clone(writer), first_row, total, Arc::clone(&sent)));
    let (mut times, mut seen, mut last) = (Vec::new(), 0, now());
    while seen < total {
        let Some(message) = consumer.poll(POLL).await? else {
            // A write that failed says why.
            if last.elapsed() > LOST {
                writing.abort();
                return Err(Error::Odd(format!("{seen} of {total} rows came: {:?}", writing.await)));
            }
            continue;
        };
        last = now();
        for row in message.rows() {
            let ts: i64 = row.by_name("ts")?;
            take_time(&sent, number_of(ts, first_row)?, last, &mut times)?;
            seen += 1;
        }
    }
    let cost = meter.stop()?;
    writing.await??;
    consumer.close().await?;
    Ok((times, cost.cpu_s / cost.seconds))
}

/// Which write of this turn a row is from.
fn number_of(ts: i64, first_row: u64) -> Result<u64> {
    let number = u64::try_from((ts - instant(first_row)) / (instant(1) - instant(0)));
    number.map_err(|_| Error::Odd(format!("a row of another turn came: ts={ts}")))
}

fn take_time(sent: &Sent, number: u64, arrived: Instant, times: &mut Vec<Duration>) -> Result<()> {
    let started = usize::try_from(number).ok().and_then(|number| sent.lock().get(number).copied());
    let started = started.ok_or_else(|| Error::Odd(format!("number {number} came, and was not sent")))?;
    if number >= WARM_UP {
        times.push(arrived.duration_since(started));
    }
    Ok(())
}

async fn write(writer: Arc<Writer>, first_row: u64, total: u64, sent: Sent) -> Result<()> {
    let mut ticks = ticks();
    for number in 0..total {
        ticks.tick().await;
        let mut batch = writer.batch()?;
        let table = batch.child("d0", &[Value::Int(0)])?;
        let ts = Value::Timestamp(instant(first_row + number));
        batch.push(table, &[ts, Value::Float(10.3), Value::Int(220), Value::Float(0.31)])?;
        sent.lock().push(now());
        writer.write(batch).await?;
    }
    writer.flush().await?;
    Ok(())
}

async fn deliveries_of_nats(
    nats: &Nats,
    context: &Context,
    stream: &Stream,
    total: u64,
) -> Result<(Vec<Duration>, f64)> {
    let consumer = nats::pull_consumer(stream, AckPolicy::None, DeliverPolicy::New).await?;
    let mut messages = consumer.messages().await.map_err(Error::peer(NAME))?;
    let meter = Meter::start(&nats.process)?;
    let sent = Sent::default();
    let publishing = tokio::spawn(publish(context.clone(), total, Arc::clone(&sent)));
    let mut times = Vec::new();
    for _ in 0..total {
        let message = tokio::time::timeout(LOST, messages.next()).await;
        let message =
            message.ok().flatten().ok_or_else(|| Error::Odd("a message of NATS did not come".into()))?;
        let arrived = now();
        let payload = message.map_err(Error::peer(NAME))?.payload.clone();
        let number = payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let number = number.ok_or_else(|| Error::Odd("a message of NATS without a number".into()))?;
        take_time(&sent, number, arrived, &mut times)?;
    }
    let cost = meter.stop()?;
    publishing.await??;
    Ok((times, cost.cpu_s / cost.seconds))
}

async fn publish(context: Context, total: u64, sent: Sent) -> Result<()> {
    let mut ticks = ticks();
    let padding = usize::try_from(ROW_BYTES).unwrap_or(0);
    let mut last = None;
    for number in 0..total {
        ticks.tick().await;
        let mut payload = number.to_le_bytes().to_vec();
        payload.resize(padding, 0x5a);
        sent.lock().push(now());
        last = Some(context.publish(STREAM, payload.into()).await.map_err(Error::peer(NAME))?);
    }
    if let Some(last) = last {
        last.await.map_err(Error::peer(NAME))?;
    }
    debug_assert_eq!(count(sent.lock().len()), total, "each is timed");
    Ok(())
}

/// The load's pace. After a stall what is late comes at once, so that the rate is the same for all.
fn ticks() -> Interval {
    interval(Duration::from_secs(1) / PER_SECOND)
}
