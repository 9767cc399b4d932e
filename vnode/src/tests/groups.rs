use model::{Code, Version};

use super::*;

fn commit(consumer: ConsumerId, epoch: u64, sequence: u64, offset: u64) -> CommitRequest {
    let (topic, group) = (T, "g".into());
    CommitRequest {
        topic,
        group,
        consumer,
        epoch: Epoch(epoch),
        offset: Version(offset),
        sequence,
        keep: false,
    }
}

/// Writes until the log ends at `end` at least.
async fn grow(vnode: &Arc<Vnode>, end: u64) {
    with_meter(vnode).await;
    for n in 0.. {
        if vnode.positions().end() >= Version(end) {
            return;
        }
        vnode.write(rows(&[("a", n, 1)], Some(1))).await.unwrap();
    }
}

fn committed(vnode: &Vnode) -> Option<u64> {
    vnode.offsets(T, "g").committed.map(|version| version.0)
}

#[tokio::test]
async fn commits_are_fenced_ordered_and_survive() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    grow(&vnode, 60).await;
    // C021: three commits at once, then a late retry of the second.
    let (one, two, three) = tokio::join!(
        vnode.commit(commit(ME, 1, 1, 10)),
        vnode.commit(commit(ME, 1, 2, 16)),
        vnode.commit(commit(ME, 1, 3, 13)),
    );
    one.and(two).and(three).unwrap();
    assert_eq!(committed(&vnode), Some(13));
    vnode.commit(commit(ME, 1, 2, 16)).await.unwrap();
    assert_eq!(committed(&vnode), Some(13));

    // C006: the vgroup moves on.
    let other = ConsumerId(12);
    own(&vnode, "g", other, 2).await;
    let zombie = vnode.commit(commit(ME, 1, 9, 9_000)).await.unwrap_err();
    assert_eq!(zombie.code(), Code::ConsumerMismatch);
    vnode.commit(commit(other, 2, 1, 50)).await.unwrap();

    crash(vnode).await;
    let vnode = open(dir.path(), &time).await;
    assert_eq!(committed(&vnode), Some(50));
    assert_eq!(vnode.commit(commit(ME, 1, 10, 12)).await.unwrap_err().code(), Code::ConsumerMismatch);
    vnode.flush().await.unwrap();
    crash(vnode).await;
    let vnode = open(dir.path(), &time).await;
    assert_eq!(committed(&vnode), Some(50), "from the checkpoint");
    vnode.commit(commit(other, 2, 1, 1)).await.unwrap();
    assert_eq!(committed(&vnode), Some(50), "a retry from before the restart");
    vnode.drop_group(T, "g").await.unwrap();
    assert_eq!(committed(&vnode), None);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn equal_commits_make_no_records() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.commit(commit(ME, 1, 1, 3)).await.unwrap();
    let end = vnode.positions().appended;
    vnode.commit(commit(ME, 1, 2, 3)).await.unwrap();
    assert_eq!(vnode.positions().appended, end);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_commit_beyond_the_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    grow(&vnode, 20).await;
    let end = vnode.positions().end().0;
    let beyond = vnode.commit(commit(ME, 1, 1, end + 1)).await.unwrap_err();
    assert_eq!((beyond.code(), committed(&vnode)), (Code::OffsetOutOfRange, None));
    assert!(beyond.to_string().contains(&format!("end={end}")), "{beyond}");
    let zombie = vnode.commit(commit(ConsumerId(12), 1, 1, end + 1)).await.unwrap_err();
    assert_eq!(zombie.code(), Code::ConsumerMismatch, "who is not the owner learns nothing of the log");
    vnode.commit(commit(ME, 1, 1, end)).await.unwrap();
    assert_eq!(committed(&vnode), Some(end), "the end itself is what a reader that has read all commits");
    // A late retry is a success whatever it names, as it changes nothing.
    vnode.commit(commit(ME, 1, 1, end + 100)).await.unwrap();
    assert_eq!(committed(&vnode), Some(end));
    vnode.close().await.unwrap();
}

/// C023: the machine has lost the end of the log, and with it rows and commits; the consumer lives and tries again.
#[tokio::test]
async fn a_retry_after_the_log_was_cut_stores_what_is_left_and_nothing_beyond() {
    let (dir, synced) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    grow(&vnode, 20).await;
    vnode.commit(commit(ME, 1, 1, 15)).await.unwrap();
    crash(vnode).await;
    copy(dir.path(), synced.path());
    let vnode = open(dir.path(), &time).await;
    grow(&vnode, 40).await;
    vnode.commit(commit(ME, 1, 2, 38)).await.unwrap();
    crash(vnode).await;

    let vnode = open(synced.path(), &time).await;
    assert_eq!(committed(&vnode), Some(15));
    vnode.commit(commit(ME, 1, 1, 15)).await.unwrap();
    assert_eq!(vnode.commit(commit(ME, 1, 2, 38)).await.unwrap_err().code(), Code::OffsetOutOfRange);
    assert_eq!(committed(&vnode), Some(15), "rows that get these versions now are not skipped");
    vnode.commit(commit(ME, 1, 2, 18)).await.unwrap();
    assert_eq!(committed(&vnode), Some(18));
    vnode.close().await.unwrap();
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

#[tokio::test]
async fn rule_06_rule_07_a_stale_owner_reads_nothing_and_a_parked_one_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let mut parked = subscribe(&vnode, OffsetReset::Earliest).await;
    assert!(drain(&mut parked).is_empty());
    let waiting = tokio::spawn(async move {
        parked.ready().await;
        parked.read(i64::MAX).unwrap_err().code()
    });
    own(&vnode, "g", ConsumerId(12), 2).await;
    assert_eq!(waiting.await.unwrap(), Code::ConsumerMismatch);
    assert_eq!(
        vnode.subscribe(request(OffsetReset::Earliest)).await.unwrap_err().code(),
        Code::ConsumerMismatch
    );
    // An overtaken switch is no error and changes nothing.
    let late = OwnerChange { topic: T, group: "g".into(), epoch: Epoch(1), owner: Some(ME) };
    assert_eq!(vnode.set_owner(late).await.unwrap(), None);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn latest_is_remembered_through_a_hand_over_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    let mut first = subscribe(&vnode, OffsetReset::Latest).await;
    assert!(drain(&mut first).is_empty());
    drop(first);
    vnode.write(rows(&[("a", 2, 2)], Some(1))).await.unwrap();
    own(&vnode, "g", ConsumerId(12), 2).await;
    crash(vnode).await;
    let vnode = open(dir.path(), &time).await;
    let taken_over =
        SubscribeRequest { consumer: ConsumerId(12), epoch: Epoch(2), ..request(OffsetReset::Latest) };
    let mut second = vnode.subscribe(taken_over).await.unwrap();
    assert_eq!(drain(&mut second), [(String::new(), vec![row("a", 2, 2)])]);
    drop(second);
    // The last member leaves.
    let nobody = OwnerChange { topic: T, group: "g".into(), epoch: Epoch(3), owner: None };
    vnode.set_owner(nobody).await.unwrap();
    assert_eq!(vnode.offsets(T, "g").start, None);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn none_without_an_offset_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    assert_eq!(
        vnode.subscribe(request(OffsetReset::None)).await.unwrap_err().code(),
        Code::NoCommittedOffset
    );
    vnode.commit(commit(ME, 1, 1, 3)).await.unwrap();
    assert_eq!(subscribe(&vnode, OffsetReset::None).await.position(), Version(3));
    vnode.close().await.unwrap();
}
