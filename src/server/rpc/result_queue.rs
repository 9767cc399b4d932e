//! Messages of a statement's answer that wait for its client, and what becomes of them when it does not take them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use model::{Clock as _, Code, Error, Result};
use parking_lot::Mutex;
use proto::status::to_status;
use proto::v1::ExecuteResponse;
use proto::v1::execute_response::Part;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Permit};
use tonic::Status;

use crate::server::clock::SystemClock;
use crate::server::engine::{MESSAGES_AHEAD, ResultMemory};

type Message = Result<ExecuteResponse, Status>;

/// Where messages are put in.
#[derive(Debug)]
pub(super) struct Answers {
    messages: mpsc::Sender<Message>,
    queue: Arc<Shared>,
    clock: Arc<SystemClock>,
    idle_timeout: Duration,
}

/// What the transport takes messages from. The transport asks for one when the client's window has room for it.
#[derive(Debug)]
pub struct AnswerStream(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    messages: Mutex<mpsc::Receiver<Message>>,
    memory: Mutex<Option<Arc<ResultMemory>>>,
}

/// A queue for one answer. A client that takes nothing for `idle_timeout` gets an error instead.
pub(super) fn result_queue(clock: Arc<SystemClock>, idle_timeout: Duration) -> (Answers, AnswerStream) {
    let (sender, receiver) = mpsc::channel(MESSAGES_AHEAD);
    let queue = Arc::new(Shared { messages: Mutex::new(receiver), memory: Mutex::default() });
    let answers = Answers { messages: sender, queue: Arc::clone(&queue), clock, idle_timeout };
    (answers, AnswerStream(queue))
}

impl Answers {
    /// The messages from here on hold this, until the last is taken.
    pub(super) fn hold(&self, memory: &Arc<ResultMemory>) {
        *self.queue.memory.lock() = Some(Arc::clone(memory));
    }

    /// Puts a message in; waits where the client is behind.
    ///
    /// # Errors
    /// [`Code::Terminated`] where the client has gone or takes nothing for too long; [`Code::OutOfMemory`] where too much
    /// waits for clients, and this longest.
    pub(super) async fn send(&self, part: Part) -> Result<()> {
        let permit = match self.messages.try_reserve() {
            Ok(permit) => permit,
            Err(TrySendError::Closed(())) => return Err(gone()),
            Err(TrySendError::Full(())) => self.room().await?,
        };
        permit.send(Ok(ExecuteResponse { part: Some(part) }));
        Ok(())
    }

    async fn room(&self) -> Result<Permit<'_, Message>> {
        self.while_waiting(self.messages.reserve()).await?.map_err(|_| gone())
    }

    /// Returns when all messages are taken.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(super) async fn taken(&self) -> Result<()> {
        // One by one: each that is taken is a sign of life.
        for free in 1..=self.messages.max_capacity() {
            if self.messages.capacity() < free {
                self.while_waiting(self.messages.reserve_many(free)).await?.map(drop).map_err(|_| gone())?;
            }
        }
        Ok(())
    }

    async fn while_waiting<T>(&self, done: impl Future<Output = T>) -> Result<T> {
        let memory = self.queue.memory.lock().clone();
        let waiting = memory.map(|memory| memory.wait()).unwrap_or_default();
        let idle_ns = i64::try_from(self.idle_timeout.as_nanos()).unwrap_or(i64::MAX);
        let until_ns = self.clock.now_ns().saturating_add(idle_ns);
        tokio::select! {
            // Late is late, also for a client that comes back just then.
            biased;
            () = self.clock.sleep_until(until_ns) => Err(self.idle()),
            error = waiting.evicted() => Err(error),
            done = done => Ok(done),
        }
    }

    fn idle(&self) -> Error {
        let text = format!("nothing of the result was read for {} ms", self.idle_timeout.as_millis());
        Error::with(Code::Terminated, text).hint(
            "read results as they come, close those that are not wanted, or raise result_idle_timeout_ms",
        )
    }

    /// Ends the answer with an error. Where there is no room for it, it takes the place of what waits: the client will not
    /// get the rows after those in any case.
    pub(super) fn fail(&self, error: &Error) {
        let Err(TrySendError::Full(error)) = self.messages.try_send(Err(to_status(error))) else { return };
        let mut waiting = self.queue.messages.lock();
        while waiting.try_recv().is_ok() {}
        drop(waiting);
        self.queue.memory.lock().take();
        // Refused only where the client has gone.
        let _ = self.messages.try_send(error);
    }

    /// Returns when the client has gone.
    pub(super) async fn closed(&self) {
        self.messages.closed().await;
    }
}

