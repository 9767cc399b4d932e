//! Offset: what a consumer group has got to on one topic.

use bytes::Bytes;
use model::{ConsumerId, Epoch, TopicId, Version};
use serde::{Deserialize, Serialize};

use super::{RecordError, small};

/// Body of an Offset record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OffsetRecord {
    /// A commit.
    Commit {
        /// Topic.
        topic: TopicId,
        /// Group.
        group: String,
        /// Next version to deliver.
        offset: Version,
        /// Who commits.
        consumer: ConsumerId,
        /// Under which ownership.
        epoch: Epoch,
        /// Rises with each commit of that consumer: what is not above the last one changes nothing.
        sequence: u64,
    },
    /// `latest` was resolved for a group that had no offset: it starts here, also after a restart.
    Start {
        /// Topic.
        topic: TopicId,
        /// Group.
        group: String,
        /// Where.
        at: Version,
    },
    /// The group is forgotten: offset, owner and start.
    DropGroup {
        /// Topic.
        topic: TopicId,
        /// Group.
        group: String,
    },
    /// The log is to be kept from here on: the vgroup's keep version.
    Keep {
        /// First version to keep.
        from: Version,
    },
}

impl OffsetRecord {
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
    fn comes_back_as_it_was() {
        let (topic, group) = (TopicId(4), String::from("bake"));
        let commit = OffsetRecord::Commit {
            topic,
            group: group.clone(),
            offset: Version(106),
            consumer: ConsumerId(u64::MAX),
            epoch: Epoch(3),
            sequence: 17,
        };
        let start = OffsetRecord::Start { topic, group: group.clone(), at: Version(9) };
        let keep = OffsetRecord::Keep { from: Version(300) };
        for record in [commit, start, OffsetRecord::DropGroup { topic, group }, keep] {
            assert_eq!(OffsetRecord::decode(&record.encode().unwrap()).unwrap(), record);
        }
    }

    #[test]
    fn bytes_on_disk_stay() {
        let record = OffsetRecord::Start { topic: TopicId(4), group: "g".into(), at: Version(9) };
        assert_eq!(&record.encode().unwrap()[..], [1, 1, 4, 1, b'g', 9]);
        assert_eq!(&OffsetRecord::Keep { from: Version(9) }.encode().unwrap()[..], [1, 3, 9]);
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = OffsetRecord::decode(&bytes);
        }
    }
}
