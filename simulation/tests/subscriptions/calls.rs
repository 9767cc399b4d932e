//! Calls of consumers: on their way, served by the metadata group's leader and the shards, answered.

use std::collections::BTreeMap;

use client::sim::SimCommits;
use mnode::{Command, ConsumerParameters, ConsumerSpec, OffsetReset, PlaceReport};
use model::{ConsumerId, Epoch, Error, Result, TopicId, Version, VgroupId};
use proto::v1;
use rand::Rng;
use vnode::sim::Ticket;

use crate::client::Client;
use crate::leader::unreachable;
use crate::world::{Planted, World};

/// What follows an answer.
#[derive(Clone, Debug)]
pub enum Then {
    Nothing,
    Release(v1::ReleaseRequest),
    Leave,
    Subscribe,
}

#[derive(Clone, Debug)]
pub enum Unary {
    Subscribe(Vec<String>),
    Heartbeat(v1::HeartbeatRequest),
    Commit { commits: SimCommits, request: v1::CommitRequest, then: Then },
    Release(v1::ReleaseRequest),
}

#[derive(Clone, Debug)]
pub enum Stage {
    Up,
    /// Waits for shards.
    Applying(Vec<std::result::Result<(), Wait>>),
    Down(Result<Vec<Result<()>>>, Vec<u64>),
}

/// What one commit of several waits for, or why it failed.
#[derive(Clone, Debug)]
pub enum Wait {
    Shard(VgroupId, Ticket),
    Failed(Error),
}

/// A call under way.
#[derive(Clone, Debug)]
pub struct Flight {
    pub client: u64,
    pub unary: Unary,
    pub stage: Stage,
    /// Nobody waits for the answer any more.
    pub silent: bool,
}

impl Flight {
    pub fn can_move(&self, clients: &BTreeMap<u64, Client>) -> bool {
        match self.stage {
            Stage::Up => true,
            Stage::Applying(_) => false,
            Stage::Down(..) => self.silent || clients.get(&self.client).is_none_or(|client| !client.paused),
        }
    }
}

impl World {
    /// One step of a call; `is_lost` where the network loses it here.
    pub fn fly(&mut self, number: u64, is_lost: bool) {
        let Some(mut flight) = self.flights.remove(&number) else { return };
        let id = flight.client;
        match &flight.stage {
            Stage::Applying(_) => drop(self.flights.insert(number, flight)),
            Stage::Up if is_lost => self.fail(flight),
            Stage::Up => {
                if self.storm && self.rng.random_bool(0.1) {
                    // The answer is lost, the request is repeated by itself or comes late.
                    let again = Flight { silent: true, ..flight.clone() };
                    self.calls += 1;
                    self.flights.insert(self.calls, again);
                }
                flight.stage = self.serve(id, &flight.unary);
                self.flights.insert(number, flight);
                self.land(number);
            }
            Stage::Down(..) if flight.silent => {}
            Stage::Down(..) if is_lost => self.fail(flight),
            Stage::Down(answer, denied) => {
                let (answer, denied) = (answer.clone(), denied.clone());
                self.answer(id, flight.unary, answer, denied);
            }
        }
    }

    /// A call is lost: its client finds its connection broken.
    fn fail(&mut self, flight: Flight) {
        let id = flight.client;
        self.calls += 1;
        if !flight.silent {
            self.flights.insert(self.calls, flight);
            self.cut(id);
            // It did not arrive.
            self.flights.remove(&self.calls);
        }
    }

    fn serve(&mut self, id: u64, unary: &Unary) -> Stage {
        let consumer = ConsumerId(id);
        let nothing = |result: Result<()>| Stage::Down(result.map(|()| Vec::new()), Vec::new());
        match unary {
            Unary::Subscribe(topics) => {
                let group = self
                    .groups_of
                    .entry(id)
                    .or_insert_with(|| self.clients.get(&id).map_or("early", |client| client.group));
                let spec = spec(id, group);
                let is_known = self.leader.state.consumer(consumer).is_ok();
                if topics.is_empty() && !is_known {
                    return nothing(Ok(()));
                }
                let command = Command::Subscribe { consumer: spec, topics: topics.clone() };
                let result = self.run(command).map(drop);
                if result.is_ok() {
                    self.heard.insert(id, (self.now_ns, self.now_ns));
                }
                self.note(|_| format!("{id} subscribes {topics:?}: {result:?}"));
                self.drive();
                nothing(result)
            }
            Unary::Heartbeat(request) => {
                let places = request.progress.iter().map(|progress| PlaceReport {
                    topic: TopicId(progress.topic),
                    vgroup: VgroupId(progress.vgroup),
                    epoch: Epoch(progress.epoch),
                    place: mnode::Place {
                        offset: progress.position.map_or(
                            mnode::ReportedOffset::Policy(OffsetReset::Earliest),
                            mnode::ReportedOffset::Log,
                        ),
                        end: progress.end,
                    },
                    rows: progress.rows,
                });
                let heartbeat =
                    mnode::Heartbeat { consumer, polled: request.polled, places: places.collect() };
                let reply = self.leader.coordinator.heartbeat(&self.leader.state, &heartbeat, self.now_ns);
                if reply.is_ok() {
                    let heard = self.heard.entry(id).or_insert((self.now_ns, self.now_ns));
                    heard.0 = self.now_ns;
                    if request.polled {
                        heard.1 = self.now_ns;
                    }
                }
                match reply {
                    Ok(reply) => {
                        Stage::Down(Ok(Vec::new()), reply.denied.iter().map(|topic| topic.0).collect())
                    }
                    Err(error) => Stage::Down(Err(error), Vec::new()),
                }
            }
            Unary::Release(request) => {
                let (topic, epoch) = (TopicId(request.topic), Epoch(request.hand_over));
                let released = self.leader.coordinator.released(&self.leader.state, consumer, topic, epoch);
                self.drive();
                nothing(released)
            }
            Unary::Commit { request, .. } => {
                if let Err(error) = self.leader.state.consumer(consumer) {
                    return nothing(Err(error));
                }
                Stage::Applying(
                    request.offsets.iter().map(|offset| self.serve_commit(id, request, offset)).collect(),
                )
            }
        }
    }

