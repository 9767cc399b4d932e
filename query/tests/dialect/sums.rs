//! Sums of integers that 64 bits do not hold: an error or the exact answer, never a wrapped one.

use model::{Code, Zone};
use serde_json::json;

use crate::oracle::rows;
use crate::store::Store;

const MAX: i64 = i64::MAX;
const UNSIGNED_MAX: u64 = u64::MAX;

fn fixture() -> Store {
    let mut store = Store::new(Zone::UTC);
    for sql in [
        "CREATE DATABASE d KEEP 36500".to_owned(),
        "USE d".to_owned(),
        "CREATE TABLE t (ts TIMESTAMP, g INT, a BIGINT, u BIGINT UNSIGNED, m BIGINT, i INT)".to_owned(),
        format!(
            "INSERT INTO t VALUES (1700000000000, 1, {MAX}, {UNSIGNED_MAX}, {}, {})
             (1700000000001, 1, {MAX}, {UNSIGNED_MAX}, -1, {})
             (1700000001000, 2, {MAX}, NULL, 1, NULL)",
            i64::MIN,
            i32::MAX,
            i32::MAX
        ),
    ] {
        store.run(&sql).unwrap();
    }
    store
}

#[track_caller]
fn answer(store: &Store, sql: &str, expected: serde_json::Value) {
    let got = rows(&store.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    assert_eq!(json!(got).to_string(), expected.to_string(), "{sql}");
}

#[test]
fn a_sum_past_its_type_ends_the_query() {
    let store = fixture();
    let cases = [
        ("SELECT SUM(a) FROM t", 3 * i128::from(MAX), "BIGINT:"),
        ("SELECT g, SUM(a) FROM t GROUP BY g", 2 * i128::from(MAX), "BIGINT:"),
        ("SELECT _wstart, SUM(a) FROM t INTERVAL(1s)", 2 * i128::from(MAX), "BIGINT:"),
        ("SELECT SUM(a) FROM t PARTITION BY g", 2 * i128::from(MAX), "BIGINT:"),
        ("SELECT g FROM t GROUP BY g HAVING SUM(a) > 0", 2 * i128::from(MAX), "BIGINT:"),
        ("SELECT SUM(u) FROM t", 2 * i128::from(UNSIGNED_MAX), "BIGINT UNSIGNED:"),
        ("SELECT SUM(m) FROM t WHERE g = 1", i128::from(i64::MIN) - 1, "BIGINT:"),
        ("SELECT SUM(x) FROM (SELECT a AS x FROM t)", 3 * i128::from(MAX), "BIGINT:"),
    ];
    for (sql, sum, name) in cases {
        let Err(error) = store.query(sql) else { panic!("{sql} has an answer") };
        assert_eq!(error.code(), Code::FunctionFailed, "{sql}: {error}");
        let told = error.message();
        assert!(told.contains(&format!("does not fit {name} sum={sum}")), "{sql}: {told}");
    }
}

#[test]
fn what_fits_is_exact_to_the_last_unit() {
    let store = fixture();
    // On the way past the range and back.
    answer(&store, "SELECT SUM(m) FROM t", json!([[i64::MIN]]));
    answer(&store, "SELECT g, SUM(a) FROM t WHERE g = 2 GROUP BY g", json!([[2, MAX]]));
    answer(&store, "SELECT SUM(u) FROM t WHERE ts = 1700000000000", json!([[UNSIGNED_MAX]]));
    answer(&store, "SELECT SUM(i) FROM t", json!([[2 * i64::from(i32::MAX)]]));
    answer(&store, "SELECT SUM(u) FROM t WHERE g = 2", json!([[null]]));
}

#[test]
fn a_mean_has_no_range_to_leave() {
    let store = fixture();
    let (max, unsigned_max) = (MAX as f64, UNSIGNED_MAX as f64);
    answer(&store, "SELECT AVG(a), AVG(u) FROM t", json!([[max, unsigned_max]]));
    answer(
        &store,
        "SELECT g, AVG(a), AVG(u) FROM t GROUP BY g ORDER BY g",
        json!([[1, max, unsigned_max], [2, max, null]]),
    );
    answer(&store, "SELECT AVG(a) FROM t INTERVAL(1s)", json!([[max], [max]]));
    answer(&store, "SELECT AVG(m) FROM t WHERE g = 1", json!([[(i64::MIN as f64) / 2.0]]));
    answer(&store, "SELECT AVG(i) FROM t", json!([[f64::from(i32::MAX)]]));
}
