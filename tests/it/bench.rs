//! `tidemark bench`: what it tells, and that it leaves alone what is not its own.

use serde_json::Value;

use crate::support::{Server, tidemark};

const WRITE: [&str; 9] = ["write", "--tables", "10", "--rows", "2000", "--batch", "1000", "-o", "json"];

fn report(output: &std::process::Output) -> (String, Value) {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    (stderr, serde_json::from_slice(&output.stdout).expect("one JSON object"))
}

#[test]
fn it_touches_nothing_but_its_own_database() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE mine VGROUPS 1; CREATE TABLE mine.meters (ts TIMESTAMP, v BIGINT); \
         CREATE TOPIC watch AS SELECT ts, v FROM mine.meters; INSERT INTO mine.meters VALUES (1700000000000, 7)",
    );
    let look = || {
        let seen = server.sql("SHOW mine.TABLES; SELECT * FROM mine.meters; SHOW mine.VGROUPS");
        // But for what the log and the clock have moved on by themselves, which is nothing here.
        (seen, server.sql("SELECT sql FROM information_schema.ins_topics WHERE topic_name = 'watch'"))
    };
    let before = look();
    let args = WRITE.map(str::to_owned);
    // Twice: the second run removes what the first has left.
    for _ in 0..2 {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output =
            tidemark().arg("bench").args(&args).args(["-h", server.address()]).output().expect("it runs");
        report(&output);
    }
    let consume = ["bench", "consume", "--rows", "5000", "--batch", "1000", "-h", server.address()];
    report(&tidemark().args(consume).args(["-o", "json"]).output().expect("it runs"));
    assert_eq!(look(), before);
    let databases = server.sql("SHOW DATABASES");
    let names: Vec<&str> =
        databases.lines().skip(1).map(|line| line.split(',').next().unwrap_or("")).collect();
    assert!(names.contains(&"mine") && names.contains(&"tidemark_bench"), "{names:?}");
    let topics = server.sql("SHOW TOPICS");
    assert_eq!(topics.lines().skip(1).collect::<std::collections::BTreeSet<_>>().len(), 2, "{topics}");
}

#[test]
fn every_benchmark_tells_what_was_asked_measured_and_compared() {
    let common = [
        "benchmark",
        "rows",
        "seconds",
        "rows_per_s",
        "mb_per_s",
        "p50_us",
        "p99_us",
        "p999_us",
        "bytes_per_row",
        "log_bytes_per_row",
        "server_cpu_s_per_mrow",
        "reference_ping_p50_us",
    ];
    let runs: [(&[&str], &[&str]); 3] = [
        (
            &["write", "--tables", "10", "--rows", "20000", "--mode", "columnar"],
            &["tables", "batch", "clients", "mode"],
        ),
        (&["consume", "--rows", "20000"], &["kind", "consumers", "batch"]),
        (&["latency", "--rate", "200", "--seconds", "1"], &["kind", "rate", "seconds_asked"]),
    ];
    for (args, asked) in runs {
        let output =
            tidemark().arg("bench").args(args).args(["--embedded", "-o", "json"]).output().expect("it runs");
        let (table, json) = report(&output);
        for name in common.iter().chain(asked) {
            assert!(json.get(name).is_some(), "{args:?}: no {name} in {json}");
        }
        let at = |text: &str| table.find(text).unwrap_or_else(|| panic!("no {text} in {table}"));
        assert!(at("asked") < at("measured") && at("measured") < at("reference, same run"), "{table}");
        assert!(at("rows/s") < at("MB/s"), "{table}");
        if args[0] == "write" {
            // No encoding can do with less than what the random steps hold; more than plain values would be odd.
            let bytes = json["bytes_per_row"].as_f64().expect("measured");
            assert!((3.25..20.0).contains(&bytes), "{bytes} bytes a row");
            assert!(json["log_bytes_per_row"].as_f64().expect("measured") > 20.0);
        }
    }
    let args = ["bench", "query", "--tables", "3", "--rows", "100", "--embedded", "-o", "json"];
    let query = tidemark().args(args).output().expect("it runs");
    let (_, json) = report(&query);
    assert!(json["last_row_of_each_ms"].is_f64() && json["p50_us"].is_f64(), "{json}");
}
