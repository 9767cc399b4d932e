//! What consumers read: one loop over the log, from a position to the applied end.
//!
//! [`Subscription::read`] is synchronous and, but for the clock it is given, a function of the log; waiting for more is
//! [`Subscription::ready`]. A reader is woken by every applied record. A change of owner, a dropped topic and a dropped
//! group are records too, so that a parked reader learns of them in the same way, in the order of the log.
//!
//! `start` finds where to begin, `core` reads, `evaluate` says what a topic shows of a record (`rows` for its expressions, `meta` and `json` for
//! events), `together` spares groups that read in step the same work, `gather` makes batches of it; `findings` keeps what comes to light on the way.

mod compiled;
mod core;
mod evaluate;
mod findings;
mod gather;
mod json;
mod meta;
mod rows;
mod start;
mod together;
mod types;

use std::fmt;
use std::sync::Arc;

use model::{Code, Error, Result, Version};
use tokio::sync::watch;
use wal::Watermark;

pub(crate) use compiled::TopicCache;
pub(crate) use findings::Findings;
pub use findings::{Behind, GAPS, SKIPPED_VERSIONS};
#[cfg(test)]
pub(crate) use together::Counts;
pub use types::{
    Batch, BatchKind, Block, BlockSchema, OffsetReset, Range, Read, ReadOptions, RecordRun, SubscribeRequest,
};

pub(crate) use self::core::{Core, Log};
pub(crate) use start::{Resolved, known, remember, resolve};

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
        let retained = vnode.positions().retained;
        let resolved = resolve(&vnode.state.read(), &vnode.findings, retained, &request)?;
        let (position, skipped) = match resolved {
            Resolved::At { position, skipped } => (position, skipped),
            Resolved::Latest => (remember_latest(&vnode, &request).await?, None),
        };
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

/// Writes to the log that the group starts here. Whoever takes the vgroup over before the first commit, or after a
/// restart, goes on from there and not from a later "latest".
async fn remember_latest(vnode: &Vnode, request: &SubscribeRequest) -> Result<Version> {
    let mut here = Version(0);
    let start = |state: &crate::state::VnodeState, _: &propose::Context, _| {
        here = state.applied().next();
        start::remember(state, request)
    };
    vnode.proposer.pipelined(start).await?;
    Ok(start::known(&vnode.state.read(), request).unwrap_or(here))
}