    fn serve_commit(
        &mut self,
        id: u64,
        request: &v1::CommitRequest,
        offset: &v1::CommitOffset,
    ) -> std::result::Result<(), Wait> {
        let (topic, vgroup) = (TopicId(offset.topic), VgroupId(offset.vgroup));
        let mut commit = vnode::CommitRequest {
            topic,
            group: request.group.clone(),
            consumer: ConsumerId(id),
            epoch: Epoch(offset.epoch),
            offset: Version(offset.offset),
            sequence: offset.sequence,
            keep: false,
        };
        self.leader.state.check_consume("root", ConsumerId(id), topic).map_err(Wait::Failed)?;
        self.shard_ready(vgroup).map_err(Wait::Failed)?;
        let shard = self.shards.get_mut(&vgroup).ok_or_else(|| Wait::Failed(unreachable()))?;
        if matches!(self.planted, Some(Planted::CommitsUnfenced | Planted::IgnoresTokens)) {
            let state = shard.sim.state();
            if let Some(held) = state.groups.get(topic, &request.group)
                && let Some(owner) = held.owner
                && (owner == commit.consumer || self.planted == Some(Planted::CommitsUnfenced))
            {
                (commit.consumer, commit.epoch) = (owner, held.epoch);
                commit.sequence = held.committed.as_ref().map_or(0, |c| c.sequence).max(commit.sequence) + 1;
            }
        }
        match shard.sim.commit(commit) {
            Ok(Some(ticket)) => Err(Wait::Shard(vgroup, ticket)),
            Ok(None) => Ok(()),
            Err(error) => Err(Wait::Failed(error)),
        }
    }

    /// Sends the answer of a call for which no shard is waited for any more.
    fn land(&mut self, number: u64) {
        let Some(flight) = self.flights.get_mut(&number) else { return };
        let Stage::Applying(waits) = &flight.stage else { return };
        if waits.iter().any(|wait| matches!(wait, Err(Wait::Shard(..)))) {
            return;
        }
        let result = |wait: &std::result::Result<(), Wait>| match wait {
            Err(Wait::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        };
        flight.stage = Stage::Down(Ok(waits.iter().map(result).collect()), Vec::new());
    }

    fn end_waits(&mut self, ended: impl Fn(VgroupId, Ticket) -> Option<std::result::Result<(), Wait>>) {
        let mut numbers = Vec::new();
        for (number, flight) in &mut self.flights {
            let Stage::Applying(waits) = &mut flight.stage else { continue };
            for wait in waits {
                if let Err(Wait::Shard(vgroup, ticket)) = wait
                    && let Some(end) = ended(*vgroup, *ticket)
                {
                    *wait = end;
                    numbers.push(*number);
                }
            }
        }
        numbers.into_iter().for_each(|number| self.land(number));
    }

    /// A queued record is applied.
    pub fn landed(&mut self, vgroup: VgroupId, ticket: Ticket, _: &Result<()>) {
        self.end_waits(|of, waits_for| (of == vgroup && waits_for == ticket).then_some(Ok(())));
    }

    /// What a shard had queued is gone.
    pub fn lost(&mut self, vgroup: VgroupId, error: &Error) {
        self.end_waits(|of, _| (of == vgroup).then(|| Err(Wait::Failed(error.clone()))));
    }
}

fn spec(id: u64, group: &str) -> ConsumerSpec {
    ConsumerSpec {
        id: ConsumerId(id),
        group: group.into(),
        client_id: String::new(),
        user: "root".into(),
        host: "host".into(),
        end_point: String::new(),
        parameters: ConsumerParameters {
            session_timeout_ms: 6_000,
            max_poll_interval_ms: 10_000,
            ..ConsumerParameters::default()
        },
    }
}
