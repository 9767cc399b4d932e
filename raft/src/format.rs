//! Bytes on disk that are this crate's: bodies of Membership records, the `vote` file and the `floor` file.
//! Little-endian throughout.

use std::collections::{BTreeMap, BTreeSet};

use model::{Code, Error, Result, Version};
use openraft::EmptyNode;
use serde::{Deserialize, Serialize};

use crate::checkpoint::LogPosition;
use crate::types::{LogId, Membership, StoredMembership, Vote, log_id};

/// Which layout the bytes have. Raise it with every change; older ones stay readable.
const MEMBERSHIP_FORMAT: u8 = 1;

/// Our own picture of a membership, so that an upgrade of openraft does not change what is on disk.
#[derive(Serialize, Deserialize)]
struct Members {
    /// One set of voters, two while they change.
    voters: Vec<BTreeSet<u64>>,
    /// All members, those that only follow included.
    nodes: BTreeSet<u64>,
}

/// The body of a Membership record.
pub(crate) fn encode_membership(membership: &Membership) -> Result<Vec<u8>> {
    encode_members(&members_of(membership))
}

/// Reads the body of a Membership record.
pub(crate) fn decode_membership(bytes: &[u8]) -> Result<Membership> {
    decode_members(bytes).map(members_to)
}

/// A membership with the record it comes from, for a checkpoint. Empty where there is none.
pub(crate) fn encode_stored_membership(stored: &StoredMembership) -> Result<Vec<u8>> {
    let at = stored.log_id().map(|id| position_of(&id));
    encode_members(&(at, members_of(stored.membership())))
}

/// Reads what [`encode_stored_membership`] wrote.
pub(crate) fn decode_stored_membership(bytes: &[u8]) -> Result<StoredMembership> {
    if bytes.is_empty() {
        return Ok(StoredMembership::default());
    }
    let (at, members): (Option<LogPosition>, Members) = decode_members(bytes)?;
    Ok(StoredMembership::new(at.map(|at| log_id(at.version, at.term)), members_to(members)))
}

fn members_of(membership: &Membership) -> Members {
    let nodes = membership.nodes().map(|(id, _)| *id).collect();
    Members { voters: membership.get_joint_config().clone(), nodes }
}

fn members_to(members: Members) -> Membership {
    let nodes: BTreeMap<u64, EmptyNode> = members.nodes.into_iter().map(|id| (id, EmptyNode {})).collect();
    Membership::new(members.voters, nodes)
}

fn encode_members<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let bytes = postcard::to_extend(value, vec![MEMBERSHIP_FORMAT]);
    bytes.map_err(|e| Error::internal("membership does not encode").caused_by(e))
}

fn decode_members<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T> {
    match bytes.split_first() {
        Some((&MEMBERSHIP_FORMAT, rest)) => postcard::from_bytes(rest)
            .map_err(|e| Error::with(Code::Damaged, "membership does not decode").caused_by(e)),
        Some((format, _)) => Err(Error::with(Code::NewerFormat, format_args!("membership format={format}"))),
        None => Err(Error::with(Code::Damaged, "membership is empty")),
    }
}

/// The position that a log id names.
pub(crate) fn position_of(id: &LogId) -> LogPosition {
    LogPosition { version: Version(id.index), term: id.leader_id.term }
}

/// Two numbers under a magic one, checked: magic (8), first (8), second (8), CRC-32 of the 24 bytes before (4).
const PAIR_BYTES: usize = 28;

fn encode_pair(magic: [u8; 8], first: u64, second: u64) -> [u8; PAIR_BYTES] {
    let mut bytes = [0; PAIR_BYTES];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..16].copy_from_slice(&first.to_le_bytes());
    bytes[16..24].copy_from_slice(&second.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..24]);
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode_pair(magic: [u8; 8], what: &str, bytes: &[u8]) -> Result<(u64, u64)> {
    let damaged = || Error::with(Code::Damaged, format_args!("{what} file of the raft group"));
    let bytes: &[u8; PAIR_BYTES] = bytes.try_into().map_err(|_| damaged())?;
    let number = |at: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(number)
    };
    let sum = crc32fast::hash(&bytes[..24]).to_le_bytes();
    if bytes[..7] == magic[..7] && bytes[7] > magic[7] && bytes[24..] == sum {
        return Err(Error::with(Code::NewerFormat, format_args!("{what} file of the raft group")));
    }
    if bytes[..8] != magic || bytes[24..] != sum {
        return Err(damaged());
    }
    Ok((number(8), number(16)))
}

