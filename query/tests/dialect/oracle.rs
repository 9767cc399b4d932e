//! Answers captured from a TDengine server, see `tests/oracle/README.md`.
//!
//! Lines known to fail stand with their reason in `known_failures.tsv`. The list may only shrink: a line that passes
//! has to leave it, and no line may enter it silently. `UPDATE_KNOWN_FAILURES=1` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_schema::DataType as Arrow;
use model::Zone;
use serde_json::Value as Json;

use crate::store::{Answer, Store};

/// Areas whose lines are queries of kinds that are planned. The others belong to the parser, to INSERT, to DDL, or to a
/// later release.
const AREAS: &[&str] = &[
    "agg",
    "cast",
    "composite",
    "fill",
    "fn_num",
    "fn_str",
    "fn_time",
    "group",
    "interval",
    "join",
    "literal",
    "operator",
    "order",
    "precision",
    "subquery",
    "tag",
    "timezone",
    "union",
    "where",
];

const KNOWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dialect/known_failures.tsv");
const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/oracle/sql.jsonl");

#[test]
fn answers_as_captured() {
    let text = std::fs::read_to_string(ORACLE).expect("the captured answers");
    let lines: Vec<Json> = text.lines().map(|l| serde_json::from_str(l).expect("a JSON line")).collect();
    let mut stores: BTreeMap<String, Result<Store, String>> = BTreeMap::new();
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    for line in &lines {
        let area = text_of(line, "area");
        let sql = text_of(line, "sql");
        if !AREAS.contains(&area.as_str()) || !is_query(&sql) {
            continue;
        }
        let key = format!("{}{}", line["zone"], line["setup"]);
        let store = stores.entry(key).or_insert_with(|| set_up(line));
        let outcome = match store {
            Ok(store) => check(store, &sql, line),
            Err(reason) => Err(format!("setup: {reason}")),
        };
        let count = counts.entry(area).or_default();
        count.1 += 1;
        match outcome {
            Ok(()) => count.0 += 1,
            Err(reason) => {
                failures.insert(text_of(line, "id"), format!("{sql}\t{reason}"));
            }
        }
    }
    let mut report = String::new();
    for (area, (passed, all)) in &counts {
        let _ = writeln!(report, "{area:10} {passed:4} of {all}");
    }
    println!("{report}");
    if std::env::var_os("UPDATE_KNOWN_FAILURES").is_some() {
        let mut list = String::new();
        for (id, reason) in &failures {
            let _ = writeln!(list, "{id}\t{}", reason.replace('\n', " "));
        }
        std::fs::write(KNOWN, list).expect("the list is writable");
        return;
    }
    let known = std::fs::read_to_string(KNOWN).unwrap_or_default();
    let known: BTreeSet<&str> = known.lines().filter_map(|l| l.split('\t').next()).collect();
    let new: Vec<String> = failures
        .iter()
        .filter(|(id, _)| !known.contains(id.as_str()))
        .map(|(id, r)| format!("{id} {r}"))
        .collect();
    let mended: Vec<&&str> = known.iter().filter(|id| !failures.contains_key(**id)).collect();
    assert!(new.is_empty(), "new failures:\n{}", new.join("\n"));
    assert!(mended.is_empty(), "these pass and have to leave the list: {mended:?}");
}

fn text_of(line: &Json, key: &str) -> String {
    line[key].as_str().unwrap_or_default().to_owned()
}

fn is_query(sql: &str) -> bool {
    let start = sql.trim_start_matches(['(', ' ']).to_ascii_lowercase();
    start.starts_with("select")
}

fn set_up(line: &Json) -> Result<Store, String> {
    let zone = line["zone"].as_str().map_or(Some(Zone::UTC), Zone::parse).ok_or("unknown zone")?;
    let mut store = Store::new(zone);
    for statement in line["setup"].as_array().into_iter().flatten() {
        let statement = statement.as_str().unwrap_or_default();
        // VARBINARY is of a later release; its columns stand in as text so that the others can be tested.
        let statement = statement.replace("VARBINARY(", "VARCHAR(");
        store.run(&statement).map_err(|e| format!("{statement}: {e}"))?;
    }
    Ok(store)
}

/// Compares the answer with the line's.
fn check(store: &Store, sql: &str, line: &Json) -> Result<(), String> {
    // A panic is a failure of its line, not of the whole run.
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| store.query(sql)))
        .map_err(|_| "panicked".to_owned())?;
    if let Some(error) = line.get("error") {
        let wanted = error["code"].as_str().unwrap_or_default();
        return match answer {
            Ok(_) => Err(format!("answered, wanted error {wanted}")),
            Err(error) => {
                let got = format!("0x{:04X}", error.code().number());
                if got == wanted {
                    Ok(())
                } else {
                    Err(format!("error {got} {}, wanted {wanted}", error.message()))
                }
            }
        };
    }
    let answer = answer.map_err(|e| format!("error {e}"))?;
    compare(&answer, line)
}

