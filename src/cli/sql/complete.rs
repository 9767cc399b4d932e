//! Completion and multi-line input for the shell's line editor.

use std::sync::Arc;

use parking_lot::Mutex;
use rustyline::completion::{Completer, Pair};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Highlighter, Hinter};

use super::split::is_complete;

/// Words that are worth completing.
const KEYWORDS: &str = "SELECT FROM WHERE GROUP BY ORDER LIMIT OFFSET PARTITION INTERVAL SLIDING FILL SESSION \
    STATE_WINDOW EVENT_WINDOW COUNT_WINDOW INSERT INTO VALUES USING TAGS CREATE DATABASE STABLE TABLE TOPIC USER DROP \
    ALTER DESCRIBE SHOW DATABASES STABLES TABLES TOPICS CONSUMERS SUBSCRIPTIONS VGROUPS VARIABLES USE DELETE EXPLAIN \
    FLUSH IF EXISTS NOT WITH META ONLY AS PRECISION KEEP DURATION WAL_RETENTION_PERIOD TIMESTAMP BOOL TINYINT \
    SMALLINT INT BIGINT FLOAT DOUBLE VARCHAR NCHAR UNSIGNED count avg sum min max first last last_row spread \
    _wstart _wend _wduration tbname subscribe help exit";

/// Commands of the shell itself, which need no terminator.
pub(super) fn is_command(line: &str) -> bool {
    matches!(line.trim().trim_end_matches(';'), "exit" | "quit" | "q" | "help" | "\\q" | "\\h" | "\\?")
}

/// What the line editor asks.
#[derive(Helper, Hinter, Highlighter)]
pub(super) struct SqlHelper {
    /// Names of the server, as last asked for.
    pub(super) names: Arc<Mutex<Vec<String>>>,
}

impl Completer for SqlHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or(line);
        let (start, words) = candidates(before, &self.names.lock());
        Ok((start, words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}

/// Where the word before the cursor starts and what it may become. Keywords follow the case that was begun.
fn candidates(before: &str, names: &[String]) -> (usize, Vec<String>) {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '`' || c == '\\';
    let start = before
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_part(*c))
        .last()
        .map_or(before.len(), |(at, _)| at);
    let word = before.get(start..).unwrap_or("");
    let bare = word.trim_start_matches('`');
    if bare.is_empty() {
        return (start, Vec::new());
    }
    let begins = |name: &str| name.get(..bare.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(bare));
    let lower = bare.chars().all(|c| !c.is_uppercase());
    let keyword = |word: &str| if lower { word.to_lowercase() } else { word.to_owned() };
    let name = |name: &String| {
        if word.starts_with('`') || !is_plain(name) { format!("`{name}`") } else { name.clone() }
    };
    let mut found: Vec<_> = names.iter().filter(|n| begins(n)).map(name).collect();
    if !word.starts_with('`') {
        found.extend(KEYWORDS.split_whitespace().filter(|w| begins(w)).map(keyword));
    }
    found.sort_unstable();
    found.dedup();
    (start, found)
}

/// Whether a name reads as itself without backticks: others would be folded or not be names at all.
fn is_plain(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let keyword = KEYWORDS.split_whitespace().any(|word| word.eq_ignore_ascii_case(name));
    starts && !keyword && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

impl Validator for SqlHelper {
    fn validate(&self, cx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let complete = is_command(cx.input()) || is_complete(cx.input());
        Ok(if complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keywords_complete() {
        let names = ["meters".to_owned(), "Meters2".to_owned(), "power".to_owned(), "table".to_owned()];
        assert_eq!(
            candidates("select * from me", &names),
            (14, vec!["`Meters2`".into(), "meta".into(), "meters".into()])
        );
        assert_eq!(candidates("SEL", &names), (0, vec!["SELECT".into()]));
        assert_eq!(candidates("sel", &names), (0, vec!["select".into()]));
        assert_eq!(candidates("select `M", &names).1, ["`Meters2`", "`meters`"]);
        assert_eq!(candidates("tabl", &names).1, ["`table`", "table", "tables"]);
        assert_eq!(candidates("power.m", &names).0, 6, "behind the dot a new word begins");
        assert_eq!(candidates("select ", &names), (7, vec![]));
    }

    #[test]
    fn the_shells_own_commands_need_no_terminator() {
        assert!(is_command("exit") && is_command(" quit; ") && is_command("help"));
        assert!(!is_command("select 1"));
    }
}
