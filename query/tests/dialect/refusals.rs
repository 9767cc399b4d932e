//! What is refused says what it was: functions, tables and moments by name.

use model::{Code, Zone};

use crate::oracle::rows;
use crate::store::Store;

fn fixture() -> Store {
    let mut store = Store::new(Zone::UTC);
    for sql in [
        "CREATE DATABASE d KEEP 36500",
        "USE d",
        "CREATE STABLE m (ts TIMESTAMP, i INT) TAGS (g INT)",
        "CREATE TABLE a USING m TAGS(1)",
        "INSERT INTO a VALUES ('2024-03-01 00:00:00',10)",
    ] {
        store.run(sql).unwrap();
    }
    store
}

/// Every statement is refused under `code`, with `word` in what it says.
#[track_caller]
fn refused(store: &Store, statements: &[&str], code: Code, word: &str) {
    for sql in statements {
        match store.query(sql) {
            Ok(answer) => panic!("{sql}: answered {:?}", rows(&answer)),
            Err(error) => {
                assert_eq!(error.code(), code, "{sql}: {error}");
                assert!(error.message().contains(word), "{sql}: {error} does not say {word}");
            }
        }
    }
}

#[test]
fn a_function_that_nobody_knows_is_named_wherever_it_stands() {
    let statements = [
        "SELECT nosuch(i) FROM a",
        "SELECT COUNT(*), nosuch(i) FROM a",
        "SELECT i, COUNT(*), nosuch(i) FROM a",
        "SELECT SUM(nosuch(i)) FROM a",
        "SELECT ABS(nosuch(i)) + 1 FROM a",
        "SELECT i FROM a WHERE nosuch(i) > 1",
        "SELECT i FROM a ORDER BY nosuch(i)",
        "SELECT COUNT(*) FROM a GROUP BY nosuch(i)",
        "SELECT COUNT(*) FROM a GROUP BY g HAVING nosuch(COUNT(*)) > 1",
        "SELECT COUNT(*) FROM m PARTITION BY nosuch(g)",
        "SELECT COUNT(*) FROM a WHERE ts > 1 AND ts < 9 INTERVAL(1s) FILL(VALUE, nosuch(1))",
        "SELECT x.i FROM a x JOIN a y ON x.ts = y.ts AND nosuch(x.i) > 1",
        "SELECT i FROM (SELECT nosuch(i) AS i FROM a)",
        "SELECT i FROM a UNION ALL SELECT nosuch(i) FROM a",
        "SELECT CASE WHEN nosuch(i) THEN 1 ELSE 2 END FROM a",
    ];
    refused(&fixture(), &statements, Code::FunctionNotExist, "nosuch");
}

#[test]
fn a_function_that_is_not_built_is_named_wherever_it_stands() {
    let store = fixture();
    let statements = [
        "SELECT MODE(i) FROM a",
        "SELECT MODE(i), COUNT(*) FROM a",
        "SELECT COUNT(*), MODE(i) FROM a",
        "SELECT i, COUNT(*), MODE(i) FROM a",
        "SELECT AVG(MODE(i)) FROM a",
        "SELECT i FROM a WHERE MODE(i) > 1",
        "SELECT COUNT(*) FROM a ORDER BY MODE(i)",
        "SELECT COUNT(*) FROM a GROUP BY g HAVING MODE(i) > 1",
        "SELECT COUNT(*) FROM a GROUP BY MODE(i)",
    ];
    refused(&store, &statements, Code::NotSupported, "mode");
    refused(&store, &["SELECT COUNT(*), MASK_FULL('a','b') FROM a"], Code::NotSupported, "mask_full");
    refused(&store, &["SELECT MD5('a')", "SELECT i FROM a WHERE MD5('a') = 'b'"], Code::NotSupported, "md5");
    refused(
        &store,
        &["SELECT SHA('a')", "SELECT SHA1('a')", "SELECT SHA2('a', 256)"],
        Code::NotSupported,
        "sha",
    );
    // These have a code of their own beside others, and are named all the same.
    let statements = [
        "SELECT COUNT(*), TOP(i, 2) FROM a",
        "SELECT TOP(i, 2), COUNT(*) FROM a",
        "SELECT AVG(TOP(i, 2)) FROM a",
    ];
    refused(&store, &statements, Code::SelectListOnly, "top");
    refused(&store, &["SELECT _wstart, DIFF(i) FROM a INTERVAL(1m)"], Code::SelectListOnly, "diff");
    refused(&store, &["SELECT SUM(COUNT(*)) FROM a"], Code::NestedAggregates, "count");
    refused(&store, &["SELECT i FROM a WHERE MAX(i) > 0"], Code::NoAggregation, "max");
}

#[test]
fn a_table_that_is_not_there_is_named() {
    let store = fixture();
    let statements = [
        "SELECT * FROM zz",
        "SELECT COUNT(*) FROM zz",
        "SELECT a.i FROM a JOIN zz ON a.ts = zz.ts",
        "SELECT i FROM a UNION ALL SELECT i FROM zz",
        "SELECT zz.* FROM a",
    ];
    refused(&store, &statements, Code::TableNotExist, "zz");
    refused(&store, &["SELECT * FROM d.zz"], Code::TableNotExist, "d.zz");
    refused(&store, &["SELECT * FROM nodb.a"], Code::DatabaseNotExist, "nodb.a");
}

#[test]
fn a_time_that_does_not_fit_is_an_error() {
    let store = fixture();
    let statements = [
        "SELECT NOW() + 9999999y",
        "SELECT NOW() - 9999999y",
        "SELECT NOW() + 999999999999n",
        "SELECT NOW() + 9223372036854775807a",
        "SELECT NOW() + 9223372036854775807",
        "SELECT NOW() + 9223372036854775807y",
        "SELECT NOW() + 9223372036854775807d",
        "SELECT ts + 9999999y FROM a",
        "SELECT ts + 9223372036854775807 FROM a",
        "SELECT ts + 9223372036854775807a FROM a",
        "SELECT 9223372036854775807 + ts FROM a",
        "SELECT i FROM a WHERE ts + 9999999y > 0",
        "SELECT i FROM a WHERE ts > NOW() - 9999999y",
        "SELECT COUNT(*) FROM a INTERVAL(9999999y)",
        "SELECT COUNT(*) FROM a INTERVAL(9223372036854775807y)",
        "SELECT COUNT(*) FROM a INTERVAL(9223372036854775807w)",
        "SELECT COUNT(*) FROM a INTERVAL(1y, 9999999n)",
    ];
    refused(&store, &statements, Code::OutOfRange, "9");
    let moved = store.query("SELECT ts + 1n, ts - 1y, ts + 5, 5 + ts, ts - 1d FROM a").unwrap();
    let t = 1_709_251_200_000_i64;
    let wanted = [t + 31 * 86_400_000, t - 366 * 86_400_000, t + 5, t + 5, t - 86_400_000];
    assert_eq!(rows(&moved)[0], wanted.map(serde_json::Value::from));
}

#[test]
fn text_that_is_no_time_has_a_code_of_its_own() {
    let store = fixture();
    let wrong = [
        "SELECT TO_TIMESTAMP('2024-03-05 25:00','yyyy-mm-dd hh24:mi')",
        "SELECT TO_TIMESTAMP('2024-13-05','yyyy-mm-dd')",
        "SELECT TO_TIMESTAMP('13','hh12')",
    ];
    refused(&store, &wrong, Code::WrongTimestamp, "to_timestamp");
    refused(&store, &["SELECT TO_TIMESTAMP('2024 060','yyyy ddd')"], Code::TimestampFormat, "to_timestamp");
}
