use serde::{Deserialize, Serialize};
use wal::Version;

/// Where a restart begins: the state machine holds everything up to here. Stored with the state machine's own
/// checkpoint, as one unit. Take it under the same lock as the state ([`Group::checkpoint_with`]), and call
/// [`Group::sync`] between taking and storing it, so that the log on disk never ends before a checkpoint.
///
/// [`Group::checkpoint_with`]: crate::Group::checkpoint_with
/// [`Group::sync`]: crate::Group::sync
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The last record that is applied, none if no record is.
    pub applied: Option<LogPosition>,
    /// The group's members as of that record; this crate's to read.
    pub(crate) membership: Vec<u8>,
}

/// Identity of a record: two logs of one group that have a record of this version and term have the same history up to
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPosition {
    /// Its place in the log.
    pub version: Version,
    /// Raft term of the leader that proposed it.
    pub term: u64,
}
