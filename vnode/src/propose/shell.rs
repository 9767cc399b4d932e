//! The lock, the queue and the waiting around the checks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::{Clock, Code, DatabaseInfo, Error, Result, Version, VgroupId};
use parking_lot::RwLock;
use raft::{Group, Pending};
use tokio::sync::{Mutex, MutexGuard};

use super::write::{self, SchemaBlocks, ShapedWrite};
use super::{Checked, Context, Overlay, WriteRequest};
use crate::maintenance::Pressure;
use crate::record::OffsetRecord;
use crate::state::VnodeState;

/// How long an exclusive change waits for what is in flight. Far longer than any disk takes; then the caller may retry.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// The proposer of one shard.
pub(crate) struct Proposer {
    vgroup: VgroupId,
    group: Arc<Group<VnodeState>>,
    state: Arc<RwLock<VnodeState>>,
    database: RwLock<Arc<DatabaseInfo>>,
    clock: Arc<dyn Clock>,
    order: Mutex<Order>,
    /// A proposal ended without a known outcome.
    suspect: Arc<AtomicBool>,
    pressure: Arc<Pressure>,
    /// As many handles as there are proposals that somebody waits for, and this one.
    waiting: Arc<()>,
    /// The shard is being removed.
    is_dropped: AtomicBool,
}

/// What the next proposal has to know of those before it.
struct Order {
    overlay: Overlay,
    schemas: SchemaBlocks,
    /// Records queued since the shard was opened, counted as the state counts those applied.
    queued: u64,
    received_ns: i64,
    /// Set while a record is being queued: found set, its caller went away in the middle and nobody knows.
    queueing: bool,
}

/// A queued record that somebody waits for.
pub(crate) struct Flight {
    pending: Pending,
    suspect: Arc<AtomicBool>,
    pressure: Arc<Pressure>,
    _waiting: Arc<()>,
}

impl Flight {
    pub(crate) async fn landed(self) -> Result<Version> {
        match self.pending.await {
            Ok(version) => Ok(version),
            Err(e) => {
                self.suspect.store(true, Ordering::Release);
                self.pressure.note_failure(&e);
                Err(e)
            }
        }
    }
}

impl Proposer {
    pub(crate) fn new(
        vgroup: VgroupId,
        database: Arc<DatabaseInfo>,
        group: Arc<Group<VnodeState>>,
        state: Arc<RwLock<VnodeState>>,
        clock: Arc<dyn Clock>,
        pressure: Arc<Pressure>,
    ) -> Self {
        let order = {
            let state = state.read();
            let overlay = Overlay::starting(state.next_table());
            Order {
                overlay,
                schemas: SchemaBlocks::default(),
                queued: state.own_records(),
                received_ns: state.received_ns(),
                queueing: false,
            }
        };
        Self {
            vgroup,
            group,
            state,
            database: RwLock::new(database),
            clock,
            order: Mutex::new(order),
            suspect: Arc::default(),
            pressure,
            waiting: Arc::default(),
            is_dropped: AtomicBool::new(false),
        }
    }

    pub(crate) fn database(&self) -> Arc<DatabaseInfo> {
        Arc::clone(&self.database.read())
    }

    /// The shard goes, and does not come back.
    pub(crate) fn dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    pub(crate) fn set_database(&self, database: Arc<DatabaseInfo>) {
        *self.database.write() = database;
    }

    /// Queues rows: from when this answers their place in the log is fixed. The part of the check that looks at every
    /// value runs beside other writes.
    pub(crate) async fn write(&self, request: WriteRequest) -> Result<(Flight, u64)> {
        let context = self.context(self.clock.now_ns());
        let shaped = write::shape(&self.state, &context, request)?;
        let affected_rows = shaped.rows();
        Ok((self.queue_write(shaped).await?, affected_rows))
    }

    async fn queue_write(&self, shaped: ShapedWrite) -> Result<Flight> {
        let mut order = self.lock().await?;
        let context = self.receive(&mut order);
        let resolved = {
            let state = self.state.read();
            order.overlay.settle(&state);
            let Order { overlay, schemas, .. } = &mut *order;
            write::resolve(&state, overlay, schemas, &context, shaped)?
        };
        let checked = resolved.checked()?;
        let flight = self.queue(&mut order, checked, context.now_ns).await?;
        for (name, child) in resolved.children {
            order.overlay.add(name, child);
        }
        Ok(flight)
    }

    /// Queues a record whose check needs no more than the applied state shows, in spite of what is in flight. `check`
    /// answers `None` where there is nothing to do; its argument says whether nothing is in flight.
    pub(crate) async fn pipelined(
        &self,
        check: impl FnOnce(&VnodeState, &Context, bool) -> Result<Option<Checked>>,
    ) -> Result<Option<Version>> {
        let flight = {
            let mut order = self.lock().await?;
            let context = self.receive(&mut order);
            let checked = {
                let state = self.state.read();
                check(&state, &context, state.own_records() >= order.queued)?
            };
            match checked {
                Some(checked) => self.queue(&mut order, checked, context.now_ns).await?,
                None => return Ok(None),
            }
        };
        flight.landed().await.map(Some)
    }

