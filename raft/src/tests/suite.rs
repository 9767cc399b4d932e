//! openraft's own storage suite over the log store.

use std::path::Path;
use std::sync::Arc;

use model::ManualClock;
use openraft::testing::{StoreBuilder, Suite};
use parking_lot::RwLock;
use tempfile::TempDir;
use wal::sim::SimDisk;
use wal::{Disk, StdDisk, Wal};

use super::support::Seen;
use crate::log_store::{self, LogStore};
use crate::machine::Machine;
use crate::options::Fsync;
use crate::shared::{Progress, Shared};
use crate::syncer::Syncer;
use crate::types::{StorageError, TypeConfig};

fn build(disk: Arc<dyn Disk>, dir: &Path) -> model::Result<(LogStore, Machine<Seen>)> {
    let clock = Arc::new(ManualClock::at(1));
    let options = wal::Options { segment_bytes_max: 2_000, ..Default::default() };
    let wal = Wal::open(Arc::clone(&disk), &dir.join("wal"), options, 0).map_err(crate::error::of_wal)?.0;
    let syncer = Syncer::new(Fsync::Never);
    let shared = Shared::new(2, 0, dir.to_owned(), disk, clock, wal, 2_000, syncer, Progress::default());
    log_store::load(&shared)?;
    let shared = Arc::new(shared);
    let machine = Machine::position_only(Arc::clone(&shared), Arc::new(RwLock::new(Seen::default())));
    Ok((LogStore::new(shared), machine))
}

struct OnDisk;

impl StoreBuilder<TypeConfig, LogStore, Machine<Seen>, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine<Seen>), StorageError> {
        let dir = tempfile::tempdir().unwrap();
        let (log, machine) = build(Arc::new(StdDisk), dir.path()).unwrap();
        Ok((dir, log, machine))
    }
}

#[test]
fn openraft_suite_passes_on_files() {
    Suite::test_all(OnDisk).unwrap();
}

struct OnSimDisk;

impl StoreBuilder<TypeConfig, LogStore, Machine<Seen>> for OnSimDisk {
    async fn build(&self) -> Result<((), LogStore, Machine<Seen>), StorageError> {
        let (log, machine) = build(Arc::new(SimDisk::new()), Path::new("/sim")).unwrap();
        Ok(((), log, machine))
    }
}

#[test]
fn openraft_suite_passes_on_a_simulated_disk() {
    Suite::test_all(OnSimDisk).unwrap();
}
