//! The interactive shell.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use client::Connection;
use model::{Error, Result};
use parking_lot::Mutex;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::complete::{SqlHelper, TablesOf, is_command};
use super::run::Runner;
use super::split::{first_word, is_complete, statements};
use crate::cli::common::{note, print_error, quoted};
use crate::cli::output::Printer;
use crate::cli::subscribe::statement::Ended;

const HISTORY_ENTRIES_MAX: usize = 10_000;
/// Names of one kind that completion knows.
const NAMES_MAX: usize = 10_000;

const HELP: &str = "\
Statements end with `;`, or with `\\G` to see one value a line. They may take several lines.
  SHOW DATABASES;   USE db;   SHOW STABLES;   DESCRIBE t;   SELECT ... ;
  subscribe TOPIC -g GROUP;    rows of a topic as they arrive (subscribe -h; tells more)
Tab completes names and keywords, behind `db.` its tables. Ctrl-R searches the history. Ctrl-C cancels a running
statement, or what was typed of one.
  help   this page (also `?`)
  exit   leave (also Ctrl-D)";

/// Reads statements from the terminal until its user has had enough.
pub(super) async fn run(mut runner: Runner) -> Result<()> {
    let terminal = |e: ReadlineError| Error::internal("cannot use the terminal").caused_by(e);
    let names = Arc::new(Mutex::new(Vec::new()));
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(HISTORY_ENTRIES_MAX)
        .map_err(terminal)?
        .build();
    let mut editor: Editor<SqlHelper, FileHistory> = Editor::with_config(config).map_err(terminal)?;
    let tables = Tables::default();
    let tables_of = tables.asked_of(&runner.connection);
    editor.set_helper(Some(SqlHelper { names: Arc::clone(&names), tables_of }));
    let history = history_file();
    if let Some(path) = &history {
        // The first time there is none.
        let _ = editor.load_history(path);
    }
    let version = runner.connection.server_version();
    note(&format!(
        "Tidemark {} on {}, server {version}. `help` helps, `exit` leaves.",
        env!("CARGO_PKG_VERSION"),
        runner.connection.options().host
    ));
    let mut stale = true;
    let mut pending = Pending::default();
    loop {
        if std::mem::take(&mut stale) {
            // Completion is a comfort: without names it still knows the keywords.
            let topics = first_column(&runner.connection, "SHOW TOPICS").await.unwrap_or_default();
            let mut known = runner.connection.complete().await.unwrap_or_default();
            known.extend(topics);
            *names.lock() = known;
            tables.0.lock().clear();
        }
        let line = match editor.readline(&pending.prompt(&runner.connection.database())) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                pending = Pending::default();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        };
        let Some(line) = pending.add(&line) else { continue };
        if !holds_password(&line) {
            let _ = editor.add_history_entry(line.trim());
        }
        if is_command(&line) {
            if line.contains('h') || line.contains('?') {
                note(HELP);
                continue;
            }
            break;
        }
        runner.signals.forget_interrupts();
        let mut printer = Printer::new(BufWriter::new(io::stdout()), runner.format, runner.zone);
        for statement in statements(&line) {
            stale |= !only_reads(&statement.text);
            match runner.execute(&statement, &mut printer).await {
                Ok(Ended::Done) => {}
                Ok(Ended::Faulty) => break,
                Err(error) => {
                    let _ = printer.out().flush();
                    print_error(&error, false);
                    break;
                }
            }
        }
    }
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        note(&format!("history was not saved: path={} cause={error}", path.display()));
    }
    Ok(())
}

/// Lines of statements whose end has not been typed yet.
#[derive(Debug, Default)]
struct Pending(String);

impl Pending {
    /// The current database, or where it is going on, as wide as that.
    fn prompt(&self, database: &str) -> String {
        let database = if database.is_empty() { "tidemark" } else { database };
        if self.0.is_empty() {
            return format!("{database}> ");
        }
        let width = database.chars().count();
        format!("{:>width$}> ", "-")
    }