    /// Queues a record with nothing else in flight, and keeps the others waiting until it is applied.
    pub(crate) async fn exclusive(
        &self,
        check: impl FnOnce(&VnodeState, &Context, &mut Overlay) -> Result<Option<Checked>>,
    ) -> Result<Option<Version>> {
        let flight = {
            let mut order = self.lock().await?;
            self.drain(&order).await?;
            let context = self.receive(&mut order);
            let checked = {
                let state = self.state.read();
                order.overlay.settle(&state);
                check(&state, &context, &mut order.overlay)?
            };
            let Some(checked) = checked else { return Ok(None) };
            let flight = self.queue(&mut order, checked, context.now_ns).await?;
            self.drain(&order).await?;
            flight
        };
        flight.landed().await.map(Some)
    }

    /// Runs `work` while nothing of ours is in flight and nothing can be queued.
    pub(crate) async fn at_rest<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let order = self.lock().await?;
        self.drain(&order).await?;
        Ok(work())
    }

    fn context(&self, now_ns: i64) -> Context {
        Context { vgroup: self.vgroup, database: self.database(), now_ns }
    }

    /// The context of the next record: its receive time is fixed here and never falls.
    fn receive(&self, order: &mut Order) -> Context {
        order.received_ns = order.received_ns.max(self.clock.now_ns());
        self.context(order.received_ns)
    }

    async fn queue(&self, order: &mut Order, checked: Checked, now_ns: i64) -> Result<Flight> {
        order.queueing = true;
        let queued = self.group.enqueue(checked.proposal(now_ns)).await;
        order.queueing = false;
        let pending = queued.map_err(|error| self.told(error))?;
        order.queued += 1;
        Ok(Flight {
            pending,
            suspect: Arc::clone(&self.suspect),
            pressure: Arc::clone(&self.pressure),
            _waiting: Arc::clone(&self.waiting),
        })
    }

    /// What a caller is told when the group takes no record, or none any more. A server that closes down comes back; a
    /// database that is dropped does not.
    fn told(&self, error: Error) -> Error {
        self.pressure.note_failure(&error);
        match error.code() {
            Code::ShuttingDown if self.is_dropped.load(Ordering::Acquire) => {
                Error::with(Code::DatabaseDropping, &self.database().name)
            }
            _ => error,
        }
    }

    async fn lock(&self) -> Result<MutexGuard<'_, Order>> {
        let mut order = self.order.lock().await;
        if let Some(fault) = self.state.read().fault() {
            return Err(fault.clone());
        }
        if order.queueing || self.suspect.load(Ordering::Acquire) {
            self.recover(&mut order).await?;
        }
        Ok(order)
    }

    /// Waits until everything queued so far is applied.
    async fn drain(&self, order: &Order) -> Result<()> {
        self.until(|| {
            self.state.read().own_records() >= order.queued || self.suspect.load(Ordering::Acquire)
        })
        .await?;
        if self.suspect.load(Ordering::Acquire) { Err(Error::of(Code::Conflict)) } else { Ok(()) }
    }

    /// Some proposals ended without a known outcome: whatever of them is in the log is found again when the group has
    /// mended itself, and that is so once another record of ours is applied.
    async fn recover(&self, order: &mut Order) -> Result<()> {
        self.until(|| Arc::strong_count(&self.waiting) == 1).await?;
        let nobody = OffsetRecord::DropGroup { topic: model::TopicId(0), group: String::new() };
        let barrier = Checked::new(wal::Kind::Offset, nobody.encode())?;
        order.queueing = true;
        let passed = self.group.propose(barrier.proposal(order.received_ns)).await;
        passed.map_err(|error| self.told(error))?;
        order.queueing = false;
        order.overlay.clear();
        order.queued = self.state.read().own_records();
        self.suspect.store(false, Ordering::Release);
        Ok(())
    }

    /// Waits for something that comes with the application of a record, or soon after.
    async fn until(&self, done: impl Fn() -> bool) -> Result<()> {
        const LOOK_AGAIN: Duration = Duration::from_millis(20);
        let applied = self.group.applied();
        let wait = async {
            loop {
                let seen = applied.get();
                if done() {
                    return;
                }
                let _ = tokio::time::timeout(LOOK_AGAIN, applied.passed(seen)).await;
            }
        };
        tokio::time::timeout(DRAIN_MAX, wait).await.map_err(|_| Error::of(Code::Conflict))
    }
}

impl fmt::Debug for Proposer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposer").field("vgroup", &self.vgroup).finish_non_exhaustive()
    }
}
