//! Shards that could not be told an owner. They are left out of rebalances, so that one damaged shard does not hold the
//! others' hand-over back, and are tried again with growing patience.

use std::collections::{BTreeMap, BTreeSet};

use model::VgroupId;

use crate::state::GroupKey;

/// Longest patience, in ticks.
const TICKS_MAX: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Failing {
    strikes: u32,
    /// Ticks until it is asked again; `None` once it said that it is back.
    wait: Option<u32>,
}

/// Which shards are out of reach, and which groups' switch came to nothing because of it.
#[derive(Debug, Default)]
pub(super) struct Reach {
    failing: BTreeMap<VgroupId, Failing>,
    failed: BTreeSet<GroupKey>,
}

impl Reach {
    pub(super) fn tick(&mut self) {
        for wait in self.failing.values_mut().filter_map(|f| f.wait.as_mut()) {
            *wait = wait.saturating_sub(1);
        }
    }

    fn is_offline(&self, vgroup: VgroupId) -> bool {
        self.failing.get(&vgroup).is_some_and(|f| f.wait.is_some())
    }
}

impl super::Coordinator {
    /// A shard did not take its new owner: the group's switch is given up and planned anew without it.
    pub fn switch_failed(&mut self, key: &GroupKey, vgroup: VgroupId) {
        let failing = self.reach.failing.entry(vgroup).or_insert(Failing { strikes: 0, wait: None });
        failing.strikes = failing.strikes.saturating_add(1);
        failing.wait = Some(1_u32.checked_shl(failing.strikes - 1).unwrap_or(TICKS_MAX).min(TICKS_MAX));
        self.reach.failed.insert(key.clone());
    }

    /// The group's switch is over, one way or another.
    pub fn switch_replaced(&mut self, key: &GroupKey) {
        self.reach.failed.remove(key);
    }

    /// A shard has taken a new owner.
    pub fn switched(&mut self, vgroup: VgroupId) {
        if !self.is_offline(vgroup) {
            self.reach.failing.remove(&vgroup);
        }
    }

    /// Shards that are due to be asked whether they are back.
    #[must_use]
    pub fn probes(&self) -> Vec<VgroupId> {
        self.reach.failing.iter().filter(|(_, f)| f.wait == Some(0)).map(|(vgroup, _)| *vgroup).collect()
    }

    /// What such a shard answered.
    pub fn probed(&mut self, vgroup: VgroupId, ready: bool) {
        if let Some(failing) = self.reach.failing.get_mut(&vgroup) {
            failing.wait = if ready { None } else { Some(TICKS_MAX.min(1 << failing.strikes.min(4))) };
        }
    }

    pub(super) fn is_offline(&self, vgroup: VgroupId) -> bool {
        self.reach.is_offline(vgroup)
    }

    pub(super) fn has_failed(&self, key: &GroupKey) -> bool {
        self.reach.failed.contains(key)
    }
}
