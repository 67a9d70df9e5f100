//! Numbers for what crosses a border: a ring in shared memory, a C ABI. They are never given another meaning. Those of statuses and
//! states are the ones that programmers of libibverbs know.

use crate::{Access, ConnectFailure, Ended, Modify, QpFault, QpState, WcOpcode, WcStatus};
use barewire_wire::roce::cm::RejReason;

/// `code` and `from_code` of an enumeration without fields.
macro_rules! codes {
    ($type:ident: $($variant:ident = $code:literal),+ $(,)?) => {
        impl $type {
            /// Its number.
            pub const fn code(self) -> u8 {
                match self {
                    $($type::$variant => $code,)+
                }
            }

            /// From its number.
            pub const fn from_code(code: u8) -> Option<$type> {
                Some(match code {
                    $($code => $type::$variant,)+
                    _ => return None,
                })
            }
        }
    };
}

codes!(WcStatus:
    Success = 0,
    LocalLength = 1,
    LocalProtection = 4,
    Flushed = 5,
    BadResponse = 7,
    RemoteInvalidRequest = 9,
    RemoteAccess = 10,
    RemoteOperation = 11,
    RetryExceeded = 12,
    RnrRetryExceeded = 13,
);

codes!(WcOpcode:
    Send = 0,
    Write = 1,
    Read = 2,
    CompareSwap = 3,
    FetchAdd = 4,
    Recv = 128,
    RecvWriteImm = 129,
);

codes!(QpState: Reset = 0, Init = 1, Rtr = 2, Rts = 3, Sqd = 4, Sqe = 5, Err = 6);

codes!(QpFault: Send = 1, Receive = 2, InvalidRequest = 3, Access = 4, CompletionQueue = 5);

codes!(Ended: Local = 1, Remote = 2, Timeout = 3, Stale = 4);

impl ConnectFailure {
    /// Its number, and the peer's reason.
    pub const fn code(self) -> (u8, u16) {
        match self {
            ConnectFailure::Rejected(reason) => (1, reason.0),
            ConnectFailure::Timeout => (2, 0),
            ConnectFailure::BadReply => (3, 0),
        }
    }

    /// From its number and the peer's reason.
    pub const fn from_code(code: u8, reason: u16) -> Option<ConnectFailure> {
        Some(match code {
            1 => ConnectFailure::Rejected(RejReason(reason)),
            2 => ConnectFailure::Timeout,
            3 => ConnectFailure::BadReply,
            _ => return None,
        })
    }
}

impl Access {
    /// The permissions as bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From bits; `None` when there are unknown ones.
    pub const fn from_bits(bits: u8) -> Option<Access> {
        if bits & !Access::ALL.0 == 0 { Some(Access(bits)) } else { None }
    }
}

impl Modify {
    /// The number of the state that it leads to; 7 for going on after `Sqd`. `None` for what needs to know more than that.
    pub const fn code(self) -> Option<u8> {
        Some(match self {
            Modify::Reset => 0,
            Modify::Init => 1,
            Modify::Sqd => 4,
            Modify::Err => 6,
            Modify::Resume => 7,
            _ => return None,
        })
    }

    /// From that number.
    pub const fn from_code(code: u8) -> Option<Modify> {
        Some(match code {
            0 => Modify::Reset,
            1 => Modify::Init,
            4 => Modify::Sqd,
            6 => Modify::Err,
            7 => Modify::Resume,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_and_nowhere_else() {
        let mut known = [0; 5];
        for code in 0..=u8::MAX {
            let back = [
                WcStatus::from_code(code).map(WcStatus::code),
                WcOpcode::from_code(code).map(WcOpcode::code),
                QpState::from_code(code).map(QpState::code),
                QpFault::from_code(code).map(QpFault::code),
                Ended::from_code(code).map(Ended::code),
            ];
            for (n, back) in known.iter_mut().zip(back) {
                *n += back.iter().len();
                assert!(back.is_none_or(|b| b == code));
            }
            assert_eq!(Access::from_bits(code).map(Access::bits), (code < 32).then_some(code));
            assert!(Modify::from_code(code).is_none_or(|m| m.code() == Some(code)));
            let failure = ConnectFailure::from_code(code, 28);
            assert!(failure.is_none_or(|f| f.code() == (code, if code == 1 { 28 } else { 0 })));
        }
        assert_eq!(known, [10, 7, 7, 5, 4]);
        assert_eq!(Modify::RtrDatagram.code(), None);
    }
}
