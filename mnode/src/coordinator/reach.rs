//! Shards that do not serve, or could not be told an owner. They are left out of rebalances, so that one damaged shard
//! does not hold the others' hand-over back, and are tried again with growing patience.

use std::collections::{BTreeMap, BTreeSet};

use model::{Code, Error, Result, VgroupId};

use crate::state::GroupKey;

/// Longest patience, in ticks.
const TICKS_MAX: u32 = 16;

#[derive(Clone, Debug)]
struct Failing {
    strikes: u32,
    /// Ticks until it is asked again; `None` once it said that it is back.
    wait: Option<u32>,
    /// What it said last.
    error: Error,
    /// It said that it does not serve at all; else it only took no owner, and whoever owns it may go on reading.
    gone: bool,
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

    fn offline(&self, vgroup: VgroupId) -> Option<&Failing> {
        self.failing.get(&vgroup).filter(|failing| failing.wait.is_some())
    }

    /// What assignments say of a vgroup, whoever they are for.
    fn told(&self, vgroup: VgroupId) -> Option<(bool, Code, String)> {
        let failing = self.offline(vgroup)?;
        Some((failing.gone, failing.error.code(), failing.error.message().to_owned()))
    }
}

impl super::Coordinator {
    /// A shard did not take its new owner: the group's switch is given up and planned anew without it. Whether members are
    /// to look at their assignments again.
    #[must_use]
    pub fn switch_failed(&mut self, key: &GroupKey, vgroup: VgroupId, error: Error) -> bool {
        let before = self.reach.told(vgroup);
        let new = Failing { strikes: 0, wait: None, error: error.clone(), gone: false };
        let failing = self.reach.failing.entry(vgroup).or_insert(new);
        failing.error = error;
        failing.strikes = failing.strikes.saturating_add(1);
        failing.wait = Some(1_u32.checked_shl(failing.strikes - 1).unwrap_or(TICKS_MAX).min(TICKS_MAX));
        self.reach.failed.insert(key.clone());
        self.reach.told(vgroup) != before
    }

    /// The group's switch is over, one way or another.
    pub fn switch_replaced(&mut self, key: &GroupKey) {
        self.reach.failed.remove(key);
    }

    /// A shard has taken a new owner.
    pub fn switched(&mut self, vgroup: VgroupId) {
        if self.offline(vgroup).is_none() {
            self.reach.failing.remove(&vgroup);
        }
    }

    /// Shards that are due to be asked whether they are back.
    #[must_use]
    pub fn probes(&self) -> Vec<VgroupId> {
        self.reach.failing.iter().filter(|(_, f)| f.wait == Some(0)).map(|(vgroup, _)| *vgroup).collect()
    }

    /// What a shard answered that was asked whether it serves. Whether members are to look at their assignments again: a
    /// shard may go and come back while its owner stays the same, and then no rebalance tells them.
    #[must_use]
    pub fn probed(&mut self, vgroup: VgroupId, ready: Result<()>) -> bool {
        let before = self.reach.told(vgroup);
        match ready {
            Ok(()) => {
                if let Some(failing) = self.reach.failing.get_mut(&vgroup) {
                    (failing.wait, failing.gone) = (None, false);
                }
            }
            Err(error) => {
                let new = Failing { strikes: 0, wait: None, error: error.clone(), gone: true };
                let failing = self.reach.failing.entry(vgroup).or_insert(new);
                (failing.error, failing.gone) = (error, true);
                failing.wait = Some(TICKS_MAX.min(1 << failing.strikes.min(4)));
            }
        }
        self.reach.told(vgroup) != before
    }

    /// Why nobody is given this vgroup, if so.
    #[must_use]
    pub fn offline(&self, vgroup: VgroupId) -> Option<&Error> {
        self.reach.offline(vgroup).map(|failing| &failing.error)
    }

    /// Whether the shard does not serve at all, so that owning it is of no use.
    #[must_use]
    pub fn is_gone(&self, vgroup: VgroupId) -> bool {
        self.reach.offline(vgroup).is_some_and(|failing| failing.gone)
    }

    pub(super) fn has_failed(&self, key: &GroupKey) -> bool {
        self.reach.failed.contains(key)
    }
}
