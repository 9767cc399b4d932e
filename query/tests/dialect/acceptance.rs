//! Acceptance cases of the SQL reference, under their numbers there.

use model::{Code, Zone};
use serde_json::{Value as Json, json};

use crate::oracle::rows;
use crate::store::Store;

/// 2024-03-01T00:00:00Z in milliseconds.
const T: i64 = 1_709_251_200_000;

fn fixture() -> Store {
    let mut store = Store::new(Zone::UTC);
    for sql in [
        "CREATE DATABASE acc KEEP 36500",
        "USE acc",
        "CREATE STABLE m (ts TIMESTAMP, i INT, f DOUBLE, s VARCHAR(16), b BOOL) TAGS (site NCHAR(12), no INT)",
        "CREATE TABLE a USING m TAGS('north',1) b USING m (no) TAGS(2)",
        "INSERT INTO a VALUES ('2024-03-01 00:00:00',10,1.5,'x',true) ('2024-03-01 00:00:20',NULL,2.5,'y',false)
         ('2024-03-01 00:01:05',30,NULL,'y',true) ('2024-03-01 00:03:10',40,4.5,NULL,true)
         b VALUES ('2024-03-01 00:00:10',1,0.5,'z',true) ('2024-03-01 00:02:00',2,1.0,'z',false)",
    ] {
        store.run(sql).unwrap();
    }
    store
}

/// A minute and second of the day.
fn at(minute: i64, second: i64) -> Json {
    json!(T + minute * 60_000 + second * 1_000)
}

#[track_caller]
fn answer(store: &Store, sql: &str, expected: Json) {
    let got = rows(&store.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}")));
    assert_eq!(json!(got).to_string(), expected.to_string(), "{sql}");
}

#[track_caller]
fn refused(store: &Store, sql: &str, code: Code) {
    match store.query(sql) {
        Ok(answer) => panic!("{sql}: answered {:?}", rows(&answer)),
        Err(error) => assert_eq!(error.code(), code, "{sql}: {error}"),
    }
}

const W: &str = "WHERE ts >= '2024-03-01 00:00:00' AND ts < '2024-03-01 00:05:00'";

#[test]
fn aggregates_1_to_12() {
    let s = fixture();
    answer(&s, "SELECT COUNT(*),COUNT(i),COUNT(f),COUNT(s) FROM a", json!([[4, 3, 3, 3]]));
    answer(
        &s,
        "SELECT SUM(i),AVG(i),MIN(i),MAX(i),SPREAD(i) FROM a",
        json!([[80, 26.666666666666668, 10, 40, 30.0]]),
    );
    answer(&s, "SELECT FIRST(i),LAST(f),LAST(s) FROM a", json!([[10, 4.5, "y"]]));
    answer(&s, "SELECT LAST_ROW(s) FROM a", json!([[null]]));
    answer(&s, "SELECT ts,MAX(i) FROM a", json!([[at(3, 10), 40]]));
    refused(&s, "SELECT MIN(i),MAX(i),s FROM a", Code::NotSingleGroup);
    refused(&s, "SELECT COUNT(*),i FROM a", Code::NotSingleGroup);
    refused(&s, "SELECT i FROM a WHERE COUNT(*)>0", Code::NoAggregation);
    refused(&s, "SELECT COUNT(*),i FROM a GROUP BY s", Code::NotGroupBy);
    answer(&s, "SELECT COUNT(*),SUM(i) FROM a WHERE ts>'2030-01-01'", json!([[0, null]]));
    answer(&s, "SELECT SUM(i) FROM a WHERE ts>'2030-01-01'", json!([]));
    answer(&s, "SELECT COUNT(*) FROM a WHERE ts>'2030-01-01' INTERVAL(1m)", json!([]));
}

