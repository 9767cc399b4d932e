//! Consumers: membership, assignment, messages, commits.

mod pace;
mod reader;
mod schemas;
mod streams;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::join_all;
use mnode::{
    ConsumerAssignment, ConsumerParameters, ConsumerSpec, ConsumerState, Heartbeat, OffsetReset, PlaceReport,
};
use model::{Code, ConsumerId, Epoch, Error, Result, TopicId, Version, VgroupId};
use proto::convert::precision_to_wire;
use proto::status::{to_detail, to_status};
use proto::v1;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use self::reader::{ConsumeStream, Opened};
use self::streams::{Answers, Streams};
use crate::server::engine::Engine;
use crate::server::sessions::Session;

/// Assignments that wait for a slow client: it only needs the newest, the channel bounds how many are made.
const ASSIGNMENTS_IN_FLIGHT: usize = 2;
/// Messages of one stream between its readers and the transport. Credit bounds what the client is sent.
const MESSAGES_IN_FLIGHT: usize = 16;

/// The `Subscription` service.
#[derive(Debug)]
pub struct SubscriptionService {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    stop: watch::Receiver<bool>,
}

impl SubscriptionService {
    /// Streams end once `stop` turns true.
    pub fn new(engine: Arc<Engine>, stop: watch::Receiver<bool>) -> Self {
        Self { engine, streams: Arc::default(), stop }
    }

    /// A session speaks for consumers of its own user only.
    fn require_own(&self, session: &Session, consumer: ConsumerId) -> Result<()> {
        let mnode = self.engine.mnode();
        let owner = mnode.consumer_user(consumer);
        let owner = owner.map_err(|error| mnode.why_removed(&session.user, consumer).unwrap_or(error))?;
        if *owner == *session.user { Ok(()) } else { Err(Error::of(Code::ConsumerNotExist)) }
    }

    async fn do_subscribe(
        &self,
        session: Session,
        peer: Option<SocketAddr>,
        request: v1::SubscribeRequest,
    ) -> Result<()> {
        let consumer = ConsumerId(request.consumer);
        match self.require_own(&session, consumer) {
            Err(error) if request.topics.is_empty() => {
                // Leaving a group that one has been removed from is what was wanted.
                return if error.code() == Code::ConsumerNotExist { Ok(()) } else { Err(error) };
            }
            Err(error) if error.code() != Code::ConsumerNotExist => return Err(error),
            Err(_) | Ok(()) => {}
        }
        if request.topics.is_empty() {
            return self.engine.mnode().unsubscribe(consumer).await;
        }
        let spec = ConsumerSpec {
            id: consumer,
            parameters: parameters(&request),
            group: request.group,
            client_id: request.client_id,
            user: session.user.to_string(),
            host: request.host,
            end_point: peer.map_or_else(String::new, |peer| peer.to_string()),
        };
        self.engine.mnode().subscribe(spec, request.topics).await
    }

    fn do_heartbeat(
        &self,
        session: &Session,
        request: v1::HeartbeatRequest,
    ) -> Result<v1::HeartbeatResponse> {
        let consumer = ConsumerId(request.consumer);
        self.require_own(session, consumer)?;
        let reset = self.engine.mnode().assignment(consumer)?.offset_reset;
        let told = request.progress.iter().filter(|progress| self.can_be(progress));
        let places = told.map(|progress| place(reset, progress)).collect();
        let heartbeat = Heartbeat { consumer, polled: request.polled, places };
        let reply = self.engine.mnode().heartbeat(&heartbeat)?;
        Ok(v1::HeartbeatResponse { denied_topics: reply.denied.iter().map(|topic| topic.0).collect() })
    }

    /// Whether a consumer can stand where it says that it does. Nobody has read what the log does not hold.
    fn can_be(&self, progress: &v1::Progress) -> bool {
        let Ok(vnode) = self.engine.vnodes().get(VgroupId(progress.vgroup)) else { return false };
        let end = vnode.positions().end().0;
        progress.end <= end && progress.position.is_none_or(|position| position <= end)
    }