fn gone() -> Error {
    Error::of(Code::Terminated)
}

impl Stream for AnswerStream {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.0.messages.lock().poll_recv(cx)
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        let mut messages = self.0.messages.lock();
        messages.close();
        while messages.try_recv().is_ok() {}
        drop(messages);
        self.0.memory.lock().take();
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use proto::status::from_status;
    use proto::v1::{ResultBatch, ResultEnd};

    use super::*;

    const IDLE: Duration = Duration::from_secs(600);

    fn queue() -> (Answers, AnswerStream, Arc<SystemClock>) {
        let clock = Arc::new(SystemClock::held());
        let (answers, stream) = result_queue(Arc::clone(&clock), IDLE);
        (answers, stream, clock)
    }

    fn batch() -> Part {
        Part::Batch(ResultBatch { frame: vec![0; 8].into() })
    }

    async fn fill(answers: &Answers) {
        for _ in 0..MESSAGES_AHEAD {
            answers.send(batch()).await.unwrap();
        }
    }

    fn pass(clock: &SystemClock, time: Duration) {
        clock.advance_ns(i64::try_from(time.as_nanos()).unwrap());
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_gets_an_error_instead_of_what_waits() {
        let (answers, mut stream, clock) = queue();
        fill(&answers).await;
        let error = {
            let mut send = std::pin::pin!(answers.send(batch()));
            assert!(send.as_mut().now_or_never().is_none());
            pass(&clock, IDLE - Duration::from_secs(60));
            assert!(send.as_mut().now_or_never().is_none(), "not yet");
            pass(&clock, Duration::from_secs(60));
            send.await.unwrap_err()
        };
        assert_eq!(error.code(), Code::Terminated);
        answers.fail(&error);
        let status = stream.next().await.unwrap().unwrap_err();
        assert!(from_status(&status).help().contains("result_idle_timeout_ms"), "{status}");
        drop(answers);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn each_message_that_is_taken_is_a_sign_of_life() {
        let (answers, mut stream, clock) = queue();
        fill(&answers).await;
        let mut taken = std::pin::pin!(answers.taken());
        for _ in 0..MESSAGES_AHEAD {
            assert!(taken.as_mut().now_or_never().is_none());
            pass(&clock, IDLE - Duration::from_secs(60));
            assert!(taken.as_mut().now_or_never().is_none());
            stream.next().await.unwrap().unwrap();
        }
        taken.await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_that_is_complete_and_not_taken_ends_too() {
        let (answers, _stream, clock) = queue();
        answers.send(Part::End(ResultEnd::default())).await.unwrap();
        let mut taken = std::pin::pin!(answers.taken());
        assert!(taken.as_mut().now_or_never().is_none());
        pass(&clock, IDLE);
        assert_eq!(taken.await.unwrap_err().code(), Code::Terminated);
    }

    #[tokio::test]
    async fn a_client_that_goes_is_noticed() {
        let (answers, stream, _clock) = queue();
        fill(&answers).await;
        drop(stream);
        answers.closed().await;
        assert_eq!(answers.send(batch()).await.unwrap_err().code(), Code::Terminated);
    }
}
