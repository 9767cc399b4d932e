//! What a query topic shows of a record, worked out once for all groups that come to it at about the same time.
//!
//! Groups that keep up read each record soon after it is applied, one after the other. The first that comes evaluates the
//! topic's expressions; what comes of it is kept until each of the others has had it. A group that is far ahead or behind
//! works for itself, and where only one group reads a topic nothing is kept at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Result, TopicId, Version};
use parking_lot::Mutex;

use super::evaluate::Shown;
use super::findings::Findings;

/// Records kept of one topic: groups whose places lie further apart do not read in step.
const RECORDS_MAX: usize = 64;
/// Bytes of their bodies, of which rows may be views. A larger record is not kept.
const BYTES_MAX: usize = 8 << 20;

/// What was done for readers, counted for tests.
#[derive(Debug, Default)]
pub(super) struct Effort {
    /// Data records of which it was worked out what a topic shows.
    evaluated: AtomicU64,
    /// Those of which another reader had done so.
    shared: AtomicU64,
    /// Blocks of rows that were passed over by what their header says.
    passed: AtomicU64,
    /// Columns that were decoded.
    columns: AtomicU64,
}

impl Effort {
    /// A block was passed over by what its header says.
    pub(super) fn passed(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    /// So many columns of a block were decoded.
    pub(super) fn decoded(&self, columns: usize) {
        self.columns.fetch_add(columns as u64, Ordering::Relaxed);
    }
}

/// A reading of a record that has one outcome, whoever does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Of {
    pub(super) version: Version,
    /// Of the topic's definition: a RELOAD shows other things.
    pub(super) definition_version: u32,
    pub(super) exclude_replicated: bool,
}

#[derive(Debug)]
struct Kept {
    of: Of,
    bytes: usize,
    /// Readers that are yet to come to it.
    left: usize,
    /// Locked while it is worked out: who comes meanwhile waits no longer than the work takes.
    shown: Arc<Mutex<Option<Shown>>>,
}

#[derive(Debug, Default)]
struct Topic {
    readers: usize,
    kept: VecDeque<Kept>,
    bytes: usize,
}

impl Topic {
    /// The place of a record's outcome, for one of the readers. `None` where nobody else is to come.
    fn place(&mut self, of: Of, bytes: usize, first: Version) -> Option<Arc<Mutex<Option<Shown>>>> {
        // What retention has taken nobody comes to any more, and a view of it would hold its segment's space.
        while self.kept.front().is_some_and(|kept| kept.of.version < first) {
            self.give_up(0);
        }
        if let Some(at) = self.kept.iter().position(|kept| kept.of == of) {
            let kept = self.kept.get_mut(at)?;
            kept.left = kept.left.saturating_sub(1);
            let (shown, is_last) = (Arc::clone(&kept.shown), kept.left == 0);
            if is_last {
                self.give_up(at);
            }
            return Some(shown);
        }
        let left = self.readers.saturating_sub(1);
        // Who is behind does not push out what those ahead keep for it.
        let is_behind = self.kept.back().is_some_and(|kept| of.version < kept.of.version);
        if left == 0 || is_behind || bytes > BYTES_MAX {
            return None;
        }
        let shown = Arc::default();
        self.kept.push_back(Kept { of, bytes, left, shown: Arc::clone(&shown) });
        self.bytes += bytes;
        while self.kept.len() > RECORDS_MAX || self.bytes > BYTES_MAX {
            self.give_up(0);
        }
        Some(shown)
    }

    fn give_up(&mut self, at: usize) {
        let bytes = self.kept.remove(at).map_or(0, |kept| kept.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The readers of a shard, by topic.
#[derive(Debug, Default)]
pub(super) struct Together {
    topics: Mutex<BTreeMap<TopicId, Topic>>,
    pub(super) effort: Effort,
}

impl Together {
    /// What `topic` shows of a record whose body has so many bytes, in a log that begins at `first`: what another reader has
    /// worked out, or what `work` comes to.
    pub(super) fn show(
        &self,
        topic: TopicId,
        of: Of,
        bytes: usize,
        first: Version,
        work: impl FnOnce() -> Result<Shown>,
    ) -> Result<Shown> {
        let place = self.topics.lock().get_mut(&topic).and_then(|topic| topic.place(of, bytes, first));
        let Some(place) = place else {
            self.effort.evaluated.fetch_add(1, Ordering::Relaxed);
            return work();
        };
        let mut known = place.lock();
        if let Some(shown) = &*known {
            self.effort.shared.fetch_add(1, Ordering::Relaxed);
            return Ok(shown.clone());
        }
        self.effort.evaluated.fetch_add(1, Ordering::Relaxed);
        let shown = work()?;
        *known = Some(shown.clone());
        Ok(shown)
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Effort { evaluated, shared, passed, columns } = &self.effort;
        let kept = self.topics.lock().values().map(|topic| topic.kept.len()).sum();
        Counts {
            evaluated: of(evaluated),
            shared: of(shared),
            passed: of(passed),
            columns: of(columns),
            kept,
        }
    }
}

/// What was done so far, and how many outcomes are kept.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) evaluated: u64,
    pub(crate) shared: u64,
    pub(crate) passed: u64,
    pub(crate) columns: u64,
    pub(crate) kept: usize,
}

/// A reader's place among those of its topic.
#[derive(Debug)]
pub(super) struct Reading {
    findings: Arc<Findings>,
    topic: TopicId,
}

impl Reading {
    pub(super) fn begin(findings: &Arc<Findings>, topic: TopicId) -> Self {
        findings.together.topics.lock().entry(topic).or_default().readers += 1;
        Self { findings: Arc::clone(findings), topic }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut topics = self.findings.together.topics.lock();
        let Some(topic) = topics.get_mut(&self.topic) else { return };
        topic.readers = topic.readers.saturating_sub(1);
        if topic.readers <= 1 {
            topic.kept.clear();
            topic.bytes = 0;
        }
        if topic.readers == 0 {
            topics.remove(&self.topic);
        }
    }
}
