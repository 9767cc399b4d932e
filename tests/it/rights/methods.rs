//! Methods by everybody, without a client library; each method of the contract has its check here.

use std::collections::BTreeSet;
use std::future::Future;

use client::Code;
use proto::status::{from_detail, from_status};
use proto::v1;
use proto::v1::consume_request::Action;
use proto::v1::consume_response::Event;
use proto::v1::session_client::SessionClient;
use proto::v1::sql_client::SqlClient;
use proto::v1::subscription_client::SubscriptionClient;
use proto::v1::writer_client::WriterClient;
use tokio_stream::{StreamExt as _, iter, pending};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::people::{PASSWORD, People, ROLES, topic_of};
use crate::support::{Server, query};

const CONTRACT: &str = include_str!("../../../proto/proto/tidemark/v1/tidemark.proto");

/// Method, and the code of each role of [`ROLES`]; 0 where it is allowed.
type Row = (&'static str, [u16; 7]);

const DENIED: u16 = 0x2644;
const PRIVILEGE: u16 = 0x0303;
/// Somebody else's consumer answers as none.
const NOBODYS: u16 = 0x03E6;

const ALL: [u16; 7] = [0; 7];
const WRITES: [u16; 7] = [DENIED, DENIED, 0, DENIED, DENIED, DENIED, 0];
const SUBSCRIBES: [u16; 7] = [PRIVILEGE, PRIVILEGE, PRIVILEGE, 0, 0, 0, 0];
const ROOTS_OWN: [u16; 7] = [NOBODYS, NOBODYS, NOBODYS, NOBODYS, NOBODYS, NOBODYS, 0];

const METHODS: &[Row] = &[
    ("Session.Login", ALL),
    ("Session.Ping", ALL),
    // What it runs is the table of statements.
    ("Sql.Execute", ALL),
    // What it names is tested with the lists.
    ("Sql.Complete", ALL),
    ("Writer.DescribeTarget", WRITES),
    ("Writer.Write", WRITES),
    ("Writer.WriteLines", WRITES),
    ("Subscription.Subscribe", SUBSCRIBES),
    ("Subscription.Heartbeat", ROOTS_OWN),
    ("Subscription.WatchAssignment", ROOTS_OWN),
    ("Subscription.Consume", ROOTS_OWN),
    ("Subscription.Release", ROOTS_OWN),
    ("Subscription.Commit", ROOTS_OWN),
    ("Subscription.Offsets", SUBSCRIBES),
];

/// Root's consumer, by hand.
const CONSUMER: u64 = 0x7007;
const GROUP: &str = "g";

/// `Service.Method` of the contract.
fn contract() -> BTreeSet<String> {
    let mut service = "";
    let mut methods = BTreeSet::new();
    for line in CONTRACT.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("service ") {
            service = rest.split(' ').next().expect("a name");
        } else if let Some(rest) = line.strip_prefix("rpc ") {
            methods.insert(format!("{service}.{}", rest.split('(').next().expect("a name")));
        }
    }
    methods
}

#[test]
fn every_method_has_its_line() {
    assert_eq!(contract(), METHODS.iter().map(|(name, _)| (*name).to_owned()).collect());
}

/// One user's way in.
struct Caller {
    channel: Channel,
    token: Option<String>,
    /// The topic that it asks for, by name and number.
    topic: (&'static str, u64),
}

fn code<T>(answer: Result<Response<T>, Status>) -> u16 {
    answer.err().map_or(0, |status| from_status(&status).code().number())
}

fn detail(error: Option<v1::ErrorDetail>) -> u16 {
    error.map_or(0, |error| from_detail(error).code().number())
}

impl Caller {
    async fn come(people: &People, role: &str, topic: (&'static str, u64)) -> Self {
        let address = format!("http://{}", people.server.address());
        let channel = Channel::from_shared(address).expect("an address").connect().await.expect("connected");
        let password = if role == "root" { "taosdata" } else { PASSWORD };
        let login =
            v1::LoginRequest { user: role.to_owned(), password: password.to_owned(), replicates: false };
        let answer = SessionClient::new(channel.clone()).login(login).await.expect("logged in").into_inner();
        Self { channel, token: Some(answer.token), topic }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            let token = format!("Bearer {token}").parse().expect("a header");
            request.metadata_mut().insert("authorization", token);
        }
        request
    }

    fn subscription(&self) -> SubscriptionClient<Channel> {
        SubscriptionClient::new(self.channel.clone())
    }

    async fn subscribe(&self, consumer: u64) -> u16 {
        let parameters = v1::ConsumerParameters {
            session_timeout_ms: 600_000,
            max_poll_interval_ms: 600_000,
            ..v1::ConsumerParameters::default()
        };
        let request = v1::SubscribeRequest {
            consumer,
            group: GROUP.into(),
            topics: vec![self.topic.0.to_owned()],
            parameters: Some(parameters),
            ..v1::SubscribeRequest::default()
        };
        code(self.subscription().subscribe(self.request(request)).await)
    }

