//! Going through the topic: what is applied when, and what is committed when.
//!
//! Rows are written in batches and their offsets committed now and then: written again they are the same rows. Around an
//! event both happen at once: everything before it is written and committed, the event applied, and its own offset
//! committed. So a crash repeats rows back to the last event, or that event alone, and never rows across an event.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use client::{Consumer, Message, MessageKind};
use indicatif::ProgressBar;
use model::{Code, Error, Result};
use tokio::time::Instant;

use super::barrier::{Around, Arrival, Barrier, unfinished};
use super::copy::{Copy, Slot};
use super::event::{self, Event};
use crate::cli::common::{Signals, note};

/// How long one look for a message lasts.
const LOOK: Duration = Duration::from_millis(200);
/// Rows, and time, after which what was written is committed.
const ROWS_MAX: u64 = 50_000;
const UNCOMMITTED_MAX: Duration = Duration::from_secs(1);
/// Longer than it takes a group to notice that a member has gone.
const MEMBERS_MAX: Duration = Duration::from_secs(30);

/// What is read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) topic: String,
    /// In the order that places tables.
    pub(super) vgroups: Vec<u32>,
    pub(super) until_end: bool,
    pub(super) accept_loss: bool,
}

/// A replication under way.
#[derive(Debug)]
pub(super) struct Replication {
    consumer: Consumer,
    source: Source,
    copy: Copy,
    barrier: Barrier,
    /// Where each vgroup's messages end that were given to the copy and are not committed.
    uncommitted: BTreeMap<u32, i64>,
    uncommitted_rows: u64,
    committed: Instant,
    events: u64,
    progress: ProgressBar,
}

impl Replication {
    pub(super) fn new(consumer: Consumer, source: Source, copy: Copy) -> Self {
        let progress =
            if stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        Self {
            barrier: Barrier::new(source.vgroups.len()),
            consumer,
            source,
            copy,
            uncommitted: BTreeMap::new(),
            uncommitted_rows: 0,
            committed: Instant::now(),
            events: 0,
            progress,
        }
    }

    /// What was done, in one line.
    pub(super) fn summary(&self) -> String {
        let expired = match self.copy.expired {
            0 => String::new(),
            rows => format!(" expired={rows}"),
        };
        format!("replicated rows={} events={}{expired}", self.copy.rows, self.events)
    }

    /// Replicates until the end is reached, or a signal comes.
    pub(super) async fn run(&mut self) -> Result<()> {
        let mut signals = Signals::new()?;
        tokio::select! {
            ready = self.prepare() => ready?,
            () = signals.next() => return Ok(()),
        }
        let ends = self.ends().await?;
        loop {
            let message = tokio::select! {
                message = self.consumer.poll(LOOK) => message?,
                () = signals.next() => return self.settle().await,
            };
            match message {
                Some(message) => self.take(message).await?,
                None => {
                    self.settle().await?;
                    if self.source.until_end && !self.barrier.is_waiting() && self.has_reached(&ends) {
                        return Ok(());
                    }
                }
            }
            let is_due = self.uncommitted_rows >= ROWS_MAX || self.committed.elapsed() >= UNCOMMITTED_MAX;
            if is_due {
                self.settle().await?;
                self.copy.forget_schemas().await?;
            }
            self.progress.set_message(self.summary());
            self.progress.tick();
        }
    }

    /// Leaves the group.
    pub(super) async fn close(&self) -> Result<()> {
        self.progress.finish_and_clear();
        self.consumer.close().await
    }

    // ---------------------------------------------------------------------------------------------------- beginning

