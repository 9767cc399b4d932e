//! What [`watermark`](crate::watermark) and [`turn`](crate::turn) synchronise with. Their tests put the types of a model
//! checker in its place.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::thread::{Thread, current as current_thread, park};

pub(crate) use parking_lot::Mutex;
