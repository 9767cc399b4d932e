//! Topics ready to evaluate, compiled once and shared by all who read them.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Code, Error, Result, TableUid, TopicId};
use parking_lot::Mutex;
use query::topic::{ChildFilter, CompiledTopic, TopicTable};

use super::BlockSchema;
use crate::record::{TopicDefinition, TopicKind, TopicMeta};
use crate::state::VnodeState;

/// A topic.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Of its definition; another after a RELOAD.
    pub(super) definition_version: u32,
    pub(super) meta: TopicMeta,
    pub(super) source: Source,
}

/// What a topic reads.
#[derive(Debug)]
pub(super) enum Source {
    /// Rows of one table through a SELECT.
    Query(Box<QueryTopic>),
    /// Rows of the children that pass.
    Stable { stable: TableUid, filter: Option<Box<ChildFilter>> },
    /// Rows of all tables.
    Database,
}

/// A topic over a SELECT.
#[derive(Debug)]
pub(super) struct QueryTopic {
    pub(super) topic: CompiledTopic,
    pub(super) schema: Arc<BlockSchema>,
}

impl QueryTopic {
    /// The super table, or the normal table.
    pub(super) fn owner(&self) -> TableUid {
        self.topic.definition().relation
    }

    /// Whether rows of `table`, which belongs to the owner, are read.
    pub(super) fn reads(&self, table: TableUid) -> bool {
        self.topic.definition().child.is_none_or(|child| child == table)
    }

    /// Whether its table is still there. One made again under the same name is another table.
    fn has_table(&self, state: &VnodeState) -> bool {
        let definition = self.topic.definition();
        match definition.kind {
            TopicTable::Stable => state.stables.get(definition.relation).is_some(),
            TopicTable::Child => definition.child.is_some_and(|child| state.tables.get(child).is_some()),
            TopicTable::Normal => state.tables.get(definition.relation).is_some(),
        }
    }
}

impl Compiled {
    fn of(definition: &TopicDefinition) -> Result<Self> {
        let source = match definition.kind {
            TopicKind::Database => Source::Database,
            TopicKind::Stable { stable } => {
                let filter = if definition.definition.is_empty() {
                    None
                } else {
                    Some(ChildFilter::compile(read(definition)?)?).filter(|filter| !filter.takes_all())
                };
                Source::Stable { stable, filter: filter.map(Box::new) }
            }
            TopicKind::Query => {
                let topic = CompiledTopic::compile(read(definition)?)?;
                let columns =
                    topic.columns().iter().map(|column| (column.name.clone(), column.data_type)).collect();
                Source::Query(Box::new(QueryTopic { topic, schema: Arc::new(BlockSchema { columns }) }))
            }
        };
        Ok(Self { definition_version: definition.definition_version, meta: definition.meta, source })
    }

    /// Whether there is anything to read here at all. A query topic whose table is gone stands still, so that a RELOAD
    /// finds what was written meanwhile.
    pub(super) fn qualifies(&self, state: &VnodeState) -> bool {
        match &self.source {
            Source::Query(query) => query.has_table(state),
            Source::Stable { .. } | Source::Database => true,
        }
    }
}

fn read(definition: &TopicDefinition) -> Result<query::topic::TopicDefinition> {
    serde_json::from_str(&definition.definition).map_err(|e| {
        Error::with(Code::TopicQueryInvalid, format!("topic={} cause={e}", definition.name)).caused_by(e)
    })
}

/// Compiled topics of a shard.
#[derive(Debug, Default)]
pub(crate) struct TopicCache(Mutex<HashMap<TopicId, (u32, Arc<Compiled>)>>);

impl TopicCache {
    /// The topic as its definition says.
    pub(super) fn get(&self, definition: &TopicDefinition) -> Result<Arc<Compiled>> {
        if let Some((version, compiled)) = self.0.lock().get(&definition.id)
            && *version == definition.definition_version
        {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(Compiled::of(definition)?);
        self.0.lock().insert(definition.id, (definition.definition_version, Arc::clone(&compiled)));
        Ok(compiled)
    }

    /// Whether there is anything to read for the topic here; also where it cannot be compiled, which readers tell.
    pub(crate) fn has_table(&self, definition: &TopicDefinition, state: &VnodeState) -> bool {
        self.get(definition).map_or(true, |topic| topic.qualifies(state))
    }

    pub(super) fn forget(&self, id: TopicId) {
        self.0.lock().remove(&id);
    }
}
