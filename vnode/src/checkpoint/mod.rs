//! The state on disk: one file, one transaction a checkpoint. A restart reads it and replays the log behind it.
//!
//! What a checkpoint holds belongs to one version: everything is taken while nothing is being applied, and stored
//! together with the names of the data files that hold the rows up to that version.

mod file;
mod flush;
mod load;
mod snapshot;

use model::Version;
use parking_lot::Mutex;

pub(crate) use file::{CheckpointFile, OpenFile};
pub(crate) use load::{DATA_DIR, Loading};
pub(crate) use snapshot::{Header, Snapshot};

use crate::store::FlushJob;

/// Name of the file in a shard's directory.
pub(crate) const FILE: &str = "checkpoint.redb";

/// Stores checkpoints, one after the other.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    file: std::sync::Arc<CheckpointFile>,
    last: Mutex<Option<Version>>,
    /// Held through a flush. Memtables that were frozen but could not be written wait in it for the next.
    flushing: tokio::sync::Mutex<Vec<FlushJob>>,
}

impl Checkpoints {
    pub(crate) fn new(file: CheckpointFile, last: Option<Version>) -> Self {
        Self {
            file: std::sync::Arc::new(file),
            last: Mutex::new(last),
            flushing: tokio::sync::Mutex::default(),
        }
    }

    /// Last version that the stored checkpoint holds.
    pub(crate) fn last(&self) -> Option<Version> {
        *self.last.lock()
    }
}
