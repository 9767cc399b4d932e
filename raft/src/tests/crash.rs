//! The machine ends, or any call of the disk fails, at any moment, on a disk that keeps only what was synced.
//! Must hold: what was acknowledged after an fsync is there again; the log is a prefix of what was proposed, never
//! something else; terms rise; the group opens, and works again once the faults are over.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use model::Result;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wal::sim::{Op, SimDisk, SimFault};
use wal::{Kind, Version};

use super::support::{Bench, Seen, data};
use crate::{Checkpoint, Fsync, Group};

fn bench(disk: &SimDisk, fsync: Fsync) -> Bench {
    let mut bench = Bench::new(Path::new("/sim"), Arc::new(disk.clone()), fsync);
    bench.options.wal.segment_bytes_max = 4_000;
    bench
}

/// What the test knows of a group over its crashes.
#[derive(Default)]
struct Model {
    /// Everything that ever was proposed and may be in the log, by version.
    proposed: Vec<(Version, Bytes)>,
    /// The last version that was acknowledged after an fsync.
    durable: Option<Version>,
    checkpoint: Option<(Seen, Checkpoint)>,
    term: u64,
    count: u32,
}

impl Model {
    /// Compares a group that was just opened, and forgets what the crash took.
    fn check(&mut self, group: &Group<Seen>, seen: &Seen, seed: u64) {
        let (noop, kind, ..) = seen.0.last().unwrap();
        let last = group.log().get(*noop).unwrap().unwrap();
        assert!(*kind == Kind::Noop && last.term > self.term, "seed {seed}: a term of its own");
        self.term = last.term;
        assert!(self.durable < Some(*noop), "seed {seed}: {noop} after {:?}", self.durable);
        self.proposed.retain(|(version, _)| version < noop);
        let found = seen.0.iter().filter(|(_, kind, ..)| *kind == Kind::Data);
        let found: Vec<_> = found.map(|(version, _, _, body)| (*version, body.clone())).collect();
        assert_eq!(found, self.proposed, "seed {seed}");
    }

    async fn work(&mut self, group: &Group<Seen>, chance: &mut ChaCha8Rng, fsync: Fsync) -> Result<()> {
        for _ in 0..chance.random_range(0..25) {
            self.count += 1;
            let body = Bytes::from(vec![self.count.to_le_bytes()[0]; chance.random_range(0..600)]);
            let version = group.propose(data(body.clone())).await?;
            self.proposed.push((version, body));
            if fsync == Fsync::BeforeAck {
                self.durable = Some(version);
            }
            if chance.random_ratio(1, 12) {
                let taken = group.checkpoint_with(|seen, checkpoint| (seen.clone(), checkpoint))?;
                group.sync().await?;
                self.durable = taken.1.applied.map(|applied| applied.version);
                group.compacted(&taken.1).await?;
                self.checkpoint = Some(taken);
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn the_machine_ends_at_any_moment() -> Result<()> {
    for seed in 0..150 {
        let fsync = if seed % 2 == 0 { Fsync::BeforeAck } else { Fsync::Never };
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let disk = SimDisk::new();
        let bench = bench(&disk, fsync);
        let mut model = Model::default();
        for _ in 0..4 {
            let (seen, checkpoint) = model.checkpoint.clone().unzip();
            let (group, state) = bench.open_from(seen.unwrap_or_default(), checkpoint).await?;
            model.check(&group, &state.read(), seed);
            model.work(&group, &mut chance, fsync).await?;
            drop(group);
            disk.crash(chance.random());
        }
    }
    Ok(())
}

const OPS: [Op; 7] = [Op::Write, Op::Sync, Op::Create, Op::Rename, Op::SyncDir, Op::Reserve, Op::Read];
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Each operation of the disk fails once, at each of its first occurrences under a running group.
#[tokio::test]
async fn any_call_of_the_disk_fails_once() -> Result<()> {
    for (op, nth, errno) in
        OPS.into_iter().flat_map(|op| (0..12).flat_map(move |nth| [(op, nth, EIO), (op, nth, ENOSPC)]))
    {
        let what = format!("{op:?} {nth} errno {errno}");
        let disk = SimDisk::new();
        let bench = bench(&disk, Fsync::BeforeAck);
        let (group, state) = bench.open().await?;
        disk.fail_nth(op, nth, SimFault::Errno(errno));
        let mut acknowledged = Vec::new();
        let mut failed = 0;
        for n in 0..30_u8 {
            match group.propose(data(vec![n; 500])).await {
                Ok(version) => acknowledged.push((version, n)),
                Err(e) => {
                    assert!(e.may_retry(), "{what}: {e}");
                    failed += 1;
                }
            }
        }
        assert!(failed <= 2, "{what}: one fault fails {failed} proposals");
        disk.clear_faults();
        group.propose(data("after")).await?;
        assert!(group.failure().is_none(), "{what}");
        let live = state.read().clone();
        drop(group);
        disk.crash(nth);
        let (_group, again) = bench.open().await?;
        let again = again.read();
        assert_eq!(again.0[..live.0.len()], live.0, "{what}");
        for (version, n) in acknowledged {
            let (at, _, _, body) = &again.0[usize::try_from(version.get()).unwrap()];
            assert_eq!((*at, body), (version, &vec![n; 500].into()), "{what}");
        }
    }
    Ok(())
}

/// The disk is full for a while: every proposal that does not fit is refused, what fits goes on.
#[tokio::test]
async fn a_full_disk_refuses_until_there_is_room() -> Result<()> {
    let disk = SimDisk::new();
    let bench = bench(&disk, Fsync::Never);
    let (group, state) = bench.open().await?;
    let mut accepted = 0;
    for round in 0..3 {
        let used: usize = disk.files().iter().map(|(_, content)| content.len()).sum();
        disk.set_capacity(Some(used as u64 + 3_000));
        let mut refused = 0;
        for _ in 0..20 {
            match group.propose(data(vec![round; 700])).await {
                Ok(_) => accepted += 1,
                Err(e) => {
                    assert_eq!(e.code(), model::Code::NoDiskSpace);
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
        assert!(group.log().next_version() > Version(0), "still readable");
        disk.set_capacity(None);
        group.propose(data(vec![round; 700])).await?;
        accepted += 1;
    }
    assert_eq!(state.read().bodies().len(), accepted);
    group.close().await
}
