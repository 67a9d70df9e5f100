//! The field's packet test language (STF), as p4c's runner for bmv2 reads it.
//!
//! [`parse`] turns a test into [`Command`]s with their lines; [`resolve`] finds the tables, actions and fields a
//! command names in a program and packs its values; [`Expectations`] compares what came out with what was to come.
//! Running a test is the business of who has a switch.

mod expect;
mod lexer;
mod parser;
pub mod resolve;

#[cfg(test)]
mod tests;

pub use expect::{Expectations, Mismatch, Pattern, Received};
pub use parser::parse;

use barewire_text::Quote;
use num_bigint::BigUint;
use num_traits::{Num, One};
use std::fmt;

/// The longest packet a test may hold, in bytes.
pub const MAX_PACKET: usize = 65_535;

/// What is wrong with a test, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct StfError {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What.
    pub kind: StfErrorKind,
}

/// What is wrong with a test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StfErrorKind {
    /// Something else belongs here.
    #[error("expected {expected}, found {found}")]
    Expected { expected: String, found: String },
    /// A line begins with a word that is no command.
    #[error("unknown command '{found}'{}", hint(nearest))]
    Command { found: String, nearest: Option<String> },
    /// A character no token begins with.
    #[error("stray character '{0}'")]
    Stray(char),
    /// A quoted name without its end.
    #[error("the quote is not closed")]
    Quote,
    /// A number that does not fit.
    #[error("{found} is too large (at most {most})")]
    TooLarge { found: String, most: u64 },
    /// Half a byte is missing.
    #[error("a packet needs an even number of hexadecimal digits")]
    OddDigits,
    /// A packet too long.
    #[error("a packet has at most {MAX_PACKET} bytes")]
    TooLong,
}

fn hint(nearest: &Option<String>) -> String {
    barewire_text::hint(", ", nearest.as_deref(), Quote::Single)
}

/// A number as it is written: its base, and digits among which `*` stands for any digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// 2, 8, 10 or 16.
    pub base: u32,
    /// Digits and `*`.
    pub digits: String,
}

impl Number {
    /// Whether some digits may be any.
    pub fn has_wildcards(&self) -> bool {
        self.digits.contains('*')
    }

    /// Bits of a digit; none for decimal ones.
    pub fn digit_bits(&self) -> Option<u32> {
        match self.base {
            2 => Some(1),
            8 => Some(3),
            16 => Some(4),
            _ => None,
        }
    }

    /// The value, with 0 for digits that may be any.
    pub fn value(&self) -> BigUint {
        BigUint::from_str_radix(&self.digits.replace('*', "0"), self.base).unwrap_or_default()
    }

    /// The bits of the digits that are given; all bits of a decimal number.
    pub fn mask(&self, width: u32) -> BigUint {
        let Some(bits) = self.digit_bits() else { return (BigUint::one() << width) - 1_u8 };
        let mut mask = BigUint::ZERO;
        for digit in self.digits.chars() {
            mask <<= bits;
            if digit != '*' {
                mask |= BigUint::from((1_u32 << bits) - 1);
            }
        }
        mask
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.base {
            2 => "0b",
            8 => "0o",
            16 => "0x",
            _ => "",
        };
        write!(f, "{prefix}{}", self.digits)
    }
}

/// What an entry says of a key field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyValue {
    /// A number: a value, or what its wildcards leave.
    Number(Number),
    /// `value/length`.
    Prefix(Number, Number),
    /// `value &&& mask`.
    Masked(Number, Number),
    /// `low -> high`.
    Range(Number, Number),
}

/// An action with its arguments by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionText {
    /// Its name, perhaps only its last parts.
    pub name: String,
    /// Arguments: name, value.
    pub args: Vec<(String, Number)>,
}

/// How a counter is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What of a counter is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CounterUnit {
    Packets,
    Bytes,
}

/// Which counter: an index, or the entry that was given this name (`= NAME` behind an `add`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CounterIndex {
    Index(u64),
    Entry(String),
}