    /// Commits in the order given for each vgroup, vgroups side by side.
    async fn do_commit(&self, session: &Session, request: v1::CommitRequest) -> Result<v1::CommitResponse> {
        let consumer = ConsumerId(request.consumer);
        self.require_own(session, consumer)?;
        let count = request.offsets.len();
        let mut by_vgroup: BTreeMap<u32, Vec<(usize, vnode::CommitRequest)>> = BTreeMap::new();
        for (at, offset) in request.offsets.into_iter().enumerate() {
            let commit = vnode::CommitRequest {
                topic: TopicId(offset.topic),
                group: request.group.clone(),
                consumer,
                epoch: Epoch(offset.epoch),
                offset: Version(offset.offset),
                sequence: offset.sequence,
                keep: request.keep,
            };
            by_vgroup.entry(offset.vgroup).or_default().push((at, commit));
        }
        let commits = by_vgroup.into_iter().map(|(vgroup, commits)| async move {
            let mut results = Vec::with_capacity(commits.len());
            for (at, commit) in commits {
                let result = self.commit_one(session, VgroupId(vgroup), commit).await;
                results.push((at, v1::CommitResult { error: result.err().as_ref().map(to_detail) }));
            }
            results
        });
        let mut results: Vec<_> = join_all(commits).await.into_iter().flatten().collect();
        results.sort_unstable_by_key(|(at, _)| *at);
        debug_assert_eq!(results.len(), count);
        Ok(v1::CommitResponse { results: results.into_iter().map(|(_, result)| result).collect() })
    }

    async fn commit_one(
        &self,
        session: &Session,
        vgroup: VgroupId,
        commit: vnode::CommitRequest,
    ) -> Result<()> {
        let (consumer, topic, epoch, offset) = (commit.consumer, commit.topic, commit.epoch, commit.offset);
        let group = commit.group.clone();
        self.engine.mnode().check_consume(&session.user, consumer, topic)?;
        let committed = match self.engine.vnodes().get(vgroup) {
            Ok(vnode) => vnode.commit(commit).await,
            Err(error) => Err(error),
        };
        match committed {
            Ok(()) => {
                let commit = mnode::OwnerCommit { consumer, topic, vgroup, epoch, offset };
                self.engine.mnode().committed(&commit);
                Ok(())
            }
            Err(error) => Err(error.about(reader::about(&self.engine, consumer, topic, &group, vgroup))),
        }
    }

    fn do_offsets(&self, session: &Session, request: &v1::OffsetsRequest) -> Result<v1::OffsetsResponse> {
        let of = request.of.iter().map(|place| {
            let (topic, vgroup) = (TopicId(place.topic), VgroupId(place.vgroup));
            self.engine.mnode().check_offsets(&session.user, topic, vgroup)?;
            let offsets = self.engine.vnodes().get(vgroup)?.offsets(topic, &request.group);
            Ok(v1::Offsets {
                committed: offsets.committed.map(|version| version.0),
                log_first: offsets.log_first.0,
                log_end: offsets.log_end.0,
            })
        });
        Ok(v1::OffsetsResponse { offsets: of.collect::<Result<_>>()? })
    }
}

fn parameters(request: &v1::SubscribeRequest) -> ConsumerParameters {
    let Some(given) = &request.parameters else { return ConsumerParameters::default() };
    ConsumerParameters {
        session_timeout_ms: given.session_timeout_ms,
        max_poll_interval_ms: given.max_poll_interval_ms,
        auto_commit: given.enable_auto_commit,
        auto_commit_interval_ms: given.auto_commit_interval_ms,
        offset_reset: match given.auto_offset_reset() {
            v1::ResetPolicy::Latest => OffsetReset::Latest,
            v1::ResetPolicy::Earliest => OffsetReset::Earliest,
            v1::ResetPolicy::None => OffsetReset::None,
        },
        with_table_name: given.with_table_name,
        replay: given.replay,
    }
}

/// A position report, with the token that the consumer names and not with the one in force: what it says of a time when it
/// had the vgroup before must not pass for what it has read since.
fn place(offset_reset: OffsetReset, progress: &v1::Progress) -> PlaceReport {
    let offset = match progress.position {
        Some(position) => mnode::ReportedOffset::Log(position),
        None => mnode::ReportedOffset::Policy(offset_reset),
    };
    PlaceReport {
        topic: TopicId(progress.topic),
        vgroup: VgroupId(progress.vgroup),
        epoch: Epoch(progress.epoch),
        place: mnode::Place { offset, end: progress.end },
        rows: progress.rows,
    }
}

fn assignment_to_wire(engine: &Engine, assignment: &ConsumerAssignment) -> v1::Assignment {
    let catalog = engine.mnode().catalog();
    let topics = assignment.topics.iter().map(|assigned| {
        let topic = &assigned.topic;
        let kind = match topic.kind {
            mnode::TopicKind::Query { .. } => v1::TopicKind::Query,
            mnode::TopicKind::Stable(_) => v1::TopicKind::Stable,
            mnode::TopicKind::Database => v1::TopicKind::Database,
        };
        let database = catalog.database_by_id(topic.database);
        let precision = database.map_or(0, |database| precision_to_wire(database.info.options.precision));
        let hand_over = assigned.hand_over.as_ref();
        let vgroups = assigned.vgroups.iter().map(|(vgroup, epoch)| v1::AssignedVgroup {
            vgroup: vgroup.0,
            epoch: epoch.0,
            revoked: hand_over.is_some_and(|hand_over| hand_over.revoked.contains(vgroup)),
        });
        let offline = assigned.offline.iter().map(|offline| v1::OfflineVgroup {
            vgroup: offline.vgroup.0,
            error: Some(to_detail(&offline.error)),
        });
        v1::AssignedTopic {
            id: topic.id.0,
            name: topic.name.clone(),
            database: topic.database_name.clone(),
            precision,
            kind: kind.into(),
            vgroups: vgroups.collect(),
            hand_over: hand_over.map(|hand_over| hand_over.epoch.0),
            offline: offline.collect(),
        }
    });
    v1::Assignment {
        consumer_epoch: assignment.epoch,
        ready: assignment.state == ConsumerState::Ready,
        topics: topics.collect(),
    }
}

