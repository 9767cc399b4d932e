//! What consumers read: one loop over the log, from a position to the applied end.
//!
//! [`Subscription::read`] is synchronous and deterministic; waiting for more is [`Subscription::ready`]. A reader is
//! woken by every applied record. A change of owner, a dropped topic and a dropped group are records too, so that a
//! parked reader learns of them in the same way, in the order of the log.

mod types;

use std::sync::Arc;

use model::{Result, Version};

pub use types::{
    Batch, BatchKind, Block, BlockSchema, OffsetReset, Range, Read, ReadOptions, SubscribeRequest,
};

use crate::vnode::Vnode;

/// Compiled topics, shared by all readers.
#[derive(Debug, Default)]
pub(crate) struct TopicCache {}

/// One consumer's reading of one topic in this shard.
#[derive(Debug)]
pub struct Subscription {
    vnode: Arc<Vnode>,
    request: SubscribeRequest,
    position: Version,
}

impl Subscription {
    pub(crate) async fn open(vnode: Arc<Vnode>, request: SubscribeRequest) -> Result<Self> {
        let position = request.position.unwrap_or_default();
        Ok(Self { vnode, request, position })
    }

    /// Next version to read.
    #[must_use]
    pub const fn position(&self) -> Version {
        self.position
    }

    /// Goes to another version. What was read and not yet handed out is forgotten.
    pub fn seek(&mut self, position: Version) {
        self.position = position;
    }

    /// Looks at the log from the position on: up to the next batch, the end of what is applied, or until `deadline_ns`
    /// has passed by the shard's clock. Reads files and may take as long as the deadline says: for the thread of a
    /// stream with much to read, use [`Subscription::read_blocking`].
    ///
    /// # Errors
    /// [`Code::ConsumerMismatch`](model::Code::ConsumerMismatch) as soon as the vgroup belongs to somebody else, also
    /// when that happens while this reads; [`Code::TopicNotExist`](model::Code::TopicNotExist) once the topic is
    /// dropped; [`Code::ShuttingDown`](model::Code::ShuttingDown); I/O errors and damage of the log.
    pub fn read(&mut self, deadline_ns: i64) -> Result<Read> {
        let _ = (deadline_ns, &self.vnode, &self.request);
        Err(model::Error::not_supported("subscriptions, just yet"))
    }

    /// Waits until there may be something new for [`read`](Self::read): a record beyond the position, or a reason to end.
    /// Cannot miss a wake-up: it compares before it sleeps, under the watch that the next record changes.
    pub async fn ready(&mut self) {
        std::future::pending::<()>().await;
    }
}
