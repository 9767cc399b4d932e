//! What [`watermark`](crate::watermark) synchronises with. Its test puts the types of a model checker in their place.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

pub(crate) use parking_lot::Mutex;
