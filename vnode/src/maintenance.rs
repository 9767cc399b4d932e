//! What a shard does by itself: flushing when memory or the disk fills up, log retention on a timer, and slowing writers
//! down where flushing does not keep up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use model::{Code, Error, Result, VgroupId};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::keep::KeepWish;
use crate::vnode::Vnode;

/// Upper bound between two looks at retention and roll period.
const TICK: Duration = Duration::from_secs(2);
/// Into how many parts of a tick shards are spread. Those of one part wake together: a thousand idle shards whose timers
/// end one by one cost twice the CPU, for switching to a thread and back each time.
const SLOTS: u32 = 10;
/// How long a write waits for memory before it is refused.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(10);
/// Writers wait once memtables take this many times the budget: one is filled while another is written.
const BUDGETS_MAX: usize = 2;

/// How full memory and the disk are.
#[derive(Debug)]
pub(crate) struct Pressure {
    wanted: Arc<Notify>,
    asked: AtomicBool,
    /// The disk had no room since the last look.
    disk_full: AtomicBool,
    /// Counts flushes.
    flushes: watch::Sender<u64>,
}

impl Default for Pressure {
    fn default() -> Self {
        Self {
            wanted: Arc::default(),
            asked: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            flushes: watch::Sender::new(0),
        }
    }
}

fn budget(vnode: &Vnode) -> usize {
    usize::try_from(u64::from(vnode.database().options.buffer_mib) << 20).unwrap_or(usize::MAX)
}

impl Pressure {
    pub(crate) fn flush_wanted(&self) -> Arc<Notify> {
        Arc::clone(&self.wanted)
    }

    pub(crate) fn want_maintenance(&self) {
        self.wanted.notify_one();
    }

    /// After a write: asks for a flush, once, where the budget is used up.
    pub(crate) fn note(&self, vnode: &Vnode) {
        let used = vnode.state.read().store.memtable_bytes();
        if used > budget(vnode) {
            self.want_flush();
        }
    }

    /// After something failed: asks for a flush, once, where the disk has no room, since the log that it covers may then
    /// be deleted.
    pub(crate) fn note_failure(&self, error: &Error) {
        if error.code() == Code::NoDiskSpace {
            self.disk_full.store(true, Ordering::Release);
            self.want_flush();
        }
    }

