//! A disk that fails under a running group. Must hold: the write concerned fails with a code that says "try again",
//! what was acknowledged stays, and the group takes writes again without a restart once the fault is gone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Code, Result};

use super::disk::{Faults, FaultyDisk};
use super::support::{Bench, data};
use crate::Fsync;

fn bench(dir: &Path, fsync: Fsync) -> (Bench, Arc<Faults>) {
    let disk = FaultyDisk::new();
    let faults = Arc::clone(&disk.faults);
    (Bench::new(dir, Arc::new(disk), fsync), faults)
}

#[tokio::test]
async fn a_full_disk_fails_one_proposal_and_nothing_else() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (bench, faults) = bench(dir.path(), Fsync::Never);
    let (group, state) = bench.open().await?;
    group.propose(data("before")).await?;
    faults.reserves.store(1, Ordering::SeqCst);
    // More than the space already taken, so that more must be asked for.
    let error = group.propose(data(vec![1; 3 << 20])).await.unwrap_err();
    assert_eq!(error.code(), Code::NoDiskSpace);
    assert!(group.failure().is_none(), "nobody else is concerned");
    group.propose(data("small")).await?;
    group.propose(data(vec![2; 3 << 20])).await?;
    assert_eq!(state.read().bodies().len(), 3);
    group.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_write_is_mended_by_the_next_proposal() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (bench, faults) = bench(dir.path(), Fsync::Never);
    let (group, state) = bench.open().await?;
    let acknowledged = group.propose(data("before")).await?;
    faults.writes.store(1, Ordering::SeqCst);
    let error = group.propose(data("lost")).await.unwrap_err();
    assert_eq!((error.code(), error.may_retry()), (Code::Io, true));
    assert!(group.failure().is_some(), "read-only");
    assert!(group.log().get(acknowledged).unwrap().is_some(), "still readable");

    group.propose(data("after")).await?;
    assert!(group.failure().is_none());
    assert_eq!(state.read().bodies(), ["before", "after"]);
    group.close().await?;
    let (_group, again) = bench.open().await?;
    assert_eq!(again.read().bodies(), ["before", "after"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_fault_lasts_every_proposal_fails_and_the_first_after_it_works() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (bench, faults) = bench(dir.path(), Fsync::Never);
    let (group, state) = bench.open().await?;
    faults.writes.store(i64::MAX, Ordering::SeqCst);
    for _ in 0..5 {
        let error = group.propose(data("lost")).await.unwrap_err();
        assert_eq!(error.code(), Code::Io);
    }
    faults.writes.store(0, Ordering::SeqCst);
    group.propose(data("after")).await?;
    assert_eq!(state.read().bodies(), ["after"]);
    group.close().await
}

/// Many proposers run into the fault at once. Whatever was acknowledged is there, in order, also after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_records_survive_faults_among_many_proposers() -> Result<()> {
    for (fsync, kind) in [(Fsync::Never, "write"), (Fsync::BeforeAck, "write"), (Fsync::BeforeAck, "sync")] {
        let dir = tempfile::tempdir().unwrap();
        let (bench, faults) = bench(dir.path(), fsync);
        let (group, state) = bench.open().await?;
        let group = Arc::new(group);
        let tasks: Vec<_> = (0..16_u32)
            .map(|task| {
                let (group, faults) = (Arc::clone(&group), Arc::clone(&faults));
                tokio::spawn(async move {
                    let mut acknowledged = Vec::new();
                    for n in 0..40_u32 {
                        if task == 0 && n % 10 == 5 {
                            let fault = if kind == "write" { &faults.writes } else { &faults.syncs };
                            fault.store(1, Ordering::SeqCst);
                        }
                        let body = (task << 16 | n).to_le_bytes();
                        match group.propose(data(body.to_vec())).await {
                            Ok(version) => acknowledged.push((version, body)),
                            Err(e) => assert!(e.may_retry(), "{e}"),
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        let mut acknowledged = Vec::new();
        for task in tasks {
            acknowledged.extend(task.await.unwrap());
        }
        let last = group.propose(data("last")).await?;
        assert!(acknowledged.len() > 500, "{kind}: a fault fails what is in flight: {}", acknowledged.len());
        let live = state.read().clone();
        group.close().await?;
        drop(group);
        let (group, again) = bench.open().await?;
        let again = again.read().clone();
        assert_eq!(again.0[..live.0.len()], live.0, "{kind}");
        for (version, body) in acknowledged {
            let (at, _, _, found) = &again.0[usize::try_from(version.get()).unwrap()];
            assert_eq!((*at, &found[..]), (version, &body[..]), "{kind}");
        }
        assert!(group.positions().applied > last);
        group.close().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_fsync_fails_those_who_wait_for_it() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (bench, faults) = bench(dir.path(), Fsync::BeforeAck);
    let (group, _) = bench.open().await?;
    group.propose(data("before")).await?;
    faults.syncs.store(1, Ordering::SeqCst);
    let error = group.propose(data("unknown")).await.unwrap_err();
    assert_eq!((error.code(), error.may_retry()), (Code::Io, true));
    let version = group.propose(data("after")).await?;
    assert!(group.log().durable_next() > version);
    group.close().await?;
    let (_group, again) = bench.open().await?;
    let bodies = again.read().bodies();
    assert_eq!((bodies.first().unwrap(), bodies.last().unwrap()), (&"before".into(), &"after".into()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vote_that_cannot_be_stored_leaves_the_group_read_only_and_the_next_proposal_leads() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (bench, faults) = bench(dir.path(), Fsync::Never);
    let (group, _) = bench.open().await?;
    group.propose(data("before")).await?;
    group.close().await?;
    faults.creates.store(1, Ordering::SeqCst);
    let (group, state) = bench.open().await?;
    assert_eq!(group.failure().map(|e| e.code()), Some(Code::Io));
    assert_eq!(state.read().bodies(), ["before"]);
    group.propose(data("after")).await?;
    assert!(group.failure().is_none());
    assert_eq!(state.read().bodies(), ["before", "after"]);
    group.close().await
}

/// Rolling needs a new file: that it cannot be made ends the core like a failed write, and is mended like one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_cannot_be_started_is_mended() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let (mut bench, faults) = bench(dir.path(), Fsync::Never);
    bench.options.wal.segment_bytes_max = 2_000;
    let (group, state) = bench.open().await?;
    let mut acknowledged = 0;
    for n in 0..60 {
        if n % 7 == 3 {
            faults.creates.store(1, Ordering::SeqCst);
        }
        match group.propose(data(vec![0; 300])).await {
            Ok(_) => acknowledged += 1,
            Err(e) => assert_eq!(e.code(), Code::Io),
        }
    }
    assert!(acknowledged > 40, "{acknowledged}");
    assert_eq!(state.read().bodies().len(), acknowledged);
    faults.creates.store(0, Ordering::SeqCst);
    group.close().await
}
