//! Tables as wide as they may be.

use std::fmt::Write as _;

use model::{Code, Zone};

use crate::oracle::rows;
use crate::store::Store;

/// Columns of a table at most, the timestamp included.
const COLUMNS_MAX: usize = 4_096;
/// Stack of the thread that plans and runs, a small part of what the server's have.
const STACK_BYTES: usize = 2 << 20;

/// A table `w` of `columns` data columns, the timestamp included, and two rows: the later has NULL in its last column.
fn fixture(columns: usize) -> Store {
    let mut store = Store::new(Zone::UTC);
    let mut create = "CREATE TABLE w (ts TIMESTAMP".to_owned();
    let mut first = "(1".to_owned();
    let mut second = "(2".to_owned();
    for column in 1..columns {
        write!(create, ", c{column} INT").unwrap();
        write!(first, ", {column}").unwrap();
        if column + 1 < columns {
            write!(second, ", {}", 2 * column).unwrap();
        }
    }
    let insert = format!("INSERT INTO w VALUES {first}) {second}, NULL)");
    for sql in ["CREATE DATABASE d KEEP 36500", "USE d", &format!("{create})"), &insert] {
        store.run(sql).unwrap();
    }
    store
}

/// Runs `test` on a small stack: a plan as deep as the table is wide would not fit.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(test).unwrap().join().unwrap();
}

#[test]
fn the_widest_table_is_read_on_a_small_stack() {
    on_a_small_stack(|| {
        let store = fixture(COLUMNS_MAX);
        let row = |sql: &str| rows(&store.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))).remove(0);
        let last = COLUMNS_MAX - 1;
        for (sql, one, end) in [
            ("SELECT FIRST(*) FROM w", Some(1), Some(last)),
            ("SELECT LAST(*) FROM w", Some(2), Some(last)),
            ("SELECT LAST_ROW(*) FROM w", Some(2), None),
            ("SELECT LAST(*) FROM w INTERVAL(1s)", Some(2), Some(last)),
            ("SELECT * FROM w ORDER BY ts DESC", Some(2), None),
        ] {
            let row = row(sql);
            assert_eq!(row.len(), COLUMNS_MAX, "{sql}");
            assert_eq!((&row[1], &row[last]), (&one.into(), &end.into()), "{sql}");
        }
    });
}

#[test]
fn a_picked_row_costs_one_step_of_the_plan_however_many_values_it_gives() {
    let lines = |columns: usize| {
        let store = fixture(columns);
        ["FIRST", "LAST", "LAST_ROW"].map(|f| store.explain(&format!("SELECT {f}(*) FROM w")))
    };
    for (few, many) in lines(32).into_iter().zip(lines(64)) {
        assert_eq!(few.len(), many.len(), "{few:#?} {many:#?}");
        // No expression takes a single value out of a row: planning would compare each with each.
        assert!(!many.iter().any(|line| line.contains("get_field")), "{many:#?}");
    }
}

#[test]
fn wider_results_are_refused() {
    let store = fixture(COLUMNS_MAX);
    for sql in
        ["SELECT *, 1 FROM w", "SELECT FIRST(*), LAST(c1) FROM w", "SELECT * FROM (SELECT *, c1 FROM w)"]
    {
        let error = store.query(sql).expect_err(sql);
        assert_eq!(error.code(), Code::TooManyColumns, "{sql}");
        assert!(error.message().contains("4097"), "{error}");
    }
    let many = "1,".repeat(COLUMNS_MAX);
    assert_eq!(store.query(&format!("SELECT {many}1")).unwrap_err().code(), Code::TooManyColumns);
}

