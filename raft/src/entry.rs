//! An entry of the Raft log: before it is written a proposal, afterwards a record.

use std::fmt;
use std::sync::Arc;

use model::{Code, Error, Result};
use openraft::RaftLogId;
use openraft::entry::{FromAppData, RaftEntry, RaftPayload};
use openraft::raft::ClientWriteResult;
use openraft::raft::responder::Responder;
use parking_lot::Mutex;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use wal::Version;

use crate::proposal::Proposal;
use crate::shared::Reservation;
use crate::types::{LogId, Membership, TypeConfig};

/// A proposal on its way through openraft, with the way back to whoever waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Command(pub(crate) Arc<Proposed>);

/// A proposal and what it holds until it is in the log, applied, answered.
pub(crate) struct Proposed {
    pub(crate) proposal: Proposal,
    held: Mutex<Held>,
}

struct Held {
    /// Disk space taken for it, until the record is written.
    reservation: Option<Reservation>,
    /// Its share of the in-flight bound, until it is applied.
    permit: Option<OwnedSemaphorePermit>,
    /// Who waits for it.
    waiting: Option<oneshot::Sender<Result<Version>>>,
}

impl Proposed {
    pub(crate) fn new(
        proposal: Proposal,
        reservation: Reservation,
        permit: OwnedSemaphorePermit,
    ) -> (Self, oneshot::Receiver<Result<Version>>) {
        let (waiting, answer) = oneshot::channel();
        let held = Held { reservation: Some(reservation), permit: Some(permit), waiting: Some(waiting) };
        (Self { proposal, held: Mutex::new(held) }, answer)
    }

    /// The record is in the log.
    pub(crate) fn written(&self) {
        self.held.lock().reservation = None;
    }

    /// The record is applied.
    pub(crate) fn applied(&self) {
        self.held.lock().permit = None;
    }

    /// Tells whoever waits. Only the first answer counts.
    pub(crate) fn answer(&self, answer: Result<Version>) {
        if let Some(waiting) = self.held.lock().waiting.take() {
            let _ = waiting.send(answer); // nobody waits any more: fine
        }
    }
}

impl fmt::Debug for Proposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposed")
            .field("kind", &self.proposal.kind)
            .field("body_bytes", &self.proposal.body.len())
            .finish_non_exhaustive()
    }
}

/// How openraft refuses a proposal. Success is answered where the record is applied (`machine`), which saves the way
/// back through openraft's core; if the core ends, dropping the last handle of the proposal is the answer.
pub(crate) struct Answer(Arc<Proposed>);

impl Responder<TypeConfig> for Answer {
    type Receiver = ();

    fn from_app_data(command: Command) -> (Command, Self, ()) {
        let answer = Self(Arc::clone(&command.0));
        (command, answer, ())
    }

    fn send(self, result: ClientWriteResult<TypeConfig>) {
        if let Err(e) = result {
            self.0.answer(Err(Error::with(Code::InvalidVgroup, e)));
        }
    }
}

/// A log entry.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) log_id: LogId,
    pub(crate) content: Content,
    /// The record, once it is in the log.
    pub(crate) record: Option<wal::Record>,
}

/// What an entry says.
#[derive(Clone)]
pub(crate) enum Content {
    /// Nothing: a leader begins.
    Noop,
    /// The members from here on.
    Membership(Membership),
    /// A proposal of this process.
    Proposed(Arc<Proposed>),
    /// A record of the state machine's that was read from the log.
    Record,
}

impl RaftPayload<u64, openraft::EmptyNode> for Entry {
    fn is_blank(&self) -> bool {
        matches!(self.content, Content::Noop)
    }

    fn get_membership(&self) -> Option<&Membership> {
        match &self.content {
            Content::Membership(membership) => Some(membership),
            Content::Noop | Content::Proposed(_) | Content::Record => None,
        }
    }
}

impl RaftLogId<u64> for Entry {
    fn get_log_id(&self) -> &LogId {
        &self.log_id
    }

    fn set_log_id(&mut self, log_id: &LogId) {
        self.log_id = *log_id;
    }
}

impl RaftEntry<u64, openraft::EmptyNode> for Entry {
    fn new_blank(log_id: LogId) -> Self {
        Self { log_id, content: Content::Noop, record: None }
    }

    fn new_membership(log_id: LogId, membership: Membership) -> Self {
        Self { log_id, content: Content::Membership(membership), record: None }
    }
}

impl FromAppData<Command> for Entry {
    fn from_app_data(command: Command) -> Self {
        Self { log_id: LogId::default(), content: Content::Proposed(command.0), record: None }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.content {
            Content::Noop => "noop",
            Content::Membership(_) => "membership",
            Content::Proposed(proposed) => proposed.proposal.kind.name(),
            Content::Record => self.record.as_ref().map_or("record", |record| record.kind.name()),
        };
        write!(f, "{} {what}", self.log_id)
    }
}

// openraft asks for serde in case a network or a store of its own making wants it. Ours stores and sends records.
const NO_SERDE: &str = "raft entries travel as log records";

macro_rules! no_serde {
    ($($name:ident)*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(S::Error::custom(NO_SERDE))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
                Err(D::Error::custom(NO_SERDE))
            }
        }
    )*};
}

no_serde! { Command Entry }
