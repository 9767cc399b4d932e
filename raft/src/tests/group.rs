use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use model::{Code, Result};
use wal::sim::{Op, SimDisk};
use wal::{Kind, Retention, Version};

use super::disk::FaultyDisk;
use super::support::{Bench, Seen, data};
use crate::{Fsync, Group, Proposal};

#[tokio::test]
async fn a_new_group_leads_and_applies_its_own_entries_first() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (group, state) = Bench::std(dir.path()).open().await?;
    assert_eq!(state.read().kinds(), [Kind::Membership, Kind::Noop]);
    let positions = group.positions();
    assert_eq!(
        (positions.applied, positions.committed, positions.appended),
        (Version(1), Version(1), Version(1))
    );
    assert_eq!((positions.first, positions.floor), (Version(0), None));

    let version = group.propose(data("hello")).await?;
    assert_eq!(version, Version(2));
    assert_eq!(group.applied().get(), version);
    assert_eq!(state.read().bodies(), ["hello"]);
    let record = group.log().get(version).unwrap().unwrap();
    assert_eq!((record.kind, &record.body[..], record.term), (Kind::Data, &b"hello"[..], 1));
    group.close().await
}

#[tokio::test]
async fn reopening_replays_everything_in_a_term_of_its_own() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::std(dir.path());
    for round in 0..4_u8 {
        let (group, state) = bench.open().await?;
        assert_eq!(state.read().bodies().len(), usize::from(round) * 3);
        for n in 0..3 {
            group.propose(data(vec![round, n])).await?;
        }
        let last = group.log().get(group.positions().applied).unwrap().unwrap();
        assert_eq!(last.term, u64::from(round) + 1);
        if round % 2 == 0 {
            group.close().await?; // else it is dropped, as by a crash of the process
        }
    }
    let (_group, state) = bench.open().await?;
    let expected: Vec<Bytes> = (0..4_u8).flat_map(|r| (0..3_u8).map(move |n| vec![r, n].into())).collect();
    assert_eq!(state.read().bodies(), expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enqueue_fixes_the_order() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (group, state) = Bench::std(dir.path()).open().await?;
    let mut pending = Vec::new();
    for n in 0..1_000_u32 {
        pending.push(group.enqueue(data(n.to_le_bytes().to_vec())).await?);
    }
    for (n, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.await?, Version(n as u64 + 2));
    }
    let expected: Vec<Bytes> = (0..1_000_u32).map(|n| n.to_le_bytes().to_vec().into()).collect();
    assert_eq!(state.read().bodies(), expected);
    group.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_bound_in_flight_makes_proposers_wait_and_no_more() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::std(dir.path());
    bench.options.in_flight_bytes_max = 1_000;
    let (group, state) = bench.open().await?;
    let group = Arc::new(group);
    let tasks: Vec<_> = (0..64)
        .map(|n: u32| {
            let group = Arc::clone(&group);
            tokio::spawn(async move { group.propose(data(vec![0; n as usize * 40])).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap()?;
    }
    assert_eq!(state.read().bodies().len(), 64);
    group.close().await
}

/// 64 proposals that wait for an fsync while the disk works: the one that is under way serves those written before it,
/// and one more all the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_fsync_serves_all_who_wait() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let faults = Arc::clone(&disk.faults);
    let (group, _) = Bench::new(dir.path(), Arc::new(disk), Fsync::BeforeAck).open().await?;
    let group = Arc::new(group);
    for _ in 0..20 {
        let (before, last) = (faults.syncs(), Version(group.positions().applied.get() + 64));
        faults.hold_syncs(true);
        let propose = |_| {
            let group = Arc::clone(&group);
            tokio::spawn(async move {
                let version = group.propose(data("x")).await?;
                assert!(group.log().durable_next() > version, "answered before it was durable");
                Ok::<_, model::Error>(())
            })
        };
        let proposals: Vec<_> = (0..64).map(propose).collect();
        group.applied().passed(Version(last.get() - 1)).await;
        assert!(proposals.iter().all(|proposal| !proposal.is_finished()), "answered before the fsync");
        faults.hold_syncs(false);
        for proposal in proposals {
            proposal.await.unwrap()?;
        }
        let syncs = faults.syncs() - before;
        assert!((1..=2).contains(&syncs), "{syncs} fsyncs for 64 proposals");
    }
    group.close().await
}

/// What is reserved for proposals in flight must not close segments that have room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_leaves_no_trail_of_small_segments() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::std(dir.path());
    bench.options.wal.segment_bytes_max = 100_000;
    let (group, _) = bench.open().await?;
    let mut pending = Vec::new();
    for _ in 0..1_000 {
        pending.push(group.enqueue(data(vec![0; 960])).await?); // 1 KiB each in the log, ten segments in all
    }
    for pending in pending {
        pending.await?;
    }
    let segments = std::fs::read_dir(dir.path().join("wal")).unwrap();
    let segments =
        segments.filter(|f| f.as_ref().is_ok_and(|f| f.path().extension().is_some_and(|e| e == "log")));
    let count = segments.count();
    assert!(count <= 16, "{count} segments");
    group.close().await
}