    /// Takes a line; gives all of them once they are whole statements, or a command of the shell.
    fn add(&mut self, line: &str) -> Option<String> {
        if line.trim().is_empty() && self.0.trim().is_empty() {
            return None;
        }
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(line);
        (is_command(&self.0) || is_complete(&self.0)).then(|| std::mem::take(&mut self.0))
    }
}

/// Tables of the databases that were asked for.
#[derive(Clone, Default)]
struct Tables(Arc<Mutex<HashMap<String, Option<Vec<String>>>>>);

impl Tables {
    /// Asks the server once for each database. The line editor is synchronous: this thread waits for the answer, the
    /// connection's tasks go on.
    fn asked_of(&self, connection: &Connection) -> TablesOf {
        let (known, connection) = (Arc::clone(&self.0), connection.clone());
        let runtime = tokio::runtime::Handle::current();
        Box::new(move |database| {
            if let Some(found) = known.lock().get(database) {
                return found.clone();
            }
            let found = tokio::task::block_in_place(|| runtime.block_on(tables(&connection, database)));
            known.lock().insert(database.to_owned(), found.clone());
            found
        })
    }
}

/// Super tables and tables of a database; `None` where there is none.
async fn tables(connection: &Connection, database: &str) -> Option<Vec<String>> {
    let database = quoted(database);
    let mut names = first_column(connection, &format!("SHOW {database}.STABLES")).await.ok()?;
    names.extend(first_column(connection, &format!("SHOW {database}.TABLES")).await.unwrap_or_default());
    Some(names)
}

/// The texts of a result's first column, as many as completion has use for.
async fn first_column(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut result = connection.sql(sql).await?;
    let mut names = Vec::new();
    while names.len() < NAMES_MAX
        && let Some(batch) = result.next_batch().await?
    {
        let Some(column) = batch.columns().first() else { break };
        let text = |row| match client::value_at(column, row) {
            model::Value::Text(name) => Some(name),
            _ => None,
        };
        names.extend((0..batch.num_rows()).filter_map(text));
    }
    Ok(names)
}

/// `TIDEMARK_HISTORY`, or a file in the home directory.
fn history_file() -> Option<PathBuf> {
    let named = std::env::var_os("TIDEMARK_HISTORY").map(PathBuf::from);
    named.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".tidemark_history")))
}

/// CREATE USER and ALTER USER have the password in clear text.
fn holds_password(line: &str) -> bool {
    line.split_whitespace().any(|word| word.eq_ignore_ascii_case("pass"))
}

/// Names may be others after anything else.
fn only_reads(statement: &str) -> bool {
    let first = first_word(statement);
    ["select", "show", "describe", "desc", "explain", "insert", "delete"]
        .iter()
        .any(|w| w.eq_ignore_ascii_case(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_statement_shows_in_the_prompt() {
        let mut pending = Pending::default();
        assert_eq!((pending.prompt(""), pending.prompt("power")), ("tidemark> ".into(), "power> ".into()));
        assert_eq!(pending.add("  "), None);
        assert_eq!(pending.prompt("power"), "power> ", "a blank line begins nothing");
        assert_eq!(pending.add("select ';"), None);
        assert_eq!(pending.prompt("power"), "    -> ");
        assert_eq!(pending.add("help"), None, "part of the text, no command");
        assert_eq!(
            pending.add("' from t; select 2;").as_deref(),
            Some("select ';\nhelp\n' from t; select 2;")
        );
        assert_eq!(pending.prompt("p"), "p> ", "a new one begins");
        assert_eq!(pending.add("exit").as_deref(), Some("exit"));
    }

    #[test]
    fn passwords_stay_out_of_the_history() {
        assert!(holds_password("create user ann PASS 'x';"));
        assert!(!holds_password("select passed from t;"));
    }
}
