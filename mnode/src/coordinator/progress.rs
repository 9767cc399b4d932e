//! How far consumers say they are: the latest report of each vgroup's owner.

use std::collections::BTreeMap;

use model::{ConsumerId, Epoch, TopicId, Version, VgroupId};

use crate::state::{Group, GroupKey, MnodeState, Place, ReportedOffset, Settled};

/// One vgroup in a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceReport {
    /// Topic.
    pub topic: TopicId,
    /// Vgroup.
    pub vgroup: VgroupId,
    /// The token under which the consumer has it.
    pub epoch: Epoch,
    /// Position and log end, taken at one moment.
    pub place: Place,
    /// Rows delivered to the application since it got the vgroup with this token.
    pub rows: u64,
}

/// A commit that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerCommit {
    /// Whose.
    pub consumer: ConsumerId,
    /// Topic.
    pub topic: TopicId,
    /// Vgroup.
    pub vgroup: VgroupId,
    /// The token under which the consumer has it.
    pub epoch: Epoch,
    /// Next version to read.
    pub offset: Version,
}

/// What SHOW SUBSCRIPTIONS says of a vgroup of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last place reported by whoever had it last; none before the first report.
    pub place: Option<Place>,
    /// Rows delivered to the group, by all owners together.
    pub rows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Report {
    consumer: ConsumerId,
    epoch: Epoch,
    place: Place,
    rows: u64,
}

/// The latest report for each vgroup of each group.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<GroupKey, BTreeMap<VgroupId, Report>>);

impl Reports {
    /// Takes only what comes from the owner in force: a late report of a former owner would hide the new one's.
    pub(super) fn report(
        &mut self,
        state: &MnodeState,
        consumer: ConsumerId,
        key: GroupKey,
        report: &PlaceReport,
    ) {
        let owner = state.group(&key).and_then(|g| g.owners.get(&report.vgroup));
        if owner.is_none_or(|o| o.consumer != Some(consumer) || o.epoch != report.epoch) {
            return;
        }
        let (mut place, mut rows) = (report.place, report.rows);
        if let ReportedOffset::Log(offset) = place.offset {
            // A consumer that sought ahead of what it had seen of the log must not show an offset beyond its end.
            place.end = place.end.max(offset);
        }
        let reports = self.0.entry(key).or_default();
        if let Some(last) = reports.get(&report.vgroup)
            && (last.consumer, last.epoch) == (consumer, report.epoch)
        {
            // Heartbeats may overtake each other; what was delivered stays delivered.
            rows = rows.max(last.rows);
        }
        reports.insert(report.vgroup, Report { consumer, epoch: report.epoch, place, rows });
    }

    /// Whoever commits has read as far: what is shown must not lie below what it has committed since it reported.
    pub(super) fn committed(&mut self, key: &GroupKey, commit: &OwnerCommit) {
        let report = self.0.get_mut(key).and_then(|reports| reports.get_mut(&commit.vgroup));
        let is_owners =
            |report: &&mut Report| (report.consumer, report.epoch) == (commit.consumer, commit.epoch);
        let Some(Report { place, .. }) = report.filter(is_owners) else { return };
        let offset = commit.offset.0;
        if !matches!(place.offset, ReportedOffset::Log(at) if at >= offset) {
            *place = Place { offset: ReportedOffset::Log(offset), end: place.end.max(offset) };
        }
    }

    /// What the owner in force has reported under its token.
    pub(super) fn of_owner(&self, group: &Group, key: &GroupKey, vgroup: VgroupId) -> Option<Settled> {
        let owner = group.owners.get(&vgroup)?;
        let report = self.0.get(key)?.get(&vgroup)?;
        let current = owner.consumer == Some(report.consumer) && owner.epoch == report.epoch;
        current.then_some(Settled { rows: report.rows, place: Some(report.place) })
    }

    pub(super) fn retain(&mut self, state: &MnodeState) {
        self.0.retain(|key, _| state.group(key).is_some());
    }
}

impl super::Coordinator {
    /// Progress of a group in a vgroup.
    #[must_use]
    pub fn progress(&self, group: &Group, key: &GroupKey, vgroup: VgroupId) -> Progress {
        let settled = group.settled.get(&vgroup).copied().unwrap_or_default();
        let current = self.progress.of_owner(group, key, vgroup).unwrap_or_default();
        Progress { place: current.place.or(settled.place), rows: settled.rows.saturating_add(current.rows) }
    }
}
