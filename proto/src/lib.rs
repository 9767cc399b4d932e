//! Wire contracts: the gRPC services (generated from `proto/tidemark/v1/tidemark.proto`) and the columnar frame that
//! carries rows in them and in the log.
//!
//! Not for: deciding what a request means.

pub mod convert;
pub mod frame;
pub mod keys;
pub mod size;
pub mod status;
pub mod write;

/// Generated from `proto/tidemark/v1/tidemark.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
#[allow(clippy::cast_possible_truncation, clippy::disallowed_methods)]
pub mod v1 {
    tonic::include_proto!("tidemark.v1");
}

/// Longest gRPC message that server and client accept, in bytes. A statement is at most 64 MiB, a columnar write or a
/// message of one log record may be larger than a statement.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;
