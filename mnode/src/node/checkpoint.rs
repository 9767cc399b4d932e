//! The snapshot file: written beside the log, so that a restart reads it and replays only the tail.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Code, Error, Result};
use raft::Checkpoint;
use wal::{Disk, Retention};

use super::{Inner, MnodeOptions};
use crate::state::Snapshot;

pub(super) const FILE: &str = "mnode.snapshot";

/// The log is small, and the only other copy of what a damaged snapshot held: it is kept for a week.
const RETENTION: Retention = Retention { period_s: 7 * 24 * 3_600, size_kb: 256 << 10 };

fn path(options: &MnodeOptions) -> PathBuf {
    options.dir.join(FILE)
}

pub(super) async fn read(
    options: &MnodeOptions,
    disk: &Arc<dyn Disk>,
) -> Result<Option<Snapshot<Checkpoint>>> {
    let (path, disk) = (path(options), Arc::clone(disk));
    let content = blocking(&path, move |path| wal::read_file(&*disk, path)).await?;
    content.map(|bytes| Snapshot::decode(&bytes)).transpose().map_err(|e| named(&e, &path))
}

/// An error of the snapshot's content, with the file and how to go on.
pub(super) fn named(error: &Error, path: &Path) -> Error {
    let text = format!("{}: path={}", error.message(), path.display());
    let named = Error::text(error.code(), text).caused_by(error.clone());
    match error.code() {
        Code::Damaged => named.hint(
            "remove the file: the next start makes it anew from the log beside it, and refuses where that no longer \
             begins with its first record; restore the whole data directory from a copy then",
        ),
        _ => named,
    }
}

impl Inner {
    /// Writes a snapshot if enough was logged since the last.
    pub(super) async fn checkpoint_if_due(&self) -> Result<()> {
        if self.records_since_checkpoint() < self.options.checkpoint_records {
            return Ok(());
        }
        self.checkpoint().await
    }

    pub(super) async fn checkpoint(&self) -> Result<()> {
        if self.records_since_checkpoint() == 0 {
            return Ok(());
        }
        // State and place in the log under one lock; encoding happens outside of it.
        let snapshot = self
            .group
            .checkpoint_with(|machine, checkpoint| Snapshot { checkpoint, state: machine.state.clone() })?;
        let applied = snapshot.state.applied();
        // The log must not end before the snapshot, or versions would be given out twice after a crash.
        self.group.sync().await?;
        let bytes = snapshot.encode()?;
        let (path, disk) = (path(&self.options), Arc::clone(&self.disk));
        blocking(&path, move |path| wal::write_file_atomic(&*disk, path, &bytes)).await?;
        self.group.compacted(&snapshot.checkpoint).await?;
        self.checkpointed.store(applied.0, Ordering::Release);
        self.group.roll().await?;
        self.group.retain(RETENTION).await?;
        tracing::info!(version = %applied, "metadata snapshot written");
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    let path = path.to_owned();
    let done = tokio::task::spawn_blocking(move || {
        work(&path).map_err(|e| {
            let code = if wal::is_out_of_space(&e) { Code::NoDiskSpace } else { Code::Io };
            Error::with(code, format_args!("file={}", path.display())).caused_by(e)
        })
    });
    done.await.map_err(|e| Error::internal(format_args!("snapshot: {e}")))?
}
