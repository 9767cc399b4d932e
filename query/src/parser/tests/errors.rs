use super::*;
use crate::ast::{SelectItem, SetExpr};

#[test]
fn errors_show_the_rest_of_the_statement() {
    for (sql, near) in [
        ("FOO", "foo"),
        ("SELEC 1", "selec 1"),
        ("SELECT 1 AS a b", "b"),
        ("SELECT * FROM t WHERE 'A' = B C ;", "c ;"),
        ("DELETE c1", "c1"),
        ("SELECT ts FROM c1 LIMIT 1.5", "1.5"),
        ("SELECT ts FROM c1 LIMIT 'a'", "'a'"),
        ("SELECT COUNT(*) FROM sm PARTITION BY g SLIMIT -1", "-1"),
        ("SELECT ts FROM c1 SOFFSET 1", "soffset 1"),
        ("SELECT COUNT(*) FROM c1 GROUP BY s INTERVAL(1m)", "interval(1m)"),
        ("SELECT COUNT(*) FROM sm INTERVAL(1m,-1s)", "-1s)"),
        ("SELECT g.ty.i FROM g.ty WHERE i=9", ".i from g.ty where i=9"),
        ("SELECT a._wstart FROM a", "_wstart from a"),
        ("SELECT AVG(d) FROM t INTERVAL(1m) FILL(VALUE)", ")"),
        ("SELECT AVG(d) FROM t INTERVAL(1m) FILL(BAD)", "bad)"),
        ("CREATE DATABASE 1h", "1h"),
        ("CREATE TABLE 1q (ts TIMESTAMP,v INT)", "1q (ts timestamp,v int)"),
        ("CREATE TABLE q (ts TIMESTAMP,日 INT)", "日 int)"),
        ("SELECT 1 INTERSECT SELECT 1", "select 1"),
    ] {
        assert_eq!(refused(sql), (Code::Syntax, format!("syntax error near \"{near}\"")), "{sql}");
    }
}

#[test]
fn errors_know_line_and_column() {
    let place = |sql: &str| error(sql).place().map(|at| (at.line, at.column));
    assert_eq!(place("SELECT 1\n  , é FROM FROM t"), Some((2, 5)));
    assert_eq!(place("SELECT 1\n\n FROM t t2 t3"), Some((3, 12)));
    assert_eq!(place(""), Some((1, 1)));
    assert_eq!(place("SELECT table FROM t"), Some((1, 8)));
    let help = "table is a reserved word: if it is meant as a name, write `table`";
    assert_eq!(error("SELECT table FROM t").help(), help);
}

