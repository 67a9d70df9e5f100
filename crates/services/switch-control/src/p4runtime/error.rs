//! Errors as P4Runtime reports them: a canonical code, a message with its place, and the switch's own number.
//!
//! A batch gives one `p4.v1.Error` per update, packed into the RPC status' details (specification, "Error Reporting
//! Messages").

use super::message::{Error, RpcStatus};
use crate::p4info::types::Any;
use barewire_switch::control::{ControlError, ErrorKind};
use prost::Message;
use tonic::{Code, Status};

/// The name of the space that [`Error::code`] is drawn from.
const SPACE: &str = "barewire-switch";
/// Details longer than this lose their texts, so that the status still reaches a client with default limits (8 KiB of
/// metadata, base64).
const MAX_DETAILS: usize = 5_600;

/// A refused operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct P4Error {
    /// The canonical code.
    pub code: Code,
    /// What, with its place.
    pub message: String,
    /// The switch's own kind of error; 0 for none.
    pub kind: i32,
}

pub(super) type Result<T> = std::result::Result<T, P4Error>;

impl P4Error {
    /// An error with a code.
    pub fn new(code: Code, message: impl Into<String>) -> P4Error {
        P4Error { code, message: message.into(), kind: 0 }
    }

    /// The same error, said of something.
    pub fn at(mut self, place: &str) -> P4Error {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

pub(super) fn invalid(message: impl Into<String>) -> P4Error {
    P4Error::new(Code::InvalidArgument, message)
}

pub(super) fn not_found(message: impl Into<String>) -> P4Error {
    P4Error::new(Code::NotFound, message)
}

pub(super) fn unimplemented(message: impl Into<String>) -> P4Error {
    P4Error::new(Code::Unimplemented, message)
}

pub(super) fn denied(message: impl Into<String>) -> P4Error {
    P4Error::new(Code::PermissionDenied, message)
}

impl From<ControlError> for P4Error {
    fn from(error: ControlError) -> P4Error {
        use ErrorKind::*;
        let code = match error.kind {
            TableFull => Code::ResourceExhausted,
            DuplicateEntry | MemberAlreadyInGroup => Code::AlreadyExists,
            InvalidHandle
            | ExpiredHandle
            | InvalidMember
            | InvalidGroup
            | MemberNotInGroup
            | NoDefaultEntry
            | InvalidMulticastGroup
            | InvalidSession
            | InvalidL1Handle => Code::NotFound,
            MemberStillUsed | GroupStillUsed | OngoingSwap | NoOngoingSwap | SwapDisabled => {
                Code::FailedPrecondition
            }
            DefaultActionIsConst | DefaultEntryIsConst | ImmutableTableEntries => Code::PermissionDenied,
            InvalidIndex => Code::OutOfRange,
            Unavailable => Code::Unavailable,
            Overtaken => Code::Aborted,
            Other => Code::Internal,
            _ => Code::InvalidArgument,
        };
        // Kinds have no payload; their order is that of the enumeration.
        P4Error { code, message: error.message, kind: error.kind as i32 + 1 }
    }
}

impl From<P4Error> for Status {
    fn from(error: P4Error) -> Status {
        Status::new(error.code, error.message)
    }
}

/// The status of a batch of which at least one element failed: one detail for each element.
pub(super) fn batch_status(what: &str, results: &[Result<()>]) -> Status {
    let failed = results.iter().filter(|result| result.is_err()).count();
    let first = results.iter().enumerate().find_map(|(at, result)| Some((at, result.as_ref().err()?)));
    let message = match first {
        Some((at, error)) => {
            format!("{what}: {failed} of {} failed; number {}: {error}", results.len(), at + 1)
        }
        None => what.to_owned(),
    };
    let encode = |texts: bool| {
        let details = results
            .iter()
            .map(|result| {
                let error = match result {
                    Ok(()) => Error::default(),
                    Err(error) => Error {
                        canonical_code: error.code as i32,
                        message: if texts { error.message.clone() } else { String::new() },
                        space: if texts { SPACE.to_owned() } else { String::new() },
                        code: error.kind,
                        details: None,
                    },
                };
                Any { type_url: "type.googleapis.com/p4.v1.Error".into(), value: error.encode_to_vec() }
            })
            .collect();
        RpcStatus { code: Code::Unknown as i32, message: message.clone(), details }.encode_to_vec()
    };
    let mut details = encode(true);
    if details.len() > MAX_DETAILS {
        details = encode(false);
    }
    Status::with_details(Code::Unknown, message, details.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_update_has_its_detail_in_order() {
        let status = batch_status("write", &[Ok(()), Err(not_found("no such entry")), Ok(())]);
        assert_eq!(status.code(), Code::Unknown);
        let details = RpcStatus::decode(status.details()).unwrap();
        let codes: Vec<i32> =
            details.details.iter().map(|any| Error::decode(&any.value[..]).unwrap().canonical_code).collect();
        assert_eq!(codes, [0, 5, 0]);
        assert_eq!((details.code, details.message.as_str()), (2, status.message()));
    }

    #[test]
    fn many_errors_lose_their_texts_but_not_their_number() {
        let results: Vec<Result<()>> = (0..100).map(|_| Err(invalid("x".repeat(200)))).collect();
        let details = RpcStatus::decode(batch_status("write", &results).details()).unwrap();
        assert_eq!(details.details.len(), 100);
        assert!(details.encoded_len() < 8_192 * 3 / 4);
    }
}
