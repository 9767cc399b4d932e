use model::{DurationLiteral, Place};

use super::*;
use crate::ast::{Fill, JoinKind, Limit, Select, SelectItem, SetExpr, TableRef, Window, WindowDuration};

fn query(sql: &str) -> Query {
    match parse(sql) {
        Ok(Statement::Query(query)) => *query,
        other => panic!("{sql}: {other:?}"),
    }
}

fn select(sql: &str) -> Select {
    match query(sql).body {
        SetExpr::Select(select) => *select,
        other => panic!("{sql}: {other:?}"),
    }
}

fn literal(text: &str) -> WindowDuration {
    WindowDuration::Literal(DurationLiteral::parse(text).unwrap())
}

#[test]
fn columns_are_named_by_their_source() {
    let items = select("SELECT Count(*), a+ 1 AS X, 'Ab' \"Q\", b 温度, `C` FROM t").items;
    let names: Vec<_> = items
        .iter()
        .map(|item| match item {
            SelectItem::Expr { alias, text, .. } => (text.as_str(), alias.as_deref()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        names,
        [("count(*)", None), ("a+ 1", Some("x")), ("'Ab'", Some("Q")), ("b", Some("温度")), ("`C`", None),]
    );
}

#[test]
fn all_clauses_in_order() {
    let query = query(
        "SELECT DISTINCT _wstart, t.*, avg(v) FROM db.m AS t WHERE v > 1 PARTITION BY tbname, site s \
         INTERVAL(1d, 8h) SLIDING('12h') FILL(VALUE, 0, 'x') HAVING avg(v) > 2 \
         ORDER BY 1 DESC NULLS LAST, v SLIMIT 2 SOFFSET 1 LIMIT 5, 10",
    );
    assert_eq!(query.slimit, Some(Limit { count: Some(2), offset: 1 }));
    assert_eq!(query.limit, Some(Limit { count: Some(10), offset: 5 }));
    assert_eq!(query.order_by.len(), 2);
    assert_eq!((query.order_by[0].descending, query.order_by[0].nulls_first), (true, Some(false)));
    let SetExpr::Select(select) = query.body else { panic!() };
    assert!(select.distinct && !select.tags_only && select.having.is_some());
    assert_eq!(select.items[1], SelectItem::QualifiedWildcard("t".into()));
    assert_eq!(
        select.from,
        Some(TableRef::Table { name: ObjectName::new(Some("db"), "m"), alias: Some("t".into()) })
    );
    assert_eq!(select.partition_by[1].alias.as_deref(), Some("s"));
    assert_eq!(
        select.window,
        Some(Window::Interval {
            interval: literal("1d"),
            offset: Some(literal("8h")),
            sliding: Some(literal("12h")),
        })
    );
    assert!(matches!(select.fill, Some(Fill::Value { values, force: false }) if values.len() == 2));
}

#[test]
fn windows_and_fills() {
    let window = |sql: &str| select(&format!("SELECT count(*) FROM t {sql}")).window;
    assert_eq!(
        window("INTERVAL(1000)"),
        Some(Window::Interval { interval: WindowDuration::Ticks(1_000), offset: None, sliding: None })
    );
    assert_eq!(
        window("INTERVAL(1w, AUTO)"),
        Some(Window::Interval { interval: literal("1w"), offset: Some(WindowDuration::Auto), sliding: None })
    );
    let fill = |sql: &str| select(&format!("SELECT count(*) FROM t INTERVAL(1s) FILL({sql})")).fill;
    assert_eq!(fill("none"), Some(Fill::None));
    assert_eq!(fill("NULL_F"), Some(Fill::Null { force: true }));
    assert_eq!(fill("PREV"), Some(Fill::Prev));
    assert_eq!(fill("Next"), Some(Fill::Next));
    assert_eq!(fill("LINEAR"), Some(Fill::Linear));
}

#[test]
fn joins() {
    let kinds = |sql: &str| {
        let mut kinds = Vec::new();
        let mut from = select(&format!("SELECT 1 FROM {sql}")).from.unwrap();
        while let TableRef::Join { left, kind, on, .. } = from {
            kinds.push((kind, on.is_some()));
            from = *left;
        }
        kinds.reverse();
        kinds
    };
    use JoinKind::*;
    assert_eq!(kinds("a, b c, d"), [(Inner, false), (Inner, false)]);
    assert_eq!(kinds("a JOIN b ON a.ts=b.ts INNER JOIN c ON 1=1"), [(Inner, true), (Inner, true)]);
    assert_eq!(kinds("a LEFT JOIN b ON a.ts=b.ts"), [(LeftOuter, true)]);
    assert_eq!(kinds("a RIGHT OUTER JOIN b ON a.ts=b.ts"), [(RightOuter, true)]);
    assert_eq!(kinds("a FULL JOIN b ON a.ts=b.ts"), [(FullOuter, true)]);
    assert_eq!(kinds("a LEFT SEMI JOIN b ON a.ts=b.ts"), [(LeftSemi, true)]);
    assert_eq!(kinds("a RIGHT ANTI JOIN b ON a.ts=b.ts"), [(RightAnti, true)]);
    assert_eq!(kinds("(a JOIN b ON a.ts=b.ts)"), [(Inner, true)]);
}

#[test]
fn subqueries_and_unions() {
    let from = select("SELECT * FROM ((SELECT 1) UNION SELECT 2) AS x").from;
    assert!(matches!(from, Some(TableRef::Subquery { alias: Some(alias), .. }) if alias == "x"));
    let union = query("SELECT 1 UNION ALL SELECT 2 UNION SELECT 3 ORDER BY 1 LIMIT 2");
    assert!(matches!(&union.body, SetExpr::Union { all: false, left, .. }
        if matches!(**left, SetExpr::Union { all: true, .. })));
    assert!(union.limit.is_some());
    assert!(matches!(query("(SELECT 1 LIMIT 1)").body, SetExpr::Nested(_)));
    assert!(parse(&vec!["SELECT 1"; 101].join(" UNION ")).is_ok());
    assert_eq!(unsupported(&vec!["SELECT 1"; 102].join(" UNION ")), "more than 100 UNIONs");
}

#[test]
fn hints_and_small_forms() {
    select("SELECT /*+ para_tables_sort() */ TAGS tbname FROM m");
    assert!(select("SELECT TAGS tbname FROM m").tags_only);
    assert_eq!(query("SELECT 1 OFFSET 3").limit, Some(Limit { count: None, offset: 3 }));
    assert!(matches!(
        parse("EXPLAIN ANALYZE VERBOSE true RATIO 0.1 SELECT 1").unwrap(),
        Statement::Explain { analyze: true, .. }
    ));
    assert_eq!(
        parse("DELETE FROM db.t WHERE ts > 5")
            .map(|s| matches!(s, Statement::Delete { filter: Some(_), .. }))
            .ok(),
        Some(true)
    );
}

#[test]
fn what_is_not_built_says_its_name_and_place() {
    for (sql, construct) in [
        ("SELECT count(*) FROM t SESSION(ts, 1s)", "SESSION window"),
        ("SELECT count(*) FROM t STATE_WINDOW(v)", "STATE_WINDOW"),
        ("SELECT count(*) FROM t EVENT_WINDOW START WITH a END WITH b", "EVENT_WINDOW"),
        ("SELECT count(*) FROM t COUNT_WINDOW(3)", "COUNT_WINDOW"),
        ("SELECT interp(v) FROM t RANGE('a', 'b') EVERY(1s) FILL(PREV)", "RANGE (INTERP)"),
        ("SELECT x.ts FROM a x LEFT ASOF JOIN b y ON x.ts>=y.ts", "ASOF JOIN"),
        ("SELECT x.ts FROM a x LEFT WINDOW JOIN b y WINDOW_OFFSET(-1s,1s)", "WINDOW JOIN"),
        ("SELECT avg(v) FROM t INTERVAL(1s) FILL(NEAR)", "FILL(NEAR)"),
        ("SELECT avg(v) FROM t INTERVAL(1s) FILL(PREV) SURROUND(1s, 0)", "SURROUND"),
        ("SELECT 1 FROM t WHERE j CONTAINS 'k'", "CONTAINS on JSON tags"),
        ("SELECT (SELECT 1)", "scalar subquery"),
        ("SELECT 1 FROM t WHERE a IN (SELECT 1)", "IN (subquery)"),
        ("SELECT 1 FROM t WHERE NOT EXISTS (SELECT 1)", "EXISTS (subquery)"),
        ("SELECT 1 FROM t WHERE a > ALL (SELECT 1)", "ANY, SOME and ALL (subquery)"),
        ("SELECT sum(v) OVER (ORDER BY ts) FROM t", "OVER (window function)"),
        ("SELECT * FROM t WHERE a = ?", "? outside a prepared statement"),
        ("SELECT CAST(a AS VARBINARY(8)) FROM t", "CAST to VARBINARY"),
    ] {
        assert_eq!(unsupported(sql), construct, "{sql}");
    }
    let error = error("SELECT count(*)\n  FROM t SESSION(ts, 1s)");
    assert_eq!(error.place(), Some(Place { line: 2, column: 10 }));
}
