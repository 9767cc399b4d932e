//! What a test has proposed, with what it was told, beside what a group shows of it.

use bytes::Bytes;
use model::{Error, Result};
use wal::{Kind, Version};

use super::support::{Seen, data};
use crate::{Group, Proposal};

/// What is known of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Acknowledged(Version),
    /// It failed after it was queued: there, whole, or not.
    Unknown,
    /// It was not queued: not there, ever.
    Refused,
}

/// Proposals in the order in which they were made.
#[derive(Default)]
pub(super) struct Ledger {
    tried: Vec<(Bytes, Outcome)>,
}

impl Ledger {
    /// A proposal like no other, of about `bytes`.
    pub(super) fn next(&self, bytes: usize) -> Proposal {
        let number = u32::try_from(self.tried.len()).unwrap().to_le_bytes();
        let body: Vec<u8> = number.into_iter().cycle().take(bytes.max(4)).collect();
        data(body)
    }

    /// Notes what came of a proposal, and answers its number.
    pub(super) fn note(&mut self, body: Bytes, outcome: Outcome) -> usize {
        self.tried.push((body, outcome));
        self.tried.len() - 1
    }

    pub(super) fn acknowledge(&mut self, number: usize, version: Version) {
        self.tried[number].1 = Outcome::Acknowledged(version);
    }

    /// Proposes, notes what came of it, and hands the answer on. What fails must say "try again".
    pub(super) async fn propose(&mut self, group: &Group<Seen>, proposal: Proposal) -> Result<Version> {
        let body = proposal.body.clone();
        let (outcome, answer) = match group.enqueue(proposal).await {
            Err(e) => (Outcome::Refused, Err(e)),
            Ok(pending) => match pending.await {
                Err(e) => (Outcome::Unknown, Err(e)),
                Ok(version) => (Outcome::Acknowledged(version), Ok(version)),
            },
        };
        self.note(body, outcome);
        answer.inspect_err(must_say_try_again)
    }

    /// The machine ended: what was acknowledged above `durable` may be gone.
    pub(super) fn forget_above(&mut self, durable: Option<Version>) {
        for (_, outcome) in &mut self.tried {
            if matches!(outcome, Outcome::Acknowledged(version) if Some(*version) > durable) {
                *outcome = Outcome::Unknown;
            }
        }
    }

    pub(super) fn acknowledged(&self) -> impl Iterator<Item = (Version, &Bytes)> {
        self.tried.iter().filter_map(|(body, outcome)| match outcome {
            Outcome::Acknowledged(version) => Some((*version, body)),
            Outcome::Unknown | Outcome::Refused => None,
        })
    }

    /// Must hold at any time: every acknowledged proposal once, at its version; every other once and whole, or not at
    /// all; those that were refused not at all; all in the order in which they were proposed.
    pub(super) fn check(&self, seen: &Seen, what: &str) {
        let mut found = seen.0.iter().filter(|(_, kind, ..)| *kind == Kind::Data).peekable();
        for (number, (body, outcome)) in self.tried.iter().enumerate() {
            let here = found.next_if(|(.., seen)| seen == body).map(|(version, ..)| *version);
            let holds = match outcome {
                Outcome::Acknowledged(version) => here == Some(*version),
                Outcome::Refused => here.is_none(),
                Outcome::Unknown => true,
            };
            assert!(holds, "{what}: proposal {number} was {outcome:?}, found at {here:?}");
        }
        assert_eq!(found.next(), None, "{what}: nobody proposed this, or not in this order");
    }

    /// Every acknowledged proposal can be read from the log, as consumers do.
    pub(super) fn check_log(&self, group: &Group<Seen>, what: &str) {
        for (version, body) in self.acknowledged().filter(|(version, _)| *version >= group.positions().first)
        {
            let record = group.log().get(version).unwrap_or_else(|e| panic!("{what}: {version}: {e}"));
            assert_eq!(record.map(|record| record.body).as_ref(), Some(body), "{what}: {version}");
        }
    }
}

#[track_caller]
pub(super) fn must_say_try_again(error: &Error) {
    assert!(error.may_retry(), "{error}");
}