/// A period that no test sees the end of.
const LONG: Fsync = Fsync::Every { period_ms: u32::MAX };

/// Waits until `version` is on disk, some seconds at most.
async fn durable(group: &Group<Seen>, version: Version) {
    let mut turns = 0_u32;
    while group.log().durable_next() <= version {
        assert!(turns < 50_000_000, "{version} is not synced");
        turns += 1;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_fsync_nothing_is_synced_and_with_a_period_it_is() -> Result<()> {
    let disk = SimDisk::new();
    let syncs = || disk.counts().of(Op::Sync);
    let bench = Bench::new(Path::new("/sim"), Arc::new(disk.clone()), Fsync::Never);
    let (group, _) = bench.open().await?;
    let before = syncs();
    for _ in 0..50 {
        group.propose(data("x")).await?;
    }
    assert_eq!(syncs(), before);
    assert!(group.positions().durable < Some(group.positions().appended));

    group.set_fsync(Fsync::Every { period_ms: 1 });
    let version = group.propose(data("y")).await?;
    durable(&group, version).await;
    let after = syncs();
    assert!(after > before);
    // Waits for the syncer, and would sync whatever is not.
    group.close().await?;
    assert_eq!(syncs(), after, "nothing new, nothing synced");
    Ok(())
}

#[tokio::test]
async fn a_period_ends_before_its_time_when_it_is_altered_and_when_much_is_written() -> Result<()> {
    let disk = SimDisk::new();
    let (group, _) = Bench::new(Path::new("/sim"), Arc::new(disk.clone()), LONG).open().await?;
    let small = group.propose(data("x")).await?;
    let large = group.propose(data(vec![0; 9 << 20])).await?;
    durable(&group, large).await;
    assert!(small < large);

    let before = disk.counts().of(Op::Sync);
    group.propose(data("y")).await?;
    tokio::task::yield_now().await;
    assert_eq!(disk.counts().of(Op::Sync), before, "the period goes on");
    group.set_fsync(Fsync::BeforeAck);
    group.propose(data("z")).await?;
    group.close().await
}

#[tokio::test]
async fn times_never_fall_whatever_is_proposed() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::std(dir.path());
    let (group, state) = bench.open().await?;
    for time_ns in [5_000, 3_000, 9_000, 0] {
        group.propose(Proposal { time_ns, ..data("t") }).await?;
    }
    drop(group);
    let (_group, again) = bench.open().await?;
    let times = |seen: &Seen| seen.0.iter().map(|(_, _, time_ns, _)| *time_ns).collect::<Vec<_>>();
    assert_eq!(times(&state.read()), [1_000, 1_000, 5_000, 5_000, 9_000, 9_000]);
    assert_eq!(times(&again.read()), [1_000, 1_000, 5_000, 5_000, 9_000, 9_000, 9_000]);
    Ok(())
}

#[tokio::test]
async fn schemas_and_flags_come_back() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (group, _) = Bench::std(dir.path()).open().await?;
    let key = wal::SchemaKey { owner: 7, version: 1 };
    let schemas = vec![wal::SchemaBlock { key, bytes: "schema".into() }];
    let version = group.propose(Proposal { flags: 0x81, schemas, ..data("row") }).await?;
    let record = group.log().get(version).unwrap().unwrap();
    assert_eq!(record.flags, 0x81);
    assert_eq!(record.schema(key).unwrap().as_deref(), Some(&b"schema"[..]));
    group.close().await
}

#[tokio::test]
async fn kinds_of_the_group_itself_are_refused() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (group, _) = Bench::std(dir.path()).open().await?;
    for kind in [Kind::Noop, Kind::Membership] {
        let error = group.propose(Proposal { kind, ..data("") }).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal);
    }
    assert!(group.failure().is_none());
    group.close().await
}

