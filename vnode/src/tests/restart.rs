use model::{Code, Version};

use super::*;
use crate::checkpoint::FILE;

#[tokio::test]
async fn rows_survive_a_crash_a_flush_and_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let mut expected = Vec::new();
    // C079, C075: rows stay once each, the later value wins, whatever way the shard ended.
    for round in 0..6 {
        let vnode = open(dir.path(), &time).await;
        if round == 0 {
            with_meter(&vnode).await;
            with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
        }
        assert_eq!(scan(&vnode).await, expected, "round {round}");
        let value = i32::try_from(round).unwrap();
        vnode.write(rows(&[("a", 0, value), ("a", round + 1, value)], Some(1))).await.unwrap();
        expected.retain(|(_, tick, _)| *tick != 0);
        expected.extend([row("a", 0, value), row("a", round + 1, value)]);
        expected.sort();
        if round % 3 == 1 {
            vnode.flush().await.unwrap();
        }
        if round % 2 == 0 { crash(vnode).await } else { vnode.close().await.unwrap() }
    }
    let vnode = open(dir.path(), &time).await;
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let delivered: usize = drain(&mut reader).iter().map(|(_, rows)| rows.len()).sum();
    assert_eq!(delivered, 12, "each record once");
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_brings_everything_back_without_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let mut brief = database(1);
    brief.options.wal.retention_period_s = 0;
    let vnode = try_open(dir.path(), &time, brief.clone()).await.unwrap();
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.write(rows(&[("a", 1, 1), ("b", 1, 2)], Some(3))).await.unwrap();
    vnode.drop_tables(vec![DropTable { name: "b".into(), if_exists: false }]).await.unwrap();
    let uid = vnode.table("a").unwrap().uid;
    vnode.flush().await.unwrap();
    let positions = vnode.positions();
    assert!(positions.retained > Version(1), "the log was cut: {positions:?}");
    assert!(positions.checkpoint.is_some() && positions.checkpoint <= Some(positions.applied));
    crash(vnode).await;

    let vnode = try_open(dir.path(), &time, brief).await.unwrap();
    assert_eq!(scan(&vnode).await, [row("a", 1, 1)]);
    assert_eq!(
        vnode.table("a").unwrap().kind,
        model::TableKind::Child { stable: METER, tags: tags(3).into() }
    );
    assert_eq!((vnode.counts().tables, vnode.counts().stables), (1, 1));
    vnode.write(rows(&[("c", 1, 1)], Some(1))).await.unwrap();
    assert!(vnode.table("c").unwrap().uid > uid, "uids are never used again");
    vnode.close().await.unwrap();
}

/// C025
#[tokio::test]
async fn a_lost_checkpoint_is_rebuilt_from_a_whole_log() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let commit = CommitRequest {
        topic: T,
        group: "g".into(),
        consumer: ME,
        epoch: Epoch(1),
        offset: Version(4),
        sequence: 1,
        keep: false,
    };
    vnode.commit(commit).await.unwrap();
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    vnode.close().await.unwrap();
    drop(vnode);

    let path = dir.path().join(FILE);
    let zeros = vec![0_u8; usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap()];
    std::fs::write(&path, zeros).unwrap();
    let vnode = open(dir.path(), &time).await;
    assert_eq!(vnode.offsets(T, "g").committed, Some(Version(4)));
    assert_eq!(scan(&vnode).await, [row("a", 1, 1)]);
    crash(vnode).await;
    assert!(!path.exists(), "it is stored with the next flush");
    let vnode = open(dir.path(), &time).await;
    assert_eq!(vnode.offsets(T, "g").committed, Some(Version(4)));
    vnode.close().await.unwrap();
}

/// C025
#[tokio::test]
async fn a_lost_checkpoint_is_refused_where_the_log_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let mut brief = database(1);
    brief.options.wal.retention_period_s = 0;
    let vnode = try_open(dir.path(), &time, brief.clone()).await.unwrap();
    with_meter(&vnode).await;
    vnode.flush().await.unwrap();
    vnode.close().await.unwrap();
    drop(vnode);
    let path = dir.path().join(FILE);
    std::fs::write(&path, vec![0_u8; 65_536]).unwrap();
    let error = try_open(dir.path(), &time, brief).await.unwrap_err();
    assert_eq!(error.code(), Code::Damaged);
    assert!(error.message().contains(FILE) && error.help().contains("backup"), "{error}");
}

/// The library that keeps checkpoints may panic on bytes that changed.
#[tokio::test]
async fn whatever_changed_in_a_checkpoint_is_an_error_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.write(rows(&[("a", 1, 1), ("b", 1, 2)], Some(1))).await.unwrap();
    vnode.close().await.unwrap();
    drop(vnode);
    let path = dir.path().join(FILE);
    let bytes = std::fs::read(&path).unwrap();
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut refused = 0;
    for (round, at) in used.iter().enumerate().step_by(97) {
        let mut changed = bytes.clone();
        changed[*at] ^= 1 << (round % 8);
        std::fs::write(&path, changed).unwrap();
        if let Err(error) = crate::verify_files(&(Arc::new(StdDisk) as Arc<dyn wal::Disk>), dir.path()) {
            assert!(error.message().contains(FILE), "byte {at}: {error}");
            refused += 1;
        }
    }
    // Most of the file is pages that are free, which nothing can be told of.
    let rounds = used.len() / 97;
    assert!(refused > rounds / 30, "{refused} of {rounds} noticed");
    std::fs::write(&path, bytes).unwrap();
    assert!(
        crate::verify_files(&(Arc::new(StdDisk) as Arc<dyn wal::Disk>), dir.path())
            .unwrap()
            .iter()
            .all(|file| file.fault.is_none())
    );
}

#[tokio::test]
async fn receive_times_never_fall() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    time.advance_ns(-5_000_000_000);
    vnode.write(rows(&[("a", 2, 1)], Some(1))).await.unwrap();
    crash(vnode).await;
    let vnode = open(dir.path(), &time).await;
    vnode.write(rows(&[("a", 3, 1)], Some(1))).await.unwrap();
    let mut replayed = request(OffsetReset::Earliest);
    replayed.options.replay = true;
    let mut reader = vnode.subscribe(replayed).await.unwrap();
    let mut times = Vec::new();
    while times.len() < 3 {
        if let Read::Batch(batch) = reader.read(i64::MAX).unwrap() {
            times.push(batch.written_ns);
        }
    }
    assert!(times.is_sorted() && times[0] == START_NS, "{times:?}");
    vnode.close().await.unwrap();
}

/// A statement that had found the shard before its database was dropped.
#[tokio::test]
async fn a_dropped_shard_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    vnode.discard().await;
    let error = vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap_err();
    assert_eq!(error.code(), model::Code::DatabaseDropping);
    assert!(error.message().contains("plant"), "{error}");
}