/// Sends the assignment now and after each change, until the consumer, the client or the server is gone.
async fn watch_assignment(
    engine: Arc<Engine>,
    consumer: ConsumerId,
    answers: mpsc::Sender<Result<v1::Assignment, Status>>,
) {
    // For as long as this client can be told of them, hand-overs wait for it.
    let _listening = engine.mnode().listen(consumer);
    let mut next = engine.mnode().assignment(consumer);
    loop {
        let assignment = match next {
            Ok(assignment) => assignment,
            Err(error) => {
                let _ = answers.send(Err(to_status(&error))).await;
                return;
            }
        };
        if answers.send(Ok(assignment_to_wire(&engine, &assignment))).await.is_err() {
            return;
        }
        next = tokio::select! {
            changed = engine.mnode().wait_assignment(consumer, &assignment) => changed,
            () = answers.closed() => return,
        };
    }
}

#[tonic::async_trait]
impl v1::subscription_server::Subscription for SubscriptionService {
    async fn subscribe(
        &self,
        request: Request<v1::SubscribeRequest>,
    ) -> Result<Response<v1::SubscribeResponse>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        let peer = request.remote_addr();
        self.do_subscribe(session, peer, request.into_inner()).await.map_err(|e| to_status(&e))?;
        Ok(Response::new(v1::SubscribeResponse {}))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        self.do_heartbeat(&session, request.into_inner()).map(Response::new).map_err(|e| to_status(&e))
    }

    type WatchAssignmentStream = ReceiverStream<Result<v1::Assignment, Status>>;

    async fn watch_assignment(
        &self,
        request: Request<v1::WatchAssignmentRequest>,
    ) -> Result<Response<Self::WatchAssignmentStream>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        let consumer = ConsumerId(request.into_inner().consumer);
        self.require_own(&session, consumer).map_err(|e| to_status(&e))?;
        let (answers, receiver) = mpsc::channel(ASSIGNMENTS_IN_FLIGHT);
        tokio::spawn(watch_assignment(Arc::clone(&self.engine), consumer, answers));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type ConsumeStream = Answers;

    async fn consume(
        &self,
        request: Request<Streaming<v1::ConsumeRequest>>,
    ) -> Result<Response<Self::ConsumeStream>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        let mut requests = request.into_inner();
        let opened = match requests.message().await?.and_then(|first| first.action) {
            Some(v1::consume_request::Action::Open(open)) => open,
            _ => {
                let error = Error::with(Code::BadRequest, "a consume stream begins with its open request");
                return Err(to_status(&error));
            }
        };
        let consumer = ConsumerId(opened.consumer);
        self.require_own(&session, consumer).map_err(|e| to_status(&e))?;
        let (sender, answers, closer) = streams::answers(MESSAGES_IN_FLIGHT);
        let place = self.streams.begin(consumer);
        let opened = Opened::new(Arc::clone(&self.engine), session, opened, sender);
        tokio::spawn(ConsumeStream::new(opened).run(requests, self.stop.clone(), place, closer));
        Ok(Response::new(answers))
    }

    async fn commit(
        &self,
        request: Request<v1::CommitRequest>,
    ) -> Result<Response<v1::CommitResponse>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        self.do_commit(&session, request.into_inner()).await.map(Response::new).map_err(|e| to_status(&e))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        let v1::ReleaseRequest { consumer, topic, hand_over } = request.into_inner();
        let consumer = ConsumerId(consumer);
        self.require_own(&session, consumer).map_err(|e| to_status(&e))?;
        let released = self.engine.mnode().release(consumer, TopicId(topic), Epoch(hand_over));
        released.map(|()| Response::new(v1::ReleaseResponse {})).map_err(|e| to_status(&e))
    }

    async fn offsets(
        &self,
        request: Request<v1::OffsetsRequest>,
    ) -> Result<Response<v1::OffsetsResponse>, Status> {
        let session = self.engine.session(&request).map_err(|e| to_status(&e))?;
        self.do_offsets(&session, &request.into_inner()).map(Response::new).map_err(|e| to_status(&e))
    }
}
