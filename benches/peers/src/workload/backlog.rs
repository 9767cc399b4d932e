//! Reading what has been written before, by a new consumer group.

use std::sync::Arc;
use std::time::Duration;

use client::{AutoOffsetReset, ConsumerConfig};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::figures::{Cost, Meter, count};
use crate::load::Load;
use crate::peer::tidemark::{DATABASE, Tidemark, run};

/// Writes under way while a backlog is made.
const IN_FLIGHT: usize = 256;
/// A backlog that stops for so long has ended before its end.
const STALL: Duration = Duration::from_secs(20);

/// Writes a backlog and flushes it, so that no flush is at work while it is read. What is read is the log all the same.
pub async fn write(server: &Tidemark, load: Load) -> Result<()> {
    load.write(&server.writer(IN_FLIGHT).await?, 0).await?;
    run(&server.connect().await?, &format!("FLUSH DATABASE {DATABASE}")).await
}

/// What becomes of a poll's message when it has been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// The SDK's automatic commits, every five seconds.
    Automatic,
    /// Committed, and that waited for, before the next poll.
    Waited,
    /// Committed while polling goes on; the last is waited for.
    Background,
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Topic.
    pub topic: &'a str,
    /// A group that has read nothing yet.
    pub group: &'a str,
    /// Rows that it will deliver.
    pub rows: u64,
    /// How it is committed.
    pub commits: Commits,
}

/// What was read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// From before the subscription to behind the last message.
    pub cost: Cost,
    /// Messages.
    pub messages: u64,
}

impl Reading<'_> {
    /// Reads all of it with one consumer.
    pub async fn run(&self, server: &Tidemark) -> Result<Read> {
        let mut config = ConsumerConfig::new(self.group);
        config.auto_offset_reset = AutoOffsetReset::Earliest;
        config.enable_auto_commit = self.commits == Commits::Automatic;
        let consumer = server.connect().await?.consumer(config)?;
        let meter = Meter::start(&server.process)?;
        consumer.subscribe([self.topic]).await?;
        let (mut rows, mut messages) = (0, 0);
        let refused: Refused = Arc::default();
        while rows < self.rows {
            let message = consumer.poll(STALL).await?;
            let message = message.ok_or_else(|| Error::Odd(format!("{rows} of {} rows came", self.rows)))?;
            rows += count(message.rows_len());
            messages += 1;
            match self.commits {
                Commits::Automatic => {}
                // A later offset speaks for those before it: with the last all are committed.
                Commits::Background if rows < self.rows => consumer.commit_async(&message, told(&refused)),
                Commits::Background | Commits::Waited => consumer.commit_sync(&message).await?,
            }
        }
        let cost = meter.stop()?;
        if let Some(error) = refused.lock().take() {
            return Err(error.into());
        }
        consumer.close().await?;
        match rows == self.rows {
            true => Ok(Read { cost, messages }),
            false => Err(Error::Odd(format!("{rows} rows came of {}", self.rows))),
        }
    }
}

/// Why a commit in the background failed.
type Refused = Arc<Mutex<Option<model::Error>>>;

/// Keeps the error of a commit.
fn told(refused: &Refused) -> impl Fn(model::Result<()>) + Send + Sync + 'static {
    let refused = Arc::clone(refused);
    move |done| {
        if let Err(error) = done {
            refused.lock().get_or_insert(error);
        }
    }
}
