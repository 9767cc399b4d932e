//! What may be asked of the metadata group. A command is the body of a log record: adding a variant at the end keeps
//! old logs readable, anything else does not.

use std::collections::{BTreeMap, BTreeSet};

use model::{Code, ConsumerId, DatabaseChange, Epoch, Error, Origin, Result, TopicId, VgroupId};
use serde::{Deserialize, Serialize};

use super::group::{GroupKey, Settled};
use crate::rebalance::Assignment;
use crate::spec::{
    ConsumerSpec, DatabaseSpec, DropGroupSpec, DropTopicSpec, Grant, ReloadSpec, StableChange, StableSpec,
    TopicSpec,
};

/// A change of the metadata. `by` is the user that asks; commands without it are the coordinator's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields repeat the statement that the variant is named after")]
pub enum Command {
    /// Makes `root`; nothing if there are users already.
    Bootstrap { root_hash: String },
    /// ALTER ALL DNODES 'name' 'value'
    Set { by: String, name: String, value: i64 },
    /// CREATE USER, the password already hashed: hashing draws a salt, and applying must not draw anything.
    CreateUser { by: String, name: String, hash: String, sysinfo: bool, createdb: bool },
    /// ALTER USER: each part that is given.
    AlterUser {
        by: String,
        name: String,
        hash: Option<String>,
        enable: Option<bool>,
        sysinfo: Option<bool>,
        createdb: Option<bool>,
    },
    /// DROP USER
    DropUser { by: String, name: String, if_exists: bool },
    /// GRANT
    Grant { by: String, user: String, grant: Grant },
    /// REVOKE
    Revoke { by: String, user: String, grant: Grant },
    /// CREATE DATABASE
    CreateDatabase { by: String, spec: DatabaseSpec },
    /// ALTER DATABASE: the changes in the order given.
    AlterDatabase { by: String, name: String, changes: Vec<DatabaseChange> },
    /// DROP DATABASE
    DropDatabase { by: String, name: String, if_exists: bool },
    /// CREATE STABLE
    CreateStable { by: String, spec: StableSpec },
    /// ALTER STABLE
    AlterStable { by: String, database: String, name: String, change: StableChange },
    /// DROP STABLE
    DropStable { by: String, database: String, name: String, if_exists: bool },
    /// CREATE TOPIC
    CreateTopic { by: String, spec: TopicSpec },
    /// RELOAD TOPIC
    ReloadTopic { by: String, spec: ReloadSpec },
    /// DROP TOPIC
    DropTopic { by: String, spec: DropTopicSpec },
    /// DROP CONSUMER GROUP
    DropGroup { by: String, spec: DropGroupSpec },
    /// Every shard has applied the intent.
    FinishIntent { id: u64 },
    /// The intent cannot be carried out: what it did so far is to be taken back. CREATE only.
    UndoIntent { id: u64 },
    /// The whole new topic set of a consumer, by name; empty is unsubscribe.
    Subscribe { consumer: ConsumerSpec, topics: Vec<String> },
    /// These timed out: they lose their topics at the rebalance that follows. With the subscription that timed out: a
    /// consumer that has subscribed again meanwhile is alive.
    Expire { consumers: BTreeMap<ConsumerId, u64> },
    /// These hold nothing any more and are deleted.
    Delete { consumers: BTreeSet<ConsumerId> },
    /// Fixes the next assignment of a group. Its members learn it with `Activate`, after the shards did.
    Rebalance(Rebalance),
    /// The shards hold the pending assignment's owners: it is the assignment now.
    Activate {
        key: GroupKey,
        /// Of the pending assignment.
        epoch: Epoch,
        /// What was reported of the moved vgroups while they had their last owner.
        settled: BTreeMap<VgroupId, Settled>,
    },
    /// A command that replication brought: what it makes shards write is marked so. Of meaning for super tables.
    Replicated(Box<Command>),
}

/// The next assignment of a group, computed by the proposer: a log written by one release is replayed by a later one,
/// whose rebalance might choose otherwise than the Owner records that the shards hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rebalance {
    /// Whose.
    pub key: GroupKey,
    /// The group's latest epoch, pending or active, on which this rests. Another one: somebody was faster.
    pub from_epoch: Epoch,
    /// Members after it.
    pub members: BTreeSet<ConsumerId>,
    /// Owners after it. Vgroups of the database that are not in it cannot be reached and wait without owner.
    pub next: Assignment,
}

impl Rebalance {
    /// The topic.
    #[must_use]
    pub const fn topic(&self) -> TopicId {
        self.key.topic
    }
}

impl Command {
    /// The command as coming from `origin`.
    #[must_use]
    pub fn brought_by(self, origin: Origin) -> Self {
        match origin {
            Origin::Client => self,
            Origin::Replication => Self::Replicated(Box::new(self)),
        }
    }

    /// The command itself, and where it came from.
    pub(super) fn origin(&self) -> (&Self, Origin) {
        match self {
            Self::Replicated(command) => (command.origin().0, Origin::Replication),
            command => (command, Origin::Client),
        }
    }

    /// The record body.
    ///
    /// # Errors
    /// Internal; none is known.
    pub fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(self).map_err(|e| Error::internal("command is not encodable").caused_by(e))
    }

    /// Reads a record body. The log has verified its checksum, so bytes that do not decode were written by another
    /// release.
    ///
    /// # Errors
    /// 0x6F02
    pub fn decode(body: &[u8]) -> Result<Self> {
        postcard::from_bytes(body)
            .map_err(|e| Error::with(Code::NewerFormat, "record of the metadata log").caused_by(e))
    }
}