    /// Joins the group, waits until it has every vgroup, and completes what a crash left half done.
    async fn prepare(&mut self) -> Result<()> {
        self.consumer.subscribe([self.source.topic.as_str()]).await?;
        let deadline = Instant::now() + MEMBERS_MAX;
        let mut is_told = false;
        loop {
            let assigned = self.consumer.assignment(&self.source.topic).await?.len();
            // Nothing may come of one before all are here.
            for vgroup in &self.source.vgroups {
                match self.consumer.pause(&self.source.topic, *vgroup) {
                    Err(e) if e.code() == Code::VgroupNotAssigned => {}
                    paused => paused?,
                }
            }
            if assigned == self.source.vgroups.len() {
                break;
            }
            let text = format!("{assigned} of {} vgroups", self.source.vgroups.len());
            if Instant::now() >= deadline {
                return Err(self.not_all(&text));
            }
            if !is_told {
                note(&format!("waiting for the group's other member to leave: has {text}"));
                is_told = true;
            }
            if let Some(message) = self.consumer.poll(LOOK).await? {
                // Not applied and not committed: it comes again.
                self.consumer.seek(&self.source.topic, message.vgroup(), message.begin())?;
            }
        }
        self.recover().await?;
        for vgroup in &self.source.vgroups {
            self.consumer.resume(&self.source.topic, *vgroup)?;
        }
        Ok(())
    }

    fn not_all(&self, text: &str) -> Error {
        let offline = self.consumer.offline();
        let error = Error::text(Code::ConsumerNotReady, format!("the group has another member: has {text}"));
        match offline.first() {
            Some(offline) => Error::text(
                Code::ConsumerNotReady,
                format!("vgroup {} is off-line: {}", offline.vgroup, offline.error),
            )
            .hint("a copy needs all vgroups: mend it first"),
            None => error.hint("one replicate a group: end the other, or name another --group"),
        }
    }

    /// Looks at each committed offset for a change of a super table that was made and not committed for all vgroups, and
    /// completes it. Leaves every vgroup paused where its group stands.
    async fn recover(&mut self) -> Result<()> {
        let topic = self.source.topic.clone();
        let mut around = BTreeMap::new();
        for at in self.consumer.assignment(&topic).await? {
            let committed = match self.consumer.committed(&topic, at.vgroup).await {
                Ok(committed) => Some(committed),
                Err(error) if error.code() == Code::NoCommitted => None,
                Err(error) => return Err(error),
            };
            let found = match committed {
                Some(committed) => self.look_around(at.vgroup, committed, at.begin, at.end).await?,
                None => Around::default(),
            };
            around.insert(at.vgroup, found);
        }
        if let Some(ahead) = unfinished(&around) {
            self.change(&ahead).await?;
        }
        Ok(())
    }

    async fn look_around(&mut self, vgroup: u32, committed: i64, begin: i64, end: i64) -> Result<Around> {
        let topic = self.source.topic.clone();
        let mut found = Around::default();
        // What retention has taken cannot be looked at; nor is there anything to complete that long after.
        if committed < begin {
            return Ok(found);
        }
        self.consumer.seek(&topic, vgroup, (committed - 1).max(begin))?;
        self.consumer.resume(&topic, vgroup)?;
        loop {
            let Some(message) = self.consumer.poll(LOOK).await? else {
                let position = self.consumer.position(&topic, vgroup)?;
                if position >= end || !self.consumer.is_reading() {
                    break;
                }
                continue;
            };
            let version = message.last_version();
            let arrival = is_aligned(&message)?.map(|json| Arrival { version, json });
            match arrival {
                Some(arrival) if version == committed - 1 => found.behind = Some(arrival),
                Some(arrival) if version == committed => found.next = Some(arrival),
                _ => {}
            }
            if version >= committed {
                break;
            }
        }
        self.consumer.pause(&topic, vgroup)?;
        self.consumer.seek(&topic, vgroup, committed.min(end))?;
        Ok(found)
    }

    async fn ends(&self) -> Result<BTreeMap<u32, i64>> {
        let assignment = self.consumer.assignment(&self.source.topic).await?;
        Ok(assignment.into_iter().map(|at| (at.vgroup, at.end)).collect())
    }

    fn has_reached(&self, ends: &BTreeMap<u32, i64>) -> bool {
        let position = |vgroup| self.consumer.position(&self.source.topic, vgroup);
        !self.consumer.is_reading()
            || ends.iter().all(|(vgroup, end)| position(*vgroup).is_ok_and(|at| at >= *end))
    }

