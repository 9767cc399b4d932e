//! The interactive shell.

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use model::{Error, Result};
use parking_lot::Mutex;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::complete::{SqlHelper, is_command};
use super::run::Runner;
use super::split::statements;
use crate::cli::common::{note, print_error};
use crate::cli::output::Printer;

const HISTORY_ENTRIES_MAX: usize = 10_000;

const HELP: &str = "\
Statements end with `;`, or with `\\G` to see one value a line. They may take several lines.
  SHOW DATABASES;   USE db;   SHOW STABLES;   DESCRIBE t;   SELECT ... ;
  subscribe TOPIC -g GROUP;    rows of a topic as they arrive (subscribe -h; tells more)
Tab completes names and keywords, Ctrl-R searches the history, Ctrl-C cancels a running statement.
  help   this page
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
    editor.set_helper(Some(SqlHelper { names: Arc::clone(&names) }));
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
    loop {
        if std::mem::take(&mut stale) {
            // Completion is a comfort: without names it still knows the keywords.
            *names.lock() = runner.connection.complete().await.unwrap_or_default();
        }
        let database = runner.connection.database();
        let prompt = if database.is_empty() { "tidemark> ".to_owned() } else { format!("{database}> ") };
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        };
        if line.trim().is_empty() {
            continue;
        }
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
        let mut printer = Printer::new(BufWriter::new(io::stdout()), runner.format, runner.zone);
        for statement in statements(&line) {
            stale |= !only_reads(&statement.text);
            if let Err(error) = runner.execute(&statement, &mut printer).await {
                let _ = printer.out().flush();
                print_error(&error, false);
                break;
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
    let first = statement.split_whitespace().next().unwrap_or_default();
    ["select", "show", "describe", "desc", "explain", "insert", "delete"]
        .iter()
        .any(|w| w.eq_ignore_ascii_case(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_stay_out_of_the_history() {
        assert!(holds_password("create user ann PASS 'x';"));
        assert!(!holds_password("select passed from t;"));
    }
}
