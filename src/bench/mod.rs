//! `tidemark bench`: end-to-end figures of a server, each beside a reference measured in the same run.

mod consume;
mod latency;
mod query;
mod report;
mod target;
mod values;
mod write;

use model::Result;

use self::target::Target;
use crate::cli::{BenchArgs, BenchCommand};

/// Runs a benchmark.
///
/// # Errors
/// Whatever went wrong.
pub async fn run(args: BenchArgs) -> Result<()> {
    let mut target = Target::reach(&args).await?;
    let report = match args.command {
        BenchCommand::Write { tables, rows, batch, clients, mode, order } => {
            let load = write::Load { tables, rows, batch, clients, mode, order };
            write::run(&mut target, load).await?
        }
        BenchCommand::Consume { kind, consumers, rows, batch } => {
            consume::run(&target, kind, consumers, rows, batch).await?
        }
        BenchCommand::Latency { rate, seconds, kind } => latency::run(&target, rate, seconds, kind).await?,
        BenchCommand::Query { tables, rows } => query::run(&target, tables, rows).await?,
    };
    report.print(args.output == "json")
}
