//! What is measured runs as a process of its own: its CPU seconds and memory can be told from ours.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::error::{Error, Result};

/// How long a server may take until it is ready.
pub const START: Duration = Duration::from_secs(20);
/// Clock ticks of `/proc/PID/stat` in a second: USER_HZ, 100 on every architecture that Rust's tier-1 Linux targets have.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process that is killed when dropped, by its id; so a harness that fails, or is interrupted, leaves none behind.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts it, without input.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let what = format!("cannot start {}", command.get_program().display());
        command.stdin(Stdio::null()).spawn().map(Self).map_err(Error::io(what))
    }

    /// Starts it and waits for the first line that it prints.
    pub fn spawn_until_line(command: &mut Command) -> Result<(Self, String)> {
        let mut process = Self::spawn(command.stdout(Stdio::piped()))?;
        let stdout = process.0.stdout.take().ok_or_else(|| Error::Odd("a process without stdout".into()))?;
        let (ready, wait) = sync_channel(1);
        // To the end, so that a server that prints more is not stopped by a full pipe.
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(std::result::Result::ok).for_each(|line| {
                // Only the first counts; whoever waited may have given up.
                let _ = ready.try_send(line);
            });
        });
        let line = wait.recv_timeout(START);
        let line = line.map_err(|_| Error::Odd(format!("not ready within {START:?}: {command:?}")))?;
        Ok((process, line))
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// CPU seconds so far, its own and the kernel's on its behalf.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.id())
    }

    /// Bytes of memory that are its own: `RssAnon`, without the page cache that it maps.
    pub fn anon_bytes(&self) -> Result<f64> {
        let status = proc_file(self.id(), "status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib: Option<f64> =
            line.and_then(|l| l.split_whitespace().next()).and_then(|kib| kib.parse().ok());
        kib.map(|kib| kib * 1024.0)
            .ok_or_else(|| Error::Odd(format!("/proc/{}/status without RssAnon", self.id())))
    }
}

/// CPU seconds of the process called `id`: user's and system's.
pub fn cpu_seconds(id: u32) -> Result<f64> {
    let stat = proc_file(id, "stat")?;
    // The second field is the name in parentheses and may hold blanks.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<f64> =
        after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    match ticks[..] {
        [user, system] => Ok((user + system) / TICKS_PER_SECOND),
        _ => Err(Error::Odd(format!("/proc/{id}/stat without times"))),
    }
}

fn proc_file(id: u32, name: &str) -> Result<String> {
    let path = format!("/proc/{id}/{name}");
    std::fs::read_to_string(&path).map_err(Error::io(path))
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already is as good as killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_process_ends_with_whoever_holds_it_though_that_fails() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready on 7; exec sleep 1000"]);
        let (process, line) = Process::spawn_until_line(&mut command).unwrap();
        assert_eq!(line, "ready on 7");
        let folder = format!("/proc/{}", process.id());
        assert!(Path::new(&folder).exists() && process.anon_bytes().unwrap() > 0.0);
        assert!(process.cpu_seconds().unwrap() < 10.0);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = process;
            panic!("a workload fails");
        }));
        assert!(failed.is_err());
        assert!(!Path::new(&folder).exists(), "left behind");
    }
}
