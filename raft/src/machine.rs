//! The state machine as openraft asks for it.

use std::sync::Arc;

use model::{Code, Error, Result};
use openraft::storage::RaftStateMachine;
use openraft::{AnyError, OptionalSend, RaftSnapshotBuilder};
use parking_lot::RwLock;
use tokio::sync::oneshot;
use wal::{Reader, Version};

use crate::entry::{Content, Entry};
use crate::error::{of_wal, to_read_error};
use crate::proposal::StateMachine;
use crate::shared::{Progress, Shared};
use crate::types::{
    LogId, Marker, Snapshot, SnapshotMeta, StorageError, StorageIOError, StoredMembership, TypeConfig,
};

/// How many records are applied before readers of the state get a turn.
const APPLY_MAX: usize = 256;

/// Applies committed records. One per life of a core; its end is told through `_alive`.
pub(crate) struct Machine<S> {
    shared: Arc<Shared>,
    state: Arc<RwLock<S>>,
    reader: Option<Reader>,
    /// Whether the position is all the state there is, as in openraft's storage suite: it is then a snapshot at any
    /// time, and that of another node may take its place. A group's snapshot is the checkpoint that was stored last, and
    /// moving it to another node comes with replicas.
    position_only: bool,
    _alive: oneshot::Sender<()>,
}

impl<S: StateMachine> Machine<S> {
    /// The machine, and what resolves once it is dropped and nothing is applied through it any more.
    pub(crate) fn new(shared: Arc<Shared>, state: Arc<RwLock<S>>) -> (Self, oneshot::Receiver<()>) {
        let (alive, ended) = oneshot::channel();
        (Self { shared, state, reader: None, position_only: false, _alive: alive }, ended)
    }

    /// As [`Machine::new`] for a state machine without state.
    #[cfg(test)]
    pub(crate) fn position_only(shared: Arc<Shared>, state: Arc<RwLock<S>>) -> Self {
        Self { position_only: true, ..Self::new(shared, state).0 }
    }

    /// Applies `entries` under one lock, then tells how far that is, then answers.
    pub(crate) fn apply_some(&mut self, entries: &[Entry]) -> Result<()> {
        // Before the state is locked: this may read the disk.
        let mut records = Vec::with_capacity(entries.len());
        let found = entries.iter().try_for_each(|entry| {
            records.push(self.record_of(entry)?);
            Ok(())
        });
        let mut state = self.state.write();
        for (entry, record) in entries.iter().zip(&records) {
            if let Some(record) = record {
                state.apply(record);
            }
            note(&mut self.shared.progress.lock(), entry);
        }
        drop(state);
        let next = self.shared.progress.lock().next();
        if let Some(last) = next.prev() {
            self.shared.applied.set(last);
        }
        for entry in entries.iter().filter(|entry| entry.log_id.index < next.get()) {
            if let Content::Proposed(proposed) = &entry.content {
                proposed.applied();
                self.shared.syncer.applied(&self.shared, Version(entry.log_id.index), Arc::clone(proposed));
            }
        }
        found
    }

    /// The record of an entry: with it, or in the log. None for an entry of openraft's own that no log holds, which
    /// only its storage suite applies.
    fn record_of(&mut self, entry: &Entry) -> Result<Option<wal::Record>> {
        if let Some(record) = &entry.record {
            return Ok(Some(record.clone()));
        }
        let version = Version(entry.log_id.index);
        let reader = self.reader.get_or_insert_with(|| self.shared.wal.reader(version));
        reader.seek(version);
        let ours = matches!(entry.content, Content::Proposed(_) | Content::Record);
        match reader.next() {
            Ok(Some(record)) if record.term == entry.log_id.leader_id.term => Ok(Some(record)),
            Ok(_) | Err(wal::WalError::Purged { .. }) if !ours => Ok(None),
            Ok(_) => {
                Err(Error::internal(format_args!("committed record is not in the log version={version}")))
            }
            Err(e) => {
                self.reader = None;
                Err(of_wal(e))
            }
        }
    }
}

/// Moves `progress` past an applied entry.
pub(crate) fn note(progress: &mut Progress, entry: &Entry) {
    progress.applied = Some(entry.log_id);
    if let Content::Membership(membership) = &entry.content {
        progress.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
    }
}

/// The snapshot that `progress` amounts to.
fn meta_of(applied: Option<LogId>, membership: StoredMembership) -> SnapshotMeta {
    let snapshot_id = applied.map_or_else(String::new, |applied| applied.to_string());
    SnapshotMeta { last_log_id: applied, last_membership: membership, snapshot_id }
}

impl Progress {
    /// Notes that everything up to `applied` is stored outside the log.
    pub(crate) fn stored(&mut self, applied: LogId, membership: StoredMembership) {
        if self.snapshot.as_ref().and_then(|snapshot| snapshot.last_log_id) < Some(applied) {
            self.snapshot = Some(meta_of(Some(applied), membership));
        }
    }
}

impl<S: StateMachine> RaftStateMachine<TypeConfig> for Machine<S> {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        let progress = self.shared.progress.lock();
        Ok((progress.applied, progress.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        for some in entries.chunks(APPLY_MAX) {
            self.apply_some(some).map_err(|e| self.shared.ends_core(e, to_read_error))?;
        }
        Ok(vec![(); entries.len()])
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder { shared: Arc::clone(&self.shared), position_only: self.position_only }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Marker>, StorageError> {
        Ok(Box::new(Marker))
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, _: Box<Marker>) -> Result<(), StorageError> {
        if !self.position_only {
            let error = Error::with(Code::NotSupported, "checkpoint of another replica");
            return Err(StorageIOError::write_snapshot(Some(meta.signature()), AnyError::new(&error)).into());
        }
        let mut progress = self.shared.progress.lock();
        progress.applied = meta.last_log_id;
        progress.membership = meta.last_membership.clone();
        progress.snapshot = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let meta = self.shared.progress.lock().snapshot.clone();
        Ok(meta.map(|meta| Snapshot { meta, snapshot: Box::new(Marker) }))
    }
}

/// "Builds" a snapshot: the state machine has stored a checkpoint already, and this names it.
pub(crate) struct SnapshotBuilder {
    shared: Arc<Shared>,
    position_only: bool,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let mut progress = self.shared.progress.lock();
        if let Some(applied) = progress.applied.filter(|_| self.position_only) {
            let membership = progress.membership.clone();
            progress.stored(applied, membership);
        }
        let meta = progress.snapshot.clone().unwrap_or_default();
        Ok(Snapshot { meta, snapshot: Box::new(Marker) })
    }
}
