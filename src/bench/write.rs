//! Rows written a second.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Float32Array, Int32Array, TimestampMillisecondArray};
use client::{Connection, Value, Writer};
use model::{Error, Result};

use super::report::{Report, float, now};
use super::target::{DATABASE, ROW_BYTES, Target, file_write_mb_s, fresh_database};
use super::values::{Meters, Reading};
use crate::cli::{WriteMode, WriteOrder};

/// First instant, and the pause between two of one table.
const FIRST_MS: i64 = 1_700_000_000_000;
const STEP_MS: i64 = 1_000;

/// What to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) tables: u64,
    /// Of each table.
    pub(super) rows: u64,
    /// Rows of one write.
    pub(super) batch: u64,
    pub(super) clients: u32,
    pub(super) mode: WriteMode,
    pub(super) order: WriteOrder,
}

impl Load {
    pub(super) fn total(self) -> u64 {
        self.tables * self.rows
    }
}

/// Rows of one table within a write: table, first row, rows.
type Run = (u64, u64, u64);

pub(super) async fn run(target: &mut Target, load: Load) -> Result<Report> {
    let connection = target.connect().await?;
    fresh_database(&connection, "VGROUPS 2").await?;
    create_tables(&connection, load.tables).await?;
    let cpu_before = target.cpu_seconds();
    let Written { seconds, mut times } = write_all(target, load).await?;
    let cpu = target.cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    let log_bytes = target.disk_bytes().map(|bytes| bytes.log);
    // Killed with all of it in the log, unless it was too much for memory.
    let restart = target.crash_and_restart()?;
    let file_bytes = target.flushed_bytes(&connection).await?;
    let rows = float(load.total());
    let mut report = Report::default();
    report.asked("benchmark", "write");
    report.asked("mode", format!("{:?}", load.mode).to_lowercase());
    report.asked("order", format!("{:?}", load.order).to_lowercase());
    report.asked("tables", load.tables);
    report.asked("rows_per_table", load.rows);
    report.asked("batch", load.batch);
    report.asked("clients", load.clients);
    report.measured("rows", load.total());
    report.measured("seconds", seconds);
    report.measured("rows_per_s", rows / seconds);
    report.measured("mb_per_s", rows * float(ROW_BYTES) / 1e6 / seconds);
    // Of a statement; the columnar writer has many writes under way, none of which is waited for.
    report.measured_times(&mut times);
    report.measured("bytes_per_row", file_bytes.map(|bytes| float(bytes) / rows));
    report.measured("log_bytes_per_row", log_bytes.map(|bytes| float(bytes) / rows));
    report.measured("log_mb_per_s", log_bytes.map(|bytes| float(bytes) / 1e6 / seconds));
    report.measured("server_cpu_s_per_mrow", cpu.map(|cpu| cpu / rows * 1e6));
    report.measured("restart_after_kill_s", restart.map(|time| time.as_secs_f64()));
    report.reference("file_mb_per_s", file_write_mb_s(log_bytes.unwrap_or(0))?);
    report.reference_times("ping_", &mut target.ping_times().await?);
    Ok(report)
}

/// How long writing took.
pub(super) struct Written {
    /// All of it.
    pub(super) seconds: f64,
    /// Each statement, in SQL mode.
    pub(super) times: Vec<Duration>,
}

