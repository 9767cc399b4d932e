//! Positions, seeks and commits: the checks in their order, and what each call means.

use model::{Code, Error, Result};
use proto::v1;

use super::config::AutoOffsetReset;
use super::message::{Message, offset};
use super::state::{Key, LogRange, Part, Phase, Reading, State};

/// A commit to send, and what it will be known as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) key: Key,
    pub(crate) epoch: u64,
    /// As the application gave it: -1 stays -1 here and is the log's begin on the wire.
    pub(crate) offset: i64,
    pub(crate) wire_offset: u64,
    pub(crate) sequence: u64,
}

impl Commit {
    pub(crate) fn to_wire(&self) -> v1::CommitOffset {
        v1::CommitOffset {
            topic: self.key.topic,
            vgroup: self.key.vgroup,
            epoch: self.epoch,
            offset: self.wire_offset,
            sequence: self.sequence,
        }
    }
}

/// One assigned vgroup of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VgroupAssignment {
    /// The vgroup.
    pub vgroup: u32,
    /// Where the latest message began: seeking there delivers it again. Before any message, where reading starts.
    pub current: i64,
    /// First version in the log.
    pub begin: i64,
    /// Last version plus one.
    pub end: i64,
}

impl State {
    /// Names of the topics of the current assignment.
    pub(crate) fn subscription(&self) -> Vec<String> {
        self.topics.values().map(|topic| topic.name.clone()).collect()
    }

    fn usable(&self) -> Result<()> {
        self.closed().map_or(Ok(()), Err)
    }

    fn topic_id(&self, topic: &str) -> Result<u64> {
        self.usable()?;
        let found = self.topics.values().find(|info| info.name == topic);
        Ok(found.ok_or_else(|| Error::with(Code::TopicNotAssigned, format!("topic={topic}")))?.id)
    }

    /// The key of an assigned vgroup.
    pub(crate) fn key(&self, topic: &str, vgroup: u32) -> Result<Key> {
        let key = Key { topic: self.topic_id(topic)?, vgroup };
        match self.parts.contains_key(&key) {
            true => Ok(key),
            false => Err(Error::with(Code::VgroupNotAssigned, format!("topic={topic} vgroup={vgroup}"))),
        }
    }

    fn part(&self, key: Key) -> Result<&Part> {
        self.parts.get(&key).ok_or_else(|| Error::of(Code::VgroupNotAssigned))
    }

    /// The keys of a topic, to ask the shards about.
    pub(crate) fn keys(&self, topic: &str) -> Result<Vec<Key>> {
        let id = self.topic_id(topic)?;
        Ok(self.parts.keys().filter(|key| key.topic == id).copied().collect())
    }

    /// What the shards answered.
    pub(crate) fn learn(&mut self, key: Key, offsets: &v1::Offsets) {
        let Some(part) = self.parts.get_mut(&key) else { return };
        part.log = Some(LogRange { first: offsets.log_first, end: offsets.log_end });
        // What this consumer committed itself is newer than, or equal to, what was read meanwhile.
        if part.committed.is_none() && part.committing.is_none() {
            part.committed = offsets.committed.map(offset);
        }
    }

    /// Where each vgroup of a topic stands.
    pub(crate) fn assignment(&self, topic: &str) -> Result<Vec<VgroupAssignment>> {
        let describe = |key: Key| {
            let part = self.part(key)?;
            let log = part.log.ok_or_else(|| Error::of(Code::NeedAssignment))?;
            let current = part.current.or(part.committed).unwrap_or_else(|| self.policy_start(log));
            let (begin, end) = (offset(log.first), offset(log.end));
            Ok(VgroupAssignment { vgroup: key.vgroup, current, begin, end })
        };
        self.keys(topic)?.into_iter().map(describe).collect()
    }

    fn policy_start(&self, log: LogRange) -> i64 {
        match self.settings.reset {
            AutoOffsetReset::Earliest | AutoOffsetReset::None => offset(log.first),
            AutoOffsetReset::Latest => offset(log.end),
        }
    }

    /// The next version to read.
    pub(crate) fn position(&self, topic: &str, vgroup: u32) -> Result<i64> {
        let part = self.part(self.key(topic, vgroup)?)?;
        let log = part.log.ok_or_else(|| Error::of(Code::NeedAssignment))?;
        Ok(part.position.or(part.committed).unwrap_or_else(|| self.policy_start(log)))
    }

    /// The last commit that is known here.
    pub(crate) fn committed(&self, key: Key) -> Option<i64> {
        self.parts.get(&key).and_then(|part| part.committed)
    }

    /// Checks of seek and of committing an offset, in their order. -1 passes and means the begin.
    fn check_offset(&self, topic: &str, vgroup: u32, offset: i64) -> Result<(Key, u64)> {
        let key = self.key(topic, vgroup)?;
        let log = self.part(key)?.log.ok_or_else(|| Error::of(Code::NeedAssignment))?;
        if offset == -1 {
            return Ok((key, log.first));
        }
        match u64::try_from(offset) {
            Ok(version) if (log.first..=log.end).contains(&version) => Ok((key, version)),
            _ => {
                let text = format!("offset={offset} begin={} end={}", log.first, log.end);
                Err(Error::with(Code::OffsetOutOfRange, text))
            }
        }
    }

