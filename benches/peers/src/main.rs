//! End-to-end figures of Tidemark, each beside a peer or the machine's limit, measured in turns in the same run.
//!
//! Layout: [`workload`] holds a file for each row of the table, [`peer`] one for each thing that is started and measured;
//! [`load`] is what is written, [`process`] the servers' processes, [`figures`] medians and the table.
//!
//! It is *not* for: figures of single functions, which are beside their crates, and `tidemark bench`, which needs no peer.

mod error;
mod figures;
mod load;
mod peer;
mod process;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, Result};
use crate::figures::{note, print_head, print_line};
use crate::workload::{Bench, acked, filter, idle, join, latency, publish, rebalance, stream};

/// Figures of Tidemark beside its peers, as rows of a Markdown table.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Tidemark's release binary.
    #[arg(long, global = true, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/tidemark"))]
    tidemark: PathBuf,
    /// Turns of each peer; medians are taken over them.
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Share of the full amounts, in percent: little of it shows that everything works.
    #[arg(long, global = true, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    percent: u64,
    /// Vgroups of the database, where a row does not say its own.
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    vgroups: u32,
    #[command(subcommand)]
    row: Row,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Row {
    /// A backlog of large writes, against a bare tonic stream.
    Stream,
    /// A backlog of small writes, each poll committed, against NATS' acknowledged messages.
    Acked,
    /// A query topic that keeps little, against the same log read whole.
    Filter,
    /// Acknowledged small writes, 2,000 in flight, against NATS.
    Publish,
    /// Write to delivery, against a bare round trip and NATS.
    Latency,
    /// 1,000 consumers that wait.
    Idle,
    /// The rebalance of a large group.
    Rebalance,
    /// Join to first message.
    Join,
    /// Every row.
    All,
    /// The bare gRPC server, as a process of its own.
    #[command(hide = true, name = peer::reference::SERVE)]
    ServeReference,
}

const ALL: [Row; 8] =
    [Row::Stream, Row::Acked, Row::Filter, Row::Publish, Row::Latency, Row::Idle, Row::Rebalance, Row::Join];

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    // Whichever ends first: what was started is dropped with the future, and so ended.
    let done = tokio::select! {
        done = run(args) => done,
        why = interrupted() => Err(why),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    let Args { tidemark, rounds, percent, vgroups, row } = args;
    let bench = Bench { tidemark, rounds, percent, vgroups };
    match row {
        Row::ServeReference => peer::reference::serve().await,
        Row::All => {
            print_head()?;
            for row in ALL {
                measure(row, &bench).await?;
            }
            Ok(())
        }
        row => {
            print_head()?;
            measure(row, &bench).await
        }
    }
}

async fn measure(row: Row, bench: &Bench) -> Result<()> {
    note(&format!("{row:?}"));
    let lines = match row {
        Row::Stream => vec![stream::run(bench).await?],
        Row::Acked => acked::run(bench).await?,
        Row::Filter => vec![filter::run(bench).await?],
        Row::Publish => vec![publish::run(bench).await?],
        Row::Latency => latency::run(bench).await?,
        Row::Idle => vec![idle::run(bench).await?],
        Row::Rebalance => vec![rebalance::run(bench)?],
        Row::Join => vec![join::run(bench).await?],
        Row::All | Row::ServeReference => Vec::new(),
    };
    lines.iter().try_for_each(print_line)
}

/// Answers when somebody wants it to stop.
async fn interrupted() -> Error {
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    match (interrupt, terminate) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            Error::Odd("interrupted".into())
        }
        (Err(source), _) | (_, Err(source)) => Error::Io { what: "cannot listen for signals".into(), source },
    }
}
