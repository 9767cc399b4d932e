//! Children that writes in flight will make: as good as there for the next write, and not to be made twice.

use std::collections::{HashMap, VecDeque};

use model::TableUid;

use crate::state::VnodeState;

/// A child in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingChild {
    pub(crate) uid: TableUid,
    pub(crate) stable: TableUid,
}

/// Children in flight, in the order of their records.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    by_name: HashMap<String, PendingChild>,
    in_order: VecDeque<(TableUid, String)>,
    /// Number that the next table gets; never falls, also when a proposal fails.
    pub(crate) next_table: u64,
}

impl Overlay {
    pub(crate) fn starting(next_table: u64) -> Self {
        Self { next_table, ..Self::default() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<PendingChild> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn add(&mut self, name: String, child: PendingChild) {
        self.in_order.push_back((child.uid, name.clone()));
        self.by_name.insert(name, child);
        self.next_table = self.next_table.max(child.uid.counter().saturating_add(1));
    }

    /// Forgets those that the state shows by now. Records are applied in order, so looking at the front is enough.
    pub(crate) fn settle(&mut self, state: &VnodeState) {
        self.next_table = self.next_table.max(state.next_table());
        while let Some((uid, _)) = self.in_order.front()
            && state.tables.entry(*uid).is_some()
            && let Some((_, name)) = self.in_order.pop_front()
        {
            self.by_name.remove(&name);
        }
    }

    /// Nothing is in flight any more, whatever became of it.
    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
        self.in_order.clear();
    }
}
