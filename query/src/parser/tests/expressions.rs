use model::Value;

use super::*;
use crate::ast::{BinaryOp, Expr};

/// The tree with every operator in parentheses.
fn tree(sql: &str) -> String {
    show(&parse_expr(sql).unwrap_or_else(|e| panic!("{sql}: {e}")))
}

fn show(expr: &Expr) -> String {
    let list = |items: &[Expr]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    let not = |negated: &bool| if *negated { "not " } else { "" };
    match expr {
        Expr::Column { qualifier: Some(table), name, .. } => format!("{table}.{name}"),
        Expr::Column { name, quoted: true, .. } => format!("`{name}`"),
        Expr::Column { name, .. } => name.clone(),
        Expr::Literal(Value::Text(text)) => format!("'{text}'"),
        Expr::Literal(Value::Double(v)) => format!("{v:?}"),
        Expr::Literal(value) => value.to_string(),
        Expr::Duration(duration) => duration.to_string(),
        Expr::TypedTimestamp(text) => format!("timestamp '{text}'"),
        Expr::Negate(e) => format!("(-{})", show(e)),
        Expr::Not(e) => format!("(not {})", show(e)),
        Expr::Binary { left, op, right } => format!("({} {} {})", show(left), symbol(*op), show(right)),
        Expr::Between { expr, negated, low, high } => {
            format!("({} {}between {} and {})", show(expr), not(negated), show(low), show(high))
        }
        Expr::InList { expr, negated, list: items } => {
            format!("({} {}in [{}])", show(expr), not(negated), list(items))
        }
        Expr::IsNull { expr, negated } => format!("({} is {}null)", show(expr), not(negated)),
        Expr::Like { expr, negated, pattern } => {
            format!("({} {}like {})", show(expr), not(negated), show(pattern))
        }
        Expr::Match { expr, negated, pattern } => {
            format!("({} {}match {})", show(expr), not(negated), show(pattern))
        }
        Expr::Function { name, args, .. } => format!("{name}({})", list(args)),
        Expr::Star => "*".into(),
        Expr::Cast { expr, data_type } => format!("cast({} as {data_type})", show(expr)),
        Expr::Case { operand, branches, otherwise } => {
            let operand = operand.as_ref().map_or(String::new(), |o| format!(" {}", show(o)));
            let branches: String =
                branches.iter().map(|(w, t)| format!(" when {} then {}", show(w), show(t))).collect();
            let otherwise = otherwise.as_ref().map_or(String::new(), |o| format!(" else {}", show(o)));
            format!("case{operand}{branches}{otherwise} end")
        }
    }
}

fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Or => "or",
        BinaryOp::And => "and",
        BinaryOp::Eq => "=",
        BinaryOp::NotEq => "<>",
        BinaryOp::Lt => "<",
        BinaryOp::LtEq => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::GtEq => ">=",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::Plus => "+",
        BinaryOp::Minus => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
    }
}

#[test]
fn precedence() {
    for (sql, expected) in [
        ("a OR b AND c", "(a or (b and c))"),
        ("NOT a = b AND c", "((not (a = b)) and c)"),
        ("NOT NOT a", "(not (not a))"),
        ("a & b + c", "(a & (b + c))"),
        ("a | b & c", "((a | b) & c)"),
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b % c", "((a / b) % c)"),
        ("-a * b", "((-a) * b)"),
        ("- -a", "(-(-a))"),
        ("+a", "a"),
        ("a = b + 1", "(a = (b + 1))"),
        ("a & 1 = 1", "((a & 1) = 1)"),
        ("(a OR b) AND c", "((a or b) and c)"),
        ("a BETWEEN 1 AND 2 AND b", "((a between 1 and 2) and b)"),
        ("a NOT BETWEEN 1 + 1 AND 2 OR b", "((a not between (1 + 1) and 2) or b)"),
        ("a NOT IN (1, 'x', NULL)", "(a not in [1, 'x', NULL])"),
        ("a LIKE 'x\\_%' AND b NOT LIKE 'y'", "((a like 'x\\_%') and (b not like 'y'))"),
        ("a MATCH '^x' OR a NMATCH 'y'", "((a match '^x') or (a not match 'y'))"),
        ("a REGEXP 'x' OR a NOT REGEXP 'y'", "((a match 'x') or (a not match 'y'))"),
        ("a IS NULL OR b IS NOT NULL", "((a is null) or (b is not null))"),
        ("ISNULL(a) OR ISNOTNULL(b)", "((a is null) or (b is not null))"),
        ("a <> 1 AND b != 2 AND c == 3", "(((a <> 1) and (b <> 2)) and (c = 3))"),
        ("now - 1d", "(now() - 1d)"),
        ("NOW() + 1n", "(now() + 1n)"),
        ("ts > TIMESTAMP '2024-01-01' - 1h", "(ts > (timestamp '2024-01-01' - 1h))"),
        ("1 AND 0", "(1 and 0)"),
    ] {
        assert_eq!(tree(sql), expected, "{sql}");
    }
}

