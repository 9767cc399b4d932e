//! What the coordinator says of vgroups beside who reads them: some are about to be another member's, some are off-line.
//!
//! A vgroup that is revoked delivers nothing more. Once the application has polled past what it was handed of it, which is
//! how it says that this is handled, the position is committed if commits are automatic, and the vgroup is released: its
//! next owner begins behind it. The coordinator waits for that some seconds and no longer.

use std::collections::{BTreeMap, BTreeSet};

use model::{Code, Error};
use proto::v1;

use super::offsets::Commit;
use super::state::{Key, Reading, Request, State};

/// A vgroup of a subscribed topic of which nothing is delivered: its shard does not serve anybody, or cannot read its log
/// where this consumer stands.
#[derive(Clone, Debug)]
pub struct OfflineVgroup {
    /// The topic.
    pub topic: String,
    /// The vgroup.
    pub vgroup: u32,
    /// Why.
    pub error: Error,
}

/// A hand-over that takes vgroups from this consumer.
#[derive(Clone, Copy, Debug)]
struct HandOver {
    number: u64,
    /// The application is done with them, and the coordinator is told so.
    released: bool,
}

/// What is to be done when the application is done with revoked vgroups: the commits first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) topic: u64,
    pub(crate) hand_over: u64,
    pub(crate) commits: Vec<Commit>,
}

/// What an assignment says of vgroups that are not simply the consumer's.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    hand_overs: BTreeMap<u64, HandOver>,
    revoked: BTreeSet<Key>,
    offline: BTreeMap<Key, OfflineVgroup>,
}

impl Exceptions {
    /// Takes in what the assignment says of one topic.
    pub(super) fn add(&mut self, topic: &v1::AssignedTopic) {
        let key = |vgroup| Key { topic: topic.id, vgroup };
        self.revoked.extend(topic.vgroups.iter().filter(|v| v.revoked).map(|v| key(v.vgroup)));
        if let Some(number) = topic.hand_over {
            self.hand_overs.insert(topic.id, HandOver { number, released: false });
        }
        self.offline.extend(topic.offline.iter().map(|offline| {
            let error = offline.error.clone().map(proto::status::from_detail);
            let error = error.unwrap_or_else(|| Error::of(Code::InvalidVgroup));
            (key(offline.vgroup), OfflineVgroup { topic: topic.name.clone(), vgroup: offline.vgroup, error })
        }));
    }
}

impl State {
    /// Takes in what a new assignment says. Returns what has gone off-line since the one before.
    pub(super) fn except(&mut self, mut new: Exceptions) -> Vec<OfflineVgroup> {
        for (topic, hand_over) in &mut new.hand_overs {
            let known =
                self.exceptions.hand_overs.get(topic).filter(|known| known.number == hand_over.number);
            hand_over.released = known.is_some_and(|known| known.released);
        }
        let keys: Vec<_> = self.parts.keys().copied().collect();
        for key in keys {
            self.revoke(key, new.revoked.contains(&key));
        }
        let known = &self.exceptions.offline;
        let news = new.offline.iter().filter(|(key, _)| !known.contains_key(key));
        let news = news.map(|(_, offline)| offline.clone()).collect();
        self.exceptions = new;
        news
    }

    fn revoke(&mut self, key: Key, revoked: bool) {
        let Some(part) = self.parts.get_mut(&key).filter(|part| part.revoked != revoked) else { return };
        part.revoked = revoked;
        // Starts at its position with the next poll, if it stays after all.
        part.reading = Reading::Idle;
        if revoked {
            part.broken = None;
            // What was fetched and not handed out is the next owner's; so are answers under way.
            part.read_to = part.position.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
            self.generation += 1;
            part.generation = self.generation;
            self.queue.retain(|queued| queued.key != key);
            self.errors.retain(|(of, _)| *of != key);
            self.requests.push_back(Request::Stop(key));
        }
    }

    /// A hand-over whose vgroups the application is done with, once.
    pub(crate) fn next_release(&mut self) -> Option<Release> {
        let parts = &self.parts;
        let is_done = |topic: u64| {
            let mut revoked = parts.iter().filter(|(key, part)| key.topic == topic && part.revoked);
            revoked.all(|(_, part)| !part.in_hands && part.committing.is_none())
        };
        let mut open = self.exceptions.hand_overs.iter_mut().filter(|(_, hand_over)| !hand_over.released);
        let (&topic, hand_over) = open.find(|(topic, _)| is_done(**topic))?;
        hand_over.released = true;
        let hand_over = hand_over.number;
        let commits = match self.settings.auto_commit_interval {
            Some(_) => self.commit_revoked(topic),
            None => Vec::new(),
        };
        Some(Release { topic, hand_over, commits })
    }

    /// A new session's coordinator may not know what the last one was told.
    pub(super) fn release_again(&mut self) {
        self.exceptions.hand_overs.values_mut().for_each(|hand_over| hand_over.released = false);
    }

    /// Vgroups of which nothing is delivered.
    pub(crate) fn offline(&self) -> Vec<OfflineVgroup> {
        let broken = self.parts.keys().filter_map(|key| Some((*key, self.broken(*key)?)));
        let mut offline: BTreeMap<_, _> = broken.collect();
        offline.extend(self.exceptions.offline.iter().map(|(key, offline)| (*key, offline.clone())));
        offline.into_values().collect()
    }
}
