//! Messages, captured and received, in one form.

use std::collections::BTreeMap;

use client::{Message, Value};
use serde_json::Value as Json;

use super::{text, texts};

/// A message, as far as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    /// 1 rows, 2 events, 3 rows and the tables that they made.
    pub(super) kind: i64,
    /// Events as text.
    pub(super) json: Option<String>,
    pub(super) blocks: Vec<SeenBlock>,
}

/// Rows of one table or of a query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenBlock {
    pub(super) table: Option<String>,
    /// Name, type, and bytes, characters of NCHAR.
    pub(super) columns: Vec<(String, String, u64)>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// Rows in the block; `rows` may hold the first and the last only.
    pub(super) len: usize,
}

/// A value as the capture writes it.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            // A whole number may have lost its fraction on the way through the capture.
            (Self::Int(a), Self::Float(b)) | (Self::Float(b), Self::Int(a)) => *a as f64 == *b,
            // Captured FLOAT values have seven digits.
            (Self::Float(a), Self::Float(b)) => a == b || *a as f32 == *b as f32,
            _ => false,
        }
    }
}

impl Cell {
    fn of_json(json: &Json) -> Self {
        match json {
            Json::Bool(v) => Self::Bool(*v),
            Json::String(v) => Self::Text(v.clone()),
            Json::Number(v) => {
                let text = v.to_string();
                text.parse().map_or_else(|_| Self::Float(text.parse().unwrap_or(f64::NAN)), Self::Int)
            }
            _ => Self::Null,
        }
    }

    fn of_value(value: Value) -> Self {
        match value {
            Value::Bool(v) => Self::Bool(v),
            Value::Int(v) | Value::Timestamp(v) => Self::Int(v.into()),
            Value::UInt(v) => Self::Int(v.into()),
            Value::Float(v) => Self::Float(v.into()),
            Value::Double(v) => Self::Float(v),
            Value::Text(v) => Self::Text(v),
            Value::Bytes(_) => Self::Text(value.to_string()),
            Value::Null => Self::Null,
        }
    }
}

impl Seen {
    pub(super) fn of_capture(json: &Json) -> Self {
        Self {
            kind: json["type"].as_i64().unwrap_or_default(),
            json: json["json"].as_str().map(str::to_owned),
            blocks: json["blocks"].as_array().into_iter().flatten().map(SeenBlock::of_capture).collect(),
        }
    }

    pub(super) fn of_message(message: &Message) -> Self {
        let block = |block: &client::Block| SeenBlock {
            table: block.table().map(str::to_owned),
            columns: block
                .columns()
                .iter()
                .map(|c| (c.name.clone(), c.data_type.name().to_owned(), c.data_type.length().into()))
                .collect(),
            rows: block.rows().map(|row| row.values().map(Cell::of_value).collect()).collect(),
            len: block.batch().num_rows(),
        };
        Self {
            kind: message.kind().number().into(),
            json: message.json().filter(|json| !json.is_empty()).map(str::to_owned),
            blocks: message.blocks().iter().map(block).collect(),
        }
    }

    fn is_of_query(&self) -> bool {
        self.kind == 1 && self.blocks.iter().all(|block| block.table.is_none())
    }
}

impl SeenBlock {
    fn of_capture(json: &Json) -> Self {
        let column = |column: &Json| {
            let name = column[0].as_str().unwrap_or_default().to_owned();
            (name, column[1].as_str().unwrap_or_default().to_owned(), column[2].as_u64().unwrap_or_default())
        };
        let row = |row: &Json| row.as_array().into_iter().flatten().map(Cell::of_json).collect::<Vec<_>>();
        let rows: Vec<_> = match json["nrows"].is_null() {
            true => json["rows"].as_array().into_iter().flatten().map(row).collect(),
            false => vec![row(&json["first"]), row(&json["last"])],
        };
        Self {
            table: json["table"].as_str().map(str::to_owned),
            columns: json["columns"].as_array().into_iter().flatten().map(column).collect(),
            len: json["nrows"].as_u64().map_or(rows.len(), |len| len as usize),
            rows,
        }
    }