fn compare(answer: &Answer, line: &Json) -> Result<(), String> {
    let wanted: Vec<(String, String)> = line["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| (text_of(c, "name"), text_of(c, "type")))
        .collect();
    let got: Vec<(String, String)> =
        answer.columns.iter().map(|c| (c.name.clone(), c.data_type.name().to_owned())).collect();
    if got != wanted {
        return Err(format!("columns {got:?}, wanted {wanted:?}"));
    }
    let mut rows = rows(answer);
    let mut wanted: Vec<Vec<Json>> = line["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| r.as_array().cloned().unwrap_or_default())
        .collect();
    if line["ordered"] == Json::Bool(false) {
        rows.sort_by_key(|r| format!("{r:?}"));
        wanted.sort_by_key(|r| format!("{r:?}"));
    }
    let tolerance = line["tolerance"].as_f64().unwrap_or(1e-9);
    let same = rows.len() == wanted.len()
        && rows
            .iter()
            .zip(&wanted)
            .all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b, tolerance)));
    if same {
        return Ok(());
    }
    let show = |rows: &[Vec<Json>]| {
        let text = Json::from(rows.iter().take(6).cloned().map(Json::from).collect::<Vec<_>>()).to_string();
        text.chars().take(300).collect::<String>()
    };
    Err(format!("{} rows {}, wanted {} {}", rows.len(), show(&rows), wanted.len(), show(&wanted)))
}

fn same_value(got: &Json, wanted: &Json, tolerance: f64) -> bool {
    if got == wanted {
        return true;
    }
    match (got.as_f64(), wanted.as_f64()) {
        (Some(a), Some(b)) if got.is_f64_like() || wanted.is_f64_like() => {
            (a - b).abs() <= tolerance * a.abs().max(b.abs())
        }
        // Numbers keep their text: 1 and 1.0 are alike only where one of them is no float.
        _ => *got.to_string() == *wanted.to_string(),
    }
}

trait IsFloat {
    fn is_f64_like(&self) -> bool;
}

impl IsFloat for Json {
    /// With `arbitrary_precision` a number keeps its text.
    fn is_f64_like(&self) -> bool {
        self.is_number() && self.to_string().contains(['.', 'e', 'E'])
    }
}

/// Rows as the captured answers have them.
pub(crate) fn rows(answer: &Answer) -> Vec<Vec<Json>> {
    let mut rows = Vec::new();
    for batch in &answer.batches {
        for row in 0..batch.num_rows() {
            rows.push(batch.columns().iter().map(|c| cell(c.as_ref(), row)).collect());
        }
    }
    rows
}

fn cell(array: &dyn Array, row: usize) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        Arrow::Boolean => Json::from(array.as_boolean().value(row)),
        Arrow::Int8 => Json::from(array.as_primitive::<Int8Type>().value(row)),
        Arrow::Int16 => Json::from(array.as_primitive::<Int16Type>().value(row)),
        Arrow::Int32 => Json::from(array.as_primitive::<Int32Type>().value(row)),
        Arrow::Int64 => Json::from(array.as_primitive::<Int64Type>().value(row)),
        Arrow::UInt8 => Json::from(array.as_primitive::<UInt8Type>().value(row)),
        Arrow::UInt16 => Json::from(array.as_primitive::<UInt16Type>().value(row)),
        Arrow::UInt32 => Json::from(array.as_primitive::<UInt32Type>().value(row)),
        Arrow::UInt64 => Json::from(array.as_primitive::<UInt64Type>().value(row)),
        Arrow::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            value.to_string().parse::<f64>().map_or(Json::Null, Json::from)
        }
        Arrow::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            if value.is_finite() {
                Json::from(value)
            } else if value.is_nan() {
                Json::from("NaN")
            } else {
                Json::from(if value > 0.0 { "Infinity" } else { "-Infinity" })
            }
        }
        Arrow::Utf8 => Json::from(array.as_string::<i32>().value(row)),
        Arrow::Timestamp(..) => {
            let ticks = arrow::compute::cast(&array.slice(row, 1), &Arrow::Int64).expect("ticks");
            Json::from(ticks.as_primitive::<Int64Type>().value(0))
        }
        other => panic!("result column of type {other}"),
    }
}
