//! Which consume stream is a consumer's, and how one ends whose client does not read.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use model::{ConsumerId, Error};
use parking_lot::Mutex;
use proto::status::to_status;
use proto::v1;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::Status;

/// What goes down a stream.
pub type Answer = Result<v1::ConsumeResponse, Status>;

/// The consume streams of all consumers: one each, the one that began last.
#[derive(Debug, Default)]
pub struct Streams(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    begun: u64,
    /// Its number, and what tells it that another has begun.
    of: BTreeMap<ConsumerId, (u64, oneshot::Sender<()>)>,
}

impl Streams {
    /// A stream begins; one that the consumer has ends.
    pub fn begin(self: &Arc<Self>, consumer: ConsumerId) -> Place {
        let (sender, replaced) = oneshot::channel();
        let mut table = self.0.lock();
        table.begun += 1;
        let number = table.begun;
        // Dropping the earlier sender is what tells its stream.
        table.of.insert(consumer, (number, sender));
        Place { streams: Arc::clone(self), consumer, number, replaced }
    }
}

/// A stream's place; free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    streams: Arc<Streams>,
    consumer: ConsumerId,
    number: u64,
    replaced: oneshot::Receiver<()>,
}

impl Place {
    /// Returns, once, when another stream of the consumer has begun.
    pub async fn replaced(&mut self) {
        let _ = (&mut self.replaced).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.streams.0.lock();
        if table.of.get(&self.consumer).is_some_and(|(number, _)| *number == self.number) {
            table.of.remove(&self.consumer);
        }
    }
}

#[derive(Debug)]
struct Outlet {
    /// `None` once closed.
    queue: Option<mpsc::Receiver<Answer>>,
    /// Why it was closed, until the transport has taken it.
    error: Option<Status>,
    transport: Option<Waker>,
}

/// A queue of `capacity` answers. The transport takes nothing of it while its client does not read: whoever closes it drops
/// what is queued without waiting for that.
pub fn answers(capacity: usize) -> (mpsc::Sender<Answer>, Answers, Closer) {
    let (sender, queue) = mpsc::channel(capacity);
    let outlet = Arc::new(Mutex::new(Outlet { queue: Some(queue), error: None, transport: None }));
    (sender, Answers(Arc::clone(&outlet)), Closer(outlet))
}

/// The transport's end.
#[derive(Debug)]
pub struct Answers(Arc<Mutex<Outlet>>);

impl Stream for Answers {
    type Item = Answer;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let mut outlet = self.0.lock();
        let Outlet { queue, error, transport } = &mut *outlet;
        let Some(queue) = queue else { return Poll::Ready(error.take().map(Err)) };
        let next = queue.poll_recv(cx);
        if next.is_pending() {
            *transport = Some(cx.waker().clone());
        }
        next
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // Senders learn by it that the client is gone.
        self.0.lock().queue = None;
    }
}

/// Ends the answers early.
#[derive(Debug)]
pub struct Closer(Arc<Mutex<Outlet>>);

impl Closer {
    /// Drops what is queued; the client is told `error` next.
    pub fn close(self, error: &Error) {
        let (queue, transport) = {
            let mut outlet = self.0.lock();
            outlet.error = Some(to_status(error));
            (outlet.queue.take(), outlet.transport.take())
        };
        drop(queue);
        if let Some(transport) = transport {
            transport.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use model::Code;
    use tokio_stream::StreamExt as _;

    use super::*;

    const NOTHING: v1::ConsumeResponse = v1::ConsumeResponse { event: None };

    #[test]
    fn the_last_stream_of_a_consumer_is_the_one() {
        let streams = Arc::<Streams>::default();
        let (mut first, mut other) = (streams.begin(ConsumerId(1)), streams.begin(ConsumerId(2)));
        assert!(first.replaced().now_or_never().is_none());
        let mut second = streams.begin(ConsumerId(1));
        assert!(first.replaced().now_or_never().is_some());
        drop(first);
        assert!(second.replaced().now_or_never().is_none());
        assert!(other.replaced().now_or_never().is_none());
        drop((second, other));
        assert!(streams.0.lock().of.is_empty());
    }

    #[test]
    fn closing_drops_what_nobody_reads() {
        let (sender, mut answers, closer) = answers(1);
        assert!(answers.next().now_or_never().is_none());
        sender.try_send(Ok(NOTHING)).unwrap();
        assert!(sender.send(Ok(NOTHING)).now_or_never().is_none(), "full");
        closer.close(&Error::of(Code::Terminated));
        assert!(sender.is_closed());
        assert!(answers.next().now_or_never().unwrap().unwrap().is_err());
        assert!(answers.next().now_or_never().unwrap().is_none());
    }

    #[test]
    fn senders_learn_that_the_client_is_gone() {
        let (sender, answers, _closer) = answers(1);
        drop(answers);
        assert!(sender.is_closed());
    }
}
