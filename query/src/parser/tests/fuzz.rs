use proptest::prelude::*;

use super::*;
use crate::lexer::Lexer;

/// Words and signs that steer the parser into every corner.
const SOUP: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "t",
    "`A b`",
    "db.t",
    "(",
    ")",
    ",",
    "*",
    "+",
    "-",
    "=",
    "<",
    ">=",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS",
    "NULL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "1",
    "1.5",
    "'x'",
    "10s",
    "now",
    "tbname",
    "_wstart",
    "COUNT",
    "CAST",
    "AS",
    "INT",
    "VARCHAR",
    "INTERVAL",
    "SLIDING",
    "FILL",
    "VALUE",
    "PREV",
    "PARTITION",
    "BY",
    "GROUP",
    "ORDER",
    "LIMIT",
    "UNION",
    "ALL",
    "JOIN",
    "LEFT",
    "ON",
    "CREATE",
    "DROP",
    "ALTER",
    "TABLE",
    "STABLE",
    "DATABASE",
    "TOPIC",
    "USER",
    "PASS",
    "USING",
    "TAGS",
    "TAG",
    "COLUMN",
    "ADD",
    "SET",
    "IF",
    "EXISTS",
    "KEEP",
    "DURATION",
    "VGROUPS",
    "WAL_LEVEL",
    "COMMENT",
    "TTL",
    "SHOW",
    "DESCRIBE",
    "DELETE",
    "USE",
    ";",
    ".",
    "'",
    "`",
    "?",
    "->",
    "温",
    "0x1F",
    "1q",
    "TRIM",
    "POSITION",
    "META",
    "ONLY",
    "WITH",
    "TIMESTAMP",
    "%",
    "/",
    "|",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_parsed_or_refused(sql in "\\PC{0,80}") {
        let _ = parse(&sql);
        let _ = split_statements(&sql);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_soup_of_tokens_is_parsed_or_refused(words in prop::collection::vec(prop::sample::select(SOUP), 0..40)) {
        let sql = words.join(" ");
        if let Err(error) = parse(&sql) {
            prop_assert!(!error.message().is_empty());
        }
        let _ = parse_expr(&sql);
        let _ = parse(&format!("SELECT {sql}"));
        let _ = parse(&format!("CREATE TABLE t ({sql})"));
    }

    /// Tokens cover the text from left to right and never overlap.
    #[test]
    fn tokens_are_in_order(sql in "\\PC{0,80}") {
        let mut last = 0;
        for token in Lexer::new(&sql).tokens() {
            prop_assert!(last <= token.start && token.start <= token.end && token.end <= sql.len());
            prop_assert!(sql.is_char_boundary(token.start) && sql.is_char_boundary(token.end));
            last = token.end;
        }
    }

    /// What a script splits into has no separator left, and splitting again changes nothing.
    #[test]
    fn splitting_is_stable(words in prop::collection::vec(prop::sample::select(SOUP), 0..30)) {
        let script = words.join(" ");
        for statement in split_statements(&script) {
            prop_assert_eq!(split_statements(statement), [statement]);
        }
    }
}
