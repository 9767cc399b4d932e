//! The loop over the log: from a position to the applied end, without a runtime.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Clock, Code, Error, Result, Version};
use parking_lot::RwLock;
use wal::{Kind, Reader, WalError, WalReader};

use super::compiled::{Compiled, Source, TopicCache};
use super::evaluate::{Evaluator, Shapes, Shown};
use super::findings::Findings;
use super::gather::{Added, Gather};
use super::together::{Of, Reading};
use super::{Range, Read, SubscribeRequest};
use crate::state::{GroupKey, VnodeState};

/// What a reader reads from.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) wal: WalReader,
    pub(crate) state: Arc<RwLock<VnodeState>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) findings: Arc<Findings>,
}

/// A record as the topic shows it.
#[derive(Debug)]
struct Seen {
    version: Version,
    shown: Shown,
}

/// One reader.
#[derive(Debug)]
pub(crate) struct Core {
    log: Log,
    key: GroupKey,
    request: SubscribeRequest,
    reader: Reader,
    position: Version,
    /// Writes of one record that replay has yet to send, each by itself.
    rest: VecDeque<super::Batch>,
    skipped: Option<(Version, Version)>,
    shapes: Shapes,
    /// Last version applied when this last looked.
    seen: Version,
    /// Counts it among the readers of its topic.
    _reading: Reading,
}

/// What a look at the shard finds under one lock.
struct Sight {
    topic: Arc<Compiled>,
    end: Version,
    qualifies: bool,
}

impl Core {
    /// Starts at `position`; what is `skipped` before it is told with the first batch.
    pub(crate) fn new(
        log: Log,
        request: SubscribeRequest,
        position: Version,
        skipped: Option<(Version, Version)>,
    ) -> Self {
        let reader = log.wal.reader(position);
        let reading = Reading::begin(&log.findings, request.topic);
        let key = (request.topic, request.group.clone());
        Self {
            log,
            key,
            request,
            reader,
            position,
            rest: VecDeque::new(),
            skipped,
            shapes: Shapes::new(),
            seen: Version(0),
            _reading: reading,
        }
    }

    pub(crate) const fn position(&self) -> Version {
        self.position
    }

    pub(crate) const fn seen(&self) -> Version {
        self.seen
    }

    pub(super) fn seek(&mut self, position: Version) {
        self.position = position;
        self.rest.clear();
        self.skipped = None;
    }

    /// See [`super::Subscription::read`].
    pub(crate) fn read(&mut self, topics: &TopicCache, deadline_ns: i64) -> Result<Read> {
        let sight = self.look(topics)?;
        self.seen = Version(sight.end.0.saturating_sub(1));
        if let Some(batch) = self.rest.pop_front() {
            self.position = batch.range.position;
            self.log.findings.delivered(&self.key, batch.next);
            return Ok(Read::Batch(Box::new(batch)));
        }
        let begin = self.position;
        if !sight.qualifies {
            // What retention takes meanwhile is no loss to a group that would be shown nothing of it.
            return Ok(Read::NoTable(self.range(sight.end)));
        }
        self.move_up();
        let from = self.position;
        let read = self.read_from(&sight, begin, deadline_ns);
        if read.is_err() {
            // Nothing was handed out: whoever tries again finds the same records.
            self.position = from;
            self.rest.clear();
        }
        read
    }

    fn read_from(&mut self, sight: &Sight, begin: Version, deadline_ns: i64) -> Result<Read> {
        let from = self.position;
        let mut gather = Gather::default();
        let is_late = self.fill(sight, &mut gather, deadline_ns)?;
        // Whatever happened while this read: rows of a vgroup that has moved on are not handed out.
        self.check_owner()?;
        let range = self.range(sight.end);
        if gather.is_empty() {
            self.log.findings.nothing_in(&self.key, from, self.position);
            return Ok(if is_late { Read::Timeout(range) } else { Read::CaughtUp(range) });
        }
        let options = self.request.options;
        let mut batch = gather.finish(&sight.topic, options, &self.log.state, begin, range)?;
        batch.skipped = self.skipped.take();
        self.log.findings.delivered(&self.key, batch.next);
        Ok(Read::Batch(Box::new(batch)))
    }

