//! Deletion of old segments (tmq.md 11.3); the rule itself has its table beside the code.

use wal::sim::SimDisk;
use wal::{Retention, Version};

use crate::common::*;

/// Records 0..40 in segments of ten, closed at 100, 200, 300 and 400 s.
fn log() -> (SimDisk, wal::Wal) {
    let disk = SimDisk::new();
    let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
    for segment in 0..4 {
        append(&wal, segment * 10, segment * 10 + 10);
        wal.roll((segment as i64 + 1) * 100 * S).unwrap();
    }
    append(&wal, 40, 45);
    (disk, wal)
}

const AT_ONCE: Retention = Retention { period_s: 0, size_kb: 0 };

#[test]
fn what_goes() {
    for (now_s, below, period_s, size_kb, first) in [
        (1000, 45, -1, 0, 0),
        (1000, 45, 0, 0, 40),
        (350, 45, 100, 0, 20),
        (1000, 45, 100, 0, 40),
        (50, 45, 100, 0, 0),
        (1000, 29, 0, 0, 20), // only what is wholly below the checkpoint
        (1000, 30, 0, 0, 30),
        (1000, 0, 0, 0, 0),
        (0, 45, -1, 1, 40),
    ] {
        let (disk, wal) = log();
        let done = wal.retain(now_s * S, Version(below), Retention { period_s, size_kb }).unwrap();
        let case = format!("now={now_s} below={below} period={period_s} size={size_kb}");
        assert_eq!((done.first, wal.first_version()), (Version(first), Version(first)), "{case}");
        assert_eq!(done.segments as u64, first / 10, "{case}");
        assert_holds(&wal, first, 45);
        drop(wal);
        let (wal, _) = open(&disk);
        assert_holds(&wal, first, 45);
        let is_index = |path: &std::path::Path| path.extension().is_some_and(|extension| extension == "idx");
        let left = disk.files().iter().filter(|(path, _)| is_index(path)).count();
        assert!(left <= segments(&disk).len(), "indexes go with their segments: {left}");
    }
}

#[test]
fn a_reader_in_a_deleted_segment_finishes_it() {
    let (_, wal) = log();
    let mut reader = wal.reader(Version(3));
    reader.next().unwrap();
    wal.retain(1000 * S, Version(45), AT_ONCE).unwrap();
    for version in 4..10 {
        assert_eq!(reader.next().unwrap().unwrap().version, Version(version));
    }
    let gone = reader.next().unwrap_err();
    assert!(matches!(gone, wal::WalError::Purged { version: Version(10), first: Version(40) }), "{gone}");
    reader.seek(Version(40));
    assert_eq!(reader.next().unwrap().unwrap().version, Version(40));
}

#[test]
fn a_failed_deletion_is_tried_again() {
    let (disk, wal) = log();
    disk.fail_nth(wal::sim::Op::Remove, 2, wal::sim::SimFault::Errno(5));
    assert!(wal.retain(1000 * S, Version(45), AT_ONCE).is_err());
    assert_holds(&wal, 40, 45);
    wal.retain(1000 * S, Version(45), AT_ONCE).unwrap();
    assert_eq!(segments(&disk), [segment(40)]);
}

#[test]
fn the_end_of_an_empty_log_is_remembered() {
    let (disk, wal) = log();
    wal.roll(500 * S).unwrap();
    wal.retain(1000 * S, Version(45), AT_ONCE).unwrap();
    drop(wal);
    let (wal, _) = open(&disk);
    assert_eq!((wal.first_version(), wal.next_version()), (Version(45), Version(45)));
    assert_eq!(wal.last().unwrap().version, Version(44));
}

/// A log under a virtual clock: appends, flushes and retention as the database options say.
struct Timed {
    disk: SimDisk,
    wal: wal::Wal,
    now_s: i64,
}

impl Timed {
    fn new() -> Self {
        let disk = SimDisk::new();
        let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
        Self { disk, wal, now_s: 1000 }
    }

    /// A segment of ten records, of 1 to 2 KiB, closed now.
    fn flush(&mut self) {
        let next = self.wal.next_version().0;
        append(&self.wal, next, next + 10);
        self.wal.roll(self.now_s * S).unwrap();
    }

    /// Retention of everything that is flushed; how many closed segments are left.
    fn retain(&mut self, period_s: i64, size_kb: i64) -> usize {
        let below = self.wal.next_version();
        self.retain_below(below, period_s, size_kb)
    }

