//! Codes, their texts, and which failure has which.

use crate::boundary::Failure;
use barewire_client::{AttachError, CloseWaitError, ConnectFailure, ConnectWaitError, SendError, WaitError};
use std::ffi::{CStr, c_int};

/// Success.
pub const BW_OK: c_int = 0;
/// An argument is null or out of range.
pub const BW_ERR_INVALID: c_int = -1;
/// Not a client, or already freed.
pub const BW_ERR_HANDLE: c_int = -2;
/// Another thread is inside a long call on this client: bw_connect_wait, bw_listen_wait, bw_close_wait; or a thread
/// waits in bw_wait_event, and this call cannot run at the same time.
pub const BW_ERR_BUSY: c_int = -3;
/// Memory or ring is full for now, or the flow has its share of them: take events, and try again after BW_EVENT_WRITABLE.
pub const BW_ERR_AGAIN: c_int = -4;
/// The message is above 64 MiB, or larger than the channel's memory.
pub const BW_ERR_TOO_LARGE: c_int = -5;
/// No such flow, or it has ended.
pub const BW_ERR_NO_FLOW: c_int = -6;
/// The flow is closing.
pub const BW_ERR_CLOSING: c_int = -7;
/// The daemon is gone, or the client is that of a parent process: free the client, and attach again when the daemon is back.
pub const BW_ERR_DAEMON_GONE: c_int = -8;
/// Timed out.
pub const BW_ERR_TIMED_OUT: c_int = -9;
/// Interrupted by a signal, whose handler has run.
pub const BW_ERR_INTERRUPTED: c_int = -10;
/// The daemon cannot be reached, or does not answer.
pub const BW_ERR_NO_DAEMON: c_int = -11;
/// The daemon refused: not permitted, or full.
pub const BW_ERR_NOT_ADMITTED: c_int = -12;
/// Library and daemon are of different releases.
pub const BW_ERR_PROTOCOL: c_int = -13;
/// The UDP port is taken by another listener, or the user listens on as many as the daemon allows one.
pub const BW_ERR_PORT_TAKEN: c_int = -14;
/// Nobody listens on that UDP port there.
pub const BW_ERR_REFUSED: c_int = -15;
/// The other side, or this one, has no room for another flow.
pub const BW_ERR_TABLE_FULL: c_int = -16;
/// The peer did not answer.
pub const BW_ERR_NO_ANSWER: c_int = -17;
/// The next hop does not answer, or there is no route.
pub const BW_ERR_UNREACHABLE: c_int = -18;
/// This side gave up the connection attempt.
pub const BW_ERR_CANCELLED: c_int = -19;
/// The process has 1024 clients already, or the client as many unanswered requests as bw_requests was told.
pub const BW_ERR_TOO_MANY: c_int = -20;
/// A system call failed.
pub const BW_ERR_SYSTEM: c_int = -21;
/// A bug in the library: the call was cut short. Free the client.
pub const BW_ERR_PANIC: c_int = -22;
/// Flows ended before all messages had arrived.
pub const BW_ERR_LOST: c_int = -23;
/// The keys or the rules of the two hosts do not let the flow open: bw_last_error says which.
pub const BW_ERR_SECURITY: c_int = -24;

// What the boundary calls them.
pub(crate) use self::{BW_ERR_INVALID as INVALID, BW_ERR_PANIC as PANIC};

/// The text of a code.
pub(crate) fn text_of(code: c_int) -> &'static CStr {
    match code {
        BW_OK => c"no error",
        BW_ERR_INVALID => c"an argument is null or out of its range",
        BW_ERR_HANDLE => c"that is no client, or no longer",
        BW_ERR_BUSY => c"another thread is inside a call on this client",
        BW_ERR_AGAIN => c"full for now: take events, and retry when one says writable",
        BW_ERR_TOO_LARGE => c"the message is too large",
        BW_ERR_NO_FLOW => c"no such flow",
        BW_ERR_CLOSING => c"the flow is closing",
        BW_ERR_DAEMON_GONE => c"the daemon is gone",
        BW_ERR_TIMED_OUT => c"no answer in time",
        BW_ERR_INTERRUPTED => c"interrupted by a signal",
        BW_ERR_NO_DAEMON => c"the daemon cannot be reached",
        BW_ERR_NOT_ADMITTED => c"the daemon refused",
        BW_ERR_PROTOCOL => c"library and daemon are of different releases",
        BW_ERR_PORT_TAKEN => c"the UDP port is taken",
        BW_ERR_REFUSED => c"refused: nobody listens there",
        BW_ERR_TABLE_FULL => c"no room for another flow",
        BW_ERR_NO_ANSWER => c"the peer does not answer",
        BW_ERR_UNREACHABLE => c"the next hop does not answer, or there is no route",
        BW_ERR_CANCELLED => c"given up here",
        BW_ERR_TOO_MANY => c"too many clients, or too many unanswered requests",
        BW_ERR_SYSTEM => c"a system call failed",
        BW_ERR_PANIC => c"a bug in the library",
        BW_ERR_LOST => c"flows ended before all messages had arrived",
        BW_ERR_SECURITY => c"keys or rules do not let the flow open",
        _ => c"unknown code",
    }
}

