//! A consume stream: one task takes the client's requests, one task a vgroup reads and pushes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{Clock as _, Code, ConsumerId, Epoch, Error, Result, TopicId, Version, VgroupId};
use proto::convert::precision_to_wire;
use proto::frame;
use proto::status::to_detail;
use proto::v1;
use proto::v1::consume_request::Action;
use proto::v1::consume_response::Event;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tonic::Streaming;
use vnode::subscribe::{
    Batch, BatchKind, OffsetReset, Range, Read, ReadOptions, SubscribeRequest, Subscription,
};

use super::pace::Pace;
use super::schemas::{Announced, SchemaNumbers};
use super::streams::{Answer, Closer, Place};
use crate::server::engine::Engine;
use crate::server::sessions::Session;

/// Credit that a client may pile up; what it says beyond that is not counted.
const CREDIT_MAX: usize = 1 << 16;

/// What the readers of one stream share.
#[derive(Debug)]
pub struct Opened {
    engine: Arc<Engine>,
    session: Session,
    consumer: ConsumerId,
    group: String,
    fetch_max_wait_ns: i64,
    options: ReadOptions,
    credit: Semaphore,
    schemas: Arc<SchemaNumbers>,
    answers: mpsc::Sender<Answer>,
}

impl Opened {
    /// As the client's first request says.
    pub fn new(
        engine: Arc<Engine>,
        session: Session,
        open: v1::ConsumeOpen,
        answers: mpsc::Sender<Answer>,
    ) -> Self {
        Self {
            engine,
            session,
            consumer: ConsumerId(open.consumer),
            group: open.group,
            fetch_max_wait_ns: i64::from(open.fetch_max_wait_ms) * 1_000_000,
            options: ReadOptions {
                min_poll_rows: u64::from(open.min_poll_rows.max(1)),
                batch_meta: open.batch_meta,
                exclude_replicated: open.exclude_replicated,
                replay: open.replay,
            },
            credit: Semaphore::new(0),
            schemas: Arc::default(),
            answers,
        }
    }

    /// What an error of a vgroup is about.
    fn about(&self, topic: TopicId, vgroup: VgroupId) -> String {
        about(&self.engine, self.consumer, topic, &self.group, vgroup)
    }

    /// Sends an event; an error says that the client is gone.
    async fn send(&self, event: Event) -> Result<()> {
        let sent = self.answers.send(Ok(v1::ConsumeResponse { event: Some(event) })).await;
        sent.map_err(|_| Error::of(Code::Terminated))
    }

    /// Waits until the stream must end although its client may want more, and answers why. Readers do not look for it
    /// while they wait for a client that does not read.
    async fn ended(&self, mut place: Place) -> Error {
        tokio::select! {
            () = place.replaced() => {
                let message = "consume stream ended: another one of this consumer has begun";
                Error::text(Code::Terminated, message).hint("open one stream a consumer")
            }
            () = self.session.closed() => {
                Error::text(Code::Terminated, "consume stream ended: its session was closed").hint("log in again")
            }
            gone = self.gone() => gone,
        }
    }

    /// Waits until the consumer has left, was removed or has run into its session timeout.
    async fn gone(&self) -> Error {
        let mnode = self.engine.mnode();
        let mut next = mnode.assignment(self.consumer);
        loop {
            next = match next {
                Ok(known) => mnode.wait_assignment(self.consumer, &known).await,
                Err(error) => return error,
            };
        }
    }
}

/// What an error of a consumer is about, for its text. Topics that it has not subscribed to are not named: it might not be
/// allowed to know of them.
pub fn about(engine: &Engine, id: ConsumerId, topic: TopicId, group: &str, vgroup: VgroupId) -> String {
    let assignment = engine.mnode().assignment(id).ok();
    let mut subscribed = assignment.iter().flat_map(|assignment| &assignment.topics);
    match subscribed.find(|assigned| assigned.topic.id == topic) {
        Some(assigned) => format!("topic={} group={group} vgroup={vgroup}", assigned.topic.name),
        None => format!("topic_id={topic} group={group} vgroup={vgroup}"),
    }
}

/// One client's stream.
#[derive(Debug)]
pub struct ConsumeStream {
    opened: Arc<Opened>,
    readers: HashMap<(u64, u32), JoinHandle<()>>,
}