    fn retain_below(&mut self, below: Version, period_s: i64, size_kb: i64) -> usize {
        self.wal.retain(self.now_s * S, below, Retention { period_s, size_kb }).unwrap();
        assert_holds(&self.wal, self.wal.first_version().0, self.wal.next_version().0);
        self.wal.size().segments - 1
    }
}

#[test]
fn settings_altered_while_the_log_is_open_count_at_the_next_flush() {
    let mut log = Timed::new();
    for _ in 0..4 {
        log.flush();
        log.now_s += 100;
    }
    assert_eq!(log.retain(3600, 0), 4, "nothing is old enough");
    assert_eq!(log.retain(-1, 0), 4);
    assert_eq!(log.retain(250, 0), 2, "a shorter period");
    assert_eq!(log.retain(3600, 0), 2, "a longer one brings nothing back");
    assert_eq!(log.retain(-1, 3), 1, "a size limit beside an endless period");
    assert_eq!(log.retain(-1, -1), 1, "and none again");
    assert_eq!(log.retain(0, 0), 0, "at once");
    log.flush();
    assert_eq!(log.retain(0, -1), 0);
    let (again, _) = open_with(&log.disk, wal::Options::default()).unwrap();
    assert_eq!(again.first_version(), log.wal.first_version());
}

#[test]
fn a_clock_that_is_set_back_deletes_nothing_early_and_keeps_nothing_for_ever() {
    let mut log = Timed::new();
    log.flush(); // closed at 1000
    log.now_s = 400;
    log.flush(); // closed at 400, as it seems
    assert_eq!(log.retain(100, 0), 2);
    log.now_s = 501;
    // The second one's time is over, and everything before it goes too: nothing waits for the clock to catch up.
    assert_eq!(log.retain(100, 0), 0);
    // Set forward, by a year: what is closed then is kept its period from then on.
    log.now_s += 31_536_000;
    log.flush();
    assert_eq!(log.retain(100, 0), 1);
    log.now_s += 101;
    assert_eq!(log.retain(100, 0), 0);
}

#[test]
fn a_keep_version_holds_segments_that_trim_deletes() {
    let mut log = Timed::new();
    for _ in 0..4 {
        log.flush();
    }
    log.now_s += 10_000;
    // The owner lowers the border to the keep version: segments with versions from there on survive.
    for (keep, left) in [(0, 4), (9, 4), (10, 3), (19, 3), (25, 2), (40, 0)] {
        let mut log = Timed::new();
        for _ in 0..4 {
            log.flush();
        }
        log.now_s += 10_000;
        assert_eq!(log.retain_below(Version(keep), 60, 1), left, "keep version {keep}");
    }
    assert_eq!(log.retain_below(Version(0), 60, 0), 4);
    assert_eq!(log.retain(-1, 0), 4, "trim deletes what is past retention, and nothing is");
    assert_eq!(log.retain(60, 0), 0, "trim takes no notice of the keep version");
}