    fn want_flush(&self) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            self.wanted.notify_one();
        }
    }

    fn take_disk_full(&self) -> bool {
        self.disk_full.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_flush_due(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub(crate) fn flushed(&self) {
        self.asked.store(false, Ordering::Release);
        self.flushes.send_modify(|count| *count += 1);
    }

    /// Waits while memtables take too much.
    pub(crate) async fn wait_for_room(&self, vnode: &Vnode) -> Result<()> {
        let is_full = || {
            let state = vnode.state.read();
            let used = state.store.memtable_bytes().saturating_add(state.store.frozen_bytes());
            used > budget(vnode).saturating_mul(BUDGETS_MAX)
        };
        if !is_full() {
            return Ok(());
        }
        let mut flushes = self.flushes.subscribe();
        let room = async {
            while is_full() {
                self.want_flush();
                let _ = flushes.changed().await;
            }
        };
        tokio::time::timeout(ROOM_WAIT_MAX, room).await.map_err(|_| Error::of(Code::Overloaded))
    }
}

/// The ticks of a shard, which fall on the same instants as those of the other shards in its slot.
fn ticks(vgroup: VgroupId) -> Interval {
    static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
    let slot = TICK / SLOTS * (vgroup.0 % SLOTS);
    let first = next_multiple(EPOCH.elapsed(), slot);
    let mut ticks = tokio::time::interval_at(*EPOCH + first, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// The first of `offset`, `offset + TICK`, `offset + 2 TICK` .. that is not before `now`.
fn next_multiple(now: Duration, offset: Duration) -> Duration {
    let passed = now.saturating_sub(offset).as_nanos().div_ceil(TICK.as_nanos());
    offset + TICK * u32::try_from(passed).unwrap_or(u32::MAX)
}

/// Runs until the shard closes or is gone.
pub(crate) async fn run(vnode: Weak<Vnode>, wanted: Arc<Notify>, keep_wish: Arc<KeepWish>) {
    let Some(mut ticks) = vnode.upgrade().map(|vnode| ticks(vnode.vgroup())) else { return };
    loop {
        let only_wished = tokio::select! {
            biased;
            () = wanted.notified() => false,
            () = keep_wish.wished() => true,
            _ = ticks.tick() => false,
        };
        let Some(vnode) = vnode.upgrade() else { return };
        if *vnode.closing.borrow() {
            return;
        }
        // Often, where a consumer commits each message: the rest of a tick would let a busy log rest each time.
        if only_wished {
            vnode.log_keep_wish().await;
            continue;
        }
        let disk_was_full = vnode.pressure.take_disk_full();
        let done = if vnode.is_flush_due() { vnode.flush().await } else { vnode.tick().await };
        if let Err(error) = &done {
            tracing::warn!(vgroup = %vnode.vgroup(), %error, "maintenance of a shard failed, will be tried again");
            vnode.pressure.note_failure(error);
        }
        // A full disk stays full for a while, also where a flush succeeds and frees nothing: writers ask for another
        // with each write that is refused.
        if done.is_err() || disk_was_full {
            let mut closing = vnode.closing.subscribe();
            drop(vnode);
            let _ = tokio::time::timeout(TICK, closing.wait_for(|closing| *closing)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use wal::sim::SimDisk;

    use super::*;
    use crate::tests::{clock, database, rows, with_meter};
    use crate::vnode::VnodeOptions;

    /// The log takes space in steps of this.
    const RESERVE_BYTES: u64 = 1 << 20;

    /// All in one open segment and a small memtable: neither retention nor BUFFER asks for a flush.
    #[tokio::test]
    async fn a_write_that_finds_no_room_asks_for_a_flush() {
        let (dir, disk) = (tempfile::tempdir().unwrap(), SimDisk::new());
        let options = VnodeOptions {
            vgroup: VgroupId(2),
            database: Arc::new(database(1)),
            dir: dir.path().to_path_buf(),
        };
        let vnode = Vnode::open(options, Arc::new(disk.clone()), clock()).await.unwrap();
        with_meter(&vnode).await;
        // Less than the log takes ahead twice.
        disk.set_capacity(Some(RESERVE_BYTES * 3 / 2));
        let mut flushes = vnode.pressure.flushes.subscribe();
        let mut accepted = 0;
        let refused = loop {
            // Of values that do not compress well.
            let value = |tick: i64| i32::try_from(tick * 7_919_313 % 9_999_991).unwrap();
            let batch: Vec<_> = (accepted..accepted + 1_000).map(|tick| ("a", tick, value(tick))).collect();
            match vnode.write(rows(&batch, Some(1))).await {
                Ok(_) => accepted += 1_000,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code(), Code::NoDiskSpace, "after {accepted} rows");
        flushes.changed().await.unwrap();
        // Where that found no room either, it is tried again, also if nobody writes.
        disk.set_capacity(None);
        while vnode.positions().checkpoint.is_none() {
            flushes.changed().await.unwrap();
        }
        vnode.write(rows(&[("a", accepted, 1)], Some(1))).await.unwrap();
        vnode.close().await.unwrap();
    }

    #[test]
    fn ticks_of_a_slot_fall_together() {
        let (ms, next) = (Duration::from_millis, next_multiple);
        assert_eq!(next(ms(0), ms(0)), ms(0));
        assert_eq!(next(ms(1), ms(0)), TICK);
        assert_eq!(next(TICK, ms(0)), TICK);
        assert_eq!(next(ms(1), ms(200)), ms(200));
        assert_eq!(next(ms(200), ms(200)), ms(200));
        assert_eq!(next(ms(201), ms(200)), TICK + ms(200));
        for now in (0..10_000).step_by(77).map(ms) {
            let tick = next(now, ms(400));
            assert!(tick >= now && tick < now + TICK);
            assert!((tick - ms(400)).as_nanos().is_multiple_of(TICK.as_nanos()));
        }
    }
}
