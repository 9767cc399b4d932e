//! Where vgroups wait for one another.
//!
//! A change of a super table is one record in the log of every vgroup, in the same order everywhere. Rows that one vgroup
//! has before it must be written before it, those that another has behind it, behind it: so each vgroup stops at the
//! change until all have come, then it is made once, and all go on.
//!
//! A crash finds the group's committed offsets in one of two states, since a vgroup's offset in front of the change is
//! committed before the change is made, and behind it only afterwards, and nothing else is done before all are: no vgroup
//! is behind a change that another has not come to (nothing to do), or every vgroup is either in front of the change or
//! right behind it ([`unfinished`]: it is made again and the offsets are completed).

use std::collections::BTreeMap;

use model::{Code, Error, Result};

/// The change that a vgroup has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Its record in this vgroup's log.
    pub(super) version: i64,
    /// Its event: the same text in every vgroup.
    pub(super) json: String,
}

/// All vgroups, and those that wait.
#[derive(Debug)]
pub(super) struct Barrier {
    vgroups: usize,
    waiting: BTreeMap<u32, Arrival>,
}

impl Barrier {
    pub(super) fn new(vgroups: usize) -> Self {
        Self { vgroups, waiting: BTreeMap::new() }
    }

    /// Whether some vgroup waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A vgroup has come to a change. Answers all of them once the last has come.
    ///
    /// # Errors
    /// [`Code::Internal`] when they have come to different changes.
    pub(super) fn arrive(&mut self, vgroup: u32, arrival: Arrival) -> Result<Option<BTreeMap<u32, Arrival>>> {
        if let Some((other, earlier)) = self.waiting.iter().find(|(_, earlier)| earlier.json != arrival.json)
        {
            let text = format!(
                "vgroups tell different changes: vgroup={other} version={} and vgroup={vgroup} version={}",
                earlier.version, arrival.version
            );
            return Err(Error::text(Code::Internal, text)
                .hint("rebuild the copy from the beginning with another --group"));
        }
        self.waiting.insert(vgroup, arrival);
        Ok((self.waiting.len() == self.vgroups).then(|| std::mem::take(&mut self.waiting)))
    }
}

/// What stands right before and right behind a vgroup's committed offset, of changes of super tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Around {
    pub(super) behind: Option<Arrival>,
    pub(super) next: Option<Arrival>,
}

/// The change that a crash left half committed, and those vgroups that are still in front of it.
pub(super) fn unfinished(around: &BTreeMap<u32, Around>) -> Option<BTreeMap<u32, Arrival>> {
    // A vgroup right behind the change may already stand in front of the one after it.
    around.values().filter_map(|at| at.next.as_ref()).find_map(|change| {
        let is_it = |arrival: &Option<Arrival>| arrival.as_ref().is_some_and(|a| a.json == change.json);
        let is_complete = around.values().all(|at| is_it(&at.next) || is_it(&at.behind));
        let is_begun = around.values().any(|at| !is_it(&at.next));
        let ahead = around.iter().filter(|(_, at)| is_it(&at.next));
        let ahead = ahead.filter_map(|(vgroup, at)| Some((*vgroup, at.next.clone()?)));
        (is_complete && is_begun).then(|| ahead.collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: i64, json: &str) -> Arrival {
        Arrival { version, json: json.into() }
    }

    #[test]
    fn all_go_on_when_the_last_has_come() {
        let mut barrier = Barrier::new(3);
        assert_eq!(barrier.arrive(2, at(5, "x")).unwrap(), None);
        assert_eq!(barrier.arrive(4, at(9, "x")).unwrap(), None);
        assert_eq!(barrier.arrive(4, at(9, "x")).unwrap(), None, "the same one again");
        assert!(barrier.is_waiting());
        let all = barrier.arrive(3, at(7, "x")).unwrap().unwrap();
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
        assert!(!barrier.is_waiting());
        barrier.arrive(2, at(8, "y")).unwrap();
        assert_eq!(barrier.arrive(3, at(8, "z")).unwrap_err().code(), Code::Internal);
    }

    #[test]
    fn a_change_is_completed_only_where_it_was_begun() {
        let around = |list: &[(Option<&str>, Option<&str>)]| -> BTreeMap<u32, Around> {
            let one = |(behind, next): &(Option<&str>, Option<&str>)| Around {
                behind: behind.map(|json| at(1, json)),
                next: next.map(|json| at(2, json)),
            };
            (2..).zip(list.iter().map(one)).collect()
        };
        let rest = |list: &[(Option<&str>, Option<&str>)]| {
            unfinished(&around(list)).map(|rest| rest.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(rest(&[(Some("x"), None), (None, Some("x"))]), Some(vec![3]));
        assert_eq!(
            rest(&[(Some("x"), Some("y")), (None, Some("x"))]),
            Some(vec![3]),
            "also where y comes next"
        );
        assert_eq!(rest(&[(None, Some("x")), (None, Some("x"))]), None, "not begun");
        assert_eq!(rest(&[(Some("x"), None), (None, Some("x")), (None, None)]), None, "one has not come yet");
        assert_eq!(rest(&[(Some("x"), None), (Some("x"), None)]), None, "all are behind it");
        assert_eq!(rest(&[(Some("w"), None), (None, Some("x"))]), None);
    }
}
