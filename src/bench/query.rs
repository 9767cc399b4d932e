//! Time of typical queries.

use std::time::Duration;

use model::Result;

use super::report::{Report, float, now};
use super::target::{DATABASE, Target, fresh_database};
use super::write::{Load, write_all};
use crate::cli::{WriteMode, WriteOrder};

/// Runs of each query after one that warms up; the median is told.
const RUNS: usize = 5;

pub(super) async fn run(target: &Target, tables: u64, rows: u64) -> Result<Report> {
    let connection = target.connect().await?;
    fresh_database(&connection, "VGROUPS 2").await?;
    let load = Load {
        tables,
        rows,
        batch: 10_000,
        clients: 4,
        mode: WriteMode::Columnar,
        order: WriteOrder::Device,
    };
    write_all(target, load).await?;
    let log_bytes = target.disk_bytes().map(|bytes| bytes.log);
    let file_bytes = target.flushed_bytes(&connection).await?;
    let cpu_before = target.cpu_seconds();
    let (begun, mut asked) = (now(), 0_u64);
    let mut all = Vec::new();
    let mut report = Report::default();
    report.asked("benchmark", "query");
    report.asked("tables", tables);
    report.asked("rows_per_table", rows);
    report.asked("runs", u64::try_from(RUNS).unwrap_or(0));
    report.measured("rows", load.total());
    let meters = format!("{DATABASE}.meters");
    let queries = [
        ("count_avg_max_ms", format!("SELECT COUNT(*), AVG(current), MAX(voltage) FROM {meters}")),
        ("one_device_hourly_ms", format!("SELECT _wstart, AVG(current) FROM {DATABASE}.d1 INTERVAL(1h)")),
        (
            "last_row_of_each_ms",
            format!("SELECT tbname, LAST_ROW(current) FROM {meters} PARTITION BY tbname"),
        ),
        ("avg_by_tag_ms", format!("SELECT groupid, AVG(current) FROM {meters} GROUP BY groupid")),
    ];
    for (name, sql) in queries {
        let mut times = Vec::with_capacity(RUNS);
        for run in 0..=RUNS {
            let started = now();
            connection.sql(&sql).await?.rows().await?;
            asked += 1;
            if run > 0 {
                times.push(started.elapsed());
            }
        }
        times.sort_unstable();
        report.measured(name, times.get(RUNS / 2).map(Duration::as_secs_f64).map(|s| s * 1e3));
        all.append(&mut times);
    }
    let cpu = target.cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    report.measured("queries", asked);
    report.measured("seconds", begun.elapsed().as_secs_f64());
    // Over all queries alike.
    report.measured_times(&mut all);
    let per_row = |bytes: Option<u64>| bytes.map(|bytes| float(bytes) / float(load.total()));
    report.measured("bytes_per_row", per_row(file_bytes));
    report.measured("log_bytes_per_row", per_row(log_bytes));
    report.measured("server_cpu_s_per_query", cpu.map(|cpu| cpu / float(asked)));
    report.reference_times("ping_", &mut target.ping_times().await?);
    Ok(report)
}
