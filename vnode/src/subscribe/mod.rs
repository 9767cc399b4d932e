//! What consumers read: one loop over the log, from a position to the applied end.
//!
//! [`Subscription::read`] is synchronous and, but for the clock it is given, a function of the log; waiting for more is
//! [`Subscription::ready`]. A reader is woken by every applied record. A change of owner, a dropped topic and a dropped
//! group are records too, so that a parked reader learns of them in the same way, in the order of the log.
//!
//! `core` reads, `evaluate` says what a topic shows of a record (`rows` for its expressions, `meta` and `json` for
//! events), `gather` makes batches of it; `findings` keeps what comes to light on the way.

mod compiled;
mod core;
mod evaluate;
mod findings;
mod gather;
mod json;
mod meta;
mod rows;
mod types;

use std::fmt;
use std::sync::Arc;

use model::{Code, Error, Result, Version};
use tokio::sync::watch;
use wal::Watermark;

pub(crate) use compiled::TopicCache;
pub use findings::Behind;
pub(crate) use findings::Findings;
pub use types::{
    Batch, BatchKind, Block, BlockSchema, OffsetReset, Range, Read, ReadOptions, RecordRun, SubscribeRequest,
};

use self::core::{Core, Log};
use crate::propose;
use crate::vnode::Vnode;

/// One consumer's reading of one topic in this shard.
pub struct Subscription {
    vnode: Arc<Vnode>,
    core: Core,
    applied: Arc<Watermark>,
    closing: watch::Receiver<bool>,
}

impl Subscription {
    pub(crate) async fn open(vnode: Arc<Vnode>, request: SubscribeRequest) -> Result<Self> {
        let Start { position, skipped } = resolve(&vnode, &request).await?;
        if let Some((from, to)) = skipped {
            vnode.findings.gap(&(request.topic, request.group.clone()), from, to);
        }
        let log = Log {
            wal: vnode.group.log(),
            state: Arc::clone(&vnode.state),
            clock: Arc::clone(&vnode.clock),
            findings: Arc::clone(&vnode.findings),
        };
        let (applied, closing) = (vnode.group.applied(), vnode.closing.subscribe());
        Ok(Self { vnode, core: Core::new(log, request, position, skipped), applied, closing })
    }

    /// Next version to read.
    #[must_use]
    pub const fn position(&self) -> Version {
        self.core.position()
    }

    /// Goes to another version. What was read and not yet handed out is forgotten.
    pub fn seek(&mut self, position: Version) {
        self.core.seek(position);
    }

    /// Looks at the log from the position on: up to the next batch, the end of what is applied, or until the shard's
    /// clock shows `deadline_ns`. Reads files: at the tail they are in memory, a backlog may come from the disk.
    ///
    /// # Errors
    /// [`Code::ConsumerMismatch`] as soon as the vgroup belongs to somebody else, also when that happens while this
    /// reads; [`Code::TopicNotExist`] once the topic is dropped; [`Code::ShuttingDown`]; I/O errors and damage of the
    /// log. The position is then where it was.
    pub fn read(&mut self, deadline_ns: i64) -> Result<Read> {
        if *self.closing.borrow() {
            return Err(Error::of(Code::ShuttingDown));
        }
        self.core.read(&self.vnode.topics, deadline_ns)
    }

    /// Waits until [`read`](Self::read) may find something new: a record applied since it last looked (a change of owner
    /// is one), or the end of the shard. Cannot miss a wake-up: see [`Watermark`]. Safe to drop and call again.
    pub async fn ready(&mut self) {
        if *self.closing.borrow_and_update() {
            return;
        }
        tokio::select! {
            biased;
            _ = self.closing.changed() => {}
            () = self.applied.passed(self.core.seen()) => {}
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("vgroup", &self.vnode.vgroup())
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

/// Number of a log's first record, whether it is still there or not.
const FIRST_VERSION: Version = Version(0);

/// Where a reader starts.
struct Start {
    position: Version,
    /// What retention took before it, the second not included, of all that the reader asked for.
    skipped: Option<(Version, Version)>,
}

impl Start {
    const fn at(position: Version) -> Self {
        Self { position, skipped: None }
    }
}

/// Finds it (tmq.md 3.2).
async fn resolve(vnode: &Vnode, request: &SubscribeRequest) -> Result<Start> {
    let known = {
        let state = vnode.state.read();
        core::check_owner(&state, request)?;
        let held = state.groups.get(request.topic, &request.group);
        let committed = held.and_then(|held| held.committed.as_ref()).map(|committed| committed.offset);
        request
            .position
            .or(committed)
            .or_else(|| held.and_then(|held| held.start).filter(|_| is_latest(request)))
    };
    if let Some(known) = known {
        return check_kept(vnode, request, known).map(|()| Start::at(known));
    }
    match request.reset {
        OffsetReset::None => Err(Error::of(Code::NoCommittedOffset)),
        OffsetReset::Earliest => {
            let position = vnode.positions().retained;
            let skipped = (position > FIRST_VERSION).then_some((FIRST_VERSION, position));
            Ok(Start { position, skipped })
        }
        OffsetReset::Latest => Ok(Start::at(remember_latest(vnode, request).await?)),
    }
}

/// Whoever wants no policy does not want the oldest record in place of a committed offset either: a gap is an error then,
/// told before anything is read. A reader at work learns of a gap with its next batch, as all do.
fn check_kept(vnode: &Vnode, request: &SubscribeRequest, committed: Version) -> Result<()> {
    if request.reset != OffsetReset::None || request.position.is_some() {
        return Ok(());
    }
    let first = vnode.positions().retained;
    let key = (request.topic, request.group.clone());
    if vnode.findings.unread_from(&key, committed) >= first {
        return Ok(());
    }
    let gone = format!("committed={committed} first_kept={first}");
    let hint = "seek to a version that is kept, or choose earliest or latest";
    Err(Error::with(Code::OffsetOutOfRange, gone).hint(hint))
}

fn is_latest(request: &SubscribeRequest) -> bool {
    request.reset == OffsetReset::Latest
}

/// Writes to the log that the group starts here. Whoever takes the vgroup over before the first commit, or after a
/// restart, goes on from there and not from a later "latest".
async fn remember_latest(vnode: &Vnode, request: &SubscribeRequest) -> Result<Version> {
    let mut here = Version(0);
    let (topic, group) = (request.topic, &request.group);
    let start = |state: &crate::state::VnodeState, _: &propose::Context, _| {
        core::check_owner(state, request)?;
        here = state.applied().next();
        propose::control::start(state, topic, group, here)
    };
    vnode.proposer.pipelined(start).await?;
    let state = vnode.state.read();
    let held = state.groups.get(topic, group);
    let committed = held.and_then(|held| held.committed.as_ref()).map(|committed| committed.offset);
    Ok(committed.or_else(|| held.and_then(|held| held.start)).unwrap_or(here))
}
