//! How a refusal travels: bmv2's exceptions with their code numbers, and Thrift's own for what has no code.
//!
//! bmv2's exceptions hold a code and nothing else. Ours have a second field with the message, which readers that do
//! not know it skip, so that our own command line can say what was wrong.

use super::codec::{MessageType, Value};
use barewire_switch::control::{ControlError, ErrorKind};

/// The field of an exception that holds the code.
pub const CODE: i16 = 1;
/// The field of an exception that holds our message.
pub const MESSAGE: i16 = 2;

/// Which exception a method declares. Source of the codes: the same files as `types`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Throws {
    Nothing,
    Table,
    Counter,
    Swap,
    Meter,
    Register,
    ValueSet,
    Learn,
    DevMgr,
    Crc,
    Toeplitz,
    IdLookup,
    Multicast,
    Mirroring,
}

use ErrorKind as Kind;

type Codes = &'static [(i32, &'static str, &'static [ErrorKind])];

const TABLE: Codes = &[
    (1, "TABLE_FULL", &[Kind::TableFull]),
    (2, "INVALID_HANDLE", &[Kind::InvalidHandle]),
    (3, "EXPIRED_HANDLE", &[Kind::ExpiredHandle]),
    (4, "COUNTERS_DISABLED", &[Kind::CountersDisabled]),
    (5, "METERS_DISABLED", &[Kind::MetersDisabled]),
    (6, "AGEING_DISABLED", &[Kind::AgeingDisabled]),
    (7, "INVALID_TABLE_NAME", &[Kind::InvalidTableName]),
    (8, "INVALID_ACTION_NAME", &[Kind::InvalidActionName]),
    (9, "WRONG_TABLE_TYPE", &[Kind::WrongTableType]),
    (10, "INVALID_MBR_HANDLE", &[Kind::InvalidMember]),
    (11, "MBR_STILL_USED", &[Kind::MemberStillUsed]),
    (12, "MBR_ALREADY_IN_GRP", &[Kind::MemberAlreadyInGroup]),
    (13, "MBR_NOT_IN_GRP", &[Kind::MemberNotInGroup]),
    (14, "INVALID_GRP_HANDLE", &[Kind::InvalidGroup]),
    (15, "GRP_STILL_USED", &[Kind::GroupStillUsed]),
    (16, "EMPTY_GRP", &[Kind::EmptyGroup]),
    (17, "DUPLICATE_ENTRY", &[Kind::DuplicateEntry]),
    (18, "BAD_MATCH_KEY", &[Kind::BadMatchKey]),
    (19, "INVALID_METER_OPERATION", &[Kind::InvalidMeterOperation]),
    (20, "DEFAULT_ACTION_IS_CONST", &[Kind::DefaultActionIsConst]),
    (21, "DEFAULT_ENTRY_IS_CONST", &[Kind::DefaultEntryIsConst]),
    (22, "NO_DEFAULT_ENTRY", &[Kind::NoDefaultEntry]),
    (23, "INVALID_ACTION_PROFILE_NAME", &[Kind::InvalidActionProfileName]),
    (24, "NO_ACTION_PROFILE_SELECTION", &[Kind::NoActionProfileSelection]),
    (25, "IMMUTABLE_TABLE_ENTRIES", &[Kind::ImmutableTableEntries]),
    (26, "BAD_ACTION_DATA", &[Kind::BadActionData]),
    (27, "NO_TABLE_KEY", &[Kind::NoTableKey]),
    (100, "ERROR", &[]),
];
const COUNTER: Codes = &[
    (1, "INVALID_COUNTER_NAME", &[Kind::InvalidCounterName]),
    (2, "INVALID_INDEX", &[Kind::InvalidIndex]),
    (3, "ERROR", &[]),
];
const SWAP: Codes = &[
    (1, "CONFIG_SWAP_DISABLED", &[Kind::SwapDisabled]),
    (2, "ONGOING_SWAP", &[Kind::OngoingSwap]),
    (3, "NO_ONGOING_SWAP", &[Kind::NoOngoingSwap]),
];
/// Code of a meter's rates that are too few or too many.
pub const BAD_RATES_LIST: i32 = 3;
/// Code of a rate that is no number, negative, or below the one before it.
pub const INVALID_INFO_RATE: i32 = 4;
/// Code of a burst that is negative.
pub const INVALID_BURST: i32 = 5;
const METER: Codes = &[
    (1, "INVALID_METER_NAME", &[Kind::InvalidMeterName]),
    (2, "INVALID_INDEX", &[Kind::InvalidIndex]),
    (BAD_RATES_LIST, "BAD_RATES_LIST", &[]),
    (INVALID_INFO_RATE, "INVALID_INFO_RATE_VALUE", &[]),
    (INVALID_BURST, "INVALID_BURST_SIZE_VALUE", &[]),
    (6, "ERROR", &[]),
];
const REGISTER: Codes = &[
    (1, "INVALID_REGISTER_NAME", &[Kind::InvalidRegisterName]),
    (2, "INVALID_INDEX", &[Kind::InvalidIndex]),
    (3, "ERROR", &[]),
];
const VALUE_SET: Codes = &[(1, "INVALID_PARSE_VSET_NAME", &[Kind::InvalidValueSetName]), (2, "ERROR", &[])];
const LEARN: Codes =
    &[(1, "INVALID_LIST_ID", &[Kind::InvalidLearnList]), (2, "INVALID_LIST_NAME", &[]), (3, "ERROR", &[])];
