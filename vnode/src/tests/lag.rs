//! How far behind a group is shown to be, and damage that readers come upon.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, SharedString, Unit};
use model::{Code, Version};
use parking_lot::Mutex;

use super::*;
use crate::subscribe::{Behind, GAPS, SKIPPED_VERSIONS};

/// A super table that no topic of these tests shows.
const OTHER: TableUid = TableUid(8);

/// Warnings that are logged and counters that are raised while something is done.
#[derive(Clone, Debug, Default)]
struct Watched {
    warnings: Arc<AtomicU64>,
    counters: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>,
}

impl Watched {
    fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let logged = || metrics::with_local_recorder(self, work);
        tracing::subscriber::with_default(self.clone(), logged)
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.counters.lock();
        counters.iter().map(|(name, counter)| (name.clone(), counter.load(Ordering::Relaxed))).collect()
    }
}

impl tracing::Subscriber for Watched {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.is_event()
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.warnings.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

impl metrics::Recorder for Watched {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &metrics::Metadata<'_>) -> Counter {
        let mut counters = self.counters.lock();
        Counter::from_arc(Arc::clone(counters.entry(key.name().to_owned()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

async fn with_two_stables(vnode: &Vnode) {
    with_meter(vnode).await;
    vnode
        .apply_stable(
            StableDdl::Create(StableInfo { uid: OTHER, name: "other".into(), ..meter() }),
            Origin::Client,
        )
        .await
        .unwrap();
    with_topic(vnode, TopicKind::Stable { stable: METER }, TopicMeta::Without).await;
}

fn foreign(tick: i64) -> WriteRequest {
    let mut request = rows(&[("o", tick, 1)], Some(1));
    request.blocks[0].stable = Some(OTHER);
    request
}

fn behind(vnode: &Vnode, position: Version) -> Behind {
    vnode.behind(T, "g", Some(position))
}

async fn commit(vnode: &Vnode, group: &str, sequence: u64, offset: Version) {
    let (topic, group) = (T, group.to_owned());
    let commit = CommitRequest { topic, group, consumer: ME, epoch: Epoch(1), offset, sequence, keep: false };
    vnode.commit(commit).await.unwrap();
}

#[tokio::test]
async fn a_group_that_has_read_all_it_can_see_is_not_behind() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let vnode = open(dir.path(), &time).await;
    with_two_stables(&vnode).await;
    own(&vnode, "h", ME, 1).await;
    let begin = vnode.positions().end();
    for tick in 0..3 {
        vnode.write(rows(&[("a", tick, 1)], Some(1))).await.unwrap();
    }
    assert_eq!(behind(&vnode, begin).lag, Some(3));
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    drain(&mut reader);
    let taken = reader.position();
    assert_eq!(behind(&vnode, taken).lag, Some(0));
    // Commits, of this group and of others, are records too.
    commit(&vnode, "g", 1, taken).await;
    commit(&vnode, "h", 1, taken).await;
    assert_eq!(behind(&vnode, taken).lag, Some(0));
    // Rows that the topic does not show count until its reader has looked at them.
    for tick in 0..5 {
        vnode.write(foreign(tick)).await.unwrap();
    }
    assert_eq!(behind(&vnode, taken).lag, Some(7), "five writes and the two commits before them");
    assert!(drain(&mut reader).is_empty());
    assert_eq!(behind(&vnode, taken).lag, Some(0), "the commit trails, what lies between is nothing");
    // A row it shows.
    vnode.write(rows(&[("a", 9, 1)], Some(1))).await.unwrap();
    assert_eq!(behind(&vnode, taken).lag, Some(1));
    drain(&mut reader);
    let taken = reader.position();
    assert_eq!(behind(&vnode, taken).lag, Some(0));
    drop(reader);
    // Everything read, nobody there: it stays so after restarts, by the checkpoint and by the log alone.
    commit(&vnode, "g", 2, taken).await;
    vnode.flush().await.unwrap();
    crash(vnode).await;
    let vnode = open(dir.path(), &time).await;
    assert_eq!(behind(&vnode, taken), Behind { lag: Some(0), skipped: 0 });
    vnode.write(foreign(9)).await.unwrap();
    assert!(behind(&vnode, taken).lag > Some(0), "nobody has looked at it");
    crash(vnode).await;
    let vnode = open(dir.path(), &time).await;
    assert!(behind(&vnode, taken).lag > Some(0));
    drain(&mut subscribe(&vnode, OffsetReset::Earliest).await);
    assert_eq!(behind(&vnode, taken).lag, Some(0));
    vnode.close().await.unwrap();
}

/// C017, C019: what retention takes is counted once, before and after a reader comes upon it, and `none` refuses it.
#[tokio::test]
async fn what_retention_takes_is_counted_and_none_refuses_it() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let mut short = database(1);
    short.options.wal.retention_period_s = 10;
    let vnode = try_open(dir.path(), &time, short.clone()).await.unwrap();
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    vnode.write(rows(&[("a", 1, 1)], Some(1))).await.unwrap();
    drain(&mut reader);
    let committed = reader.position();
    commit(&vnode, "g", 1, committed).await;
    drop(reader);
    for tick in 2..6 {
        vnode.write(rows(&[("a", tick, 1)], Some(1))).await.unwrap();
    }
    vnode.flush().await.unwrap();
    time.advance_ns(60_000_000_000);
    vnode.write(rows(&[("a", 6, 6)], Some(1))).await.unwrap();
    vnode.flush().await.unwrap();
    let first = vnode.positions().retained;
    assert!(first > committed, "a segment went");
    let lost = first.0 - committed.0;
    assert_eq!(behind(&vnode, committed).skipped, lost, "before anybody looks");
    assert_eq!(vnode.offsets(T, "g").committed, Some(committed), "the offset is still there");

    let none = vnode.subscribe(request(OffsetReset::None)).await.unwrap_err();
    assert_eq!(none.code(), Code::OffsetOutOfRange);
    let told = none.to_string();
    assert!(told.contains(&format!("committed={committed} first_kept={first}")), "{told}");
    // From a version that it names itself it may go on.
    let sought = SubscribeRequest { position: Some(first), ..request(OffsetReset::None) };
    assert_eq!(vnode.subscribe(sought).await.unwrap().position(), first);

    let watched = Watched::default();
    for _ in 0..2 {
        // The second is a take-over without a commit.
        let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
        let read = watched.watch(|| reader.read(i64::MAX).unwrap());
        let Read::Batch(batch) = read else { panic!("rows") };
        assert_eq!(batch.skipped, Some((committed, first)));
        assert_eq!(behind(&vnode, committed).skipped, lost, "counted once");
        assert_eq!(watched.warnings.load(Ordering::Relaxed), 1, "one warning a gap");
        assert_eq!(watched.counters(), [(GAPS.to_owned(), 1), (SKIPPED_VERSIONS.to_owned(), lost)]);
    }
    vnode.close().await.unwrap();
}

/// C073: damage in an old segment is met by whoever reads there, and by nobody else.
#[tokio::test]
async fn damage_in_an_old_segment_stops_readers_alone() {
    let dir = tempfile::tempdir().unwrap();
    let time = clock();
    let mut kept = database(1);
    kept.options.wal.retention_period_s = 100;
    let vnode = try_open(dir.path(), &time, kept.clone()).await.unwrap();
    with_meter(&vnode).await;
    with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
    for tick in 0..3 {
        vnode.write(rows(&[("a", tick, 1)], Some(1))).await.unwrap();
        vnode.flush().await.unwrap();
    }
    let intact_from = vnode.positions().end();
    crash(vnode).await;
    let mut segments: Vec<_> =
        std::fs::read_dir(dir.path().join("wal")).unwrap().map(|e| e.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|e| e == "log"));
    segments.sort();
    let second = &segments[1];
    let mut bytes = std::fs::read(second).unwrap();
    let note = bytes.windows(2).position(|w| w == b"n1").expect("the text of its row");
    bytes[note] ^= 0x10;
    std::fs::write(second, &bytes).unwrap();

    let vnode = try_open(dir.path(), &time, kept).await.unwrap();
    assert!(vnode.log_damage().is_none(), "nobody has read there");
    let mut reader = subscribe(&vnode, OffsetReset::Earliest).await;
    let Read::Batch(whole) = reader.read(i64::MAX).unwrap_or_else(|_| panic!("rows before it")) else {
        panic!("rows before it")
    };
    assert_eq!(whole.rows(), 1, "what is whole before it is delivered");
    let error = reader.read(i64::MAX).unwrap_err();
    let told = error.to_string();
    let name = second.file_name().unwrap().to_str().unwrap();
    assert!(error.code() == Code::Damaged && told.contains(name) && told.contains("offset="), "{told}");
    assert_eq!(vnode.log_damage().map(|error| error.to_string()), Some(told));
    // All else goes on: rows are in files and in memory.
    vnode.write(rows(&[("a", 9, 9)], Some(1))).await.unwrap();
    assert_eq!(scan(&vnode).await, [row("a", 0, 1), row("a", 1, 1), row("a", 2, 1), row("a", 9, 9)]);
    let behind_it = SubscribeRequest { position: Some(intact_from), ..request(OffsetReset::None) };
    let mut reader = vnode.subscribe(behind_it).await.unwrap();
    assert_eq!(drain(&mut reader), [(String::new(), vec![row("a", 9, 9)])]);
    // The segment goes its way, and the damage with it.
    time.advance_ns(200_000_000_000);
    vnode.flush().await.unwrap();
    vnode.tick().await.unwrap();
    assert!(vnode.positions().retained >= intact_from);
    assert!(vnode.log_damage().is_none());
    drop(reader);
    vnode.close().await.unwrap();
}
