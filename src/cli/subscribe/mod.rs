//! `tidemark subscribe`: rows of a topic as they arrive.

mod offline;
mod print;
mod standing;
pub(super) mod statement;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::{AutoOffsetReset, Consumer, ConsumerConfig, Message};
use model::{Code, Error, Result, Zone};

use super::common::{
    ConnectArgs, Signals, is_broken_pipe, note, output_failed, parse_duration, parse_zone, print_error,
    stdout_abandoned,
};
use print::{Gap, RowFormat, RowPrinter};
use standing::Standing;

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
    after_help = "Ends at --limit, at --timeout, with Ctrl-C or SIGTERM, or once nobody reads its output; then commits,\n\
                        unless --commit never or --replay says otherwise, and leaves the group. Only messages that were\n\
                        printed whole are committed: where --limit cuts one, the group gets all of it again, so take a\n\
                        limit no smaller than the rows of a write. Of a vgroup that is off-line or whose log is damaged\n\
                        nothing comes while the others go on: a note says so, and the exit status is 1 if it has not\n\
                        come back. Notes on stderr tell of rebalances and broken connections, too.\n\n\
                        JSON: {\"topic\":..,\"vgroup\":..,\"version\":..,\"row\":{..}}. The version is the position of the\n\
                        log record that holds the row: rows of one write to one vgroup share it, and it grows within a\n\
                        vgroup. Where the log no longer holds what comes next, a line\n\
                        {..,\"skipped\":{\"from\":6,\"to\":10}} tells which records are gone, both ends included.\n\n\
                        tidemark subscribe alarms -g mail --from earliest --limit 10\n\
                        tidemark subscribe alarms -g look --commit never -o table\n\
                        tidemark subscribe alarms -g mail --seek 2:106\n\
                        tidemark subscribe alarms -g film --replay --from earliest --timeout 5s"
)]
pub struct SubscribeArgs {
    /// Topic, as CREATE TOPIC named it
    #[arg(value_name = "TOPIC")]
    pub topic: String,
    /// Consumer group: its members share the topic's vgroups and the committed offsets
    #[arg(short = 'g', long = "group", value_name = "GROUP")]
    pub group: String,
    /// Where a group without a committed offset starts [default: latest]
    #[arg(long, value_enum)]
    pub from: Option<From>,
    /// Begin a vgroup at this version, whatever is committed; may be given several times
    #[arg(long = "seek", value_name = "VGROUP:VERSION", value_parser = parse_seek)]
    pub seeks: Vec<Seek>,
    /// Show rows with the pauses of the original writes (query topics); never commits
    #[arg(long)]
    pub replay: bool,
    /// End after this many rows
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// End when nothing came for this long, such as 10s; pauses of --replay do not count
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// How rows are printed
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    pub output: RowFormat,
    /// When the group's offsets are committed [default: auto; with --replay: never]
    #[arg(long, value_enum)]
    pub commit: Option<Commit>,
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

/// Where to begin a vgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    vgroup: u32,
    version: i64,
}

fn parse_seek(text: &str) -> Result<Seek, String> {
    let parts = text.split_once(':').and_then(|(vgroup, version)| {
        Some(Seek { vgroup: vgroup.parse().ok()?, version: version.parse().ok().filter(|v| *v >= 0)? })
    });
    parts.ok_or_else(|| format!("`{text}` is not VGROUP:VERSION, such as 2:106"))
}

