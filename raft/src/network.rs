//! The way to other members of a group. There is none yet: a group has one voter, which openraft never calls here.

use std::future::Future;
use std::io;

use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};

use crate::types::{Snapshot, TypeConfig, Vote};

/// Makes [`NoPeer`]s.
pub(crate) struct NoPeers;

/// A member that cannot be reached.
pub(crate) struct NoPeer;

fn unreachable() -> Unreachable {
    Unreachable::new(&io::Error::new(
        io::ErrorKind::Unsupported,
        "groups of several replicas are not supported",
    ))
}

impl RaftNetworkFactory<TypeConfig> for NoPeers {
    type Network = NoPeer;

    async fn new_client(&mut self, _target: u64, _node: &openraft::EmptyNode) -> NoPeer {
        NoPeer
    }
}

impl RaftNetwork<TypeConfig> for NoPeer {
    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, openraft::EmptyNode, RaftError<u64>>> {
        Err(unreachable().into())
    }

    async fn vote(
        &mut self,
        _rpc: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, openraft::EmptyNode, RaftError<u64>>> {
        Err(unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _vote: Vote,
        _snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + openraft::OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TypeConfig, Fatal<u64>>> {
        Err(unreachable().into())
    }
}
