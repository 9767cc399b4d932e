//! What a group's owner does to the log while proposals go on.

use std::path::Path;
use std::sync::Arc;

use model::{Result, WalOptions};
use wal::sim::SimDisk;
use wal::{Retention, Version};

use super::disk::FaultyDisk;
use super::support::{Bench, data};
use crate::{Fsync, Group, GroupOptions};

fn segments(disk: &SimDisk) -> usize {
    disk.files().iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "log")).count()
}

#[tokio::test]
async fn options_of_the_log_are_altered_while_it_is_open() -> Result<()> {
    let disk = SimDisk::new();
    let mut bench = Bench::new(Path::new("/sim"), Arc::new(disk.clone()), Fsync::Never);
    let level_1 = WalOptions { level: 1, ..WalOptions::default() };
    bench.options = bench.options.with_wal(&level_1);
    let (group, _) = bench.open().await?;
    for _ in 0..10 {
        group.propose(data(vec![0; 900])).await?;
    }
    assert_eq!(segments(&disk), 1, "the default size holds them all");
    assert!(group.positions().durable < Some(group.positions().appended), "level 1 syncs nothing");

    let level_2 = WalOptions { level: 2, fsync_period_ms: 0, segment_size_kib: 3, ..level_1 };
    group.alter(&level_2);
    for _ in 0..4 {
        let version = group.propose(data(vec![0; 900])).await?;
        assert!(group.log().durable_next() > version, "level 2 with period 0 answers after the fsync");
    }
    assert_eq!(segments(&disk), 3, "the old one and two of 3 KiB");

    group.alter(&WalOptions { roll_period_s: 60, ..level_2 });
    bench.clock.advance_ns(59_000_000_000);
    group.roll_if_due().await?;
    assert_eq!(segments(&disk), 3);
    bench.clock.advance_ns(1_000_000_000);
    group.roll_if_due().await?;
    assert_eq!(segments(&disk), 4, "closed by age");

    group.alter(&level_1);
    let before = group.log().durable_next();
    let version = group.propose(data("x")).await?;
    assert_eq!((group.log().durable_next(), before), (before, version), "level 1 again");
    group.close().await
}

#[test]
fn options_of_a_database_become_those_of_a_group() {
    let database = WalOptions {
        level: 2,
        fsync_period_ms: 7,
        roll_period_s: 3,
        segment_size_kib: 5,
        ..Default::default()
    };
    let options = GroupOptions::new(1, "/sim").with_wal(&database);
    assert_eq!(options.fsync, Fsync::Every { period_ms: 7 });
    assert_eq!((options.wal.segment_bytes_max, options.wal.roll_period_ns), (5 << 10, 3_000_000_000));
}

/// A group of small segments, all of them given up by Raft.
async fn checkpointed(bench: &mut Bench) -> Result<Group<super::support::Seen>> {
    bench.options.wal.segment_bytes_max = 1_000;
    let (group, _) = bench.open().await?;
    for n in 0..20_u8 {
        group.propose(data(vec![n; 200])).await?;
    }
    let checkpoint = group.checkpoint()?;
    group.sync().await?;
    group.compacted(&checkpoint).await?;
    group.roll().await?;
    Ok(group)
}

#[tokio::test]
async fn the_keep_version_holds_segments_back_and_trim_does_not_ask_for_it() -> Result<()> {
    let mut bench = Bench::new(Path::new("/sim"), Arc::new(SimDisk::new()), Fsync::Never);
    let group = checkpointed(&mut bench).await?;
    let at_once = Retention { period_s: 0, size_kb: 0 };

    group.set_keep_version(Some(Version(9)));
    let retained = group.retain(at_once).await?;
    assert!(retained.segments > 0 && retained.first <= Version(9), "{retained:?}");
    assert!(group.log().get(Version(9)).unwrap().is_some());
    assert_eq!(group.retain(at_once).await?.segments, 0, "all that is below it is gone");

    let for_ever = Retention { period_s: -1, size_kb: 0 };
    assert_eq!(group.trim(for_ever).await?.segments, 0, "trim takes what is past retention only");
    let trimmed = group.trim(at_once).await?;
    assert!(trimmed.segments > 0);
    assert_eq!(trimmed.first, group.positions().appended.next(), "down to the open segment");
    group.close().await
}

#[tokio::test]
async fn without_a_keep_version_retention_goes_up_to_the_floor() -> Result<()> {
    let mut bench = Bench::new(Path::new("/sim"), Arc::new(SimDisk::new()), Fsync::Never);
    let group = checkpointed(&mut bench).await?;
    group.set_keep_version(Some(Version(9)));
    group.set_keep_version(None);
    let retained = group.retain(Retention { period_s: 0, size_kb: 0 }).await?;
    assert_eq!(retained.first, group.positions().appended.next());
    group.close().await
}

/// On a runtime of one thread, a call that waited for the disk there would keep every other task from running.
#[tokio::test]
async fn starting_a_segment_does_not_hold_the_runtime() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let faults = Arc::clone(&disk.faults);
    let mut bench = Bench::new(dir.path(), Arc::new(disk), Fsync::Never);
    bench.options.wal.segment_bytes_max = 2_000;
    let (group, state) = bench.open().await?;
    faults.note_this_thread();
    let before = faults.syncs();
    for n in 0..40_u8 {
        group.propose(data(vec![n; 400])).await?;
    }
    // In flight together, so that an append finds the segment full that the reservation thought had room.
    let mut pending = Vec::new();
    for n in 0..40_u8 {
        pending.push(group.enqueue(data(vec![n; 700])).await?);
    }
    for pending in pending {
        pending.await?;
    }
    group.roll().await?;
    assert_eq!(state.read().bodies().len(), 80);
    assert!(faults.syncs() - before > 40, "segments were closed and started");
    assert_eq!(faults.synced_by_noted(), 0, "on the thread of the runtime");
    group.close().await
}
