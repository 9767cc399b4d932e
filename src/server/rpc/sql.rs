//! Statements over the wire: rows as columnar frames, as they come.

use std::sync::Arc;
use std::time::Instant;

use arrow::compute::cast;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use model::{Clock as _, Code, Error, Result, Zone};
use proto::convert::precision_to_wire;
use proto::frame;
use proto::size::parts;
use proto::status::to_status;
use proto::v1;
use proto::v1::execute_response::Part;
use query::plan::OutputColumn;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use super::result_queue::{AnswerStream, Answers, result_queue};
use crate::server::clock::SystemClock;
use crate::server::engine::{Engine, MESSAGE_BYTES, Outcome, ResultStream, StatementContext};
use crate::server::sessions::Session;

/// How long after the server was told to stop a statement may go on; then its client is told. Less than what the server
/// gives its connections ([`crate::server::DRAIN`]), so that the word arrives.
const LATE_NS: i64 = 1_500_000_000;
/// Rows of one message at most.
const ROWS_PER_BATCH: usize = 65_536;

/// The `Sql` service.
#[derive(Debug)]
pub struct SqlService {
    /// What runs the statements.
    pub engine: Arc<Engine>,
    /// Turns true when the server stops.
    pub stop: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl v1::sql_server::Sql for SqlService {
    type ExecuteStream = AnswerStream;

    async fn execute(
        &self,
        request: Request<v1::ExecuteRequest>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        let request = request.into_inner();
        let cx = context(&self.engine, &request).map_err(|e| to_status(&e))?;
        let (answers, stream) =
            result_queue(Arc::clone(self.engine.clock()), self.engine.result_idle_timeout());
        let (engine, stop) = (Arc::clone(&self.engine), self.stop.clone());
        tokio::spawn(async move {
            let run = async {
                run(&engine, &session, &cx, &request.sql, &answers).await?;
                answers.taken().await
            };
            // A client that has gone (or pressed Ctrl-C) ends its statement, also one that has no rows to send yet.
            tokio::select! {
                outcome = run => {
                    if let Err(error) = outcome {
                        answers.fail(&error);
                    }
                }
                () = answers.closed() => {}
                () = is_late(stop, engine.clock()) => answers.fail(&stopping()),
            }
        });
        Ok(Response::new(stream))
    }

    async fn complete(
        &self,
        request: Request<v1::CompleteRequest>,
    ) -> Result<Response<v1::CompleteResponse>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        let names = self.engine.completions(&session, &request.into_inner().database);
        Ok(Response::new(v1::CompleteResponse { names }))
    }
}

/// Returns when the server stops and what is under way has had its time to end.
async fn is_late(mut stop: watch::Receiver<bool>, clock: &SystemClock) {
    // An error says that whoever could have stopped the server is gone: it stops.
    let _ = stop.wait_for(|stop| *stop).await;
    clock.sleep_until(clock.now_ns().saturating_add(LATE_NS)).await;
}

fn stopping() -> Error {
    Error::text(
        Code::ShuttingDown,
        "the server is stopping: a statement that was under way may or may not have been carried out",
    )
    .hint("connect again when it is back, and look before repeating what writes")
}

fn context(engine: &Engine, request: &v1::ExecuteRequest) -> Result<StatementContext> {
    let zone = match request.zone.as_str() {
        "" => Zone::UTC,
        name => Zone::parse(name).ok_or_else(|| {
            Error::with(Code::InvalidParameters, format!("zone={name}"))
                .hint("write UTC, an offset such as +08:00, or a name such as Asia/Shanghai")
        })?,
    };
    let database = (!request.database.is_empty()).then(|| request.database.clone());
    Ok(engine.context(database, zone))
}

#[expect(clippy::disallowed_methods, reason = "measures how long a statement took, decides nothing")]
async fn run(
    engine: &Engine,
    session: &Session,
    cx: &StatementContext,
    sql: &str,
    answers: &Answers,
) -> Result<()> {
    let started = Instant::now();
    let mut database = cx.database.clone().unwrap_or_default();
    let mut rows = 0;
    let mut affected_rows = None;
    let mut note = String::new();
    match engine.execute(session, cx, sql).await? {
        Outcome::Rows(result) => rows = send_rows(result, answers).await?,
        other => {
            answers.send(Part::Header(v1::ResultHeader::default())).await?;
            match other {
                Outcome::Affected(count) => affected_rows = Some(count),
                Outcome::Use(name) => (database, affected_rows) = (name, Some(0)),
                Outcome::Unchanged(why) => (note, affected_rows) = (why, Some(0)),
                _ => affected_rows = Some(0),
            }
        }
    }
    let elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    answers.send(Part::End(v1::ResultEnd { rows, affected_rows, elapsed_us, database, note })).await
}

/// Sends header and batches; answers how many rows there were.
async fn send_rows(result: ResultStream, answers: &Answers) -> Result<u64> {
    let ResultStream { mut query, memory } = result;
    answers.hold(&memory);
    let columns = query.columns.iter().map(column_to_wire).collect();
    answers.send(Part::Header(v1::ResultHeader { columns })).await?;
    let mut rows = 0;
    while let Some(batch) = query.next().await {
        let batch = batch?;
        for part in parts(batch.columns(), batch.num_rows(), ROWS_PER_BATCH, MESSAGE_BYTES) {
            let part = batch.slice(part.start, part.len());
            rows += part.num_rows() as u64;
            let frame = to_frame(&query.columns, &part)?;
            answers.send(Part::Batch(v1::ResultBatch { frame })).await?;
        }
    }
    memory.end()?;
    Ok(rows)
}

fn column_to_wire(column: &OutputColumn) -> v1::ResultColumn {
    v1::ResultColumn {
        name: column.name.clone(),
        r#type: u32::from(column.data_type.wire_id()),
        length: u32::from(column.data_type.length()),
        precision: precision_to_wire(column.precision),
    }
}

/// Rows in the Arrow types of their dialect types: dictionaries and views, which only the engine knows, end here.
fn to_frame(columns: &[OutputColumn], batch: &RecordBatch) -> Result<Bytes> {
    let arrays = batch.columns().iter().zip(columns).map(|(array, column)| {
        let wanted = column.data_type.arrow(column.precision);
        if *array.data_type() == wanted { Ok(Arc::clone(array)) } else { cast(array, &wanted) }
    });
    let arrays = arrays.collect::<Result<Vec<_>, _>>().map_err(Error::internal)?;
    let mut bytes = Vec::new();
    frame::encode(&arrays, &mut bytes).map_err(Error::internal)?;
    Ok(Bytes::from(bytes))
}
