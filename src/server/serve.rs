//! `tidemark serve`.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use model::{Error, Result};
use query::engine::EngineSettings;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::Server;
use super::clock::SystemClock;
use super::config::{Config, Layer, Origin};
use super::engine::QuerySettings;
use super::held_clock::HeldClock;
use crate::cli::ServeArgs;

/// Runs a server until SIGTERM or SIGINT.
///
/// # Errors
/// Why it could not start, or not stop cleanly.
pub async fn run(args: ServeArgs) -> Result<()> {
    let config = load(&args)?;
    let filter = log_filter(&config)?;
    let mut stdout = io::stdout();
    if args.print_config {
        return write!(stdout, "{config}").map_err(Error::internal);
    }
    log_to_stderr(filter)?;
    ignore_file_size_signal();
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::internal)?;
    let memory_bytes = config.query_memory_bytes.value;
    let queries = QuerySettings {
        engine: EngineSettings { memory_bytes, ..EngineSettings::default() },
        result_idle_timeout: Duration::from_millis(config.result_idle_timeout_ms.value),
    };
    let clock = Arc::new(if args.held_clock { SystemClock::held() } else { SystemClock::default() });
    let mut held = if args.held_clock { Some(HeldClock::listen()?) } else { None };
    let Config { data_dir, grpc, insecure, .. } = &config;
    let mut server = Server::start(&data_dir.value, grpc.value, insecure.value, &queries, clock).await?;
    // Scripts wait for this line: from here on statements are answered.
    let ready = writeln!(stdout, "ready grpc={} http=-", server.grpc()).and_then(|()| stdout.flush());
    if let Err(error) = ready {
        tracing::warn!(%error, "nobody reads the ready line");
    }
    tracing::info!(grpc = %server.grpc(), data_dir = %config.data_dir.value.display(), "ready");
    let ended = loop {
        tokio::select! {
            failed = server.failed() => break failed,
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            by = asked(&mut held) => if let Some(held) = &mut held
                && let Err(error) = held.advance(server.engine(), by).await
            {
                break Err(error);
            },
        }
    };
    tracing::info!("stopping");
    ended.and(server.stop().await)
}

/// What the test that holds the clock asks for next.
async fn asked(held: &mut Option<HeldClock>) -> Duration {
    match held {
        Some(held) => held.asked().await,
        None => std::future::pending().await,
    }
}

fn load(args: &ServeArgs) -> Result<Config> {
    let mut layers = Vec::new();
    if let Some(path) = &args.config {
        layers.push((Origin::File, Layer::from_file(path)?));
    }
    layers.push((Origin::Environment, Layer::from_environment(|name| std::env::var(name).ok())?));
    let flags = Layer {
        data_dir: args.data_dir.clone(),
        grpc: args.grpc.clone(),
        http: args.http.clone(),
        insecure: args.insecure.then_some(true),
        query_memory_bytes: args.query_memory_bytes,
        result_idle_timeout_ms: args.result_idle_timeout_ms,
        log: None,
    };
    layers.push((Origin::Flag, flags));
    Config::merge(layers)
}

fn log_filter(config: &Config) -> Result<EnvFilter> {
    EnvFilter::try_new(&config.log.value)
        .map_err(|e| Error::with(model::Code::InvalidConfig, format!("log={} cause={e}", config.log.value)))
}

fn log_to_stderr(filter: EnvFilter) -> Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .try_init()
        .map_err(Error::internal)
}

/// A write past RLIMIT_FSIZE raises SIGXFSZ, which ends a process. Ignored, it is an error of that write like a full
/// disk.
fn ignore_file_size_signal() {
    // tokio's handler replaces the default action; what it reports is of no interest.
    if let Err(error) = signal(SignalKind::from_raw(SIGXFSZ)) {
        tracing::debug!(%error, "cannot catch SIGXFSZ");
    }
}

/// Linux's number on every architecture that Rust's tier-1 Linux targets have.
const SIGXFSZ: i32 = 25;