fn parse_parameter(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl SubscribeArgs {
    fn config(&self) -> Result<ConsumerConfig> {
        let mut config = ConsumerConfig::new("");
        config.connect = self.connect.options();
        for (option, value) in [("TOPIC", &self.topic), ("-g (--group)", &self.group)] {
            if value.trim().is_empty() {
                return Err(Error::text(Code::InvalidParameters, format!("{option} is empty"))
                    .hint(format!("give {option} a name")));
            }
        }
        config.set("group.id", &self.group)?;
        config.auto_offset_reset = self.from.unwrap_or(From::Latest).policy();
        config.enable_auto_commit = self.commit.unwrap_or(Commit::Auto) == Commit::Auto;
        config.enable_replay = self.replay;
        config.reconnect = !self.no_reconnect;
        // Messages no larger than what shall be shown, where the log allows.
        let limit = self.limit.and_then(|limit| u32::try_from(limit).ok());
        config.min_poll_rows = limit.map_or(config.min_poll_rows, |limit| limit.min(config.min_poll_rows));
        for (key, value) in &self.parameters {
            config.set(key, value)?;
        }
        self.check(&config)?;
        Ok(config)
    }

    /// That no `--set` says something else than an option, and no two options contradict each other.
    fn check(&self, config: &ConsumerConfig) -> Result<()> {
        let conflicts = [
            ("-g", "group.id", config.group != self.group),
            (
                "--from",
                "auto.offset.reset",
                self.from.is_some_and(|from| from.policy() != config.auto_offset_reset),
            ),
            (
                "--commit",
                "enable.auto.commit",
                self.commit.is_some_and(|commit| (commit == Commit::Auto) != config.enable_auto_commit),
            ),
            ("--replay", "enable.replay", self.replay != config.enable_replay && self.replay),
        ];
        if let Some((option, key, _)) = conflicts.iter().find(|(_, _, conflict)| *conflict) {
            let text = format!("{option} and --set {key} say different things");
            return Err(Error::text(Code::InvalidParameters, text).hint(format!("leave {key} to {option}")));
        }
        if config.enable_replay && self.commit.is_some_and(|commit| commit != Commit::Never) {
            let text = "a replay never commits, --commit asks for it";
            return Err(Error::text(Code::InvalidParameters, text).hint("leave --commit out"));
        }
        Ok(())
    }
}

impl From {
    const fn policy(self) -> AutoOffsetReset {
        match self {
            Self::Earliest => AutoOffsetReset::Earliest,
            Self::Latest => AutoOffsetReset::Latest,
            Self::None => AutoOffsetReset::None,
        }
    }
}

/// A waiting poll comes back this often, so that automatic commits happen while nothing arrives.
const POLL: Duration = Duration::from_secs(1);

/// Exit status of wrong use.
const WRONG_USE: u8 = 2;

/// Runs it.
pub(super) async fn run(args: SubscribeArgs) -> Result<ExitCode> {
    let config = match args.config() {
        Ok(config) => config,
        Err(error) => {
            print_error(&error, false);
            return Ok(ExitCode::from(WRONG_USE));
        }
    };
    let mut standing = Standing::default();
    let zone = Zone::parse(&args.zone).unwrap_or_default();
    let (mut signals, mut stdout) = (Signals::new()?, io::stdout().lock());
    consume(&args, config, zone, &mut stdout, &mut signals, &mut standing).await?;
    Ok(if standing.misses() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn consume(
    args: &SubscribeArgs,
    config: ConsumerConfig,
    zone: Zone,
    out: &mut impl io::Write,
    signals: &mut Signals,
    standing: &mut Standing,
) -> Result<()> {
    let consumer = Consumer::new(config).await?;
    let mut printer = RowPrinter::new(out, args.output, zone);
    tokio::select! {
        subscribed = consumer.subscribe([args.topic.as_str()]) => subscribed?,
        () = signals.next() => return consumer.close().await,
    }
    let shown = tokio::select! {
        shown = show(args, &consumer, &mut printer, standing) => shown,
        () = signals.next() => Ok(()),
        () = stdout_abandoned() => Ok(()),
    };
    standing.tell(&consumer);
    if shown.is_ok() && args.commit == Some(Commit::End) {
        consumer.commit_all_sync().await?;
    }
    let closed = consumer.close().await;
    shown.and(closed)
}

/// Says which records are gone before a message, if any.
fn tell_gap(message: &Message) {
    if let Some(gap) = Gap::before(message) {
        note(&gap.to_string());
    }
}

/// Leaves a message to the group that was not printed as a whole: no commit passes it from now on.
fn hand_back(consumer: &Consumer, message: &Message) {
    let at = message.skipped().map_or_else(|| message.begin(), |gap| gap.to);
    // Refused where the vgroup is another member's by now, which no commit of ours reaches; or where the log has lost the
    // message meanwhile, so that nobody could get it again.
    let _ = consumer.seek(message.topic(), message.vgroup(), at);
}

async fn seek(args: &SubscribeArgs, consumer: &Consumer) -> Result<()> {
    if args.seeks.is_empty() {
        return Ok(());
    }
    // Seeks are checked against the logs as they are now.
    consumer.assignment(&args.topic).await?;
    args.seeks.iter().try_for_each(|seek| {
        let done = consumer.seek(&args.topic, seek.vgroup, seek.version);
        done.map_err(|error| {
            error.hint("--seek takes a vgroup that this consumer has, and a version that its log holds")
        })
    })
}

/// Prints messages until the limit or the idle time is reached, or nobody reads them.
async fn show(
    args: &SubscribeArgs,
    consumer: &Consumer,
    printer: &mut RowPrinter<impl io::Write>,
    standing: &mut Standing,
) -> Result<()> {
    seek(args, consumer).await?;
    let mut left = args.limit;
    let mut idle = Duration::ZERO;
    loop {
        standing.tell(consumer);
        let wait = args.timeout.map_or(POLL, |timeout| POLL.min(timeout.saturating_sub(idle)));
        let Some(message) = consumer.poll(wait).await? else {
            idle = if consumer.is_reading() { Duration::ZERO } else { idle + wait };
            if args.timeout.is_some_and(|timeout| idle >= timeout) {
                return Ok(());
            }
            continue;
        };
        idle = Duration::ZERO;
        tell_gap(&message);
        let rows = u64::try_from(message.rows_len()).unwrap_or(u64::MAX);
        let cut = left.filter(|left| rows > *left);
        let printed = printer.message(&message, args.with_meta, &mut left).map_err(output_failed);
        if printed.is_err() || cut.is_some() {
            hand_back(consumer, &message);
        }
        match printed {
            Err(error) if is_broken_pipe(&error) => return Ok(()),
            printed => printed?,
        }
        if let Some(shown) = cut {
            note(&format!(
                "--limit shows {shown} of the {rows} rows of the last message: it is not committed"
            ));
        }
        if left == Some(0) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

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
        let no_group = SubscribeArgs { group: " ".into(), ..args("s t -g g") };
        assert_eq!(no_group.config().unwrap_err().message(), "-g (--group) is empty");
        let error: Error = args("s t -g a:b").config().unwrap_err();
        assert!(error.message().contains("group.id"), "{error}");
    }

    #[test]
    fn a_seek_is_a_vgroup_and_a_version() {
        let seeks = args("s t -g g --seek 2:106 --seek 3:0").seeks;
        assert_eq!(seeks, [Seek { vgroup: 2, version: 106 }, Seek { vgroup: 3, version: 0 }]);
        for wrong in ["2", "2:", ":5", "2:-1", "a:b"] {
            assert!(parse_seek(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_option_and_a_parameter_must_not_say_different_things() {
        for line in [
            "s t -g g --set group.id=other",
            "s t -g g --from latest --set auto.offset.reset=earliest",
            "s t -g g --commit auto --set enable.auto.commit=false",
            "s t -g g --replay --set enable.replay=false",
            "s t -g g --replay --commit end",
            "s t -g g --set enable.replay=true --commit auto",
        ] {
            let error = args(line).config().err().unwrap_or_else(|| panic!("{line} was taken"));
            assert_eq!(error.code(), Code::InvalidParameters, "{line}");
        }
        for line in [
            "s t -g g --set group.id=g",
            "s t -g g --set auto.offset.reset=earliest",
            "s t -g g --from earliest --set auto.offset.reset=earliest",
            "s t -g g --replay --commit never",
        ] {
            args(line).config().unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        let config = args("s t -g g --set auto.offset.reset=earliest").config().unwrap();
        assert_eq!(config.auto_offset_reset, AutoOffsetReset::Earliest);
    }
}