#[test]
fn literals() {
    for (sql, expected) in [
        ("9223372036854775807", Value::Int(i64::MAX)),
        ("9223372036854775808", Value::UInt(1 << 63)),
        ("-9223372036854775808", Value::Int(i64::MIN)),
        ("99999999999999999999", Value::UInt(u64::MAX)),
        ("1.", Value::Double(1.0)),
        (".5", Value::Double(0.5)),
        ("1e-3", Value::Double(0.001)),
        ("TRUE", Value::Bool(true)),
        ("Null", Value::Null),
        ("'a''b'", Value::Text("a'b".into())),
        ("\"c\\\"d\"", Value::Text("c\"d".into())),
    ] {
        assert_eq!(parse_expr(sql).unwrap(), Expr::Literal(expected), "{sql}");
    }
}

#[test]
fn names_and_pseudo_columns() {
    for (sql, expected) in [
        ("Abc", "abc"),
        ("`Abc`", "`Abc`"),
        ("T.Col", "t.col"),
        ("`T`.`a b`", "T.a b"),
        ("TBNAME", "tbname"),
        ("t.tbname", "t.tbname"),
        ("_WSTART", "_wstart"),
        ("_c0", "_c0"),
        ("type + text + source", "((type + text) + source)"),
    ] {
        assert_eq!(tree(sql), expected, "{sql}");
    }
    assert!(matches!(parse_expr("`tbname`").unwrap(), Expr::Column { quoted: true, .. }));
}

#[test]
fn functions() {
    for (sql, expected) in [
        ("COUNT(*)", "count(*)"),
        ("first(a, b)", "first(a, b)"),
        ("LAST(*)", "last(*)"),
        ("PI() + RAND(3)", "(pi() + rand(3))"),
        ("CAST(a AS VARCHAR)", "cast(a as VARCHAR(0))"),
        ("CAST(a + 1 AS INT UNSIGNED)", "cast((a + 1) as INT UNSIGNED)"),
        ("CAST('x' AS BINARY(4))", "cast('x' as VARCHAR(4))"),
        ("TRIM(a)", "trim(a)"),
        ("TRIM('x' FROM a)", "trim('both', 'x', a)"),
        ("TRIM(LEADING FROM a)", "trim('leading', ' ', a)"),
        ("TRIM(TRAILING 'x' FROM a)", "trim('trailing', 'x', a)"),
        ("SUBSTRING(a FROM 2 FOR 3)", "substring(a, 2, 3)"),
        ("SUBSTR(a, -4, 2)", "substr(a, (-4), 2)"),
        ("POSITION('x' IN a)", "position('x', a)"),
        ("REPLACE(a, 'b', 'c')", "replace(a, 'b', 'c')"),
        ("TIMETRUNCATE(ts, 1d, 0)", "timetruncate(ts, 1d, 0)"),
        ("DATABASE()", "database()"),
        ("CASE WHEN a > 1 THEN 'x' ELSE 'y' END", "case when (a > 1) then 'x' else 'y' end"),
        ("CASE a WHEN 1 THEN 2 WHEN 3 THEN 4 END", "case a when 1 then 2 when 3 then 4 end"),
        ("IF(a, b, c)", "if(a, b, c)"),
    ] {
        assert_eq!(tree(sql), expected, "{sql}");
    }
}

#[test]
fn what_the_dialect_does_not_chain() {
    for (sql, near) in [
        ("SELECT 1 = 1 = 1", "= 1"),
        ("SELECT 1 IS TRUE", "true"),
        ("SELECT 1 XOR 0", "0"),
        ("SELECT SUM(DISTINCT i) FROM t", "distinct i) from t"),
        ("SELECT MAX(*) FROM t", "*) from t"),
        ("SELECT ABS()", ")"),
        ("SELECT CAST(1 INT)", "int)"),
        ("SELECT CAST('a' AS FOO)", "foo)"),
        ("SELECT 0x1F", "0x1f"),
        ("SELECT j->k='u' FROM t", "k='u' from t"),
    ] {
        assert_eq!(refused(sql), (Code::Syntax, format!("syntax error near \"{near}\"")), "{sql}");
    }
}

#[test]
fn generated_conditions_may_be_long() {
    let sql = vec!["i = 1"; 20_000].join(" OR ");
    assert!(parse_expr(&sql).is_ok());
    let sql = format!("i IN ({})", vec!["1"; 50_000].join(","));
    assert!(parse_expr(&sql).is_ok());
}

#[test]
fn depth_is_bounded() {
    let deep = 100_000;
    for sql in [
        "(".repeat(deep),
        format!("{}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("{}1", "-".repeat(deep).replace("--", "- ")),
        format!("{}1", "NOT ".repeat(deep)),
        format!("1{}", " + 1".repeat(deep)),
        format!("{}1{}", "abs(".repeat(deep), ")".repeat(deep)),
        "CASE WHEN ".repeat(deep),
    ] {
        let error = parse_expr(&sql).unwrap_err();
        assert!(error.message().contains("levels deep"), "{error}");
    }
    for sql in [
        format!("SELECT * FROM {}", "(SELECT * FROM ".repeat(deep)),
        format!("SELECT * FROM {}t", "(".repeat(deep)),
        "(".repeat(deep),
    ] {
        assert!(parse(&sql).is_err());
    }
    assert!(parse_expr(&format!("{}1{}", "(".repeat(100), ")".repeat(100))).is_ok());
}
