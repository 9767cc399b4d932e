//! What all commands share: connecting, errors, signals, durations.

use std::error::Error as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use clap::Args;
use client::{ConnectOptions, Connection};
use futures::FutureExt as _;
use model::{Code, DurationLiteral, Error, Result, Zone};
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Where the server is and as whom to log in.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// Server
    #[arg(short = 'h', long = "host", env = "TIDEMARK_HOST", value_name = "HOST:PORT", global = true)]
    #[arg(default_value = "127.0.0.1:6030", hide_env_values = true)]
    pub host: String,
    /// User
    #[arg(short = 'u', long = "user", env = "TIDEMARK_USER", value_name = "USER", global = true)]
    #[arg(default_value = "root", hide_env_values = true)]
    pub user: String,
    /// Password [default: the one that a new server has]
    #[arg(short = 'p', long = "password", env = "TIDEMARK_PASSWORD", value_name = "PASS", global = true)]
    #[arg(default_value = "taosdata", hide_env_values = true, hide_default_value = true)]
    pub password: String,
}

impl ConnectArgs {
    /// The options that these make, with no current database and in UTC.
    #[must_use]
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions {
            host: self.host.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            ..ConnectOptions::default()
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// Those of [`Connection::connect`].
    pub async fn connect(&self, database: &str, zone: &str) -> Result<Connection> {
        let options =
            ConnectOptions { database: database.to_owned(), zone: zone.to_owned(), ..self.options() };
        Connection::connect(options).await
    }
}

/// Prints an error as one line on stderr, with its causes if asked to.
pub(super) fn print_error(error: &Error, causes: bool) {
    let mut stderr = io::stderr().lock();
    // Without stderr there is nobody to tell.
    let _ = writeln!(stderr, "{}", one_line(&error.to_string()));
    let mut source = error.source().filter(|_| causes);
    while let Some(cause) = source {
        let _ = writeln!(stderr, "  caused by: {}", one_line(&cause.to_string()));
        source = cause.source();
    }
}

/// Says something on stderr.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join(" ")
}

/// An error of writing to stdout.
pub(super) fn output_failed(error: io::Error) -> Error {
    Error::text(Code::Io, format!("cannot write the output: {error}")).caused_by(error)
}

/// Returns once nobody reads our stdout any more, as after `| head`; never where that cannot be told, as of a file.
pub(super) async fn stdout_abandoned() {
    // Unchecked: a check would make the pipe, which is also our stdout, non-blocking. Nothing is written to this end.
    let watched = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked);
    if let Ok(stdout) = watched
        && stdout.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Whether whoever read our stdout has gone, as `head` does: no failure of ours.
pub(super) fn is_broken_pipe(error: &Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Logs of this process go to stderr; `TIDEMARK_LOG` says which.
pub(super) fn log_to_stderr(default: &str) {
    let filter = EnvFilter::try_from_env("TIDEMARK_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // A second subscriber is refused, which is as well.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .without_time()
        .try_init();
}

/// Ctrl-C and SIGTERM.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on neither ends the process by itself.
    pub(super) fn new() -> Result<Self> {
        let open = |kind| signal(kind).map_err(|e| Error::internal("cannot listen to signals").caused_by(e));
        Ok(Self { interrupt: open(SignalKind::interrupt())?, terminate: open(SignalKind::terminate())? })
    }

    /// The next of either.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Whether either has come and was not taken yet; takes it.
    pub(super) fn have_come(&mut self) -> bool {
        self.next().now_or_never().is_some()
    }

    /// A Ctrl-C that came too late for what it was meant to end is not for what comes next.
    pub(super) fn forget_interrupts(&mut self) {
        while self.interrupt.recv().now_or_never().flatten().is_some() {}
    }
}

/// Reads `10s`, `5m`, `500ms` or the dialect's other units of fixed length.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration: write 500ms, 10s, 5m or 1h");
    if let Some(ms) = text.strip_suffix("ms") {
        return ms.parse().map(Duration::from_millis).map_err(|_| wrong());
    }
    let literal = DurationLiteral::parse(text).ok_or_else(wrong)?;
    let ns = literal.unit.fixed_ns().and_then(|unit| unit.checked_mul(literal.count)).ok_or_else(wrong)?;
    u64::try_from(ns).map(Duration::from_nanos).map_err(|_| wrong())
}

/// Reads a zone.
pub(super) fn parse_zone(text: &str) -> Result<String, String> {
    match Zone::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("`{text}` is no zone: write UTC, +08:00 or Europe/Berlin")),
    }
}

/// The zone that this machine is set to, UTC where that cannot be told.
pub(super) fn machine_zone() -> String {
    let variable = std::env::var("TZ").ok().map(|zone| zone.trim_start_matches(':').to_owned());
    let linked = || {
        let link = std::fs::read_link("/etc/localtime").ok()?;
        link.to_str()?.split_once("zoneinfo/").map(|(_, name)| name.to_owned())
    };
    let zone = variable.filter(|zone| !zone.is_empty()).or_else(linked);
    zone.filter(|zone| Zone::parse(zone).is_some()).unwrap_or_else(|| "UTC".to_owned())
}

/// The name in backticks, as SQL takes any.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The text as a string of SQL.
pub(super) fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7_200)));
        for bad in ["", "10", "s", "1n", "-1s", "1.5s", "ms"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_broken_pipe_is_no_failure() {
        let pipe = output_failed(io::ErrorKind::BrokenPipe.into());
        assert!(is_broken_pipe(&pipe) && !is_broken_pipe(&output_failed(io::ErrorKind::StorageFull.into())));
    }

    #[test]
    fn names_are_quoted_so_that_any_is_taken() {
        assert_eq!(quoted("a`b c"), "`a``b c`");
    }
}