    // ----------------------------------------------------------------------------------------------------- messages

    async fn take(&mut self, message: Message) -> Result<()> {
        if let Some(lost) = message.skipped() {
            self.lost(message.vgroup(), lost)?;
        }
        match message.kind() {
            MessageKind::TableMeta => self.events(&message).await,
            _ => {
                let mut creates = Vec::new();
                for event in message.json().map_or_else(|| Ok(Vec::new()), event::parse)? {
                    if let Event::CreateChildren(children) = event {
                        creates.extend(children);
                    }
                }
                self.copy.write(&message, creates).await?;
                self.uncommitted.insert(message.vgroup(), message.next());
                self.uncommitted_rows += message.rows_len() as u64;
                Ok(())
            }
        }
    }

    fn lost(&self, vgroup: u32, lost: client::Skipped) -> Result<()> {
        let text = format!(
            "the log no longer has what comes next: vgroup={vgroup} versions={}..{}",
            lost.from, lost.to
        );
        if self.source.accept_loss {
            note(&format!("{text}; the copy lacks it"));
            return Ok(());
        }
        Err(Error::text(Code::OffsetOutOfRange, text)
            .hint("WAL_RETENTION_PERIOD says how long it is kept; --accept-loss goes on without"))
    }

    async fn events(&mut self, message: &Message) -> Result<()> {
        let (vgroup, version) = (message.vgroup(), message.last_version());
        self.settle().await?;
        self.commit(vgroup, version).await?;
        if let Some(json) = is_aligned(message)? {
            self.consumer.pause(&self.source.topic, vgroup)?;
            let Some(all) = self.barrier.arrive(vgroup, Arrival { version, json })? else { return Ok(()) };
            self.change(&all).await?;
            for vgroup in all.keys() {
                self.consumer.resume(&self.source.topic, *vgroup)?;
            }
            return Ok(());
        }
        let at = self.source.vgroups.iter().position(|known| *known == vgroup).unwrap_or_default();
        let slot = Slot { at, of: self.source.vgroups.len() };
        for event in message.json().map_or_else(|| Ok(Vec::new()), event::parse)? {
            self.copy.apply(event, slot).await?;
            self.events += 1;
        }
        self.commit(vgroup, message.next()).await
    }

    /// Makes a change of a super table; the vgroups that stand in front of it, paused, are committed and set behind it.
    async fn change(&mut self, ahead: &BTreeMap<u32, Arrival>) -> Result<()> {
        let slot = Slot { at: 0, of: self.source.vgroups.len() };
        if let Some(arrival) = ahead.values().next() {
            for event in event::parse(&arrival.json)? {
                self.copy.apply(event, slot).await?;
                self.events += 1;
            }
        }
        for (vgroup, arrival) in ahead {
            self.commit(*vgroup, arrival.version + 1).await?;
        }
        // Not before all of them are committed: nothing may come of one.
        for (vgroup, arrival) in ahead {
            self.consumer.seek(&self.source.topic, *vgroup, arrival.version + 1)?;
        }
        Ok(())
    }

    /// Everything given to the copy is written, and committed.
    async fn settle(&mut self) -> Result<()> {
        self.copy.flush().await?;
        for (vgroup, next) in std::mem::take(&mut self.uncommitted) {
            self.commit(vgroup, next).await?;
        }
        self.uncommitted_rows = 0;
        self.committed = Instant::now();
        Ok(())
    }

    async fn commit(&self, vgroup: u32, offset: i64) -> Result<()> {
        self.consumer.commit_offset_sync(&self.source.topic, vgroup, offset).await
    }
}

/// The event of a message, if it is one that all vgroups come to together.
fn is_aligned(message: &Message) -> Result<Option<String>> {
    let Some(json) = message.json().filter(|_| message.kind() == MessageKind::TableMeta) else {
        return Ok(None);
    };
    let events = event::parse(json)?;
    Ok(events.iter().any(Event::is_aligned).then(|| json.to_owned()))
}