impl From<crate::table::Miss> for Failure {
    fn from(miss: crate::table::Miss) -> Failure {
        match miss {
            crate::table::Miss::Nobody => BW_ERR_HANDLE,
            crate::table::Miss::Busy => BW_ERR_BUSY,
            crate::table::Miss::Broken => BW_ERR_PANIC,
        }
        .into()
    }
}

impl From<SendError> for Failure {
    fn from(e: SendError) -> Failure {
        match e {
            SendError::WouldBlock => BW_ERR_AGAIN,
            SendError::TooLarge => BW_ERR_TOO_LARGE,
            SendError::NoSuchFlow => BW_ERR_NO_FLOW,
            SendError::Closing => BW_ERR_CLOSING,
            SendError::DaemonGone => BW_ERR_DAEMON_GONE,
            SendError::NotOurs => BW_ERR_INVALID,
            _ => BW_ERR_SYSTEM,
        }
        .into()
    }
}

impl From<WaitError> for Failure {
    fn from(e: WaitError) -> Failure {
        match e {
            WaitError::DaemonGone => BW_ERR_DAEMON_GONE.into(),
            WaitError::Io(e) if e.kind() == std::io::ErrorKind::Interrupted => BW_ERR_INTERRUPTED.into(),
            e => Failure::new(BW_ERR_SYSTEM, e.to_string()),
        }
    }
}

impl From<ConnectWaitError> for Failure {
    fn from(e: ConnectWaitError) -> Failure {
        match e {
            ConnectWaitError::Failed(why) => match why {
                ConnectFailure::Refused => BW_ERR_REFUSED,
                ConnectFailure::TableFull => BW_ERR_TABLE_FULL,
                ConnectFailure::TimedOut => BW_ERR_NO_ANSWER,
                ConnectFailure::Unreachable => BW_ERR_UNREACHABLE,
                ConnectFailure::SecurityRequired
                | ConnectFailure::NotTrusted
                | ConnectFailure::WrongKey
                | ConnectFailure::Insecure
                | ConnectFailure::PeerNotTrusted
                | ConnectFailure::NotPermitted => return Failure::new(BW_ERR_SECURITY, why.to_string()),
                _ => BW_ERR_CANCELLED,
            }
            .into(),
            ConnectWaitError::TimedOut => BW_ERR_TIMED_OUT.into(),
            ConnectWaitError::WouldBlock => BW_ERR_AGAIN.into(),
            ConnectWaitError::Wait(e) => e.into(),
            e => Failure::new(BW_ERR_SYSTEM, e.to_string()),
        }
    }
}

impl From<CloseWaitError> for Failure {
    fn from(e: CloseWaitError) -> Failure {
        let code = match e {
            CloseWaitError::TimedOut { .. } => BW_ERR_TIMED_OUT,
            CloseWaitError::Lost { .. } => BW_ERR_LOST,
            CloseWaitError::Wait(e) => return e.into(),
            _ => BW_ERR_SYSTEM,
        };
        Failure::new(code, e.to_string())
    }
}

impl From<AttachError> for Failure {
    fn from(e: AttachError) -> Failure {
        let code = match &e {
            AttachError::Control(_) | AttachError::TimedOut => BW_ERR_NO_DAEMON,
            AttachError::Refused { .. } => BW_ERR_NOT_ADMITTED,
            AttachError::Wait(_) | AttachError::Engine { .. } => BW_ERR_SYSTEM,
            AttachError::Place { .. } => BW_ERR_INVALID,
            _ => BW_ERR_PROTOCOL,
        };
        match e.hint() {
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
        let mut texts: Vec<_> = (BW_ERR_SECURITY..=BW_OK).map(text_of).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 25);
        assert!(!texts.contains(&c"unknown code"));
        for code in [1, BW_ERR_SECURITY - 1, c_int::MIN, c_int::MAX] {
            assert_eq!(text_of(code), c"unknown code");
        }
    }
}
