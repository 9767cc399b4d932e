//! A server as a process of its own, for the demo and the benchmarks: what is killed is killed, and its CPU time and
//! files can be told from ours.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use model::{Code, Error, Result};

/// How long a server may take to its ready line.
const START: Duration = Duration::from_secs(20);
/// Clock ticks of `/proc/PID/stat` in a second: USER_HZ, 100 on every architecture that Rust's tier-1 Linux targets have.
const TICKS_PER_SECOND: f64 = 100.0;

pub(crate) fn io_error(what: &str, error: std::io::Error) -> Error {
    Error::text(Code::Io, format!("{what}: {error}")).caused_by(error)
}

/// This very program, to be run again.
pub(crate) fn tidemark() -> Result<Command> {
    std::env::current_exe().map(Command::new).map_err(|e| io_error("cannot find this program", e))
}

/// A process that is killed when dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        command.spawn().map(Self).map_err(|e| io_error("cannot start a process", e))
    }

    /// SIGKILL: no farewell, no flush.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.0.kill().map_err(|e| io_error("cannot kill a process", e))?;
        self.0.wait().map(|_| ()).map_err(|e| io_error("cannot wait for a process", e))
    }

    /// Calls `line` for each line that the process prints, on a thread of its own.
    pub(crate) fn each_line(&mut self, mut line: impl FnMut(String) + Send + 'static) -> Result<()> {
        let stdout = self.0.stdout.take().ok_or_else(|| Error::internal("a process without stdout"))?;
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(std::result::Result::ok).for_each(&mut line);
        });
        Ok(())
    }

    /// CPU seconds, its own and the kernel's on its behalf; `None` where `/proc` does not tell.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).ok()?;
        // The second field is the name in parentheses and may hold blanks.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        Some((user + system) / TICKS_PER_SECOND)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already is as good as killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    pub(crate) process: Process,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl ServerProcess {
    /// Starts one on `data_dir`; `address` with port 0 lets the system choose the port. Answers once it is ready.
    pub(crate) fn start(data_dir: &Path, address: &str, log: &Path) -> Result<Self> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let log = log.map_err(|e| io_error("cannot open the server's log", e))?;
        let mut command = tidemark()?;
        command.args(["serve", "--grpc", address, "--data-dir"]).arg(data_dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut process = Process::spawn(&mut command)?;
        let (ready, wait) = sync_channel(1);
        process.each_line(move |line| {
            // Only the first line counts; whoever waited may have given up.
            let _ = ready.try_send(line);
        })?;
        let line = wait.recv_timeout(START).unwrap_or_default();
        let address = line.strip_prefix("ready grpc=").and_then(|rest| rest.split(' ').next());
        let address = address
            .ok_or_else(|| Error::with(Code::Unreachable, "the server did not become ready"))?
            .to_owned();
        Ok(Self { process, address })
    }
}
