//! The one way in for every control plane: Thrift, P4Runtime and the command line all call [`Switch`].
//!
//! A [`Switch`] is a handle that threads share. It holds the master copy of everything a control plane can write
//! ([`crate::store`]) behind one lock, and sends each accepted write to the forwarding engines, which hold
//! replicas and apply writes between bursts: forwarding never waits for a lock. A write that has returned is seen by
//! every packet that arrives afterwards. Reads of entries come from the master copy; reads of what packets change
//! (counters, meters, registers, ages) ask the engines.

mod arrays;
pub mod link;
mod names;
pub mod notify;
mod programs;
mod saved;
mod shadow;
mod switch;
mod tables;
mod traffic;

use barewire_p4::ir::{ActionId, CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use barewire_p4::key::MatchParam;

pub use crate::pre::{McDump, McNode};
pub use barewire_p4::ir::ActionCall;
pub use barewire_p4_state::TableAction;
pub use link::{EngineInbox, EngineLink, Replica};
pub use shadow::{CarriedCounters, Takeover};
pub use switch::{Info, PortOpener, Switch, SwitchConfig};
pub use tables::{NewEntry, TableWrite};

/// Why a control operation was refused. The kinds are the ones bmv2's interfaces number (`TableOperationErrorCode`
/// and its siblings), so that each control plane maps them to its own codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ErrorKind {
    TableFull,
    InvalidHandle,
    ExpiredHandle,
    CountersDisabled,
    MetersDisabled,
    AgeingDisabled,
    InvalidTableName,
    InvalidActionName,
    WrongTableType,
    InvalidMember,
    MemberStillUsed,
    MemberAlreadyInGroup,
    MemberNotInGroup,
    InvalidGroup,
    GroupStillUsed,
    EmptyGroup,
    DuplicateEntry,
    BadMatchKey,
    InvalidMeterOperation,
    DefaultActionIsConst,
    DefaultEntryIsConst,
    NoDefaultEntry,
    InvalidActionProfileName,
    NoActionProfileSelection,
    ImmutableTableEntries,
    BadActionData,
    NoTableKey,
    InvalidCounterName,
    InvalidMeterName,
    InvalidRegisterName,
    InvalidValueSetName,
    InvalidCalculationName,
    InvalidLearnList,
    InvalidIndex,
    InvalidMulticastGroup,
    InvalidL1Handle,
    InvalidL2Port,
    InvalidSession,
    InvalidPort,
    BadProgram,
    SwapDisabled,
    NoOngoingSwap,
    OngoingSwap,
    /// No engine answered in time.
    Unavailable,
    Other,
    /// What was read has been written to meanwhile.
    Overtaken,
}

/// A refused control operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    /// The kind.
    pub kind: ErrorKind,
    /// What was wrong, with the nearest right word where there is one.
    pub message: String,
}

impl ControlError {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ControlError { kind, message: message.into() }
    }
}

/// A table entry, as control planes read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its handle: index in the low 32 bits, the index's version in the high ones (bmv2's shape).
    pub handle: u64,
    /// One match for each key field.
    pub key: Vec<MatchParam>,
    /// Lower wins (bmv2's sense); 0 where the table needs none.
    pub priority: u32,
    /// What it does.
    pub action: TableAction,
    /// Idle time-out in milliseconds; 0 for none.
    pub ttl_ms: u32,
    /// It came with the program as `const`.
    pub is_const: bool,
    /// For P4Runtime: metadata and role data a controller attached, opaque.
    pub cookie: Vec<u8>,
}

/// A member of an action profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its handle.
    pub handle: u32,
    /// What it does.
    pub call: ActionCall,
}

/// A group of an action profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its handle.
    pub handle: u32,
    /// Its members, each with its weight (bmv2: 1).
    pub members: Vec<(u32, u32)>,
    /// For P4Runtime: the group's declared maximum size; 0 for none.
    pub max_size: u32,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CounterValue {
    pub packets: u64,
    pub bytes: u64,
}

/// One rate of a meter: units (packets or bytes) a microsecond, and how many may come at once.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct MeterRate {
    pub units_per_us: f64,
    pub burst: u32,
}

/// A mirror session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorSession {
    /// To this port.
    pub egress_port: Option<u32>,
    /// And to this multicast group.
    pub multicast_group: Option<u32>,
    /// Cut clones at so many bytes; 0 for no cut (P4Runtime).
    pub truncate_bytes: u32,
    /// The priority of clones' queues (P4Runtime's class of service); 0 leaves it to the program.
    pub class_of_service: u32,
}

/// Which index or handle ranges an operation covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// One.
    One(u64),
    /// From, to (excluded).
    Span(u64, u64),
    /// All of them.
    All,
}

/// A port, as shown to control planes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Its number in the program.
    pub port: u32,
    /// The port's URI.
    pub uri: String,
    /// Its name for people (the interface).
    pub name: String,
    /// How the kernel's program stands there and why, where it forwards; empty otherwise.
    pub note: String,
    /// The wire is up.
    pub up: bool,
    /// Frames and bytes received, sent, and dropped.
    pub rx: CounterValue,
    #[allow(missing_docs)]
    pub tx: CounterValue,
    #[allow(missing_docs)]
    pub rx_dropped: u64,
    #[allow(missing_docs)]
    pub tx_dropped: u64,
}

/// A digest message: samples of one learn list that wait for an acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestList {
    /// The list's number in the file.
    pub list: u32,
    /// The buffer's number, to be acknowledged.
    pub buffer: u64,
    /// The number of the first sample in it.
    pub first_sample: u64,
    /// Each sample: its items' values as bytes, each padded on the left to whole bytes.
    pub samples: Vec<Vec<Vec<u8>>>,
}

/// What happens without a control plane asking.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notification {
    /// A digest is ready.
    Digest(DigestList),
    /// Entries were idle for their time-out: table, handles.
    Idle(TableId, Vec<u64>),
    /// A packet for the CPU port.
    PacketIn { bytes: Vec<u8> },
    /// A port was added or came up, or it went down or was removed.
    Port { port: u32, up: bool },
    /// A program was swapped in.
    ProgramSwapped,
}

/// A reference to something counted by an index: used by generic reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ArrayRef {
    Counter(CounterId),
    Meter(MeterId),
    Register(RegisterId),
}

/// Names to indices, as all control planes resolve them: the full name, or a suffix that is no other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Named {
    Table(TableId),
    Action(ActionId),
    Profile(ProfileId),
    Counter(CounterId),
    Meter(MeterId),
    Register(RegisterId),
    ValueSet(ValueSetId),
}
