//! Flush: rows to files, then one checkpoint that names them, then the log may go.

use std::sync::Arc;

use model::{Code, Error, Result, TableSchema, TableUid, Version};
use parking_lot::RwLock;
use wal::{RetainOutcome, Retention};

use super::{Checkpoints, Header, Snapshot};
use crate::state::{Dirty, VnodeState};
use crate::store::{CompactionProgress, CompactionScope, FlushJob, FlushOutcome, Place, SchemaSource};
use crate::vnode::{Vnode, blocking};

/// How often taking a checkpoint is tried while the group applies records of its own beside ours.
const TAKE_MAX: usize = 100;

/// How a merge ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compacted {
    pub(crate) place: Place,
    /// False if it was stopped, or its files went meanwhile.
    pub(crate) merged: bool,
}

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
        let kept = self.tick_log(vnode).await;
        let _jobs = self.flushing.lock().await;
        kept.and(self.expire(vnode).await)
    }

    async fn tick_log(&self, vnode: &Vnode) -> Result<()> {
        if !vnode.group.needs_upkeep(retention(vnode)) {
            return Ok(());
        }
        // A new segment takes space, and a full disk has none before retention has made some.
        let rolled = vnode.group.roll_if_due().await;
        let retained = vnode.group.retain(retention(vnode)).await;
        rolled.and(retained.map(|retained| note_deleted(vnode, retained)))
    }

    /// Whether log past its time stays only because no checkpoint holds its records.
    pub(crate) fn is_awaited(vnode: &Vnode) -> bool {
        vnode.group.awaits_checkpoint(retention(vnode))
    }

    /// Log past its time, whatever the keep version.
    pub(crate) async fn trim_log(&self, vnode: &Vnode) -> Result<()> {
        let trimmed = vnode.group.trim(retention(vnode)).await?;
        note_deleted(vnode, trimmed);
        Ok(())
    }

    /// Takes out files past KEEP. The caller holds `flushing`.
    async fn expire(&self, vnode: &Vnode) -> Result<()> {
        let first_kept = vnode.first_kept();
        vnode.state.write().store.expire(first_kept);
        self.swap_manifest(vnode).await
    }

    /// Merges the next files at `from` or behind it, of those that the checkpoint at `checkpoint` holds, which is the
    /// last one or an earlier one. `None` if there are none.
    pub(crate) async fn compact(
        &self,
        vnode: &Vnode,
        (checkpoint, scope): (Version, CompactionScope),
        from: Option<Place>,
        progress: &Arc<CompactionProgress>,
    ) -> Result<Option<Compacted>> {
        let job = vnode.state.write().store.compaction(checkpoint, scope, from);
        let Some((job, place)) = job.and_then(|job| job.place().map(|place| (job, place))) else {
            return Ok(None);
        };
        let (files, rows) = (job.files(), job.rows());
        let schemas = Schemas(Arc::clone(&vnode.state));
        let outcome = blocking({
            let progress = Arc::clone(progress);
            move || job.run(&schemas, &progress)
        })
        .await?;
        let Some(outcome) = outcome else { return Ok(Some(Compacted { place, merged: false })) };
        let _jobs = self.flushing.lock().await;
        let merged = vnode.state.write().store.install_compaction(outcome);
        if merged {
            self.swap_manifest(vnode).await?;
            let (owner, bucket) = place;
            tracing::info!(vgroup = %vnode.vgroup(), %owner, bucket, files, rows, "data files merged");
        }
        Ok(Some(Compacted { place, merged }))
    }

    /// Stores the checkpoint again with the files of now, where some of those that it names are not wanted any more. The
    /// caller holds `flushing`.
    async fn swap_manifest(&self, vnode: &Vnode) -> Result<()> {
        if !vnode.state.read().store.has_obsolete() {
            return Ok(());
        }
        // What made files obsolete may be a record that is not on disk yet, such as a table's end.
        vnode.group.sync().await?;
        let (file, state) = (Arc::clone(&self.file), Arc::clone(&vnode.state));
        let manifest = blocking(move || {
            let stored = file.read()?.map(|open| open.header()).transpose()?.flatten();
            let Some(mut header) = stored else { return Ok(None) };
            let Some(applied) = header.raft.applied.map(|applied| applied.version) else { return Ok(None) };
            let durable = std::mem::take(&mut header.manifest);
            header.manifest = state.read().store.manifest_at(applied, durable);
            file.store(&header, &Snapshot::default())?;
            Ok(Some(header.manifest))
        })
        .await?;
        if let Some(manifest) = manifest {
            vnode.state.write().store.manifest_saved(&manifest);
        }
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
