//! Statements over the wire: rows as columnar frames, as they come.

use std::sync::Arc;
use std::time::Instant;

use arrow::compute::cast;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use model::{Code, Error, Result, Zone};
use proto::convert::precision_to_wire;
use proto::frame;
use proto::size::parts;
use proto::status::to_status;
use proto::v1;
use query::engine::QueryStream;
use query::plan::OutputColumn;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::server::engine::{Engine, Outcome, StatementContext};
use crate::server::sessions::Session;

/// Batches of one statement that wait for a slow client; the query waits with them.
const BATCHES_IN_FLIGHT: usize = 4;
/// Rows of one message at most: what a client has to hold at once stays small.
const ROWS_PER_BATCH: usize = 65_536;
/// And their bytes: with those in flight, what a slow client makes the server hold; far below what a message may have.
const BYTES_PER_BATCH: usize = 2 << 20;

type Answers = mpsc::Sender<Result<v1::ExecuteResponse, Status>>;

/// The `Sql` service.
#[derive(Debug)]
pub struct SqlService(pub Arc<Engine>);

#[tonic::async_trait]
impl v1::sql_server::Sql for SqlService {
    type ExecuteStream = ReceiverStream<Result<v1::ExecuteResponse, Status>>;

    async fn execute(
        &self,
        request: Request<v1::ExecuteRequest>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        let session = self.0.session(&request).map_err(|e| to_status(&e))?;
        let request = request.into_inner();
        let cx = context(&self.0, &request).map_err(|e| to_status(&e))?;
        let (answers, receiver) = mpsc::channel(BATCHES_IN_FLIGHT);
        let engine = Arc::clone(&self.0);
        tokio::spawn(async move {
            let run = run(&engine, &session, &cx, &request.sql, &answers);
            // A client that has gone (or pressed Ctrl-C) ends its statement, also one that has no rows to send yet.
            tokio::select! {
                outcome = run => {
                    if let Err(error) = outcome {
                        let _ = answers.send(Err(to_status(&error))).await;
                    }
                }
                () = answers.closed() => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn complete(
        &self,
        request: Request<v1::CompleteRequest>,
    ) -> Result<Response<v1::CompleteResponse>, Status> {
        let session = self.0.session(&request).map_err(|e| to_status(&e))?;
        let names = self.0.completions(&session, &request.into_inner().database);
        Ok(Response::new(v1::CompleteResponse { names }))
    }
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
    match engine.execute(session, cx, sql).await? {
        Outcome::Rows(stream) => rows = send_rows(stream, answers).await?,
        other => {
            send(answers, v1::execute_response::Part::Header(v1::ResultHeader::default())).await?;
            match other {
                Outcome::Affected(count) => affected_rows = Some(count),
                Outcome::Use(name) => (database, affected_rows) = (name, Some(0)),
                _ => affected_rows = Some(0),
            }
        }
    }
    let elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    send(
        answers,
        v1::execute_response::Part::End(v1::ResultEnd { rows, affected_rows, elapsed_us, database }),
    )
    .await
}

async fn send(answers: &Answers, part: v1::execute_response::Part) -> Result<()> {
    let gone = |_| Error::of(Code::Terminated);
    answers.send(Ok(v1::ExecuteResponse { part: Some(part) })).await.map_err(gone)
}

/// Sends header and batches; answers how many rows there were.
async fn send_rows(mut stream: QueryStream, answers: &Answers) -> Result<u64> {
    let columns = stream.columns.iter().map(column_to_wire).collect();
    send(answers, v1::execute_response::Part::Header(v1::ResultHeader { columns })).await?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        for part in parts(batch.columns(), batch.num_rows(), ROWS_PER_BATCH, BYTES_PER_BATCH) {
            let part = batch.slice(part.start, part.len());
            rows += part.num_rows() as u64;
            let frame = to_frame(&stream.columns, &part)?;
            send(answers, v1::execute_response::Part::Batch(v1::ResultBatch { frame })).await?;
        }
    }
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
