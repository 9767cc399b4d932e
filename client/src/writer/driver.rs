//! The thin shell around a writer's window: one task that keeps the write stream open.

use std::sync::Arc;

use futures::Stream;
use model::{Code, Error, Result};
use parking_lot::Mutex;
use proto::v1;
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::window::{Next, Window};
use crate::connection::{Connection, Session};

/// What a writer's calls and its driver share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) connection: Connection,
    pub(super) started: Instant,
    pub(super) window: Mutex<Window>,
    /// The window is another.
    pub(super) changed: Notify,
    /// Number of the current stream: what an earlier one still wants to send is not for it.
    pub(super) session: Mutex<u64>,
}

/// Sends and receives. When the server cannot be reached for longer than the retry policy waits, what is in the window is
/// given up, and the next write tries anew.
pub(super) async fn drive(shared: Arc<Shared>) {
    let mut failed = 0;
    loop {
        let (reached, error) = session(&shared).await;
        failed = if reached { 1 } else { failed + 1 };
        let again = error.may_retry() || matches!(error.code(), Code::Internal | Code::Terminated);
        match shared.connection.options().retry.pause_after(failed) {
            Some(pause) if again => {
                // Without unanswered writes nothing is at stake, and nobody may be there to write any more.
                if shared.window.lock().is_empty() {
                    tracing::debug!(%error, ?pause, "idle write stream broke");
                } else {
                    tracing::warn!(%error, ?pause, "write stream broke");
                }
                tokio::time::sleep(pause).await;
            }
            _ => {
                shared.window.lock().give_up(error);
                shared.changed.notify_waiters();
                failed = 0;
                shared.wait_until(|window| (!window.is_empty()).then_some(())).await;
            }
        }
    }
}

/// One stream, from opening it to its end; whether the server answered a write on it, and why it ended.
async fn session(shared: &Arc<Shared>) -> (bool, Error) {
    let open = async |session: Session| {
        // Each attempt sends from the start: one that finds its login forgotten has already taken writes along.
        let number = shared.next_session();
        let request = session.request(requests(Arc::clone(shared), number));
        Ok(session.writer().write(request).await?.into_inner())
    };
    match shared.connection.once(&open).await {
        Ok(answers) => receive(shared, answers).await,
        Err(status) => (false, proto::status::from_status(&status)),
    }
}

async fn receive(shared: &Shared, mut answers: Streaming<v1::WriteResponse>) -> (bool, Error) {
    let mut reached = false;
    let gone = |status: &Status| proto::status::from_status(status);
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                reached = true;
                let done = match answer.error {
                    None => Ok(answer.affected_rows),
                    Some(detail) => Err(proto::status::from_detail(detail)),
                };
                let now = shared.started.elapsed();
                shared.window.lock().answered(answer.id, done, now);
                shared.changed.notify_waiters();
            }
            Ok(None) => return (reached, Error::with(Code::Unreachable, "the write stream ended")),
            Err(status) => return (reached, gone(&status)),
        }
    }
}

/// What goes up stream `number`: the window's writes as they come.
fn requests(shared: Arc<Shared>, number: u64) -> impl Stream<Item = v1::WriteRequest> + Send + 'static {
    futures::stream::unfold(shared, move |shared| async move {
        let request = shared.next_request(number).await?;
        Some((request, shared))
    })
}

impl Shared {
    fn next_session(&self) -> u64 {
        let mut session = self.session.lock();
        *session += 1;
        self.window.lock().disconnected();
        *session
    }

    async fn next_request(&self, number: u64) -> Option<v1::WriteRequest> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let next = {
                let session = self.session.lock();
                if *session != number {
                    return None;
                }
                self.window.lock().next(self.started.elapsed())
            };
            match next {
                Next::Send(request) => return Some(*request),
                Next::Wait(Some(until)) => {
                    // Either way the window is looked at again.
                    let _ = tokio::time::timeout_at(self.started + until, changed).await;
                }
                Next::Wait(None) => changed.await,
            }
        }
    }

    /// Waits for room in the window; fails when an earlier write has.
    pub(super) async fn room(&self) -> Result<()> {
        self.wait_until(|window| match window.has_failed() {
            true => {
                Some(Err(Error::text(Code::InvalidOperation, "an earlier write failed: flush tells how")))
            }
            false => window.has_room().then_some(Ok(())),
        })
        .await
    }

    /// What `look` finds in the window, now or after a change.
    pub(super) async fn wait_until<T>(&self, look: impl Fn(&mut Window) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look(&mut self.window.lock()) {
                return found;
            }
            changed.await;
        }
    }
}
