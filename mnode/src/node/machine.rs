//! The state as the log's state machine: applies records, tells the shell what came of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Error, Result, Version};
use tracing::{debug, error};

use super::notify::Notices;
use crate::state::{Command, Event, MnodeState};

/// Outcomes kept for proposers that have not fetched them; those that never will have been cancelled.
const OUTCOMES_MAX: usize = 4_096;

/// What a proposer wants to know of its command.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) refused: Option<Error>,
    pub(super) unchanged: bool,
    pub(super) intent: Option<u64>,
}

impl Outcome {
    fn of(events: &[Event]) -> Self {
        let mut outcome = Self::default();
        for event in events {
            match event {
                Event::Refused(error) => outcome.refused = Some(error.clone()),
                Event::Unchanged => outcome.unchanged = true,
                Event::Intent(id) => outcome.intent = Some(*id),
                _ => {}
            }
        }
        outcome
    }
}

/// State, outcomes, and the way to whoever waits.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) state: MnodeState,
    /// A record that does not decode: nothing after it may be trusted.
    pub(super) failed: Option<Error>,
    outcomes: BTreeMap<u64, Outcome>,
    notices: Arc<Notices>,
}

impl Machine {
    pub(super) fn new(state: MnodeState, notices: Arc<Notices>) -> Self {
        Self { state, failed: None, outcomes: BTreeMap::new(), notices }
    }

    /// What became of the proposal that got this version.
    pub(super) fn take_outcome(&mut self, version: Version) -> Result<Outcome> {
        self.outcomes
            .remove(&version.get())
            .ok_or_else(|| Error::internal(format_args!("outcome is no longer known version={version}")))
    }
}

impl raft::StateMachine for Machine {
    fn apply(&mut self, record: &wal::Record) {
        if record.kind != wal::Kind::Command || self.failed.is_some() {
            return;
        }
        let command = match Command::decode(&record.body) {
            Ok(command) => command,
            Err(e) => {
                error!(version = %record.version, "metadata record does not decode");
                self.failed = Some(e);
                return;
            }
        };
        let events = self.state.apply(record.version, &command, record.time_ns);
        debug!(version = %record.version, events = events.len(), "applied");
        self.outcomes.insert(record.version.get(), Outcome::of(&events));
        while self.outcomes.len() > OUTCOMES_MAX {
            self.outcomes.pop_first();
        }
        // From here and not from the proposer, which may have been cancelled.
        self.notices.publish(events);
    }
}
