//! Codes, their texts, and which failure has which.

use crate::boundary::Failure;
use barewire_channel as channel;
use barewire_verbs::context::{AttachError, ContextError, NotConnected, Refusal};
use std::ffi::{CStr, c_int};

/// Success.
pub const BWV_OK: c_int = 0;
/// An argument is null or out of range.
pub const BWV_ERR_INVALID: c_int = -1;
/// Not a context, or already closed.
pub const BWV_ERR_HANDLE: c_int = -2;
/// Another thread is inside a call on this context.
pub const BWV_ERR_BUSY_CONTEXT: c_int = -3;
/// The ring of requests is full: poll, and try again.
pub const BWV_ERR_AGAIN: c_int = -4;
/// The context has no such object, or it has been destroyed.
pub const BWV_ERR_UNKNOWN: c_int = -5;
/// Something still uses the object.
pub const BWV_ERR_IN_USE: c_int = -6;
/// The daemon's device is full.
pub const BWV_ERR_LIMIT: c_int = -7;
/// This application has as many as the daemon allows it; bwv_last_error says which, and where to change it.
pub const BWV_ERR_QUOTA: c_int = -8;
/// The queue has no room.
pub const BWV_ERR_QUEUE_FULL: c_int = -9;
/// The object is in another state.
pub const BWV_ERR_STATE: c_int = -10;
/// Somebody listens on that service id already.
pub const BWV_ERR_LISTENING: c_int = -11;
/// More private data than the message carries.
pub const BWV_ERR_PRIVATE_DATA: c_int = -12;
/// The queue pair is not a new one, or belongs to another connection.
pub const BWV_ERR_QUEUE_PAIR: c_int = -13;
/// The channel has no such piece of memory left.
pub const BWV_ERR_NO_MEMORY: c_int = -14;
/// The next hop does not answer, or there is no route.
pub const BWV_ERR_UNREACHABLE: c_int = -15;
/// The peer refused the connection.
pub const BWV_ERR_REJECTED: c_int = -16;
/// The peer does not answer the connection manager, or answers nonsense.
pub const BWV_ERR_NO_ANSWER: c_int = -17;
/// The connection has ended.
pub const BWV_ERR_DISCONNECTED: c_int = -18;
/// Timed out.
pub const BWV_ERR_TIMED_OUT: c_int = -19;
/// The daemon is gone: close the context, and open one again when the daemon is back.
pub const BWV_ERR_DAEMON_GONE: c_int = -20;
/// The daemon cannot be reached, or does not answer.
pub const BWV_ERR_NO_DAEMON: c_int = -21;
/// The daemon refused: not permitted, or full.
pub const BWV_ERR_NOT_ADMITTED: c_int = -22;
/// The daemon does no RDMA.
pub const BWV_ERR_NO_RDMA: c_int = -23;
/// Library and daemon are of different releases.
pub const BWV_ERR_PROTOCOL: c_int = -24;
/// The process has 1024 contexts already.
pub const BWV_ERR_TOO_MANY: c_int = -25;
/// A system call failed.
pub const BWV_ERR_SYSTEM: c_int = -26;
/// A bug in the library: the call was cut short. Close the context.
pub const BWV_ERR_PANIC: c_int = -27;
/// The completion queue has lost completions: make a new one, and take completions in time.
pub const BWV_ERR_CQ: c_int = -28;
/// The completion queue has fewer entries than the queue pair has room for receive requests.
pub const BWV_ERR_CQ_TOO_SMALL: c_int = -29;

// What the boundary calls them.
pub(crate) use self::{BWV_ERR_INVALID as INVALID, BWV_ERR_PANIC as PANIC};

/// The text of a code.
pub(crate) fn text_of(code: c_int) -> &'static CStr {
    match code {
        BWV_OK => c"no error",
        BWV_ERR_INVALID => c"an argument is null or out of its range",
        BWV_ERR_HANDLE => c"that is no context, or no longer",
        BWV_ERR_BUSY_CONTEXT => c"another thread is inside a call on this context",
        BWV_ERR_AGAIN => c"the ring of requests is full: poll, and try again",
        BWV_ERR_UNKNOWN => c"no such object, or it has been destroyed",
        BWV_ERR_IN_USE => c"it is still in use",
        BWV_ERR_LIMIT => c"the daemon's device is full",
        BWV_ERR_QUOTA => c"this application has as many as the daemon allows it",
        BWV_ERR_QUEUE_FULL => c"the queue is full",
        BWV_ERR_STATE => c"not in this state",
        BWV_ERR_LISTENING => c"another listener has that service id already",
        BWV_ERR_PRIVATE_DATA => c"more private data than the message has room for",
        BWV_ERR_QUEUE_PAIR => c"the queue pair is not a new one, or belongs to another connection",
        BWV_ERR_NO_MEMORY => c"the channel has no such piece of memory left",
        BWV_ERR_UNREACHABLE => c"the next hop does not answer, or there is no route",
        BWV_ERR_REJECTED => c"the peer refused the connection",
        BWV_ERR_NO_ANSWER => c"the peer does not answer",
        BWV_ERR_DISCONNECTED => c"the connection has ended",
        BWV_ERR_TIMED_OUT => c"not in time",
        BWV_ERR_DAEMON_GONE => c"the daemon is gone",
        BWV_ERR_NO_DAEMON => c"the daemon cannot be reached",
        BWV_ERR_NOT_ADMITTED => c"the daemon refused",
        BWV_ERR_NO_RDMA => c"the daemon does no RDMA",
        BWV_ERR_PROTOCOL => c"library and daemon are of different releases",
        BWV_ERR_TOO_MANY => c"the process has too many contexts",
        BWV_ERR_SYSTEM => c"a system call failed",
        BWV_ERR_PANIC => c"a bug in the library",
        BWV_ERR_CQ => c"the completion queue has lost completions",
        BWV_ERR_CQ_TOO_SMALL => {
            c"the completion queue has fewer entries than the queue pair has receive requests"
        }
        _ => c"unknown code",
    }
}

