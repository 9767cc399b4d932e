//! Rows read a second from a backlog.

use std::time::Duration;

use client::{Connection, ConsumerConfig};
use model::{Error, Result};

use super::report::{Report, float, now};
use super::target::{DATABASE, Target, fresh_database};
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
    let (counted, values) = read_all(target, consumers.max(1), load.total()).await?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu = target.cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    let mut report = Report::default();
    report.put("benchmark", "consume");
    report.put("kind", format!("{kind:?}").to_lowercase());
    report.put("consumers", consumers);
    report.put("rows", counted);
    report.put("batch", batch);
    report.put("seconds", seconds);
    report.put("rows_per_s", float(counted) / seconds);
    report.put("mb_per_s", float(values) / 1e6 / seconds);
    report.put("log_mb_per_s", log_bytes.map(|bytes| float(bytes) / 1e6 / seconds));
    report.put("server_cpu_s_per_mrow", cpu.map(|cpu| cpu / float(counted) * 1e6));
    report.put_times("ping_", &mut target.ping_times().await?);
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

/// Reads until all rows have come; rows and the bytes of their values.
async fn read_all(target: &Target, consumers: u32, rows: u64) -> Result<(u64, u64)> {
    let counted = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..consumers {
        let connection = target.connect().await?;
        let counted = counted.clone();
        tasks.push(tokio::spawn(async move { read(&connection, &counted, rows).await }));
    }
    let mut values = 0;
    for task in tasks {
        values += task.await.map_err(Error::internal)??;
    }
    Ok((counted.load(std::sync::atomic::Ordering::Relaxed), values))
}

async fn read(connection: &Connection, counted: &std::sync::atomic::AtomicU64, rows: u64) -> Result<u64> {
    use std::sync::atomic::Ordering;
    let config =
        ConsumerConfig::new("bench").with("auto.offset.reset", "earliest").map_err(Error::internal)?;
    let consumer = connection.consumer(config)?;
    consumer.subscribe([DATABASE]).await?;
    let mut values = 0;
    while counted.load(Ordering::Relaxed) < rows {
        // Short: another consumer may be the one that gets the last message.
        let Some(message) = consumer.poll(Duration::from_millis(200)).await? else { continue };
        for block in message.blocks() {
            values += u64::try_from(block.batch().get_array_memory_size()).unwrap_or(0);
        }
        counted.fetch_add(u64::try_from(message.rows_len()).unwrap_or(0), Ordering::Relaxed);
    }
    consumer.close().await?;
    Ok(values)
}
