//! The shells of consumer and writer against a server that does little more than answer: what breaks and mends is the
//! connection, not the data.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests stand outside of them")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int32Array};
use client::{
    AutoOffsetReset, Code, ConnectOptions, Connection, Consumer, ConsumerConfig, ConsumerState, TimeUnit,
    Value,
};
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use proto::v1;
use proto::v1::consume_request::Action;
use proto::v1::consume_response::Event;
use proto::v1::session_server::{Session, SessionServer};
use proto::v1::subscription_server::{Subscription, SubscriptionServer};
use proto::v1::writer_server::{Writer, WriterServer};
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status, Streaming};

type Answers<T> = BoxStream<'static, Result<T, Status>>;

const VGROUP: u32 = 2;
const TOPIC: u64 = 7;

/// What a server's disk would hold: survives a restart.
#[derive(Default)]
struct Disk {
    /// Version n holds the value n.
    versions: u64,
    committed: Option<u64>,
    members: Vec<u64>,
    subscribes: usize,
    logins: usize,
    rows: BTreeMap<(String, u32), i32>,
    /// Writes to lose: carried out, not answered, the connection broken.
    lose: usize,
    /// Writes to refuse with a code that says "again".
    refuse: usize,
}

#[derive(Clone)]
struct Fake {
    disk: Arc<Mutex<Disk>>,
    /// Of this run of the server: an older one is unknown.
    token: String,
}

fn refusal(code: Code) -> Status {
    proto::status::to_status(&client::Error::of(code))
}

impl Fake {
    fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let given = request.metadata().get("authorization").and_then(|token| token.to_str().ok());
        if given == Some(&format!("Bearer {}", self.token)) {
            Ok(())
        } else {
            Err(refusal(Code::AuthFailure))
        }
    }
}

#[tonic::async_trait]
impl Session for Fake {
    async fn login(&self, request: Request<v1::LoginRequest>) -> Result<Response<v1::LoginResponse>, Status> {
        self.disk.lock().logins += 1;
        match request.into_inner().password.as_str() {
            "taosdata" => {
                Ok(Response::new(v1::LoginResponse { token: self.token.clone(), ..Default::default() }))
            }
            _ => Err(refusal(Code::AuthFailure)),
        }
    }

    async fn ping(&self, request: Request<v1::PingRequest>) -> Result<Response<v1::PingResponse>, Status> {
        self.check(&request)?;
        Ok(Response::new(v1::PingResponse::default()))
    }
}

#[tonic::async_trait]
impl Subscription for Fake {
    async fn subscribe(
        &self,
        r: Request<v1::SubscribeRequest>,
    ) -> Result<Response<v1::SubscribeResponse>, Status> {
        self.check(&r)?;
        let request = r.into_inner();
        let mut disk = self.disk.lock();
        disk.subscribes += 1;
        if request.topics.iter().any(|topic| topic != "t") {
            return Err(refusal(Code::TopicNotExist));
        }
        disk.members.retain(|member| *member != request.consumer);
        if !request.topics.is_empty() {
            disk.members.push(request.consumer);
        }
        Ok(Response::new(v1::SubscribeResponse {}))
    }

    async fn heartbeat(
        &self,
        r: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        self.check(&r)?;
        match self.disk.lock().members.contains(&r.get_ref().consumer) {
            true => Ok(Response::new(v1::HeartbeatResponse::default())),
            false => Err(refusal(Code::ConsumerNotExist)),
        }
    }

    type WatchAssignmentStream = Answers<v1::Assignment>;

