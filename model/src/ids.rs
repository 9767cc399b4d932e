//! Numbers that must not be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A position in a vgroup's log: the WAL version, the Raft index and the consumer offset are this one number.
    Version(u64)
}
id! {
    /// Generation of a consumer group's assignment on one topic. Raised by the mnode at every rebalance; the token that
    /// fences a consumer which lost a vgroup.
    Epoch(u64)
}
id! {
    /// A shard of one database, unique in the instance, from 2 upwards (1 is the mnode's own group).
    VgroupId(u32)
}
id! {
    /// A database. Never reused.
    DatabaseId(u32)
}
id! {
    /// A super table, child table or normal table. Never reused. The upper 24 bits name who gave it out (0 the mnode,
    /// for super tables, else the vgroup), the lower 40 count.
    TableUid(u64)
}
id! {
    /// A column or tag of one table: given once, kept through renames, never reused within the table. 1 is the primary
    /// timestamp.
    ColumnId(u16)
}
id! {
    /// Counts the changes of a table's columns and tags, from 1.
    SchemaVersion(u32)
}
id! {
    /// A topic. Never reused, so that a topic made again under an old name remembers nothing.
    TopicId(u64)
}
id! {
    /// A consumer, chosen at random by the client.
    ConsumerId(u64)
}

impl Version {
    /// The lowest version there can be.
    pub const ZERO: Self = Self(0);

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The version that follows. Saturates at the end of the number space, which no log can reach: the writer refuses
    /// to append there.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The version before this one, none before version 0.
    #[must_use]
    pub const fn prev(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(version) => Some(Self(version)),
            None => None,
        }
    }

    /// The version `count` further on, none where the number space ends.
    #[must_use]
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(version) => Some(Self(version)),
            None => None,
        }
    }
}

impl TableUid {
    const COUNTER_BITS: u32 = 40;

    /// The `counter`-th table that `issuer` (a vgroup's number, 0 for the mnode) has named. `None` once either part is
    /// too large for its bits.
    #[must_use]
    pub fn issued(issuer: u32, counter: u64) -> Option<Self> {
        (issuer < 1 << 24 && counter < 1 << Self::COUNTER_BITS)
            .then_some(Self((u64::from(issuer) << Self::COUNTER_BITS) | counter))
    }

    /// The number within its issuer.
    #[must_use]
    pub fn counter(self) -> u64 {
        self.0 & ((1 << Self::COUNTER_BITS) - 1)
    }
}

impl ColumnId {
    /// The primary timestamp of every table.
    pub const TIMESTAMP: Self = Self(1);
}
