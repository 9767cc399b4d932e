//! The interactive shell on a terminal of its own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{Server, tidemark};

/// `tidemark sql` on a terminal, and what it has shown so far.
struct Shell {
    child: Child,
    terminal: File,
    shown: String,
    /// Up to where that was looked through.
    seen: usize,
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shell {
    fn start(server: &Server) -> Self {
        let terminal: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).expect("granted");
        unlockpt(&terminal).expect("unlocked");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).expect("its size");
        let name = ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("UTF-8");
        let end = || {
            let end = File::options().read(true).write(true).open(&name).expect("its other end");
            Stdio::from(end)
        };
        let child = tidemark()
            .args(["sql", "-h", server.address()])
            .env("TERM", "xterm")
            .env("TIDEMARK_HISTORY", server.scratch().join("history"))
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("the shell starts");
        let mut shell = Self { child, terminal: terminal.into(), shown: String::new(), seen: 0 };
        shell.read_until("tidemark> ");
        shell
    }

    /// Types `text` at once.
    fn type_in(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).expect("typed");
    }

    /// Reads what it shows until `text` comes, which is looked for behind what was found before.
    fn read_until(&mut self, text: &str) {
        loop {
            if let Some(at) = self.shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(self.read_on(), "ended before {text:?}: {}", self.shown);
        }
    }

    fn read_to_end(&mut self) {
        while self.read_on() {}
        assert!(self.child.wait().expect("it ends").success(), "{}", self.shown);
    }

    /// False at the end, which Linux tells as an error.
    fn read_on(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        let read = self.terminal.read(&mut bytes).unwrap_or(0);
        self.shown.push_str(&String::from_utf8_lossy(&bytes[..read]));
        read > 0
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it can be interrupted");
    }
}

#[test]
fn lines_typed_ahead_are_all_run() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    shell.type_in("select 10 + 1;\rselect 10 + 2;\rselect 10 + 3;\rexit\r");
    shell.read_to_end();
    for value in [" 11\r\n", " 12\r\n", " 13\r\n"] {
        assert!(shell.shown.contains(value), "{value:?} is not there: {}", shell.shown);
    }
}

#[test]
fn help_is_a_question_mark_and_tab_knows_what_follows() {
    let server = Server::start();
    let mut shell = Shell::start(&server);
    for ask in ["?", "\\?", "help"] {
        shell.type_in(&format!("{ask}\r"));
        shell.read_until("Statements end with `;`");
        shell.read_until("tidemark> ");
    }
    shell.type_in("show data\t;\r");
    shell.read_until("information_schema");
    shell.read_until("tidemark> ");
    shell.type_in("exit\r");
    shell.read_to_end();
}

#[test]
fn ctrl_c_ends_the_printing_and_nothing_later() {
    const ROWS: usize = 30_000;
    let server = Server::start();
    server.sql("CREATE DATABASE d VGROUPS 1; CREATE TABLE d.n (ts TIMESTAMP, s VARCHAR(60))");
    let file = server.scratch().join("rows.csv");
    let rows: String =
        (0..ROWS).map(|n| format!("{},row {n:050}\n", 1_700_000_000_000_u64 + n as u64)).collect();
    std::fs::write(&file, format!("ts,s\n{rows}")).expect("written");
    let imported = server.run("import", &[file.to_str().expect("UTF-8"), "--into", "d.n", "--ts", "ts"]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let mut shell = Shell::start(&server);
    shell.type_in("select ts, s from d.n;\r");
    // What is not read keeps the shell from printing more than the terminal holds.
    shell.read_until("row 0");
    shell.interrupt();
    shell.read_until("error[0x020f]");
    let printed = shell.shown.matches("| row 0").count();
    assert!(printed < ROWS, "all rows were printed");
    shell.read_until("tidemark> ");
    shell.type_in("select 10 + 1;\rexit\r");
    shell.read_to_end();
    assert!(shell.shown.contains(" 11\r\n"), "the next statement was not run: {}", shell.shown);
    assert_eq!(shell.shown.matches("0x020f").count(), 1, "told once");
}
