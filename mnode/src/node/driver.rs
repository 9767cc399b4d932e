//! The one task that looks for work and hands it out: ticks, rebalances, hand-overs, statements.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Result, VgroupId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::Inner;
use crate::coordinator::Work;
use crate::state::Command;

/// Jobs that run at once; the rest waits for its turn.
const JOBS_MAX: usize = 64;

/// How a job ended.
struct Done {
    work: Work,
    failed: bool,
}

/// Runs until told to stop. What it leaves undone is found again at the next start.
pub(super) async fn run(inner: Arc<Inner>, mut stop: watch::Receiver<bool>) {
    let mut jobs = JoinSet::new();
    let mut busy = BTreeSet::new();
    // Failed since the last tick: not again before the next one.
    let mut resting = BTreeSet::new();
    let mut checks = 0;
    let mut last_tick = Instant::now();
    while !*stop.borrow_and_update() {
        if inner.notices.take_membership() {
            inner.rebalance().await;
        }
        let made = inner.checks.load(Ordering::Acquire);
        if made != checks {
            checks = made;
            resting.clear();
        }
        for work in inner.work() {
            let must_wait = jobs.len() >= JOBS_MAX
                || resting.contains(&work)
                || busy.iter().any(|other| work.waits_for(other));
            if must_wait || !busy.insert(work.clone()) {
                continue;
            }
            jobs.spawn(do_work(Arc::clone(&inner), work));
        }
        // Read anew each time: the interval may be altered while this runs.
        let next_tick = last_tick + inner.check_interval();
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            Some(done) = jobs.join_next(), if !jobs.is_empty() => match done {
                Ok(done) => {
                    busy.remove(&done.work);
                    if done.failed {
                        resting.insert(done.work);
                    }
                }
                Err(e) => {
                    // Which one is unknown: forget all that are not running, they are found again.
                    warn!(error = %e, "metadata job ended badly");
                    busy.clear();
                    jobs.shutdown().await;
                }
            },
            () = inner.notices.wake.notified() => {}
            () = sleep_until(next_tick), if inner.options.ticking => {
                last_tick = Instant::now();
                if let Err(error) = inner.tick().await {
                    warn!(%error, "check of consumers failed");
                }
            }
        }
    }
    // Half-done calls are idempotent and come again.
    jobs.shutdown().await;
}

async fn do_work(inner: Arc<Inner>, work: Work) -> Done {
    let result = match &work {
        Work::Intent { id, .. } => inner.drive_intent(*id).await,
        Work::Switch(key) => inner.drive_switch(key).await,
    };
    if let Err(error) = &result {
        warn!(?work, %error, "metadata job failed, to be tried again");
    }
    Done { work, failed: result.is_err() }
}

impl Inner {
    /// What is under way and may go on.
    fn work(&self) -> Vec<Work> {
        self.read(|state| self.notices.coordinator.lock().work(state))
    }

    /// Proposes the rebalances that are due, all together, so that they share the log's fsync.
    async fn rebalance(&self) {
        let due = {
            let machine = self.machine.read();
            self.notices.coordinator.lock().plan(&machine.state)
        };
        let mut proposed = Vec::with_capacity(due.len());
        for command in due {
            let enqueued = match self.proposal(&command) {
                Ok(proposal) => self.group.enqueue(proposal).await,
                Err(e) => Err(e),
            };
            match enqueued {
                Ok(pending) => proposed.push(pending),
                Err(error) => warn!(%error, "rebalance could not be proposed, next tick tries again"),
            }
        }
        for pending in proposed {
            match pending.await {
                // Refused means that somebody was faster; the change that overtook it is looked at next.
                Ok(version) => drop(self.machine.write().take_outcome(version)),
                Err(error) => warn!(%error, "rebalance could not be logged, next tick tries again"),
            }
        }
    }

    /// One check: see [`crate::Coordinator::tick`].
    pub(super) async fn tick(&self) -> Result<()> {
        self.checks.fetch_add(1, Ordering::AcqRel);
        let commands = {
            let machine = self.machine.read();
            self.notices.coordinator.lock().tick(&machine.state)
        };
        for command in commands {
            if let Command::Expire { consumers } = &command {
                tracing::info!(consumers = consumers.len(), "consumers timed out");
            }
            self.submit(&command).await?;
        }
        let probes = self.notices.coordinator.lock().probes();
        for vgroup in probes {
            self.probe(vgroup).await;
        }
        self.notices.look_at_membership();
        self.checkpoint_if_due().await
    }

    /// Asks a shard whether it serves.
    async fn probe(&self, vgroup: VgroupId) {
        let ready = self.shards.ready(vgroup).await;
        self.notices.shard_answered(|coordinator| coordinator.probed(vgroup, ready));
    }

    /// Asks every shard that some group reads: those that were damaged before this start have owners in the state.
    pub(super) async fn probe_all(&self) {
        let vgroups: BTreeSet<VgroupId> = self.read(|state| {
            let topics = state.groups().map(|(key, _)| key.topic);
            topics.flat_map(|topic| state.catalog().topic_vgroups(topic).iter().copied()).collect()
        });
        for vgroup in vgroups {
            self.probe(vgroup).await;
        }
    }

    pub(super) async fn settled(&self) -> Result<()> {
        let applied = self.group.applied();
        loop {
            let seen = applied.get();
            self.is_stopping()?;
            let quiet = {
                let machine = self.machine.read();
                let state = &machine.state;
                state.intents().next().is_none()
                    && state.groups().all(|(_, g)| g.pending.is_none())
                    && self.notices.coordinator.lock().plan(state).is_empty()
            };
            if quiet {
                return Ok(());
            }
            applied.passed(seen).await;
        }
    }
}