/// A hint leads on, and no other does: a word that is wrong where it stands is not taken for a name.
#[test]
fn hints_tell_how_to_mend_it() {
    let cases = [
        // Reserved words where a name is expected.
        ("SELECT FIRST(timestamp) FROM t", "write `timestamp`"),
        ("SELECT timestamp FROM t", "write `timestamp`"),
        ("SELECT v FROM t WHERE timestamp > now - 1h", "write `timestamp`"),
        ("SELECT LAST(first) FROM t", "write `first`"),
        ("SELECT s.first FROM s", "write `first`"),
        ("SELECT v FROM t ORDER BY desc", "write `desc`"),
        ("SELECT v FROM t GROUP BY interval", "write `interval`"),
        ("SELECT v AS first FROM t", "write `first`"),
        ("SELECT v first FROM t", "write AS `first`"),
        ("SELECT v value FROM t", "write AS `value`"),
        ("SELECT order(v) FROM t", "write `order`"),
        ("CREATE TABLE x (timestamp TIMESTAMP, v INT)", "write `timestamp`"),
        ("CREATE TABLE x (ts TIMESTAMP, first INT)", "write `first`"),
        ("CREATE TABLE select (ts TIMESTAMP, v INT)", "write `select`"),
        ("ALTER TABLE t ADD COLUMN order INT", "write `order`"),
        ("USE order", "write `order`"),
        ("DROP TABLE d.order", "write `order`"),
        ("DROP TOPIC from", "write `from`"),
        // Other aggregates than there are.
        ("SELECT COUNT(DISTINCT v) FROM t", "SELECT COUNT(c) FROM (SELECT DISTINCT c FROM ..)"),
        ("SELECT SUM(distinct v) FROM t", "SELECT SUM(c) FROM (SELECT DISTINCT c FROM ..)"),
        // Rights.
        ("GRANT READ ON iot TO u", "write iot.*"),
        ("GRANT READ ON `My db` TO u", "write `My db`.*"),
        ("GRANT READ ON * TO u", "write *.*"),
        ("GRANT READ ON iot.s1 TO u", "write iot.*"),
        ("REVOKE ALL FROM u", "ON db.*, or ON *.*"),
        // Options of databases.
        (
            "ALTER DATABASE d VGROUPS 3",
            "VGROUPS is fixed when the database is created; ALTER DATABASE changes BUFFER",
        ),
        ("ALTER DATABASE d KEEP 30 PRECISION 'us'", "PRECISION is fixed when the database is created"),
        ("ALTER DATABASE d foo 3", "ALTER DATABASE changes BUFFER, CACHEMODEL"),
        ("CREATE DATABASE d foo 3", "options of a database: COMP, DURATION"),
        ("CREATE DATABASE d KEEP 5 DURATION 10", "with DURATION 10d KEEP is at least 30d"),
        (
            "CREATE DATABASE d KEEP 36h DURATION 1d",
            "with KEEP 36h DURATION, which only CREATE DATABASE sets, is at most 12h",
        ),
        ("CREATE DATABASE d KEEP 30,20", "KEEP 30d,20d,20d falls"),
        ("CREATE DATABASE d KEEP 0", "KEEP is 1d to 365000d"),
        ("CREATE DATABASE d DURATION 5m", "DURATION is 1h to 3650d"),
        // Definitions.
        ("CREATE TABLE t (ts TIMESTAMP, v TEXT)", "types are TIMESTAMP"),
        ("CREATE TABLE t (ts TIMESTAMP, v VARCHAR)", "as in VARCHAR(32)"),
        ("ALTER TABLE t ADD z INT", "then COLUMN"),
        // Order.
        ("SELECT COUNT(*) FROM t GROUP BY s INTERVAL(1m)", "clauses stand in this order: FROM, WHERE"),
        ("SELECT v FROM t LIMIT 5 ORDER BY v", "clauses stand in this order"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT v FROM t HAVING v > 1 INTERVAL(1m)", "clauses stand in this order"),
    ];
    for (sql, hint) in cases {
        let error = error(sql);
        assert!(error.help().contains(hint), "{sql}: {error}");
    }
    for sql in ["GRANT READ ON iot TO", "SELECT CASE WHEN 1 FROM t", "DROP CONSUMER GROUP g FROM t"] {
        assert!(!error(sql).help().contains("meant as"), "{sql}: {}", error(sql));
    }
}

#[test]
fn many_names_are_placed_in_one_pass() {
    // A pass for each would be a hundred thousand times the statement's length.
    let names = (0..50_000).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",\n ");
    let Statement::Query(query) = parse(&format!("SELECT {names} FROM t")).unwrap() else {
        panic!("no query")
    };
    let SetExpr::Select(select) = &query.body else { panic!("no SELECT") };
    let place = |item: &SelectItem| match item {
        SelectItem::Expr { expr: Expr::Column { at, .. }, .. } => at.0,
        _ => None,
    };
    assert_eq!(place(&select.items[0]), Some(Place { line: 1, column: 8 }));
    assert_eq!(place(&select.items[49_999]), Some(Place { line: 50_000, column: 2 }));
}

#[test]
fn long_statements_are_clipped_in_errors() {
    let (_, message) = refused(&format!("SELECT 1 1 {}", "é".repeat(10_000)));
    assert!(message.len() < 300, "{message}");
}

