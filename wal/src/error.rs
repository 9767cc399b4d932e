use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::Version;

/// Result of a log operation.
pub type Result<T, E = WalError> = std::result::Result<T, E>;

/// What went wrong in the log. An I/O error is always [`WalError::Io`]: it is never reported as damage or as the end of
/// the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// The operating system refused an operation. The log is as it was before the call; a failed append has sealed the
    /// segment, and the next append starts another.
    #[error("{op} failed file={}", file.display())]
    Io {
        /// What was tried, as a verb phrase.
        op: &'static str,
        /// The file or directory concerned.
        file: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// Bytes on disk are not what was written. Nothing was changed; `wal verify` shows the extent.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A newer release wrote this file.
    #[error("log has a newer format file={} format={found} newest_known={known}; open it with the release that wrote it", file.display())]
    NewerFormat {
        /// The segment.
        file: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest format this build reads.
        known: u32,
    },
    /// An intact record of a kind that this build does not know.
    #[error("record kind is unknown file={} offset={offset} version={version} kind={kind} format={format}", file.display())]
    UnknownKind {
        /// The segment.
        file: PathBuf,
        /// Where the record's header starts.
        offset: u64,
        /// The record's version.
        version: Version,
        /// The kind's number.
        kind: u8,
        /// Format version of the segment.
        format: u32,
    },
    /// Versions are appended without gaps.
    #[error("append does not continue the log expected={expected} got={got}")]
    Gap {
        /// The version that must come next.
        expected: Version,
        /// The version that was offered.
        got: Version,
    },
    /// Receive times never fall along the log.
    #[error("record time falls version={version} time_ns={time_ns} previous_ns={previous_ns}")]
    TimeFalls {
        /// The version that the record would have had.
        version: Version,
        /// Its time.
        time_ns: i64,
        /// The time of the record before it.
        previous_ns: i64,
    },
    /// A body, or the whole batch, is larger than the format can hold.
    #[error("record is too large version={version} bytes={bytes} bytes_max={bytes_max}")]
    TooLarge {
        /// The version that the record would have had.
        version: Version,
        /// Its body's size.
        bytes: usize,
        /// The largest body allowed.
        bytes_max: usize,
    },
    /// Retention has deleted this version.
    #[error("version is no longer in the log version={version} first={first}")]
    Purged {
        /// The version asked for.
        version: Version,
        /// The first version that is still there.
        first: Version,
    },
    /// An fsync failed. What the page cache shows proves nothing about the disk, so nothing is written until
    /// [`Wal::heal`](crate::Wal::heal) has stored the doubtful records anew; reading goes on.
    #[error("log is read-only since a failed sync dir={}", dir.display())]
    Poisoned {
        /// The log's directory.
        dir: PathBuf,
    },
}

impl WalError {
    pub(crate) fn io(op: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { op, file: file.to_path_buf(), source }
    }

    /// Whether the disk, a quota or a file-size limit is exhausted: the write may succeed later.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::Io { source, .. } if crate::disk::is_out_of_space(source))
    }

    /// Whether bytes on disk are wrong, so that trying again cannot help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::NewerFormat { .. } | Self::UnknownKind { .. })
    }
}

/// A place in a segment where the bytes are not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("log is damaged: {what} file={} offset={offset} version={version}", file.display())]
pub struct Damage {
    /// The segment.
    pub file: PathBuf,
    /// Byte offset of the header concerned.
    pub offset: u64,
    /// The version that is expected there.
    pub version: Version,
    /// What is wrong.
    pub what: Fault,
}

/// What is wrong with a block or a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The segment header is not one, or its checksum fails.
    SegmentHeader,
    /// The segment header names another first version than the file name.
    SegmentName,
    /// The segment does not continue the one before it: a segment is missing or was exchanged.
    SegmentLink,
    /// A segment is not there, and neither retention nor a reset took it away.
    Missing,
    /// The file that tells where retention lets the log begin is not one, or its checksum fails.
    Retained,
    /// The file ends before its records do.
    Truncated,
    /// No record header stands where one must.
    Magic,
    /// The checksum of a record header fails.
    HeaderCrc,
    /// An intact header, but not the successor of the one before it.
    Chain,
    /// An intact header with another version than its place demands.
    Version,
    /// The checksum of a body fails.
    BodyCrc,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SegmentHeader => "segment header is not valid",
            Self::SegmentName => "segment header and file name disagree",
            Self::SegmentLink => "segment does not continue the one before it",
            Self::Missing => "segment is missing",
            Self::Retained => "record of what retention deleted is not valid",
            Self::Truncated => "file ends before its records do",
            Self::Magic => "no record header here",
            Self::HeaderCrc => "record header fails its checksum",
            Self::Chain => "record does not follow the one before it",
            Self::Version => "record has another version than its place",
            Self::BodyCrc => "record body fails its checksum",
        })
    }
}
