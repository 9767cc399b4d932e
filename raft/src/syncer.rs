//! When the log is fsynced, and who is answered then. Appends go on while the disk works, so whatever is written
//! meanwhile is served by the next fsync, all of it by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use model::{Error, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;
use wal::Version;

use crate::entry::Proposed;
use crate::error;
use crate::options::Fsync;
use crate::shared::Shared;

/// How much may lie in the page cache only, whatever [`Fsync`] says. A segment is fsynced when it is closed, while
/// appends wait; this leaves little for that fsync to do.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;

pub(crate) struct Syncer {
    when: Mutex<Fsync>,
    /// Applied, not yet durable; in order of versions.
    waiting: Mutex<VecDeque<(Version, Arc<Proposed>)>>,
    work: Notify,
    /// Ends a period before its time, if there is a reason.
    hurry: Notify,
    stopped: AtomicBool,
    /// Written since the last fsync was asked for.
    unsynced_bytes: AtomicU64,
}

impl Syncer {
    pub(crate) fn new(when: Fsync) -> Self {
        Self {
            when: Mutex::new(when),
            waiting: Mutex::default(),
            work: Notify::new(),
            hurry: Notify::new(),
            stopped: AtomicBool::new(false),
            unsynced_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn set_when(&self, when: Fsync) {
        *self.when.lock() = when;
        self.work.notify_one();
        self.hurry.notify_one();
    }

    fn when(&self) -> Fsync {
        *self.when.lock()
    }

    /// Records of `bytes` have been written. Called before they are applied, so that the disk works meanwhile.
    pub(crate) fn written(&self, bytes: u64) {
        let unsynced_bytes = self.unsynced_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if self.when() != Fsync::Never || unsynced_bytes >= UNSYNCED_BYTES_MAX {
            self.work.notify_one();
        }
        if unsynced_bytes >= UNSYNCED_BYTES_MAX {
            self.hurry.notify_one();
        }
    }

    /// Waits for a period to end, or for something that does not wait for it.
    async fn wait_out(&self, period_ms: u32) {
        let when = Fsync::Every { period_ms };
        let waits = || {
            let little = self.unsynced_bytes.load(Ordering::Relaxed) < UNSYNCED_BYTES_MAX;
            little && self.when() == when && !self.stopped.load(Ordering::Acquire)
        };
        let reason = async {
            while waits() {
                self.hurry.notified().await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(period_ms.into()), reason).await; // its end is a reason too
    }

    /// Answers a proposal that is applied at `version`, at once or when it is as durable as an answer promises.
    pub(crate) fn applied(&self, shared: &Shared, version: Version, proposed: Arc<Proposed>) {
        if self.when() == Fsync::BeforeAck {
            let mut waiting = self.waiting.lock();
            // Under the lock: whoever publishes durability serves this queue afterwards.
            if shared.wal.durable_next() <= version {
                if shared.wal.is_poisoned() {
                    let unknown = || Error::with(model::Code::Io, "log is read-only since a failed sync");
                    proposed.answer(Err(shared.failure().unwrap_or_else(unknown)));
                    return;
                }
                waiting.push_back((version, proposed));
                drop(waiting);
                self.work.notify_one();
                return;
            }
        }
        proposed.answer(Ok(version));
    }

    /// Fsyncs what is written and answers those who waited for it.
    pub(crate) async fn sync(shared: &Arc<Shared>) -> Result<Version> {
        let blocking = Arc::clone(shared);
        let synced = tokio::task::spawn_blocking(move || blocking.wal.sync()).await;
        let synced = synced.map_err(error::of_join).and_then(|synced| synced.map_err(error::of_wal));
        match &synced {
            Err(e) if shared.wal.is_poisoned() => {
                shared.fail(e.clone());
                shared.syncer.refuse(e);
            }
            // An error that has been mended meanwhile made everything durable too.
            Ok(_) | Err(_) => shared.syncer.serve(shared),
        }
        synced
    }

    /// Answers those whose records have become durable.
    pub(crate) fn serve(&self, shared: &Shared) {
        let mut waiting = self.waiting.lock();
        let durable_next = shared.wal.durable_next();
        while let Some((version, proposed)) = waiting.pop_front_if(|(version, _)| *version < durable_next) {
            proposed.answer(Ok(version));
        }
    }

    /// Tells all who wait that their records may be lost.
    fn refuse(&self, error: &Error) {
        for (_, proposed) in self.waiting.lock().drain(..) {
            proposed.answer(Err(error.clone()));
        }
    }

    /// Fsyncs as [`Fsync`] says until [`Syncer::stop`].
    pub(crate) async fn run(shared: Arc<Shared>) {
        let syncer = &shared.syncer;
        loop {
            syncer.work.notified().await;
            if let Fsync::Every { period_ms } = syncer.when() {
                syncer.wait_out(period_ms).await;
            }
            if syncer.stopped.load(Ordering::Acquire) {
                return;
            }
            syncer.unsynced_bytes.store(0, Ordering::Relaxed);
            // A failure is noted in `shared` and mended by the next proposal; the next write comes back here.
            let _ = Self::sync(&shared).await;
        }
    }

    /// Ends [`Syncer::run`].
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.work.notify_one();
        self.hurry.notify_one();
    }
}