    /// The first and the last row only, where `other` has no more.
    fn cut_like(&mut self, other: &Self) {
        if other.len > other.rows.len() && self.rows.len() > 2 {
            self.rows = [self.rows.first(), self.rows.last()].into_iter().flatten().cloned().collect();
        }
    }
}

/// Compares what one step got from one vgroup of one topic. How rows are cut into messages is not portable, for query
/// topics nor into blocks.
pub(super) fn compare(wanted: &[Seen], got: &[Seen]) -> Result<(), String> {
    if !wanted.is_empty() && wanted.iter().chain(got).all(Seen::is_of_query) {
        return compare_rows(wanted, got);
    }
    let (wanted, mut got) = (joined(wanted), joined(got));
    for (wanted, got) in wanted.iter().zip(&mut got) {
        for (wanted, got) in wanted.blocks.iter().zip(&mut got.blocks) {
            got.cut_like(wanted);
        }
    }
    let both = wanted.iter().zip(&got).position(|(wanted, got)| wanted != got);
    match both.or((wanted.len() != got.len()).then_some(wanted.len().min(got.len()))) {
        None => Ok(()),
        Some(at) => {
            let rest = |list: &[Seen]| brief(list.get(at..).unwrap_or_default());
            Err(format!("from message {at}: got {} wanted {}", rest(&got), rest(&wanted)))
        }
    }
}

fn compare_rows(wanted: &[Seen], got: &[Seen]) -> Result<(), String> {
    let blocks = |list: &[Seen]| list.iter().flat_map(|seen| seen.blocks.clone()).collect::<Vec<_>>();
    let (wanted_blocks, got_blocks) = (blocks(wanted), blocks(got));
    let columns = wanted_blocks.first().map(|block| &block.columns);
    if let Some(other) = got_blocks.iter().find(|block| Some(&block.columns) != columns) {
        return Err(format!("columns {:?} wanted {columns:?}", other.columns));
    }
    let rows = |blocks: &[SeenBlock]| blocks.iter().flat_map(|b| b.rows.clone()).collect::<Vec<_>>();
    match rows(&wanted_blocks) == rows(&got_blocks) {
        true => Ok(()),
        false => Err(format!("got {} wanted {}", brief(got), brief(wanted))),
    }
}

/// Neighbouring messages of rows as one.
fn joined(list: &[Seen]) -> Vec<Seen> {
    let mut out: Vec<Seen> = Vec::new();
    for seen in list {
        match out.last_mut().filter(|last| last.kind == 1 && seen.kind == 1) {
            Some(last) => last.blocks.extend(seen.blocks.clone()),
            None => out.push(seen.clone()),
        }
    }
    out
}

fn brief(list: &[Seen]) -> String {
    let one = |seen: &Seen| {
        let mut text = format!("({}) {}", seen.kind, seen.json.as_deref().unwrap_or_default());
        for block in &seen.blocks {
            let table = block.table.as_deref().unwrap_or("-");
            let columns: Vec<_> = block.columns.iter().map(|c| format!("{} {} {}", c.0, c.1, c.2)).collect();
            text.push_str(&format!(" {table} [{}] {:?}", columns.join(", "), block.rows));
        }
        text
    };
    format!("{} messages: {}", list.len(), list.iter().map(one).collect::<Vec<_>>().join(" | "))
}

/// Splits what `messages` of a step hold by topic and vgroup, as the names and ranks of the capture.
pub(super) fn by_source(step: &Json) -> BTreeMap<(String, u64), Vec<Seen>> {
    let mut out: BTreeMap<_, Vec<Seen>> = BTreeMap::new();
    for message in step.as_array().into_iter().flatten() {
        let key = (text(message, "topic").to_owned(), message["vg"].as_u64().unwrap_or_default());
        out.entry(key).or_default().push(Seen::of_capture(message));
    }
    out
}

/// Tags of the deviations that a line shows.
pub(super) fn tags(line: &Json) -> Vec<&str> {
    texts(&line["deviations"])
}
