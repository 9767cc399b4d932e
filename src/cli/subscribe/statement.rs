//! The shell's `subscribe topic -g group [options];`, with the texts that TDengine's shell has.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Parser as _, ValueEnum as _};
use client::{Consumer, ConsumerConfig, Message};
use model::{Error, Result, Zone};

use super::SubscribeArgs;
use super::print::{RowFormat, RowPrinter};
use super::standing::Standing;
use crate::cli::common::{ConnectArgs, Signals, note, output_failed, stdout_abandoned};

const USAGE: &str = "\
Usage: subscribe <topic> -g <group_id> [options];

  -g <group_id>   consumer group (required)
  -c <client_id>  client id, shown by SHOW CONSUMERS
  -o <offset>     earliest or latest, for a group without committed offset (default: latest)
  -n <rows>       stop after that many rows (default: 0, unlimited); what the last message
                  holds beyond them is committed with it and not shown to the group again
  -t <ms>         how long one poll waits (default: 1000)
  -h              this page

The long options of the command `tidemark subscribe` are taken too (--from, --limit, --timeout, --commit, --set, ...),
and -o json, -o csv or -o table; then rows are printed as that command prints them.

Press Ctrl+C to stop subscribing.";

/// What may be instead of an option that there is not.
const OPTIONS: &str = "`-g`, `-c`, `-o earliest|latest`, `-n` and `-t`";
/// Options of the command that say where the server is: a statement runs where its shell is.
const CONNECTION: &[&str] = &["-u", "-p", "--host", "--user", "--password"];
const NAME_BYTES_MAX: usize = 191;
const POLL_MS: u64 = 1_000;

/// What a subscribe statement asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    topic: String,
    group: String,
    client: String,
    offset: String,
    rows: Option<u64>,
    poll_ms: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Usage,
    /// Text of what is wrong.
    Wrong(String),
    Run(Wanted),
    /// The words as the command takes them.
    Command(Vec<String>),
}

/// The command's arguments in a statement.
#[derive(Debug, clap::Parser)]
#[command(name = "subscribe", disable_help_flag = true, disable_version_flag = true)]
struct Line {
    #[command(flatten)]
    args: SubscribeArgs,
}

/// The words of a subscribe statement, quotes and backticks taken off; `None` for any other statement.
pub(in crate::cli) fn words(statement: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut begun) = (None, false);
    for c in statement.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if matches!(c, '\'' | '"' | '`') => (quote, begun) = (Some(c), true),
            None if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            None => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words.first().is_some_and(|first| first.eq_ignore_ascii_case("subscribe")).then(|| words.split_off(1))
}

/// The statement's words as those of the command, where it has an option that only the command knows: a long one, or
/// `-o` with a format.
fn as_command(words: &[String]) -> Option<Vec<String>> {
    let is_format = |word: &str| RowFormat::from_str(word, false).is_ok();
    let is_long = words.iter().any(|word| word.starts_with("--"));
    if !is_long && !words.windows(2).any(|pair| matches!(pair, [o, value] if o == "-o" && is_format(value))) {
        return None;
    }
    let mut command = vec!["subscribe".to_owned()];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().unwrap_or_default();
        match word.as_str() {
            "-o" => {
                let value = value();
                let option = if is_format(&value) { "--output" } else { "--from" };
                command.extend([option.to_owned(), value]);
            }
            "-n" => match value() {
                unlimited if unlimited == "0" => {}
                rows => command.extend(["--limit".to_owned(), rows]),
            },
            "-c" => command.extend(["--set".to_owned(), format!("client.id={}", value())]),
            _ => command.push(word.clone()),
        }
    }
    Some(command)
}

/// Reads the options.
fn parse(words: &[String]) -> Parsed {
    if words.iter().any(|word| word == "-h" || word == "--help") {
        return Parsed::Usage;
    }
    if let Some(option) = words.iter().find(|word| CONNECTION.contains(&word.as_str())) {
        return Parsed::Wrong(unknown(option));
    }
    if let Some(command) = as_command(words) {
        return Parsed::Command(command);
    }
    let mut wanted = Wanted {
        topic: String::new(),
        group: String::new(),
        client: String::new(),
        offset: "latest".into(),
        rows: None,
        poll_ms: POLL_MS,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().unwrap_or_default();
        match word.as_str() {
            "-g" => wanted.group = cut(value()),
            "-c" => wanted.client = cut(value()),
            "-o" => wanted.offset = value(),
            "-n" => wanted.rows = value().parse().ok().filter(|rows| *rows > 0),
            "-t" => wanted.poll_ms = value().parse().ok().filter(|ms| *ms > 0).unwrap_or(POLL_MS),
            topic if wanted.topic.is_empty() && !topic.starts_with('-') => wanted.topic = topic.to_owned(),
            // TDengine's shell warns, swallows the next word and goes on with other rows than were asked for.
            other => return Parsed::Wrong(unknown(other)),
        }
    }
    if wanted.topic.is_empty() {
        return Parsed::Usage;
    }
    if wanted.group.is_empty() {
        return Parsed::Wrong("Error: group_id is required. Use -g <group_id>.".into());
    }
    Parsed::Run(wanted)
}

