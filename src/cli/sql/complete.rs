//! Completion for the shell's line editor.

use std::sync::Arc;

use parking_lot::Mutex;
use rustyline::completion::{Completer, Pair};
use rustyline::{Context, Helper, Highlighter, Hinter, Validator};

/// Words that are worth completing.
const KEYWORDS: &str = "SELECT FROM WHERE GROUP BY ORDER LIMIT OFFSET PARTITION INTERVAL SLIDING FILL SESSION \
    STATE_WINDOW EVENT_WINDOW COUNT_WINDOW INSERT INTO VALUES USING TAGS CREATE DATABASE STABLE TABLE TOPIC USER DROP \
    JOIN ON HAVING UNION ALL DISTINCT AND OR BETWEEN LIKE IN IS NULL CASE WHEN THEN ELSE END DESC CAST GRANT REVOKE TO \
    READ WRITE SUBSCRIBE COMPACT TRIM RENAME ADD COLUMN MODIFY SET TAG COMMENT TTL \
    ALTER DESCRIBE SHOW DATABASES STABLES TABLES TOPICS CONSUMERS SUBSCRIPTIONS VGROUPS VARIABLES USE DELETE EXPLAIN \
    FLUSH IF EXISTS NOT WITH META ONLY AS PRECISION KEEP DURATION WAL_RETENTION_PERIOD TIMESTAMP BOOL TINYINT \
    SMALLINT INT BIGINT FLOAT DOUBLE VARCHAR NCHAR UNSIGNED count avg sum min max first last last_row spread \
    _wstart _wend _wduration tbname subscribe help exit";

/// Words that may follow a statement's first word, for those after which few may.
#[rustfmt::skip]
const AFTER: &[(&str, &str)] = &[
    ("SHOW", "CHILD COMPACTS CONSUMERS CREATE DATABASES NORMAL STABLES SUBSCRIPTIONS SYSTEM TABLES TAGS TOPICS USER USERS \
        VARIABLES VGROUPS"),
    ("CREATE", "DATABASE STABLE TABLE TOPIC USER"),
    ("DROP", "CONSUMER DATABASE STABLE TABLE TOPIC USER"),
    ("ALTER", "ALL DATABASE STABLE TABLE USER"),
    ("COMPACT", "DATABASE"),
    ("FLUSH", "DATABASE"),
    ("TRIM", "DATABASE"),
];

/// Commands of the shell itself, which need no terminator.
pub(super) fn is_command(line: &str) -> bool {
    matches!(line.trim().trim_end_matches(';'), "exit" | "quit" | "q" | "help" | "?" | "\\q" | "\\h" | "\\?")
}

/// What the line editor asks.
#[derive(Helper, Hinter, Highlighter, Validator)]
pub(super) struct SqlHelper {
    /// Databases, topics, and tables and columns of the current database, as last asked for.
    pub(super) names: Arc<Mutex<Vec<String>>>,
    /// Tables of the database of that name; `None` where there is none.
    pub(super) tables_of: TablesOf,
}

/// Asks for the tables of a database.
pub(super) type TablesOf = Box<dyn Fn(&str) -> Option<Vec<String>> + Send + Sync>;