#[test]
fn the_deepest_statements_run_on_the_servers_stack() {
    // What `tidemark` gives its threads; a build without optimization needs the most.
    std::thread::Builder::new()
        .stack_size(8 << 20)
        .spawn(|| {
            let store = fixture(3);
            let deep = 120;
            let parens = format!("SELECT {}c1{} FROM w", "(1+".repeat(deep), ")".repeat(deep));
            let calls = format!("SELECT {}c1{} FROM w", "ABS(".repeat(deep), ")".repeat(deep));
            let queries = format!("{}SELECT ts, c1 FROM w{}", "SELECT * FROM (".repeat(60), ")".repeat(60));
            let unions = "SELECT c1 FROM w UNION ALL ".repeat(100) + "SELECT c1 FROM w";
            for sql in [parens, calls, queries, unions] {
                let answer = store.query(&sql).map(|answer| rows(&answer).len());
                assert!(answer.as_ref().is_ok_and(|&rows| rows >= 2), "{sql}: {answer:?}");
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

/// Conditions that programs write, of thousands of parts: DataFusion would make rows of them and recurse along these.
#[test]
fn a_condition_of_thousands_of_parts_is_planned_and_runs() {
    const PARTS: usize = 3_000;
    const SERVERS_STACK_BYTES: usize = 8 << 20;
    let test = || {
        let mut store = Store::new(Zone::UTC);
        for sql in [
            "CREATE DATABASE d KEEP 36500",
            "USE d",
            "CREATE TABLE m (ts TIMESTAMP, v INT, d INT)",
            "CREATE STABLE s (ts TIMESTAMP, v INT) TAGS (g INT)",
            "INSERT INTO m VALUES (1, 7, 5) (2, -9000, 5) (3, 8000, 5) c1 USING s TAGS (1) VALUES (1, 1) \
             c2 USING s TAGS (-9) VALUES (1, 2)",
        ] {
            store.run(sql).unwrap();
        }
        let chain =
            |part: &dyn Fn(usize) -> String, join: &str| (0..PARTS).map(part).collect::<Vec<_>>().join(join);
        let more = chain(&|i| format!("v+{i}>d"), " AND ");
        let other = chain(&|i| format!("v<>{}", i + 8_000), " AND ");
        let none = chain(&|i| format!("v+0={}", i + 7_000), " OR ");
        let having = chain(&|i| format!("COUNT(*)+{i}>0"), " AND ");
        let tags = chain(&|i| format!("g+{i}>0"), " AND ");
        for (sql, count) in [
            (format!("SELECT COUNT(*) FROM m WHERE {more}"), 2),
            (format!("SELECT COUNT(*) FROM m WHERE {other} AND ts > 1"), 1),
            (format!("SELECT COUNT(*) FROM m WHERE NOT ({none})"), 2),
            (format!("SELECT COUNT(*) FROM (SELECT * FROM m WHERE {other}) WHERE {more}"), 1),
            (format!("SELECT COUNT(*) FROM m GROUP BY d HAVING {having}"), 3),
            (
                format!(
                    "SELECT COUNT(*) FROM m a JOIN m b ON a.ts = b.ts AND {}",
                    more.replace('v', "a.v").replace('d', "b.d")
                ),
                2,
            ),
            (format!("SELECT COUNT(*) FROM s WHERE {tags}"), 1),
            (format!("SELECT COUNT(*) FROM m WHERE v+0 > d OR ({other})"), 3),
        ] {
            let found = store.query(&sql).unwrap_or_else(|e| panic!("{}: {e}", &sql[..60]));
            assert_eq!(rows(&found)[0][0].as_i64(), Some(count), "{}", &sql[..60]);
        }
    };
    std::thread::Builder::new().stack_size(SERVERS_STACK_BYTES).spawn(test).unwrap().join().unwrap();
}

#[test]
fn a_union_is_as_wide_as_its_wider_side() {
    let mut store = Store::new(Zone::UTC);
    for sql in [
        "CREATE DATABASE d KEEP 36500",
        "USE d",
        "CREATE TABLE a (ts TIMESTAMP, s VARCHAR(4), n NCHAR(3), i BIGINT)",
        "CREATE TABLE b (ts TIMESTAMP, s VARCHAR(20), n NCHAR(9), i BIGINT)",
        "INSERT INTO a VALUES (1, 'abcd', 'abc', 5000000000) b VALUES (1, 'abcdefghijkl', 'abcdefghi', 1)",
    ] {
        store.run(sql).unwrap();
    }
    for (sql, longest) in [
        ("SELECT s FROM a UNION ALL SELECT s FROM b", "abcdefghijkl"),
        ("SELECT s FROM a UNION SELECT s FROM b", "abcdefghijkl"),
        ("SELECT n FROM a UNION SELECT n FROM b", "abcdefghi"),
        ("SELECT s FROM a UNION SELECT n FROM b", "abcdefghi"),
        ("SELECT n FROM a UNION SELECT s FROM b", "abcdefghijkl"),
        ("SELECT s FROM a UNION SELECT i FROM a", "5000000000"),
        ("SELECT s FROM (SELECT s FROM a UNION ALL SELECT s FROM b) WHERE s LIKE '%kl'", "abcdefghijkl"),
    ] {
        let found = store.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let texts: Vec<String> = rows(&found).iter().map(|row| format!("{:?}", row[0])).collect();
        assert!(texts.iter().any(|text| text.contains(longest)), "{sql}: {texts:?}");
    }
}
