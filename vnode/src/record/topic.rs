//! Topic: a topic is made, reloaded or dropped.

use bytes::Bytes;
use model::{TableUid, TopicId};
use serde::{Deserialize, Serialize};

use super::{RecordError, small};

/// A topic as a shard knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicDefinition {
    /// Never reused.
    pub id: TopicId,
    /// Name, for messages.
    pub name: String,
    /// What it reads.
    pub kind: TopicKind,
    /// Which records it shows.
    pub meta: TopicMeta,
    /// Compiled definition, as the query crate writes it; empty for a database topic.
    pub definition: String,
    /// From 1, raised by RELOAD.
    pub definition_version: u32,
}

/// What a topic reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicKind {
    /// AS SELECT
    Query,
    /// AS STABLE
    Stable {
        /// The super table.
        stable: TableUid,
    },
    /// AS DATABASE
    Database,
}

/// Which kinds of records a topic shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicMeta {
    /// Rows.
    #[default]
    Without,
    /// WITH META: rows and events.
    With,
    /// ONLY META: events.
    Only,
}

/// Body of a Topic record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TopicRecord {
    /// CREATE TOPIC
    Create(TopicDefinition),
    /// RELOAD TOPIC: groups and offsets stay.
    Reload(TopicDefinition),
    /// DROP TOPIC with its groups and offsets.
    Drop(TopicId),
}

impl TopicRecord {
    /// The body.
    ///
    /// # Errors
    /// Never in practice.
    pub fn encode(&self) -> Result<Bytes, RecordError> {
        small::encode(self)
    }

    /// Reads a body.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        small::decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comes_back_as_it_was_and_bytes_stay() {
        let definition = TopicDefinition {
            id: TopicId(4),
            name: "t".into(),
            kind: TopicKind::Stable { stable: TableUid(3) },
            meta: TopicMeta::With,
            definition: "{}".into(),
            definition_version: 1,
        };
        let record = TopicRecord::Create(definition.clone());
        assert_eq!(&record.encode().unwrap()[..], [1, 0, 4, 1, b't', 1, 3, 1, 2, b'{', b'}', 1]);
        for record in [record, TopicRecord::Reload(definition), TopicRecord::Drop(TopicId(4))] {
            assert_eq!(TopicRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = TopicRecord::decode(&bytes);
        }
    }
}
