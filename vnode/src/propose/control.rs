//! Checks of topics, owners and offsets.

use model::{Code, Error, Result, TopicId, Version};
use wal::Kind;

use super::{Checked, CommitRequest, OwnerChange, TopicDdl};
use crate::record::{OffsetRecord, OwnerRecord, TopicDefinition, TopicRecord};
use crate::state::VnodeState;

pub(crate) fn topic(state: &VnodeState, ddl: TopicDdl) -> Result<Option<Checked>> {
    let is_known = |new: &TopicDefinition| {
        state.topics.get(new.id).is_some_and(|old| old.definition_version >= new.definition_version)
    };
    let record = match ddl {
        TopicDdl::Create(definition) if is_known(&definition) => return Ok(None),
        TopicDdl::Create(definition) => TopicRecord::Create(definition),
        TopicDdl::Reload(definition) if is_known(&definition) => return Ok(None),
        TopicDdl::Reload(definition) => TopicRecord::Reload(definition),
        TopicDdl::Drop(id) if !state.has_topic(id) && state.groups.of_topic(id).next().is_none() => {
            return Ok(None);
        }
        TopicDdl::Drop(id) => TopicRecord::Drop(id),
    };
    Checked::new(Kind::Topic, record.encode()).map(Some)
}

pub(crate) fn owner(state: &VnodeState, change: OwnerChange) -> Result<Option<Checked>> {
    let held = state.groups.get(change.topic, &change.group);
    if held.is_some_and(|held| !held.is_new_owner(change.epoch)) {
        return Ok(None);
    }
    let OwnerChange { topic, group, epoch, owner } = change;
    Checked::new(Kind::Owner, OwnerRecord { topic, group, epoch, owner }.encode()).map(Some)
}

/// Owners change only with nothing in flight, so the applied state says who owns. Of commits in flight the numbers
/// decide, when they are applied.
pub(crate) fn commit(state: &VnodeState, request: CommitRequest, is_quiet: bool) -> Result<Option<Checked>> {
    let CommitRequest { topic, group, consumer, epoch, offset, sequence, keep: _ } = request;
    let held = state.groups.get(topic, &group).filter(|held| held.is_owned_by(consumer, epoch));
    let held = held.ok_or_else(|| Error::of(Code::ConsumerMismatch))?;
    let is_stored = held.committed.as_ref().is_some_and(|last| last.offset == offset);
    if !held.is_next_commit(consumer, sequence) || (is_quiet && is_stored) {
        return Ok(None);
    }
    // Nobody has read beyond the end, and a group that goes on there would miss what is written up to it. An offset that
    // is stored may lie there, after a log was lost; storing it once more changes nothing.
    let end = state.applied().next();
    if offset > end && !is_stored {
        return Err(beyond_end(offset, end));
    }
    let record = OffsetRecord::Commit { topic, group, offset, consumer, epoch, sequence };
    Checked::new(Kind::Offset, record.encode()).map(Some)
}

/// Sets the keep version.
pub(crate) fn keep_from(state: &VnodeState, from: Version, is_quiet: bool) -> Result<Option<Checked>> {
    if is_quiet && state.keep_version().is_some_and(|keep| keep.from == from) {
        return Ok(None);
    }
    Checked::new(Kind::Offset, OffsetRecord::Keep { from }.encode()).map(Some)
}

fn beyond_end(offset: Version, end: Version) -> Error {
    Error::with(Code::OffsetOutOfRange, format_args!("offset={offset} end={end}"))
        .hint(format!("the log ends at {end}: if it was cut after a crash, seek there to go on"))
}

/// Remembers where `latest` was: here. `Ok(None)` where there is an offset or a start already.
pub(crate) fn start(state: &VnodeState, topic: TopicId, group: &str, at: Version) -> Result<Option<Checked>> {
    let held = state.groups.get(topic, group);
    if held.is_some_and(|held| held.committed.is_some() || held.start.is_some()) {
        return Ok(None);
    }
    let record = OffsetRecord::Start { topic, group: group.to_owned(), at };
    Checked::new(Kind::Offset, record.encode()).map(Some)
}

pub(crate) fn drop_group(state: &VnodeState, topic: TopicId, group: &str) -> Result<Option<Checked>> {
    if state.groups.get(topic, group).is_none() {
        return Ok(None);
    }
    let record = OffsetRecord::DropGroup { topic, group: group.to_owned() };
    Checked::new(Kind::Offset, record.encode()).map(Some)
}
