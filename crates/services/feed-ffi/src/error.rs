//! Codes, their texts, and which failure has which.

use crate::boundary::Failure;
use crate::table::Miss;
use barewire_feed_handler::{ConfigError, SourceError};
use std::ffi::{CStr, c_int};

/// Success. Of a run or a replay: there is nothing more to come.
pub const BWF_OK: c_int = 0;
/// A run or a replay ended because bwf_stop was called.
pub const BWF_STOPPED: c_int = 1;
/// A run ended because its time was over.
pub const BWF_TIMED_OUT: c_int = 2;
/// An argument is null or out of range.
pub const BWF_ERR_INVALID: c_int = -1;
/// Not a feed handler, already closed, or of the process that this one was forked from.
pub const BWF_ERR_HANDLE: c_int = -2;
/// Another thread is inside a call on this handler.
pub const BWF_ERR_BUSY: c_int = -3;
/// This thread is inside a callback of this handler, where no calls on it are possible but bwf_stop.
pub const BWF_ERR_REENTRANT: c_int = -4;
/// The handler belongs to the thread that opened it.
pub const BWF_ERR_THREAD: c_int = -5;
/// A structure's `size` is not what this library knows.
pub const BWF_ERR_VERSION: c_int = -6;
/// The configuration was refused; bwf_last_error says where and why.
pub const BWF_ERR_CONFIG: c_int = -7;
/// Packets cannot be received: an interface, a socket, a port.
pub const BWF_ERR_SOURCE: c_int = -8;
/// A capture is damaged, or cannot be read.
pub const BWF_ERR_CAPTURE: c_int = -9;
/// No such feed channel in the configuration.
pub const BWF_ERR_NO_CHANNEL: c_int = -10;
/// No such instrument, or none yet.
pub const BWF_ERR_NO_INSTRUMENT: c_int = -11;
/// A handler that receives does not replay, and one that replays (BWF_OFFLINE) does not receive.
pub const BWF_ERR_MODE: c_int = -12;
/// The process has 1024 handlers already.
pub const BWF_ERR_TOO_MANY: c_int = -13;
/// A system call failed.
pub const BWF_ERR_SYSTEM: c_int = -14;
/// A bug in the library: the call was cut short. Close the handler.
pub const BWF_ERR_PANIC: c_int = -15;

// What the boundary calls them.
pub(crate) use self::{BWF_ERR_INVALID as INVALID, BWF_ERR_PANIC as PANIC};

/// The text of a code.
pub(crate) fn text_of(code: c_int) -> &'static CStr {
    match code {
        BWF_OK => c"no error",
        BWF_STOPPED => c"stopped",
        BWF_TIMED_OUT => c"the time was over",
        BWF_ERR_INVALID => c"an argument is null or out of its range",
        BWF_ERR_HANDLE => c"that is no feed handler, or no longer",
        BWF_ERR_BUSY => c"another thread is inside a call on this feed handler",
        BWF_ERR_REENTRANT => c"called from inside a callback of the same feed handler",
        BWF_ERR_THREAD => c"the feed handler belongs to the thread that opened it",
        BWF_ERR_VERSION => c"a structure's size is not what this library knows",
        BWF_ERR_CONFIG => c"the configuration was refused",
        BWF_ERR_SOURCE => c"packets cannot be received",
        BWF_ERR_CAPTURE => c"the capture is damaged or cannot be read",
        BWF_ERR_NO_CHANNEL => c"no such feed channel",
        BWF_ERR_NO_INSTRUMENT => c"no such instrument",
        BWF_ERR_MODE => c"a feed handler either receives or replays",
        BWF_ERR_TOO_MANY => c"the process has too many feed handlers",
        BWF_ERR_SYSTEM => c"a system call failed",
        BWF_ERR_PANIC => c"a bug in the library",
        _ => c"unknown code",
    }
}

impl From<Miss> for Failure {
    fn from(miss: Miss) -> Failure {
        match miss {
            Miss::Nobody => BWF_ERR_HANDLE,
            Miss::Busy => BWF_ERR_BUSY,
            Miss::Broken => BWF_ERR_PANIC,
        }
        .into()
    }
}

impl From<ConfigError> for Failure {
    fn from(e: ConfigError) -> Failure {
        Failure::new(BWF_ERR_CONFIG, e.to_string())
    }
}

impl From<SourceError> for Failure {
    fn from(e: SourceError) -> Failure {
        let code = match &e {
            SourceError::Capture { .. } | SourceError::LinkType { .. } => BWF_ERR_CAPTURE,
            SourceError::Channel(_) => BWF_ERR_CONFIG,
            SourceError::File { .. } => BWF_ERR_SYSTEM,
            _ => BWF_ERR_SOURCE,
        };
        Failure::new(code, e.to_string())
    }
}

impl From<barewire_engine::EngineError> for Failure {
    fn from(e: barewire_engine::EngineError) -> Failure {
        Failure::new(BWF_ERR_SYSTEM, e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_text() {
        let mut texts: Vec<_> = (BWF_ERR_PANIC..=BWF_TIMED_OUT).map(text_of).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 18);
        assert!(!texts.contains(&c"unknown code"));
        for code in [BWF_TIMED_OUT + 1, BWF_ERR_PANIC - 1, c_int::MIN, c_int::MAX] {
            assert_eq!(text_of(code), c"unknown code");
        }
    }
}
