//! What the captured server does and Tidemark must not: captured lines are corrected before they are compared.
//!
//! Rules are here by tag; what a rule cannot say stands as text for text in [`TEXTS`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::messages::{Seen, tags};
use super::text;

/// By tag: a piece of an event as captured, and as it has to be.
#[rustfmt::skip]
const TEXTS: &[(&str, &str, &str)] = &[
    ("compression-partly-lost", r#""colName":"c5","colType":4,"encode":"simple8b""#, r#""colName":"c5","colType":4,"encode":"simple8b","compress":"zstd","level":"medium""#),
    ("compression-partly-lost", r#""colName":"c6","colType":8,"colLength":10,"encode":"disabled""#, r#""colName":"c6","colType":8,"colLength":10,"encode":"disabled","compress":"zlib","level":"high""#),
    ("compression-partly-lost", r#""colName":"y","colType":4,"encode":"simple8b""#, r#""colName":"y","colType":4,"encode":"simple8b","compress":"zstd","level":"medium""#),
    ("tag-name-order", r#"[{"name":"c","type":4,"value":7},{"name":"a","type":7,"value":-2.25}]"#, r#"[{"name":"a","type":4,"value":7},{"name":"c","type":7,"value":-2.25}]"#),
    ("int64-rounded", r#":9.2233720368547758e+18"#, r#":9223372036854775807"#),
    ("int64-rounded", r#":-9.2233720368547758e+18"#, r#":-9223372036854775807"#),
    ("int64-rounded", r#":1.8446744073709552e+19"#, r#":18446744073709551615"#),
    ("int64-rounded", r#":9.00719925474099e+15"#, r#":9007199254740993"#),
    ("geometry-cut", r#""value":"\"\u0001\u0001"},{"name":"tts","type":9,"value":1700000000123}"#, r#""value":"\"\\x0101000000000000000000F83F00000000000000C0\""},{"name":"tts","type":9,"value":1700000000123}"#),
    ("geometry-cut", r#""value":"\"\u0001\u0001"},{"name":"tts","type":9,"value":1700000000000}"#, r#""value":"\"\\x0101000000000000000000F03F0000000000000040\""},{"name":"tts","type":9,"value":1700000000000}"#),
    ("geometry-cut", r#""colValue":"\"\u0001\u0001""#, r#""colValue":"\"\\x010100000000000000000008400000000000001040\"""#),
    ("geometry-cut", r#""value":"\"\u0001\u0002""#, r#""value":"\"\\x01020000000300000000000000000000000000000000000000000000000000F03F000000000000F03F00000000000000400000000000000C40\"""#),
    ("empty-nchar-cut", r#"{"name":"tn","type":10}]"#, r#"{"name":"tn","type":10,"value":"\"\""},{"name":"tvb","type":16,"value":"\"\\x\""},{"name":"tts","type":9,"value":0}]"#),
    ("delete-loses-tag-filter", r#"from `st`"#, r#"from `c1`"#),
];

/// In lines of schemaless writes, by id: what their events without JSON are.
#[rustfmt::skip]
const BLIND: &[(&str, &[&str])] = &[
    ("meta-schemaless-04", &[ADD_WIND]),
    ("meta-schemaless-05", &[ADD_ZONE]),
    ("meta-schemaless-all", &[ADD_WIND, ADD_ZONE, WIDEN_NOTE]),
];
const ADD_WIND: &str = r#"{"type":"alter","tableType":"super","tableName":"weather","alterType":5,"colName":"wind","colType":5}"#;
const ADD_ZONE: &str = r#"{"type":"alter","tableType":"super","tableName":"weather","alterType":1,"colName":"zone","colType":10,"colLength":2}"#;
const WIDEN_NOTE: &str = r#"{"type":"alter","tableType":"super","tableName":"weather","alterType":7,"colName":"note","colType":8,"colLength":32}"#;

/// Deviations that also show where a line does not carry their tag.
const ALWAYS: &str = "geometry-cut";

/// In delivery lines, by id: a piece of their steps as captured, and as it has to be.
#[rustfmt::skip]
const STEPS: &[(&str, &str, &str)] = &[
    // The filter is judged, and the tag selected, by the values at the record's version.
    ("delivery-066", r#""rows":[[1700000000000,1,1.0,"a"]],"table":"d1""#, r#""rows":[[1700000000000,2,2.0,"a"]],"table":"d2""#),
    ("delivery-069", r#"["d1",1,9]"#, r#"["d1",1,1]"#),
];

/// The steps of a delivery line without what its deviations did to them.
pub(super) fn correct_steps(line: &Json) -> Vec<Json> {
    let mut text = line["steps"].to_string();
    for (_, from, to) in STEPS.iter().filter(|(id, _, _)| *id == super::text(line, "id")) {
        assert!(text.contains(from), "{from} in {text}");
        text = text.replace(from, to);
    }
    let mut steps: Vec<Json> = serde_json::from_str(&text).expect("steps");
    if tags(line).contains(&"schema-guard") {
        // The super table may go; one of its name is another table, which the topic does not read.
        for step in steps.iter_mut().filter_map(Json::as_object_mut) {
            step.retain(|member, _| !["code", "text"].contains(&member.as_str()));
            step.entry("messages").and_modify(|messages| *messages = Json::Array(Vec::new()));
        }
    }
    steps
}

/// The tables that a topic over a stable with a condition on one integer tag shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub(super) stable: &'static str,
    /// Tag and value; `None` takes every child.
    pub(super) tag: Option<(&'static str, i64)>,
}

/// Tables that events have told of, and the tags of the children.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue {
    children: BTreeMap<String, Child>,
    others: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct Child {
    stable: String,
    tags: BTreeMap<String, Json>,
}

impl Catalogue {
    /// Takes in what the messages tell.
    pub(super) fn learn<'a>(&mut self, messages: impl IntoIterator<Item = &'a Seen>) {
        for event in messages.into_iter().flat_map(|seen| events(seen.json.as_deref().unwrap_or_default())) {
            self.take(&event);
        }
    }

    fn take(&mut self, event: &str) {
        let json: Json = serde_json::from_str(event).expect("an event");
        match (text(&json, "type"), text(&json, "tableType")) {
            ("create", "child") => {
                for child in children(event) {
                    let json: Json = serde_json::from_str(&child).expect("a child");
                    let pair = |tag: &Json| (text(tag, "name").to_owned(), tag["value"].clone());
                    let tags = json["tags"].as_array().into_iter().flatten().map(pair).collect();
                    let new = Child { stable: text(&json, "using").to_owned(), tags };
                    // A second create is no create.
                    self.children.entry(text(&json, "tableName").to_owned()).or_insert(new);
                }
            }
            ("create", "normal") => drop(self.others.insert(text(&json, "tableName").to_owned())),
            ("alter", "child") => {
                let Some(child) = self.children.get_mut(text(&json, "tableName")) else { return };
                let several = json["tags"].as_array().cloned().unwrap_or_default();
                for tag in several.iter().chain([&json]).filter(|tag| tag["colName"].is_string()) {
                    // An integer, as a string in an alter event.
                    let value = text(tag, "colValue").parse::<i64>().map_or(Json::Null, Json::from);
                    child.tags.insert(text(tag, "colName").to_owned(), value);
                }
            }
            ("drop", _) => {
                for name in super::texts(&json["tableNameList"]) {
                    self.children.remove(name);
                    self.others.remove(name);
                }
            }
            _ => {}
        }
    }

    fn matches(&self, table: &str, condition: Condition) -> bool {
        self.children.get(table).is_some_and(|child| child.matches(condition))
    }
}

impl Child {
    fn matches(&self, condition: Condition) -> bool {
        let has = |(tag, value): (&str, i64)| self.tags.get(tag).and_then(Json::as_i64) == Some(value);
        self.stable == condition.stable && condition.tag.is_none_or(has)
    }
}

/// The objects in a list of them, as text.
fn objects(list: &str) -> Vec<String> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0, 0);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => {
                start = if depth == 0 { at } else { start };
                depth += 1;
            }
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    out.push(list[start..=at].to_owned());
                }
            }
            _ => {}
        }
    }
    out
}

const BATCH: &str = r#"{"tmq_meta_version":"1.0","metas":["#;
const CHILD: &str = r#"{"type":"create","tableType":"child","#;
const LIST: &str = r#","createList":["#;

/// The events of a message, one by one.
fn events(json: &str) -> Vec<String> {
    objects(json.strip_prefix(BATCH).unwrap_or(json))
}

fn is_batch(json: &str) -> bool {
    json.starts_with(BATCH)
}

fn batch(events: &[String]) -> String {
    format!("{BATCH}{}]}}", events.join(","))
}

/// The children of a create event, each as it stands in the list of several.
fn children(event: &str) -> Vec<String> {
    let Some((head, list)) = event.strip_prefix(CHILD).and_then(|rest| rest.rsplit_once(LIST)) else {
        return Vec::new();
    };
    let list = objects(list);
    if list.is_empty() { vec![format!("{{{head}}}")] } else { list }
}

/// A create event of these children.
fn create(children: &[String]) -> Option<String> {
    let first = children.first()?;
    let list = if children.len() > 1 { children.join(",") } else { String::new() };
    Some(format!("{CHILD}{}{LIST}{list}]}}", &first[1..first.len() - 1]))
}

/// What of an event has to be shown where the captured server shows all of it, and what it changes.
struct Rules<'a> {
    condition: Option<Condition>,
    drops_existing: bool,
    texts: &'a [&'a str],
}

impl Rules<'_> {
    fn event(&self, event: &str, known: &mut Catalogue) -> Option<String> {
        let mut event = event.to_owned();
        for (_, from, to) in TEXTS.iter().filter(|(tag, _, _)| self.texts.contains(tag) || *tag == ALWAYS) {
            event = event.replace(from, to);
        }
        let before = known.clone();
        known.take(&event);
        let json: Json = serde_json::from_str(&event).expect("an event");
        let table = text(&json, "tableName");
        match (text(&json, "type"), text(&json, "tableType")) {
            ("create", "normal") if self.drops_existing && before.others.contains(table) => None,
            ("create", "child") => {
                let mut first = BTreeSet::new();
                let is_shown = |child: &String| {
                    let child: Json = serde_json::from_str(child).expect("a child");
                    let name = text(&child, "tableName");
                    let again = before.children.contains_key(name) || !first.insert(name.to_owned());
                    let existed = self.drops_existing && again;
                    !existed && self.condition.is_none_or(|condition| known.matches(name, condition))
                };
                create(&children(&event).into_iter().filter(is_shown).collect::<Vec<_>>())
            }
            ("alter", "child") => self.condition.is_none_or(|c| known.matches(table, c)).then_some(event),
            ("drop", "") => {
                let Some(condition) = self.condition else { return Some(event) };
                let names = super::texts(&json["tableNameList"]);
                let names: Vec<_> =
                    names.into_iter().filter(|name| before.matches(name, condition)).collect();
                let list = serde_json::to_string(&names).expect("names");
                (!names.is_empty()).then(|| format!(r#"{{"type":"drop","tableNameList":{list}}}"#))
            }
            _ => Some(event),
        }
    }

    fn message(&self, mut seen: Seen, known: &mut Catalogue) -> Option<Seen> {
        let Some(json) = &seen.json else { return Some(seen) };
        let kept: Vec<_> = events(json).iter().filter_map(|event| self.event(event, known)).collect();
        seen.json = match &kept[..] {
            [] => None,
            [only] if !is_batch(json) => Some(only.clone()),
            several => Some(batch(several)),
        };
        match (seen.kind, &seen.json) {
            (2, None) => None,
            (3, None) => Some(Seen { kind: 1, ..seen }),
            _ => Some(seen),
        }
    }
}

/// The captured messages with the events that they tell nothing of.
fn seeing(line: &Json, consumer: &str, mut captured: Vec<Seen>) -> Vec<Seen> {
    if !tags(line).contains(&"schemaless-alter-blind") {
        return captured;
    }
    let (_, events) = BLIND.iter().find(|(id, _)| *id == text(line, "id")).expect("its events are told");
    let mut events = events.iter().map(|event| (*event).to_owned());
    for seen in captured.iter_mut().filter(|seen| seen.kind == 2 && seen.json.is_none()) {
        let event = events.next().expect("as many events as are missing");
        seen.json = Some(if consumer.ends_with("_batch") { batch(&[event]) } else { event });
    }
    captured
}

/// Rows that made tables, as a topic with events only has to show them: in the form of several.
fn without_rows(seen: Seen) -> Option<Seen> {
    match (seen.kind, seen.json) {
        (3, Some(json)) => Some(Seen { kind: 2, json: Some(batch(&events(&json))), blocks: Vec::new() }),
        (2, Some(json)) => Some(Seen { kind: 2, json: Some(json), blocks: Vec::new() }),
        _ => None,
    }
}

/// Neighbouring batches of events as one: where rows stood between them, the captured server made several.
fn joined(list: Vec<Seen>) -> Vec<Seen> {
    let mut out: Vec<Seen> = Vec::new();
    for seen in list {
        let both = out.last().and_then(|last| last.json.clone()).zip(seen.json.clone());
        match both.filter(|(last, this)| is_batch(last) && is_batch(this)) {
            Some((last, this)) => {
                let all: Vec<_> = events(&last).into_iter().chain(events(&this)).collect();
                out.pop();
                out.push(Seen { kind: 2, json: Some(batch(&all)), blocks: Vec::new() });
            }
            None => out.push(seen),
        }
    }
    out
}

/// The captured messages of a consumer without what the line's deviations did to them, and the received ones in the same
/// form. `known` are the tables from before the line.
pub(super) fn correct(
    line: &Json,
    consumer: &str,
    captured: Vec<Seen>,
    got: Vec<Seen>,
    known: &Catalogue,
) -> (Vec<Seen>, Vec<Seen>) {
    let condition = Condition { stable: "st", tag: consumer.starts_with("stb_where").then_some(("t1", 1)) };
    let condition = consumer.starts_with("stb_").then_some(condition);
    let captured = seeing(line, consumer, captured);
    let (mut wanted, mut got) = (cut(line, condition, captured, known), got);
    if tags(line).contains(&"only-meta-rows") && consumer.contains("_only") {
        wanted = wanted.into_iter().filter_map(without_rows).collect();
        if consumer.ends_with("_batch") {
            (wanted, got) = (joined(wanted), joined(got));
        }
    }
    (wanted, got)
}

/// The captured messages without the events that a topic with this condition must not show.
pub(super) fn cut(
    line: &Json,
    condition: Option<Condition>,
    captured: Vec<Seen>,
    known: &Catalogue,
) -> Vec<Seen> {
    let tags = tags(line);
    let rules = Rules {
        condition: condition.filter(|_| tags.contains(&"where-not-applied")),
        drops_existing: tags.contains(&"if-not-exists-event") || tags.contains(&"existing-child-event"),
        texts: &tags,
    };
    let mut known = known.clone();
    captured.into_iter().filter_map(|seen| rules.message(seen, &mut known)).collect()
}
