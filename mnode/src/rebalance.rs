//! Who reads which vgroup: the pure function behind every rebalance of a (consumer group, topic) pair.

use std::collections::{BTreeMap, BTreeSet};

use model::{ConsumerId, VgroupId};
use serde::{Deserialize, Serialize};

/// The vgroups of one (consumer group, topic) pair and who owns each. One entry a vgroup, so that a vgroup with two
/// owners, or one that was forgotten, cannot be written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Owner of each vgroup; `None` is the pool.
    pub owners: BTreeMap<VgroupId, Option<ConsumerId>>,
}

impl Assignment {
    /// Number of vgroups that `consumer` owns.
    #[must_use]
    pub fn count_of(&self, consumer: ConsumerId) -> usize {
        self.owners.values().filter(|owner| **owner == Some(consumer)).count()
    }

    /// Vgroups whose owner in `next` is not the one here. New vgroups count if they get an owner, vanished ones do not.
    pub fn moved<'a>(&'a self, next: &'a Self) -> impl Iterator<Item = VgroupId> + 'a {
        next.owners
            .iter()
            .filter(|(vgroup, owner)| self.owners.get(vgroup).copied().flatten() != **owner)
            .map(|(vgroup, _)| *vgroup)
    }
}

/// Spreads `vgroups` over `members`: counts differ by at most one, no other assignment with that property takes fewer
/// vgroups from members that stay, and equal input gives equal output.
///
/// Vgroups that are not in `vgroups` are forgotten, new ones and those of members that left go to the pool first. Where
/// several members could keep the odd vgroup, those with the lowest ids do; a member that must give up vgroups gives up
/// the highest-numbered. Without members everything stays in the pool. O(vgroups x log members).
#[must_use]
pub fn rebalance(
    current: &Assignment,
    members: &BTreeSet<ConsumerId>,
    vgroups: &BTreeSet<VgroupId>,
) -> Assignment {
    let Some(quota) = vgroups.len().checked_div(members.len()) else {
        return Assignment { owners: vgroups.iter().map(|v| (*v, None)).collect() };
    };
    let mut odd = vgroups.len() % members.len();

    let mut held: BTreeMap<ConsumerId, Vec<VgroupId>> = members.iter().map(|m| (*m, Vec::new())).collect();
    let mut pool = Vec::new();
    for vgroup in vgroups {
        let owner = current.owners.get(vgroup).copied().flatten();
        owner.and_then(|o| held.get_mut(&o)).unwrap_or(&mut pool).push(*vgroup);
    }
    for vgroups in held.values_mut().filter(|v| v.len() > quota) {
        let keep = quota + usize::from(odd > 0);
        odd -= usize::from(odd > 0);
        pool.extend(vgroups.drain(keep..));
    }
    // In vgroup order, so that which vgroup goes where does not depend on who gave it up.
    pool.sort_unstable();
    let mut pool = pool.into_iter();
    for vgroups in held.values_mut() {
        let missing = quota.saturating_sub(vgroups.len());
        vgroups.extend(pool.by_ref().take(missing));
    }
    // Those that kept an odd one hold more than the quota, so what is left goes round the others.
    for (vgroups, vgroup) in held.values_mut().filter(|v| v.len() == quota).zip(pool) {
        vgroups.push(vgroup);
    }

    let owned = |(member, vgroups): (ConsumerId, Vec<VgroupId>)| {
        vgroups.into_iter().map(move |vgroup| (vgroup, Some(member)))
    };
    Assignment { owners: held.into_iter().flat_map(owned).collect() }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;

    fn set<T: Ord>(items: impl IntoIterator<Item = u32>, of: impl Fn(u32) -> T) -> BTreeSet<T> {
        items.into_iter().map(of).collect()
    }

    fn members(ids: impl IntoIterator<Item = u32>) -> BTreeSet<ConsumerId> {
        set(ids, |id| ConsumerId(id.into()))
    }

    fn vgroups(ids: impl IntoIterator<Item = u32>) -> BTreeSet<VgroupId> {
        set(ids, VgroupId)
    }

    fn counts(assignment: &Assignment, members: &BTreeSet<ConsumerId>) -> Vec<usize> {
        members.iter().map(|m| assignment.count_of(*m)).collect()
    }

    /// Vgroups taken from members that stay: what "fewest moves" counts. Those without an owner have to move anyway.
    fn taken(from: &Assignment, to: &Assignment, members: &BTreeSet<ConsumerId>) -> usize {
        let had_living_owner = |v: &VgroupId| {
            from.owners.get(v).copied().flatten().is_some_and(|owner| members.contains(&owner))
        };
        from.moved(to).filter(had_living_owner).count()
    }

    #[test]
    fn four_vgroups_over_one_to_five_members() {
        let vgroups = vgroups(2..6);
        let mut assignment = Assignment::default();
        for (n, want) in [
            (1, vec![4]),
            (2, vec![2, 2]),
            (3, vec![2, 1, 1]),
            (4, vec![1; 4]),
            (5, vec![1, 1, 1, 1, 0]),
            (0, vec![]),
        ] {
            let members = members(1..=n);
            assignment = rebalance(&assignment, &members, &vgroups);
            assert_eq!(counts(&assignment, &members), want);
            assert_eq!(assignment.owners.len(), 4, "none is forgotten");
        }
        assert!(assignment.owners.values().all(Option::is_none), "all in the pool without members");
    }

    #[test]
    fn a_joining_member_moves_two_of_four() {
        let vgroups = vgroups(2..6);
        let alone = rebalance(&Assignment::default(), &members([1]), &vgroups);
        let both = rebalance(&alone, &members([1, 2]), &vgroups);
        assert_eq!(alone.moved(&both).count(), 2);
        let alone_again = rebalance(&both, &members([2]), &vgroups);
        assert_eq!(both.moved(&alone_again).count(), 2, "what the other owned, nothing else");
    }

    #[test]
    fn vanished_vgroups_are_forgotten_and_new_ones_are_spread() {
        let before = rebalance(&Assignment::default(), &members([1, 2]), &vgroups(2..6));
        let after = rebalance(&before, &members([1, 2]), &vgroups([3, 4, 5, 9]));
        assert_eq!(after.owners.keys().copied().collect::<BTreeSet<_>>(), vgroups([3, 4, 5, 9]));
        assert_eq!(before.moved(&after).collect::<Vec<_>>(), [VgroupId(9)]);
    }

    /// Every assignment of `vgroups` to `members` with counts within one.
    fn even_assignments(members: &BTreeSet<ConsumerId>, vgroups: &BTreeSet<VgroupId>) -> Vec<Assignment> {
        let mut all = vec![Assignment::default()];
        for vgroup in vgroups {
            all = all
                .into_iter()
                .flat_map(|a| {
                    members.iter().map(move |m| {
                        let mut owners = a.owners.clone();
                        owners.insert(*vgroup, Some(*m));
                        Assignment { owners }
                    })
                })
                .collect();
        }
        all.retain(|a| within_one(a, members));
        all
    }

    fn within_one(assignment: &Assignment, members: &BTreeSet<ConsumerId>) -> bool {
        let counts = counts(assignment, members);
        counts.iter().max().zip(counts.iter().min()).is_none_or(|(max, min)| max - min <= 1)
    }

    #[test]
    fn no_even_assignment_takes_fewer_than_ours() {
        // Every start over 4 vgroups and owners {none, 1, 2, 3 (leaving), 4}, against every set of members.
        let now = vgroups([2, 3, 4, 6]);
        let sets = [members([1]), members([1, 2]), members([1, 2, 4]), members([1, 2, 4, 7, 8])];
        let even: Vec<_> = sets.iter().map(|m| even_assignments(m, &now)).collect();
        for code in 0..5_u32.pow(4) {
            let owner = |slot: u32| match code / 5_u32.pow(slot) % 5 {
                0 => None,
                id => Some(ConsumerId(id.into())),
            };
            let start = Assignment { owners: (0..4).map(|slot| (VgroupId(2 + slot), owner(slot))).collect() };
            for (members, even) in sets.iter().zip(&even) {
                let ours = rebalance(&start, members, &now);
                assert!(within_one(&ours, members), "{start:?} -> {ours:?}");
                let best = even.iter().map(|a| taken(&start, a, members)).min().unwrap();
                assert_eq!(taken(&start, &ours, members), best, "{start:?} -> {ours:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn even_complete_single_stable_and_deterministic(
            start in prop::collection::btree_map(0_u32..40, prop::option::of(0_u64..12), 0..40),
            member_ids in prop::collection::btree_set(0_u32..12, 0..12),
            vgroup_ids in prop::collection::btree_set(0_u32..40, 0..40),
        ) {
            let start = Assignment {
                owners: start.into_iter().map(|(v, o)| (VgroupId(v), o.map(ConsumerId))).collect(),
            };
            let (members, vgroups) = (members(member_ids), vgroups(vgroup_ids));
            let next = rebalance(&start, &members, &vgroups);
            prop_assert_eq!(&next, &rebalance(&start, &members, &vgroups));
            prop_assert_eq!(next.owners.keys().copied().collect::<BTreeSet<_>>(), vgroups.clone());
            prop_assert!(within_one(&next, &members));
            for owner in next.owners.values() {
                // No orphan while anyone is there, nobody who is not a member.
                prop_assert_eq!(owner.is_some(), !members.is_empty());
                prop_assert!(owner.is_none_or(|o| members.contains(&o)));
            }
            // Fewest moves: only what stands above the even share is taken from anyone.
            if let Some(quota) = vgroups.len().checked_div(members.len()) {
                let held = |m: &ConsumerId| {
                    start.owners.iter().filter(|(v, o)| vgroups.contains(v) && **o == Some(*m)).count()
                };
                let above: usize = members.iter().map(|m| held(m).saturating_sub(quota)).sum();
                let over = members.iter().filter(|m| held(m) > quota).count();
                let least = above - over.min(vgroups.len() % members.len());
                prop_assert_eq!(taken(&start, &next, &members), least);
            }
            // Quiet: doing it again changes nothing.
            prop_assert_eq!(rebalance(&next, &members, &vgroups), next);
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "measures")]
    fn a_large_group_is_balanced_well_below_20_ms() {
        let vgroups = vgroups(2..5_002);
        let thousand = rebalance(&Assignment::default(), &members(0..1_000), &vgroups);
        let changed = members(1..1_001);
        let best = (0..5)
            .map(|_| {
                let start = std::time::Instant::now();
                black_box(rebalance(black_box(&thousand), &changed, &vgroups));
                start.elapsed()
            })
            .min()
            .unwrap();
        println!("5,000 vgroups, 1,000 members, one replaced: {best:?}");
        // Generous, since the machine may be busy; the figure itself is about 1 ms.
        assert!(best.as_millis() < 20, "{best:?}");
    }
}
