//! Vgroups of which nothing comes: told as they go, and when they are back.

use std::collections::BTreeSet;

use client::Consumer;

use crate::cli::common::note;

/// Those that the user knows of.
#[derive(Debug, Default)]
pub(super) struct Offline(BTreeSet<u32>);

impl Offline {
    /// Tells what has changed since the last look, on stderr.
    pub(super) fn tell(&mut self, consumer: &Consumer) {
        let now = consumer.offline();
        for offline in &now {
            if self.0.insert(offline.vgroup) {
                note(&format!(
                    "vgroup {} is off-line, nothing of it is delivered before it is back: {}",
                    offline.vgroup, offline.error
                ));
            }
        }
        self.0.retain(|vgroup| {
            let is_offline = now.iter().any(|offline| offline.vgroup == *vgroup);
            if !is_offline {
                note(&format!("vgroup {vgroup} is back"));
            }
            is_offline
        });
    }

    /// Whether something may be missing from what was printed.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }
}
