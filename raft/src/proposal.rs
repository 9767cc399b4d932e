use bytes::Bytes;

/// What a leader wants in the log. The body is shared on its way to disk and to the state machine, never copied.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What the body is. [`wal::Kind::Membership`] and [`wal::Kind::Noop`] are the group's own and refused.
    pub kind: wal::Kind,
    /// Stored and handed back.
    pub flags: u8,
    /// Receive time, nanoseconds since the epoch. A time below that of the record before it is raised to that one's,
    /// since times never fall along a log.
    pub time_ns: i64,
    /// The body.
    pub body: Bytes,
    /// The schema blocks that a reader needs for this body.
    pub schemas: Vec<wal::SchemaBlock>,
}

impl Proposal {
    /// What the proposal takes in the log at most.
    pub(crate) fn log_bytes(&self) -> u64 {
        let schemas = self.schemas.iter().map(|schema| wal::record_bytes(schema.bytes.len()));
        schemas.fold(wal::record_bytes(self.body.len()), u64::saturating_add)
    }
}

/// What the records of a group change. Synchronous and total: a committed record cannot be refused, so everything that
/// could be wrong with it is settled before it is proposed.
pub trait StateMachine: Send + Sync + 'static {
    /// Takes in the next record. Called once for every version from the checkpoint on, in order, the group's own kinds
    /// included (so that a state machine can note how far it is); after a restart again from the checkpoint on.
    fn apply(&mut self, record: &wal::Record);
}
