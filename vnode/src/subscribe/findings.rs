//! What readers have found out and nothing in the log says: where a topic shows nothing, what retention took from a
//! group, damage. In memory: it begins anew with the shard.

use std::collections::BTreeMap;

use model::{Error, TopicId, Version, VgroupId};
use parking_lot::Mutex;

use super::together::Together;
use crate::state::GroupKey;

/// Versions that retention took from groups before they read them, all shards and groups of this process together: those of
/// the gaps that readers met. Counted through the `metrics` facade, for whatever recorder the process has.
pub const SKIPPED_VERSIONS: &str = "tidemark_subscribe_skipped_versions_total";
/// Gaps that readers met.
pub const GAPS: &str = "tidemark_subscribe_gaps_total";

/// How far a group is behind, as SHOW SUBSCRIPTIONS tells it. `docs/positions.md` defines both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Versions that may hold something for the group; `None` where it is not known where it would go on.
    pub lag: Option<u64>,
    /// Versions that retention took before the group read them, since the shard was opened.
    pub skipped: u64,
}

/// One group on one topic.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    /// Between these two the topic shows nothing: the end of what was handed out last, and how far was looked since.
    delivered: Version,
    read_to: Version,
    /// End of the last gap. What lies below it has been counted.
    gap_to: Version,
    skipped: u64,
}

impl Reach {
    /// Where a group at `position` has something to read at the earliest.
    fn unread_from(&self, position: Version) -> Version {
        let is_blank = self.delivered <= position && position < self.read_to;
        if is_blank { self.read_to } else { position }
    }
}

/// Of one shard.
#[derive(Debug)]
pub(crate) struct Findings {
    vgroup: VgroupId,
    groups: Mutex<BTreeMap<GroupKey, Reach>>,
    /// The version that could not be read, and why.
    damage: Mutex<Option<(Version, Error)>>,
    /// Readers that may have the same work.
    pub(super) together: Together,
}

impl Findings {
    pub(crate) fn new(vgroup: VgroupId) -> Self {
        Self { vgroup, groups: Mutex::default(), damage: Mutex::default(), together: Together::default() }
    }

