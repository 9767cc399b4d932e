//! The command line: what each command takes, and how it ends.
//!
//! Results go to stdout, everything else to stderr. Exit status 0 is success, 1 a failed job, 2 wrong use.

mod common;
mod import;
mod output;
mod replicate;
mod serve_args;
mod sql;
mod subscribe;
mod verify;
mod wal;

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};
use model::Error;

pub use common::ConnectArgs;
pub use import::ImportArgs;
pub use output::Format;
pub use replicate::ReplicateArgs;
pub use serve_args::{
    BenchArgs, BenchCommand, DemoArgs, Role, ServeArgs, TopicKindArg, WriteMode, WriteOrder,
};
pub use sql::SqlArgs;
pub use subscribe::SubscribeArgs;
pub use verify::VerifyArgs;
pub use wal::WalArgs;

/// A time-series database whose write-ahead log is also its message queue.
#[derive(Debug, Parser)]
#[command(name = "tidemark", version, disable_help_flag = true, disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(
    after_help = "New here? `tidemark demo` tells the whole story in a minute; `tidemark serve` starts a server,\n\
                        `tidemark sql` talks to it. Exit status: 0 success, 1 a failed job, 2 wrong use."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print help
    #[arg(long, global = true, action = ArgAction::Help, display_order = 1000)]
    help: Option<bool>,
    /// Tell the causes of an error too, and log more
    #[arg(short, long, global = true, display_order = 1001)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a server
    #[command(disable_help_flag = true)]
    Serve(ServeArgs),
    /// Run SQL, interactively or from a script
    #[command(disable_help_flag = true)]
    Sql(SqlArgs),
    /// Read a topic and print rows as they arrive
    #[command(disable_help_flag = true)]
    Subscribe(SubscribeArgs),
    /// Build a database again on another server from a topic, and keep it equal
    #[command(disable_help_flag = true)]
    Replicate(ReplicateArgs),
    /// Load a CSV file
    #[command(disable_help_flag = true)]
    Import(ImportArgs),
    /// See the whole story: writes, queries, topics, consumer groups, a crash and a replay
    #[command(disable_help_flag = true)]
    Demo(DemoArgs),
    /// Measure a server
    #[command(disable_help_flag = true)]
    Bench(BenchArgs),
    /// Look into log segments
    #[command(disable_help_flag = true)]
    Wal(WalArgs),
    /// Check everything below a data directory against its checksums: logs and data files
    #[command(disable_help_flag = true)]
    Verify(VerifyArgs),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Wrong use is 2, help is 0; if that cannot be printed there is nobody to tell.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match cli.command {
        // Says by itself what it logs.
        Command::Serve(_) => {}
        // Kills servers on purpose: that their clients notice is no news.
        Command::Demo(_) => common::log_to_stderr(if cli.verbose { "info" } else { "error" }),
        // These tell it by themselves.
        Command::Subscribe(_) | Command::Sql(_) if !cli.verbose => {
            common::log_to_stderr("warn,client::offline=off,client::connection=off");
        }
        _ => common::log_to_stderr(if cli.verbose { "info" } else { "warn" }),
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(crate::STACK_BYTES)
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(cli.command)),
        Err(error) => Err(Error::internal("cannot start the runtime").caused_by(error)),
    };
    match done {
        Ok(code) => code,
        Err(error) if common::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            common::print_error(&error, cli.verbose);
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> model::Result<ExitCode> {
    match command {
        Command::Serve(args) => crate::server::serve::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Sql(args) => sql::run(args).await,
        Command::Subscribe(args) => subscribe::run(args).await,
        Command::Replicate(args) => replicate::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Import(args) => import::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => crate::demo::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Bench(args) => crate::bench::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Wal(args) => wal::run(&args),
        Command::Verify(args) => verify::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn h_is_the_host_and_help_is_help_everywhere() {
        let cli = parse("tidemark sql -h db:7000 -u ann -p secret -d power").unwrap();
        let Command::Sql(args) = cli.command else { panic!("not sql") };
        assert_eq!((args.connect.host.as_str(), args.connect.user.as_str()), ("db:7000", "ann"));
        for command in [
            "",
            "serve",
            "sql",
            "subscribe",
            "import",
            "replicate",
            "demo",
            "bench",
            "bench write",
            "bench consume",
            "bench latency",
            "bench query",
            "wal",
            "wal verify",
            "wal dump",
            "wal repair",
            "verify",
        ] {
            let error = parse(&format!("tidemark {command} --help")).unwrap_err();
            assert_eq!(error.exit_code(), 0, "{command}: {error}");
            let text = error.to_string();
            assert!(text.contains("Usage: tidemark"), "{command}: {text}");
            let long = text.lines().find(|line| line.chars().count() > 120);
            assert_eq!(long, None, "{command}: too wide for a terminal");
        }
    }

    #[test]
    fn every_documented_option_is_taken() {
        for line in [
            "serve --data-dir d --grpc 127.0.0.1:0 --http 127.0.0.1:0 --config f --insecure --print-config",
            "serve --roles all",
            "sql -s select -o csv --continue --tz +08:00",
            "sql -f file -o vertical -v",
            "subscribe t -g g --from none --replay --limit 3 --timeout 5s -o json --commit end --with-meta",
            "subscribe t -g g --set session.timeout.ms=6000 --set client.id=x --no-reconnect",
            "import f --into db.t --ts ts --tags a,b --name h_{a} --null NA --tz UTC --on-error skip",
            "replicate --from a:1 --to b:1 --topic t --group g --into d --start latest --until-end -u x -p y",
            "replicate --from a --to b --topic t --to-user x --to-password y --accept-loss",
            "demo",
            "bench write --tables 10 --rows 10 --batch 5 --clients 2 --mode sql --order time -o json",
            "bench consume --kind stable --consumers 3 --embedded",
            "bench latency --rate 1000 --seconds 5 --kind query -h x:1",
            "bench query",
            "wal verify p",
            "wal dump p",
            "wal repair p",
            "verify p",
        ] {
            parse(&format!("tidemark {line}")).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }

    #[test]
    fn wrong_use_is_told() {
        for line in [
            "serve --roles foo",
            "serve --roles all,foo",
            "sql -s a -f b",
            "sql -o xml",
            "subscribe t",
            "subscribe t -g g --from first",
            "subscribe t -g g --timeout soon",
            "subscribe t -g g --set nonsense",
            "replicate --from a --to b",
            "replicate --from a --to b --topic t --start none",
            "import f --into nodot",
            "import f --into db.t --name x",
            "import f --into db.t --tz Mars/Olympus",
            "wal",
            "nonsense",
        ] {
            let error =
                parse(&format!("tidemark {line}")).err().unwrap_or_else(|| panic!("{line} was taken"));
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
