//! When segments close and when they go: by the options in force, the flushes, the clock and the keep version.

use model::{Version, WalOptions};

use super::*;

const NS_PER_S: i64 = 1_000_000_000;

fn with_wal(wal: WalOptions) -> DatabaseInfo {
    let mut database = database(1);
    database.options.wal = wal;
    database
}

/// The shard under a virtual clock. Every call of the maintenance timer between two steps of a test would find the same
/// time, and nothing more to do than the step before.
struct Timed {
    dir: tempfile::TempDir,
    time: Arc<ManualClock>,
    vnode: Arc<Vnode>,
    wal: WalOptions,
    tick: i64,
}

impl Timed {
    async fn new(wal: WalOptions) -> Self {
        let (dir, time) = (tempfile::tempdir().unwrap(), clock());
        let vnode = try_open(dir.path(), &time, with_wal(wal)).await.unwrap();
        with_meter(&vnode).await;
        with_topic(&vnode, TopicKind::Database, TopicMeta::Without).await;
        Self { dir, time, vnode, wal, tick: 0 }
    }

    fn alter(&mut self, change: impl FnOnce(&mut WalOptions)) {
        change(&mut self.wal);
        self.vnode.alter(Arc::new(with_wal(self.wal)));
    }

    /// One row, one record of about a hundred bytes.
    async fn write(&mut self) -> Version {
        self.tick += 1;
        self.vnode.write(rows(&[("a", self.tick, 1)], Some(1))).await.unwrap().version
    }

    async fn pass(&mut self, s: i64) {
        self.time.advance_ns(s * NS_PER_S);
        self.vnode.tick().await.unwrap();
    }

    async fn restart(self, crashes: bool) -> Self {
        let Self { dir, time, vnode, wal, tick } = self;
        if crashes {
            crash(vnode).await;
        } else {
            vnode.close().await.unwrap();
            drop(vnode);
        }
        let vnode = try_open(dir.path(), &time, with_wal(wal)).await.unwrap();
        Self { dir, time, vnode, wal, tick }
    }