/// Seven letters and the format's number.
const VOTE_MAGIC: [u8; 8] = *b"TIDEVOT\x01";

/// The `vote` file: term, and for whom this node voted in it.
///
/// Whether a quorum agreed is not stored. It is what a leader knows while it leads; without it a node starts as a
/// follower and asks again in a new term, which saves one fsync per election and makes every start a term of its own.
pub(crate) fn encode_vote(vote: &Vote) -> [u8; PAIR_BYTES] {
    let leader = vote.leader_id();
    encode_pair(VOTE_MAGIC, leader.term, leader.voted_for.unwrap_or_default())
}

/// Reads a `vote` file.
pub(crate) fn decode_vote(bytes: &[u8]) -> Result<Vote> {
    decode_pair(VOTE_MAGIC, "vote", bytes).map(|(term, node)| Vote::new(term, node))
}

const FLOOR_MAGIC: [u8; 8] = *b"TIDEFLR\x01";

/// Length of a `floor` file.
pub(crate) const FLOOR_BYTES: usize = PAIR_BYTES;

/// The `floor` file: the last record that Raft has given up, by version and term. Consumers may still read it.
pub(crate) fn encode_floor(floor: &LogId) -> [u8; PAIR_BYTES] {
    encode_pair(FLOOR_MAGIC, floor.index, floor.leader_id.term)
}

/// Reads a `floor` file.
pub(crate) fn decode_floor(bytes: &[u8]) -> Result<LogId> {
    decode_pair(FLOOR_MAGIC, "floor", bytes).map(|(version, term)| log_id(Version(version), term))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memberships_round_trip() -> Result<()> {
        let voters = vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([2, 300])];
        let nodes: BTreeSet<u64> = [1, 2, 3, 300, 4].into();
        let membership = Membership::new(voters, nodes);
        assert_eq!(decode_membership(&encode_membership(&membership)?)?, membership);
        for at in [None, Some(log_id(Version(7), 3))] {
            let stored = StoredMembership::new(at, membership.clone());
            assert_eq!(decode_stored_membership(&encode_stored_membership(&stored)?)?, stored);
        }
        assert_eq!(decode_stored_membership(&[])?, StoredMembership::default());
        Ok(())
    }

    #[test]
    fn bytes_are_fixed() -> Result<()> {
        let alone = Membership::new(vec![BTreeSet::from([1])], ());
        assert_eq!(encode_membership(&alone)?, [1, 1, 1, 1, 1, 1]);
        let vote = encode_vote(&Vote::new(5, 1));
        assert_eq!(vote[..24], *b"TIDEVOT\x01\x05\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
        Ok(())
    }

    #[test]
    fn vote_and_floor_round_trip_and_see_every_flipped_bit() -> Result<()> {
        let vote = Vote::new(u64::MAX, 17);
        assert_eq!(decode_vote(&encode_vote(&vote))?, vote);
        let floor = log_id(Version(9), 2);
        let bytes = encode_floor(&floor);
        assert_eq!(decode_floor(&bytes)?, floor);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_floor(&bad).is_err(), "bit {bit}");
        }
        assert!(decode_floor(&bytes[..20]).is_err());
        assert!(decode_vote(&bytes).is_err(), "a floor is no vote");
        Ok(())
    }

    #[test]
    fn a_committed_vote_is_stored_as_a_plain_one() -> Result<()> {
        assert_eq!(decode_vote(&encode_vote(&Vote::new_committed(4, 2)))?, Vote::new(4, 2));
        Ok(())
    }
}
