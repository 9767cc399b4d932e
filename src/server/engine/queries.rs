//! Where queries are planned and run: threads of their own, so that however much one computes between two of its
//! batches, writes, commits, consumers and logins go on.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::Stream;
use model::{Error, Result};
use proto::size::batch_bytes;
use query::engine::{EngineSettings, QueryStream};
use query::memory::QueryMemory;
use query::plan::{OutputColumn, Plan};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, yield_now};

use super::outcome::ResultStream;
use super::result::{BATCHES_AHEAD, ResultMemory};
use crate::STACK_BYTES;

/// Threads for each that a query may keep busy. Queries take turns at every batch (see `query`'s engine), but what goes
/// on within one, a sort, the planning of thousands of columns, has no place to stop: beside it there is a thread left,
/// and the system shares the cores out.
const THREADS_PER_CORE: usize = 2;
/// A thread looks at every so many tasks for queries that have just come, before it goes on with its own: one that takes
/// its turns would else come back some sixty times before a new one is seen.
const TASKS_PER_LOOK: u32 = 2;

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
    /// Starts the threads.
    pub(super) fn new(settings: &EngineSettings) -> Result<Self> {
        Self::with_threads(settings, settings.parallelism.max(1) * THREADS_PER_CORE)
    }

    fn with_threads(settings: &EngineSettings, threads: usize) -> Result<Self> {
        let engine = query::engine::Engine::new(settings)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .global_queue_interval(TASKS_PER_LOOK)
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|e| Error::internal("cannot start the threads of queries").caused_by(e))?;
        Ok(Self { engine, runtime: Some(runtime) })
    }

    /// Plans and starts a query. Dropping the stream ends it, or, before there is one, what is waited for: between two
    /// steps of the planning too.
    pub(super) async fn run(
        &self,
        plan: impl FnOnce() -> Result<Plan> + Send + 'static,
    ) -> Result<ResultStream> {
        let engine = self.engine.clone();
        let (started, start) = oneshot::channel();
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let task = self.spawn(async move {
            let opened = async {
                let plan = plan()?;
                yield_now().await;
                engine.execute(&plan).await
            };
            let result = match opened.await {
                Ok(query) => ResultStream::new(query),
                Err(error) => {
                    let _ = started.send(Err(error)); // Nobody waits: nobody is to be told.
                    return;
                }
            };
            let ResultStream { query, memory } = result;
            let QueryStream { columns, mut stream, memory: shared, batches_between } = query;
            let head = Head {
                columns,
                schema: stream.schema(),
                memory: Arc::clone(&memory),
                shared,
                batches_between,
            };
            if started.send(Ok(head)).is_err() {
                return;
            }
            while let Some(batch) = futures::StreamExt::next(&mut stream).await {
                let batch = batch.and_then(|batch| match memory.carry(batch_bytes(&batch)) {
                    Ok(()) => Ok(batch),
                    Err(error) => Err(DataFusionError::External(Box::new(error))),
                });
                let is_last = batch.is_err();
                if sender.send(batch).await.is_err() || is_last {
                    return;
                }
            }
        })?;
        let mut task = EndOnDrop(task);
        let head = match start.await {
            Ok(started) => started?,
            Err(_) => return Err(task.failure().await),
        };
        let Head { columns, schema, memory, shared, batches_between } = head;
        let stream = RecordBatchStreamAdapter::new(schema, Batches { batches, task: Some(task) });
        let query = QueryStream { columns, stream: Box::pin(stream), memory: shared, batches_between };
        Ok(ResultStream { query, memory })
    }

    /// The plan as EXPLAIN shows it; `analyze` runs it too and adds what each operator did.
    pub(super) async fn explain(
        &self,
        analyze: bool,
        plan: impl FnOnce() -> Result<Plan> + Send + 'static,
    ) -> Result<Vec<String>> {
        let engine = self.engine.clone();
        let (sender, answer) = oneshot::channel();
        let mut task = EndOnDrop(self.spawn(async move {
            let lines = async {
                let plan = plan()?;
                yield_now().await;
                if analyze { engine.analyze(&plan).await } else { engine.explain(&plan).await }
            };
            let lines = lines.await;
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

/// What is known of a result before its first batch.
struct Head {
    columns: Vec<OutputColumn>,
    schema: SchemaRef,
    memory: Arc<ResultMemory>,
    shared: QueryMemory,
    batches_between: usize,
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc as blocking;

    use arrow::array::{ArrayRef, TimestampMillisecondArray};
    use datafusion::physical_plan::SendableRecordBatchStream;
    use model::{
        DataType, DatabaseId, DatabaseInfo, DatabaseOptions, TableInfo, TableKind, TableSchema, TableUid,
        Version,
    };
    use query::ast::Statement;
    use query::plan::{Relations, Session, plan, relations_named};
    use query::source::{Relation, RelationKind, ScanRequest, Shard, TableListRequest};

    use super::*;

    /// Of one thread.
    fn queries() -> Queries {
        Queries::with_threads(&EngineSettings { parallelism: 1, memory_bytes: 1 << 20 }, 1).unwrap()
    }

    /// A shard that takes long to read through, and never waits for anything.
    #[derive(Debug)]
    struct Long {
        given: Arc<AtomicUsize>,
    }

    const BATCHES: usize = 100_000;

    impl Shard for Long {
        fn scan(&self, request: ScanRequest) -> Result<SendableRecordBatchStream> {
            self.given.fetch_add(1, Ordering::Relaxed);
            let ticks: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1]));
            let batch = RecordBatch::try_new(Arc::clone(&request.schema), vec![ticks]).unwrap();
            let given = Arc::clone(&self.given);
            let batches = (0..BATCHES).map(move |_| {
                given.fetch_add(1, Ordering::Relaxed);
                Ok(batch.clone())
            });
            Ok(Box::pin(RecordBatchStreamAdapter::new(request.schema, futures::stream::iter(batches))))
        }

        fn tables(&self, _request: TableListRequest) -> Result<Vec<Arc<TableInfo>>> {
            Ok(Vec::new())
        }
    }

    /// The plan of a query, of which every table is such a shard.
    fn plan_of(sql: &str, given: &Arc<AtomicUsize>) -> Result<Plan> {
        let Statement::Query(query) = query::parser::parse(sql)? else { panic!("not a query: {sql}") };
        let database = DatabaseInfo {
            id: DatabaseId(1),
            name: "d".into(),
            options: DatabaseOptions::default(),
            vgroups: vec![],
            create_time_ns: 0,
        };
        let schema = Arc::new(TableSchema::new(vec![("ts".into(), DataType::Timestamp)], vec![]));
        let table = TableInfo {
            uid: TableUid(1),
            name: "t".into(),
            kind: TableKind::Normal { schema },
            create_time_ns: 0,
            created_at: Version(1),
            ttl_days: 0,
            comment: None,
        };
        let mut relations = Relations::new();
        for name in relations_named(&query) {
            let relation = Relation {
                database: Arc::new(database.clone()),
                kind: RelationKind::Normal(Arc::new(table.clone())),
                shards: vec![Arc::new(Long { given: Arc::clone(given) })],
            };
            relations.insert(name, relation);
        }
        plan(&query, &relations, &Session::default())
    }

    /// On one thread, where a query that kept it would have read everything before the other is looked at.
    #[tokio::test]
    async fn a_short_query_gets_through_beside_a_long_one() {
        let queries = queries();
        let given = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&given);
        let long = queries.run(move || plan_of("SELECT COUNT(ts) FROM d.t", &seen)).await.unwrap();
        let short = queries.run(|| plan_of("SELECT 1", &Arc::default())).await.unwrap();
        assert_eq!(short.query.collect().await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
        assert!(given.load(Ordering::Relaxed) < BATCHES, "the long one has ended before");
        drop(long);
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
    async fn a_query_that_nobody_waits_for_ends_before_the_next_step_of_its_planning() {
        let queries = queries();
        let scans = Arc::new(AtomicUsize::new(0));
        let (planning, planned) = oneshot::channel();
        let (go_on, wait) = blocking::sync_channel(1);
        let seen = Arc::clone(&scans);
        let mut query = Box::pin(queries.run(move || {
            planning.send(()).unwrap();
            wait.recv().unwrap();
            plan_of("SELECT ts FROM d.t", &seen)
        }));
        tokio::select! {
            biased;
            _ = &mut query => panic!("it waits"),
            planned = planned => planned.unwrap(),
        }
        drop(query);
        go_on.send(()).unwrap();
        // On the one thread there is, whatever comes after it.
        let next = queries.run(|| plan_of("SELECT 1", &Arc::default())).await.unwrap();
        next.query.collect().await.unwrap();
        assert_eq!(scans.load(Ordering::Relaxed), 0, "it was run for nobody");
    }

    #[tokio::test]
    async fn a_query_that_panics_ends_in_an_error() {
        let queries = queries();
        let error = queries.run(|| panic!("in the plan")).await.unwrap_err();
        assert!(error.message().contains("in the plan"), "{error}");
        let error = queries.explain(false, || panic!("in the plan")).await.unwrap_err();
        assert!(error.message().contains("in the plan"), "{error}");
    }
}
