//! What consumers cost that wait for writes that do not come: beside it, bare round trips as often as they have heartbeats.

use std::sync::Arc;
use std::time::Duration;

use client::{Consumer, ConsumerConfig};
use futures::StreamExt as _;
use futures::stream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, interval_at};

use super::Bench;
use crate::error::{Error, Result};
use crate::figures::{Line, Meter, float, median, note, now};
use crate::load::Schema;
use crate::peer::reference::Reference;
use crate::peer::tidemark::{Tidemark, Topic};

const AIM_CPU_PERCENT: f64 = 3.0;
const AIM_MIB: f64 = 100.0;
const CONSUMERS: u64 = 1_000;
const VGROUPS: u32 = 64;
/// So many groups that each consumer has a vgroup to wait on.
const GROUPS: u64 = 16;
/// Subscribing at the same time.
const AT_ONCE: usize = 16;
/// For all of them to have their vgroups.
const SETTLE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_secs(1);
/// Until what joining leaves behind is done: commits, checkpoints, memory that goes back.
const QUIET: Duration = Duration::from_secs(10);
/// The SDK's `heartbeat.interval.ms`.
const HEARTBEAT: Duration = Duration::from_secs(3);
const HEARTBEAT_BYTES: usize = 64;

/// Measures.
pub async fn run(bench: &Bench) -> Result<Line> {
    let server = Arc::new(Tidemark::start(&bench.tidemark)?);
    let connection = server.connect().await?;
    server.create(&connection, VGROUPS, Schema::Meters).await?;
    Topic::Stable.create(&connection).await?;
    let consumers = bench.amount(CONSUMERS);
    let anon_before = server.process.anon_bytes()?;

    let joining = stream::iter(0..consumers).map(|number| join(&server, number)).buffer_unordered(AT_ONCE);
    let joined: Vec<Result<Waiting>> = joining.collect().await;
    let waiting = joined.into_iter().collect::<Result<Vec<_>>>()?;
    settled(&waiting).await?;
    note(&format!("{} consumers have their vgroups", waiting.len()));

    let reference = Reference::start()?;
    let mut beating = beat(&reference, consumers).await?;
    tokio::time::sleep(QUIET).await;

    let (mut percents, mut bare_percents, mut mib) = (Vec::new(), Vec::new(), 0.0);
    for round in 0..bench.rounds {
        let (meter, bare_meter) = (Meter::start(&server.process)?, Meter::start(&reference.process)?);
        tokio::time::sleep(Duration::from_secs(bench.amount(20).max(6))).await;
        let [percent, bare_percent] =
            [meter.stop()?, bare_meter.stop()?].map(|cost| cost.cpu_s / cost.seconds * 100.0);
        mib = (server.process.anon_bytes()? - anon_before) / float(1 << 20);
        note(&format!("round {round}: {percent:.2} % of a core, {mib:.0} MiB; bare {bare_percent:.2} %"));
        percents.push(percent);
        bare_percents.push(bare_percent);
    }
    let failed = waiting.iter().filter(|w| w.polling.is_finished()).count();
    if failed > 0 {
        return Err(Error::Odd(format!("{failed} consumers ended while they should have waited")));
    }
    if let Some(ended) = beating.try_join_next() {
        return Err(Error::Odd(format!("a round trip failed: {ended:?}")));
    }
    let (percent, bare_percent) = (median(percents), median(bare_percents));
    Ok(Line {
        work: format!(
            "{consumers} idle consumers in {GROUPS} groups on {VGROUPS} vgroups, each with a connection and at least \
             one vgroup"
        ),
        ours: format!("{percent:.2} % of one core, {mib:.0} MiB (RssAnon)"),
        reference: format!(
            "tonic round trips of {HEARTBEAT_BYTES} bytes on {consumers} connections, one in {HEARTBEAT:?} each as \
             heartbeats are, at the same time: {bare_percent:.2} %"
        ),
        ratio: format!("{:.2} of its CPU", percent / bare_percent),
        aim: "< 3 %, < 100 MiB",
        met: percent < AIM_CPU_PERCENT && mib < AIM_MIB,
    })
}

/// A consumer and the task that polls it; both end when dropped.
struct Waiting {
    consumer: Arc<Consumer>,
    polling: JoinHandle<Result<()>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

async fn join(server: &Tidemark, number: u64) -> Result<Waiting> {
    let config = ConsumerConfig::new(format!("idle{}", number % GROUPS));
    let consumer = Arc::new(server.connect().await?.consumer(config)?);
    consumer.subscribe([Topic::Stable.name()]).await?;
    let polled = Arc::clone(&consumer);
    // Whoever polls on lets the coordinator take vgroups away for those who come later.
    let polling = tokio::spawn(async move {
        loop {
            polled.poll(POLL).await?;
        }
    });
    Ok(Waiting { consumer, polling })
}

/// Waits until each has a vgroup.
async fn settled(waiting: &[Waiting]) -> Result<()> {
    let started = now();
    loop {
        let without = waiting.iter().filter(|w| w.consumer.membership().vgroups.is_empty()).count();
        if without == 0 {
            return Ok(());
        }
        if started.elapsed() > SETTLE {
            return Err(Error::Odd(format!("{without} consumers have no vgroup after {SETTLE:?}")));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Round trips on as many connections, spread over the interval; they end when this is dropped.
async fn beat(reference: &Reference, connections: u64) -> Result<JoinSet<Result<()>>> {
    let mut beating = JoinSet::new();
    let payload = bytes::Bytes::from(vec![0x5a; HEARTBEAT_BYTES]);
    let started = Instant::now();
    for number in 0..connections {
        let (mut client, payload) = (reference.connect().await?, payload.clone());
        let first = started + HEARTBEAT.mul_f64(float(number) / float(connections));
        beating.spawn(async move {
            let mut ticks = interval_at(first, HEARTBEAT);
            loop {
                ticks.tick().await;
                client.echo(payload.clone()).await?;
            }
        });
    }
    Ok(beating)
}
