//! Time of typical queries.

use std::time::Duration;

use model::Result;

use super::report::{Report, now};
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
    connection.sql(&format!("FLUSH DATABASE {DATABASE}")).await?.rows().await?;
    let mut report = Report::default();
    report.put("benchmark", "query");
    report.put("tables", tables);
    report.put("rows", load.total());
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
            if run > 0 {
                times.push(started.elapsed());
            }
        }
        times.sort_unstable();
        report.put(name, times.get(RUNS / 2).map(Duration::as_secs_f64).map(|s| s * 1e3));
    }
    report.put_times("ping_", &mut target.ping_times().await?);
    Ok(report)
}
