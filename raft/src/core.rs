//! One life of an openraft core. It starts when the group is opened, and anew after a storage error has ended it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Code, Error, Result};
use openraft::{Config, ServerState, SnapshotPolicy};
use parking_lot::RwLock;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::oneshot;
use wal::{Kind, NewRecord, Version};

use crate::error::{of_fatal, of_wal};
use crate::format;
use crate::log_store::{LogStore, to_entry};
use crate::machine::Machine;
use crate::network::NoPeers;
use crate::options::GroupOptions;
use crate::proposal::StateMachine;
use crate::shared::Shared;
use crate::types::{Membership, Raft};

/// How many records are replayed under one lock of the state machine.
const REPLAY_MAX: usize = 1024;

/// Interval of openraft's timer in a group of one, which has nothing to do when it fires.
const ALONE_TICK_MS: u64 = 60 * 60 * 1_000;

pub(crate) struct Core {
    pub(crate) raft: Raft,
    /// Resolves when nothing is applied through this core any more.
    machine_ended: tokio::sync::Mutex<Option<oneshot::Receiver<()>>>,
}

impl Core {
    /// Starts a core over a log that [`replay`] has been through, and returns once it leads in a new term and has applied
    /// its own first entry. Both need room on the disk: for the vote, and for that entry.
    ///
    /// # Errors
    /// The first cause that was noted in `shared`, where the storage is why it does not lead.
    pub(crate) async fn start<S: StateMachine>(
        shared: &Arc<Shared>,
        state: &Arc<RwLock<S>>,
        options: &GroupOptions,
    ) -> Result<Self> {
        let log = LogStore::new(Arc::clone(shared));
        let (machine, machine_ended) = Machine::new(Arc::clone(shared), Arc::clone(state));
        let config = Arc::new(config(options)?);
        let raft = Raft::new(shared.node, config, NoPeers, log, machine).await.map_err(of_fatal)?;
        let core = Self { raft, machine_ended: tokio::sync::Mutex::new(Some(machine_ended)) };
        match core.lead().await {
            Ok(()) => Ok(core),
            Err(e) => {
                core.stop().await;
                Err(shared.failure_of_life().unwrap_or(e))
            }
        }
    }

    async fn lead(&self) -> Result<()> {
        self.raft.trigger().elect().await.map_err(of_fatal)?;
        let mut metrics = self.raft.metrics();
        loop {
            {
                let now = metrics.borrow_and_update();
                now.running_state.clone().map_err(of_fatal)?;
                let applied_term = now.last_applied.map(|applied| applied.leader_id.term);
                if now.state == ServerState::Leader && applied_term == Some(now.current_term) {
                    tracing::info!(group = %self.raft.config().cluster_name, term = now.current_term, "raft group leads");
                    return Ok(());
                }
                if now.state == ServerState::Learner
                    && !now.membership_config.voter_ids().any(|id| id == now.id)
                {
                    return Err(Error::not_supported("raft group in which this node does not vote"));
                }
            }
            metrics.changed().await.map_err(|_| Error::of(Code::ShuttingDown))?;
        }
    }

    /// Ends the core and waits until nothing of it is left that could write or apply.
    pub(crate) async fn stop(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "raft core did not end in order");
        }
        // What was committed is still applied and answered: the machine works off its queue before it ends.
        if let Some(ended) = self.machine_ended.lock().await.take() {
            let _ = ended.await; // never sent to: resolves when the sender is dropped
        }
    }
}

/// openraft's settings. Nothing happens by count or by itself: checkpoints and retention are the state machine's, and a
/// lone voter needs no timer.
fn config(options: &GroupOptions) -> Result<Config> {
    let heartbeat_interval = ALONE_TICK_MS.max(options.heartbeat_ms).max(1_000);
    // The only chance in openraft 0.9 is the election timeout. Drawn here and handed over as a range of one value, it
    // comes from the group's seed.
    let drawn = ChaCha8Rng::seed_from_u64(options.seed).random_range(0..heartbeat_interval);
    let election_timeout_min = heartbeat_interval.saturating_mul(3).saturating_add(drawn);
    let config = Config {
        cluster_name: options.group.to_string(),
        heartbeat_interval,
        election_timeout_min,
        election_timeout_max: election_timeout_min.saturating_add(1),
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        enable_tick: false,
        enable_heartbeat: false,
        enable_elect: false,
        ..Config::default()
    };
    config.validate().map_err(|e| Error::internal("raft settings").caused_by(e))
}

/// Writes the first record of a new group: its members, this node alone. It stands where openraft's own initialisation
/// would put it. Blocks.
pub(crate) fn bootstrap(shared: &Shared) -> Result<()> {
    let members = Membership::new(vec![[shared.node].into()], ());
    let time_ns = shared.clock.now_ns();
    let body = format::encode_membership(&members)?.into();
    let first = NewRecord { term: 0, time_ns, kind: Kind::Membership, flags: 0, body, schemas: Vec::new() };
    shared.wal.append(Version::ZERO, &[first], time_ns).map_err(of_wal)?;
    shared.wal.sync().map_err(of_wal)?;
    Ok(())
}

/// Applies what is certainly committed: in a group of one, whatever is in the log. Doing it here rather than in openraft
/// reads the log as a stream; openraft would collect the whole tail in memory first. It writes nothing. Blocks.
pub(crate) fn replay<S: StateMachine>(shared: &Shared, state: &RwLock<S>) -> Result<()> {
    let (from, end) = (shared.progress.lock().next(), shared.wal.next_version());
    if from < shared.wal.first_version() && shared.wal.first_version() < end {
        let first = shared.wal.first_version();
        return Err(Error::with(
            Code::Damaged,
            format_args!("log begins after the checkpoint next={from} first={first}"),
        )
        .hint("the checkpoint is older than the log: restore both from one backup"));
    }
    if from > end {
        tracing::warn!(group = shared.group, checkpoint_next = %from, log_next = %end, "log ends before the checkpoint");
    }
    let mut reader = shared.wal.reader(from);
    let mut more = true;
    while more {
        let mut state = state.write();
        for _ in 0..REPLAY_MAX {
            more = replay_one(shared, &mut reader, &mut *state)?;
            if !more {
                break;
            }
        }
    }
    let applied_next = shared.progress.lock().next();
    shared.committed_next.fetch_max(applied_next.get(), Ordering::AcqRel);
    if let Some(applied) = applied_next.prev() {
        shared.applied.set(applied);
    }
    Ok(())
}

/// Applies the next record; false at the end of the log and where others have a say in what is committed.
fn replay_one<S: StateMachine>(shared: &Shared, reader: &mut wal::Reader, state: &mut S) -> Result<bool> {
    let Some(record) = reader.next().map_err(of_wal)? else { return Ok(false) };
    let entry = to_entry(record)?;
    let mut progress = shared.progress.lock();
    let members = openraft::entry::RaftPayload::get_membership(&entry);
    if !is_alone(members.unwrap_or(progress.membership.membership()), shared.node) {
        return Ok(false);
    }
    if let Some(record) = &entry.record {
        state.apply(record);
    }
    crate::machine::note(&mut progress, &entry);
    Ok(true)
}

fn is_alone(members: &Membership, node: u64) -> bool {
    let mut voters = members.voter_ids();
    voters.next() == Some(node) && voters.next().is_none()
}
