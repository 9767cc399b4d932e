//! What must hold, kept apart from what makes it so.

use std::collections::{BTreeMap, BTreeSet};

use model::{ConsumerId, Epoch, TopicId, Version, VgroupId};

use crate::rows::{Filter, Row};

/// A group's reading of one topic in one vgroup.
pub type Place = (TopicId, String, VgroupId);

/// What a group has come to.
#[derive(Debug, Default)]
struct Reach {
    /// Where the group began: nothing below it is owed.
    floor: Version,
    committed: Option<Version>,
    /// Records that the application has done with.
    handled: BTreeSet<u64>,
    /// Records below have been found handled.
    checked: Version,
}

/// One shard as its log should look.
#[derive(Debug, Default)]
struct Log {
    /// Rows by version of their record.
    records: BTreeMap<u64, Vec<Row>>,
    /// What each topic showed, and from which version on.
    shown: BTreeMap<TopicId, Vec<(Version, Filter)>>,
}

impl Log {
    /// What is owed of the record at `version`, whatever definition it was read by.
    fn owed(&self, topic: TopicId, version: u64) -> bool {
        let Some(history) = self.shown.get(&topic) else { return false };
        let in_force = history.partition_point(|(from, _)| from.0 <= version).saturating_sub(1);
        let rows = &self.records[&version];
        rows.iter().any(|row| history[in_force..].iter().all(|(_, filter)| filter.shows(*row)))
    }
}

#[derive(Debug, Default)]
pub struct Oracle {
    logs: BTreeMap<VgroupId, Log>,
    groups: BTreeMap<Place, Reach>,
    /// Who ever held a token.
    tokens: BTreeMap<(Place, Epoch), ConsumerId>,
    /// End of the last message by consumer, topic, vgroup and token.
    ends: BTreeMap<(u64, u64, u32, Epoch), u64>,
    /// Messages handed out.
    pub messages: usize,
    pub commits: usize,
}

impl Oracle {
    pub fn written(&mut self, vgroup: VgroupId, version: Version, rows: Vec<Row>) {
        self.logs.entry(vgroup).or_default().records.insert(version.0, rows);
    }

    pub fn shows(&mut self, vgroup: VgroupId, topic: TopicId, from: Version, filter: Filter) {
        let history = self.logs.entry(vgroup).or_default().shown.entry(topic).or_default();
        if history.last().is_none_or(|(_, last)| *last != filter) {
            history.push((from, filter));
        }
    }

    /// A reader of the shard gives exactly what the definition in force shows of these records.
    pub fn read(&self, vgroup: VgroupId, topic: TopicId, begin: Version, next: Version, ids: &[i64]) {
        let log = &self.logs[&vgroup];
        let (_, filter) = log.shown[&topic].last().unwrap();
        let rows = log.records.range(begin.0..next.0).flat_map(|(_, rows)| rows);
        let due: Vec<i64> = rows.filter(|row| filter.shows(**row)).map(|(id, _)| *id).collect();
        assert_eq!(ids, due, "rows of {vgroup} topic {topic} in {begin}..{next}");
    }

    /// A consumer is told that it owns this.
    pub fn believes(&mut self, place: Place, epoch: Epoch, consumer: ConsumerId) {
        let first = *self.tokens.entry((place.clone(), epoch)).or_insert(consumer);
        assert_eq!(first, consumer, "two owners of {place:?} in epoch {epoch}");
    }

    /// The application is handed a message.
    pub fn handed_out(
        &mut self,
        consumer: u64,
        (topic, vgroup): (u64, u32),
        epoch: Epoch,
        (begin, next): (u64, u64),
        rows: &[(u64, i64)],
    ) {
        self.messages += 1;
        let end = self.ends.entry((consumer, topic, vgroup, epoch)).or_insert(0);
        assert!(begin >= *end && next > begin, "{consumer} gets {begin}..{next} of {vgroup} after {end}");
        *end = next;
        let records = &self.logs[&VgroupId(vgroup)].records;
        for (version, id) in rows {
            assert!((begin..next).contains(version), "record {version} in {begin}..{next}");
            assert!(records[version].iter().any(|(of, _)| of == id), "row {id} is not of record {version}");
        }
    }

    /// The consumer has only this left; what it gets once more it begins anew.
    pub fn keeps(&mut self, consumer: u64, tokens: &BTreeMap<(u64, u32), Epoch>) {
        let kept = |key: &(u64, u64, u32, Epoch)| tokens.get(&(key.1, key.2)) == Some(&key.3);
        self.ends.retain(|key, _| key.0 != consumer || kept(key));
    }

    /// The application has done with these records.
    pub fn handled(&mut self, place: Place, versions: impl Iterator<Item = u64>) {
        self.groups.entry(place).or_default().handled.extend(versions);
    }

    /// The shard forgot the group.
    pub fn forgotten(&mut self, place: &Place) {
        self.groups.remove(place);
    }

    /// `latest` was resolved.
    pub fn starts(&mut self, place: Place, at: Version) {
        let reach = self.groups.entry(place).or_default();
        (reach.floor, reach.checked) = (at, at);
    }

    /// What the shard holds as committed: nothing goes back, and nothing below was not handled.
    pub fn committed(&mut self, place: &Place, offset: Version) {
        let (topic, _, vgroup) = place;
        let reach = self.groups.entry(place.clone()).or_default();
        if reach.committed == Some(offset) {
            return;
        }
        self.commits += 1;
        assert!(
            reach.committed.is_none_or(|last| last <= offset),
            "{place:?} goes back to {offset}: {reach:?}"
        );
        reach.committed = Some(offset);
        let from = reach.checked.max(reach.floor).0;
        if let Some(log) = self.logs.get(vgroup) {
            for (version, _) in log.records.range(from..offset.0.max(from)) {
                let ok = reach.handled.contains(version) || !log.owed(*topic, *version);
                assert!(ok, "{place:?} commits {offset}, nobody handled {version}: {reach:?}");
            }
        }
        reach.checked = reach.checked.max(offset);
    }

    /// At the end every record that is owed has been handled.
    pub fn complete(&self, place: &Place) {
        let (topic, _, vgroup) = place;
        let Some(log) = self.logs.get(vgroup) else { return };
        let none = Reach::default();
        let reach = self.groups.get(place).unwrap_or(&none);
        for (version, _) in log.records.range(reach.floor.max(reach.checked).0..) {
            let ok = reach.handled.contains(version) || !log.owed(*topic, *version);
            assert!(ok, "{place:?} never got {version}: {reach:?}");
        }
    }

    /// The group's members have started at every vgroup: there is a floor or an offset.
    pub fn has_started(&self, place: &Place) -> bool {
        self.groups.get(place).is_some_and(|reach| reach.floor > Version(0) || reach.committed.is_some())
    }
}
