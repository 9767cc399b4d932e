//! Merging data files: by itself after flushes, and where COMPACT asks for it. One merge at a time a shard, on a thread
//! that may block; writes, flushes and reads go on beside it.

use std::sync::{Arc, Weak};

use model::Result;
use parking_lot::Mutex;
use query::source::TimeRange;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::store::{CompactionProgress, CompactionScope, Place};
use crate::vnode::Vnode;

/// Whose turn it is to merge.
#[derive(Debug, Default)]
pub(crate) struct Compactor {
    wanted: Arc<Notify>,
    turn: tokio::sync::Mutex<()>,
    /// Of the merge under way.
    current: Mutex<Option<Arc<CompactionProgress>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Compactor {
    /// Has somebody look whether merging pays.
    pub(crate) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Stops what is under way, and answers once nothing is. The shard is closing: nothing begins again.
    pub(crate) async fn end(&self) {
        if let Some(progress) = &*self.current.lock() {
            progress.stop();
        }
        let task = self.task.lock().take();
        self.want();
        if let Some(task) = task {
            let _ended = task.await;
        }
        let _turn = self.turn.lock().await;
    }
}

/// Starts the task that merges by itself.
pub(crate) fn start(vnode: &Arc<Vnode>) {
    let compactor = &vnode.compactor;
    let (wanted, closing) = (Arc::clone(&compactor.wanted), vnode.closing.subscribe());
    *compactor.task.lock() = Some(tokio::spawn(run(Arc::downgrade(vnode), wanted, closing)));
    compactor.want();
}

async fn run(vnode: Weak<Vnode>, wanted: Arc<Notify>, mut closing: watch::Receiver<bool>) {
    loop {
        // A shard that is dropped without being closed takes the sender with it.
        let ended = tokio::select! {
            biased;
            ended = closing.wait_for(|closing| *closing) => Some(ended.is_ok()),
            () = wanted.notified() => None,
        };
        let Some(vnode) = vnode.upgrade().filter(|_| ended.is_none()) else { return };
        if let Err(error) = vnode.compact_worthwhile().await {
            tracing::warn!(vgroup = %vnode.vgroup(), %error, "merging data files failed, the next flush tries again");
        }
    }
}

impl Vnode {
    /// Merges as long as it pays.
    async fn compact_worthwhile(&self) -> Result<()> {
        let progress = Arc::new(CompactionProgress::default());
        self.compact_scope(CompactionScope::Worthwhile, &progress).await
    }

    /// COMPACT: flushes, then merges every bucket's files into one and leaves out what is deleted, of the buckets that
    /// have files within `time`. Answers when that is done, or at once after [`CompactionProgress::stop`] or a close.
    ///
    /// # Errors
    /// Of the disk, or `Damaged` with the file's name. What is merged by then stays.
    pub async fn compact(&self, time: TimeRange, progress: &Arc<CompactionProgress>) -> Result<()> {
        self.flush().await?;
        self.compact_scope(CompactionScope::All(time), progress).await
    }

    /// Merges in turn with others.
    pub(crate) async fn compact_scope(
        &self,
        scope: CompactionScope,
        progress: &Arc<CompactionProgress>,
    ) -> Result<()> {
        let _turn = self.compactor.turn.lock().await;
        *self.compactor.current.lock() = Some(Arc::clone(progress));
        let done = self.compact_in_turn(scope, progress).await;
        *self.compactor.current.lock() = None;
        done
    }

    async fn compact_in_turn(
        &self,
        scope: CompactionScope,
        progress: &Arc<CompactionProgress>,
    ) -> Result<()> {
        // One checkpoint for all of it: files that flushes make meanwhile are for the next time, so that it ends.
        let Some(checkpoint) = self.checkpoints.last() else { return Ok(()) };
        progress.begin(self.state.read().store.compaction_size(checkpoint, scope));
        let mut from: Option<Place> = None;
        while !progress.is_stopped() && !*self.closing.borrow() {
            let done = self.checkpoints.compact(self, (checkpoint, scope), from, progress).await?;
            if from.is_some() && done.is_none_or(|done| Some(done.place) != from) {
                progress.bucket_done();
            }
            let Some(done) = done else { break };
            let (owner, bucket) = done.place;
            from = Some(if done.merged { done.place } else { (owner, bucket.saturating_add(1)) });
        }
        Ok(())
    }
}
