//! Owner: which consumer of a group reads this vgroup for one topic.

use bytes::Bytes;
use model::{ConsumerId, Epoch, TopicId};
use serde::{Deserialize, Serialize};

use super::{RecordError, small};

/// Body of an Owner record. From its version on, reads and commits of this (owner, epoch) are served and no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// Topic.
    pub topic: TopicId,
    /// Group.
    pub group: String,
    /// The fencing token; above that of every earlier record of this group.
    pub epoch: Epoch,
    /// The consumer; `None` when the group has no members any more.
    pub owner: Option<ConsumerId>,
}

impl OwnerRecord {
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
        let mut record =
            OwnerRecord { topic: TopicId(4), group: "g".into(), epoch: Epoch(2), owner: Some(ConsumerId(5)) };
        assert_eq!(&record.encode().unwrap()[..], [1, 4, 1, b'g', 2, 1, 5]);
        assert_eq!(OwnerRecord::decode(&record.encode().unwrap()).unwrap(), record);
        record.owner = None;
        assert_eq!(OwnerRecord::decode(&record.encode().unwrap()).unwrap(), record);
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = OwnerRecord::decode(&bytes);
        }
    }
}
