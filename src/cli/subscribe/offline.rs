//! Vgroups of which nothing comes: told as they go, and when they are back.

use std::collections::BTreeMap;

use client::{Consumer, OfflineVgroup};

use crate::cli::common::note;

/// Those that the user knows of, each with why.
#[derive(Debug, Default)]
pub(super) struct Offline(BTreeMap<u32, String>);

impl Offline {
    /// Tells what has changed since the last look, on stderr.
    pub(super) fn tell(&mut self, consumer: &Consumer) {
        let now = consumer.offline();
        for OfflineVgroup { topic, vgroup, error } in &now {
            let why = error.to_string();
            if self.0.get(vgroup) != Some(&why) {
                note(&format!(
                    "vgroup {vgroup} is off-line: of topic {topic} nothing of it is delivered before it is back, the others \
                     go on: {why}"
                ));
                self.0.insert(*vgroup, why);
            }
        }
        self.0.retain(|vgroup, _| {
            let is_offline = now.iter().any(|offline| offline.vgroup == *vgroup);
            if !is_offline {
                note(&format!("vgroup {vgroup} is back"));
            }
            is_offline
        });
    }

    /// Whether nothing is to be expected of a vgroup.
    pub(super) fn has(&self, vgroup: u32) -> bool {
        self.0.contains_key(&vgroup)
    }

    /// Whether something may be missing from what was printed.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }
}
