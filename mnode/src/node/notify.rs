//! Who is woken by what. Called while the state is locked, so it takes short locks of its own only; nothing here ever
//! locks the state.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{ConsumerId, Error};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::coordinator::Coordinator;
use crate::state::Event;

/// Errors of statements kept for those that wait for them.
const ERRORS_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Notices {
    pub(super) coordinator: Mutex<Coordinator>,
    /// Work for the driver: an intent, a pending assignment, changed membership.
    pub(super) wake: Notify,
    membership: AtomicBool,
    /// Raised when a statement ends or fails, or the catalogue, users or settings change.
    changed: watch::Sender<u64>,
    consumers: Mutex<BTreeMap<ConsumerId, watch::Sender<()>>>,
    errors: Mutex<BTreeMap<u64, Error>>,
}

impl Notices {
    pub(super) fn new() -> Self {
        Self {
            coordinator: Mutex::default(),
            wake: Notify::new(),
            // After a start, look once: a crash may have come between a change and its rebalance.
            membership: AtomicBool::new(true),
            changed: watch::Sender::new(0),
            consumers: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    pub(super) fn publish(&self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Refused(_) | Event::Unchanged => {}
                Event::Catalog | Event::Settings | Event::IntentDone { .. } => self.bump(),
                Event::Users => {
                    self.bump();
                    // Who may read a topic has its vgroups.
                    self.look_at_membership();
                }
                Event::Intent(_) => self.wake.notify_one(),
                Event::Subscribed(consumer) => {
                    self.coordinator.lock().subscribed(consumer);
                    self.wake_consumers([consumer]);
                }
                Event::Membership => self.look_at_membership(),
                Event::Pending(key) => {
                    self.coordinator.lock().switch_replaced(&key);
                    self.wake.notify_one();
                }
                Event::Assigned(consumers) => self.wake_consumers(consumers),
                Event::Dropped(consumers) => {
                    let mut coordinator = self.coordinator.lock();
                    consumers.into_iter().for_each(|(id, farewell)| coordinator.removed(id, farewell));
                }
                Event::Gone(consumers) => {
                    let mut senders = self.consumers.lock();
                    // Dropping a sender wakes its receivers, who then find the consumer gone.
                    senders.retain(|id, _| !consumers.contains(id));
                }
            }
        }
    }

    pub(super) fn look_at_membership(&self) {
        self.membership.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn take_membership(&self) -> bool {
        self.membership.swap(false, Ordering::AcqRel)
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn bump(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
        self.wake.notify_one();
    }

    /// A shard answered, or did not: whoever may have it in their assignment looks again where that says something new.
    pub(super) fn shard_answered(&self, take_in: impl FnOnce(&mut Coordinator) -> bool) {
        let is_news = take_in(&mut self.coordinator.lock());
        if is_news {
            self.consumers.lock().values().for_each(|sender| {
                sender.send_replace(());
            });
        }
    }

    fn wake_consumers(&self, ids: impl IntoIterator<Item = ConsumerId>) {
        let senders = self.consumers.lock();
        for sender in ids.into_iter().filter_map(|id| senders.get(&id)) {
            sender.send_replace(());
        }
    }

    /// Wakes at each change of this consumer's assignment. Ask for it before looking at the state.
    pub(super) fn of_consumer(&self, id: ConsumerId) -> watch::Receiver<()> {
        let mut senders = self.consumers.lock();
        // Nobody listens to these any more: without this, consumers that never come back would pile up.
        senders.retain(|other, sender| *other == id || sender.receiver_count() > 0);
        senders.entry(id).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    pub(super) fn statement_failed(&self, intent: u64, error: Error) {
        let mut errors = self.errors.lock();
        errors.insert(intent, error);
        while errors.len() > ERRORS_MAX {
            errors.pop_first();
        }
        drop(errors);
        self.bump();
    }

    pub(super) fn take_error(&self, intent: u64) -> Option<Error> {
        self.errors.lock().remove(&intent)
    }
}
