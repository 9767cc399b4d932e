//! The seam to the shards: what the mnode asks of vnodes. The server implements it over its vnodes, tests over maps.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use model::{ConsumerId, DatabaseInfo, Epoch, Origin, Result, StableInfo, TableUid, TopicId, VgroupId};
use serde::{Deserialize, Serialize};

use crate::spec::{StableChange, TopicKind, TopicMeta};

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicInfo {
    /// Never reused: shards key offsets and groups by it, so that a topic made again remembers nothing.
    pub id: TopicId,
    /// Name, literal.
    pub name: String,
    /// Database whose vgroups it is spread over.
    pub database: model::DatabaseId,
    /// That database's name.
    pub database_name: String,
    /// What it reads.
    pub kind: TopicKind,
    /// The super table of a stable topic.
    pub stable: Option<TableUid>,
    /// Which records it shows.
    pub meta: TopicMeta,
    /// Statement text (of the latest RELOAD).
    pub sql: String,
    /// Row schema of a query topic as JSON text.
    pub schema_json: Option<String>,
    /// Compiled definition, opaque to the mnode.
    pub definition: String,
    /// From 1, raised by RELOAD.
    pub definition_version: u32,
    /// Who made it.
    pub creator: String,
    /// Nanoseconds since the epoch.
    pub create_time_ns: i64,
}

/// A change of a super table, to be applied by every shard of its database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StableDdl {
    /// CREATE STABLE. A shard that has this uid with this schema version or a later one has nothing to do.
    Create(Arc<StableInfo>),
    /// ALTER STABLE.
    Alter {
        /// The super table after the change; its schema's version says whether a shard has it already.
        stable: Arc<StableInfo>,
        /// The change, for the event that meta topics show.
        change: StableChange,
    },
    /// DROP STABLE with all its children. Nothing to do where the uid is unknown.
    Drop {
        /// Which.
        uid: TableUid,
        /// Its name, for the event that meta topics show.
        name: String,
    },
}

/// A change of a topic, to be applied by every shard of its database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TopicDdl {
    /// CREATE TOPIC.
    Create(Arc<TopicInfo>),
    /// RELOAD TOPIC: the definition from the record's own version on. Groups and offsets stay.
    Reload(Arc<TopicInfo>),
    /// DROP TOPIC with all its groups and committed offsets.
    Drop(TopicId),
}

/// Who owns a vgroup for a (topic, group): what an Owner record in the shard's log says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerChange {
    /// Topic.
    pub topic: TopicId,
    /// Consumer group.
    pub group: String,
    /// The fencing token. A shard takes a change only if it is above the epoch that it holds, or equal to it and names
    /// the same owner; from then on it serves polls and commits of exactly this (owner, epoch) and refuses all others.
    pub epoch: Epoch,
    /// The consumer; `None` fences whoever owned it, and says that the group has no members.
    pub owner: Option<ConsumerId>,
}

/// What the mnode asks of the shards.
///
/// Every call but [`ready`](Self::ready) answers once the shard's log holds the change. Every call is *idempotent*:
/// after a crash, or an error whose outcome is unknown, the same call comes again. A shard that is gone answers
/// `drop_*` calls with success, so that nothing becomes undroppable.
#[async_trait]
pub trait Shards: Send + Sync + fmt::Debug {
    /// Whether the shard takes changes now. Asked before a change to several shards is begun, so that one damaged
    /// shard refuses a statement rather than leaving it half done.
    ///
    /// # Errors
    /// Why not.
    async fn ready(&self, vgroup: VgroupId) -> Result<()>;

    /// Makes the shard `vgroup` of a new database.
    ///
    /// # Errors
    /// The shard could not be made; called again or undone by [`drop_vnode`](Self::drop_vnode).
    async fn create_vnode(&self, database: &Arc<DatabaseInfo>, vgroup: VgroupId) -> Result<()>;

    /// Takes over altered options. Success of a shard that does not serve: it has them when it is opened.
    ///
    /// # Errors
    /// Of the shard's log.
    async fn alter_vnode(&self, database: &Arc<DatabaseInfo>, vgroup: VgroupId) -> Result<()>;

    /// Removes the shard with all its files, damaged ones too.
    ///
    /// # Errors
    /// Of the disk.
    async fn drop_vnode(&self, vgroup: VgroupId) -> Result<()>;

    /// Applies a change of a super table.
    ///
    /// # Errors
    /// Of the shard's log.
    async fn apply_stable(&self, vgroup: VgroupId, ddl: &StableDdl, origin: Origin) -> Result<()>;

    /// Applies a change of a topic. Success of CREATE on a shard that does not serve: whoever opens it tells it of the
    /// catalogue's topics.
    ///
    /// # Errors
    /// Of the shard's log.
    async fn apply_topic(&self, vgroup: VgroupId, ddl: &TopicDdl) -> Result<()>;

    /// Forgets a group's offsets, owner and remembered start on one topic.
    ///
    /// # Errors
    /// Of the shard's log.
    async fn drop_group(&self, vgroup: VgroupId, topic: TopicId, group: &str) -> Result<()>;

    /// Switches the owner of the vgroup for a (topic, group), having waited for a fetch being executed and released a
    /// parked one.
    ///
    /// # Errors
    /// Of the shard's log. An epoch below the one it holds is success without effect: a later switch has overtaken
    /// this one.
    async fn set_owner(&self, vgroup: VgroupId, change: &OwnerChange) -> Result<()>;
}
