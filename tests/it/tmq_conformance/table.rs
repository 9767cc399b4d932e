//! The rows of section 15 and the rules of section 16, each with its tests, found by the numbers in their names, or with
//! the reason why it has none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders in which tests of subscriptions stand.
const FOLDERS: [&str; 6] = ["tests/it", "mnode/src", "vnode/src", "wal/tests", "client/src", "src"];

/// Row, what it is about, and why it is not tested where it is not.
type Row = (u32, &'static str, Option<&'static str>);

const ONE_REPLICA: Option<&str> = Some("a vgroup has one replica: nobody else can lead it");
const NO_SPLIT: Option<&str> = Some("SPLIT VGROUP is not built (docs/sql.md)");
const NO_SNAPSHOT: Option<&str> = Some("experimental.snapshot.enable is not built");
const NO_STREAMS: Option<&str> = Some("STREAM is not built (docs/sql.md)");

#[rustfmt::skip]
const ROWS: [Row; 78] = [
    (1, "query topics survive restarts", None),
    (2, "conditions of stable topics", None),
    (3, "conditions that a stable topic cannot have", None),
    (4, "aggregates in query topics", None),
    (5, "topics on what is missing", None),
    (6, "the most topics", None),
    (7, "the most groups of a topic", None),
    (8, "rows of SHOW CONSUMERS and SHOW SUBSCRIPTIONS", None),
    (9, "10000 rows over 4 vgroups, in order", None),
    (10, "latest", None),
    (11, "no policy and no commit", None),
    (12, "parameters as shown", None),
    (13, "offsets and rows as shown", None),
    (14, "filter and functions", None),
    (15, "tbname as a column", None),
    (16, "a name in backticks, listed twice", None),
    (17, "unsubscribe and subscribe twice", None),
    (18, "another topic with the same handle", None),
    (19, "two topics over one table", None),
    (20, "two consumers of one group", None),
    (21, "two groups", None),
    (22, "a consumer joins", None),
    (23, "automatic commits, then new rows", None),
    (24, "no commit, all again", None),
    (25, "a commit for each message, then a kill", None),
    (26, "automatic commits of idle polls", None),
    (27, "seek", None),
    (28, "checks of seek and commit", None),
    (29, "position before anything", None),
    (30, "committed without a commit", None),
    (31, "commit of an offset", None),
    (32, "assignment after subscribe", None),
    (33, "a killed process", None),
    (34, "heartbeats without polls", None),
    (35, "range of session.timeout.ms", None),
    (36, "ranges of max.poll.interval.ms, fetch.max.wait.ms, min.poll.rows", None),
    (37, "subscribe again after a removal", None),
    (38, "DROP TOPIC with a consumer", None),
    (39, "DROP TOPIC while consumers close", None),
    (40, "DROP TOPIC FORCE", None),
    (41, "DROP CONSUMER GROUP", None),
    (42, "DROP DATABASE with a topic", None),
    (43, "retention period 0 and topics", None),
    (44, "ALTER of a super table with a query topic", None),
    (45, "ALTER of a normal table with a query topic", None),
    (46, "SELECT * and new columns", None),
    (47, "SELECT * WHERE tag, new children", None),
    (48, "SELECT * WHERE tag, changed tags", None),
    (49, "a tag of the filter is dropped", None),
    (50, "tags renamed, then RELOAD", None),
    (51, "a selected column is widened", None),
    (52, "RELOAD of an unknown topic", None),
    (53, "a table made again", None),
    (54, "SET TAG, then insert", None),
    (55, "compression and tag indexes", None),
    (56, "tables dropped while consuming", None),
    (57, "columns added between partial writes", None),
    (58, "DELETE while consuming", None),
    (59, "overwritten rows", None),
    (60, "mixed batches with NULLs", None),
    (61, "WITH META", None),
    (62, "WITH META in batches", None),
    (63, "WITH META of a stable with a condition", None),
    (64, "empty tag values in events", None),
    (65, "ONLY META", None),
    (66, "rare types", None),
    (67, "snapshot mode", NO_SNAPSHOT),
    (68, "a group behind retention", None),
    (69, "the server restarts", None),
    (70, "another leader", ONE_REPLICA),
    (71, "a vgroup is split", NO_SPLIT),
    (72, "replay", None),
    (73, "topics that cannot be replayed", None),
    (74, "the right to subscribe", None),
    (75, "faults of the shell's subscribe", None),
    (76, "limits of the shell's subscribe", None),
    (77, "precisions", None),
    (78, "results of streams", NO_STREAMS),
];

const RULES: u32 = 27;

/// Tests by row and by rule.
#[derive(Default)]
struct Found {
    rows: BTreeMap<u32, Vec<String>>,
    rules: BTreeMap<u32, Vec<String>>,
}

impl Found {
    fn in_file(&mut self, path: &Path) {
        let text = std::fs::read_to_string(path).expect("a source file");
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[") {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                continue;
            }
            let name = line.trim_start_matches("async ").strip_prefix("fn ");
            if let Some(name) = name.and_then(|rest| rest.split('(').next()).filter(|_| is_test) {
                self.take(name);
            }
            is_test = false;
        }
    }

    /// `.._s15_07_..`, `.._s15_61_to_65_..` and `.._rule_08_..`, also several in one name.
    fn take(&mut self, name: &str) {
        let parts: Vec<&str> = name.split('_').collect();
        let number = |at: usize| parts.get(at).filter(|p| p.len() == 2).and_then(|p| p.parse::<u32>().ok());
        for (at, part) in parts.iter().enumerate() {
            let (Some(first), found) = (number(at + 1), &mut *self) else { continue };
            let last = number(at + 3).filter(|_| parts.get(at + 2) == Some(&"to")).unwrap_or(first);
            let by_number = match *part {
                "s15" => &mut found.rows,
                "rule" => &mut found.rules,
                _ => continue,
            };
            for number in first..=last {
                by_number.entry(number).or_default().push(name.to_owned());
            }
        }
    }
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn tests() -> Found {
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut found = Found::default();
    files.iter().for_each(|file| found.in_file(file));
    found
}

#[test]
fn every_row_has_a_test_or_a_reason() {
    let found = tests().rows;
    let numbers: Vec<u32> = ROWS.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=78).collect::<Vec<_>>());
    for (number, title, reason) in ROWS {
        let tests = found.get(&number);
        assert_eq!(tests.is_none(), reason.is_some(), "row {number}, {title}: {tests:?} {reason:?}");
    }
    let unknown: BTreeSet<_> = found.keys().filter(|number| **number > 78).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_rule_has_a_test() {
    let found = tests().rules;
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), (1..=RULES).collect::<Vec<_>>(), "{found:#?}");
}

#[test]
fn names_tell_their_numbers() {
    let mut found = Found::default();
    for name in ["c017_s15_68_a_group", "s15_35_s15_36_ranges", "s15_61_to_63_meta", "c006_rule_06_rule_07_x"]
    {
        found.take(name);
    }
    found.take("s15_without_a_number");
    assert_eq!(found.rows.keys().copied().collect::<Vec<_>>(), [35, 36, 61, 62, 63, 68]);
    assert_eq!(found.rules.keys().copied().collect::<Vec<_>>(), [6, 7]);
}
