//! Where a reader starts (tmq.md 3.2).

use model::{Code, Error, Result, Version};

use super::core::check_owner;
use super::findings::Findings;
use super::{OffsetReset, SubscribeRequest};
use crate::propose::{self, Checked};
use crate::state::VnodeState;

/// Number of a log's first record, whether it is still there or not.
const FIRST_VERSION: Version = Version(0);

/// What the state says of a reader's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// It is known.
    At {
        /// Next version to read.
        position: Version,
        /// What retention took before it, the second not included, of all that the reader asked for.
        skipped: Option<(Version, Version)>,
    },
    /// Behind what the log holds now. That is to be put into the log, see [`remember`].
    Latest,
}

impl Resolved {
    const fn at(position: Version) -> Self {
        Self::At { position, skipped: None }
    }
}

/// Finds it in a log that begins at `retained`.
pub(crate) fn resolve(
    state: &VnodeState,
    findings: &Findings,
    retained: Version,
    request: &SubscribeRequest,
) -> Result<Resolved> {
    check_owner(state, request)?;
    let committed_or_start = || match request.reset {
        OffsetReset::Latest => known(state, request),
        OffsetReset::Earliest | OffsetReset::None => committed(state, request),
    };
    if let Some(known) = request.position.or_else(committed_or_start) {
        return check_kept(findings, retained, request, known).map(|()| Resolved::at(known));
    }
    match request.reset {
        OffsetReset::None => Err(Error::of(Code::NoCommittedOffset)),
        OffsetReset::Earliest if retained > FIRST_VERSION => {
            findings.gap(&(request.topic, request.group.clone()), FIRST_VERSION, retained);
            Ok(Resolved::At { position: retained, skipped: Some((FIRST_VERSION, retained)) })
        }
        OffsetReset::Earliest => Ok(Resolved::at(retained)),
        OffsetReset::Latest => Ok(Resolved::Latest),
    }
}

fn committed(state: &VnodeState, request: &SubscribeRequest) -> Option<Version> {
    let held = state.groups.get(request.topic, &request.group)?;
    held.committed.as_ref().map(|committed| committed.offset)
}

/// The group's committed offset, else where `latest` was resolved for it.
pub(crate) fn known(state: &VnodeState, request: &SubscribeRequest) -> Option<Version> {
    let start = || state.groups.get(request.topic, &request.group).and_then(|held| held.start);
    committed(state, request).or_else(start)
}

/// The record that says that the group starts behind what is applied; none where it has a start already.
pub(crate) fn remember(state: &VnodeState, request: &SubscribeRequest) -> Result<Option<Checked>> {
    check_owner(state, request)?;
    propose::control::start(state, request.topic, &request.group, state.applied().next())
}

/// Whoever wants no policy does not want the oldest record in place of a committed offset either: a gap is an error then,
/// told before anything is read. A reader at work learns of a gap with its next batch, as all do.
fn check_kept(
    findings: &Findings,
    retained: Version,
    request: &SubscribeRequest,
    committed: Version,
) -> Result<()> {
    if request.reset != OffsetReset::None || request.position.is_some() {
        return Ok(());
    }
    let key = (request.topic, request.group.clone());
    if findings.unread_from(&key, committed) >= retained {
        return Ok(());
    }
    let gone = format!("committed={committed} first_kept={retained}");
    let hint = "seek to a version that is kept, or choose earliest or latest";
    Err(Error::with(Code::OffsetOutOfRange, gone).hint(hint))
}
