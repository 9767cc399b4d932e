//! The keep version: a consumer's wish, with each commit, that the log be kept from its offset on.
//!
//! A commit is answered before the wish is in the log, and whatever becomes of the wish. Wishes that come while one is
//! being logged replace each other: the last one counts.

use model::Version;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::propose;
use crate::vnode::Vnode;

/// From where on a shard's log survives retention, whoever asked for it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepVersion {
    /// Segments with versions from here on are kept until TRIM DATABASE .. WAL.
    pub from: Version,
    /// Receive time of the record that set it, nanoseconds since the epoch.
    pub set_ns: i64,
}

/// What consumers wished and the log does not have yet.
#[derive(Debug, Default)]
pub(crate) struct KeepWish {
    from: Mutex<Option<Version>>,
    /// Held while a wish is being logged, so that an earlier one cannot be logged after it.
    logging: tokio::sync::Mutex<()>,
    wished: Notify,
}

impl KeepWish {
    pub(crate) fn wish(&self, from: Version) {
        *self.from.lock() = Some(from);
        self.wished.notify_one();
    }

    /// Returns when there is one to log.
    pub(crate) async fn wished(&self) {
        self.wished.notified().await;
    }
}

impl Vnode {
    /// The keep version; `None` if no consumer has set one.
    #[must_use]
    pub fn keep_version(&self) -> Option<KeepVersion> {
        self.state.read().keep_version()
    }

    /// Logs what was wished last. One that fails is tried again with the next call, unless there is a later one by then.
    pub(crate) async fn log_keep_wish(&self) {
        let _one_at_a_time = self.keep_wish.logging.lock().await;
        let Some(from) = self.keep_wish.from.lock().take() else { return };
        let logged = self
            .proposer
            .pipelined(|state, _, is_quiet| propose::control::keep_from(state, from, is_quiet))
            .await;
        if let Err(error) = logged {
            tracing::warn!(vgroup = %self.vgroup(), %from, %error, "keep version not set, will be tried again");
            self.keep_wish.from.lock().get_or_insert(from);
        }
    }
}
