//! What the log amounts to: a deterministic state machine over its records.
//!
//! Applying is total. What could be wrong with a request was settled before it was proposed; a record that does not
//! fit all the same changes nothing, and one that does not decode is kept as a fault that stops the shard from taking
//! writes.

mod dirty;
mod groups;
mod stables;
mod tables;
mod topics;

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Error, SchemaVersion, StableInfo, TableInfo, TableKind, TableSchema, TableUid, TopicId, Version,
};
use wal::Kind;

pub(crate) use dirty::Dirty;
pub use groups::{Committed, GroupKey, GroupState, Groups};
pub use stables::{StableEntry, Stables};
pub use tables::{OlderTags, TableAt, TableEntry, Tables};
pub use topics::Topics;

use crate::keep::KeepVersion;
use crate::record::{
    DataRecord, DeleteRecord, DeleteScope, MetaRecord, NewTable, NewTableKind, OffsetRecord, OwnerRecord,
    RecordError, TopicRecord,
};
use crate::store::{DeleteScope as Hidden, Store};

/// One shard's state.
#[derive(Debug)]
pub struct VnodeState {
    /// Super tables and schemas.
    pub stables: Stables,
    /// Child and normal tables.
    pub tables: Tables,
    /// Consumer groups.
    pub groups: Groups,
    /// Topics.
    pub topics: Topics,
    pub(crate) store: Store,
    pub(crate) dirty: Dirty,
    applied: Version,
    /// Version after the last record of a kind that topics show.
    shown_end: Version,
    received_ns: i64,
    next_table: u64,
    /// Records of our own kinds applied since the shard was opened: how the proposer learns that all it has queued is
    /// here.
    own_records: u64,
    keep: Option<KeepVersion>,
    fault: Option<Error>,
}

impl VnodeState {
    /// A state without tables over the rows of `store`; the checkpoint fills it.
    pub(crate) fn new(store: Store, applied: Version, received_ns: i64, next_table: u64) -> Self {
        Self {
            stables: Stables::default(),
            tables: Tables::default(),
            groups: Groups::default(),
            topics: Topics::default(),
            store,
            dirty: Dirty::default(),
            applied,
            shown_end: applied.next(),
            received_ns,
            next_table,
            own_records: 0,
            keep: None,
            fault: None,
        }
    }

    /// Last version applied.
    #[must_use]
    pub const fn applied(&self) -> Version {
        self.applied
    }

    /// Version after the last record of a kind that topics show. Those behind it are commits, owners and the like, which
    /// no consumer waits for.
    #[must_use]
    pub const fn shown_end(&self) -> Version {
        self.shown_end
    }

    pub(crate) const fn restore_shown_end(&mut self, shown_end: Version) {
        self.shown_end = shown_end;
    }

    /// From where on the log survives retention, if anybody has asked for that.
    #[must_use]
    pub const fn keep_version(&self) -> Option<KeepVersion> {
        self.keep
    }

    pub(crate) const fn restore_keep_version(&mut self, keep: KeepVersion) {
        self.keep = Some(keep);
    }

    /// Receive time of the last record.
    #[must_use]
    pub const fn received_ns(&self) -> i64 {
        self.received_ns
    }

    /// Number that the next table gets at least.
    #[must_use]
    pub const fn next_table(&self) -> u64 {
        self.next_table
    }

    pub(crate) const fn own_records(&self) -> u64 {
        self.own_records
    }

    /// Why the state is not to be trusted, if it is not.
    #[must_use]
    pub const fn fault(&self) -> Option<&Error> {
        self.fault.as_ref()
    }

    /// Takes in one record.
    pub fn apply_record(&mut self, version: Version, time_ns: i64, kind: Kind, body: &Bytes) {
        self.applied = version;
        if kind.is_for_consumers() {
            self.shown_end = version.next();
        }
        self.received_ns = self.received_ns.max(time_ns);
        if !matches!(kind, Kind::Membership | Kind::Noop) {
            self.own_records += 1;
        }
        if let Err(error) = self.apply_body(version, time_ns, kind, body) {
            tracing::error!(%version, kind = kind.name(), %error, "record cannot be applied");
            let place = format!("version={version} kind={}: {error}", kind.name());
            self.fault.get_or_insert_with(|| Error::with(Error::from(error).code(), place));
        }
    }