const DEV_MGR: Codes = &[(1, "ERROR", &[])];
/// Code of a calculation of another kind (both hash exceptions).
pub const WRONG_CALCULATION: i32 = 2;
/// Code of a Toeplitz key of a wrong length.
pub const INVALID_KEY: i32 = 3;
const CRC: Codes = &[
    (1, "INVALID_CALCULATION_NAME", &[Kind::InvalidCalculationName]),
    (WRONG_CALCULATION, "WRONG_TYPE_CALCULATION", &[]),
    (3, "INVALID_CONFIG", &[]),
];
const TOEPLITZ: Codes = &[
    (1, "INVALID_CALCULATION_NAME", &[Kind::InvalidCalculationName]),
    (WRONG_CALCULATION, "WRONG_TYPE_CALCULATION", &[]),
    (INVALID_KEY, "INVALID_KEY", &[]),
];
/// Code of a resource type that does not exist.
pub const INVALID_RESOURCE_TYPE: i32 = 0;
const ID_LOOKUP: Codes = &[
    (INVALID_RESOURCE_TYPE, "INVALID_RESOURCE_TYPE", &[]),
    (
        1,
        "INVALID_RESOURCE_NAME",
        &[
            Kind::InvalidTableName,
            Kind::InvalidActionProfileName,
            Kind::InvalidCounterName,
            Kind::InvalidMeterName,
            Kind::InvalidRegisterName,
            Kind::InvalidLearnList,
        ],
    ),
];
/// Code of a multicast group that does not exist, where a method takes its handle.
pub const INVALID_GROUP_HANDLE: i32 = 3;
const MULTICAST: Codes = &[
    (1, "TABLE_FULL", &[Kind::TableFull]),
    (2, "INVALID_MGID", &[Kind::InvalidMulticastGroup]),
    (INVALID_GROUP_HANDLE, "INVALID_MGRP_HANDLE", &[]),
    (4, "INVALID_L1_HANDLE", &[Kind::InvalidL1Handle]),
    (5, "ERROR", &[]),
];
const MIRRORING: Codes = &[(1, "SESSION_NOT_FOUND", &[Kind::InvalidSession])];

impl Throws {
    fn codes(self) -> Codes {
        match self {
            Throws::Nothing => &[],
            Throws::Table => TABLE,
            Throws::Counter => COUNTER,
            Throws::Swap => SWAP,
            Throws::Meter => METER,
            Throws::Register => REGISTER,
            Throws::ValueSet => VALUE_SET,
            Throws::Learn => LEARN,
            Throws::DevMgr => DEV_MGR,
            Throws::Crc => CRC,
            Throws::Toeplitz => TOEPLITZ,
            Throws::IdLookup => ID_LOOKUP,
            Throws::Multicast => MULTICAST,
            Throws::Mirroring => MIRRORING,
        }
    }

