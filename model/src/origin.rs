//! Where a change came from.

use serde::{Deserialize, Serialize};

/// Who makes a change. Consumers may leave out what replication brought (`msg.consume.excluded`): so two databases that
/// replicate to each other do not send a change round in circles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// A client of this server.
    #[default]
    Client,
    /// Replication: the change was made elsewhere first.
    Replication,
}

impl Origin {
    /// Whether replication brought it.
    #[must_use]
    pub const fn is_replication(self) -> bool {
        matches!(self, Self::Replication)
    }
}