    /// Reads records until the batch is full, the end is reached, or time is up; that it was is the answer.
    fn fill(&mut self, sight: &Sight, gather: &mut Gather, deadline_ns: i64) -> Result<bool> {
        while self.position < sight.end {
            let Seen { version, shown } = match self.next(&sight.topic) {
                Ok(Some(seen)) => seen,
                Ok(None) => break,
                // What is whole before it goes out first; the next look meets the error again.
                Err(_) if !gather.is_empty() => break,
                Err(e) => return Err(e),
            };
            if self.request.options.replay {
                self.replayed(sight, gather, version, shown)?;
                if !gather.is_empty() {
                    break;
                }
                continue;
            }
            match gather.add(self.request.options, version, shown) {
                Added::More => self.position = version.next(),
                Added::Full => {
                    self.position = version.next();
                    break;
                }
                // Not taken: it is read once more for the next batch.
                Added::Later => break,
            }
            if self.log.clock.now_ns() >= deadline_ns {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// In replay each write is a batch, and the position passes a record with its last one.
    fn replayed(&mut self, sight: &Sight, gather: &mut Gather, version: Version, shown: Shown) -> Result<()> {
        let Shown::Writes(writes) = shown else {
            self.position = version.next();
            return Ok(());
        };
        let options = self.request.options;
        let begin = self.position;
        let last = writes.len().saturating_sub(1);
        for (at, write) in writes.into_iter().enumerate() {
            let write = Shown::Writes(vec![write]);
            if at == 0 {
                gather.add(options, version, write);
                continue;
            }
            let mut one = Gather::default();
            one.add(options, version, write);
            let mut range = self.range(sight.end);
            range.position = if at == last { version.next() } else { version };
            self.rest.push_back(one.finish(&sight.topic, options, &self.log.state, begin, range)?);
        }
        self.position = if last == 0 { version.next() } else { version };
        Ok(())
    }

    /// The record at the position, as the topic shows it.
    fn next(&mut self, topic: &Compiled) -> Result<Option<Seen>> {
        loop {
            self.reader.seek(self.position);
            let record = match self.reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(None),
                Err(WalError::Purged { .. }) => {
                    // Retention has come in between.
                    self.move_up();
                    continue;
                }
                Err(e) => return Err(self.failed(e)),
            };
            let version = record.version;
            if !record.kind.is_for_consumers() {
                return Ok(Some(Seen { version, shown: Shown::Nothing }));
            }
            let exclude_replicated = self.request.options.exclude_replicated;
            let together = &self.log.findings.together;
            let mut evaluator = Evaluator {
                topic,
                state: &self.log.state,
                exclude_replicated,
                shapes: &mut self.shapes,
                effort: &together.effort,
            };
            let is_evaluated = record.kind == Kind::Data && matches!(topic.source, Source::Query(_));
            let shown = if is_evaluated {
                let of = Of { version, definition_version: topic.definition_version, exclude_replicated };
                let first = self.log.wal.first_version();
                let bytes = record.body.len();
                together.show(self.request.topic, of, bytes, first, || evaluator.show(&record))?
            } else {
                evaluator.show(&record)?
            };
            return Ok(Some(Seen { version, shown }));
        }
    }

    /// What retention has taken is passed over, and told with the next batch; but not what this group's readers had found
    /// to hold nothing for it.
    fn move_up(&mut self) {
        let first = self.log.wal.first_version();
        if self.position >= first {
            return;
        }
        let from = self.log.findings.unread_from(&self.key, self.position);
        self.position = first;
        if from >= first {
            return;
        }
        let from = self.skipped.map_or(from, |(from, _)| from);
        self.skipped = Some((from, first));
        if self.log.findings.gap(&self.key, from, first) {
            let topic = self.log.state.read().topics.get(self.request.topic).map(|topic| topic.name.clone());
            let (vgroup, group) = (self.log.findings.vgroup(), &self.key.1);
            let topic = topic.unwrap_or_else(|| self.request.topic.to_string());
            tracing::warn!(%vgroup, %topic, %group, %from, next = %first, "a group has fallen behind what the log keeps");
        }
    }

    fn failed(&self, e: WalError) -> Error {
        let is_damage = e.is_damage();
        let mut error = of_wal(e);
        if is_damage {
            error = error.hint(format!(
                "go on behind it without what it held: `tidemark subscribe --seek {}:{}`, in a program seek; or stop the \
                 server and put an intact copy of the file back, or run `tidemark wal repair`",
                self.log.findings.vgroup(),
                self.position.next(),
            ));
            self.log.findings.damaged(self.position, self.log.wal.first_version(), &error);
        }
        error
    }

    fn range(&self, end: Version) -> Range {
        let first = self.log.wal.first_version();
        Range { position: self.position, first, end }
    }

    fn look(&self, topics: &TopicCache) -> Result<Sight> {
        let (definition, end) = {
            let state = self.log.state.read();
            check_owner(&state, &self.request)?;
            let definition = state.topics.get(self.request.topic).cloned();
            (definition, state.applied().next())
        };
        let Some(definition) = definition else {
            topics.forget(self.request.topic);
            return Err(no_topic(&self.request));
        };
        let topic = topics.get(&definition)?;
        let qualifies = topic.qualifies(&self.log.state.read());
        Ok(Sight { topic, end, qualifies })
    }

    fn check_owner(&self) -> Result<()> {
        check_owner(&self.log.state.read(), &self.request)
    }
}

fn no_topic(request: &SubscribeRequest) -> Error {
    Error::with(Code::TopicNotExist, format_args!("id={}", request.topic))
}

/// Whether the consumer owns the vgroup for its (topic, group).
pub(super) fn check_owner(state: &VnodeState, request: &SubscribeRequest) -> Result<()> {
    if !state.has_topic(request.topic) {
        return Err(no_topic(request));
    }
    let held = state.groups.get(request.topic, &request.group);
    if held.is_some_and(|held| held.is_owned_by(request.consumer, request.epoch)) {
        Ok(())
    } else {
        Err(Error::of(Code::ConsumerMismatch))
    }
}

fn of_wal(e: WalError) -> Error {
    let code = match &e {
        e if e.is_damage() => Code::Damaged,
        WalError::Io { .. } => Code::Io,
        _ => Code::Internal,
    };
    Error::with(code, &e).caused_by(e)
}

#[cfg(test)]
mod tests {
    use super::super::OffsetReset;
    use super::*;
    use crate::record::{TopicKind, TopicMeta};
    use crate::tests::{clock, open, request, rows, with_meter, with_topic};

    /// tmq.md 16.9: where applying lags behind the log, a reader waits and skips nothing. The log of one shard, the state
    /// of another that has taken the same steps and is behind.
    #[tokio::test]
    async fn rule_09_what_is_not_applied_is_waited_for() {
        let (ahead_dir, behind_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ahead = open(ahead_dir.path(), &clock()).await;
        let behind = open(behind_dir.path(), &clock()).await;
        for vnode in [&ahead, &behind] {
            with_meter(vnode).await;
            with_topic(vnode, TopicKind::Database, TopicMeta::Without).await;
        }
        let write = |n| rows(&[("a", n, 1)], Some(1));
        for n in 0..3 {
            ahead.write(write(n)).await.unwrap();
        }
        behind.write(write(0)).await.unwrap();
        let log = Log {
            wal: ahead.group.log(),
            state: Arc::clone(&behind.state),
            clock: Arc::clone(&ahead.clock),
            findings: Arc::clone(&ahead.findings),
        };
        let mut core = Core::new(log, request(OffsetReset::Earliest), Version(0), None);
        let mut read = || {
            let mut found = 0;
            while let Read::Batch(batch) = core.read(&ahead.topics, i64::MAX).unwrap() {
                found += batch.rows();
            }
            (found, core.position())
        };
        for n in 1..=3 {
            let applied = behind.positions().end();
            assert_eq!(read(), (1, applied));
            assert_eq!(read(), (0, applied), "it stands, however much the log holds");
            if n < 3 {
                assert!(applied < ahead.positions().end());
                behind.write(write(n)).await.unwrap();
            }
        }
        drop(core);
        for vnode in [ahead, behind] {
            vnode.close().await.unwrap();
        }
    }
}
