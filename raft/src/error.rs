//! From the log's and openraft's errors to the one table of codes.

use model::{Code, Error};
use openraft::AnyError;
use openraft::error::Fatal;
use wal::WalError;

use crate::types::{StorageError, StorageIOError};

/// What a user is told about an error of the log.
pub(crate) fn of_wal(error: WalError) -> Error {
    let code = match &error {
        e if e.is_out_of_space() => Code::NoDiskSpace,
        WalError::Io { .. } | WalError::Poisoned { .. } => Code::Io,
        WalError::Damaged(_) => Code::Damaged,
        WalError::NewerFormat { .. } | WalError::UnknownKind { .. } => Code::NewerFormat,
        WalError::TooLarge { .. } => Code::SqlTooLong,
        WalError::Purged { .. } => Code::OutOfRange,
        _ => Code::Internal,
    };
    Error::with(code, &error).caused_by(error)
}

/// What a user is told about an I/O error of one of the group's own files.
pub(crate) fn of_io(what: &str, error: std::io::Error) -> Error {
    let code = if wal::is_out_of_space(&error) { Code::NoDiskSpace } else { Code::Io };
    Error::with(code, format_args!("{what}: {error}")).caused_by(error)
}

/// Why openraft's core ended.
pub(crate) fn of_fatal(error: Fatal<u64>) -> Error {
    match error {
        Fatal::StorageError(e) => Error::with(Code::Io, &e).caused_by(e),
        Fatal::Stopped => Error::with(Code::ShuttingDown, "raft group has stopped"),
        Fatal::Panicked => Error::internal("raft core panicked"),
    }
}

/// A blocking task that did not come to its end.
pub(crate) fn of_join(error: tokio::task::JoinError) -> Error {
    Error::internal("blocking task failed").caused_by(error)
}

/// An error of ours as openraft takes it: it ends the core.
pub(crate) fn to_write_error(error: &Error) -> StorageError {
    StorageIOError::write_logs(AnyError::new(error)).into()
}

/// As [`to_write_error`], for reads.
pub(crate) fn to_read_error(error: &Error) -> StorageError {
    StorageIOError::read_logs(AnyError::new(error)).into()
}

/// As [`to_write_error`], for votes.
pub(crate) fn to_vote_error(error: &Error) -> StorageError {
    StorageIOError::write_vote(AnyError::new(error)).into()
}
