//! Tests of the parser, by subject.

mod ddl;
mod errors;
mod expressions;
mod fuzz;
mod oracle;
mod queries;

use model::{Code, Error};

use super::*;

/// The error that `sql` must give.
fn error(sql: &str) -> Error {
    match parse(sql) {
        Ok(statement) => panic!("{sql} parsed as {statement:?}"),
        Err(error) => error,
    }
}

/// The code and message that `sql` must give.
fn refused(sql: &str) -> (Code, String) {
    let error = error(sql);
    (error.code(), error.message().to_owned())
}

/// What is not supported in `sql`.
fn unsupported(sql: &str) -> String {
    let (code, message) = refused(sql);
    assert_eq!(code, Code::NotSupported, "{sql}: {message}");
    message.strip_prefix("Operation not supported: ").unwrap().to_owned()
}

#[test]
fn scripts_split_at_semicolons_outside_quotes_and_comments() {
    let script = "SELECT ';' ; -- one; two\n/* ; */ INSERT INTO t VALUES (1, \"a;b\");;\n `x;y` ; -- end";
    assert_eq!(split_statements(script), ["SELECT ';'", "INSERT INTO t VALUES (1, \"a;b\")", "`x;y`"],);
    assert_eq!(split_statements(" ;; -- nothing"), [""; 0]);
    assert_eq!(split_statements("SELECT 'a; b"), ["SELECT 'a; b"]);
}

#[test]
fn insert_is_known_by_its_first_word() {
    assert!(is_insert("  -- c\n insert into t"));
    assert!(is_insert("IMPORT INTO t"));
    assert!(!is_insert("SELECT insert"));
    assert!(!is_insert(""));
}

#[test]
fn length_is_limited() {
    let options = ParseOptions { sql_bytes_max: 10 };
    assert!(parse_with("SELECT 1", &options).is_ok());
    let error = parse_with("SELECT 12345", &options).unwrap_err();
    assert_eq!(error.code(), Code::SqlTooLong);
    assert!(error.message().contains("12 bytes, at most 10 are allowed"), "{error}");
    assert!(error.help().contains("maxSQLLength"), "{error}");
    assert!(parse(&format!("SELECT {}1", " ".repeat(SQL_BYTES_MAX_DEFAULT))).is_err());
}

#[test]
fn one_statement_at_a_time() {
    assert!(parse("USE a;").is_ok());
    assert_eq!(refused("USE a; USE b"), (Code::Syntax, "syntax error near \"use b\"".into()));
}