    /// The kind of operation in messages, as p4lang's command line words it.
    pub fn operation(self) -> &'static str {
        match self {
            Throws::Nothing => "operation",
            Throws::Table => "table operation",
            Throws::Counter => "counter operation",
            Throws::Swap => "swap operation",
            Throws::Meter => "meter operation",
            Throws::Register => "register operation",
            Throws::ValueSet => "parser value set operation",
            Throws::Learn => "learn operation",
            Throws::DevMgr => "device manager operation",
            Throws::Crc => "crc operation",
            Throws::Toeplitz => "Toeplitz hash operation",
            Throws::IdLookup => "id lookup",
            Throws::Multicast => "PRE operation",
            Throws::Mirroring => "mirroring operation",
        }
    }

    /// The name of a code.
    pub fn name_of(self, code: i32) -> &'static str {
        self.codes().iter().find(|(at, ..)| *at == code).map_or("unknown code", |(_, name, _)| name)
    }

    /// The code for a kind of error; the exception's general code where it has none of its own, if it has a
    /// general one. That an engine does not answer is never a code: it says nothing about the operation.
    fn code_for(self, kind: ErrorKind) -> Option<i32> {
        let codes = self.codes();
        let own = codes.iter().find(|(_, _, kinds)| kinds.contains(&kind));
        let general = || codes.iter().find(|(_, name, _)| *name == "ERROR" && kind != Kind::Unavailable);
        own.or_else(general).map(|(code, ..)| *code)
    }
}

/// Thrift's own exceptions. Source: Apache Thrift, `TApplicationException`.
pub mod application {
    #![allow(missing_docs)]
    pub const UNKNOWN_METHOD: i32 = 1;
    pub const INVALID_MESSAGE_TYPE: i32 = 2;
    pub const INTERNAL_ERROR: i32 = 6;
    pub const PROTOCOL_ERROR: i32 = 7;
}

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refusal {
    /// The switch refused; the method's exception has a code for it or not.
    #[error("{0}")]
    Control(#[from] ControlError),
    /// A code of the method's exception that no [`ErrorKind`] stands for.
    #[error("{1}")]
    Code(i32, String),
    /// Thrift's own exception: its type, and a message.
    #[error("{1}")]
    Application(i32, String),
}

impl Refusal {
    /// The call itself was not well formed.
    pub fn protocol(message: String) -> Refusal {
        Refusal::Application(application::PROTOCOL_ERROR, message)
    }

    /// Refused, and the method's exception has no words for it.
    pub fn other(message: impl Into<String>) -> Refusal {
        Refusal::Application(application::INTERNAL_ERROR, message.into())
    }

    /// A refusal of a kind.
    pub fn kind(kind: ErrorKind, message: impl Into<String>) -> Refusal {
        Refusal::Control(ControlError::new(kind, message))
    }

    /// As it travels: the message's type and its body.
    pub fn into_reply(self, throws: Throws) -> (MessageType, Value) {
        let (code, message) = match self {
            Refusal::Control(error) => (throws.code_for(error.kind), error.message),
            Refusal::Code(code, message) => (Some(code), message),
            Refusal::Application(code, message) => {
                return (MessageType::Exception, application_body(code, message));
            }
        };
        match code {
            Some(code) => {
                let exception =
                    Value::Struct(vec![(CODE, Value::I32(code)), (MESSAGE, Value::text(message))]);
                (MessageType::Reply, Value::Struct(vec![(1, exception)]))
            }
            None => (MessageType::Exception, application_body(application::INTERNAL_ERROR, message)),
        }
    }
}

fn application_body(code: i32, message: String) -> Value {
    Value::Struct(vec![(1, Value::text(message)), (2, Value::I32(code))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_become_the_codes_of_the_methods_exception() {
        let reply = |kind, throws| Refusal::kind(kind, "why").into_reply(throws);
        let code = |code: i32| {
            let exception = Value::Struct(vec![(1, Value::I32(code)), (2, Value::text("why"))]);
            (MessageType::Reply, Value::Struct(vec![(1, exception)]))
        };
        assert_eq!(reply(Kind::DuplicateEntry, Throws::Table), code(17));
        assert_eq!(reply(Kind::InvalidIndex, Throws::Table), code(100));
        assert_eq!(reply(Kind::InvalidIndex, Throws::Register), code(2));
        assert_eq!(reply(Kind::NoOngoingSwap, Throws::Swap), code(3));
        assert_eq!(reply(Kind::InvalidSession, Throws::Mirroring), code(1));
        let (kind, body) = reply(Kind::Unavailable, Throws::Table);
        assert_eq!((kind, body.field(2)), (MessageType::Exception, Some(&Value::I32(6))));
        assert_eq!(body.field(1).unwrap().lossy(), "why");
        assert_eq!(reply(Kind::BadProgram, Throws::Swap).0, MessageType::Exception);
        assert_eq!(Throws::Meter.name_of(4), "INVALID_INFO_RATE_VALUE");
    }
}
