//! Data from the field, imported by the command line, queried and consumed; every expected value is computed here from
//! the file itself.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Precision, Zone, parse_timestamp};

use crate::support::{Csv, Server, connect, consumer, data_file, drain, query};

/// One file and how it is imported.
struct Case {
    file: &'static str,
    ts: &'static str,
    device: Option<&'static str>,
    into: &'static str,
    zone: &'static str,
    /// A column of numbers to check, `NA` where missing.
    value: &'static str,
}

const HOUR_MS: i64 = 3_600_000;

/// Value of each device and instant: the later line wins where an instant repeats, `NA` is NULL.
type Values = BTreeMap<(String, i64), Option<f64>>;

fn expected(case: &Case, csv: &Csv) -> Values {
    let zone = Zone::parse(case.zone).expect("a zone");
    let (ts, value) = (csv.column(case.ts), csv.column(case.value));
    let device = case.device.map(|name| csv.column(name));
    let mut values = Values::new();
    for row in &csv.rows {
        let instant = parse_timestamp(&row[ts], Precision::Ms, zone).expect("a time");
        let name = device.map_or_else(String::new, |at| row[at].clone());
        let cell = &row[value];
        values.insert((name, instant), (cell != "NA").then(|| cell.parse().expect("a number")));
    }
    values
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

async fn check(case: Case) {
    let Some(path) = data_file(case.file) else { return };
    let csv = Csv::read(&path);
    let values = expected(&case, &csv);
    let server = Server::start();
    let connection = connect(&server).await;
    query(&connection, "CREATE DATABASE field VGROUPS 3 KEEP 36500").await;
    let mut args =
        vec![path.to_str().expect("UTF-8"), "--into", case.into, "--ts", case.ts, "--tz", case.zone];
    args.extend(["--null", "NA"]);
    let name = case.device.map(|device| format!("dev_{{{device}}}"));
    if let (Some(device), Some(name)) = (case.device, &name) {
        args.extend(["--tags", device, "--name", name]);
    }
    let output = server.run("import", &args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let lines = csv.rows.len();
    assert!(stderr.contains(&format!("rows={lines} written={lines} skipped=0")), "{stderr}");

    for flushed in [false, true] {
        if flushed {
            query(&connection, "FLUSH DATABASE field").await;
        }
        totals(&connection, &case, &values).await;
        hourly(&connection, &case, &values).await;
    }
    consumed(&connection, &case, &values).await;
}

async fn totals(connection: &client::Connection, case: &Case, values: &Values) {
    let v = format!("`{}`", case.value);
    let sql = format!("SELECT COUNT(*), COUNT({v}), SUM({v}), MIN({v}), MAX({v}) FROM {}", case.into);
    let rows = query(connection, &sql).await;
    let row = rows.iter().next().expect("a row");
    let present: Vec<f64> = values.values().flatten().copied().collect();
    assert_eq!(row.get::<i64>(0).unwrap(), values.len() as i64, "{sql}");
    assert_eq!(row.get::<i64>(1).unwrap(), present.len() as i64, "{sql}");
    let number = |at| row.get::<f64>(at).or_else(|_| row.get::<i64>(at).map(|v| v as f64)).expect("a number");
    assert!(close(number(2), present.iter().sum()), "{sql}: {}", number(2));
    assert!(close(number(3), present.iter().copied().fold(f64::INFINITY, f64::min)), "{sql}");
    assert!(close(number(4), present.iter().copied().fold(f64::NEG_INFINITY, f64::max)), "{sql}");
}

async fn hourly(connection: &client::Connection, case: &Case, values: &Values) {
    let mut sums: BTreeMap<(String, i64), (f64, i64)> = BTreeMap::new();
    for ((device, instant), value) in values {
        let hour = instant.div_euclid(HOUR_MS) * HOUR_MS;
        let sum = sums.entry((device.clone(), hour)).or_default();
        if let Some(value) = value {
            *sum = (sum.0 + value, sum.1 + 1);
        }
    }
    let (select, partition) = match case.device {
        Some(device) => (format!("`{device}`, "), format!("PARTITION BY `{device}` ")),
        None => (String::new(), String::new()),
    };
    let sql =
        format!("SELECT {select}_wstart, AVG(`{}`) FROM {} {partition}INTERVAL(1h)", case.value, case.into);
    let rows = query(connection, &sql).await;
    let mut seen = 0;
    for row in rows.iter() {
        let at = usize::from(case.device.is_some());
        let device = if at == 1 { row.get::<String>(0).expect("a device") } else { String::new() };
        let hour: i64 = row.get(at).expect("_wstart");
        let average: Option<f64> = row.get(at + 1).expect("an average");
        let (sum, count) = sums[&(device.clone(), hour)];
        let wanted = (count > 0).then(|| sum / count as f64);
        assert_eq!(average.is_some(), wanted.is_some(), "{device} {hour}");
        assert!(
            average.zip(wanted).is_none_or(|(a, w)| close(a, w)),
            "{device} {hour}: {average:?} {wanted:?}"
        );
        seen += 1;
    }
    assert_eq!(seen, sums.len(), "{sql}");
}

/// Every written row arrives; rows of one table in the order in which they were written, so that the last arrival of an
/// instant is what the table holds.
async fn consumed(connection: &client::Connection, case: &Case, values: &Values) {
    let table = if case.device.is_some() { "tbname" } else { "'' AS device" };
    let topic =
        format!("CREATE TOPIC field AS SELECT {table}, `{}`, `{}` FROM {}", case.ts, case.value, case.into);
    query(connection, &topic).await;
    let consumer = consumer(connection, "readers", &[("auto.offset.reset", "earliest")]);
    consumer.subscribe(["field"]).await.expect("subscribe");
    let mut arrived: BTreeMap<(String, i64), Option<f64>> = BTreeMap::new();
    let mut steps_back: BTreeMap<String, u32> = BTreeMap::new();
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    let mut rows_len = 0;
    for message in drain(&consumer, Duration::from_secs(2)).await {
        for row in message.rows() {
            rows_len += 1;
            let name: String = row.get(0).expect("tbname");
            let device = name.strip_prefix("dev_").unwrap_or(&name).to_owned();
            let instant: i64 = row.get(1).expect("ts");
            let value =
                row.get::<Option<f64>>(2).or_else(|_| row.get::<Option<i64>>(2).map(|v| v.map(|v| v as f64)));
            if last.insert(device.clone(), instant).is_some_and(|before| instant < before) {
                *steps_back.entry(device.clone()).or_default() += 1;
            }
            arrived.insert((device, instant), value.expect("a number or NULL"));
        }
    }
    consumer.close().await.expect("close");
    assert!(rows_len >= values.len(), "{rows_len} rows arrived, {} instants were written", values.len());
    assert_eq!(arrived, *values);
    // The files go back in time at most once (a clock that was set), so arrivals do too.
    assert!(steps_back.values().all(|&steps| steps <= 1), "{steps_back:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_temperature() {
    check(Case {
        file: "machine_temperature.csv",
        ts: "timestamp",
        device: None,
        into: "field.machine",
        zone: "UTC",
        value: "value",
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ec2_cpu_of_eight_hosts() {
    check(Case {
        file: "ec2_cpu_multi_host.csv",
        ts: "ts",
        device: Some("host"),
        into: "field.cpu",
        zone: "UTC",
        value: "cpu_util",
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn electricity_transformer() {
    check(Case { file: "ETTh1.csv", ts: "date", device: None, into: "field.ett", zone: "UTC", value: "OT" })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beijing_air_with_missing_cells() {
    check(Case {
        file: "beijing_air_4_stations_2014.csv",
        ts: "ts",
        device: Some("station"),
        into: "field.air",
        zone: "Asia/Shanghai",
        value: "o3",
    })
    .await;
}
