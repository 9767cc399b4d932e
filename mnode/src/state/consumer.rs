//! A consumer as the coordinator knows it.

use std::collections::BTreeSet;

use model::{ConsumerId, TopicId};
use serde::{Deserialize, Serialize};

use crate::spec::ConsumerParameters;

/// What SHOW CONSUMERS says of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerState {
    /// A subscribe or unsubscribe was accepted and is not applied on every topic yet.
    Rebalancing,
    /// The assignment is valid; it may be empty.
    Ready,
}

impl ConsumerState {
    /// The word shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rebalancing => "rebalancing",
            Self::Ready => "ready",
        }
    }
}

/// A consumer. Unknown before its first subscribe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// Chosen at random by the client.
    pub id: ConsumerId,
    /// Its group.
    pub group: String,
    /// `client.id`
    pub client_id: String,
    /// Whose session subscribed.
    pub user: String,
    /// The client's host.
    pub host: String,
    /// Address of its connection.
    pub end_point: String,
    /// As given with the last subscribe.
    pub parameters: ConsumerParameters,
    /// Raised by one with each assignment of one of its topics: by it the consumer knows that something changed. Not
    /// the fencing token, which belongs to the vgroup.
    pub epoch: u64,
    /// Topics on which it is a member.
    pub topics: BTreeSet<TopicId>,
    /// Topics on which it wants to be one. Those in only one of the two sets are being added or removed.
    pub target: BTreeSet<TopicId>,
    /// What SHOW lists: the set of the last subscribe. A consumer that timed out keeps it until it is deleted.
    pub shown: BTreeSet<TopicId>,
    /// Counts its subscribes.
    pub subscription: u64,
    /// Timed out: deleted at the next tick unless it subscribes again.
    pub expired: bool,
    /// When it became known.
    pub up_time_ns: i64,
    /// Its last subscribe.
    pub subscribe_time_ns: i64,
    /// The last assignment that concerned it.
    pub rebalance_time_ns: Option<i64>,
}

impl Consumer {
    /// What SHOW says.
    #[must_use]
    pub fn state(&self) -> ConsumerState {
        // An expired one stays as it was: it is being removed, not rebalancing on its own account.
        if self.expired || self.topics == self.target {
            ConsumerState::Ready
        } else {
            ConsumerState::Rebalancing
        }
    }

    /// Ready without topics: nothing is left to take from it.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.topics.is_empty() && self.target.is_empty()
    }

    /// Whether the topic is among its subscribed, being-added or being-removed ones.
    #[must_use]
    pub fn concerns(&self, topic: TopicId) -> bool {
        self.topics.contains(&topic) || self.target.contains(&topic)
    }
}