#[tokio::test]
async fn a_checkpoint_is_where_the_next_start_begins() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::std(dir.path());
    bench.options.wal.segment_bytes_max = 1_000;
    let (group, _) = bench.open().await?;
    for n in 0..20_u8 {
        group.propose(data(vec![n; 100])).await?;
    }
    let (stored, checkpoint) = group.checkpoint_with(|seen, checkpoint| (seen.clone(), checkpoint))?;
    group.sync().await?;
    group.compacted(&checkpoint).await?;
    let floor = checkpoint.applied.unwrap().version;
    assert_eq!(group.positions().floor, Some(floor));
    assert_eq!(group.positions().first, Version(0), "consumers still read what Raft has given up");
    assert!(group.log().get(Version(3)).unwrap().is_some());
    group.propose(data("behind")).await?;
    group.roll().await?;
    group.close().await?;

    // Through bytes, as its owner stores it.
    let checkpoint = postcard::from_bytes(&postcard::to_stdvec(&checkpoint).unwrap()).unwrap();
    let (group, state) =
        bench.open_from(Seen(stored.0[stored.0.len() - 1..].to_vec()), Some(checkpoint)).await?;
    assert_eq!(state.read().bodies().last().unwrap(), "behind");
    assert_eq!(state.read().0.len(), 3, "checkpoint, the record behind it, the new term's own");
    assert_eq!(group.positions().floor, Some(floor));

    let retained = group.retain(Retention { period_s: 0, size_kb: 0 }).await?;
    assert!(retained.segments > 0);
    let first = group.positions().first;
    assert!(first > Version(0) && first <= floor.next(), "nothing above the floor goes: {first}");
    group.propose(data("more")).await?;
    group.close().await?;

    // Without its checkpoint the log is not enough, and that is said.
    let error = bench.open().await.unwrap_err();
    assert_eq!(error.code(), Code::Damaged);
    Ok(())
}

#[tokio::test]
async fn a_log_that_lost_its_end_goes_on_behind_the_checkpoint() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::std(dir.path());
    let (group, _) = bench.open().await?;
    for _ in 0..5 {
        group.propose(data("x")).await?;
    }
    let (stored, checkpoint) = group.checkpoint_with(|seen, checkpoint| (seen.clone(), checkpoint))?;
    group.close().await?;
    std::fs::remove_dir_all(dir.path().join("wal")).unwrap();

    let (group, state) = bench.open_from(stored, Some(checkpoint.clone())).await?;
    let next = checkpoint.applied.unwrap().version.next();
    assert_eq!(state.read().0.last().map(|(version, kind, ..)| (*version, *kind)), Some((next, Kind::Noop)));
    let term = group.log().get(next).unwrap().unwrap().term;
    assert!(term > checkpoint.applied.unwrap().term);
    group.propose(data("y")).await?;
    group.close().await?;
    Ok(())
}

#[tokio::test]
async fn a_lost_vote_does_not_bring_back_a_term() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::std(dir.path());
    for _ in 0..3 {
        bench.open().await?.0.close().await?;
    }
    std::fs::remove_file(dir.path().join("vote")).unwrap();
    let (group, state) = bench.open().await?;
    let last = group.log().get(state.read().0.last().unwrap().0).unwrap().unwrap();
    assert_eq!((last.kind, last.term), (Kind::Noop, 4));
    group.close().await?;
    std::fs::write(dir.path().join("vote"), b"TIDEVOT\x01 but not a vote at all").unwrap();
    assert_eq!(bench.open().await.unwrap_err().code(), Code::Damaged);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_waits_for_what_is_in_flight_and_refuses_the_rest() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new();
    let faults = Arc::clone(&disk.faults);
    let (group, state) = Bench::new(dir.path(), Arc::new(disk), Fsync::BeforeAck).open().await?;
    let group = Arc::new(group);
    faults.hold_syncs(true);
    let mut pending = Vec::new();
    for _ in 0..100 {
        pending.push(group.enqueue(data("x")).await?);
    }
    let closing = tokio::spawn({
        let group = Arc::clone(&group);
        async move { group.close().await }
    });
    group.applied().passed(Version(100)).await;
    assert!(!closing.is_finished(), "the disk still works");
    faults.hold_syncs(false);
    closing.await.unwrap()?;
    for pending in pending {
        pending.await?;
    }
    assert_eq!(state.read().bodies().len(), 100);
    assert_eq!(group.propose(data("late")).await.unwrap_err().code(), Code::ShuttingDown);
    assert_eq!(group.positions().durable, Some(group.positions().appended));
    Ok(())
}