impl Drop for ConsumeStream {
    fn drop(&mut self) {
        self.readers.values().for_each(JoinHandle::abort);
    }
}

impl ConsumeStream {
    /// Without readers yet.
    pub fn new(opened: Opened) -> Self {
        Self { opened: Arc::new(opened), readers: HashMap::new() }
    }

    /// Serves until the client is gone, the consumer has lost this stream or `stop` turns true.
    pub async fn run(
        mut self,
        requests: Streaming<v1::ConsumeRequest>,
        mut stop: watch::Receiver<bool>,
        place: Place,
        closer: Closer,
    ) {
        let opened = Arc::clone(&self.opened);
        tokio::select! {
            () = self.serve(requests) => {}
            error = opened.ended(place) => closer.close(&error),
            _ = stop.wait_for(|stop| *stop) => {}
            () = opened.answers.closed() => {}
        }
    }

    /// Takes requests until there are no more.
    async fn serve(&mut self, mut requests: Streaming<v1::ConsumeRequest>) {
        while let Ok(Some(request)) = requests.message().await {
            match request.action {
                Some(Action::Start(start)) => self.start(start),
                Some(Action::Stop(stop)) => self.stop(stop.topic, stop.vgroup),
                Some(Action::Credit(credit)) => {
                    let room = CREDIT_MAX.saturating_sub(self.opened.credit.available_permits());
                    let more = usize::try_from(credit.messages).unwrap_or(CREDIT_MAX);
                    self.opened.credit.add_permits(more.min(room));
                }
                Some(Action::Open(_)) | None => {}
            }
        }
    }

    fn stop(&mut self, topic: u64, vgroup: u32) {
        if let Some(reader) = self.readers.remove(&(topic, vgroup)) {
            reader.abort();
        }
    }

    fn start(&mut self, start: v1::ConsumeStart) {
        self.stop(start.topic, start.vgroup);
        let key = (start.topic, start.vgroup);
        let reader = Reader {
            opened: Arc::clone(&self.opened),
            announced: Announced::new(Arc::clone(&self.opened.schemas)),
            precision: 0,
            start,
            pace: Pace::default(),
        };
        self.readers.insert(key, tokio::spawn(reader.run()));
    }
}

/// What a client was told where there was nothing to give.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Told {
    range: Range,
    /// Only time was up.
    reading_on: bool,
    /// The topic's table is in no shard.
    no_table: bool,
}

/// Reads one vgroup for one stream.
struct Reader {
    opened: Arc<Opened>,
    announced: Announced,
    precision: u32,
    start: v1::ConsumeStart,
    /// Of replay.
    pace: Pace,
}

impl Reader {
    async fn run(mut self) {
        // Before it reads: when the topic is dropped, its name goes with it.
        let about = self.opened.about(TopicId(self.start.topic), VgroupId(self.start.vgroup));
        let Err(error) = self.read().await else { return };
        let error = error.about(about);
        let fault = v1::ConsumeFault {
            topic: self.start.topic,
            vgroup: self.start.vgroup,
            generation: self.start.generation,
            error: Some(to_detail(&error)),
        };
        // If the client is gone there is nobody to tell.
        let _ = self.opened.send(Event::Fault(fault)).await;
    }

    async fn open(&mut self) -> Result<Subscription> {
        self.require_permission()?;
        let engine = &self.opened.engine;
        let vnode = engine.vnodes().get(VgroupId(self.start.vgroup))?;
        self.precision = precision_to_wire(vnode.database().options.precision);
        let reset = match self.start.reset() {
            v1::ResetPolicy::Latest => OffsetReset::Latest,
            v1::ResetPolicy::Earliest => OffsetReset::Earliest,
            v1::ResetPolicy::None => OffsetReset::None,
        };
        let request = SubscribeRequest {
            topic: TopicId(self.start.topic),
            group: self.opened.group.clone(),
            consumer: self.opened.consumer,
            epoch: Epoch(self.start.epoch),
            position: self.start.position.map(Version),
            reset,
            options: self.opened.options,
        };
        vnode.subscribe(request).await
    }