    async fn commit(&self, held: Held) -> u16 {
        let Held { topic, vgroup, epoch } = held;
        let offset = v1::CommitOffset { topic, vgroup, epoch, offset: 1, sequence: 1 };
        let request =
            v1::CommitRequest { consumer: CONSUMER, group: GROUP.into(), offsets: vec![offset], keep: false };
        match self.subscription().commit(self.request(request)).await {
            Ok(answer) => detail(answer.into_inner().results.remove(0).error),
            Err(status) => from_status(&status).code().number(),
        }
    }

    async fn offsets(&self, topic: u64, vgroup: u32) -> u16 {
        let of = vec![v1::TopicVgroup { topic, vgroup }];
        let request = v1::OffsetsRequest { group: GROUP.into(), of };
        code(self.subscription().offsets(self.request(request)).await)
    }

    /// The code of one method, called as it is meant.
    async fn call(&self, method: &str, role: u64, held: Held) -> u16 {
        let (mut subscription, channel) = (self.subscription(), self.channel.clone());
        match method {
            "Session.Login" => 0, // Or it would not be here.
            "Session.Ping" => {
                code(SessionClient::new(channel).ping(self.request(v1::PingRequest::default())).await)
            }
            "Sql.Execute" => {
                let request = v1::ExecuteRequest { sql: "SELECT 1".into(), ..v1::ExecuteRequest::default() };
                code(SqlClient::new(channel).execute(self.request(request)).await)
            }
            "Sql.Complete" => {
                let request = v1::CompleteRequest { database: "plant".into() };
                code(SqlClient::new(channel).complete(self.request(request)).await)
            }
            "Writer.DescribeTarget" => {
                let request = v1::DescribeTargetRequest { database: "plant".into(), table: "t".into() };
                code(WriterClient::new(channel).describe_target(self.request(request)).await)
            }
            "Writer.Write" => {
                let request = v1::WriteRequest { id: 1, database: "plant".into(), blocks: Vec::new() };
                match WriterClient::new(channel).write(self.request(iter([request]))).await {
                    Err(status) => from_status(&status).code().number(),
                    Ok(answers) => {
                        let answer = answers.into_inner().message().await.expect("answered");
                        detail(answer.expect("an answer").error)
                    }
                }
            }
            "Writer.WriteLines" => {
                let request = v1::WriteLinesRequest {
                    database: "plant".into(),
                    lines: "# none".into(),
                    unit: "a".into(),
                };
                code(WriterClient::new(channel).write_lines(self.request(request)).await)
            }
            "Subscription.Subscribe" => self.subscribe(role + 1).await,
            "Subscription.Heartbeat" => {
                let request = v1::HeartbeatRequest { consumer: CONSUMER, polled: true, progress: Vec::new() };
                code(subscription.heartbeat(self.request(request)).await)
            }
            "Subscription.WatchAssignment" => {
                let request = v1::WatchAssignmentRequest { consumer: CONSUMER };
                code(subscription.watch_assignment(self.request(request)).await)
            }
            "Subscription.Consume" => {
                let open =
                    v1::ConsumeOpen { consumer: CONSUMER, group: GROUP.into(), ..v1::ConsumeOpen::default() };
                code(subscription.consume(self.request(iter([asked(Action::Open(open))]))).await)
            }
            "Subscription.Release" => {
                let request = v1::ReleaseRequest { consumer: CONSUMER, topic: held.topic, hand_over: 0 };
                code(subscription.release(self.request(request)).await)
            }
            "Subscription.Commit" => self.commit(held).await,
            "Subscription.Offsets" => self.offsets(self.topic.1, held.vgroup).await,
            other => panic!("{other} is not called here"),
        }
    }
}

fn asked(action: Action) -> v1::ConsumeRequest {
    v1::ConsumeRequest { action: Some(action) }
}

/// What root's consumer has.
#[derive(Clone, Copy, Debug)]
struct Held {
    topic: u64,
    vgroup: u32,
    epoch: u64,
}

/// The first assignment of a consumer that has something.
async fn assigned(caller: &Caller, consumer: u64) -> Held {
    let watch = caller.request(v1::WatchAssignmentRequest { consumer });
    let mut watch = caller.subscription().watch_assignment(watch).await.expect("watched").into_inner();
    loop {
        let assignment = watch.message().await.expect("an assignment").expect("and another");
        let owned = assignment.topics.iter().find_map(|topic| {
            let vgroup = topic.vgroups.first()?;
            Some(Held { topic: topic.id, vgroup: vgroup.vgroup, epoch: vgroup.epoch })
        });
        if let Some(owned) = owned.filter(|_| assignment.ready) {
            return owned;
        }
    }
}

async fn each<F: Future<Output = u16>>(call: impl Fn(usize) -> F) -> [u16; 7] {
    let mut codes = [0; 7];
    for (at, code) in codes.iter_mut().enumerate() {
        *code = call(at).await;
    }
    codes
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_may_call_what_the_table_says() {
    let people = People::come().await;
    let root = Caller::come(&people, "root", ("pumps", 0)).await;
    assert_eq!(root.subscribe(CONSUMER).await, 0);
    let held = assigned(&root, CONSUMER).await;
    let past = Caller::come(&people, "root", ("pasts", 0)).await;
    assert_eq!(past.subscribe(CONSUMER + 1).await, 0);
    let pasts = assigned(&past, CONSUMER + 1).await.topic;

    let mut callers = Vec::new();
    for role in ROLES {
        let topic = topic_of(role);
        let id = if topic == "pumps" { held.topic } else { pasts };
        callers.push(Caller::come(&people, role, (topic, id)).await);
    }
    // Subscribing comes first in no group that has something to lose: each has its own consumer.
    for (method, codes) in METHODS {
        let got = each(|at| callers[at].call(method, at as u64, held)).await;
        if *method == "Subscription.Commit" {
            // Others have joined root's group meanwhile and may have its vgroup.
            assert_eq!(got[..6], codes[..6], "{method}");
            assert!(matches!(got[6], 0 | 0x4001), "{:#06x}", got[6]);
        } else {
            assert_eq!(got, *codes, "{method} for {ROLES:?}");
        }
    }
    // Without a session no method does anything; the token is all that there is.
    let stranger = Caller { channel: callers[0].channel.clone(), token: None, topic: ("pumps", held.topic) };
    for (method, _) in METHODS.iter().filter(|(method, _)| *method != "Session.Login") {
        assert_eq!(stranger.call(method, 99, held).await, Code::AuthFailure.number(), "{method}");
    }

    // Numbers tell nothing either: a topic that is not there, and a vgroup of another database.
    let nobody = &callers[0];
    assert_eq!(nobody.offsets(9_999, held.vgroup).await, nobody.offsets(held.topic, held.vgroup).await);
    assert_eq!(nobody.offsets(held.topic, 9_999).await, PRIVILEGE);
    let subscriber = &callers[3];
    let vgroups = query(&people.root, "SHOW gone.VGROUPS").await;
    let elsewhere: i64 = vgroups.iter().next().expect("one").get(0).expect("a number");
    let elsewhere = u32::try_from(elsewhere).expect("small");
    assert_eq!(
        (subscriber.offsets(held.topic, elsewhere).await, subscriber.offsets(held.topic, 9_999).await),
        (Code::InvalidVgroup.number(), Code::InvalidVgroup.number())
    );
    assert_eq!(callers[6].offsets(9_999, held.vgroup).await, Code::TopicNotExist.number());
}

/// A consumer that has the vgroup by its token and not the right any more, and speaks by hand: no row, no commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_reads_for_as_long_as_the_right_stands() {
    let people = People::come().await;
    let user = Caller::come(&people, "subscriber", ("pumps", 0)).await;
    assert_eq!(user.subscribe(CONSUMER).await, 0);
    let held = assigned(&user, CONSUMER).await;
    query(&people.root, "REVOKE SUBSCRIBE ON pumps FROM subscriber").await;
    query(&people.root, "INSERT INTO plant.t VALUES (now, 2)").await;

    let open = v1::ConsumeOpen {
        consumer: CONSUMER,
        group: GROUP.into(),
        min_poll_rows: 1,
        ..v1::ConsumeOpen::default()
    };
    let start = v1::ConsumeStart {
        topic: held.topic,
        vgroup: held.vgroup,
        epoch: held.epoch,
        generation: 1,
        position: Some(0),
        reset: v1::ResetPolicy::Earliest.into(),
    };
    let credit = v1::ConsumeCredit { messages: 10 };
    let requests = [asked(Action::Open(open)), asked(Action::Credit(credit)), asked(Action::Start(start))];
    // The stream stays open for the answer.
    let requests = user.request(iter(requests).chain(pending()));
    let mut stream = user.subscription().consume(requests).await.expect("a stream").into_inner();
    let event = stream.message().await.expect("the stream goes on").expect("an event").event;
    let Some(Event::Fault(fault)) = event else { panic!("{event:?}") };
    assert_eq!(detail(fault.error), PRIVILEGE);
    assert_eq!(user.commit(held).await, PRIVILEGE);
    assert_eq!(user.subscribe(CONSUMER + 1).await, PRIVILEGE);
    query(&people.root, "GRANT SUBSCRIBE ON pumps TO subscriber").await;
    assert_eq!(user.commit(held).await, 0);
}

/// A message that never ends, from somebody who has not logged in.
#[tokio::test]
async fn nothing_of_strangers_is_read() {
    let server = Server::start();
    let address = format!("http://{}", server.address());
    let channel = Channel::from_shared(address).expect("an address").connect().await.expect("connected");
    for path in ["Sql/Execute", "Writer/WriteLines", "Subscription/Subscribe"] {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.expect("connected");
        let codec = tonic_prost::ProstCodec::<v1::ExecuteRequest, v1::ExecuteResponse>::default();
        let path = format!("/tidemark.v1.{path}").parse().expect("a path");
        let endless = Request::new(pending());
        let status = client.client_streaming(endless, path, codec).await.expect_err("refused");
        assert_eq!(from_status(&status).code(), Code::AuthFailure, "{status}");
    }
}
