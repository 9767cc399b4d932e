//! The metadata group: what exists (databases, super tables, topics, users), who consumes what, and the statements that
//! several shards must carry out together.
//!
//! Three layers, each knowing only the ones before it:
//!
//! 1. [`MnodeState`], the replicated state: a [`Command`] is checked, agreed upon by the log and applied; the same log
//!    gives the same state. [`rebalance()`] is the pure function behind every [`Assignment`].
//! 2. [`Coordinator`], what only the leader knows: heartbeats and polls counted in ticks, progress reports, who has
//!    released what a hand-over takes from it, shards out of reach. It decides by returning commands.
//! 3. [`Mnode`], the async shell: a Raft group, a driver task, waiting and waking. It reaches the shards through the
//!    trait [`Shards`].
//!
//! What this crate is not for: it parses no SQL (callers hand in specs), reads no rows, serves no socket, and keeps no
//! committed offset, which belong to the shards' logs. How a hand-over of a vgroup is fenced is told in
//! `docs/decisions/0006-fencing-epoch.md`.

mod coordinator;
mod node;
mod rebalance;
mod shards;
mod spec;
mod state;

pub use coordinator::{
    ConsumerAssignment, Coordinator, HandOver, Heartbeat, HeartbeatReply, OfflineVgroup, OwnerCommit,
    PlaceReport, Progress, TopicAssignment, Work,
};
pub use node::{
    ConsumerRow, DEFAULT_PASSWORD, DdlOutcome, Listening, Mnode, MnodeOptions, PasswordCost, SettingRow,
    SubscriptionRow, TopicRow, stored_databases,
};
pub use rebalance::{Assignment, rebalance};
pub use shards::{OwnerChange, Shards, StableDdl, TopicDdl, TopicInfo};
pub use spec::{
    Access, ColumnSpec, ConsumerParameters, ConsumerSpec, DatabaseSpec, DropGroupSpec, DropTopicSpec, Grant,
    OffsetReset, ReloadSpec, StableChange, StableSpec, TopicKind, TopicMeta, TopicSpec,
};
pub use state::{
    Catalog, Command, Consumer, ConsumerState, Database, Event, Farewell, GROUPS_MAX, Group, GroupKey,
    Intent, IntentKind, MnodeState, Owner, Pending, Place, ROOT, Rebalance, ReportedOffset, Settled, User,
    settings,
};
