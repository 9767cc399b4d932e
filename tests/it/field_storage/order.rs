//! Rows that arrive out of order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use client::{Connection, Value};
use model::{Precision, Zone, parse_timestamp};

use super::{PASSAGES, Pair, consumed, delivered, pairs};
use crate::support::{Csv, Server, connect, data_file, number, query};

const DAY_MS: i64 = 86_400_000;

fn coprime(a: usize, b: usize) -> bool {
    !(2..=a).any(|d| a.is_multiple_of(d) && b.is_multiple_of(d))
}

/// 0 to `len` in an order of its own that comes to each number once: `step` has no divisor in common with `len`.
fn strewn(len: usize, step: usize) -> impl Iterator<Item = usize> {
    assert!(coprime(step, len), "step={step} len={len}");
    (0..len).map(move |n| n * step % len)
}

async fn write(connection: &Connection, rows: &[Pair]) {
    let writer = connection.writer("d", "n").await.expect("a writer");
    let mut batch = writer.batch().expect("a batch");
    let table = batch.table("n").expect("a table");
    for (instant, v) in rows {
        batch.push(table, &[Value::Timestamp(*instant), Value::Int(v.expect("a number"))]).expect("a row");
    }
    writer.write(batch).await.expect("sent");
    assert_eq!(writer.flush().await.expect("written"), rows.len() as u64);
}

/// C145: to a table with rows of today come batches from yesterday and last month, mixed, and then one with old and new.
/// Each flush finds rows of several buckets of time, some older than the files that are there.
#[tokio::test(flavor = "multi_thread")]
async fn c145_old_rows_join_newer_ones() {
    const TODAY: i64 = 1_700_000_000_000;
    const ROWS: usize = 1_000;
    let mut server = Server::start();
    let mut connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d VGROUPS 1 KEEP 36500 DURATION 1d").await;
    query(&connection, "CREATE TABLE d.n (ts TIMESTAMP, v INT)").await;
    query(&connection, "CREATE TOPIC t AS SELECT CAST(ts AS BIGINT), v FROM d.n").await;
    let row = |instant: i64, v: i64| -> Pair { (instant, Some(v)) };
    let today: Vec<Pair> = (0..100).map(|n| row(TODAY + n * 1_000, n)).collect();
    let older: Vec<Pair> = strewn(ROWS, 387)
        .map(|n| {
            let days = if n % 3 == 0 { 30 } else { 1 };
            row(TODAY - days * DAY_MS + n as i64 * 1_000, 1_000 + n as i64)
        })
        .collect();
    // Old and new, and some instants that have a row already: the later one stands.
    let both: Vec<Pair> = strewn(200, 77)
        .map(|n| {
            let days = [0, 1, 30, 2][n % 4];
            row(TODAY - days * DAY_MS + n as i64 * 1_000, 5_000 + n as i64)
        })
        .collect();
    let mut expected = BTreeMap::new();
    let mut written = BTreeSet::new();
    for (rows, flush) in [(&today, true), (&older, false), (&both, false)] {
        write(&connection, rows).await;
        expected.extend(rows.iter().copied());
        written.extend(rows.iter().copied());
        if flush {
            query(&connection, "FLUSH DATABASE d").await;
        }
    }
    assert!(expected.len() < written.len(), "some rows are written over");
    let expected: Vec<Pair> = expected.into_iter().collect();
    let yesterday = expected.iter().filter(|(ts, _)| (TODAY - DAY_MS..TODAY).contains(ts)).count();
    for passage in PASSAGES {
        connection = passage.take(&mut server, &connection, "d").await;
        let rows = pairs(&connection, "SELECT CAST(ts AS BIGINT), v FROM d.n ORDER BY ts").await;
        assert!(rows == expected, "{passage:?}: {} rows of {}", rows.len(), expected.len());
        let counted = format!("SELECT COUNT(*) FROM d.n WHERE ts >= {} AND ts < {TODAY}", TODAY - DAY_MS);
        assert_eq!(number(&connection, &counted).await, yesterday as i64, "{passage:?}");
        let last = pairs(&connection, "SELECT CAST(LAST(ts) AS BIGINT), LAST(v) FROM d.n").await;
        assert_eq!(last.first(), expected.last(), "{passage:?}");
        let messages = consumed(&connection, "t", &format!("{passage:?}")).await;
        assert!(delivered(&messages) == written, "{passage:?}: the topic has every row that was written");
    }
}

/// C145 with the transformer's two years: its lines strewn over three files that are imported with flushes between them.
#[tokio::test(flavor = "multi_thread")]
async fn c145_two_years_come_in_no_order() {
    let Some(path) = data_file("ETTh1.csv") else { return };
    let csv = Csv::read(&path);
    let (ts, value) = (csv.column("date"), csv.column("OT"));
    let mut lines: Vec<(&str, &str)> =
        csv.rows.iter().map(|row| (row[ts].as_str(), row[value].as_str())).collect();
    let expected: BTreeMap<i64, f64> = lines
        .iter()
        .map(|(ts, v)| {
            let instant = parse_timestamp(ts, Precision::Ms, Zone::UTC).expect("a time");
            (instant, v.parse().expect("a number"))
        })
        .collect();
    let in_order = lines.clone();
    let step = (7_001..).find(|step| coprime(*step, lines.len())).expect("a step");
    for (to, from) in strewn(lines.len(), step).enumerate() {
        lines[to] = in_order[from];
    }
    assert_ne!(lines, in_order);

    let mut server = Server::start();
    let mut connection = connect(&server).await;
    query(&connection, "CREATE DATABASE d KEEP 36500 DURATION 30d").await;
    for (n, part) in lines.chunks(lines.len().div_ceil(3)).enumerate() {
        let mut text = "ts,v\n".to_owned();
        for (ts, v) in part {
            writeln!(text, "{ts},{v}").unwrap();
        }
        let file = server.scratch().join(format!("{n}.csv"));
        std::fs::write(&file, text).expect("a file");
        let output = server.run("import", &[file.to_str().expect("UTF-8"), "--into", "d.ett"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        if n < 2 {
            query(&connection, "FLUSH DATABASE d").await;
        }
    }
    for passage in PASSAGES {
        connection = passage.take(&mut server, &connection, "d").await;
        let rows = query(&connection, "SELECT CAST(ts AS BIGINT), v FROM d.ett ORDER BY ts").await;
        let found: Vec<(i64, f64)> = rows.iter().map(|r| (r.get(0).unwrap(), r.get(1).unwrap())).collect();
        let whole = found.iter().copied().eq(expected.iter().map(|(ts, v)| (*ts, *v)));
        assert!(whole, "{passage:?}: {} rows of {}", found.len(), expected.len());
    }
}
