//! Codes, their texts, and the panic boundary.

use barewire_client::{AttachError, ConnectFailure, ConnectWaitError, SendError, WaitError};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// It worked.
pub const BW_OK: c_int = 0;
/// An argument is null or out of its range.
pub const BW_ERR_INVALID: c_int = -1;
/// That is no client, or no longer.
pub const BW_ERR_HANDLE: c_int = -2;
/// Another thread is inside a call on this client.
pub const BW_ERR_BUSY: c_int = -3;
/// Memory or ring is full for now: take events, and try again.
pub const BW_ERR_AGAIN: c_int = -4;
/// The message is above 64 MiB, or larger than the channel's memory.
pub const BW_ERR_TOO_LARGE: c_int = -5;
/// No such flow, or no longer.
pub const BW_ERR_NO_FLOW: c_int = -6;
/// The flow is closing.
pub const BW_ERR_CLOSING: c_int = -7;
/// The daemon is gone: free the client, and attach again when the daemon is back.
pub const BW_ERR_DAEMON_GONE: c_int = -8;
/// The time-out came first.
pub const BW_ERR_TIMED_OUT: c_int = -9;
/// A signal came.
pub const BW_ERR_INTERRUPTED: c_int = -10;
/// The daemon cannot be reached, or does not answer.
pub const BW_ERR_NO_DAEMON: c_int = -11;
/// The daemon said no: not permitted, or full.
pub const BW_ERR_NOT_ADMITTED: c_int = -12;
/// Library and daemon are of different releases.
pub const BW_ERR_PROTOCOL: c_int = -13;
/// The UDP port is taken by another listener.
pub const BW_ERR_PORT_TAKEN: c_int = -14;
/// Nobody listens on that UDP port there.
pub const BW_ERR_REFUSED: c_int = -15;
/// The other side, or this one, has no room for another flow.
pub const BW_ERR_TABLE_FULL: c_int = -16;
/// The peer did not answer.
pub const BW_ERR_NO_ANSWER: c_int = -17;
/// The next hop does not answer, or there is no route.
pub const BW_ERR_UNREACHABLE: c_int = -18;
/// The connection attempt was given up here.
pub const BW_ERR_CANCELLED: c_int = -19;
/// The process has 1024 clients already.
pub const BW_ERR_TOO_MANY: c_int = -20;
/// A system call failed.
pub const BW_ERR_SYSTEM: c_int = -21;
/// A bug in the library: the call was cut short. Free the client.
pub const BW_ERR_PANIC: c_int = -22;

/// The text of a code.
pub(crate) fn text_of(code: c_int) -> &'static CStr {
    match code {
        BW_OK => c"no error",
        BW_ERR_INVALID => c"an argument is null or out of its range",
        BW_ERR_HANDLE => c"that is no client, or no longer",
        BW_ERR_BUSY => c"another thread is inside a call on this client",
        BW_ERR_AGAIN => c"full for now: take events, and try again",
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
        BW_ERR_TOO_MANY => c"the process has too many clients",
        BW_ERR_SYSTEM => c"a system call failed",
        BW_ERR_PANIC => c"a bug in the library",
        _ => c"unknown code",
    }
}

/// Why an entry fails: a code, and more about it where there is more to say.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: c_int,
    more: Option<Box<str>>,
}

impl Failure {
    pub(crate) fn new(code: c_int, more: impl Into<Box<str>>) -> Failure {
        Failure { code, more: Some(more.into()) }
    }
}

/// A bare code: nothing is allocated, for what is routine.
impl From<c_int> for Failure {
    fn from(code: c_int) -> Failure {
        Failure { code, more: None }
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

impl From<AttachError> for Failure {
    fn from(e: AttachError) -> Failure {
        let code = match &e {
            AttachError::Control(_) | AttachError::TimedOut => BW_ERR_NO_DAEMON,
            AttachError::Refused { .. } => BW_ERR_NOT_ADMITTED,
            AttachError::Wait(_) => BW_ERR_SYSTEM,
            _ => BW_ERR_PROTOCOL,
        };
        match e.hint() {
            Some(hint) => Failure::new(code, format!("{e}; {hint}")),
            None => Failure::new(code, e.to_string()),
        }
    }
}

enum Last {
    Code(c_int),
    Text(CString),
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last::Code(BW_OK)) };
}

fn remember(failure: Failure) -> c_int {
    let last = match failure.more {
        // A zero byte would end the text early in C: up to there, then.
        Some(more) => Last::Text(CString::new(more.split('\0').next().unwrap_or("")).unwrap_or_default()),
        None => Last::Code(failure.code),
    };
    // A thread that is ending has no last error any more.
    let _ = LAST.try_with(|l| l.replace(last));
    failure.code
}

/// The text of this thread's last failure, valid until its next.
pub(crate) fn last_text() -> *const c_char {
    LAST.try_with(|l| match &*l.borrow() {
        Last::Code(code) => text_of(*code).as_ptr(),
        Last::Text(text) => text.as_ptr(),
    })
    .unwrap_or(text_of(BW_OK).as_ptr())
}

/// The panic boundary: what C gets is a number, whatever happens inside.
#[inline]
pub(crate) fn guard(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    // A panic under a client's lock breaks that client, so nothing half done is seen afterwards.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => remember(failure),
        Err(thrown) => {
            let more = thrown.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let more = more.or_else(|| thrown.downcast_ref::<String>().cloned()).unwrap_or_default();
            // What was thrown may throw again when it is dropped.
            std::mem::forget(thrown);
            remember(Failure::new(BW_ERR_PANIC, format!("a bug in the library: {more}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_panic_leaves_and_its_text_stays() {
        assert_eq!(guard(|| panic!("on {}", "purpose")), BW_ERR_PANIC);
        // SAFETY: `last_text` gives a C string that lives until this thread's next failure.
        let text = unsafe { CStr::from_ptr(last_text()) };
        assert_eq!(text, c"a bug in the library: on purpose");
        assert_eq!(guard(|| Ok(7)), 7);
        assert_eq!(guard(|| Err(Failure::new(BW_ERR_SYSTEM, "one\0two"))), BW_ERR_SYSTEM);
        // SAFETY: as above.
        assert_eq!(unsafe { CStr::from_ptr(last_text()) }, c"one");
    }

    #[test]
    fn every_code_has_its_own_text() {
        let mut texts: Vec<_> = (BW_ERR_PANIC..=BW_OK).map(text_of).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 23);
        assert!(!texts.contains(&c"unknown code"));
        for code in [1, BW_ERR_PANIC - 1, c_int::MIN, c_int::MAX] {
            assert_eq!(text_of(code), c"unknown code");
        }
    }
}
