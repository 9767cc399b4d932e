//! Running one statement and printing what it says.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use client::{Connection, QueryResult};
use indicatif::ProgressBar;
use model::{Code, Error, Result, Zone};

use super::split::Statement;
use crate::cli::common::{ConnectArgs, Signals, note, output_failed};
use crate::cli::output::{Format, Printer};
use crate::cli::subscribe::statement as subscribe;

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
    /// Runs a statement to its end, or until Ctrl-C cancels it.
    pub(super) async fn execute<W: Write>(
        &mut self,
        statement: &Statement,
        printer: &mut Printer<W>,
    ) -> Result<()> {
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
        self.tell(&result);
        Ok(())
    }

    /// Row count and time: for people, so not where a program reads.
    fn tell(&self, result: &QueryResult) {
        let Some(summary) = result.summary() else { return };
        let seconds = summary.elapsed.as_secs_f64();
        let text = match (result.has_rows(), summary.affected_rows) {
            (true, _) => format!("{} ({seconds:.3} s)", rows(summary.rows)),
            (false, Some(affected)) => format!("ok, {} affected ({seconds:.3} s)", rows(affected)),
            (false, None) => format!("ok ({seconds:.3} s)"),
        };
        if self.interactive || (self.format == Format::Table && io::stderr().is_terminal()) {
            note(&text);
        }
    }
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
    let spinner = interactive.then(ProgressBar::new_spinner);
    if let Some(spinner) = &spinner {
        spinner.enable_steady_tick(Duration::from_millis(200));
    }
    let mut count = 0_u64;
    while let Some(batch) = result.next_batch().await? {
        count += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        let printed = match &spinner {
            Some(spinner) => {
                spinner.set_message(format!("{count} rows so far"));
                spinner.suspend(|| printer.rows(&columns, &batch))
            }
            None => printer.rows(&columns, &batch),
        };
        printed.map_err(output_failed)?;
    }
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    printer.end().map_err(output_failed)
}
