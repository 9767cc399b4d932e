//! How a consumer stands, for programs that tell it to people.

use std::collections::BTreeSet;

use model::Error;

/// How a consumer stands in its group at one moment, see [`Consumer::membership`](super::Consumer::membership).
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// Vgroups that it has, each with its topic's name. They change when members come and go.
    pub vgroups: BTreeSet<(String, u32)>,
    /// Connections that the server has answered, since the consumer was made. Grows when one breaks and another is made.
    pub connections: u64,
    /// Why there is none now, where there was one: another is being made.
    pub lost: Option<Error>,
    /// Topics of which nothing comes because the table that they read was dropped.
    pub topics_without_table: BTreeSet<String>,
}
