//! A consumer that speaks the protocol by hand: no client library keeps it from anything, or does anything for it.

use std::collections::BTreeMap;

use client::Code;
use proto::status::{from_detail, from_status};
use proto::v1;
use proto::v1::consume_request::Action;
use proto::v1::session_client::SessionClient;
use proto::v1::subscription_client::SubscriptionClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use super::Server;

/// A consumer without a client library.
pub struct ByHand {
    service: SubscriptionClient<Channel>,
    token: String,
    id: u64,
    group: String,
}

/// A vgroup that it owns, or once owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub topic: u64,
    pub epoch: u64,
}

/// Parameters with which nobody times out.
pub fn patient() -> v1::ConsumerParameters {
    v1::ConsumerParameters {
        session_timeout_ms: 600_000,
        max_poll_interval_ms: 600_000,
        auto_offset_reset: v1::ResetPolicy::Earliest.into(),
        ..v1::ConsumerParameters::default()
    }
}

fn code(status: &Status) -> Code {
    from_status(status).code()
}

impl ByHand {
    /// Consumer number `id` of `group`, which the coordinator has not heard of yet.
    pub async fn log_in(server: &Server, id: u64, group: &str) -> Self {
        let address = format!("http://{}", server.address());
        let channel = Channel::from_shared(address).expect("an address").connect().await.expect("connected");
        let login = v1::LoginRequest { user: "root".into(), password: "taosdata".into(), replicates: false };
        let answer = SessionClient::new(channel.clone()).login(login).await.expect("logged in").into_inner();
        let token = format!("Bearer {}", answer.token);
        Self { service: SubscriptionClient::new(channel), token, id, group: group.into() }
    }

    /// Another consumer over the same connection.
    pub fn beside(&self, id: u64, group: &str) -> Self {
        Self { service: self.service.clone(), token: self.token.clone(), id, group: group.into() }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.token.parse().expect("a header"));
        request
    }

    pub async fn subscribe(&mut self, topics: &[&str]) -> Result<(), Code> {
        self.subscribe_with(topics, patient()).await
    }

    pub async fn subscribe_with(
        &mut self,
        topics: &[&str],
        parameters: v1::ConsumerParameters,
    ) -> Result<(), Code> {
        let request = v1::SubscribeRequest {
            consumer: self.id,
            group: self.group.clone(),
            topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
            parameters: Some(parameters),
            ..v1::SubscribeRequest::default()
        };
        self.service.subscribe(self.request(request)).await.map(drop).map_err(|status| code(&status))
    }

    /// The next assignment with so many vgroups, by vgroup.
    pub async fn assigned(&mut self, count: usize) -> BTreeMap<u32, Held> {
        let watch = self.request(v1::WatchAssignmentRequest { consumer: self.id });
        let mut watch = self.service.watch_assignment(watch).await.expect("watched").into_inner();
        loop {
            let assignment = watch.message().await.expect("an assignment").expect("and another");
            let owned = assignment.topics.iter().flat_map(|topic| {
                let held = |v: &v1::AssignedVgroup| (v.vgroup, Held { topic: topic.id, epoch: v.epoch });
                topic.vgroups.iter().map(held).collect::<Vec<_>>()
            });
            let owned: BTreeMap<u32, Held> = owned.collect();
            if assignment.ready && owned.len() == count {
                return owned;
            }
        }
    }

    pub async fn commit(&mut self, vgroup: u32, held: Held, offset: u64, sequence: u64) -> Result<(), Code> {
        let offset = v1::CommitOffset { topic: held.topic, vgroup, epoch: held.epoch, offset, sequence };
        let group = self.group.clone();
        let request = v1::CommitRequest { consumer: self.id, group, offsets: vec![offset], keep: false };
        let answer = self.service.commit(self.request(request)).await.expect("answered").into_inner();
        let error = answer.results.into_iter().next().expect("one result").error;
        error.map_or(Ok(()), |error| Err(from_detail(error).code()))
    }

    /// Says that it lives, and whether it has polled.
    pub async fn beat(&mut self, polled: bool) -> Result<(), Code> {
        self.heartbeat(polled, Vec::new()).await
    }

    /// Says that it has polled, and where it is in a vgroup.
    pub async fn report(&mut self, vgroup: u32, held: Held, position: u64, rows: u64) {
        let Held { topic, epoch } = held;
        let progress = v1::Progress { topic, vgroup, position: Some(position), end: position, rows, epoch };
        self.heartbeat(true, vec![progress]).await.expect("still a member");
    }

    async fn heartbeat(&mut self, polled: bool, progress: Vec<v1::Progress>) -> Result<(), Code> {
        let request = v1::HeartbeatRequest { consumer: self.id, polled, progress };
        self.service.heartbeat(self.request(request)).await.map(drop).map_err(|status| code(&status))
    }

    /// A stream, and what goes up it.
    pub async fn consume(&mut self) -> (mpsc::Sender<v1::ConsumeRequest>, Streaming<v1::ConsumeResponse>) {
        self.consume_with(v1::ConsumeOpen::default()).await
    }

    /// The same with what `open` says beside the consumer and how much one message holds.
    pub async fn consume_with(
        &mut self,
        open: v1::ConsumeOpen,
    ) -> (mpsc::Sender<v1::ConsumeRequest>, Streaming<v1::ConsumeResponse>) {
        let (requests, receiver) = mpsc::channel(8);
        let open = v1::ConsumeOpen {
            consumer: self.id,
            group: self.group.clone(),
            min_poll_rows: 1,
            fetch_max_wait_ms: 1_000,
            ..open
        };
        send(&requests, Action::Open(open)).await;
        send(&requests, Action::Credit(v1::ConsumeCredit { messages: 100 })).await;
        let stream = self.service.consume(self.request(ReceiverStream::new(receiver))).await;
        (requests, stream.map_err(|status| from_status(&status)).expect("a stream").into_inner())
    }
}

/// Sends up a stream.
pub async fn send(requests: &mpsc::Sender<v1::ConsumeRequest>, action: Action) {
    requests.send(v1::ConsumeRequest { action: Some(action) }).await.expect("the stream is open");
}
