//! Where one statement ends and the next begins. Nothing else of SQL is known here.

use model::Place;

/// A statement without its terminator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) text: String,
    /// Where it begins in the script.
    pub(super) place: Place,
    /// Ended with `\G`: print one value a line.
    pub(super) vertical: bool,
}

/// The statements of a script; the last needs no terminator. Empty ones are left out.
pub(super) fn statements(script: &str) -> Vec<Statement> {
    let mut splitter = Splitter::default();
    let mut found = splitter.add(script);
    found.extend(splitter.rest());
    found
}

/// Splits a script that comes line by line.
#[derive(Debug)]
pub(super) struct Splitter {
    /// What is not a whole statement yet.
    pending: String,
    /// Where that begins in the script.
    place: Place,
}

impl Default for Splitter {
    fn default() -> Self {
        Self { pending: String::new(), place: Place { line: 1, column: 1 } }
    }
}

impl Splitter {
    /// Takes in whole lines; the statements that end in them.
    pub(super) fn add(&mut self, lines: &str) -> Vec<Statement> {
        self.pending.push_str(lines);
        let mut found = Vec::new();
        // Nothing else ends a statement: one of many lines is not looked through again with each of them.
        if !lines.contains(';') && !lines.contains("\\G") {
            return found;
        }
        let mut taken = 0;
        while let Some(rest) = self.pending.get(taken..)
            && let Some(End { at, behind, vertical }) = end(rest)
        {
            found.extend(statement(rest.get(..at).unwrap_or(rest), self.place, vertical));
            self.place = Place::of(rest, behind).in_whole(self.place);
            taken += behind;
        }
        self.pending.drain(..taken);
        found
    }

    /// What has no terminator, when nothing more comes.
    pub(super) fn rest(&mut self) -> Option<Statement> {
        statement(&std::mem::take(&mut self.pending), self.place, false)
    }
}

/// The statement in `text`, which begins at `place`; `None` for blanks and comments alone.
fn statement(text: &str, place: Place, vertical: bool) -> Option<Statement> {
    let first = begin(text)?;
    let place = Place::of(text, first).in_whole(place);
    Some(Statement { text: text.get(first..).unwrap_or(text).trim_end().to_owned(), place, vertical })
}

/// Whether the text's last statement has its terminator, or there is none.
pub(super) fn is_complete(text: &str) -> bool {
    let mut rest = text;
    while let Some(End { behind, .. }) = end(rest) {
        rest = rest.get(behind..).unwrap_or("");
    }
    begin(rest).is_none()
}

struct End {
    at: usize,
    behind: usize,
    vertical: bool,
}

/// The first terminator outside of quotes and comments.
fn end(text: &str) -> Option<End> {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        match (c, next) {
            (';', _) => return Some(End { at, behind: at + 1, vertical: false }),
            ('\\', Some('G')) => {
                // `\G;` is one terminator, not two.
                let behind = at + 2;
                let after = text.get(behind..).unwrap_or("");
                let semicolon = usize::from(after.starts_with(';'));
                return Some(End { at, behind: behind + semicolon, vertical: true });
            }
            ('\'' | '"', _) => {
                while let Some((_, inner)) = chars.next() {
                    if inner == '\\' {
                        chars.next();
                    } else if inner == c {
                        break;
                    }
                }
            }
            ('`', _) => {
                chars.by_ref().find(|(_, inner)| *inner == '`');
            }
            ('-', Some('-')) if !is_option(text, at) => {
                chars.by_ref().find(|(_, inner)| *inner == '\n');
            }
            ('/', Some('*')) => {
                chars.next();
                let mut star = false;
                for (_, inner) in chars.by_ref() {
                    if star && inner == '/' {
                        break;
                    }
                    star = inner == '*';
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the dashes at `at` begin a long option of a `subscribe` statement: as the comment that they begin in SQL they
/// would hide its `;`.
fn is_option(text: &str, at: usize) -> bool {
    let named = text.get(at + 2..).is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()));
    named && first_word(text.get(..at).unwrap_or("")).eq_ignore_ascii_case("subscribe")
}

/// The statement's first word, behind comments.
pub(super) fn first_word(statement: &str) -> &str {
    without_comments(statement).split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
}

/// Where a statement begins: behind blanks and comments; `None` where there is nothing else.
fn begin(text: &str) -> Option<usize> {
    let rest = without_comments(text);
    (!rest.is_empty()).then(|| text.len() - rest.len())
}

/// The text from its first word on. A comment that does not end stays: the server says so.
pub(super) fn without_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let next = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, next)| next)
        } else if let Some((_, next)) = rest.strip_prefix("/*").and_then(|comment| comment.split_once("*/")) {
            next
        } else {
            return rest;
        };
        rest = next.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        statements(script).into_iter().map(|s| s.text).collect()
    }

    #[test]
    fn terminators_count_outside_of_quotes_and_comments_only() {
        assert_eq!(texts("a; b ;\n;c"), ["a", "b", "c"]);
        assert_eq!(
            texts("insert into t values ('a;b\\';', \";\"); x"),
            ["insert into t values ('a;b\\';', \";\")", "x"]
        );
        assert_eq!(texts("select `a;``b`; y"), ["select `a;``b`", "y"]);
        assert_eq!(texts("a -- no; really\n; b"), ["a -- no; really", "b"]);
        assert_eq!(texts("a /* ; */; b"), ["a /* ; */", "b"]);
        assert_eq!(texts("select ts - -1; b"), ["select ts - -1", "b"]);
        assert_eq!(texts("-- only\n/* comments */ ; "), Vec::<String>::new());
        assert_eq!(texts("größe; b"), ["größe", "b"]);
    }

    #[test]
    fn a_statement_knows_where_it_begins() {
        let script = "-- größe\n/* ; */ a\n;\n  b\\G; c /* never ends";
        let found = statements(script);
        let places: Vec<_> = found.iter().map(|s| (s.text.as_str(), s.place.line, s.place.column)).collect();
        assert_eq!(places, [("a", 2, 9), ("b", 4, 3), ("c /* never ends", 4, 8)]);
        // Line by line is the same.
        let mut splitter = Splitter::default();
        let mut lines: Vec<_> = script.split_inclusive('\n').flat_map(|line| splitter.add(line)).collect();
        assert_eq!(lines.len(), 2, "the last may go on");
        lines.extend(splitter.rest());
        assert_eq!(lines, found);
        assert_eq!(texts("/* never ends"), ["/* never ends"]);
    }

    #[test]
    fn backslash_g_asks_for_one_value_a_line() {
        let found = statements("select 1\\G select 2; select '\\G'\\G;");
        assert_eq!(found.iter().map(|s| s.vertical).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_statement_goes_on_until_its_terminator() {
        assert!(is_complete("select 1;") && is_complete("") && is_complete("a; b\\G -- done"));
        assert!(!is_complete("select 1") && !is_complete("a; b") && !is_complete("select ';"));
    }

    #[test]
    fn a_long_option_of_subscribe_is_no_comment() {
        assert!(is_complete("subscribe t -g g --from earliest;"));
        assert!(is_complete("-- mine\nSubscribe t --from x; select 1;"));
        assert!(!is_complete("subscribe t -- all of it;"), "a comment all the same");
        assert!(!is_complete("select 1 --from;"));
    }
}
