//! Compaction and KEEP of a whole shard: what the checkpoint says of files must be what lies there.

use super::*;
use crate::store::{CompactionProgress, CompactionScope};

const DAY_MS: i64 = 86_400_000;

fn files(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir.join("data")).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "parquet")).count()
}

async fn compact(vnode: &Vnode) {
    vnode.compact(TimeRange::ALL, &Arc::new(CompactionProgress::default())).await.unwrap();
}

#[tokio::test]
async fn merged_files_are_what_a_restart_finds() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    for round in 0..3 {
        vnode.write(rows(&[("a", 0, round), ("a", 1 + i64::from(round), round)], Some(1))).await.unwrap();
        vnode.flush().await.unwrap();
    }
    let target = DeleteTarget::Table("a".into());
    let range = TimeRange { first: START_MS + 1, last_inclusive: START_MS + 1 };
    vnode.delete(DeleteRequest { target, range, origin: Origin::Client }).await.unwrap();
    let progress = Arc::new(CompactionProgress::default());
    vnode.compact(TimeRange::ALL, &progress).await.unwrap();
    assert_eq!((progress.percent(), progress.buckets()), (100, (1, 1)));
    let expected = [row("a", 0, 2), row("a", 2, 1), row("a", 3, 2)];
    assert_eq!((files(dir.path()), vnode.counts().file_rows), (1, 3));
    assert_eq!(scan(&vnode).await, expected);
    crash(vnode).await;
    let vnode = open(dir.path(), &time).await;
    assert_eq!(scan(&vnode).await, expected);
    assert_eq!((files(dir.path()), vnode.counts().file_rows), (1, 3));
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn flushes_merge_what_they_pile_up() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    for round in 0..20 {
        vnode.write(rows(&[("a", i64::from(round), round)], Some(1))).await.unwrap();
        vnode.flush().await.unwrap();
        // What the shard's own task does after a flush, in turn with it.
        vnode.compact_scope(CompactionScope::Worthwhile, &Arc::default()).await.unwrap();
        assert!(vnode.counts().files <= 8, "{:?}", vnode.counts());
    }
    assert_eq!(scan(&vnode).await.len(), 20);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_narrowed_keep_hides_at_once_and_files_go_though_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    vnode.write(rows(&[("a", 0, 1)], Some(1))).await.unwrap();
    vnode.write(rows(&[("a", -40 * DAY_MS, 2)], Some(1))).await.unwrap();
    vnode.flush().await.unwrap();
    assert_eq!(files(dir.path()), 2);
    let mut narrow = database(1);
    narrow.options.keep_minutes = [30 * 1_440; 3];
    vnode.alter(Arc::new(narrow.clone()));
    assert_eq!(scan(&vnode).await, [row("a", 0, 1)]);
    vnode.tick().await.unwrap();
    assert_eq!(files(dir.path()), 1);
    crash(vnode).await;
    let vnode = try_open(dir.path(), &time, narrow).await.unwrap();
    assert_eq!(scan(&vnode).await, [row("a", 0, 1)]);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn files_of_a_dropped_table_go_with_the_next_tick() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    vnode.write(rows(&[("a", 0, 1)], Some(1))).await.unwrap();
    vnode.flush().await.unwrap();
    vnode.apply_stable(StableDdl::Drop { uid: METER }, Origin::Client).await.unwrap();
    vnode.tick().await.unwrap();
    assert_eq!(files(dir.path()), 0);
    crash(vnode).await;
    let vnode = open(dir.path(), &time).await;
    assert_eq!((vnode.counts().stables, vnode.counts().files), (0, 0));
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_close_stops_a_merge_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    for round in 0..3 {
        vnode.write(rows(&[("a", i64::from(round), round)], Some(1))).await.unwrap();
        vnode.flush().await.unwrap();
    }
    let merging = tokio::spawn({
        let vnode = Arc::clone(&vnode);
        async move { compact(&vnode).await }
    });
    vnode.close().await.unwrap();
    merging.abort();
    drop(vnode);
    let vnode = open(dir.path(), &time).await;
    assert_eq!(scan(&vnode).await.len(), 3);
    vnode.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_takes_its_time_out_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_meter(&vnode).await;
    vnode.write(rows(&[("a", 0, 1), ("a", 40 * DAY_MS, 2)], Some(1))).await.unwrap();
    vnode.close().await.unwrap();
    drop(vnode);
    let mut paths: Vec<_> =
        std::fs::read_dir(dir.path().join("data")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    std::fs::remove_file(&paths[1]).unwrap();
    let vnode = open(dir.path(), &time).await;
    let read = async |first: i64, last: i64| {
        let mut wanted = request_all();
        wanted.time = TimeRange { first: START_MS + first, last_inclusive: START_MS + last };
        let batches: Result<Vec<RecordBatch>, _> = vnode.scan(wanted).unwrap().try_collect().await;
        batches
            .map(|batches| batches.iter().map(RecordBatch::num_rows).sum::<usize>())
            .map_err(|e| e.to_string())
    };
    assert_eq!(read(0, DAY_MS).await, Ok(1));
    let error = read(0, 50 * DAY_MS).await.unwrap_err();
    assert!(error.contains(paths[1].to_str().unwrap()) && error.contains("missing"), "{error}");
    // Writes, flushes and merges go on.
    vnode.write(rows(&[("a", 1, 3)], None)).await.unwrap();
    vnode.flush().await.unwrap();
    compact(&vnode).await;
    assert_eq!(read(0, DAY_MS).await, Ok(2));
    assert!(vnode.table("a").is_some());
    vnode.close().await.unwrap();
}