fn unknown(option: &str) -> String {
    format!(
        "Error: unknown option '{option}': the statement takes {OPTIONS}, and the long ones of `tidemark subscribe` that \
         do not say where the server is."
    )
}

fn cut(mut text: String) -> String {
    while text.len() > NAME_BYTES_MAX {
        text.pop();
    }
    text
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Ended {
    /// Well.
    Done,
    /// With a fault that has been told.
    Faulty,
}

/// Says what went wrong in the words of TDengine's shell, with our code and cure.
fn fault(what: &str, error: &Error) -> Ended {
    let text = error.to_string();
    let text = text.split_once("]: ").map_or(text.as_str(), |(_, text)| text);
    note(&format!("Error: {what}: {text} [{:#06x}]", error.code().number()));
    Ended::Faulty
}

/// Runs the statement: rows and the talk around them go to `out`; warnings and faults to stderr, in the words that
/// TDengine's shell has for them.
pub(in crate::cli) async fn run(
    words: &[String],
    connect: &ConnectArgs,
    zone: Zone,
    out: &mut impl Write,
    signals: &mut Signals,
) -> Result<Ended> {
    let mut say = |text: &str| writeln!(out, "{text}").and_then(|()| out.flush()).map_err(output_failed);
    let wanted = match parse(words) {
        Parsed::Usage => return say(USAGE).map(|()| Ended::Done),
        Parsed::Wrong(text) => {
            note(&text);
            return Ok(Ended::Faulty);
        }
        Parsed::Command(words) => return run_command(&words, connect, zone, out, signals).await,
        Parsed::Run(wanted) => wanted,
    };
    let mut config = ConsumerConfig::new("");
    config.connect = connect.options();
    if let Err(error) = config.set("auto.offset.reset", &wanted.offset) {
        return Ok(fault(&format!("failed to set auto.offset.reset to '{}'", wanted.offset), &error.into()));
    }
    let made =
        match config.set("group.id", &wanted.group).and_then(|()| config.set("client.id", &wanted.client)) {
            Ok(()) => Consumer::new(config).await,
            Err(error) => Err(error.into()),
        };
    let consumer = match made {
        Ok(consumer) => consumer,
        Err(error) => return Ok(fault("failed to create consumer", &error)),
    };
    let Wanted { topic, group, offset, .. } = &wanted;
    say(&format!(
        "Subscribing to topic [{topic}], group [{group}], offset [{offset}] ...\nPress Ctrl+C to stop.\n"
    ))?;
    let subscribed = tokio::select! {
        subscribed = consumer.subscribe([topic.as_str()]) => subscribed,
        () = signals.next() => return consumer.close().await.map(|()| Ended::Done),
    };
    if let Err(error) = subscribed {
        return Ok(fault("failed to subscribe", &error));
    }
    let mut total = 0;
    let mut standing = Standing::default();
    let shown = tokio::select! {
        shown = show(&wanted, &consumer, zone, out, &mut total, &mut standing) => shown,
        () = signals.next() => Ok(()),
        () = stdout_abandoned() => Ok(()),
    };
    standing.tell(&consumer);
    // However the output is, the group is left in order.
    let said = writeln!(out, "\nUnsubscribed. Total rows received: {total}").and_then(|()| out.flush());
    let closed = consumer.close().await;
    shown.and(said.map_err(output_failed)).and(closed)?;
    Ok(if standing.misses() { Ended::Faulty } else { Ended::Done })
}

/// Runs a statement that is written as the command is.
async fn run_command(
    words: &[String],
    connect: &ConnectArgs,
    zone: Zone,
    out: &mut impl Write,
    signals: &mut Signals,
) -> Result<Ended> {
    let mut args = match Line::try_parse_from(words) {
        Ok(line) => line.args,
        Err(error) => {
            // Behind the first paragraph stands how to call the command.
            let text = error.to_string();
            let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
            let text = lines.collect::<Vec<_>>().join(" ");
            note(&format!("Error: {}", text.trim_start_matches("error: ")));
            return Ok(Ended::Faulty);
        }
    };
    args.connect = connect.clone();
    let zone = match words.iter().any(|word| word.starts_with("--tz")) {
        true => Zone::parse(&args.zone).unwrap_or(zone),
        false => zone,
    };
    let mut standing = Standing::default();
    super::consume(&args, args.config()?, zone, out, signals, &mut standing).await?;
    Ok(if standing.misses() { Ended::Faulty } else { Ended::Done })
}

async fn show(
    wanted: &Wanted,
    consumer: &Consumer,
    zone: Zone,
    out: &mut impl Write,
    total: &mut u64,
    standing: &mut Standing,
) -> Result<()> {
    let mut printer = RowPrinter::new(out, RowFormat::Table, zone);
    let mut left = wanted.rows;
    loop {
        standing.tell(consumer);
        let Some(message) = consumer.poll(Duration::from_millis(wanted.poll_ms)).await? else { continue };
        super::tell_gap(&message);
        let before = *total;
        if let Err(error) = print(&mut printer, &message, &mut left, total).map_err(output_failed) {
            super::hand_back(consumer, &message);
            return Err(error);
        }
        if left == Some(0) {
            if let Some(text) = not_shown(&message, *total - before) {
                note(&text);
            }
            return Ok(());
        }
    }
}

/// What `-n` cuts off counts as delivered, as in TDengine's shell.
fn not_shown(message: &Message, shown: u64) -> Option<String> {
    let rows = u64::try_from(message.rows_len()).unwrap_or(u64::MAX);
    let rest = rows.checked_sub(shown).filter(|rest| *rest > 0)?;
    Some(format!(
        "Warning: -n ends within a message: {rest} more rows of it are committed and not shown to this group again; \
         --limit leaves them to it."
    ))
}

fn print(
    printer: &mut RowPrinter<impl Write>,
    message: &Message,
    left: &mut Option<u64>,
    total: &mut u64,
) -> io::Result<()> {
    let before = *left;
    printer.message(message, true, left)?;
    let rows = u64::try_from(message.rows_len()).unwrap_or(u64::MAX);
    *total += before.zip(*left).map_or(rows, |(before, after)| before - after);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(statement: &str) -> Parsed {
        parse(&words(statement).unwrap())
    }

    #[test]
    fn only_subscribe_is_ours() {
        assert_eq!(words("select 1"), None);
        assert_eq!(words("subscriber x"), None);
        assert_eq!(words("SUBSCRIBE `My Topic` -g ''").unwrap(), ["My Topic", "-g", ""]);
    }

    #[test]
    fn options_are_read() {
        let parsed = read("subscribe t -g g -c me -o earliest -n 8 -t 50");
        let Parsed::Run(wanted) = parsed else { panic!("{parsed:?}") };
        assert_eq!((wanted.topic.as_str(), wanted.group.as_str(), wanted.client.as_str()), ("t", "g", "me"));
        assert_eq!((wanted.offset.as_str(), wanted.rows, wanted.poll_ms), ("earliest", Some(8), 50));
        let Parsed::Run(defaults) = read("subscribe t -g g -n 0 -t -5") else { panic!("not run") };
        assert_eq!((defaults.offset.as_str(), defaults.rows, defaults.poll_ms), ("latest", None, 1_000));
    }

    #[test]
    fn what_is_missing_is_told_as_tdengines_shell_does() {
        assert_eq!(read("subscribe"), Parsed::Usage);
        assert_eq!(read("subscribe t -g g -h"), Parsed::Usage);
        let wrong = Parsed::Wrong("Error: group_id is required. Use -g <group_id>.".into());
        assert_eq!(read("subscribe t"), wrong);
        assert!(USAGE.starts_with("Usage: subscribe <topic> -g <group_id> [options];"));
        assert!(USAGE.ends_with("Press Ctrl+C to stop subscribing."));
    }

    #[test]
    fn an_unknown_option_is_no_subscription() {
        for (statement, option) in [
            ("subscribe t -x 5 -g g", "-x"),
            ("subscribe t -g g earliest", "earliest"),
            ("subscribe t -g g -f earliest", "-f"),
        ] {
            let Parsed::Wrong(text) = read(statement) else { panic!("{statement} was taken") };
            let start = format!("Error: unknown option '{option}': ");
            assert!(
                text.starts_with(&start) && text.contains("`-o earliest|latest`, `-n` and `-t`"),
                "{text}"
            );
        }
        let Parsed::Wrong(text) = read("subscribe t -g g --host x:1") else { panic!("another server") };
        assert!(text.contains("'--host'") && text.contains("`tidemark subscribe`"), "{text}");
    }

    #[test]
    fn the_commands_options_are_taken_too() {
        let args = |statement: &str| {
            let Parsed::Command(words) = read(statement) else { panic!("{statement}: not as the command") };
            Line::try_parse_from(words).map(|line| line.args)
        };
        let taken =
            args("subscribe t -g g -o csv -n 3 -c me --timeout 5s --commit end --set min.poll.rows=7");
        let taken = taken.unwrap();
        assert_eq!((taken.topic.as_str(), taken.group.as_str()), ("t", "g"));
        assert_eq!((taken.output, taken.limit), (RowFormat::Csv, Some(3)));
        let config = taken.config().unwrap();
        assert_eq!((config.client_id.as_str(), config.min_poll_rows), ("me", 7));
        let taken = args("subscribe t -g g -o earliest --limit 1 -n 0").unwrap();
        assert_eq!((taken.from, taken.limit), (Some(super::super::From::Earliest), Some(1)));
        for wrong in ["subscribe t --limit 1", "subscribe t -g g --limt 1", "subscribe t -g g --from 5"] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
    }
}