impl Completer for SqlHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or(line);
        let (start, words) = candidates(before, &self.names.lock(), &self.tables_of);
        Ok((start, words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}

/// Where the word before the cursor starts and what it may become: behind `db.` the tables of that database, else names
/// and keywords. Keywords follow the case that was begun.
fn candidates(
    before: &str,
    names: &[String],
    tables_of: &dyn Fn(&str) -> Option<Vec<String>>,
) -> (usize, Vec<String>) {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '`' || c == '\\';
    let start = before
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_part(*c))
        .last()
        .map_or(before.len(), |(at, _)| at);
    let word = before.get(start..).unwrap_or("");
    let bare = word.trim_start_matches('`');
    let qualifier = before.get(..start).and_then(|before| before.strip_suffix('.')).map(last_name);
    let tables = qualifier.filter(|name| !name.is_empty()).and_then(|name| tables_of(&name));
    if bare.is_empty() && tables.is_none() {
        return (start, Vec::new());
    }
    let begins = |name: &str| name.get(..bare.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(bare));
    let lower = bare.chars().all(|c| !c.is_uppercase());
    let keyword = |word: &str| if lower { word.to_lowercase() } else { word.to_owned() };
    let name = |name: &String| {
        if word.starts_with('`') || !is_plain(name) { format!("`{name}`") } else { name.clone() }
    };
    let of_database = tables.is_some();
    let names = tables.as_deref().unwrap_or(names);
    let mut found: Vec<_> = names.iter().filter(|n| begins(n)).map(name).collect();
    if !of_database && !word.starts_with('`') {
        let first = before.get(..start).unwrap_or("").trim();
        let keywords = match AFTER.iter().find(|(word, _)| word.eq_ignore_ascii_case(first)) {
            Some((_, following)) => following,
            None => KEYWORDS,
        };
        found.extend(keywords.split_whitespace().filter(|w| begins(w)).map(keyword));
    }
    found.sort_unstable();
    found.dedup();
    (start, found)
}

/// The name that ends the text, as the server has it: as it is in backticks, else in lower case.
fn last_name(text: &str) -> String {
    if let Some(quoted) = text.strip_suffix('`') {
        return quoted.rsplit_once('`').map_or_else(String::new, |(_, name)| name.to_owned());
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let start = text.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map(|(at, _)| at);
    start.and_then(|start| text.get(start..)).unwrap_or_default().to_lowercase()
}

/// Whether a name reads as itself without backticks: others would be folded or not be names at all.
fn is_plain(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let keyword = KEYWORDS.split_whitespace().any(|word| word.eq_ignore_ascii_case(name));
    starts && !keyword && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<Vec<String>> {
        None
    }

    #[test]
    fn names_and_keywords_complete() {
        let names = ["meters".to_owned(), "Meters2".to_owned(), "power".to_owned(), "table".to_owned()];
        let candidates = |before| candidates(before, &names, &none);
        assert_eq!(
            candidates("select * from me"),
            (14, vec!["`Meters2`".into(), "meta".into(), "meters".into()])
        );
        assert_eq!(candidates("SEL"), (0, vec!["SELECT".into()]));
        assert_eq!(candidates("sel"), (0, vec!["select".into()]));
        assert_eq!(candidates("select `M").1, ["`Meters2`", "`meters`"]);
        assert_eq!(candidates("tabl").1, ["`table`", "table", "tables"]);
        assert_eq!(candidates("select m.me").1, ["`Meters2`", "meta", "meters"], "m is no database");
        assert_eq!(candidates("select "), (7, vec![]));
        assert_eq!(candidates("show data"), (5, vec!["databases".into()]), "SHOW DATABASE is nothing");
        assert_eq!(candidates("SHOW me").1, ["`Meters2`", "meters"], "a database may follow");
        assert_eq!(candidates("create data").1, ["database"]);
    }

    #[test]
    fn behind_a_database_its_tables_complete() {
        let tables_of = |name: &str| match name {
            "power" => Some(vec!["meters".to_owned(), "D1".to_owned(), "d2".to_owned()]),
            "Odd one" => Some(vec!["selected".to_owned()]),
            _ => None,
        };
        let names = ["metrics".to_owned()];
        let candidates = |before| candidates(before, &names, &tables_of);
        assert_eq!(
            candidates("select * from power."),
            (20, vec!["`D1`".into(), "d2".into(), "meters".into()])
        );
        assert_eq!(candidates("select * from POWER.me").1, ["meters"], "names fold as SQL folds them");
        assert_eq!(candidates("select * from `Odd one`.sel"), (24, vec!["selected".into()]), "no keyword");
        assert_eq!(candidates("select * from `power`.`d").1, ["`D1`", "`d2`"]);
        assert_eq!(candidates("select 1."), (9, vec![]));
        assert_eq!(candidates("."), (1, vec![]));
    }

    #[test]
    fn the_shells_own_commands_need_no_terminator() {
        for command in ["exit", " quit; ", "help", "help;", "?", "\\?", "\\h"] {
            assert!(is_command(command), "{command}");
        }
        assert!(!is_command("select 1"));
    }
}
