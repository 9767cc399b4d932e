//! Flush: rows to files, then one checkpoint that names them, then the log may go.

use std::sync::Arc;

use model::{Code, Error, Result, TableSchema, TableUid};
use parking_lot::RwLock;
use wal::{RetainOutcome, Retention};

use super::{Checkpoints, Header, Snapshot};
use crate::state::{Dirty, VnodeState};
use crate::store::{FlushJob, FlushOutcome, SchemaSource};
use crate::vnode::{Vnode, blocking};

/// How often taking a checkpoint is tried while the group applies records of its own beside ours.
const TAKE_MAX: usize = 100;

/// What was taken at one version.
struct Taken {
    header: Header,
    snapshot: Snapshot,
    dirty: Dirty,
}

impl Checkpoints {
    pub(crate) async fn flush(&self, vnode: &Vnode) -> Result<()> {
        let stored = self.store(vnode).await;
        // Also where there was no room to store anything: what is past its time makes some.
        stored.and(self.tick(vnode).await)
    }

    async fn store(&self, vnode: &Vnode) -> Result<()> {
        let mut jobs = self.flushing.lock().await;
        let taken = vnode.proposer.at_rest(|| take(vnode, &mut jobs)).await??;
        let applied = taken.header.raft.applied.map(|applied| applied.version);
        if applied == self.last() {
            vnode.state.write().still_dirty(taken.dirty);
        } else {
            let Taken { header, snapshot, dirty } = taken;
            if let Err(e) = self.write(vnode, &mut jobs, header, snapshot).await {
                vnode.state.write().still_dirty(dirty);
                return Err(e);
            }
            *self.last.lock() = applied;
        }
        vnode.group.roll().await
    }

    async fn write(
        &self,
        vnode: &Vnode,
        jobs: &mut Vec<FlushJob>,
        mut header: Header,
        snapshot: Snapshot,
    ) -> Result<()> {
        let schemas = Schemas(Arc::clone(&vnode.state));
        let (unwritten, outcomes) = blocking({
            let mut jobs = std::mem::take(jobs);
            move || Ok(run(&mut jobs, &schemas)).map(|outcomes| (jobs, outcomes))
        })
        .await?;
        *jobs = unwritten;
        let Written { outcomes, error } = outcomes;
        header.manifest = {
            let mut state = vnode.state.write();
            for outcome in outcomes {
                state.store.install(outcome);
            }
            state.store.manifest()
        };
        if let Some(error) = error {
            return Err(error);
        }
        // The log on disk must not end before a checkpoint that is on disk.
        vnode.group.sync().await?;
        let (file, raft) = (Arc::clone(&self.file), header.raft.clone());
        let manifest = blocking(move || file.store(&header, &snapshot).map(|()| header.manifest)).await?;
        vnode.state.write().store.manifest_saved(&manifest);
        vnode.group.compacted(&raft).await
    }

    /// Log and data past their time.
    pub(crate) async fn tick(&self, vnode: &Vnode) -> Result<()> {
        vnode.group.set_keep_version(vnode.keep_version().map(|keep| keep.from));
        if !vnode.group.needs_upkeep(retention(vnode)) {
            vnode.state.write().store.expire(vnode.first_kept());
            return Ok(());
        }
        // A new segment takes space, and a full disk has none before retention has made some.
        let rolled = vnode.group.roll_if_due().await;
        let retained = vnode.group.retain(retention(vnode)).await;
        let retained = retained.map(|retained| note_deleted(vnode, retained));
        vnode.state.write().store.expire(vnode.first_kept());
        rolled.and(retained)
    }

    /// Log past its time, whatever the keep version.
    pub(crate) async fn trim(&self, vnode: &Vnode) -> Result<()> {
        let trimmed = vnode.group.trim(retention(vnode)).await?;
        note_deleted(vnode, trimmed);
        Ok(())
    }
}

/// As the database's options say now.
fn retention(vnode: &Vnode) -> Retention {
    let wal = vnode.database().options.wal;
    Retention { period_s: wal.retention_period_s, size_kb: wal.retention_size_kib }
}

fn note_deleted(vnode: &Vnode, deleted: RetainOutcome) {
    if deleted.segments > 0 {
        let RetainOutcome { segments, bytes, first } = deleted;
        tracing::info!(vgroup = %vnode.vgroup(), segments, bytes, %first, "log segments deleted");
        vnode.state.write().prune(first);
    }
}

/// Takes the state of this moment. Nothing of ours is in flight; records of the group's own may still come between the
/// two looks, hence the loop.
fn take(vnode: &Vnode, jobs: &mut Vec<FlushJob>) -> Result<Taken> {
    for _ in 0..TAKE_MAX {
        let raft = vnode.group.checkpoint()?;
        let mut state = vnode.state.write();
        if raft.applied.is_some_and(|applied| applied.version.get() != state.applied().0) {
            continue;
        }
        if let Some(fault) = state.fault() {
            return Err(fault.clone());
        }
        jobs.extend(state.store.freeze());
        let dirty = state.take_dirty();
        let snapshot = Snapshot::of(&state, &dirty);
        let header = Header {
            vgroup: vnode.vgroup(),
            raft,
            manifest: Default::default(),
            received_ns: state.received_ns(),
            next_table: state.next_table(),
        };
        return Ok(Taken { header, snapshot, dirty });
    }
    Err(Error::of(Code::Conflict))
}

struct Written {
    outcomes: Vec<FlushOutcome>,
    error: Option<Error>,
}

/// Runs the jobs in order; those from the first that fails on stay.
fn run(jobs: &mut Vec<FlushJob>, schemas: &Schemas) -> Written {
    let mut outcomes = Vec::new();
    while let Some(job) = jobs.first() {
        match job.run(schemas) {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => return Written { outcomes, error: Some(error) },
        }
        jobs.remove(0);
    }
    Written { outcomes, error: None }
}

/// Names and schemas as they are while files are written.
struct Schemas(Arc<RwLock<VnodeState>>);

impl SchemaSource for Schemas {
    fn schema(&self, owner: TableUid) -> Option<Arc<TableSchema>> {
        self.0.read().current_schema(owner).cloned()
    }

    fn table_name(&self, owner: TableUid, table: TableUid) -> Option<Arc<str>> {
        let state = self.0.read();
        let entry = state.tables.get(table).filter(|entry| entry.owner() == owner)?;
        Some(entry.info.name.as_str().into())
    }
}
