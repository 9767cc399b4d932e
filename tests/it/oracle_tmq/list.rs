//! The lines that do not come out as captured, each with its reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Outcomes;

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/oracle_tmq/listed.tsv");

/// The reason of what is not built, of which nothing is as captured that should be.
const NOT_YET: &str = "not yet";
/// The reason of lines in snapshot mode (tmq.md section 10), which is left out: they say nothing of what there is.
const SNAPSHOT: &str = "snapshot";

/// Reasons, and how many lines stand with each. To be lowered with each that leaves, never raised.
const MOST: [(&str, usize); 5] = [
    // A rule of release 3.4, which is followed where the captured server has an older one.
    ("3.4", 11),
    // A decision of ours that tmq.md marks so.
    ("[D]", 1),
    // Calls that take any result handle in TDengine's C interface and a message by its type in the SDK: nobody can make
    // them, and the specification wants the error all the same. So they count as not matched.
    ("typed", 2),
    (NOT_YET, 0),
    (SNAPSHOT, 4),
];

/// Captured lines, of all three files.
const LINES: usize = 303;
/// Of a hundred lines that concern what there is, so many may come out otherwise than captured.
const PERCENT_MAX: usize = 5;

/// Line by id: reason and note.
type Listed = BTreeMap<String, (String, String)>;

fn read() -> Listed {
    let text = std::fs::read_to_string(LIST).unwrap_or_default();
    let entry = |line: &str| {
        let mut parts = line.splitn(3, '\t').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        (next(), (next(), next()))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(entry).collect()
}

/// The reason that a line is listed for.
pub(super) fn reason(id: &str) -> Option<String> {
    read().remove(id).map(|(reason, _)| reason)
}

/// Compares outcomes, all of lines whose ids start with `prefix`, with the list: no line fails that is not in it, and none
/// that comes out as captured may stay. `UPDATE_LISTED=1` writes what fails, as not built where it was not there before.
pub(super) fn check(prefix: &str, outcomes: &Outcomes) {
    let mut listed = read();
    let failed = |id: &String| outcomes.get(id).is_some_and(Result::is_err);
    eprintln!(
        "{prefix}: {} of {} as captured, {} listed in all",
        outcomes.values().filter(|o| o.is_ok()).count(),
        outcomes.len(),
        listed.len()
    );
    if std::env::var_os("UPDATE_LISTED").is_some() {
        listed.retain(|id, _| !id.starts_with(prefix) || failed(id));
        for (id, outcome) in outcomes {
            if let Err(why) = outcome {
                let why = why.replace(['\n', '\t'], " ");
                let entry = listed.entry(id.clone()).or_insert_with(|| (NOT_YET.into(), String::new()));
                if entry.0 == NOT_YET {
                    entry.1 = why.chars().take(600).collect();
                }
            }
        }
        let mut text = String::new();
        for (id, (reason, note)) in &listed {
            let _ = writeln!(text, "{id}\t{reason}\t{note}");
        }
        std::fs::write(LIST, text).expect("the list is writable");
        return;
    }
    let mut wrong = String::new();
    for (id, outcome) in outcomes {
        match outcome {
            Err(why) if !listed.contains_key(id) => {
                let _ = writeln!(wrong, "{id}: {why}");
            }
            Ok(()) if listed.contains_key(id) => {
                let _ = writeln!(wrong, "{id} comes out as captured and has to leave {LIST}");
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_list_only_shrinks() {
    let listed = read();
    let count = |wanted: &str| listed.values().filter(|(reason, _)| reason == wanted).count();
    assert_eq!(
        MOST.map(|(reason, _)| (reason, count(reason))),
        MOST,
        "the list may only shrink: lower its numbers with it"
    );
    let sum: usize = MOST.iter().map(|(_, most)| most).sum();
    assert_eq!(sum, listed.len(), "every line has one of the reasons {MOST:?}");
    assert!(listed.values().all(|(_, note)| !note.is_empty()), "every line says what differs");
    let files = ["tmq_delivery.jsonl", "tmq_errors.jsonl", "tmq_meta.jsonl"];
    assert_eq!(files.map(|file| super::lines(file).len()).iter().sum::<usize>(), LINES);
    let (concerned, otherwise) = (LINES - count(SNAPSHOT), listed.len() - count(SNAPSHOT));
    assert!(otherwise * 100 <= concerned * PERCENT_MAX, "{otherwise} of {concerned} lines");
}