#[test]
fn windows_13_to_27() {
    let s = fixture();
    answer(
        &s,
        "SELECT _wstart,_wend,_wduration,COUNT(*) FROM a INTERVAL(1m)",
        json!([
            [at(0, 0), at(1, 0), 60000, 2],
            [at(1, 0), at(2, 0), 60000, 1],
            [at(3, 0), at(4, 0), 60000, 1]
        ]),
    );
    for (fill, values) in [
        ("NULL", json!([10, 30, null, 40, null])),
        ("PREV", json!([10, 30, 30, 40, 40])),
        ("NEXT", json!([10, 30, 40, 40, null])),
        ("LINEAR", json!([10, 30, 35, 40, null])),
        ("VALUE,7.9", json!([10, 30, 7, 40, 7])),
    ] {
        let expected: Vec<Json> =
            (0..5).map(|m| json!([at(m, 0), values[usize::try_from(m).unwrap()]])).collect();
        answer(&s, &format!("SELECT _wstart,SUM(i) FROM a {W} INTERVAL(1m) FILL({fill})"), json!(expected));
    }
    refused(
        &s,
        &format!("SELECT COUNT(*),SUM(i) FROM a {W} INTERVAL(1m) FILL(VALUE,0)"),
        Code::WrongValueType,
    );
    let empty = "SELECT SUM(i) FROM a WHERE ts>='2024-04-01' AND ts<'2024-04-01 00:03:00' INTERVAL(1m)";
    answer(&s, &format!("{empty} FILL(NULL)"), json!([]));
    answer(&s, &format!("{empty} FILL(NULL_F)"), json!([[null], [null], [null]]));
    answer(&s, &format!("{empty} FILL(VALUE_F,1)"), json!([[1], [1], [1]]));
    answer(
        &s,
        "SELECT _wstart,COUNT(*) FROM a INTERVAL(2m) SLIDING(1m)",
        json!([[at(-1, 0), 2], [at(0, 0), 3], [at(1, 0), 1], [at(2, 0), 1], [at(3, 0), 1]]),
    );
    refused(&s, "SELECT COUNT(*) FROM a INTERVAL(1m) SLIDING(2m)", Code::SlidingTooLarge);
    answer(
        &s,
        "SELECT _wstart,COUNT(*) FROM a INTERVAL(1m,30s)",
        json!([[at(0, -30), 2], [at(0, 30), 1], [at(2, 30), 1]]),
    );
    refused(&s, "SELECT COUNT(*) FROM a INTERVAL(1m,1m)", Code::OffsetTooLarge);
    refused(&s, "SELECT i FROM a INTERVAL(1m)", Code::InvalidUsage);
    refused(&s, "SELECT COUNT(*) FROM a INTERVAL(1m) GROUP BY s", Code::GroupByWithWindow);
    refused(&s, "SELECT _wstart,SUM(i) FROM a", Code::WindowPseudoColumn);
}

#[test]
fn partitions_and_order_38_to_44() {
    let s = fixture();
    answer(
        &s,
        "SELECT tbname,COUNT(*) FROM m PARTITION BY tbname ORDER BY tbname",
        json!([["a", 4], ["b", 2]]),
    );
    assert_eq!(rows(&s.query("SELECT tbname,ts FROM m PARTITION BY tbname LIMIT 1").unwrap()).len(), 2);
    refused(&s, "SELECT COUNT(*) FROM m SLIMIT 1", Code::SlimitWithoutPartition);
    answer(
        &s,
        "SELECT DISTINCT tbname,site,no FROM m ORDER BY tbname",
        json!([["a", "north", 1], ["b", null, 2]]),
    );
    answer(&s, "SELECT i FROM a ORDER BY i", json!([[null], [10], [30], [40]]));
    answer(&s, "SELECT i FROM a ORDER BY i DESC", json!([[40], [30], [10], [null]]));
    refused(&s, "SELECT DISTINCT i FROM a ORDER BY ts", Code::NotSelected);
    refused(&s, "SELECT i FROM a ORDER BY 2", Code::OrderByPosition);
}

