//! How the consumer stands, told on stderr as it changes: its connection, its vgroups, its topics.

use std::collections::BTreeSet;

use client::{Consumer, Membership};

use super::offline::Offline;
use crate::cli::common::note;

/// What the user knows.
#[derive(Debug, Default)]
pub(super) struct Standing {
    offline: Offline,
    /// As it was at the last look; a consumer that has just subscribed is no news.
    known: Option<Membership>,
    tableless: BTreeSet<String>,
}

impl Standing {
    /// Tells what has changed since the last look.
    pub(super) fn tell(&mut self, consumer: &Consumer) {
        self.offline.tell(consumer);
        let now = consumer.membership();
        for topic in now.topics_without_table.difference(&self.tableless) {
            note(&format!(
                "topic {topic}: the table that it reads was dropped, nothing more comes of it; a table made again under the \
                 name is another one: RELOAD TOPIC reads it once it is there"
            ));
        }
        self.tableless.clone_from(&now.topics_without_table);
        if let Some(known) = self.known.take() {
            self.changes(&known, &now).iter().for_each(|text| note(text));
        }
        self.known = Some(now);
    }

    /// Whether something may be missing from what was printed.
    pub(super) fn misses(&self) -> bool {
        self.offline.any()
    }

    fn changes(&self, known: &Membership, now: &Membership) -> Vec<String> {
        let mut told = Vec::new();
        if let (None, Some(error)) = (&known.lost, &now.lost) {
            told.push(format!("lost the connection, trying again until it is back: {error}"));
        }
        if now.connections > known.connections {
            told.push("connected again".to_owned());
        }
        // What is off-line is told as that.
        let is_here = |(_, vgroup): &&(String, u32)| !self.offline.has(*vgroup);
        let vgroups = |of: &Membership| of.vgroups.iter().filter(is_here).cloned().collect::<BTreeSet<_>>();
        let (before, after) = (vgroups(known), vgroups(now));
        if before != after && now.lost.is_none() {
            told.push(format!("rebalanced: reads vgroups {} now, before {}", list(&after), list(&before)));
        }
        told
    }
}

fn list(vgroups: &BTreeSet<(String, u32)>) -> String {
    let numbers: Vec<_> = vgroups.iter().map(|(_, vgroup)| vgroup.to_string()).collect();
    if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
}

#[cfg(test)]
mod tests {
    use model::{Code, Error};

    use super::*;

    fn membership(vgroups: &[u32], connections: u64, lost: bool) -> Membership {
        Membership {
            vgroups: vgroups.iter().map(|vgroup| ("t".to_owned(), *vgroup)).collect(),
            connections,
            lost: lost.then(|| Error::of(Code::Unreachable)),
            ..Membership::default()
        }
    }

    #[test]
    fn each_change_is_one_line() {
        let told = |before, after| Standing::default().changes(&before, &after);
        let steady = || membership(&[2, 3], 1, false);
        assert!(told(steady(), steady()).is_empty());
        let lost = told(steady(), membership(&[2, 3], 1, true));
        assert!(
            matches!(&lost[..], [text] if text.starts_with("lost the connection") && text.contains("0x000b"))
        );
        assert!(told(membership(&[2], 1, true), membership(&[2], 1, true)).is_empty(), "said already");
        assert_eq!(told(membership(&[2], 1, true), membership(&[2], 2, false)), ["connected again"]);
        let moved = told(steady(), membership(&[3], 1, false));
        assert_eq!(moved, ["rebalanced: reads vgroups 3 now, before 2, 3"]);
        assert_eq!(told(membership(&[3], 1, false), membership(&[], 1, false)).len(), 1);
    }
}
