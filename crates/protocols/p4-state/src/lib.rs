//! The state of a running P4 program, and where its tables are matched: tables, action profiles, registers, counters,
//! meters, value sets.
//!
//! A [`ProgramState`] belongs to one engine thread. The control side keeps the master store and sends operations, which
//! the engine applies between bursts: so there are no locks and no atomics here, a look-up never waits, and what matters is that no
//! single update takes long. Hash indices grow by splitting one small segment (`hash`), prefixes change one node (`lpm`),
//! masked entries one block or one small index (`ternary`); records never move; clearing hands the memory back to be
//! dropped elsewhere.
//!
//! # Records
//!
//! An entry is a record of 64-bit words, numbered by its handle plus 1; record 0 is the default entry. A look-up
//! gives the record of the entry that matched, or record 0:
//!
//! | word | what |
//! | --- | --- |
//! | [`ACTION`] (0) | low 32 bits: position of the action in the table's actions plus 1, 0 for none; bit 32, [`HIT`]: an entry, not the default one; [`MEMBER`] or [`GROUP`]: a reference into the table's profile, its number in word 4 (then the low 32 bits are 0) |
//! | [`PACKETS`] (1) | packets counted |
//! | [`BYTES`] (2) | bytes counted |
//! | [`LAST_HIT`] (3) | time of the last hit, in microseconds |
//! | [`ARGS`] (4) … | the action's arguments, laid out by `key::arg_words`, each below 2^width; room for the largest action of the table, one word at least |
//! | after | private to the table's structure |
//!
//! A record's address holds until the next update of its table. For tables with a profile or a direct meter
//! (not [`TableState::is_plain`]) use [`ProgramState::apply_into`]: the action is in its outcome, the arguments in the
//! member's record, which has the same shape (its word 0 is private).
//!
//! # Keys
//!
//! Keys are words as `key::KeyLayout` lays them out: padding zero, the fields' own masks applied.
//! Ties between equal priorities go to the lower handle, as in bmv2, whose list is in the order of handles (which is the order of
//! insertion until handles are used again).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arrays;
mod bits;
mod error;
mod exact;
mod hash;
mod linear;
mod lpm;
mod meter;
mod profile;
mod program;
mod range;
mod slab;
mod spec;
mod table;
mod ternary;
mod tuple;
mod tuple_merge;
mod value_set;

pub use arrays::{CounterState, RegisterState};
pub use barewire_p4::state::{Rate, TableAction};
pub use error::{EntryError, StateError, Subject};
pub use meter::{Levels, MeterState};
pub use profile::ProfileState;
pub use program::{Outcome, ProgramState};
pub use table::{EntryStats, Garbage, TableState};
pub use value_set::ValueSetState;

/// The word of a record with its action and flags.
pub const ACTION: usize = 0;
/// The word that counts packets.
pub const PACKETS: usize = 1;
/// The word that counts bytes.
pub const BYTES: usize = 2;
/// The word with the time of the last hit, in microseconds.
pub const LAST_HIT: usize = 3;
/// The first word of the arguments.
pub const ARGS: usize = 4;
/// In word [`ACTION`]: this is an entry, not the default one.
pub const HIT: u64 = 1 << 32;
/// In word [`ACTION`]: word [`ARGS`] is the number of a member of the table's profile.
pub const MEMBER: u64 = 1 << 33;
/// In word [`ACTION`]: word [`ARGS`] is the number of a group of the table's profile.
pub const GROUP: u64 = 1 << 34;

/// Handles of entries, members and groups are below this (bmv2's have 24 bits too).
pub const MAX_HANDLES: u32 = (1 << 24) - 2;
/// The weights of a group's members add up to no more.
pub const MAX_GROUP_SLOTS: u32 = 1 << 16;
/// Values a value set holds.
pub const MAX_SET_VALUES: usize = 1 << 16;
/// Messages kept until somebody takes them.
pub const MAX_LOGS: usize = 1024;
/// Pieces of garbage kept until somebody takes them.
pub const MAX_GARBAGE: usize = 64;

/// Count a packet in a record.
#[inline]
pub fn account(record: &mut [u64], packet_len: u64, now_us: u64) {
    record[PACKETS] = record[PACKETS].wrapping_add(1);
    record[BYTES] = record[BYTES].wrapping_add(packet_len);
    record[LAST_HIT] = now_us;
}

fn check_index(index: u64, size: u32) -> Result<u32, EntryError> {
    match u32::try_from(index) {
        Ok(at) if at < size => Ok(at),
        _ => Err(EntryError::Index { index, size: size.into() }),
    }
}
