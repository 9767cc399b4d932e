//! Time from write to delivery, beside a bare round trip.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::ConsumerConfig;
use model::{Error, Result};
use parking_lot::Mutex;

use super::consume::create_topic;
use super::report::{Report, now};
use super::target::{DATABASE, Target, fresh_database};
use crate::cli::TopicKindArg;

/// Poll timeout: a latency of a queue is only told with it.
const POLL: Duration = Duration::from_millis(1_000);
/// Written before anything is counted, so that nothing is measured cold.
const WARM_UP: u64 = 200;

pub(super) async fn run(target: &Target, rate: u64, seconds: u64, kind: TopicKindArg) -> Result<Report> {
    let connection = target.connect().await?;
    fresh_database(&connection, "VGROUPS 1").await?;
    create_topic(&connection, kind).await?;
    let create = format!("CREATE TABLE {DATABASE}.d0 USING {DATABASE}.meters TAGS (0, 'here')");
    connection.sql(&create).await?.rows().await?;
    let config = ConsumerConfig::new("bench").with("min.poll.rows", "1").map_err(Error::internal)?;
    let consumer = target.connect().await?.consumer(config)?;
    consumer.subscribe([DATABASE]).await?;
    // Resolves `latest`.
    consumer.poll(Duration::from_millis(200)).await?;

    let total = WARM_UP + rate.max(1) * seconds;
    let sent: Arc<Mutex<HashMap<i64, Instant>>> = Arc::default();
    let writing = tokio::spawn(write(target.connect().await?, rate.max(1), total, Arc::clone(&sent)));
    let mut times = Vec::new();
    let mut seen = 0;
    while seen < total {
        let Some(message) = consumer.poll(POLL).await? else {
            if writing.is_finished() {
                break;
            }
            continue;
        };
        let arrived = now();
        for row in message.rows() {
            seen += 1;
            let ts: i64 = row.by_name("ts")?;
            let started = sent.lock().remove(&ts);
            if let (Some(started), true) = (started, seen > WARM_UP) {
                times.push(arrived.duration_since(started));
            }
        }
    }
    writing.await.map_err(Error::internal)??;
    consumer.close().await?;
    let mut report = Report::default();
    report.put("benchmark", "latency");
    report.put("kind", format!("{kind:?}").to_lowercase());
    report.put("rate", rate);
    report.put("rows", u64::try_from(times.len()).unwrap_or(0));
    report.put("poll_timeout_ms", u64::try_from(POLL.as_millis()).unwrap_or(0));
    report.put_times("", &mut times);
    report.put_times("ping_", &mut target.ping_times().await?);
    Ok(report)
}

/// One-row writes at the rate, by the columnar writer, each timed from just before it is sent.
async fn write(
    connection: client::Connection,
    rate: u64,
    total: u64,
    sent: Arc<Mutex<HashMap<i64, Instant>>>,
) -> Result<()> {
    let writer = connection.writer(DATABASE, "meters").await?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX));
    for n in 0..i64::try_from(total).unwrap_or(i64::MAX) {
        ticks.tick().await;
        let ts = 1_700_000_000_000 + n;
        let mut batch = writer.batch()?;
        let table = batch.table("d0")?;
        let row = [
            client::Value::Timestamp(ts),
            client::Value::Float(1.5),
            client::Value::Int(221),
            client::Value::Float(0.5),
        ];
        batch.push(table, &row)?;
        sent.lock().insert(ts, now());
        writer.write(batch).await?;
    }
    writer.flush().await?;
    Ok(())
}
