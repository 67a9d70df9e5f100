//! What a running program remembers between packets, as the engines see it: a trait, so that the interpreter can
//! run on plain maps (the oracle) and on the switch's own tables.

pub mod plain;

pub use plain::{PlainError, PlainState};

use crate::ir::{ActionCall, ActionId, CounterId, LearnListId, MeterId, RegisterId, TableId, ValueSetId};
use num_bigint::BigUint;

/// What an entry of a table, or the table's default entry, does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableAction {
    /// Run an action (tables with their own actions).
    Call(ActionCall),
    /// Run a member of the table's profile.
    Member(u32),
    /// Run one of the members of a group of the table's profile.
    Group(u32),
}

/// One rate of a meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Packets or bytes (the meter's unit) in a microsecond.
    pub per_us: f64,
    /// The most tokens kept: packets or bytes at once.
    pub burst: u64,
}

/// The outcome of applying a table: which action runs, with which arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Whether an entry matched.
    pub hit: bool,
    /// The action of the entry, or the default one; none does nothing.
    pub action: Option<ActionId>,
    /// Its arguments, as [`crate::key::arg_words`] lays them out.
    pub args: Vec<u64>,
    /// The colour of the entry's direct meter, when the table has one and an entry matched.
    pub color: Option<u64>,
    /// The handle of the entry that matched, for traces.
    pub handle: Option<u64>,
}

/// Tables, registers, counters, meters, value sets. Implementations ignore indices out of range (a read gives 0):
/// packets can hold any number.
pub trait State {
    /// Look a table up and account for the packet: direct counter, direct meter, time of the last hit.
    /// `key` is laid out by [`crate::key::KeyLayout`]; `selector_hash` is asked for only when a group's member must
    /// be chosen.
    fn apply(
        &mut self,
        table: TableId,
        key: &[u64],
        packet_len: u64,
        now_us: u64,
        selector_hash: &mut dyn FnMut() -> u64,
    ) -> Applied;
    /// Count a packet of so many bytes.
    fn count(&mut self, counter: CounterId, index: u64, packet_len: u64);
    /// Meter a packet: its colour, at least `precolor`.
    fn meter(&mut self, meter: MeterId, index: u64, packet_len: u64, now_us: u64, precolor: u64) -> u64;
    /// A register's value.
    fn register(&mut self, register: RegisterId, index: u64) -> BigUint;
    /// Write a register's low bits.
    fn set_register(&mut self, register: RegisterId, index: u64, value: &BigUint);
    /// Whether a value set has a value: one number a part, already masked by the transition's mask.
    fn value_set_contains(&mut self, set: ValueSetId, parts: &[BigUint], mask: Option<&[BigUint]>) -> bool;
    /// A uniform number of `low..=high`; `low` when empty.
    fn random(&mut self, low: u64, high: u64) -> u64;
    /// A message of the program.
    fn log(&mut self, message: &str);
    /// The custom parameters of crc16/crc32 and the Toeplitz key, per calculation, if the control plane set any.
    fn hash_parameters(&self, calculation: crate::ir::CalculationId) -> Option<&crate::hash::Parameters>;
    /// A digest was asked for (targets that sample later may ignore it).
    fn digest(&mut self, _list: LearnListId) {}
}
