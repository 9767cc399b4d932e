//! Rows read a second from a backlog.

use std::time::Duration;

use client::{Connection, ConsumerConfig};
use model::{Error, Result};

use super::report::{Report, float, now};
use super::target::{DATABASE, ROW_BYTES, Target, fresh_database};
use super::write::{Load, write_all};
use crate::cli::{TopicKindArg, WriteMode, WriteOrder};

/// Tables of the backlog.
const TABLES: u64 = 1_000;

pub(super) async fn run(
    target: &Target,
    kind: TopicKindArg,
    consumers: u32,
    rows: u64,
    batch: u64,
) -> Result<Report> {
    let connection = target.connect().await?;
    fresh_database(&connection, "VGROUPS 2").await?;
    create_topic(&connection, kind).await?;
    let load = Load {
        tables: TABLES,
        rows: rows.div_ceil(TABLES),
        batch,
        clients: 4,
        mode: WriteMode::Columnar,
        order: WriteOrder::Device,
    };
    write_all(target, load).await?;
    let log_bytes = target.disk_bytes().map(|bytes| bytes.log);
    let cpu_before = target.cpu_seconds();
    let started = now();
    let (counted, mut times) = read_all(target, consumers.max(1), load.total()).await?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu = target.cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    let mut report = Report::default();
    report.asked("benchmark", "consume");
    report.asked("kind", format!("{kind:?}").to_lowercase());
    report.asked("consumers", consumers);
    report.asked("rows_asked", rows);
    report.asked("batch", batch);
    report.measured("rows", counted);
    report.measured("seconds", seconds);
    report.measured("rows_per_s", float(counted) / seconds);
    report.measured("mb_per_s", float(counted * ROW_BYTES) / 1e6 / seconds);
    // Of a poll that brought a message.
    report.measured_times(&mut times);
    let file_bytes = target.flushed_bytes(&connection).await?;
    report.measured("bytes_per_row", file_bytes.map(|bytes| float(bytes) / float(load.total())));
    report.measured("log_bytes_per_row", log_bytes.map(|bytes| float(bytes) / float(load.total())));
    report.measured("log_mb_per_s", log_bytes.map(|bytes| float(bytes) / 1e6 / seconds));
    report.measured("server_cpu_s_per_mrow", cpu.map(|cpu| cpu / float(counted) * 1e6));
    report.reference_times("ping_", &mut target.ping_times().await?);
    Ok(report)
}

/// Makes the topic of the kind.
pub(super) async fn create_topic(connection: &Connection, kind: TopicKindArg) -> Result<()> {
    let source = match kind {
        TopicKindArg::Query => format!("SELECT ts, current, voltage, phase FROM {DATABASE}.meters"),
        TopicKindArg::Stable => format!("STABLE {DATABASE}.meters"),
        TopicKindArg::Database => format!("DATABASE {DATABASE}"),
    };
    connection.sql(&format!("CREATE TOPIC {DATABASE} AS {source}")).await?.rows().await?;
    Ok(())
}

/// Reads until all rows have come; rows, and how long each poll took that brought some.
async fn read_all(target: &Target, consumers: u32, rows: u64) -> Result<(u64, Vec<Duration>)> {
    let counted = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..consumers {
        let connection = target.connect().await?;
        let counted = counted.clone();
        tasks.push(tokio::spawn(async move { read(&connection, &counted, rows).await }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.map_err(Error::internal)??);
    }
    Ok((counted.load(std::sync::atomic::Ordering::Relaxed), times))
}

async fn read(
    connection: &Connection,
    counted: &std::sync::atomic::AtomicU64,
    rows: u64,
) -> Result<Vec<Duration>> {
    use std::sync::atomic::Ordering;
    let config =
        ConsumerConfig::new("bench").with("auto.offset.reset", "earliest").map_err(Error::internal)?;
    let consumer = connection.consumer(config)?;
    consumer.subscribe([DATABASE]).await?;
    let mut times = Vec::new();
    while counted.load(Ordering::Relaxed) < rows {
        // Short: another consumer may be the one that gets the last message.
        let started = now();
        let Some(message) = consumer.poll(Duration::from_millis(200)).await? else { continue };
        times.push(started.elapsed());
        counted.fetch_add(u64::try_from(message.rows_len()).unwrap_or(0), Ordering::Relaxed);
    }
    consumer.close().await?;
    Ok(times)
}