/// A rate of a meter: tokens in a microsecond, and the most kept.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct MeterRate {
    pub per_us: f64,
    pub burst: u64,
}

/// One command.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `add TABLE [PRIORITY] KEY:VALUE… ACTION(NAME:VALUE, …) [= ID]`
    Add {
        /// The table.
        table: String,
        /// Higher numbers win here.
        priority: Option<u32>,
        /// Key fields by name.
        key: Vec<(String, KeyValue)>,
        /// What the entry does.
        action: ActionText,
        /// A name for the entry.
        id: Option<String>,
    },
    /// `setdefault TABLE ACTION(…)`
    SetDefault {
        /// The table.
        table: String,
        /// What a miss does.
        action: ActionText,
    },
    /// `remove all`
    RemoveAll,
    /// `packet PORT BYTES`
    Packet {
        /// Where it goes in.
        port: u32,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// `expect PORT [BYTES]`
    Expect {
        /// Where it comes out.
        port: u32,
        /// What it looks like; none accepts any packet.
        pattern: Option<Pattern>,
    },
    /// `no_packet`
    NoPacket,
    /// `wait`
    Wait,
    /// `check_counter NAME(INDEX) [packets|bytes OP NUMBER]`
    CheckCounter {
        /// The counter.
        counter: String,
        /// Which of it.
        index: CounterIndex,
        /// What must hold, if anything.
        check: Option<(CounterUnit, Comparison, u64)>,
    },
    /// `mirroring_add SESSION PORT`
    MirroringAdd {
        /// The session.
        session: u64,
        /// Where clones go.
        port: u64,
    },
    /// `mirroring_add_mc SESSION GROUP`
    MirroringAddMc {
        /// The session.
        session: u64,
        /// The multicast group clones go to.
        group: u64,
    },
    /// `mirroring_delete SESSION`
    MirroringDelete(u64),
    /// `mirroring_get SESSION`
    MirroringGet(u64),
    /// `mc_mgrp_create GROUP`
    McGroupCreate(u64),
    /// `mc_node_create RID PORT…`: nodes count from 0.
    McNodeCreate {
        /// The replication id.
        rid: u64,
        /// The ports.
        ports: Vec<u64>,
    },
    /// `mc_node_update NODE PORT…`
    McNodeUpdate {
        /// The node.
        node: u64,
        /// The ports.
        ports: Vec<u64>,
    },
    /// `mc_node_associate GROUP NODE`
    McNodeAssociate {
        /// The group.
        group: u64,
        /// The node.
        node: u64,
    },
    /// `counter_read NAME INDEX`
    CounterRead {
        /// The counter.
        counter: String,
        /// Which of it.
        index: u64,
    },
    /// `counter_write NAME INDEX PACKETS BYTES`
    CounterWrite {
        /// The counter.
        counter: String,
        /// Which of it.
        index: u64,
        /// Packets.
        packets: u64,
        /// Bytes.
        bytes: u64,
    },
    /// `register_read NAME INDEX`
    RegisterRead {
        /// The register.
        register: String,
        /// Which of it.
        index: u64,
    },
    /// `register_write NAME INDEX VALUE`
    RegisterWrite {
        /// The register.
        register: String,
        /// Which of it.
        index: u64,
        /// The value.
        value: BigUint,
    },
    /// `register_reset NAME`
    RegisterReset(String),
    /// `meter_get_rates NAME INDEX`
    MeterGetRates {
        /// The meter.
        meter: String,
        /// Which of it.
        index: u64,
    },
    /// `meter_set_rates NAME INDEX RATE:BURST…`
    MeterSetRates {
        /// The meter.
        meter: String,
        /// Which of it.
        index: u64,
        /// The lowest rate first.
        rates: Vec<MeterRate>,
    },
    /// `meter_array_set_rates NAME RATE:BURST…`
    MeterArraySetRates {
        /// The meter.
        meter: String,
        /// The lowest rate first.
        rates: Vec<MeterRate>,
    },
}

/// A command and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// From 1.
    pub number: u32,
    /// What it says.
    pub command: Command,
}
