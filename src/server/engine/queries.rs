//! Where queries are planned and run: threads of their own, so that however much one computes between two of its
//! batches, writes, commits, consumers and logins go on.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::Stream;
use model::{Error, Result};
use query::engine::{EngineSettings, QueryStream};
use query::plan::Plan;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::STACK_BYTES;

/// Batches that are ready before anyone asks for them.
const BATCHES_AHEAD: usize = 2;

/// The query engine and its threads.
pub(super) struct Queries {
    engine: query::engine::Engine,
    /// Taken when dropped: a runtime cannot be waited for there, and a query is not worth waiting for.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Queries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queries").finish_non_exhaustive()
    }
}

impl Queries {
    /// Starts the threads, one a core.
    pub(super) fn new(settings: &EngineSettings) -> Result<Self> {
        let engine = query::engine::Engine::new(settings)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(settings.parallelism.max(1))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|e| Error::internal("cannot start the threads of queries").caused_by(e))?;
        Ok(Self { engine, runtime: Some(runtime) })
    }

    /// Plans and starts a query. Dropping the stream ends it.
    pub(super) async fn run(
        &self,
        plan: impl FnOnce() -> Result<Plan> + Send + 'static,
    ) -> Result<QueryStream> {
        let engine = self.engine.clone();
        let (started, start) = oneshot::channel();
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let task = self.spawn(async move {
            let opened = async { engine.execute(&plan()?).await }.await;
            let mut stream = match opened {
                Ok(QueryStream { columns, stream }) => {
                    let schema = stream.schema();
                    if started.send(Ok((columns, schema))).is_err() {
                        return;
                    }
                    stream
                }
                Err(error) => {
                    let _ = started.send(Err(error)); // Nobody waits: nobody is to be told.
                    return;
                }
            };
            while let Some(batch) = futures::StreamExt::next(&mut stream).await {
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        })?;
        let mut task = EndOnDrop(task);
        let (columns, schema) = match start.await {
            Ok(started) => started?,
            Err(_) => return Err(task.failure().await),
        };
        let stream = RecordBatchStreamAdapter::new(schema, Batches { batches, task: Some(task) });
        Ok(QueryStream { columns, stream: Box::pin(stream) })
    }

    /// The plan as EXPLAIN shows it.
    pub(super) async fn explain(
        &self,
        plan: impl FnOnce() -> Result<Plan> + Send + 'static,
    ) -> Result<Vec<String>> {
        let engine = self.engine.clone();
        let (sender, answer) = oneshot::channel();
        let mut task = EndOnDrop(self.spawn(async move {
            let lines = async { engine.explain(&plan()?).await }.await;
            let _ = sender.send(lines); // Nobody waits: nobody is to be told.
        })?);
        match answer.await {
            Ok(lines) => lines,
            Err(_) => Err(task.failure().await),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Result<JoinHandle<()>> {
        let runtime = self.runtime.as_ref().ok_or_else(|| Error::internal("queries have ended"))?;
        Ok(runtime.spawn(task))
    }
}

impl Drop for Queries {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct EndOnDrop(JoinHandle<()>);

impl EndOnDrop {
    /// Why the task ended without an answer.
    async fn failure(&mut self) -> Error {
        match (&mut self.0).await {
            Ok(()) => Error::internal("query ended without an answer"),
            Err(error) => Error::internal(format_args!("query: {error}")),
        }
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a query's task sends; its failure if it ends in one.
struct Batches {
    batches: mpsc::Receiver<DfResult<RecordBatch>>,
    /// None once its end has been told.
    task: Option<EndOnDrop>,
}

impl Stream for Batches {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(batch) = ready!(self.batches.poll_recv(cx)) {
            return Poll::Ready(Some(batch));
        }
        let Some(EndOnDrop(task)) = &mut self.task else { return Poll::Ready(None) };
        let ended = ready!(Pin::new(task).poll(cx));
        self.task = None;
        // Without this a query that panicked would look like one that has no more rows.
        Poll::Ready(ended.err().map(|error| Err(DataFusionError::Internal(format!("query: {error}")))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as blocking;

    use super::*;

    fn queries() -> Queries {
        Queries::new(&EngineSettings { parallelism: 1, memory_bytes: 1 << 20 }).unwrap()
    }

    /// On the caller's one thread this would never end: the query waits for what comes after it.
    #[tokio::test]
    async fn a_query_that_holds_its_thread_holds_no_other() {
        let queries = queries();
        let (go_on, wait) = blocking::sync_channel(1);
        let query = queries.run(move || {
            wait.recv().unwrap();
            Err(Error::internal("planned"))
        });
        let rest = async { go_on.send(()).unwrap() };
        let (answer, ()) = tokio::join!(query, rest);
        assert!(answer.unwrap_err().message().contains("planned"));
    }

    #[tokio::test]
    async fn a_query_that_panics_ends_in_an_error() {
        let queries = queries();
        let error = queries.run(|| panic!("in the plan")).await.unwrap_err();
        assert!(error.message().contains("in the plan"), "{error}");
        let error = queries.explain(|| panic!("in the plan")).await.unwrap_err();
        assert!(error.message().contains("in the plan"), "{error}");
    }
}
