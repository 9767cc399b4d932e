//! `tidemark subscribe`: rows of a topic as they arrive.

mod print;
pub(super) mod statement;

use std::io;
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::{AutoOffsetReset, ConsumerConfig};
use model::{Result, Zone};

use super::common::{ConnectArgs, Signals, note, output_failed, parse_duration, parse_zone};
use print::{RowFormat, RowPrinter};

/// Where a group without a committed offset starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// At the oldest row that the log still has
    Earliest,
    /// With what is written from now on
    Latest,
    /// Nowhere: fail if the group has no committed offset
    None,
}

/// When offsets are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Commit {
    /// Every few seconds, and at the end
    Auto,
    /// Once, at the end
    End,
    /// Not at all
    Never,
}

/// `tidemark subscribe`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends at --limit, at --timeout, or with Ctrl-C, after a commit unless --commit never. Messages are \
                        committed whole: what the last one holds beyond --limit is not shown to the group again.\n\n\
                        tidemark subscribe alarms -g mail --from earliest --limit 10\n\
                        tidemark subscribe alarms -g look --commit never -o table"
)]
pub struct SubscribeArgs {
    /// Topic, as CREATE TOPIC named it
    #[arg(value_name = "TOPIC")]
    pub topic: String,
    /// Consumer group: its members share the topic's vgroups and the committed offsets
    #[arg(short = 'g', long = "group", value_name = "GROUP")]
    pub group: String,
    /// Where a group without a committed offset starts
    #[arg(long, value_enum, default_value_t = From::Latest)]
    pub from: From,
    /// Show rows with the gaps of the original writes (query topics)
    #[arg(long)]
    pub replay: bool,
    /// End after this many rows
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// End when nothing came for this long, such as 10s
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How rows are printed
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    pub output: RowFormat,
    /// When the group's offsets are committed
    #[arg(long, value_enum, default_value_t = Commit::Auto)]
    pub commit: Commit,
    /// Show events of tables too (topics WITH META or ONLY META)
    #[arg(long)]
    pub with_meta: bool,
    /// Any consumer parameter, such as session.timeout.ms=6000; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_parameter)]
    pub parameters: Vec<(String, String)>,
    /// End with the error when the connection breaks
    #[arg(long)]
    pub no_reconnect: bool,
    /// Zone of the times shown
    #[arg(long = "tz", value_name = "ZONE", value_parser = parse_zone, default_value = "UTC")]
    pub zone: String,
    /// Server and user
    #[command(flatten)]
    pub connect: ConnectArgs,
}

fn parse_parameter(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl SubscribeArgs {
    fn config(&self) -> Result<ConsumerConfig> {
        let mut config = ConsumerConfig::new("");
        config.connect = self.connect.options();
        config.set("group.id", &self.group)?;
        config.auto_offset_reset = match self.from {
            From::Earliest => AutoOffsetReset::Earliest,
            From::Latest => AutoOffsetReset::Latest,
            From::None => AutoOffsetReset::None,
        };
        config.enable_auto_commit = self.commit == Commit::Auto;
        config.enable_replay = self.replay;
        config.reconnect = !self.no_reconnect;
        // Messages no larger than what shall be shown, where the log allows.
        let limit = self.limit.and_then(|limit| u32::try_from(limit).ok());
        config.min_poll_rows = limit.map_or(config.min_poll_rows, |limit| limit.min(config.min_poll_rows));
        for (key, value) in &self.parameters {
            config.set(key, value)?;
        }
        Ok(config)
    }
}

/// A waiting poll comes back this often, so that automatic commits happen while nothing arrives.
const POLL: Duration = Duration::from_secs(1);

/// Runs it.
pub(super) async fn run(args: SubscribeArgs) -> Result<()> {
    let zone = Zone::parse(&args.zone).unwrap_or_default();
    let mut signals = Signals::new()?;
    let consumer = client::Consumer::new(args.config()?).await?;
    let mut printer = RowPrinter::new(io::stdout().lock(), args.output, zone);
    tokio::select! {
        subscribed = consumer.subscribe([args.topic.as_str()]) => subscribed?,
        () = signals.next() => return consumer.close().await,
    }
    let shown = tokio::select! {
        shown = show(&args, &consumer, &mut printer) => shown,
        () = signals.next() => Ok(()),
    };
    if shown.is_ok() && args.commit == Commit::End {
        consumer.commit_all_sync().await?;
    }
    let closed = consumer.close().await;
    shown.and(closed)
}

/// Prints messages until the limit or the idle time is reached.
async fn show(
    args: &SubscribeArgs,
    consumer: &client::Consumer,
    printer: &mut RowPrinter<impl io::Write>,
) -> Result<()> {
    let mut left = args.limit;
    let mut idle = Duration::ZERO;
    loop {
        let wait = args.timeout.map_or(POLL, |timeout| POLL.min(timeout.saturating_sub(idle)));
        let Some(message) = consumer.poll(wait).await? else {
            idle += wait;
            if args.timeout.is_some_and(|timeout| idle >= timeout) {
                return Ok(());
            }
            continue;
        };
        idle = Duration::ZERO;
        if let Some(gap) = message.skipped() {
            note(&format!(
                "the log no longer has versions {} to {} of vgroup {}: this group was too slow for the retention",
                gap.from,
                gap.to - 1,
                message.vgroup()
            ));
        }
        printer.message(&message, args.with_meta, &mut left).map_err(output_failed)?;
        if left == Some(0) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use model::{Code, Error};

    use super::*;

    #[derive(Parser)]
    #[command(disable_help_flag = true)]
    struct Only {
        #[command(flatten)]
        args: SubscribeArgs,
    }

    fn args(line: &str) -> SubscribeArgs {
        Only::try_parse_from(line.split_whitespace()).unwrap().args
    }

    #[test]
    fn options_become_the_consumers_parameters() {
        let config = args("s t -g g").config().unwrap();
        assert_eq!(config.auto_offset_reset, AutoOffsetReset::Latest);
        assert!(config.enable_auto_commit && config.reconnect && !config.enable_replay);
        let config =
            args("s t -g g --from none --commit end --no-reconnect --set min.poll.rows=7 --set CLIENT.ID=x")
                .config()
                .unwrap();
        assert_eq!(config.auto_offset_reset, AutoOffsetReset::None);
        assert!(!config.enable_auto_commit && !config.reconnect);
        assert_eq!((config.min_poll_rows, config.client_id.as_str()), (7, "x"));
    }

    #[test]
    fn wrong_parameters_are_told() {
        let error = args("s t -g g --set session.timeout.ms=1").config().unwrap_err();
        assert_eq!(error.code(), Code::SubscribeOptionInvalid);
        assert!(error.message().contains("6000 to 1800000"), "{error}");
        let error: Error = args("s t -g a:b").config().unwrap_err();
        assert!(error.message().contains("group.id"), "{error}");
    }
}
