//! Messages of the consume stream to the state's events, and requests back.

use std::collections::HashMap;

use model::{Code, Error, Result};
use proto::v1;
use proto::v1::consume_request::Action;
use proto::v1::consume_response::Event as Wire;

use super::config::{AutoOffsetReset, ConsumerConfig};
use super::message::{Block, MessageKind, RecordRun, Skipped, offset};
use super::offsets::Commit;
use super::state::{Event, Key, LogRange, Received, Request};
use crate::decode::Layout;

/// One decoded event and whose it is.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) key: Key,
    pub(super) generation: u64,
    pub(super) event: Event,
}

/// Reads a consume stream; knows the schemas that it has announced.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    schemas: HashMap<u32, Layout>,
}

impl Decoder {
    /// What a response says; `None` where it only announced a schema.
    pub(super) fn decode(&mut self, response: v1::ConsumeResponse) -> Result<Option<Incoming>> {
        let event = response.event.ok_or_else(|| Error::with(Code::InvalidMessage, "an empty event"))?;
        Ok(Some(match event {
            Wire::Schema(schema) => {
                self.schemas.insert(schema.id, Layout::from_wire(schema.columns)?);
                return Ok(None);
            }
            Wire::Message(message) => Incoming {
                key: Key { topic: message.topic, vgroup: message.vgroup },
                generation: message.generation,
                // A message that cannot be read ends its vgroup's messages, not the others'.
                event: self
                    .message(message)
                    .map_or_else(Event::Fault, |message| Event::Message(Box::new(message))),
            },
            Wire::CaughtUp(at) => Incoming {
                key: Key { topic: at.topic, vgroup: at.vgroup },
                generation: at.generation,
                event: Event::CaughtUp {
                    position: at.position,
                    log: LogRange { first: at.log_first, end: at.log_end },
                    reading_on: at.reading_on,
                    no_table: at.no_table,
                },
            },
            Wire::Fault(fault) => Incoming {
                key: Key { topic: fault.topic, vgroup: fault.vgroup },
                generation: fault.generation,
                event: Event::Fault(match fault.error {
                    Some(detail) => proto::status::from_detail(detail),
                    None => Error::with(Code::InvalidMessage, "a fault without an error"),
                }),
            },
        }))
    }

    fn message(&self, message: v1::Message) -> Result<Received> {
        let kind = match message.kind() {
            v1::MessageKind::Data => MessageKind::Data,
            v1::MessageKind::TableMeta => MessageKind::TableMeta,
            v1::MessageKind::Metadata => MessageKind::Metadata,
        };
        let block = |block: v1::RowBlock| {
            let layout = self.schemas.get(&block.schema).ok_or_else(|| {
                Error::with(Code::InvalidMessage, format!("schema={} was not announced", block.schema))
            })?;
            let batch = layout.batch(&block.frame)?;
            let table = (!block.table.is_empty()).then_some(block.table);
            Ok(Block { table, layout: layout.clone(), batch })
        };
        let (from, to) = (offset(message.skipped_from), offset(message.skipped_to));
        let blocks: Vec<Block> = message.blocks.into_iter().map(block).collect::<Result<_>>()?;
        let records = records(&message.record_versions, &message.record_rows, &blocks)?;
        Ok(Received {
            begin: message.begin,
            next: message.next,
            kind,
            blocks,
            json: (!message.json.is_empty()).then_some(message.json),
            skipped: (from < to).then_some(Skipped { from, to }),
            log: LogRange { first: message.log_first, end: message.log_end },
            written_ns: i64::try_from(message.written_ns).unwrap_or(i64::MAX),
            records,
        })
    }
}

/// Which record each row is from.
fn records(versions: &[u64], rows: &[u32], blocks: &[Block]) -> Result<Vec<RecordRun>> {
    let run = |(&version, &rows): (&u64, &u32)| RecordRun { version, rows: rows as usize };
    let records: Vec<_> = versions.iter().zip(rows).map(run).collect();
    let (told, there): (usize, usize) =
        (records.iter().map(|run| run.rows).sum(), blocks.iter().map(|block| block.batch.num_rows()).sum());
    if versions.len() != rows.len() || told != there {
        let text = format!("records={} rows={told} of the message={there}", versions.len());
        return Err(Error::with(Code::InvalidMessage, text));
    }
    Ok(records)
}

fn request(action: Action) -> v1::ConsumeRequest {
    v1::ConsumeRequest { action: Some(action) }
}

/// The request for a whole set of topics, from `host`.
pub(super) fn subscription(
    consumer: u64,
    config: &ConsumerConfig,
    topics: Vec<String>,
    host: String,
) -> v1::SubscribeRequest {
    v1::SubscribeRequest {
        consumer,
        group: config.group.clone(),
        client_id: config.client_id.clone(),
        topics,
        parameters: Some(config.parameters()),
        host,
    }
}

/// The request that stores offsets.
pub(super) fn commits(consumer: u64, config: &ConsumerConfig, commits: &[Commit]) -> v1::CommitRequest {
    v1::CommitRequest {
        consumer,
        group: config.group.clone(),
        offsets: commits.iter().map(Commit::to_wire).collect(),
        keep: config.wal_marker,
    }
}

/// The stream's first request.
pub(super) fn open(consumer: u64, config: &ConsumerConfig) -> v1::ConsumeRequest {
    request(Action::Open(v1::ConsumeOpen {
        consumer,
        group: config.group.clone(),
        min_poll_rows: config.min_poll_rows,
        fetch_max_wait_ms: config.fetch_max_wait_ms,
        batch_meta: config.batch_meta,
        exclude_replicated: config.exclude_replicated,
        replay: config.enable_replay,
    }))
}

/// A request of the state's.
pub(super) fn to_wire(what: Request, reset: AutoOffsetReset) -> v1::ConsumeRequest {
    request(match what {
        Request::Start { key, epoch, generation, position } => Action::Start(v1::ConsumeStart {
            topic: key.topic,
            vgroup: key.vgroup,
            epoch,
            generation,
            position,
            reset: reset.to_wire().into(),
        }),
        Request::Stop(key) => Action::Stop(v1::ConsumeStop { topic: key.topic, vgroup: key.vgroup }),
        Request::Credit(messages) => Action::Credit(v1::ConsumeCredit { messages }),
    })
}
