//! Running one statement and printing what it says.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use client::{Connection, QueryResult};
use indicatif::ProgressBar;
use model::{Code, Error, Result, Zone};

use super::split::{Statement, without_comments};
use crate::cli::common::{ConnectArgs, Signals, note, output_failed};
use crate::cli::output::{Format, Printer};
use crate::cli::subscribe::statement::{self as subscribe, Ended};

/// What statements run with.
pub(super) struct Runner {
    pub(super) connection: Connection,
    pub(super) format: Format,
    pub(super) zone: Zone,
    pub(super) signals: Signals,
    pub(super) connect: ConnectArgs,
    pub(super) interactive: bool,
}

impl Runner {
    /// Runs a statement to its end, or until Ctrl-C cancels it. A fault is the error, or has been told already.
    pub(super) async fn execute<W: Write>(
        &mut self,
        statement: &Statement,
        printer: &mut Printer<W>,
    ) -> Result<Ended> {
        if let Some(words) = subscribe::words(&statement.text) {
            return subscribe::run(&words, &self.connect, self.zone, printer.out(), &mut self.signals).await;
        }
        let vertical = statement.vertical && self.format == Format::Table;
        let connection = self.connection.clone();
        let zone = self.zone;
        let interactive = self.interactive;
        // A query that is dropped is cancelled in the server too.
        let work = async {
            let mut result = connection.sql(&statement.text).await?;
            if vertical {
                let mut printer = Printer::new(printer.out(), Format::Vertical, zone);
                print(&mut result, &mut printer, interactive).await?;
            } else {
                print(&mut result, printer, interactive).await?;
            }
            Ok::<_, Error>(result)
        };
        let result = tokio::select! {
            result = work => result?,
            () = self.signals.next() => return Err(Error::of(Code::Terminated)),
        };
        self.tell(&statement.text, &result);
        Ok(Ended::Done)
    }

    /// Row count and time: for people, so not where a program reads.
    fn tell(&self, statement: &str, result: &QueryResult) {
        let Some(summary) = result.summary() else { return };
        let seconds = summary.elapsed.as_secs_f64();
        let text = match (result.has_rows(), summary.affected_rows) {
            (true, _) => format!("{} ({seconds:.3} s)", rows(summary.rows)),
            (false, _) if changes_database(statement) => "Database changed.".to_owned(),
            (false, Some(affected)) => format!("ok, {} affected ({seconds:.3} s)", rows(affected)),
            (false, None) => format!("ok ({seconds:.3} s)"),
        };
        if self.interactive || (self.format == Format::Table && io::stderr().is_terminal()) {
            note(&text);
        }
    }
}

fn changes_database(statement: &str) -> bool {
    first_word(statement).eq_ignore_ascii_case("use")
}

/// The statement's first word, behind comments.
pub(super) fn first_word(statement: &str) -> &str {
    without_comments(statement).split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
}

fn rows(count: u64) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

/// Prints batches as they come. A person who waits sees how many have come so far.
async fn print<W: Write>(
    result: &mut QueryResult,
    printer: &mut Printer<W>,
    interactive: bool,
) -> Result<()> {
    if !result.has_rows() {
        return printer.affected(result.affected_rows()).map_err(output_failed);
    }
    let columns = result.columns().to_vec();
    printer.begin(&columns).map_err(output_failed)?;
    let spinner = interactive.then(|| Spinner::start(ProgressBar::new_spinner()));
    let mut count = 0_u64;
    while let Some(batch) = result.next_batch().await? {
        count += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        let printed = match &spinner {
            Some(Spinner(spinner)) => {
                spinner.set_message(format!("{count} rows so far"));
                spinner.suspend(|| printer.rows(&columns, &batch))
            }
            None => printer.rows(&columns, &batch),
        };
        printed.map_err(output_failed)?;
    }
    drop(spinner);
    printer.end().map_err(output_failed)
}

/// Shows that something goes on, for as long as it lives: also a statement that Ctrl-C drops takes it off the screen.
struct Spinner(ProgressBar);

impl Spinner {
    fn start(bar: ProgressBar) -> Self {
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_use_changes_the_database() {
        assert!(changes_database("use power") && changes_database("-- mine\n/* now */ USE `power`"));
        assert!(!changes_database("select 1") && !changes_database("user") && !changes_database(""));
    }

    #[tokio::test]
    async fn a_cancelled_statement_takes_its_spinner_along() {
        let bar = ProgressBar::hidden();
        let shown = Spinner::start(bar.clone());
        let work = async move {
            let _shown = shown;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = work => {}
            () = std::future::ready(()) => {}
        }
        assert!(bar.is_finished());
    }
}
