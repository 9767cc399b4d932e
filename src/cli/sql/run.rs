//! Running one statement and printing what it says.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use arrow::array::RecordBatch;
use client::{Column, Connection, QueryResult};
use indicatif::ProgressBar;
use model::{Code, Error, Result, Zone};

use super::script::Script;
use super::split::{Statement, first_word};
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
    /// The next statement of a script, unless a signal comes while that is awaited.
    pub(super) async fn next(&mut self, script: &mut Script) -> Result<Option<Statement>> {
        unless_cancelled(&mut self.signals, script.next()).await
    }

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
        let signals = &mut self.signals;
        // A query that is dropped is cancelled in the server too.
        let mut result = unless_cancelled(signals, connection.sql(&statement.text)).await?;
        if vertical {
            let mut printer = Printer::new(printer.out(), Format::Vertical, zone);
            print(&mut result, &mut printer, interactive, signals).await?;
        } else {
            print(&mut result, printer, interactive, signals).await?;
        }
        self.tell(&statement.text, &result);
        Ok(Ended::Done)
    }

    /// Row count and time: for people, so not where a program reads. What a statement did not do is told everywhere.
    fn tell(&self, statement: &str, result: &QueryResult) {
        let Some(summary) = result.summary() else { return };
        if !summary.note.is_empty() {
            note(&format!("note: {}", summary.note));
        }
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

fn rows(count: u64) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

/// What `work` comes to, unless a signal is there or comes first.
async fn unless_cancelled<T>(signals: &mut Signals, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        // Work that never waits must not keep the signals from being looked at.
        biased;
        () = signals.next() => Err(Error::of(Code::Terminated)),
        done = work => done,
    }
}

/// Rows printed before the signals are looked at again: a terminal may take its time for each.
const ROWS_AT_ONCE: usize = 64;

/// Prints batches as they come, until a signal comes. A person who waits sees how many have come so far.
async fn print<W: Write>(
    result: &mut QueryResult,
    printer: &mut Printer<W>,
    interactive: bool,
    signals: &mut Signals,
) -> Result<()> {
    if !result.has_rows() {
        return printer.affected(result.affected_rows()).map_err(output_failed);
    }
    let columns = result.columns().to_vec();
    printer.begin(&columns).map_err(output_failed)?;
    let spinner = interactive.then(|| Spinner::start(ProgressBar::new_spinner()));
    let mut count = 0_u64;
    while let Some(batch) = unless_cancelled(signals, result.next_batch()).await? {
        count += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        let mut rows = || print_batch(printer, &columns, &batch, || signals.have_come());
        match &spinner {
            Some(Spinner(spinner)) => {
                spinner.set_message(format!("{count} rows so far"));
                spinner.suspend(rows)?;
            }
            None => rows()?,
        }
    }
    drop(spinner);
    printer.end().map_err(output_failed)
}

/// Prints a batch, or as much of it as there is time for until `cancelled` says so.
fn print_batch<W: Write>(
    printer: &mut Printer<W>,
    columns: &[Column],
    batch: &RecordBatch,
    mut cancelled: impl FnMut() -> bool,
) -> Result<()> {
    for start in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
        if cancelled() {
            return Err(Error::of(Code::Terminated));
        }
        let rows = batch.slice(start, ROWS_AT_ONCE.min(batch.num_rows() - start));
        printer.rows(columns, &rows).map_err(output_failed)?;
    }
    Ok(())
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
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use model::DataType;

    use super::*;

    #[test]
    fn only_use_changes_the_database() {
        assert!(changes_database("use power") && changes_database("-- mine\n/* now */ USE `power`"));
        assert!(!changes_database("select 1") && !changes_database("user") && !changes_database(""));
    }

    #[test]
    fn a_cancelled_batch_is_printed_no_further() {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
        let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
        let columns =
            [Column { name: "v".into(), data_type: DataType::BigInt, precision: model::Precision::Ms }];
        let printed = |looks: usize| {
            let mut printer = Printer::new(Vec::new(), Format::Csv, Zone::UTC);
            let mut left = looks;
            let done = print_batch(&mut printer, &columns, &batch, || {
                left = left.saturating_sub(1);
                left == 0
            });
            (done.map_err(|error| error.code()), printer.out().split(|&byte| byte == b'\n').count() - 1)
        };
        assert_eq!(printed(3), (Err(Code::Terminated), 2 * ROWS_AT_ONCE));
        assert_eq!(printed(1_000), (Ok(()), 1_000), "all rows, also those of the last, smaller part");
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
