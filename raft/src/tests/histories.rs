//! Seeded histories of a group on a disk that fails, fills up and ends. What must hold is the ledger's.

use std::path::Path;
use std::sync::Arc;

use model::{Code, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wal::sim::{Op, SimDisk, SimFault};
use wal::{Retention, SchemaBlock, SchemaKey};

use super::ledger::{Ledger, Outcome, must_say_try_again};
use super::support::{Bench, Seen, State};
use crate::{Checkpoint, Fsync, Group, Proposal};

const OPS: [Op; 8] =
    [Op::Write, Op::Sync, Op::Create, Op::Rename, Op::Remove, Op::SyncDir, Op::Reserve, Op::Read];

struct History {
    what: String,
    chance: ChaCha8Rng,
    disk: SimDisk,
    bench: Bench,
    ledger: Ledger,
    checkpoint: Option<(Seen, Checkpoint)>,
}

impl History {
    fn new(seed: u64) -> Self {
        let fsync = if seed.is_multiple_of(2) { Fsync::BeforeAck } else { Fsync::Never };
        let disk = SimDisk::new();
        let mut bench = Bench::new(Path::new("/sim"), Arc::new(disk.clone()), fsync);
        bench.options.wal.segment_bytes_max = 3_000;
        let (ledger, chance) = (Ledger::default(), ChaCha8Rng::seed_from_u64(seed));
        Self { what: format!("seed {seed}"), chance, disk, bench, ledger, checkpoint: None }
    }

    /// Opens the group, trying again while the faults last that are still planned.
    async fn open(&mut self) -> Result<(Group<Seen>, State)> {
        loop {
            let (seen, checkpoint) = self.checkpoint.clone().unzip();
            match self.bench.open_from(seen.unwrap_or_default(), checkpoint).await {
                Err(e) if e.may_retry() => self.disk.clear_faults(),
                opened => return opened,
            }
        }
    }

    fn proposal(&mut self) -> Proposal {
        let bytes = self.chance.random_range(4..700);
        let mut proposal = self.ledger.next(bytes);
        if self.chance.random_ratio(1, 3) {
            let key = SchemaKey { owner: self.chance.random_range(0..3), version: 1 };
            proposal.schemas.push(SchemaBlock { key, bytes: vec![1; 100].into() });
        }
        proposal
    }

    /// Several proposals in flight at once.
    async fn burst(&mut self, group: &Group<Seen>) {
        let mut pending = Vec::new();
        for _ in 0..self.chance.random_range(2..8) {
            let proposal = self.proposal();
            let body = proposal.body.clone();
            match group.enqueue(proposal).await {
                // Noted at once, since the next one is told from it by its number.
                Ok(queued) => {
                    pending.push((self.ledger.note(body, Outcome::Unknown), queued));
                }
                Err(e) => {
                    must_say_try_again(&e);
                    self.ledger.note(body, Outcome::Refused);
                }
            }
        }
        for (number, queued) in pending {
            match queued.await {
                Ok(version) => self.ledger.acknowledge(number, version),
                Err(e) => must_say_try_again(&e),
            }
        }
    }

    async fn take_checkpoint(&mut self, group: &Group<Seen>) -> Result<()> {
        let taken = group.checkpoint_with(|seen, checkpoint| (seen.clone(), checkpoint))?;
        group.sync().await?;
        self.checkpoint = Some(taken.clone());
        group.compacted(&taken.1).await?;
        group.retain(Retention { period_s: 0, size_kb: 0 }).await.map(|_| ())
    }

    fn plan_fault(&mut self) {
        let op = OPS[self.chance.random_range(0..OPS.len())];
        let errno = if op == Op::Read || self.chance.random() { 5 } else { 28 };
        let short = op == Op::Write && self.chance.random_ratio(1, 3);
        let fault =
            if short { SimFault::Short(self.chance.random_range(0..200)) } else { SimFault::Errno(errno) };
        let nth = self.chance.random_range(0..6);
        for call in nth..nth + self.chance.random_range(1..5) {
            self.disk.fail_nth(op, call, fault);
        }
    }

    /// Leaves no room, or a little.
    fn fill_disk(&mut self) {
        let used: usize = self.disk.files().iter().map(|(_, content)| content.len()).sum();
        self.disk.set_capacity(Some(used as u64 + self.chance.random_range(0..3_000)));
    }

    async fn act(&mut self, group: &Group<Seen>) {
        let retry = |done: Result<()>| {
            let _ = done.inspect_err(must_say_try_again);
        };
        match self.chance.random_range(0..20) {
            0 => self.plan_fault(),
            1 => self.fill_disk(),
            2 => self.disk.set_capacity(None),
            3 => retry(group.roll().await),
            4 => retry(self.take_checkpoint(group).await),
            5 => retry(group.sync().await.map(|_| ())),
            6..10 => self.burst(group).await,
            _ => {
                let proposal = self.proposal();
                let _ = self.ledger.propose(group, proposal).await; // the ledger notes what came of it
            }
        }
    }

    /// One life of the process. At its end the group is closed, or the machine fails.
    async fn live(&mut self) -> Result<()> {
        let (group, state) = self.open().await?;
        self.ledger.check(&state.read(), &self.what);
        for _ in 0..self.chance.random_range(5..30) {
            self.act(&group).await;
            self.ledger.check(&state.read(), &self.what);
        }
        if self.chance.random_ratio(2, 3) {
            self.disk.clear_faults();
            self.disk.set_capacity(None);
            let proposal = self.proposal();
            self.ledger.propose(&group, proposal).await?;
            assert!(group.failure().is_none(), "{}: leads again", self.what);
            self.ledger.check_log(&group, &self.what);
        }
        if self.chance.random_ratio(1, 3) {
            let _ = group.close().await.inspect_err(must_say_try_again);
            return Ok(());
        }
        self.ledger.forget_above(group.positions().durable);
        drop(group);
        self.disk.crash(self.chance.random());
        Ok(())
    }
}

#[tokio::test]
async fn histories_keep_what_was_acknowledged() -> Result<()> {
    for seed in 0..120 {
        let mut history = History::new(seed);
        for _ in 0..5 {
            history.live().await?;
        }
        history.disk.clear_faults();
        history.disk.set_capacity(None);
        let (group, state) = history.open().await?;
        let proposal = history.proposal();
        history.ledger.propose(&group, proposal).await?;
        history.ledger.check(&state.read(), &history.what);
        history.ledger.check_log(&group, &history.what);
    }
    Ok(())
}

/// A server was killed on a full disk: it starts, what it has can be read, and the first write after there is room works.
#[tokio::test]
async fn a_group_on_a_full_disk_opens_for_reading() -> Result<()> {
    for (room, crashes) in [(0, true), (0, false), (40, true), (60, true)] {
        let disk = SimDisk::new();
        let bench = Bench::new(Path::new("/sim"), Arc::new(disk.clone()), Fsync::BeforeAck);
        let mut ledger = Ledger::default();
        let (group, _) = bench.open().await?;
        for bytes in [10, 500, 3] {
            ledger.propose(&group, ledger.next(bytes)).await?;
        }
        if !crashes {
            group.close().await?;
        }
        drop(group);
        if crashes {
            disk.crash(room);
        }
        for _ in 0..2 {
            let used: usize = disk.files().iter().map(|(_, content)| content.len()).sum();
            disk.set_capacity(Some(used as u64 + room));
            let (group, state) = bench.open().await?;
            let what = format!("room {room} crashes {crashes}");
            assert_eq!(group.failure().map(|e| e.code()), Some(Code::NoDiskSpace), "{what}");
            ledger.check(&state.read(), &what);
            ledger.check_log(&group, &what);
            let positions = group.positions();
            assert_eq!(group.applied().get(), positions.applied, "{what}: consumers see it");
            for _ in 0..3 {
                let error = ledger.propose(&group, ledger.next(100)).await.unwrap_err();
                assert_eq!(error.code(), Code::NoDiskSpace, "{what}");
            }
            assert_eq!(state.read().bodies().len(), 3, "{what}");
            disk.set_capacity(None);
            if crashes {
                drop(group);
                disk.crash(1 + room);
            } else {
                group.close().await?;
            }
        }
        let used: usize = disk.files().iter().map(|(_, content)| content.len()).sum();
        disk.set_capacity(Some(used as u64));
        let (group, state) = bench.open().await?;
        disk.set_capacity(None);
        ledger.propose(&group, ledger.next(100)).await?;
        assert!(group.failure().is_none());
        ledger.check(&state.read(), "room again");
        assert_eq!(state.read().bodies().len(), 4);
        group.close().await?;
    }
    Ok(())
}