    fn apply_body(
        &mut self,
        version: Version,
        time_ns: i64,
        kind: Kind,
        body: &Bytes,
    ) -> Result<(), RecordError> {
        match kind {
            Kind::Data => self.apply_data(version, DataRecord::decode(body)?),
            Kind::Meta => self.apply_meta(version, time_ns, MetaRecord::decode(body)?),
            Kind::Delete => self.apply_delete(version, DeleteRecord::decode(body)?),
            Kind::Offset => self.apply_offset(time_ns, OffsetRecord::decode(body)?),
            Kind::Owner => self.groups.set_owner(&OwnerRecord::decode(body)?),
            Kind::Topic => self.apply_topic(TopicRecord::decode(body)?),
            _ => {}
        }
        Ok(())
    }

    fn apply_data(&mut self, version: Version, record: DataRecord) {
        for write in record.writes {
            for table in write.creates {
                self.create_table(version, write.received_ns, table);
            }
            for block in write.blocks {
                self.store.apply(version, block);
            }
        }
    }

    fn apply_meta(&mut self, version: Version, time_ns: i64, record: MetaRecord) {
        match record {
            MetaRecord::CreateStable(stable) | MetaRecord::AlterStable { stable, .. } => {
                self.dirty.stable(stable.uid);
                self.dirty.schema(stable.uid, stable.schema.version);
                self.stables.put(stable);
            }
            MetaRecord::DropStable { uid, .. } => {
                self.dirty.stable(uid);
                self.stables.drop(uid, version);
                for child in self.tables.drop_children(uid, version) {
                    self.dirty.table(child);
                }
                self.store.drop_owner(uid, version);
            }
            MetaRecord::CreateTables(tables) => {
                for table in tables {
                    self.create_table(version, time_ns, table);
                }
            }
            MetaRecord::AlterTable { uid, schema, ttl_days, comment, .. } => {
                self.alter_table(uid, schema, ttl_days, comment);
            }
            MetaRecord::SetTags { uid, tags, schema_version, .. } => {
                self.dirty.table(uid);
                self.tables.set_tags(uid, tags, schema_version, version);
            }
            MetaRecord::DropTables(tables) => {
                for table in tables {
                    self.drop_table(table.uid, version);
                }
            }
        }
    }

    fn create_table(&mut self, version: Version, time_ns: i64, table: NewTable) {
        self.next_table = self.next_table.max(table.uid.counter().saturating_add(1));
        // Cannot be, short of a proposal whose outcome was unknown and which came twice: the first one stands.
        if self.tables.named(&table.name).is_some() || self.tables.entry(table.uid).is_some() {
            return;
        }
        let (kind, tags_schema) = match table.kind {
            NewTableKind::Child { stable, schema_version, tags } => {
                (TableKind::Child { stable, tags }, schema_version)
            }
            NewTableKind::Normal { schema } => {
                let schema_version = schema.version;
                self.dirty.schema(table.uid, schema_version);
                self.stables.put_schema(table.uid, Arc::clone(&schema));
                (TableKind::Normal { schema }, schema_version)
            }
        };
        let info = TableInfo {
            uid: table.uid,
            name: table.name,
            kind,
            create_time_ns: time_ns,
            created_at: version,
            ttl_days: table.ttl_days,
            comment: table.comment,
        };
        self.dirty.table(table.uid);
        self.tables.put(TableEntry {
            info: Arc::new(info),
            tags_schema,
            since: version,
            older: Vec::new(),
            dropped_at: None,
        });
    }

    fn alter_table(
        &mut self,
        uid: TableUid,
        new_schema: Option<Arc<TableSchema>>,
        new_ttl_days: u32,
        new_comment: Option<String>,
    ) {
        self.dirty.table(uid);
        if let Some(schema) = &new_schema {
            self.dirty.schema(uid, schema.version);
            self.stables.put_schema(uid, Arc::clone(schema));
        }
        self.tables.change(uid, |info| {
            info.ttl_days = new_ttl_days;
            info.comment = new_comment;
            if let (TableKind::Normal { schema }, Some(new)) = (&mut info.kind, new_schema) {
                *schema = new;
            }
        });
    }

