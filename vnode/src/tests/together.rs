//! What reading a topic costs, by counters: groups that read in step share the work, and what no topic shows is not decoded.

use super::reading::{select_topic, texts};
use super::*;
use crate::subscribe::Counts;

const GROUPS: usize = 10;
/// A super table that no topic of these tests shows.
const OTHER: TableUid = TableUid(8);

async fn with_query(vnode: &Vnode, sql: &str, groups: usize) {
    with_meter(vnode).await;
    vnode.apply_topic(TopicDdl::Create(select_topic(sql, 1))).await.unwrap();
    for group in 0..groups {
        own(vnode, &format!("g{group}"), ME, 1).await;
    }
}

async fn reader(vnode: &Arc<Vnode>, group: usize) -> Subscription {
    let request = SubscribeRequest { group: format!("g{group}"), ..request(OffsetReset::Earliest) };
    vnode.subscribe(request).await.unwrap()
}

fn counts(vnode: &Vnode) -> Counts {
    vnode.findings.counts()
}

#[tokio::test]
async fn ten_groups_in_step_evaluate_once() {
    const WRITES: u64 = 20;
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_query(&vnode, "create topic t as select v * 2 from meter where v > 0", GROUPS).await;
    let mut readers = Vec::new();
    for group in 0..GROUPS {
        readers.push(reader(&vnode, group).await);
        assert!(texts(&mut readers[group]).is_empty());
    }
    for (n, v) in (1..=WRITES).zip(1..) {
        vnode.write(rows(&[("a", v.into(), v), ("b", 1, -1)], Some(1))).await.unwrap();
        for (group, reader) in readers.iter_mut().enumerate() {
            assert_eq!(texts(reader), [[format!("{}.0", 2 * n)]], "group {group}");
        }
        let Counts { evaluated, shared, kept, .. } = counts(&vnode);
        assert_eq!((evaluated, shared), (n, n * (GROUPS as u64 - 1)), "once for all");
        assert_eq!(kept, 0, "nothing stays once all have had it");
    }
    vnode.close().await.unwrap();
}

/// Groups that are apart get the same rows; what is kept for those that may come is bounded, and goes with the readers.
#[tokio::test]
async fn groups_that_are_apart_keep_little() {
    const WRITES: i64 = 100;
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_query(&vnode, "create topic t as select v from meter", 3).await;
    for (n, v) in (0..WRITES).zip(0..) {
        vnode.write(rows(&[("a", n, v)], Some(1))).await.unwrap();
    }
    let wanted: Vec<_> = (0..WRITES).map(|n| vec![n.to_string()]).collect();
    let mut alone = reader(&vnode, 0).await;
    assert_eq!(texts(&mut alone), wanted);
    assert_eq!((counts(&vnode).evaluated, counts(&vnode).kept), (WRITES as u64, 0), "nobody else reads");
    let (mut first, mut late) = (reader(&vnode, 1).await, reader(&vnode, 2).await);
    assert_eq!(texts(&mut first), wanted);
    let kept = counts(&vnode).kept;
    assert!((1..=64).contains(&kept), "{kept}");
    let before = counts(&vnode);
    assert_eq!(texts(&mut late), wanted, "those behind what is kept, and those in it");
    let (alone_with, from_others) =
        (counts(&vnode).evaluated - before.evaluated, counts(&vnode).shared - before.shared);
    assert_eq!((alone_with, from_others), (WRITES as u64 - kept as u64, kept as u64));
    // A RELOAD between two readers: each shows what the definition says that it reads by.
    vnode.write(rows(&[("a", WRITES, 7)], Some(1))).await.unwrap();
    assert_eq!(texts(&mut first), [["7"]]);
    let reload = select_topic("create topic t as select v + 1 from meter", 2);
    vnode.apply_topic(TopicDdl::Reload(reload)).await.unwrap();
    assert_eq!(texts(&mut late), [["8.0"]]);
    drop((alone, first));
    assert_eq!(counts(&vnode).kept, 0, "who is alone needs none of it");
    drop(late);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn columns_that_are_not_selected_are_not_decoded() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_query(&vnode, "create topic t as select v from meter where zone = 1", 1).await;
    for n in 0..5 {
        vnode.write(rows(&[("a", n, 3), ("b", n, 4)], Some(1))).await.unwrap();
    }
    let mut reader = reader(&vnode, 0).await;
    assert_eq!(texts(&mut reader).len(), 10);
    assert_eq!(counts(&vnode).columns, 5, "v of each write; neither its time nor its note");
    let reload = select_topic("create topic t as select tbname, zone from meter where length(note) > 1", 2);
    vnode.apply_topic(TopicDdl::Reload(reload)).await.unwrap();
    vnode.write(rows(&[("a", 9, 3)], Some(1))).await.unwrap();
    assert_eq!(texts(&mut reader), [["a", "1"]]);
    assert_eq!(counts(&vnode).columns, 6, "what the condition needs");
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_batch_of_other_tables_is_passed_over_by_its_header() {
    let dir = tempfile::tempdir().unwrap();
    let vnode = open(dir.path(), &clock()).await;
    with_query(&vnode, "create topic t as select v from meter", 1).await;
    vnode
        .apply_stable(
            StableDdl::Create(StableInfo { uid: OTHER, name: "other".into(), ..meter() }),
            Origin::Client,
        )
        .await
        .unwrap();
    for n in 0..4 {
        let mut foreign = rows(&[("o", n, 1)], Some(1));
        foreign.blocks[0].stable = Some(OTHER);
        vnode.write(foreign).await.unwrap();
    }
    let mut whole = reader(&vnode, 0).await;
    assert!(texts(&mut whole).is_empty());
    assert_eq!((counts(&vnode).passed, counts(&vnode).columns), (4, 0), "another super table's");
    drop(whole);
    // Of the topic's super table, but of children outside it.
    vnode.apply_topic(TopicDdl::Drop(T)).await.unwrap();
    let narrow = select_topic("create topic t as stable meter where zone > 5", 2);
    vnode.apply_topic(TopicDdl::Create(narrow)).await.unwrap();
    own(&vnode, "g", ME, 2).await;
    for n in 0..3 {
        vnode.write(rows(&[("a", n, 1), ("b", n, 1)], Some(1))).await.unwrap();
    }
    let of_g = SubscribeRequest { epoch: Epoch(2), ..request(OffsetReset::Earliest) };
    let mut narrow = vnode.subscribe(of_g).await.unwrap();
    assert!(drain(&mut narrow).is_empty());
    assert_eq!((counts(&vnode).passed, counts(&vnode).columns), (4 + 4 + 3, 0));
    vnode.write(rows(&[("z", 1, 1)], Some(9))).await.unwrap();
    assert_eq!(drain(&mut narrow).len(), 1);
    assert_eq!(counts(&vnode).columns, 3, "a row that it shows has all its columns");
    vnode.close().await.unwrap();
}