#[test]
fn joins_and_unions_62_to_64() {
    let s = fixture();
    refused(&s, "SELECT x.ts FROM a x LEFT JOIN b y ON x.i=y.i", Code::JoinCondition);
    assert_eq!(rows(&s.query("SELECT x.ts FROM a x LEFT ANTI JOIN b y ON x.ts=y.ts").unwrap()).len(), 4);
    refused(&s, "SELECT i FROM a UNION ALL SELECT i,f FROM a", Code::ResultColumns);
    refused(&s, "SELECT * FROM zz", Code::TableNotExist);
}

#[test]
fn expressions_79_to_98() {
    let s = fixture();
    answer(&s, r#"SELECT 'a''b', "c\"d", LENGTH('\\'), LENGTH('\n')"#, json!([["a'b", "c\"d", 1, 1]]));
    answer(&s, "SELECT 7/2, 7%3, 1/0, 5&3, 5|2", json!([[3.5, 1.0, null, 1, 7]]));
    answer(
        &s,
        "SELECT CAST('12abc' AS INT),CAST('abc' AS INT),CAST(300 AS TINYINT),CAST(3.99 AS INT),CAST('hello' AS VARCHAR(3))",
        json!([[12, 0, 44, 3, "hel"]]),
    );
    answer(
        &s,
        "SELECT SUBSTR('windmill',-4,2),SUBSTR('windmill',0),TRIM('ab' FROM 'ababxab'),CONCAT('a',NULL),SUBSTRING_INDEX('a.b.c','.',-2)",
        json!([["mi", "", "x", null, "b.c"]]),
    );
    answer(&s, r"SELECT '50%' LIKE '50\%', '500' LIKE '50\%'", json!([[true, false]]));
    answer(&s, "SELECT tbname FROM m WHERE tbname MATCH '^a$' LIMIT 1", json!([["a"]]));
    answer(
        &s,
        "SELECT WEEKDAY('2024-01-01'),DAYOFWEEK('2024-01-01'),WEEK('2024-01-01'),WEEKOFYEAR('2024-01-01')",
        json!([[0, 2, 0, 1]]),
    );
    answer(&s, "SELECT TIMEDIFF('2024-01-01 08:00:00','2024-01-01 08:00:59',1m)", json!([[0]]));
    answer(&s, "SELECT TIMEDIFF('2024-01-01 08:00:00','2024-01-01 08:00:59',1s)", json!([[-59]]));
    answer(
        &s,
        "SELECT GREATEST(1,NULL), NVL2(NULL,1,2), IFNULL(NULL,5), NULLIF(3,3)",
        json!([[null, 2, 5, null]]),
    );
    answer(&s, "SELECT SERVER_STATUS()", json!([[1]]));
    let counted = s.query("SELECT Count(*) FROM a").unwrap();
    assert_eq!(counted.columns[0].name, "count(*)");
}

#[test]
fn zones_87_to_89() {
    let mut s = Store::new(Zone::parse("Asia/Shanghai").unwrap());
    for sql in [
        "CREATE DATABASE z KEEP 36500",
        "USE z",
        "CREATE TABLE t (ts TIMESTAMP, v INT)",
        "INSERT INTO t VALUES ('2024-03-01T17:00:00Z',1)",
    ] {
        s.run(sql).unwrap();
    }
    answer(
        &s,
        "SELECT TIMETRUNCATE('2024-03-01 23:30:00',1d,0), TIMETRUNCATE('2024-03-01 23:30:00',1d,1)",
        json!([[at(0, 0), at(-8 * 60, 0)]]),
    );
    answer(&s, "SELECT _wstart,COUNT(*) FROM t INTERVAL(1d)", json!([[at(16 * 60, 0), 1]]));
    answer(&s, "SELECT _wstart,COUNT(*) FROM t INTERVAL(24h)", json!([[at(0, 0), 1]]));
}

#[test]
fn scans_are_told_what_they_may_leave_out() {
    let s = fixture();
    let plan = s.explain(&format!("SELECT avg(i) FROM a {W} AND i > 5 INTERVAL(1h)")).join("\n");
    assert!(plan.contains(&format!("time=[{T}, {}]", T + 299_999)), "{plan}");
    assert!(plan.contains("rows where"), "{plan}");
    assert!(!plan.contains("SortExec"), "one table comes in order of time: {plan}");
    let plan = s.explain("SELECT ts, i FROM m WHERE no = 2 AND tbname IN ('a', 'b')").join("\n");
    assert!(plan.contains("tables where"), "{plan}");
    assert!(plan.contains("tables=[\"a\", \"b\"]"), "{plan}");
    assert!(!plan.contains("FilterExec"), "{plan}");
    let plan = s.explain("SELECT ts FROM a LIMIT 2").join("\n");
    assert!(plan.contains("limit=2"), "{plan}");
}

/// Prints what planning alone costs (`--nocapture` shows it); asserts nothing, for a busy machine would fail it.
#[test]
fn planning_time_is_reported() {
    let s = fixture();
    let sql = "SELECT avg(f) FROM a WHERE ts>='2024-03-01' AND ts<'2024-03-02' INTERVAL(1h)";
    let (logical, physical) = s.planning_us(sql, 50);
    println!("planning: logical {logical} us, physical {physical} us");
}

/// The parser bounds the height of a tree; planning the tallest one must not exhaust a thread's stack.
#[test]
fn tall_expressions_leave_the_process_alive() {
    let s = fixture();
    for height in [100, 125] {
        let sum = format!("SELECT i{} FROM a WHERE i = 10", "+1".repeat(height));
        let nested = format!("SELECT {}i{} FROM a WHERE i = 10", "abs(".repeat(height), ")".repeat(height));
        let grouped = format!("SELECT sum(i){} FROM a", "+1".repeat(height));
        for sql in [sum, nested, grouped] {
            match s.query(&sql) {
                Ok(answer) => assert_eq!(rows(&answer).len(), 1),
                Err(error) => assert_eq!(error.code(), Code::Syntax, "{error}"),
            }
        }
    }
}

#[test]
fn operands_that_stand_twice_do_not_double_the_plan_without_end() {
    let s = fixture();
    let nested = |levels: usize, open: &str, close: &str| {
        format!("SELECT {}i{} FROM a WHERE i = 10", open.repeat(levels), close.repeat(levels))
    };
    answer(&s, &nested(60, "IFNULL(", ", 1)"), json!([[10]]));
    answer(&s, &nested(60, "COALESCE(NULL, ", ", 'x')"), json!([["10"]]));
    answer(
        &s,
        "SELECT IFNULL(NULL, NULL), COALESCE(NULL), IFNULL(s, i) FROM a WHERE i IS NULL",
        json!([[null, null, "y"]]),
    );
    answer(&s, &nested(5, "NULLIF(", ", 1)"), json!([[10]]));
    for (open, close) in [
        ("NULLIF(", ", 1)"),
        ("(", " BETWEEN 0 AND 20)"),
        ("(", " IN (1, 10.5, 'x'))"),
        ("(CASE ", " WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 10 END)"),
    ] {
        refused(&s, &nested(60, open, close), Code::Syntax);
    }
}

#[test]
fn a_number_that_its_type_does_not_hold_is_null() {
    let mut s = fixture();
    for sql in [
        "CREATE TABLE least (ts TIMESTAMP, t TINYINT, i INT, b BIGINT)",
        "INSERT INTO least VALUES (1, -128, -2147483648, -9223372036854775808) (2, -127, -2147483647, -9223372036854775807)",
    ] {
        s.run(sql).unwrap();
    }
    answer(
        &s,
        "SELECT ABS(t), ABS(i), ABS(b) FROM least",
        json!([[null, null, null], [127, 2_147_483_647, i64::MAX]]),
    );
    answer(&s, "SELECT ABS(-9223372036854775808)", json!([[null]]));
}

#[test]
fn members_of_json_tags_5_13() {
    let mut s = Store::new(Zone::UTC);
    for sql in [
        "CREATE DATABASE g KEEP 36500",
        "USE g",
        "CREATE STABLE js (ts TIMESTAMP, v INT) TAGS (j JSON)",
        r#"CREATE TABLE j1 USING js TAGS('{"k":"u","n":2,"b":true}') j2 USING js TAGS('{"k":"v","n":10.5,"z":null}')
           j3 USING js TAGS('{"n":"2","deep":""}') j4 USING js TAGS(NULL) j5 USING js TAGS('{"n":0.0000000001}')"#,
        "INSERT INTO j1 VALUES ('2024-01-01 00:00:01',1) j2 VALUES ('2024-01-01 00:00:02',2)
         j3 VALUES ('2024-01-01 00:00:03',3) j4 VALUES ('2024-01-01 00:00:04',4)
         j5 VALUES ('2024-01-01 00:00:05',5)",
    ] {
        s.run(sql).unwrap();
    }
    let members = "SELECT j->'k', j->'n', j->'b', j->'z' FROM js ORDER BY v";
    answer(
        &s,
        members,
        json!([
            ["\"u\"", "2.000000000", "true", null],
            ["\"v\"", "10.500000000", null, null],
            [null, "\"2\"", null, null],
            [null, null, null, null],
            [null, "0.000000000", null, null],
        ]),
    );
    assert_eq!(s.query(members).unwrap().columns[0].data_type, model::DataType::Json);
    for (condition, rows) in [
        ("j->'k' = 'u'", json!([[1]])),
        ("j->'k' <> 'u'", json!([[2]])),
        ("'u' < j->'k'", json!([[2]])),
        ("j->'n' = 10.5", json!([[2]])),
        ("j->'n' = 0.0000000001", json!([[5]])),
        ("j->'n' > 1", json!([[1], [2]])),
        ("1 < j->'n'", json!([[1], [2]])),
        ("j->'n' = '2'", json!([[3]])),
        ("j->'n' BETWEEN 1 AND 3", json!([[1]])),
        ("j->'n' IN (2, 10.5)", json!([[1], [2]])),
        ("j->'b' = true", json!([[1]])),
        ("j->'b' = 1", json!([])),
        ("j->'k' LIKE 'u%'", json!([[1]])),
        ("j->'k' MATCH '^v$'", json!([[2]])),
        ("j->'k' IS NOT NULL", json!([[1], [2]])),
        ("j->'z' IS NULL AND v < 3", json!([[1], [2]])),
    ] {
        answer(&s, &format!("SELECT v FROM js WHERE {condition} ORDER BY v"), rows);
    }
    answer(&s, "SELECT j->'n' + 1 FROM js WHERE v < 5 ORDER BY v", json!([[3.0], [11.5], [3.0], [null]]));
    answer(&s, "SELECT v FROM js WHERE v < 4 ORDER BY j->'k'", json!([[3], [1], [2]]));
    answer(&s, "SELECT COUNT(j->'k') FROM js", json!([[2]]));
    answer(
        &s,
        "SELECT COUNT(*), j->'k' FROM js GROUP BY j->'k' ORDER BY j->'k'",
        json!([[3, null], [1, "\"u\""], [1, "\"v\""]]),
    );
    refused(&s, "SELECT v FROM js WHERE v->'k' = 1", Code::InvalidOperation);
    refused(&s, "SELECT LENGTH(j->'k') FROM js", Code::ParameterType);
    refused(&s, "SELECT v FROM js WHERE j->'k' = j->'n'", Code::NotSupported);
}
