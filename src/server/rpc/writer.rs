//! Columnar writes, and lines.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use model::{Clock as _, Code, Error, Result, TimeUnit};
use proto::convert::{column_to_wire, precision_to_wire, write_from_wire};
use proto::status::{to_detail, to_status};
use proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::server::engine::{Engine, StartedWrite};
use crate::server::sessions::Session;

/// Writes of one connection that are under way at once; more wait in the transport's window.
const WRITES_IN_FLIGHT: usize = 256;

/// The `Writer` service.
#[derive(Debug)]
pub struct WriterService(pub Arc<Engine>);

#[tonic::async_trait]
impl v1::writer_server::Writer for WriterService {
    async fn describe_target(
        &self,
        request: Request<v1::DescribeTargetRequest>,
    ) -> Result<Response<v1::DescribeTargetResponse>, Status> {
        let session = self.0.session(&request).map_err(|e| to_status(&e))?;
        let request = request.into_inner();
        let target = self
            .0
            .write_target(&session, &request.database, &request.table)
            .await
            .map_err(|e| to_status(&e))?;
        let times = target.times(self.0.clock().now_ns());
        Ok(Response::new(v1::DescribeTargetResponse {
            first_time: *times.start(),
            last_time: *times.end(),
            precision: precision_to_wire(target.database.options.precision),
            vgroups: target.database.vgroups.iter().map(|vgroup| vgroup.0).collect(),
            stable: target.stable.map_or(0, |uid| uid.0),
            schema_version: target.schema.version.0,
            columns: target.schema.columns.iter().map(column_to_wire).collect(),
            tags: target.schema.tags.iter().map(column_to_wire).collect(),
        }))
    }

    async fn write_lines(
        &self,
        request: Request<v1::WriteLinesRequest>,
    ) -> Result<Response<v1::WriteLinesResponse>, Status> {
        let session = self.0.session(&request).map_err(|e| to_status(&e))?;
        let v1::WriteLinesRequest { database, lines, unit } = request.into_inner();
        let unit = unit_from_wire(&unit).map_err(|e| to_status(&e))?;
        let written = self.0.write_lines(&session, &database, &lines, unit).await;
        let affected_rows = written.map_err(|e| to_status(&e))?;
        Ok(Response::new(v1::WriteLinesResponse { affected_rows }))
    }

    type WriteStream = ReceiverStream<Result<v1::WriteResponse, Status>>;

    async fn write(
        &self,
        request: Request<Streaming<v1::WriteRequest>>,
    ) -> Result<Response<Self::WriteStream>, Status> {
        let session = self.0.session(&request).map_err(|e| to_status(&e))?;
        let (answers, receiver) = mpsc::channel(WRITES_IN_FLIGHT);
        tokio::spawn(serve_writes(self.0.clone(), session, request.into_inner(), answers));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

fn unit_from_wire(unit: &str) -> Result<TimeUnit> {
    let mut letters = unit.chars();
    let letter = letters.next().filter(|_| letters.next().is_none());
    letter.and_then(TimeUnit::from_letter).ok_or_else(|| Error::with(Code::LinePrecision, unit))
}

/// Answers the writes of one stream until it ends. Each is answered by itself: one that is refused does not end the
/// others. Writes are handed to their shards in the order they came, their answers come as they are ready.
async fn serve_writes(
    engine: Arc<Engine>,
    session: Session,
    mut requests: Streaming<v1::WriteRequest>,
    answers: mpsc::Sender<Result<v1::WriteResponse, Status>>,
) {
    let mut in_flight = FuturesUnordered::new();
    let mut ended = false;
    loop {
        tokio::select! {
            // Taking a write and queueing it is one step: a later write cannot overtake it.
            request = requests.next(), if !ended && in_flight.len() < WRITES_IN_FLIGHT => match request {
                Some(Ok(request)) => {
                    let id = request.id;
                    let started = start(&engine, &session, request).await;
                    in_flight.push(async move {
                        match started {
                            Ok(write) => (id, write.finish().await),
                            Err(error) => (id, Err(error)),
                        }
                    });
                }
                Some(Err(status)) => {
                    let _ = answers.send(Err(status)).await;
                    return;
                }
                None if in_flight.is_empty() => return,
                None => ended = true,
            },
            Some((id, outcome)) = in_flight.next() => {
                let (affected_rows, error) = match outcome {
                    Ok(affected_rows) => (affected_rows, None),
                    Err(error) => (0, Some(to_detail(&error))),
                };
                if answers.send(Ok(v1::WriteResponse { id, affected_rows, error })).await.is_err() {
                    return;
                }
            }
            else => return,
        }
    }
}

async fn start(engine: &Engine, session: &Session, request: v1::WriteRequest) -> Result<StartedWrite> {
    let blocks = request.blocks.into_iter().map(write_from_wire).collect::<Result<Vec<_>>>()?;
    engine.start_write(session, &request.database, blocks).await
}