    /// First versions of the segments.
    fn segments(&self) -> Vec<u64> {
        let files =
            std::fs::read_dir(self.dir.path().join("wal")).unwrap().map(|entry| entry.unwrap().path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        let mut firsts: Vec<u64> =
            logs.map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect();
        firsts.sort_unstable();
        firsts
    }

    fn first(&self) -> Version {
        self.vnode.positions().retained
    }

    async fn commit(&self, sequence: u64, offset: Version, keep: bool) {
        let commit = CommitRequest {
            topic: T,
            group: "g".into(),
            consumer: ME,
            epoch: Epoch(1),
            offset,
            sequence,
            keep,
        };
        self.vnode.commit(commit).await.unwrap();
    }
}

#[tokio::test]
async fn altered_options_of_the_log_count_at_once() {
    let mut log = Timed::new(WalOptions::default()).await;
    for _ in 0..50 {
        log.write().await;
    }
    assert_eq!(log.segments().len(), 1, "64 MiB are not full");

    log.alter(|wal| wal.segment_size_kib = 1);
    for _ in 0..50 {
        log.write().await;
    }
    assert!(log.segments().len() > 3, "1 KiB each: {:?}", log.segments());

    log.alter(|wal| wal.segment_size_kib = 0);
    let segments = log.segments();
    for _ in 0..50 {
        log.write().await;
    }
    assert!(log.segments().len() <= segments.len() + 1, "back at 64 MiB");

    log.alter(|wal| (wal.level, wal.fsync_period_ms) = (2, 0));
    for _ in 0..3 {
        let written = log.write().await;
        assert!(log.vnode.positions().durable >= Some(written), "answered after the sync");
    }

    log.pass(100).await;
    let segments = log.segments();
    assert!(!segments.is_empty());
    log.alter(|wal| wal.roll_period_s = 10);
    log.pass(1).await;
    assert_eq!(log.segments().len(), segments.len() + 1, "the last segment is older than that");
    log.pass(100).await;
    assert_eq!(log.segments().len(), segments.len() + 1, "an empty one is not closed");

    log.vnode.flush().await.unwrap();
    assert!(log.segments().len() > 3, "an hour has not passed");
    log.alter(|wal| wal.retention_period_s = 50);
    log.pass(0).await;
    assert!(log.segments().len() <= 2, "what was closed more than 50 s ago is gone: {:?}", log.segments());
    log.alter(|wal| wal.retention_period_s = 0);
    log.pass(0).await;
    assert_eq!(log.segments().len(), 1);
    log.vnode.close().await.unwrap();
}

/// tmq.md 11.4
#[tokio::test]
async fn a_marked_commit_keeps_the_log_from_its_offset_on_until_trim() {
    for (flushes, crashes) in [(true, true), (true, false), (false, true)] {
        let mut log = Timed::new(WalOptions { retention_period_s: 10, ..WalOptions::default() }).await;
        let mut written = Vec::new();
        for _ in 0..4 {
            written.push(log.write().await);
            log.vnode.flush().await.unwrap();
        }
        log.commit(1, written[1], false).await;
        log.vnode.tick().await.unwrap();
        assert_eq!(log.vnode.keep_version(), None, "no mark was asked for");
        log.commit(2, written[2], true).await;
        log.vnode.tick().await.unwrap();
        let kept = log.vnode.keep_version().unwrap();
        assert_eq!((kept.from, kept.set_ns), (written[2], START_NS));
        if flushes {
            log.vnode.flush().await.unwrap();
        }
        log = log.restart(crashes).await;
        assert_eq!(
            log.vnode.keep_version(),
            Some(kept),
            "it is durable: flushed={flushes} crashed={crashes}"
        );
        log.pass(3_600).await;
        let first = log.first();
        assert!(first > written[1] && first <= written[2], "{first} of {written:?}");
        // The last writer counts, also one that goes back. A retry that comes late says nothing.
        log.commit(3, written[3], true).await;
        log.vnode.tick().await.unwrap();
        log.commit(2, written[2], true).await;
        log.vnode.tick().await.unwrap();
        assert_eq!(log.vnode.keep_version().unwrap().from, written[3]);
        assert!(log.first() > written[2] && log.first() <= written[3]);
        log.vnode.flush().await.unwrap();
        log.pass(3_600).await;
        assert!(log.first() <= written[3], "it is kept");
        log.vnode.trim_wal().await.unwrap();
        assert!(log.first() > written[3], "regardless of the mark");
        assert_eq!(log.vnode.keep_version().unwrap().from, written[3], "which stands");
        log.vnode.close().await.unwrap();
    }
}

#[tokio::test]
async fn trim_keeps_what_is_not_past_retention() {
    let mut log = Timed::new(WalOptions::default()).await;
    let written = log.write().await;
    log.vnode.flush().await.unwrap();
    log.vnode.trim_wal().await.unwrap();
    assert!(log.first() <= written);
    log.vnode.close().await.unwrap();
}

/// Segments close at a flush if they hold anything, and go at the end of a flush or at a tick, whichever is first: tmq.md
/// 11.3.
#[tokio::test]
async fn segments_close_at_flushes_and_go_by_period_and_size() {
    #[derive(Debug)]
    enum Do {
        Write,
        Flush,
        Pass(i64),
        /// So many segments, the open one included.
        Segments(usize),
    }
    use Do::{Flush, Pass, Segments, Write};
    let cases: &[(i64, i64, &[Do])] = &[
        // Closed at each flush, and an empty one is not.
        (-1, 0, &[Write, Flush, Segments(2), Flush, Flush, Segments(2), Write, Flush, Segments(3)]),
        // For ever.
        (-1, -1, &[Write, Flush, Pass(1_000_000), Write, Flush, Segments(3)]),
        // What is not flushed stays, however old.
        (10, 0, &[Write, Pass(1_000), Segments(1), Flush, Segments(2), Pass(11), Segments(1)]),
        // The period counts from the close, and ends between 10 s and 11 s.
        (10, 0, &[Pass(100), Write, Flush, Pass(10), Segments(2), Pass(1), Segments(1)]),
        // Gone at the end of a flush too.
        (
            10,
            0,
            &[Write, Flush, Pass(5), Write, Flush, Segments(3), Pass(6), Segments(2), Pass(5), Segments(1)],
        ),
        // At once.
        (0, 0, &[Write, Segments(1), Write, Flush, Segments(1), Write, Pass(5), Segments(1)]),
        // By size: 1 KiB holds the open segment and one of a record.
        (-1, 1, &[Write, Flush, Write, Flush, Write, Flush, Segments(2)]),
        (3_600, 1_000, &[Write, Flush, Write, Flush, Write, Flush, Segments(4)]),
    ];
    for (at, (retention_period_s, retention_size_kib, steps)) in cases.iter().enumerate() {
        let wal = WalOptions {
            retention_period_s: *retention_period_s,
            retention_size_kib: *retention_size_kib,
            ..WalOptions::default()
        };
        let mut log = Timed::new(wal).await;
        for step in *steps {
            match step {
                Write => drop(log.write().await),
                Flush => log.vnode.flush().await.unwrap(),
                Pass(s) => log.pass(*s).await,
                Segments(expected) => {
                    assert_eq!(log.segments().len(), *expected, "case {at} {step:?}: {:?}", log.segments());
                }
            }
        }
        log.vnode.close().await.unwrap();
    }
}

/// Segments that close by their size, in a shard whose memory never fills up: one of rows, and one of commits alone.
#[tokio::test]
async fn a_checkpoint_comes_where_only_it_holds_the_log_back() {
    const PERIOD_S: i64 = 10;
    for (commits, size_kib) in [(false, 0), (true, 0), (false, 4), (true, 4)] {
        let by_size = size_kib > 0;
        let wal = WalOptions {
            retention_period_s: if by_size { -1 } else { PERIOD_S },
            segment_size_kib: 1,
            ..WalOptions::default()
        };
        let mut log = Timed::new(wal).await;
        let written = log.write().await;
        own(&log.vnode, "g", ME, 1).await;
        for sequence in 1..=200 {
            if commits {
                log.commit(sequence, Version(written.0 - sequence % 2), false).await;
            } else {
                log.write().await;
            }
        }
        let segments = log.segments().len();
        assert!(segments > 5, "1 KiB each: {segments}");
        log.pass(PERIOD_S - 1).await;
        assert_eq!(log.segments().len(), segments, "commits={commits}: nothing is past its time");
        assert_eq!(log.vnode.positions().checkpoint, None);
        log.alter(|wal| wal.retention_size_kib = size_kib);
        log.pass(2).await;
        // The maintenance timer may have been at it, and between the checkpoint and the deletion.
        log.pass(0).await;
        assert!(log.vnode.positions().checkpoint.is_some(), "commits={commits} by_size={by_size}");
        assert!(log.segments().len() < segments, "commits={commits} by_size={by_size}: {:?}", log.segments());
        let stored = log.vnode.positions().checkpoint;
        log.pass(1).await;
        assert_eq!(log.vnode.positions().checkpoint, stored, "there is nothing to gain from another");
        log = log.restart(true).await;
        assert_eq!(scan(&log.vnode).await.len(), if commits { 1 } else { 201 });
        log.vnode.close().await.unwrap();
    }
}

/// A checkpoint would free nothing there.
#[tokio::test]
async fn no_checkpoint_comes_where_a_keep_version_holds_the_log_back() {
    let wal = WalOptions { retention_period_s: 10, segment_size_kib: 1, ..WalOptions::default() };
    let mut log = Timed::new(wal).await;
    own(&log.vnode, "g", ME, 1).await;
    log.commit(1, Version(1), true).await;
    log.vnode.tick().await.unwrap();
    for _ in 0..60 {
        log.write().await;
    }
    log.pass(100).await;
    assert_eq!((log.vnode.positions().checkpoint, log.first() <= Version(1)), (None, true));
    log.vnode.close().await.unwrap();
}

/// What the group reads from here on: rows by their values, and the gap before the first.
async fn read_all(vnode: &Arc<Vnode>, group: &str, epoch: u64) -> (usize, Option<(Version, Version)>) {
    let request =
        SubscribeRequest { group: group.into(), epoch: Epoch(epoch), ..request(OffsetReset::Earliest) };
    let mut reader = vnode.subscribe(request).await.unwrap();
    let (mut rows, mut gap) = (0, None);
    while let Read::Batch(batch) = reader.read(i64::MAX).unwrap() {
        rows += batch.rows();
        gap = gap.or(batch.skipped);
    }
    (rows, gap)
}

/// C019: retention of 8 s, restarts, a group that leaves and comes back, and a reader that stands in a deleted segment.
#[tokio::test]
async fn c019_rule_10_groups_get_what_is_left_and_are_told_of_the_rest() {
    let mut log = Timed::new(WalOptions { retention_period_s: 8, ..WalOptions::default() }).await;
    for group in ["g0", "g1"] {
        own(&log.vnode, group, ME, 1).await;
    }
    log.write().await;
    let committed = log.vnode.positions().end();
    for group in ["g0", "g1"] {
        assert_eq!(read_all(&log.vnode, group, 1).await, (1, None));
        let commit = CommitRequest {
            topic: T,
            group: group.into(),
            consumer: ME,
            epoch: Epoch(1),
            offset: committed,
            sequence: 1,
            keep: false,
        };
        log.vnode.commit(commit).await.unwrap();
    }
    // Stands in the first segment while that goes.
    let stale = SubscribeRequest { group: "g0".into(), ..request(OffsetReset::Earliest) };
    let mut stale = log.vnode.subscribe(stale).await.unwrap();
    log.vnode.flush().await.unwrap();
    for _ in 0..2 {
        log.write().await;
    }
    log.time.advance_ns(9 * NS_PER_S);
    log.vnode.flush().await.unwrap();
    assert!(log.first() > committed, "the segment it stands in is gone");
    let Read::Batch(batch) = stale.read(i64::MAX).unwrap() else { panic!("rows") };
    assert_eq!(batch.rows(), 2);
    drop(stale);

    log = log.restart(false).await;
    for _ in 0..4 {
        log.write().await;
    }
    log.time.advance_ns(9 * NS_PER_S);
    log.vnode.flush().await.unwrap();
    log = log.restart(true).await;
    let left = OwnerChange { topic: T, group: "g1".into(), epoch: Epoch(2), owner: None };
    log.vnode.set_owner(left).await.unwrap();
    own(&log.vnode, "g1", ME, 3).await;
    let first = log.first();
    for (group, epoch) in [("g0", 1), ("g1", 3)] {
        assert_eq!(read_all(&log.vnode, group, epoch).await, (4, Some((committed, first))), "{group}");
    }
    log.vnode.close().await.unwrap();
}

/// C089: the log takes no more disk than the settings allow, also while a group is away; both settings altered meanwhile.
#[tokio::test]
async fn c089_rule_11_disk_use_obeys_the_settings_while_a_group_is_away() {
    let limit_kib = 16;
    let mut log = Timed::new(WalOptions { retention_size_kib: limit_kib, ..WalOptions::default() }).await;
    log.write().await;
    assert_eq!(read_all(&log.vnode, "g", 1).await, (1, None));
    let committed = log.vnode.positions().end();
    log.commit(1, committed, false).await;
    let used = |log: &Timed| -> u64 {
        let files = std::fs::read_dir(log.dir.path().join("wal")).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    // An hour, ten rows and a flush a minute, nobody reads.
    for _ in 0..60 {
        for _ in 0..10 {
            log.write().await;
        }
        log.pass(60).await;
        log.vnode.flush().await.unwrap();
        // Of what is deleted, up to the open segment may stay above the limit; indexes and small files are beside it.
        assert!(used(&log) < 2 * limit_kib.cast_unsigned() * 1_024, "{}", used(&log));
    }
    let first = log.first();
    let (rows, gap) = read_all(&log.vnode, "g", 1).await;
    assert_eq!(gap, Some((committed, first)));
    assert!((10..600).contains(&rows), "{rows}");

    log.alter(|wal| (wal.retention_size_kib, wal.retention_period_s) = (0, 120));
    log.pass(0).await;
    let first = log.first();
    for _ in 0..2 {
        log.write().await;
        log.pass(60).await;
        log.vnode.flush().await.unwrap();
    }
    log.pass(61).await;
    assert!(log.first() > first, "two minutes are over");
    log.alter(|wal| wal.retention_period_s = 0);
    log.pass(0).await;
    assert_eq!(log.segments().len(), 1, "period 0 keeps nothing that is flushed");
    log.write().await;
    log.vnode.flush().await.unwrap();
    assert_eq!(log.segments().len(), 1);
    log.vnode.close().await.unwrap();
}
