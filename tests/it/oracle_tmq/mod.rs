//! Subscription behaviour captured from a TDengine server, replayed against the real binary (`tests/oracle/TMQ.md`).
//!
//! Every line has to come out as captured, less the deviations that the page lists ([`deviations`]), or stand with its
//! reason in `listed.tsv` ([`list`]).

mod delivery;
mod deviations;
mod errors;
mod list;
mod messages;
mod meta;

use std::collections::BTreeMap;

use client::{Code, Connection, Error};
use serde_json::Value as Json;

/// What became of each line, by its id.
type Outcomes = BTreeMap<String, Result<(), String>>;

const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/");

/// The lines of a captured file.
fn lines(file: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(format!("{ORACLE}{file}")).expect("the captured file");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

fn text<'a>(json: &'a Json, key: &str) -> &'a str {
    json[key].as_str().unwrap_or_default()
}

fn texts(json: &Json) -> Vec<&str> {
    json.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

/// `text` with whole words replaced.
fn replace_words(text: &str, words: &[(&str, &str)]) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(len);
        out.push_str(words.iter().find(|(from, _)| *from == word).map_or(word, |(_, to)| to));
        let other = behind.find(is_word).unwrap_or(behind.len());
        out.push_str(&behind[..other]);
        rest = &behind[other..];
    }
    out
}

/// Runs a statement to its end.
async fn run(connection: &Connection, sql: &str) -> Result<(), Error> {
    connection.sql(sql).await?.rows().await.map(drop)
}

/// As captured: 0, or four hexadecimal digits.
fn code_text(code: Code) -> String {
    format!("0x{:04X}", code.number())
}

/// Whether a call ended as captured: the number and the text, to which a detail may be appended.
fn compare_end(got: Result<(), Error>, code: &Json, text: &str) -> Result<(), String> {
    let wanted = code.as_str().unwrap_or("0");
    match got {
        Ok(()) if wanted == "0" => Ok(()),
        Ok(()) => Err(format!("succeeded, wanted {wanted} {text}")),
        Err(e) if code_text(e.code()) == wanted && e.message().starts_with(text) => Ok(()),
        Err(e) => Err(format!("{e}, wanted {wanted} {text}")),
    }
}

#[test]
fn words_are_replaced_whole() {
    let replaced = replace_words("use DB; select DB_x from DB.t where a='T'", &[("DB", "d1"), ("T", "t1")]);
    assert_eq!(replaced, "use d1; select DB_x from d1.t where a='t1'");
}
