//! Time from write to delivery, beside a bare round trip.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::ConsumerConfig;
use model::{Error, Result};
use parking_lot::Mutex;

use super::consume::create_topic;
use super::report::{Report, float, now};
use super::target::{DATABASE, ROW_BYTES, Target, fresh_database};
use super::values::Meters;
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
    let (started, cpu_before) = (now(), target.cpu_seconds());
    let mut times = Vec::new();
    let mut seen = 0_u64;
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
    let took = started.elapsed().as_secs_f64();
    let cpu = target.cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    writing.await.map_err(Error::internal)??;
    consumer.close().await?;
    let log_bytes = target.disk_bytes().map(|bytes| bytes.log);
    let file_bytes = target.flushed_bytes(&connection).await?;
    let rows = float(seen);
    let mut report = Report::default();
    report.asked("benchmark", "latency");
    report.asked("kind", format!("{kind:?}").to_lowercase());
    report.asked("rate", rate);
    report.asked("seconds_asked", seconds);
    report.asked("poll_timeout_ms", u64::try_from(POLL.as_millis()).unwrap_or(0));
    // Those that warm up are written and delivered, but not timed.
    report.measured("rows", seen);
    report.measured("rows_timed", u64::try_from(times.len()).unwrap_or(0));
    report.measured("seconds", took);
    report.measured("rows_per_s", rows / took);
    report.measured("mb_per_s", rows * float(ROW_BYTES) / 1e6 / took);
    report.measured_times(&mut times);
    report.measured("bytes_per_row", file_bytes.map(|bytes| float(bytes) / rows));
    report.measured("log_bytes_per_row", log_bytes.map(|bytes| float(bytes) / rows));
    report.measured("server_cpu_s_per_mrow", cpu.map(|cpu| cpu / rows * 1e6));
    report.reference_times("ping_", &mut target.ping_times().await?);
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
    let mut meters = Meters::default();
    for n in 0..i64::try_from(total).unwrap_or(i64::MAX) {
        ticks.tick().await;
        let ts = 1_700_000_000_000 + n;
        let mut batch = writer.batch()?;
        let table = batch.table("d0")?;
        let Some(reading) = meters.read(0).next() else { break };
        let row = [
            client::Value::Timestamp(ts),
            client::Value::Float(reading.current),
            client::Value::Int(reading.voltage.into()),
            client::Value::Float(reading.phase),
        ];
        batch.push(table, &row)?;
        sent.lock().insert(ts, now());
        writer.write(batch).await?;
    }
    writer.flush().await?;
    Ok(())
}
