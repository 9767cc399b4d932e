//! Errors across the wire: a gRPC status whose details are one [`ErrorDetail`].

use bytes::Bytes;
use model::{Code, Error, ErrorKind, Place};
use prost::Message as _;
use tonic::{Code as GrpcCode, Status};

use crate::v1::ErrorDetail;

/// The gRPC code that proxies and foreign clients understand best.
const fn grpc_code(kind: ErrorKind) -> GrpcCode {
    match kind {
        ErrorKind::Invalid => GrpcCode::InvalidArgument,
        ErrorKind::NotFound => GrpcCode::NotFound,
        ErrorKind::Exists => GrpcCode::AlreadyExists,
        ErrorKind::Denied => GrpcCode::PermissionDenied,
        ErrorKind::Busy | ErrorKind::State => GrpcCode::FailedPrecondition,
        ErrorKind::Unavailable => GrpcCode::Unavailable,
        ErrorKind::Limit => GrpcCode::ResourceExhausted,
        ErrorKind::Damaged => GrpcCode::DataLoss,
        ErrorKind::Unsupported => GrpcCode::Unimplemented,
        ErrorKind::Internal => GrpcCode::Internal,
    }
}

/// The error as a message's field.
#[must_use]
pub fn to_detail(error: &Error) -> ErrorDetail {
    ErrorDetail {
        code: u32::from(error.code().number()),
        message: error.message().to_owned(),
        hint: error.help().to_owned(),
        line: error.place().map_or(0, |place| place.line),
        column: error.place().map_or(0, |place| place.column),
    }
}

/// The error back from a message's field. A code that this side does not know becomes an internal error with its
/// number in the text.
#[must_use]
pub fn from_detail(detail: ErrorDetail) -> Error {
    let known = u16::try_from(detail.code).ok().and_then(Code::from_number);
    let error = match known {
        Some(code) => Error::text(code, detail.message),
        None => Error::internal(format!("{} (code {:#06x})", detail.message, detail.code)),
    };
    let error = match detail.line {
        0 => error,
        line => error.at(Place { line, column: detail.column }),
    };
    if detail.hint.is_empty() { error } else { error.hint(detail.hint) }
}

/// The error as a call's status.
#[must_use]
pub fn to_status(error: &Error) -> Status {
    let details = Bytes::from(to_detail(error).encode_to_vec());
    Status::with_details(grpc_code(error.code().kind()), error.to_string(), details)
}

/// The error back from a call's status; a status of the transport's own is a connection error, where it says so, else
/// an internal one.
#[must_use]
pub fn from_status(status: &Status) -> Error {
    if let Ok(detail) = ErrorDetail::decode(status.details())
        && detail.code != 0
    {
        return from_detail(detail);
    }
    let code = match status.code() {
        // A call that is cancelled without a word of the server's broke off with its connection: who cancels a call
        // does not see its status.
        GrpcCode::Unavailable | GrpcCode::Unknown | GrpcCode::DeadlineExceeded | GrpcCode::Cancelled => {
            Code::Unreachable
        }
        GrpcCode::Unauthenticated => Code::AuthFailure,
        GrpcCode::OutOfRange | GrpcCode::ResourceExhausted => Code::SqlTooLong,
        _ => Code::Internal,
    };
    Error::with(code, status.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_crosses_the_wire_whole() {
        let place = Place { line: 3, column: 7 };
        let error = Error::with(Code::TableNotExist, "zz").hint("look again").at(place);
        let back = from_status(&to_status(&error));
        assert_eq!((back.code(), back.message(), back.help()), (error.code(), error.message(), "look again"));
        assert_eq!(back.place(), Some(place));
    }

    #[test]
    fn every_code_crosses_the_wire() {
        for &code in Code::ALL {
            assert_eq!(from_status(&to_status(&Error::of(code))).code(), code);
        }
    }

    #[test]
    fn a_status_of_the_transport_is_a_connection_error() {
        for status in [Status::unavailable("gone"), Status::cancelled("operation was canceled")] {
            assert_eq!(from_status(&status).code(), Code::Unreachable);
        }
    }
}