    pub(super) const fn vgroup(&self) -> VgroupId {
        self.vgroup
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> super::together::Counts {
        self.together.counts()
    }

    fn change<T>(&self, key: &GroupKey, change: impl FnOnce(&mut Reach) -> T) -> T {
        let mut groups = self.groups.lock();
        match groups.get_mut(key) {
            Some(reach) => change(reach),
            None => change(groups.entry(key.clone()).or_default()),
        }
    }

    fn of(&self, key: &GroupKey) -> Reach {
        self.groups.lock().get(key).copied().unwrap_or_default()
    }

    /// A batch that ends at `next` is handed out.
    pub(super) fn delivered(&self, key: &GroupKey, next: Version) {
        self.change(key, |reach| (reach.delivered, reach.read_to) = (next, next));
    }

    /// A reader found nothing to show in `from..to`.
    pub(super) fn nothing_in(&self, key: &GroupKey, from: Version, to: Version) {
        self.change(key, |reach| {
            if reach.read_to != from {
                reach.delivered = from;
            }
            reach.read_to = to;
        });
    }

    /// Where a group at `position` has something to read at the earliest.
    pub(super) fn unread_from(&self, key: &GroupKey, position: Version) -> Version {
        self.of(key).unread_from(position)
    }

    /// Retention took `from..to` from a group. Whether any of it is news: a reader that takes over, or tries again, meets
    /// the same gap.
    pub(super) fn gap(&self, key: &GroupKey, from: Version, to: Version) -> bool {
        let lost = self.change(key, |reach| {
            let lost = to.0.saturating_sub(from.max(reach.gap_to).0);
            reach.skipped += lost;
            reach.gap_to = reach.gap_to.max(to);
            lost
        });
        if lost > 0 {
            metrics::counter!(SKIPPED_VERSIONS).increment(lost);
            metrics::counter!(GAPS).increment(1);
        }
        lost > 0
    }

    /// How far a group is behind that goes on at `position`, in a log that begins at `first` and shows topics nothing from
    /// `shown_end` on.
    pub(crate) fn behind(
        &self,
        key: &GroupKey,
        position: Option<Version>,
        first: Version,
        shown_end: Version,
    ) -> Behind {
        let reach = self.of(key);
        let Some(position) = position else { return Behind { lag: None, skipped: reach.skipped } };
        let unread = reach.unread_from(position);
        let lag = shown_end.0.saturating_sub(unread.max(first).0);
        // Gone, though no reader has come upon it yet.
        let gone = first.0.saturating_sub(unread.max(reach.read_to).max(reach.gap_to).0);
        Behind { lag: Some(lag), skipped: reach.skipped.saturating_add(gone) }
    }

    /// The same where the topic shows nothing at all because its table is not here.
    pub(crate) fn beside(&self, key: &GroupKey, position: Option<Version>) -> Behind {
        Behind { lag: position.map(|_| 0), skipped: self.of(key).skipped }
    }

    /// A group was dropped.
    pub(crate) fn forget_group(&self, topic: TopicId, group: &str) {
        self.groups.lock().retain(|key, _| key.0 != topic || key.1 != group);
    }

    /// A topic was told to change, or to go; whether that `applied` says that it was news.
    pub(crate) fn topic_changed(&self, topic: TopicId, is_drop: bool, applied: bool) {
        if is_drop {
            self.forget_topic(topic);
        } else if applied {
            self.reloaded(topic);
        }
    }

    /// A topic was dropped.
    fn forget_topic(&self, topic: TopicId) {
        self.groups.lock().retain(|key, _| key.0 != topic);
    }

    /// A topic shows other things from now on: also of what had nothing to show.
    fn reloaded(&self, topic: TopicId) {
        let mut groups = self.groups.lock();
        groups
            .iter_mut()
            .filter(|(key, _)| key.0 == topic)
            .for_each(|(_, reach)| reach.read_to = reach.delivered);
    }

    /// The record at `version` cannot be read. Logged once, however many readers come upon it.
    pub(super) fn damaged(&self, version: Version, first: Version, error: &Error) {
        let mut damage = self.damage.lock();
        if damage.as_ref().is_none_or(|(at, _)| *at < first) {
            tracing::error!(vgroup = %self.vgroup, %version, %error, "log is damaged: consumers do not get past it");
            *damage = Some((version, error.clone()));
        }
    }

    /// Damage in a log that begins at `first`. Retention takes damaged segments like others.
    pub(crate) fn damage(&self, first: Version) -> Option<Error> {
        self.damage.lock().as_ref().filter(|(at, _)| *at >= first).map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use model::Code;

    use super::*;

    const T: TopicId = TopicId(1);
    const FIRST: Version = Version(0);

    fn key() -> GroupKey {
        (T, "g".into())
    }

    fn lag(findings: &Findings, position: u64, shown_end: u64) -> Option<u64> {
        findings.behind(&key(), Some(Version(position)), FIRST, Version(shown_end)).lag
    }

    #[test]
    fn what_the_topic_does_not_show_is_no_lag() {
        let findings = Findings::new(VgroupId(2));
        assert_eq!(lag(&findings, 10, 50), Some(40), "nobody has looked");
        findings.delivered(&key(), Version(20));
        assert_eq!(lag(&findings, 10, 50), Some(40), "the consumer has yet to take what was handed out");
        findings.nothing_in(&key(), Version(20), Version(30));
        findings.nothing_in(&key(), Version(30), Version(50));
        assert_eq!(lag(&findings, 20, 50), Some(0), "nothing follows what was handed out");
        assert_eq!(lag(&findings, 19, 50), Some(31), "sought back: the last message comes again");
        assert_eq!(lag(&findings, 20, 53), Some(3), "not looked at yet");
        findings.nothing_in(&key(), Version(5), Version(8));
        assert_eq!((lag(&findings, 5, 50), lag(&findings, 20, 50)), (Some(42), Some(30)), "after a seek");
        findings.reloaded(T);
        assert_eq!(lag(&findings, 5, 50), Some(45), "the new definition may show it");
        assert_eq!(lag(&findings, 90, 50), Some(0), "records of our own behind the last one shown");
        findings.forget_group(T, "g");
        assert_eq!(findings.behind(&key(), None, FIRST, Version(50)), Behind::default());
    }

    #[test]
    fn a_gap_counts_once_whoever_meets_it() {
        let findings = Findings::new(VgroupId(2));
        let skipped =
            |first: u64| findings.behind(&key(), Some(Version(10)), Version(first), Version(90)).skipped;
        assert_eq!(skipped(40), 30, "before any reader has come upon it");
        assert!(findings.gap(&key(), Version(10), Version(40)));
        assert_eq!(skipped(40), 30);
        assert!(!findings.gap(&key(), Version(10), Version(40)), "taken over without a commit");
        assert!(findings.gap(&key(), Version(10), Version(45)), "and more went meanwhile");
        assert_eq!(skipped(45), 35);
        findings.forget_topic(T);
        assert_eq!(findings.behind(&key(), None, FIRST, Version(0)).skipped, 0);
    }

    #[test]
    fn what_a_reader_has_found_blank_is_not_missed() {
        let findings = Findings::new(VgroupId(2));
        findings.delivered(&key(), Version(20));
        findings.nothing_in(&key(), Version(20), Version(60));
        assert_eq!(findings.unread_from(&key(), Version(20)), Version(60));
        let behind = findings.behind(&key(), Some(Version(20)), Version(50), Version(60));
        assert_eq!(behind, Behind { lag: Some(0), skipped: 0 });
    }

    #[test]
    fn damage_goes_with_its_segment() {
        let findings = Findings::new(VgroupId(2));
        findings.damaged(Version(7), FIRST, &Error::with(Code::Damaged, "first"));
        findings.damaged(Version(9), FIRST, &Error::with(Code::Damaged, "second"));
        let told = |first: u64| findings.damage(Version(first)).map(|error| error.to_string());
        assert!(told(7).is_some_and(|error| error.contains("first")), "{:?}", told(7));
        assert_eq!(told(8), None);
        findings.damaged(Version(9), Version(8), &Error::with(Code::Damaged, "second"));
        assert!(told(8).is_some_and(|error| error.contains("second")));
    }
}
