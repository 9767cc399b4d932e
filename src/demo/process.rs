//! A consumer as a process of its own: `tidemark subscribe`, its rows counted as it prints them.

use std::process::Stdio;
use std::sync::Arc;

use model::Result;

use super::tally::Tally;
use crate::child::{Process, tidemark};

/// A consumer.
#[derive(Debug)]
pub(super) struct ConsumerProcess {
    process: Process,
    /// Its `client.id`, by which SHOW CONSUMERS names it.
    pub(super) name: &'static str,
}

impl ConsumerProcess {
    /// Starts one in `group` on `topic`, from the earliest row kept.
    pub(super) fn start(
        name: &'static str,
        server: &str,
        topic: &str,
        group: &str,
        tally: &Arc<Tally>,
    ) -> Result<Self> {
        let client_id = format!("client.id={name}");
        let mut command = tidemark()?;
        command
            .args(["subscribe", topic, "-g", group, "--from", "earliest", "-o", "json", "-h", server])
            .args([
                "--set",
                &client_id,
                "--set",
                "session.timeout.ms=6000",
                "--set",
                "heartbeat.interval.ms=1000",
            ])
            .args(["--set", "auto.commit.interval.ms=200"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = Process::spawn(&mut command)?;
        let tally = Arc::clone(tally);
        process.each_line(move |line| tally.deliver(name, &line))?;
        Ok(Self { process, name })
    }

    /// SIGKILL: no farewell, no commit.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }
}