    /// The next message of the vgroup comes from `offset`; nothing is committed. Answers under way are stale now.
    pub(crate) fn seek(&mut self, topic: &str, vgroup: u32, offset: i64) -> Result<()> {
        let (key, version) = self.check_offset(topic, vgroup, offset)?;
        let Some(part) = self.parts.get_mut(&key) else { return Ok(()) };
        part.position = Some(offset);
        part.current = Some(offset);
        part.read_to = version;
        match part.reading {
            Reading::Idle => {}
            Reading::Active | Reading::Resting { .. } => self.start(key),
        }
        // What was fetched of the vgroup has made room; without credit nothing of the new place would come.
        self.refill();
        Ok(())
    }

    /// Progress of a replay is not kept: its commits succeed without effect.
    fn commits_are_kept(&self) -> bool {
        !self.settings.replay
    }

    fn commit(&mut self, key: Key, epoch: u64, offset: i64, wire_offset: u64) -> Commit {
        self.sequence += 1;
        if let Some(part) = self.parts.get_mut(&key) {
            part.committing = Some(offset);
        }
        Commit { key, epoch, offset, wire_offset, sequence: self.sequence }
    }

    /// Commits what a message ends at; `None` where it is committed already.
    pub(crate) fn commit_message(&mut self, message: &Message) -> Result<Option<Commit>> {
        self.usable()?;
        let key = self.key(message.topic(), message.vgroup())?;
        let part = self.part(key)?;
        let same = part.committed == Some(message.next()) && part.committing.is_none();
        if same || !self.commits_are_kept() {
            return Ok(None);
        }
        // The epoch it was read under: the shard refuses what was read before the vgroup was somebody else's.
        Ok(Some(self.commit(key, message.epoch, message.next(), message.next)))
    }

    /// Commits an offset that the application names.
    pub(crate) fn commit_offset(&mut self, topic: &str, vgroup: u32, offset: i64) -> Result<Option<Commit>> {
        let (key, version) = self.check_offset(topic, vgroup, offset)?;
        let epoch = self.part(key)?.epoch;
        Ok(self.commits_are_kept().then(|| self.commit(key, epoch, offset, version)))
    }

    /// Commits every position that is not committed.
    pub(crate) fn commit_all(&mut self) -> Result<Vec<Commit>> {
        self.usable()?;
        Ok(self.commit_where(|_, part, at| part.committed != Some(at)))
    }

    /// The same for the timer: what is under way need not be sent again.
    pub(super) fn commit_changed(&mut self) -> Vec<Commit> {
        self.commit_where(|_, part, at| part.committing.or(part.committed) != Some(at))
    }

    /// The same of the vgroups that a hand-over of `topic` takes.
    pub(super) fn commit_revoked(&mut self, topic: u64) -> Vec<Commit> {
        self.commit_where(|key, part, at| key.topic == topic && part.revoked && part.committed != Some(at))
    }

    fn commit_where(&mut self, wanted: impl Fn(&Key, &Part, i64) -> bool) -> Vec<Commit> {
        if !self.commits_are_kept() {
            return Vec::new();
        }
        let due = |(key, part): (&Key, &Part)| {
            // Of a topic that may not be read no commit is taken either: what was handed out of it comes again.
            let part = Some(part).filter(|_| !self.denied.contains(&key.topic))?;
            let at = part.position?;
            let first = part.log.map_or(0, |log| log.first);
            wanted(key, part, at).then(|| (*key, part.epoch, at, u64::try_from(at).unwrap_or(first)))
        };
        let due: Vec<_> = self.parts.iter().filter_map(due).collect();
        due.into_iter().map(|(key, epoch, at, wire)| self.commit(key, epoch, at, wire)).collect()
    }

    /// The shard's answer. The local knowledge is that of the latest commit sent.
    pub(crate) fn commit_done(&mut self, commit: &Commit, done: &Result<()>) {
        let Some(part) = self.parts.get_mut(&commit.key).filter(|part| part.epoch == commit.epoch) else {
            return;
        };
        if part.committing == Some(commit.offset) {
            part.committing = None;
        }
        if done.is_ok() && commit.sequence > part.committed_sequence {
            part.committed_sequence = commit.sequence;
            part.committed = Some(commit.offset);
        }
    }

    /// What state the application sees.
    pub(crate) fn shown(&self) -> super::ConsumerState {
        match self.phase {
            Phase::Init | Phase::Idle => super::ConsumerState::Init,
            Phase::Ready => super::ConsumerState::Ready,
            Phase::Closed(..) => super::ConsumerState::Closed,
        }
    }
}
