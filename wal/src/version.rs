use std::fmt;

use serde::{Deserialize, Serialize};

/// A position in the log. The same number is the Raft log index of the record that stands there and the offset by which
/// consumers name it. Versions of one log have no gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

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
            Some(v) => Some(Self(v)),
            None => None,
        }
    }

    /// The version `count` further on, none where the number space ends.
    #[must_use]
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(v) => Some(Self(v)),
            None => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u64> for Version {
    fn from(v: u64) -> Self {
        Self(v)
    }
}