/// Writes everything with as many connections as asked.
pub(super) async fn write_all(target: &Target, load: Load) -> Result<Written> {
    let clients = u64::from(load.clients.max(1));
    let mut tasks = Vec::new();
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(target.connect().await?);
    }
    let started = now();
    for (client, connection) in (0..clients).zip(connections) {
        let runs = writes_of(load, client, clients);
        tasks.push(tokio::spawn(async move {
            match load.mode {
                WriteMode::Columnar => write_columns(&connection, runs).await.map(|()| Vec::new()),
                WriteMode::Sql => write_sql(&connection, runs).await,
            }
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.map_err(Error::internal)??);
    }
    Ok(Written { seconds: started.elapsed().as_secs_f64(), times })
}

async fn create_tables(connection: &Connection, tables: u64) -> Result<()> {
    const PER_STATEMENT: u64 = 1_000;
    for first in (0..tables).step_by(1_000) {
        let mut sql = String::from("CREATE TABLE");
        for table in first..(first + PER_STATEMENT).min(tables) {
            // Writing to a string cannot fail.
            let _ = write!(
                sql,
                " {DATABASE}.d{table} USING {DATABASE}.meters TAGS ({}, 'somewhere')",
                table % 10
            );
        }
        connection.sql(&sql).await?.rows().await?;
    }
    Ok(())
}

/// The writes of one client, each of about `batch` rows.
fn writes_of(load: Load, client: u64, clients: u64) -> Vec<Vec<Run>> {
    let mine = (client..load.tables).step_by(usize::try_from(clients).unwrap_or(1));
    let batch = load.batch.max(1);
    match load.order {
        WriteOrder::Device => {
            let mut writes = Vec::new();
            let mut write = Vec::new();
            let mut room = batch;
            for table in mine {
                let mut first = 0;
                while first < load.rows {
                    let rows = room.min(load.rows - first);
                    write.push((table, first, rows));
                    first += rows;
                    room -= rows;
                    if room == 0 {
                        writes.push(std::mem::take(&mut write));
                        room = batch;
                    }
                }
            }
            writes.extend((!write.is_empty()).then_some(write));
            writes
        }
        WriteOrder::Time => {
            let tables: Vec<u64> = mine.collect();
            let size = usize::try_from(batch).unwrap_or(usize::MAX);
            (0..load.rows)
                .flat_map(|row| {
                    tables.chunks(size).map(move |t| t.iter().map(|&table| (table, row, 1)).collect())
                })
                .collect()
        }
    }
}

fn instant(row: u64) -> i64 {
    FIRST_MS + i64::try_from(row).unwrap_or(0) * STEP_MS
}

async fn write_columns(connection: &Connection, writes: Vec<Vec<Run>>) -> Result<()> {
    let writer: Writer = connection.writer(DATABASE, "meters").await?;
    let mut meters = Meters::default();
    for runs in writes {
        let mut batch = writer.batch()?;
        for (table, first, rows) in runs {
            let child = batch.child(&format!("d{table}"), &[Value::Int(0), Value::Text(String::new())])?;
            batch.push_arrays(child, &arrays(&mut meters, table, first, rows))?;
        }
        writer.write(batch).await?;
    }
    writer.flush().await?;
    Ok(())
}

fn arrays(meters: &mut Meters, table: u64, first: u64, rows: u64) -> [ArrayRef; 4] {
    let count = usize::try_from(rows).unwrap_or(usize::MAX);
    let readings: Vec<Reading> = meters.read(table).take(count).collect();
    [
        Arc::new(TimestampMillisecondArray::from_iter_values((first..first + rows).map(instant))),
        Arc::new(Float32Array::from_iter_values(readings.iter().map(|reading| reading.current))),
        Arc::new(Int32Array::from_iter_values(readings.iter().map(|reading| reading.voltage))),
        Arc::new(Float32Array::from_iter_values(readings.iter().map(|reading| reading.phase))),
    ]
}

async fn write_sql(connection: &Connection, writes: Vec<Vec<Run>>) -> Result<Vec<Duration>> {
    let mut meters = Meters::default();
    let mut times = Vec::with_capacity(writes.len());
    for runs in writes {
        let mut sql = String::from("INSERT INTO");
        for (table, first, rows) in runs {
            let _ = write!(sql, " {DATABASE}.d{table} VALUES");
            for (row, reading) in (first..first + rows).zip(meters.read(table)) {
                let Reading { current, voltage, phase } = reading;
                let _ = write!(sql, " ({},{current},{voltage},{phase})", instant(row));
            }
        }
        let started = now();
        connection.sql(&sql).await?.rows().await?;
        times.push(started.elapsed());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_written_once() {
        for order in [WriteOrder::Device, WriteOrder::Time] {
            let load = Load { tables: 7, rows: 10, batch: 4, clients: 3, mode: WriteMode::Columnar, order };
            let mut rows = std::collections::BTreeSet::new();
            for client in 0..3 {
                for run in writes_of(load, client, 3).into_iter().flatten() {
                    assert!((run.1..run.1 + run.2).all(|row| rows.insert((run.0, row))), "{order:?} twice");
                }
            }
            assert_eq!(rows.len(), 70, "{order:?}");
        }
    }
}
