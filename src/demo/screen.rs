//! What the demo prints: a heading a step, a few lines under it.

use std::io::{self, Write as _};
use std::time::Instant;

/// The terminal. A closed one is no reason to stop counting.
pub(super) struct Screen {
    started: Instant,
    step: u32,
}

impl Screen {
    #[expect(clippy::disallowed_methods, reason = "shown to the user, decides nothing")]
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), step: 0 }
    }

    /// Begins a step.
    pub(super) fn step(&mut self, what: &str) {
        self.step += 1;
        let seconds = self.started.elapsed().as_secs_f64();
        self.print(format_args!("\n{}. {what}  [{seconds:.1} s]", self.step));
    }

    /// A line of the current step.
    pub(super) fn say(&self, line: impl std::fmt::Display) {
        self.print(format_args!("   {line}"));
    }

    /// A line as it is.
    pub(super) fn print(&self, line: impl std::fmt::Display) {
        let mut stdout = io::stdout().lock();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }

    /// Seconds since the demo began.
    pub(super) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