    async fn read(&mut self) -> Result<()> {
        let mut subscription = self.open().await?;
        let opened = Arc::clone(&self.opened);
        let mut told = None;
        let mut changes = opened.engine.mnode().changes();
        loop {
            // Credit first: what is read is sent, nothing is read ahead of what the client can take.
            let credit = opened.credit.acquire().await.map_err(Error::internal)?;
            self.require_permission()?;
            let now_ns = opened.engine.clock().now_ns();
            match subscription.read(now_ns.saturating_add(opened.fetch_max_wait_ns))? {
                Read::Batch(batch) => {
                    told = None;
                    self.wait_until_due(&batch).await;
                    self.send_batch(*batch).await?;
                    // Spent once sent: a reader that is stopped before gives it back.
                    credit.forget();
                }
                Read::Timeout(range) => {
                    self.tell(Told { range, reading_on: true, no_table: false }, &mut told).await?
                }
                read @ (Read::CaughtUp(range) | Read::NoTable(range)) => {
                    drop(credit);
                    // A shard that never had the table says nothing of whether another has it.
                    let no_table = matches!(read, Read::NoTable(_))
                        && !opened.engine.has_table_of(TopicId(self.start.topic));
                    self.tell(Told { range, reading_on: false, no_table }, &mut told).await?;
                    tokio::select! {
                        () = subscription.ready() => {}
                        // The right to read may have been taken.
                        changed = changes.changed() => changed.map_err(|_| Error::of(Code::ShuttingDown))?,
                    }
                }
            }
        }
    }

    /// GRANT and REVOKE take effect while consumers run: the client starts anew once a heartbeat says that it may.
    fn require_permission(&self) -> Result<()> {
        let (opened, topic) = (&self.opened, TopicId(self.start.topic));
        opened.engine.mnode().check_consume(&opened.session.user, opened.consumer, topic)
    }

    /// Tells the client once how far this has read without anything to give.
    async fn tell(&self, now: Told, told: &mut Option<Told>) -> Result<()> {
        if *told == Some(now) {
            return Ok(());
        }
        *told = Some(now);
        let Told { range, reading_on, no_table } = now;
        let caught_up = v1::CaughtUp {
            topic: self.start.topic,
            vgroup: self.start.vgroup,
            generation: self.start.generation,
            position: range.position.0,
            log_first: range.first.0,
            log_end: range.end.0,
            reading_on,
            no_table,
        };
        self.opened.send(Event::CaughtUp(caught_up)).await
    }

    /// Replay: holds a message back until as much time has passed since the last one as lay between their writes.
    async fn wait_until_due(&mut self, batch: &Batch) {
        if !self.opened.options.replay {
            return;
        }
        let clock = self.opened.engine.clock();
        let due_ns = self.pace.due_ns(clock.now_ns(), batch.written_ns);
        clock.sleep_until(due_ns).await;
    }

    async fn send_batch(&mut self, batch: Batch) -> Result<()> {
        let mut blocks = Vec::with_capacity(batch.blocks.len());
        for block in &batch.blocks {
            let (schema, news) = self.announced.number(&block.schema, self.precision);
            if let Some(news) = news {
                self.opened.send(Event::Schema(news)).await?;
            }
            let mut bytes = Vec::new();
            frame::encode(&block.columns, &mut bytes).map_err(Error::internal)?;
            blocks.push(v1::RowBlock {
                table: block.table.as_deref().unwrap_or_default().to_owned(),
                schema,
                rows: u32::try_from(block.rows()).unwrap_or(u32::MAX),
                frame: Bytes::from(bytes),
            });
        }
        let kind = match batch.kind {
            BatchKind::Data => v1::MessageKind::Data,
            BatchKind::TableMeta => v1::MessageKind::TableMeta,
            BatchKind::Metadata => v1::MessageKind::Metadata,
        };
        let (skipped_from, skipped_to) = batch.skipped.unwrap_or_default();
        let message = v1::Message {
            topic: self.start.topic,
            vgroup: self.start.vgroup,
            generation: self.start.generation,
            kind: kind.into(),
            begin: batch.begin.0,
            next: batch.next.0,
            blocks,
            json: batch.json,
            log_first: batch.range.first.0,
            log_end: batch.range.end.0,
            skipped_from: skipped_from.0,
            skipped_to: skipped_to.0,
            written_ns: batch.written_ns.max(0).cast_unsigned(),
            record_versions: batch.records.iter().map(|record| record.version.0).collect(),
            record_rows: batch
                .records
                .iter()
                .map(|record| u32::try_from(record.rows).unwrap_or(u32::MAX))
                .collect(),
        };
        self.opened.send(Event::Message(message)).await
    }
}