    async fn watch_assignment(
        &self,
        r: Request<v1::WatchAssignmentRequest>,
    ) -> Result<Response<Self::WatchAssignmentStream>, Status> {
        self.check(&r)?;
        let (disk, consumer) = (Arc::clone(&self.disk), r.into_inner().consumer);
        let topic = v1::AssignedTopic {
            id: TOPIC,
            name: "t".into(),
            database: "d".into(),
            vgroups: vec![v1::AssignedVgroup { vgroup: VGROUP, epoch: 1, revoked: false }],
            ..Default::default()
        };
        let first = v1::Assignment { consumer_epoch: 1, ready: true, topics: vec![topic] };
        // The assignment, then the end of the membership.
        let gone = async move {
            while disk.lock().members.contains(&consumer) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(refusal(Code::ConsumerNotExist))
        };
        Ok(Response::new(futures::stream::iter([Ok(first)]).chain(futures::stream::once(gone)).boxed()))
    }

    type ConsumeStream = Answers<v1::ConsumeResponse>;

    async fn consume(
        &self,
        r: Request<Streaming<v1::ConsumeRequest>>,
    ) -> Result<Response<Self::ConsumeStream>, Status> {
        self.check(&r)?;
        let disk = Arc::clone(&self.disk);
        let mut requests = r.into_inner();
        let (mut send, answers) = futures::channel::mpsc::channel(1);
        tokio::spawn(async move {
            let schema = v1::StreamSchema {
                id: 1,
                columns: vec![v1::ResultColumn { name: "v".into(), r#type: 4, length: 4, precision: 0 }],
            };
            let mut announced = false;
            let (mut credit, mut reading) = (0_u32, None::<(u64, u64)>);
            loop {
                let end = disk.lock().versions + 1;
                if let Some((generation, at)) = reading.filter(|(_, at)| *at < end && credit > 0) {
                    if !std::mem::replace(&mut announced, true) {
                        let _ = send.send(Ok(response(Event::Schema(schema.clone())))).await;
                    }
                    credit -= 1;
                    reading = Some((generation, at + 1));
                    if send.send(Ok(response(message(generation, at, end)))).await.is_err() {
                        return;
                    }
                    continue;
                }
                let request = tokio::time::timeout(Duration::from_millis(5), requests.message()).await;
                match request {
                    Err(_) => {}
                    Ok(Ok(Some(v1::ConsumeRequest { action: Some(action) }))) => match action {
                        Action::Credit(more) => credit += more.messages,
                        Action::Start(start) => {
                            let from = start.position.or(disk.lock().committed).unwrap_or(1);
                            reading = Some((start.generation, from));
                        }
                        Action::Stop(_) => reading = None,
                        Action::Open(_) => {}
                    },
                    Ok(_) => return,
                }
            }
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn commit(&self, r: Request<v1::CommitRequest>) -> Result<Response<v1::CommitResponse>, Status> {
        self.check(&r)?;
        let offsets = r.into_inner().offsets;
        let results = offsets.iter().map(|_| v1::CommitResult { error: None }).collect();
        for offset in offsets {
            self.disk.lock().committed = Some(offset.offset);
        }
        Ok(Response::new(v1::CommitResponse { results }))
    }

    async fn release(&self, r: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseResponse>, Status> {
        self.check(&r)?;
        Ok(Response::new(v1::ReleaseResponse {}))
    }

    async fn offsets(&self, r: Request<v1::OffsetsRequest>) -> Result<Response<v1::OffsetsResponse>, Status> {
        self.check(&r)?;
        let disk = self.disk.lock();
        let offsets = v1::Offsets { committed: disk.committed, log_first: 1, log_end: disk.versions + 1 };
        Ok(Response::new(v1::OffsetsResponse {
            offsets: r.into_inner().of.iter().map(|_| offsets).collect(),
        }))
    }
}

fn response(event: Event) -> v1::ConsumeResponse {
    v1::ConsumeResponse { event: Some(event) }
}

fn message(generation: u64, version: u64, end: u64) -> Event {
    let values: ArrayRef = Arc::new(Int32Array::from(vec![i32::try_from(version).unwrap()]));
    let mut frame = Vec::new();
    proto::frame::encode(&[values], &mut frame).unwrap();
    Event::Message(v1::Message {
        topic: TOPIC,
        vgroup: VGROUP,
        generation,
        begin: version,
        next: version + 1,
        blocks: vec![v1::RowBlock { table: String::new(), schema: 1, rows: 1, frame: frame.into() }],
        log_first: 1,
        log_end: end,
        record_versions: vec![version],
        record_rows: vec![1],
        ..Default::default()
    })
}

#[tonic::async_trait]
impl Writer for Fake {
    async fn write_lines(
        &self,
        r: Request<v1::WriteLinesRequest>,
    ) -> Result<Response<v1::WriteLinesResponse>, Status> {
        self.check(&r)?;
        let v1::WriteLinesRequest { database, lines, unit } = r.into_inner();
        if (&*database, &*unit) != ("d", "s") {
            return Err(refusal(Code::LinePrecision));
        }
        Ok(Response::new(v1::WriteLinesResponse { affected_rows: lines.lines().count() as u64 }))
    }

    async fn describe_target(
        &self,
        r: Request<v1::DescribeTargetRequest>,
    ) -> Result<Response<v1::DescribeTargetResponse>, Status> {
        self.check(&r)?;
        let column = |id, name: &str, r#type| v1::ColumnDef {
            id,
            name: name.into(),
            r#type,
            length: 8,
            is_key: false,
        };
        Ok(Response::new(v1::DescribeTargetResponse {
            first_time: i64::MIN,
            last_time: i64::MAX,
            precision: 0,
            vgroups: vec![2, 3],
            stable: 9,
            schema_version: 1,
            columns: vec![column(1, "ts", 9), column(2, "v", 4)],
            tags: vec![],
        }))
    }

    type WriteStream = Answers<v1::WriteResponse>;

    async fn write(
        &self,
        r: Request<Streaming<v1::WriteRequest>>,
    ) -> Result<Response<Self::WriteStream>, Status> {
        self.check(&r)?;
        let disk = Arc::clone(&self.disk);
        let answers = r.into_inner().map(move |request| {
            let request = request?;
            let mut disk = disk.lock();
            if disk.refuse > 0 {
                disk.refuse -= 1;
                let error = Some(proto::status::to_detail(&client::Error::of(Code::Overloaded)));
                return Ok(v1::WriteResponse { id: request.id, affected_rows: 0, error });
            }
            let mut affected_rows = 0;
            for block in request.blocks {
                let (vgroup, block) = proto::convert::write_from_wire(block).unwrap();
                let values = arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Int32Type>(
                    &block.columns[1].1,
                );
                for run in &block.runs {
                    let last = run.end as usize - 1;
                    disk.rows.insert((run.table.clone(), vgroup.0), values.value(last));
                }
                affected_rows += block.rows() as u64;
            }
            if disk.lose > 0 {
                disk.lose -= 1;
                return Err(Status::unavailable("broken"));
            }
            Ok(v1::WriteResponse { id: request.id, affected_rows, error: None })
        });
        Ok(Response::new(answers.boxed()))
    }
}

/// A running server; aborting it breaks its connections.
struct Run {
    address: SocketAddr,
    task: JoinHandle<()>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Run {
    /// In a runtime of its own, so that killing it closes its sockets as killing a process does.
    async fn start(disk: &Arc<Mutex<Disk>>, address: SocketAddr, token: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fake = Fake { disk: Arc::clone(disk), token: token.to_owned() };
        // The killed one may take a moment to let go of the address.
        let listener = loop {
            match std::net::TcpListener::bind(address) {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let task = runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = futures::stream::unfold(listener, |listener| async {
                let accepted = listener.accept().await.map(|(socket, _)| socket);
                Some((accepted, listener))
            });
            tonic::transport::Server::builder()
                .add_service(SessionServer::new(fake.clone()))
                .add_service(SubscriptionServer::new(fake.clone()))
                .add_service(WriterServer::new(fake))
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        Self { address, task, runtime: Some(runtime) }
    }

    fn kill(mut self) -> SocketAddr {
        self.task.abort();
        self.runtime.take().unwrap().shutdown_background();
        self.address
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const PATIENCE: Duration = Duration::from_secs(10);

fn options(run: &Run) -> ConnectOptions {
    ConnectOptions { host: run.address.to_string(), ..ConnectOptions::default() }
}

async fn consumer(run: &Run) -> Consumer {
    let mut config = ConsumerConfig::new("g");
    config.connect = options(run);
    config.auto_offset_reset = AutoOffsetReset::Earliest;
    let consumer = Consumer::new(config).await.unwrap();
    consumer.subscribe(["t"]).await.unwrap();
    consumer
}

async fn next(consumer: &Consumer) -> i32 {
    let message = consumer.poll(PATIENCE).await.unwrap().expect("a message within ten seconds");
    message.rows().next().unwrap().get(0).unwrap()
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_repeated() {
    let disk = Arc::<Mutex<Disk>>::default();
    let run = Run::start(&disk, ANY, "one").await;
    let wrong = ConnectOptions { password: "x".into(), ..options(&run) };
    assert_eq!(Connection::connect(wrong).await.unwrap_err().code(), Code::AuthFailure);
    assert_eq!(disk.lock().logins, 1);
}

#[tokio::test]
async fn lines_go_to_the_current_database_with_their_unit() {
    let disk = Arc::<Mutex<Disk>>::default();
    let run = Run::start(&disk, ANY, "one").await;
    let in_d = ConnectOptions { database: "d".into(), ..options(&run) };
    let connection = Connection::connect(in_d).await.unwrap();
    assert_eq!(connection.write_lines("m x=1\nm x=2", TimeUnit::Second).await.unwrap(), 2);
    let error = connection.write_lines("m x=1", TimeUnit::Hour).await.unwrap_err();
    assert_eq!(error.code(), Code::LinePrecision);
}

#[tokio::test]
async fn messages_come_are_committed_and_the_group_is_left() {
    let disk = Arc::<Mutex<Disk>>::default();
    disk.lock().versions = 40;
    let run = Run::start(&disk, ANY, "one").await;
    let consumer = consumer(&run).await;
    assert_eq!(consumer.subscription(), ["t"]);
    for expected in 1..=40 {
        assert_eq!(next(&consumer).await, expected, "more than are fetched ahead, in order");
    }
    assert!(consumer.poll(Duration::from_millis(20)).await.unwrap().is_none());

    // A row that is written while a poll waits.
    let (message, ()) = tokio::join!(consumer.poll(PATIENCE), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        disk.lock().versions = 41;
    });
    let message = message.unwrap().unwrap();
    assert_eq!((message.begin(), message.next(), message.topic(), message.database()), (41, 42, "t", "d"));
    assert_eq!(consumer.committed("t", VGROUP).await.unwrap_err().code(), Code::NoCommitted);
    consumer.commit_sync(&message).await.unwrap();
    assert_eq!(consumer.committed("t", VGROUP).await.unwrap(), 42);
    let at = consumer.assignment("t").await.unwrap()[0];
    assert_eq!((at.vgroup, at.current, at.begin, at.end), (VGROUP, 41, 1, 42));

    consumer.seek("t", VGROUP, 7).unwrap();
    assert_eq!(next(&consumer).await, 7);
    consumer.close().await.unwrap();
    assert!(disk.lock().members.is_empty());
    assert_eq!(disk.lock().committed, Some(8), "close commits what was handed out");
    assert_eq!(consumer.poll(PATIENCE).await.unwrap_err().code(), Code::ConsumerClosed);
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn a_refused_subscribe_leaves_the_earlier_one_running() {
    let disk = Arc::<Mutex<Disk>>::default();
    disk.lock().versions = 1;
    let run = Run::start(&disk, ANY, "one").await;
    let consumer = consumer(&run).await;
    assert_eq!(consumer.subscribe(["t", "zz"]).await.unwrap_err().code(), Code::TopicNotExist);
    assert_eq!(next(&consumer).await, 1);
    consumer.subscribe(["t"]).await.unwrap();
    consumer.unsubscribe().await.unwrap();
    consumer.unsubscribe().await.unwrap();
    assert!(consumer.poll(Duration::ZERO).await.unwrap().is_none());
    disk.lock().versions = 2;
    consumer.subscribe(["t"]).await.unwrap();
    assert_eq!(next(&consumer).await, 2, "from the committed offset");
}

#[tokio::test]
async fn a_consumer_survives_its_server() {
    let disk = Arc::<Mutex<Disk>>::default();
    disk.lock().versions = 3;
    let run = Run::start(&disk, ANY, "one").await;
    let consumer = consumer(&run).await;
    for expected in 1..=3 {
        assert_eq!(next(&consumer).await, expected);
    }
    let address = run.kill();
    assert!(consumer.poll(Duration::from_millis(100)).await.unwrap().is_none(), "no error, nothing to read");
    disk.lock().versions = 5;
    let _run = Run::start(&disk, address, "two").await;
    assert_eq!(next(&consumer).await, 4, "from its position, nothing was committed");
    assert_eq!(next(&consumer).await, 5);
    assert!(disk.lock().logins >= 2 && disk.lock().subscribes >= 2, "logged in and subscribed again");
}

#[tokio::test]
async fn a_removed_consumer_subscribes_again_by_hand() {
    let disk = Arc::<Mutex<Disk>>::default();
    disk.lock().versions = 1;
    let run = Run::start(&disk, ANY, "one").await;
    let consumer = consumer(&run).await;
    assert_eq!(next(&consumer).await, 1);
    disk.lock().members.clear();
    let gone = consumer.poll(PATIENCE).await.unwrap_err();
    assert_eq!((gone.code(), consumer.state()), (Code::ConsumerNotExist, ConsumerState::Closed));
    consumer.subscribe(["t"]).await.unwrap();
    assert_eq!(next(&consumer).await, 1, "nothing was committed");
}

#[tokio::test]
async fn without_reconnect_the_error_ends_the_consumer() {
    let disk = Arc::<Mutex<Disk>>::default();
    let run = Run::start(&disk, ANY, "one").await;
    let config = ConsumerConfig { reconnect: false, connect: options(&run), ..ConsumerConfig::new("g") };
    let consumer = Consumer::new(config).await.unwrap();
    consumer.subscribe(["t"]).await.unwrap();
    run.kill();
    let error = consumer.poll(PATIENCE).await.unwrap_err();
    assert_eq!((error.code(), consumer.state()), (Code::Unreachable, ConsumerState::Closed));
}

#[tokio::test]
async fn lost_and_refused_writes_go_again() {
    let disk = Arc::<Mutex<Disk>>::default();
    let run = Run::start(&disk, ANY, "one").await;
    let connection = Connection::connect(options(&run)).await.unwrap();
    let writer = connection.writer("d", "st").await.unwrap();
    (disk.lock().lose, disk.lock().refuse) = (1, 1);
    for value in 1..=100 {
        let mut batch = writer.batch().unwrap();
        for table in ["a", "b", "c"] {
            let table = batch.table(table).unwrap();
            batch.push(table, &[Value::Timestamp(1), Value::Int(value)]).unwrap();
        }
        writer.write(batch).await.unwrap();
    }
    assert_eq!(tokio::time::timeout(PATIENCE, writer.flush()).await.unwrap().unwrap(), 300);
    assert_eq!(
        disk.lock().rows.values().copied().collect::<Vec<_>>(),
        [100; 3],
        "the last given is what stays"
    );

    let address = run.kill();
    let mut batch = writer.batch().unwrap();
    let table = batch.table("a").unwrap();
    batch.push(table, &[Value::Timestamp(1), Value::Int(-1)]).unwrap();
    writer.write(batch).await.unwrap();
    let _run = Run::start(&disk, address, "two").await;
    assert_eq!(tokio::time::timeout(PATIENCE, writer.flush()).await.unwrap().unwrap(), 1);
}
