//! A state machine that remembers what it was given, and short ways to open a group of it.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use model::{ManualClock, Result};
use parking_lot::RwLock;
use wal::{Disk, Kind, Record, StdDisk, Version};

use crate::{Checkpoint, Fsync, Group, GroupOptions, Proposal, StateMachine};

/// What it has seen, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(pub(super) Vec<(Version, Kind, i64, Bytes)>);

impl StateMachine for Seen {
    fn apply(&mut self, record: &Record) {
        let next = self.0.last().map(|(version, ..)| version.next());
        assert!(next.is_none_or(|next| next == record.version), "versions have no gaps and come once");
        self.0.push((record.version, record.kind, record.time_ns, Bytes::copy_from_slice(&record.body)));
    }
}

impl Seen {
    /// Bodies of the records that were proposed.
    pub(super) fn bodies(&self) -> Vec<Bytes> {
        let ours = self.0.iter().filter(|(_, kind, ..)| !matches!(kind, Kind::Noop | Kind::Membership));
        ours.map(|(.., body)| body.clone()).collect()
    }

    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.0.iter().map(|(_, kind, ..)| *kind).collect()
    }
}

pub(super) type State = Arc<RwLock<Seen>>;

/// A group on a disk, with the means to open it again.
pub(super) struct Bench {
    pub(super) options: GroupOptions,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<ManualClock>,
}

impl Bench {
    pub(super) fn new(dir: &Path, disk: Arc<dyn Disk>, fsync: Fsync) -> Self {
        let options = GroupOptions { fsync, ..GroupOptions::new(2, dir) };
        Self { options, disk, clock: Arc::new(ManualClock::at(1_000)) }
    }

    pub(super) fn std(dir: &Path) -> Self {
        Self::new(dir, Arc::new(StdDisk), Fsync::Never)
    }

    pub(super) async fn open(&self) -> Result<(Group<Seen>, State)> {
        self.open_from(Seen::default(), None).await
    }

    pub(super) async fn open_from(
        &self,
        seen: Seen,
        checkpoint: Option<Checkpoint>,
    ) -> Result<(Group<Seen>, State)> {
        let state: State = Arc::new(RwLock::new(seen));
        let (disk, clock) = (Arc::clone(&self.disk), Arc::clone(&self.clock));
        let (group, _) =
            Group::open(self.options.clone(), disk, clock, Arc::clone(&state), checkpoint).await?;
        Ok((group, state))
    }
}

pub(super) fn data(body: impl Into<Bytes>) -> Proposal {
    Proposal { kind: Kind::Data, flags: 0, time_ns: 0, body: body.into(), schemas: Vec::new() }
}
