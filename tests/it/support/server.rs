//! A `tidemark serve` process of its own, on ports that the system chose, in a folder that goes with it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

/// How long anything may take that should be done in a second: a bound on a hang, not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it.
pub struct Server {
    child: Child,
    grpc: String,
    /// What it says on stdout after its ready line.
    said: Mutex<Receiver<String>>,
    dir: Arc<TempDir>,
    args: Vec<String>,
    /// Largest file that the server may write, in 512-byte blocks.
    file_blocks_max: Option<u32>,
}

impl Server {
    /// Starts one in a new folder.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one in a new folder with further arguments.
    pub fn start_with(args: &[&str]) -> Self {
        let dir = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let args: Vec<_> = args.iter().map(|&a| a.to_owned()).collect();
        let Spawned { child, grpc, said } =
            spawn(&dir.path().join("data"), &args, None).expect("the server starts");
        Self { child, grpc, said: Mutex::new(said), dir, args, file_blocks_max: None }
    }

    /// Starts one in a new folder on a clock that [`Self::advance`] moves: no consumer times out by itself.
    pub fn start_on_held_clock() -> Self {
        Self::start_with(&["--held-clock"])
    }

    /// Moves the clock on; returns once the checks of consumers that were due on the way are done.
    pub fn advance(&self, by: Duration) {
        let mut stdin = self.child.stdin.as_ref().expect("stdin");
        writeln!(stdin, "{}", by.as_millis()).expect("the server listens");
        let done = self.said.lock().recv_timeout(PATIENCE).expect("the server answers");
        assert_eq!(done, by.as_millis().to_string());
    }

    /// From the next start on no file may grow beyond so many 512-byte blocks: what a full disk looks like to a process.
    pub fn limit_files(&mut self, blocks: Option<u32>) {
        self.file_blocks_max = blocks;
    }

    /// There is room again, for the server that runs and for those to come.
    pub fn lift_file_limit(&mut self) {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let unlimited = Rlimit { current: None, maximum: None };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, unlimited)
            .expect("a limit can be lifted");
        self.file_blocks_max = None;
    }

    /// The gRPC address, `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.grpc
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A folder beside the data directory that lives as long as the server.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// Process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server can be waited for");
    }

    /// SIGTERM, and how it ended.
    pub fn terminate(&mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .expect("the server can be told to stop");
        self.child.wait().expect("the server can be waited for")
    }

    /// Starts again in the same folder, on a new port, after [`Self::kill`] or [`Self::terminate`].
    pub fn start_again(&mut self) {
        self.try_start_again().expect("the server starts again");
    }

    /// SIGKILL and a new start where the clients expect it, so that they find it again by themselves.
    pub fn kill_and_restart_on_the_same_port(&mut self) {
        self.kill();
        let mut args = self.args.clone();
        args.extend(["--grpc".to_owned(), self.grpc.clone()]);
        self.spawn_again(&args).expect("the server starts again");
    }

    /// Like [`Self::start_again`], but hands back what it said when it does not start.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        self.spawn_again(&self.args.clone())
    }

    fn spawn_again(&mut self, args: &[String]) -> Result<(), String> {
        let Spawned { child, grpc, said } = spawn(&self.data_dir(), args, self.file_blocks_max)?;
        (self.child, self.grpc, self.said) = (child, grpc, Mutex::new(said));
        Ok(())
    }

    /// Runs `tidemark COMMAND -h ADDRESS ARGS..` to its end.
    pub fn run(&self, command: &str, args: &[&str]) -> Output {
        tidemark().arg(command).args(["-h", &self.grpc]).args(args).output().expect("the command runs")
    }

    /// Runs statements with `tidemark sql -s`, which must succeed, and returns stdout.
    pub fn sql(&self, statements: &str) -> String {
        let output = self.run("sql", &["-o", "csv", "-s", statements]);
        assert!(output.status.success(), "{statements}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs a statement that must fail, and returns stderr.
    pub fn sql_error(&self, statement: &str) -> String {
        let output = self.run("sql", &["-s", statement]);
        assert_eq!(output.status.code(), Some(1), "{statement} should fail");
        String::from_utf8(output.stderr).expect("UTF-8")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary under test.
pub fn tidemark() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidemark"))
}

/// A server that has said where it listens.
struct Spawned {
    child: Child,
    grpc: String,
    said: Receiver<String>,
}

/// Starts a server and waits for its ready line; `Err` is what it wrote to stderr when it ended before that.
fn spawn(data_dir: &Path, args: &[String], file_blocks_max: Option<u32>) -> Result<Spawned, String> {
    let grpc: &[&str] = if args.iter().any(|a| a == "--grpc") { &[] } else { &["--grpc", "127.0.0.1:0"] };
    let mut command = match file_blocks_max {
        None => tidemark(),
        Some(blocks) => {
            // The shell sets the limit and becomes the server.
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(format!("ulimit -S -f {blocks}; exec \"$0\" \"$@\""));
            shell.arg(env!("CARGO_BIN_EXE_tidemark"));
            shell
        }
    };
    let mut child = command
        .args(["serve", "--data-dir"])
        .arg(data_dir)
        .args(grpc)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let stdout = child.stdout.take().ok_or("no stdout")?;
    let mut stderr = child.stderr.take().ok_or("no stderr")?;
    let (says, said) = sync_channel(16);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // What nobody waits for is dropped.
            let _ = says.try_send(line);
        }
    });
    let log = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        if std::env::var_os("TIDEMARK_TEST_LOG").is_some() {
            eprintln!("{text}");
        }
        text
    });
    let line = said.recv_timeout(PATIENCE).ok();
    let address = line.as_deref().and_then(|line| {
        let rest = line.strip_prefix("ready grpc=")?;
        Some(rest.split(' ').next()?.to_owned())
    });
    match address {
        Some(grpc) => Ok(Spawned { child, grpc, said }),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            Err(log.join().unwrap_or_default())
        }
    }
}
