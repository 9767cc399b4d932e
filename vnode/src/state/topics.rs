//! Topics over this shard.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::TopicId;

use crate::record::TopicDefinition;

/// Topics by id.
#[derive(Debug, Default)]
pub struct Topics {
    by_id: BTreeMap<TopicId, Arc<TopicDefinition>>,
    /// Changed since the last checkpoint.
    pub(super) dirty: BTreeSet<TopicId>,
}

impl Topics {
    /// A topic that exists. RELOAD replaces it: records not yet read are read under the new definition.
    #[must_use]
    pub fn get(&self, id: TopicId) -> Option<&Arc<TopicDefinition>> {
        self.by_id.get(&id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicDefinition>> {
        self.by_id.values()
    }

    /// Takes in a topic from a checkpoint.
    pub(crate) fn restore(&mut self, definition: TopicDefinition) {
        self.by_id.insert(definition.id, Arc::new(definition));
    }

    pub(super) fn put(&mut self, definition: TopicDefinition) {
        self.dirty.insert(definition.id);
        self.restore(definition);
    }

    pub(super) fn drop(&mut self, id: TopicId) {
        self.dirty.insert(id);
        self.by_id.remove(&id);
    }
}