/// The code of a refusal.
pub(crate) fn refusal_code(refusal: Refusal) -> c_int {
    match refusal {
        Refusal::Unknown => BWV_ERR_UNKNOWN,
        Refusal::Busy => BWV_ERR_IN_USE,
        Refusal::Limit => BWV_ERR_LIMIT,
        Refusal::Quota { .. } => BWV_ERR_QUOTA,
        Refusal::QueueFull => BWV_ERR_QUEUE_FULL,
        Refusal::State => BWV_ERR_STATE,
        Refusal::NoRdma => BWV_ERR_NO_RDMA,
        Refusal::InUse => BWV_ERR_LISTENING,
        Refusal::PrivateData => BWV_ERR_PRIVATE_DATA,
        Refusal::QueuePair => BWV_ERR_QUEUE_PAIR,
        Refusal::Invalid => BWV_ERR_INVALID,
        Refusal::CqError => BWV_ERR_CQ,
        Refusal::CqTooSmall => BWV_ERR_CQ_TOO_SMALL,
        Refusal::NotPermitted => BWV_ERR_NOT_ADMITTED,
        _ => BWV_ERR_PROTOCOL,
    }
}

/// The code of why there is no connection.
pub(crate) fn not_connected_code(why: NotConnected) -> c_int {
    match ContextError::from(why) {
        ContextError::Rejected(_) => BWV_ERR_REJECTED,
        ContextError::Unreachable => BWV_ERR_UNREACHABLE,
        ContextError::Refused(refusal) => refusal_code(refusal),
        _ => BWV_ERR_NO_ANSWER,
    }
}

impl From<crate::table::Miss> for Failure {
    fn from(miss: crate::table::Miss) -> Failure {
        match miss {
            crate::table::Miss::Nobody => BWV_ERR_HANDLE,
            crate::table::Miss::Busy => BWV_ERR_BUSY_CONTEXT,
            crate::table::Miss::Broken => BWV_ERR_PANIC,
        }
        .into()
    }
}

impl From<ContextError> for Failure {
    fn from(e: ContextError) -> Failure {
        match e {
            // What is routine allocates nothing.
            ContextError::Again => BWV_ERR_AGAIN.into(),
            ContextError::TimedOut => BWV_ERR_TIMED_OUT.into(),
            ContextError::DaemonGone => BWV_ERR_DAEMON_GONE.into(),
            ContextError::Invalid => BWV_ERR_INVALID.into(),
            ContextError::Disconnected => BWV_ERR_DISCONNECTED.into(),
            ContextError::Unreachable => BWV_ERR_UNREACHABLE.into(),
            ContextError::Refused(refusal) => Failure::new(refusal_code(refusal), refusal.to_string()),
            ContextError::NoMemory(_) => Failure::new(BWV_ERR_NO_MEMORY, e.to_string()),
            ContextError::Rejected(_) => Failure::new(BWV_ERR_REJECTED, e.to_string()),
            ContextError::NoAnswer | ContextError::BadReply => Failure::new(BWV_ERR_NO_ANSWER, e.to_string()),
            e => Failure::new(BWV_ERR_SYSTEM, e.to_string()),
        }
    }
}

impl From<AttachError> for Failure {
    fn from(e: AttachError) -> Failure {
        let (code, hint) = match &e {
            AttachError::Attach(channel::AttachError::Control(control)) => {
                (BWV_ERR_NO_DAEMON, control.hint().map(str::to_owned))
            }
            AttachError::Attach(channel::AttachError::TimedOut) => (BWV_ERR_NO_DAEMON, None),
            AttachError::Attach(channel::AttachError::Refused { hint, .. }) => {
                (BWV_ERR_NOT_ADMITTED, Some(hint.clone()))
            }
            AttachError::NoRdma => (BWV_ERR_NO_RDMA, None),
            AttachError::Attach(channel::AttachError::Wait(_)) => (BWV_ERR_SYSTEM, None),
            _ => (BWV_ERR_PROTOCOL, None),
        };
        match hint {
            Some(hint) => Failure::new(code, format!("{e}; {hint}")),
            None => Failure::new(code, e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_text() {
        let mut texts: Vec<_> = (BWV_ERR_CQ_TOO_SMALL..=BWV_OK).map(text_of).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 30);
        assert!(!texts.contains(&c"unknown code"));
        for code in [1, BWV_ERR_CQ_TOO_SMALL - 1, c_int::MIN, c_int::MAX] {
            assert_eq!(text_of(code), c"unknown code");
        }
    }
}
