//! The metadata group: catalogue, users, topics, consumer groups, rebalance.
mod coordinator;
mod rebalance;
mod shards;
mod spec;
mod state;
pub use coordinator::*;
pub use rebalance::{Assignment, rebalance};
pub use shards::*;
pub use spec::*;
pub use state::*;
