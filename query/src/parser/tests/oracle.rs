//! Every captured statement: parsed, refused as not supported, or refused with the captured code.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Lines that are known to differ, with the reason. One may leave this list, none enters it unseen.
const EXCEPTIONS: &[(&str, &str)] =
    &[("json-c907139c", "that the super table has a JSON tag is in the catalogue")];

/// Codes that the parser alone decides: where the capture has one, parsing must not succeed.
const PARSER_CODES: &[Code] = &[
    Code::Syntax,
    Code::IncompleteSql,
    Code::InvalidDatabaseOption,
    Code::FirstColumn,
    Code::OnlyTagJson,
    Code::JsonTagOnly,
    Code::ColumnLength,
    Code::RowTooLong,
    Code::InvalidTableOption,
    Code::InvalidIdentifier,
];

struct Line {
    id: String,
    setup: Vec<String>,
    sql: String,
    error: Option<(u16, String)>,
}

fn lines() -> Vec<Line> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/oracle/sql.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| json[key].as_str().unwrap().to_owned();
        let error = json.get("error").map(|error| {
            let code = error["code"].as_str().unwrap().trim_start_matches("0x");
            (u16::from_str_radix(code, 16).unwrap(), error["message"].as_str().unwrap().to_owned())
        });
        let setup =
            json["setup"].as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_owned()).collect();
        Line { id: text("id"), setup, sql: text("sql"), error }
    };
    text.lines().map(line).collect()
}

/// What is wrong with the parser's answer, if anything.
fn complaint(line: &Line) -> Option<String> {
    if is_insert(&line.sql) {
        return None;
    }
    let captured = line.error.as_ref().and_then(|(number, _)| Code::from_number(*number));
    match (parse(&line.sql), &line.error) {
        (Ok(_), Some((number, message))) if captured.is_some_and(|c| PARSER_CODES.contains(&c)) => {
            Some(format!("parsed, captured {number:#06x} {message}"))
        }
        (Ok(_), _) => None,
        (Err(error), _) if error.code() == Code::NotSupported => None,
        (Err(error), Some((number, message))) if error.code().number() == *number => {
            (error.code() == Code::Syntax && error.message() != message)
                .then(|| format!("{} instead of {message}", error.message()))
        }
        (Err(error), captured) => Some(format!("{error}, captured {captured:?}")),
    }
}

#[test]
fn captured_statements() {
    let lines = lines();
    assert!(lines.len() > 2_500, "the witness is there");
    let mut complaints = BTreeMap::new();
    let mut setups = BTreeSet::new();
    for line in &lines {
        if let Some(text) = complaint(line) {
            complaints.insert(line.id.as_str(), format!("{}: {text}", line.sql));
        }
        setups.extend(line.setup.iter().filter(|sql| !is_insert(sql)));
    }
    for sql in setups {
        match parse(sql) {
            Ok(_) => {}
            Err(error) if error.code() == Code::NotSupported => {}
            Err(error) => panic!("{sql}: {error}"),
        }
    }
    for (id, _) in EXCEPTIONS {
        assert!(complaints.remove(id).is_some(), "{id} is as captured: take it off the list");
    }
    assert!(complaints.is_empty(), "{} differ: {complaints:#?}", complaints.len());
}