#[test]
fn unfinished_input() {
    for sql in [
        "",
        "  -- nothing\n",
        ";",
        "SELECT",
        "SELECT 1,",
        "SELECT 1 FROM",
        "SELECT 1 FROM ;",
        "SELECT i FROM ty WHERE",
        "SELECT i FROM ty WHERE i>",
        "SELECT * FROM (SELECT ts,i FROM c1",
        "CREATE STABLE q (ts TIMESTAMP,v INT)",
        "ALTER TABLE nt",
        "DROP TOPIC",
        "SHOW FOO",
        "CREATE TABLE e1 USING ms",
        "CREATE",
    ] {
        assert_eq!(refused(sql), (Code::IncompleteSql, "Incomplete SQL statement".into()), "{sql:?}");
    }
}

#[test]
fn unknown_tokens() {
    assert_eq!(refused("SELECT 'abc"), (Code::Syntax, "unrecognized token: \"'abc\"".into()));
    assert_eq!(refused("SELECT 1 /* abc"), (Code::Syntax, "unrecognized token: \"/* abc\"".into()));
    assert_eq!(refused("SELECT # 1"), (Code::Syntax, "unrecognized token: \"#\"".into()));
}

#[test]
fn names_have_limits() {
    let named = |length: usize| format!("CREATE TABLE {} (ts TIMESTAMP, v INT)", "a".repeat(length));
    assert!(parse(&named(192)).is_ok());
    assert_eq!(refused(&named(193)).0, Code::InvalidIdentifier);
    assert_eq!(refused(&format!("USE {}", "d".repeat(65))).0, Code::InvalidIdentifier);
    assert_eq!(
        refused("CREATE TABLE `Q.x` (ts TIMESTAMP,v INT)"),
        (Code::InvalidIdentifier, "The table name cannot contain '.'".into())
    );
    assert_eq!(
        refused("CREATE DATABASE `a.b`"),
        (Code::InvalidIdentifier, "The database name cannot contain '.'".into())
    );
    assert_eq!(refused("CREATE TOPIC `` AS SELECT ts FROM m").0, Code::InvalidIdentifier);
}

#[test]
fn words_that_begin_no_clause_name_columns_tags_and_tables() {
    for word in ["host", "value", "tag", "ttl", "state", "comment", "key", "user", "keep", "port", "Query"] {
        for sql in [
            format!("CREATE STABLE s (ts TIMESTAMP, v INT) TAGS ({word}2 INT, {word} INT)"),
            format!("CREATE TABLE {word} (ts TIMESTAMP, {word} INT) COMMENT 'x' TTL 3"),
            format!("CREATE TABLE c USING s ({word}) TAGS (1)"),
            format!("ALTER TABLE t ADD COLUMN {word} INT"),
            format!("ALTER TABLE t SET TAG {word} = 1"),
            format!("ALTER TABLE {word} TTL 3"),
            format!("SELECT {word}, {word}.{word}, {word}.*, MAX({word}) AS {word} FROM {word}"),
            format!(
                "SELECT 1 FROM t WHERE {word} > 1 AND {word} IS NULL PARTITION BY {word} \
                 INTERVAL(1s) FILL(VALUE, 1)"
            ),
            format!(
                "SELECT {word} v FROM {word} x WHERE x.{word} = 1 GROUP BY {word} ORDER BY {word} LIMIT 1"
            ),
            format!("DELETE FROM {word} WHERE {word} = 1"),
            format!("CREATE TOPIC {word} AS SELECT {word} FROM {word}"),
            format!("GRANT SUBSCRIBE ON {word} TO {word}"),
        ] {
            if let Err(error) = parse(&sql) {
                panic!("{sql}: {error}");
            }
        }
    }
    // A clause may follow there.
    assert_eq!(error("SELECT a value FROM t").code(), Code::Syntax);
}