#[test]
fn c089_disk_use_obeys_the_settings_while_a_reader_lags_and_is_told_of_the_gap() {
    let mut log = Timed::new();
    log.flush();
    let mut lagging = log.wal.reader(Version(0));
    lagging.next().unwrap();
    let limit_kb = 16;
    // An hour, a flush a minute.
    for _ in 0..60 {
        log.now_s += 60;
        log.flush();
        log.retain(3600, limit_kb);
        assert!(log.wal.size().bytes <= limit_kb as u64 * 1024, "{:?}", log.wal.size());
        let on_disk: usize = log.disk.files().iter().map(|(_, content)| content.len()).sum();
        assert!(on_disk < 24 << 10, "{on_disk}");
    }
    // It finishes the segment that it stands in, and then hears where the log goes on.
    let mut read = 1;
    let gap = loop {
        match lagging.next() {
            Ok(Some(record)) => read += u64::from(record.version.0 == read),
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(read, 10);
    let first = log.wal.first_version();
    assert!(matches!(gap, wal::WalError::Purged { version: Version(10), first: f } if f == first), "{gap}");
}

#[test]
fn an_idle_log_asks_for_no_upkeep_until_its_time_is_over() {
    let mut log = Timed::new();
    let needs = |log: &Timed, below, period_s| {
        log.wal.needs_upkeep(log.now_s * S, Version(below), Retention { period_s, size_kb: 0 })
    };
    log.flush();
    assert!(needs(&log, 10, 60), "it has just been written to");
    for _ in 0..2 {
        log.wal.rest().unwrap();
    }
    assert!(!needs(&log, 10, 60));
    assert!(needs(&log, 10, 0), "an altered period");
    assert!(!needs(&log, 9, 0), "not below");
    log.now_s += 61;
    assert!(needs(&log, 10, 60));
    log.retain(60, 0);
    assert!(!needs(&log, 10, 60));
    append(&log.wal, 10, 11);
    // Seen to be idle, made durable, let go of.
    for _ in 0..3 {
        assert!(needs(&log, 10, 60));
        log.wal.rest().unwrap();
    }
    assert!(!needs(&log, 10, 60));
    log.wal.set_rolling(wal::Rolling { segment_bytes_max: 1 << 20, roll_period_ns: 5 * S });
    assert!(needs(&log, 10, 60), "the segment is due");
}

#[test]
fn retention_makes_room_on_a_full_disk() {
    for reopens in [false, true] {
        let mut log = Timed::new();
        for _ in 0..3 {
            for _ in 0..4 {
                log.flush();
            }
            let used: usize = log.disk.files().iter().map(|(_, content)| content.len()).sum();
            log.disk.set_capacity(Some(used as u64));
            if reopens {
                let Timed { disk, wal, now_s } = log;
                drop(wal);
                let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
                log = Timed { disk, wal, now_s };
            }
            let next = log.wal.next_version();
            let full = log.wal.append(next, &[record(body(next.0))], 0).unwrap_err();
            assert!(full.is_out_of_space(), "{full}");
            log.now_s += 100;
            assert_eq!(log.retain(60, 0), 0, "what retention notes first has its room");
            append(&log.wal, next.0, next.0 + 1);
            log.disk.set_capacity(None);
            let (again, _) = open_with(&log.disk, wal::Options::default()).unwrap();
            assert_eq!(again.first_version(), log.wal.first_version());
            assert_eq!(again.first_version(), next);
        }
    }
}

#[test]
fn a_first_segment_that_vanished_is_noticed() {
    for deleted in [0, 2] {
        let mut log = Timed::new();
        for _ in 0..4 {
            log.flush();
        }
        if deleted > 0 {
            log.retain_below(Version(deleted * 10), 0, 0);
        }
        let Timed { disk, wal, .. } = log;
        drop(wal);
        let (wal, _) = open_with(&disk, wal::Options::default()).unwrap();
        assert_eq!(wal.first_version(), Version(deleted * 10), "what retention deleted is not missed");
        drop(wal);
        wal::Disk::remove(&disk, &segment(deleted * 10)).unwrap();
        let refused = open_with(&disk, wal::Options::default()).unwrap_err();
        let wal::WalError::Damaged(damage) = &refused else { panic!("{refused}") };
        assert_eq!((damage.what, damage.version), (wal::Fault::Missing, Version(deleted * 10)), "{refused}");
        let reports = wal::verify(&sim(&disk), dir()).unwrap();
        assert_eq!(reports[0].file, segment(deleted * 10));
        assert!(reports[0].state.is_bad(), "{reports:?}");
    }
    // All of them.
    let mut log = Timed::new();
    log.flush();
    log.retain(0, 0);
    wal::Disk::remove(&log.disk, &segment(10)).unwrap();
    let refused = open_with(&log.disk, wal::Options::default()).unwrap_err();
    assert!(refused.to_string().contains("segment is missing"), "{refused}");
}

#[test]
fn a_crash_while_segments_are_deleted_leaves_a_log_that_opens() {
    use wal::sim::{Op, SimFault};
    for (op, nth) in [Op::Create, Op::Write, Op::Sync, Op::Rename, Op::SyncDir, Op::Remove]
        .into_iter()
        .flat_map(|op| (0..4).map(move |nth| (op, nth)))
    {
        for seed in 0..20 {
            let mut log = Timed::new();
            for _ in 0..4 {
                log.flush();
            }
            log.disk.fail_nth(op, nth, SimFault::Errno(28));
            let below = log.wal.next_version();
            let done = log.wal.retain(2000 * S, below, AT_ONCE);
            log.disk.crash(seed);
            let (wal, _) = open_with(&log.disk, wal::Options::default()).unwrap();
            let first = wal.first_version().0;
            assert!(
                first.is_multiple_of(10) && (done.is_err() || first == 40),
                "{op:?} {nth} seed {seed}: {first}"
            );
            assert_holds(&wal, first, 40);
        }
    }
}
