//! `tidemark serve --held-clock`: time passes when a test says so. Each line on stdin is a number of milliseconds to move
//! the clock on, and is answered by the same number on stdout once the checks of consumers that were due are done.
//!
//! Whoever can write to a process's stdin has started it, so that this opens nothing to anybody else.

use std::io::{self, BufRead as _, Write as _};
use std::time::Duration;

use model::{Error, Result};
use tokio::sync::mpsc;

use super::engine::Engine;

/// Lines that may wait.
const LINES_MAX: usize = 16;

/// The test's hand on the clock.
#[derive(Debug)]
pub struct HeldClock {
    asked: mpsc::Receiver<Duration>,
    /// What it was moved on by since consumers were last checked. Time that passes by itself does not count: what a test
    /// sees depends on what it asked for alone.
    since_check: Duration,
}

impl HeldClock {
    /// Begins to listen to stdin. The thread that does ends with its input, or with the process.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn listen() -> Result<Self> {
        let (asks, asked) = mpsc::channel(LINES_MAX);
        let listen = move || {
            let lines = io::stdin().lock().lines().map_while(io::Result::ok);
            for by_ms in lines.map_while(|line| line.trim().parse().ok()) {
                if asks.blocking_send(Duration::from_millis(by_ms)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("held-clock".into()).spawn(listen).map_err(Error::internal)?;
        Ok(Self { asked, since_check: Duration::ZERO })
    }

    /// What is asked for next; never, once nobody can ask any more.
    pub async fn asked(&mut self) -> Duration {
        match self.asked.recv().await {
            Some(by) => by,
            None => std::future::pending().await,
        }
    }

    /// Moves the clock on, stopping at each check of consumers that is due on the way, and says so on stdout.
    ///
    /// # Errors
    /// Of the metadata's log, or of stdout.
    pub async fn advance(&mut self, engine: &Engine, by: Duration) -> Result<()> {
        let mut left = by;
        while !left.is_zero() {
            let interval = engine.mnode().check_interval();
            let step = left.min(interval.saturating_sub(self.since_check));
            engine.clock().advance_ns(i64::try_from(step.as_nanos()).unwrap_or(i64::MAX));
            left -= step;
            self.since_check += step;
            if self.since_check >= interval {
                self.since_check = Duration::ZERO;
                engine.mnode().tick().await?;
            }
        }
        let mut stdout = io::stdout();
        writeln!(stdout, "{}", by.as_millis()).and_then(|()| stdout.flush()).map_err(Error::internal)
    }
}
