//! Where statements come from, one after the other.

use std::collections::VecDeque;
use std::io::{self, BufRead as _};

use model::{Code, Error, Result};
use tokio::sync::mpsc;

use super::split::{Splitter, Statement};

/// Lines read ahead of the statement that runs.
const LINES_AHEAD: usize = 256;

/// A script: a text that is there, or what is piped in, whose statements run as soon as they are complete.
pub(super) struct Script {
    splitter: Splitter,
    ready: VecDeque<Statement>,
    lines: Option<mpsc::Receiver<io::Result<String>>>,
}

impl Script {
    pub(super) fn of(text: &str) -> Self {
        let mut splitter = Splitter::default();
        let mut ready: VecDeque<_> = splitter.add(text).into();
        ready.extend(splitter.rest());
        Self { splitter, ready, lines: None }
    }

    /// Reads on a thread of its own: whoever waits for a line can be told to stop, and a process that has done does not
    /// wait for the next one.
    pub(super) fn of_stdin() -> Result<Self> {
        let (lines, receiver) = mpsc::channel(LINES_AHEAD);
        let read = move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut line = String::new();
                let read = match stdin.read_line(&mut line) {
                    Ok(0) => return,
                    Ok(_) => Ok(line),
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if lines.blocking_send(read).is_err() || failed {
                    return;
                }
            }
        };
        let reader = std::thread::Builder::new().name("stdin".into()).spawn(read);
        reader.map_err(|e| Error::internal("cannot start the reader of stdin").caused_by(e))?;
        Ok(Self { splitter: Splitter::default(), ready: VecDeque::new(), lines: Some(receiver) })
    }

    /// The next statement; `None` behind the last.
    pub(super) async fn next(&mut self) -> Result<Option<Statement>> {
        loop {
            if let Some(statement) = self.ready.pop_front() {
                return Ok(Some(statement));
            }
            let Some(lines) = &mut self.lines else { return Ok(None) };
            match lines.recv().await {
                Some(Ok(line)) => self.ready.extend(self.splitter.add(&line)),
                Some(Err(e)) => {
                    let text = format!("cannot read statements from stdin: {e}");
                    return Err(Error::text(Code::Io, text).caused_by(e));
                }
                None => {
                    self.lines = None;
                    self.ready.extend(self.splitter.rest());
                }
            }
        }
    }
}