    fn drop_table(&mut self, uid: TableUid, version: Version) {
        self.dirty.table(uid);
        match self.tables.drop(uid, version) {
            Some(owner) if owner == uid => self.store.drop_owner(uid, version),
            Some(owner) => self.store.drop_table(owner, uid, version),
            None => {}
        }
    }

    fn apply_delete(&mut self, version: Version, record: DeleteRecord) {
        let range = record.range();
        // A child that is deleted from by its own name is a list of one.
        let scope = match record.scope {
            DeleteScope::Whole { .. } => Hidden::All,
            DeleteScope::Tables(tables) => Hidden::Tables(tables.iter().map(|table| table.uid).collect()),
        };
        self.store.delete(version, record.owner, scope, range);
    }

    fn apply_offset(&mut self, time_ns: i64, record: OffsetRecord) {
        match record {
            OffsetRecord::Commit { topic, group, offset, consumer, epoch, sequence } => {
                self.groups.commit(topic, &group, epoch, Committed { offset, consumer, sequence });
            }
            OffsetRecord::Start { topic, group, at } => self.groups.start(topic, &group, at),
            OffsetRecord::DropGroup { topic, group } => self.groups.drop_group(topic, &group),
            OffsetRecord::Keep { from } => self.keep = Some(KeepVersion { from, set_ns: time_ns }),
        }
    }

    fn apply_topic(&mut self, record: TopicRecord) {
        match record {
            TopicRecord::Create(definition) | TopicRecord::Reload(definition) => self.topics.put(definition),
            TopicRecord::Drop(id) => {
                self.topics.drop(id);
                self.groups.drop_topic(id);
            }
        }
    }

    /// Forgets what only records before `first`, the first version kept, needed.
    pub(crate) fn prune(&mut self, first: Version) {
        for uid in self.stables.prune(first) {
            self.dirty.owner_gone(uid);
        }
        let pruned = self.tables.prune(first);
        for uid in pruned.gone {
            self.dirty.table(uid);
            // Rows in files need a normal table's schemas no longer than the table lives.
            self.stables.forget_schemas(uid);
            self.dirty.owner_gone(uid);
        }
        for uid in pruned.changed {
            self.dirty.table(uid);
        }
    }

    /// The schema in force of a super table or normal table that exists.
    #[must_use]
    pub fn current_schema(&self, owner: TableUid) -> Option<&Arc<TableSchema>> {
        if let Some(stable) = self.stables.get(owner) {
            return Some(&stable.schema);
        }
        match &self.tables.get(owner)?.info.kind {
            TableKind::Normal { schema } => Some(schema),
            TableKind::Child { .. } => None,
        }
    }

    /// A table as it is now, its tags in the order of its super table's current schema.
    #[must_use]
    pub fn table_info(&self, entry: &TableEntry) -> Arc<TableInfo> {
        let TableKind::Child { stable, tags } = &entry.info.kind else { return Arc::clone(&entry.info) };
        let Some(current) = self.stables.entry(*stable) else { return Arc::clone(&entry.info) };
        if entry.tags_schema >= current.tags_since {
            return Arc::clone(&entry.info);
        }
        let mut info = TableInfo::clone(&entry.info);
        let tags = self.stables.arrange(*stable, tags, entry.tags_schema, current.info.schema.version);
        info.kind = TableKind::Child { stable: *stable, tags };
        Arc::new(info)
    }

    /// The super table with this uid as messages name it, also a dropped one.
    #[must_use]
    pub fn stable_info(&self, uid: TableUid) -> Option<&Arc<StableInfo>> {
        self.stables.entry(uid).map(|entry| &entry.info)
    }

    /// A schema that rows have.
    #[must_use]
    pub fn schema(&self, owner: TableUid, version: SchemaVersion) -> Option<&Arc<TableSchema>> {
        self.stables.schema(owner, version)
    }

    /// Whether a topic exists.
    #[must_use]
    pub fn has_topic(&self, id: TopicId) -> bool {
        self.topics.get(id).is_some()
    }
}

impl raft::StateMachine for VnodeState {
    fn apply(&mut self, record: &wal::Record) {
        self.apply_record(record.version, record.time_ns, record.kind, &record.body);
    }
}
