//! The things a program declares: headers, parsers, actions, tables, externs.

use super::{
    ActionId, CalcInput, CalculationId, CounterId, Expr, FieldRef, HeaderId, HeaderRef, HeaderTypeId,
    MeterId, NodeId, ParserOp, ProfileId, StateId, Stmt, TableId, UnionId, ValueSetId,
};
use num_bigint::BigUint;

/// How wide a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// So many bits.
    Fixed(u32),
    /// `varbit`: at most so many bits (at most one such field a header).
    Varbit(u32),
}

/// A field of a header type.
#[derive(Debug, Clone)]
pub struct FieldDef {
    /// Its name.
    pub name: String,
    /// Its width.
    pub width: Width,
    /// Two's complement.
    pub signed: bool,
}

impl FieldDef {
    /// Bits, a varbit field's maximum.
    pub fn bits(&self) -> u32 {
        match self.width {
            Width::Fixed(bits) | Width::Varbit(bits) => bits,
        }
    }
}

/// A kind of header. On the wire its fields follow each other, most significant bit first.
#[derive(Debug, Clone)]
pub struct HeaderType {
    /// Its name.
    pub name: String,
    /// Its fields in wire order.
    pub fields: Vec<FieldDef>,
}

impl HeaderType {
    /// The sum of the fixed fields, in bits.
    pub fn fixed_bits(&self) -> u32 {
        self.fields.iter().map(|f| if let Width::Fixed(bits) = f.width { bits } else { 0 }).sum()
    }

    /// The position of the varbit field.
    pub fn varbit(&self) -> Option<usize> {
        self.fields.iter().position(|f| matches!(f.width, Width::Varbit(_)))
    }
}

/// A header instance.
#[derive(Debug, Clone)]
pub struct Header {
    /// Its name, such as `ipv4`, `vlan[0]` or `standard_metadata`.
    pub name: String,
    /// Its type.
    pub ty: HeaderTypeId,
    /// Metadata: always valid, never on the wire, its fields zero when a packet arrives.
    pub metadata: bool,
    /// The union it is a member of.
    pub union: Option<UnionId>,
    /// P4_14: the length of the varbit field in bits, from the header's own fields before it (as bmv2 reads the
    /// `length_exp` of its JSON).
    pub length_exp: Option<Expr>,
}

/// A header stack.
#[derive(Debug, Clone)]
pub struct HeaderStack {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub ty: HeaderTypeId,
    /// Its elements; never empty.
    pub elements: Vec<HeaderId>,
}

/// A header union: at most one of its members is valid.
#[derive(Debug, Clone)]
pub struct HeaderUnion {
    /// Its name.
    pub name: String,
    /// The names of its members, in the type's order.
    pub member_names: Vec<String>,
    /// Its members.
    pub members: Vec<HeaderId>,
}

/// A stack of header unions of one type.
#[derive(Debug, Clone)]
pub struct UnionStack {
    /// Its name.
    pub name: String,
    /// Its elements; never empty.
    pub elements: Vec<UnionId>,
}

/// An element of a field list.
#[derive(Debug, Clone, PartialEq)]
pub enum ListItem {
    /// A field.
    Field(FieldRef),
    /// A constant (P4_14).
    Const { value: BigUint, width: u32 },
}

/// Fields that clones, resubmitted and recirculated packets keep.
#[derive(Debug, Clone)]
pub struct FieldList {
    /// The number by which primitives name it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its items.
    pub items: Vec<ListItem>,
}

/// Fields a digest carries.
#[derive(Debug, Clone)]
pub struct LearnList {
    /// The number by which control planes name it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Each item with its width in bits.
    pub items: Vec<(CalcInput, u32)>,
}

/// A set of values the control plane fills, that parser transitions test.
#[derive(Debug, Clone)]
pub struct ValueSet {
    /// Its name.
    pub name: String,
    /// The widths in bits of the parts of a value.
    pub widths: Vec<u32>,
    /// How many values it was declared to hold; 0 when not declared.
    pub max_size: u32,
}

/// A parser.
#[derive(Debug, Clone)]
pub struct Parser {
    /// Its name.
    pub name: String,
    /// Where it starts; none accepts at once.
    pub start: Option<StateId>,
    /// Its states.
    pub states: Vec<ParserState>,
}

/// A parser state: its operations, then the first transition whose values match the key; none that matches ends
/// parsing with the error NoMatch (bmv2), and an absent next state accepts.
#[derive(Debug, Clone)]
pub struct ParserState {
    /// Its name.
    pub name: String,
    /// What it does.
    pub ops: Vec<ParserOp>,
    /// What it selects on: each part's value, and its width in bits.
    pub key: Vec<(Expr, u32)>,
    /// The transitions in order.
    pub transitions: Vec<Transition>,
}

/// When a transition is taken.
#[derive(Debug, Clone, PartialEq)]
pub enum TransitionMatch {
    /// Each key part, masked, equals the value (which is masked already). One pair a key part.
    Masked(Vec<(BigUint, BigUint)>),
    /// The key parts, masked if a mask is given, are in a value set.
    ValueSet(ValueSetId, Option<Vec<BigUint>>),
    /// Always.
    Default,
}

/// A transition.
#[derive(Debug, Clone)]
pub struct Transition {
    /// When.
    pub when: TransitionMatch,
    /// Where to; none accepts.
    pub next: Option<StateId>,
}

/// A deparser: emits the headers that are valid, in order.
#[derive(Debug, Clone)]
pub struct Deparser {
    /// Its name.
    pub name: String,
    /// The headers in order; stacks and unions stand as their elements.
    pub order: Vec<HeaderId>,
    /// What it does before emitting (PSA: checksum units).
    pub stmts: Vec<Stmt>,
}

/// An action parameter.
#[derive(Debug, Clone)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its width in bits.
    pub width: u32,
}

/// An action.
#[derive(Debug, Clone)]
pub struct Action {
    /// Its name; several actions may share one (the compiler specialises actions).
    pub name: String,
    /// The number in the file.
    pub id: u32,
    /// Its run-time parameters.
    pub params: Vec<Param>,
    /// What it does.
    pub body: Vec<Stmt>,
}

/// A match kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum MatchKind {
    Exact,
    /// P4_14: whether a header is valid.
    Valid,
    Lpm,
    Ternary,
    Range,
    /// Exact or do not care.
    Optional,
}

impl MatchKind {
    /// As P4 and bmv2 JSON call it.
    pub fn name(self) -> &'static str {
        match self {
            MatchKind::Exact => "exact",
            MatchKind::Valid => "valid",
            MatchKind::Lpm => "lpm",
            MatchKind::Ternary => "ternary",
            MatchKind::Range => "range",
            MatchKind::Optional => "optional",
        }
    }
}

/// What a key field matches.
#[derive(Debug, Clone, PartialEq)]
pub enum KeySource {
    /// A field.
    Field(FieldRef),
    /// A header's validity (1 bit).
    Valid(HeaderRef),
}

/// One field of a table's key.
#[derive(Debug, Clone)]
pub struct KeyField {
    /// As the control plane names it.
    pub name: String,
    /// How it matches.
    pub kind: MatchKind,
    /// What it matches.
    pub source: KeySource,
    /// Its width in bits.
    pub width: u32,
    /// Bits of the field that count; none means all.
    pub mask: Option<BigUint>,
}

/// A table's kind as a whole (what lookup it needs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TableKind {
    Exact,
    Lpm,
    Ternary,
    Range,
}

/// Where a table's actions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableActions {
    /// Each entry holds its own.
    Direct,
    /// Entries point at members of a profile (and at groups, if it has a selector).
    Profile(ProfileId),
}

/// An action with its arguments, one number a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionCall {
    /// Which action.
    pub action: ActionId,
    /// Its arguments, each below 2^width of its parameter.
    pub args: Vec<BigUint>,
}

/// A table entry that comes with the program.
#[derive(Debug, Clone)]
pub struct InitialEntry {
    /// One match for each key field.
    pub key: Vec<crate::key::MatchParam>,
    /// What it does.
    pub call: ActionCall,
    /// Lower numbers win (bmv2's sense); 0 where the table needs none.
    pub priority: u32,
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The number in the file.
    pub id: u32,
    /// Its kind.
    pub kind: TableKind,
    /// Its key; may be empty (then only the default entry ever runs).
    pub key: Vec<KeyField>,
    /// Its actions.
    pub actions: Vec<ActionId>,
    /// Where they come from.
    pub source: TableActions,
    /// How many entries it holds.
    pub max_size: u32,
    /// Direct counter: packets and bytes of each entry.
    pub counter: Option<CounterId>,
    /// Direct meter.
    pub meter: Option<MeterId>,
    /// Entries may age.
    pub support_timeout: bool,
    /// The default entry; none does nothing on a miss.
    pub default: Option<ActionCall>,
    /// The default action may not be changed.
    pub default_action_const: bool,
    /// The default action's arguments may not be changed.
    pub default_entry_const: bool,
    /// Entries of the program.
    pub entries: Vec<InitialEntry>,
    /// The entries may not be changed at run time (`const entries`).
    pub immutable: bool,
}

impl Table {
    /// A table whose actions stand in its entries. It has no entries, no default, no direct counter or meter, and no time-outs.
    pub fn new(
        name: impl Into<String>,
        kind: TableKind,
        key: Vec<KeyField>,
        actions: Vec<ActionId>,
        max_size: u32,
    ) -> Table {
        Table {
            name: name.into(),
            id: 0,
            kind,
            key,
            actions,
            source: TableActions::Direct,
            max_size,
            counter: None,
            meter: None,
            support_timeout: false,
            default: None,
            default_action_const: false,
            default_entry_const: false,
            entries: Vec::new(),
            immutable: false,
        }
    }
}

/// The choice of a member of a group.
#[derive(Debug, Clone)]
pub struct Selector {
    /// The hash.
    pub algorithm: HashAlgorithm,
    /// What it is over.
    pub input: Vec<CalcInput>,
}

/// An action profile.
#[derive(Debug, Clone)]
pub struct ActionProfile {
    /// Its name.
    pub name: String,
    /// The number in the file.
    pub id: u32,
    /// How many members it holds.
    pub max_size: u32,
    /// Groups, and how their members are chosen.
    pub selector: Option<Selector>,
}

/// What follows a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextNode {
    /// By the action that ran; pairs not listed go to `default`.
    ByAction { by_action: Vec<(ActionId, Option<NodeId>)>, default: Option<NodeId> },
    /// By whether an entry was hit.
    ByHit { hit: Option<NodeId>, miss: Option<NodeId> },
}

/// A node of a pipeline. An absent next node ends the pipeline.
#[derive(Debug, Clone)]
pub enum Node {
    /// Apply a table.
    Table { table: TableId, next: NextNode },
    /// Branch on a truth value.
    If { name: String, condition: Expr, then: Option<NodeId>, otherwise: Option<NodeId> },
    /// Run an action without arguments.
    Call { name: String, action: ActionId, next: Option<NodeId> },
}

/// A control: ingress or egress. Its graph has no cycle.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// Where it starts; none does nothing.
    pub start: Option<NodeId>,
    /// Its nodes.
    pub nodes: Vec<Node>,
}

/// A counter array: packets and bytes at each index.
#[derive(Debug, Clone)]
pub struct CounterArray {
    /// Its name.
    pub name: String,
    /// The number in the file.
    pub id: u32,
    /// How many.
    pub size: u32,
    /// The table whose entries it counts.
    pub direct: Option<TableId>,
}

/// What a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MeterUnit {
    Packets,
    Bytes,
}

/// A meter array.
#[derive(Debug, Clone)]
pub struct MeterArray {
    /// Its name.
    pub name: String,
    /// The number in the file.
    pub id: u32,
    /// How many.
    pub size: u32,
    /// What it counts.
    pub unit: MeterUnit,
    /// How many rates (2: committed and peak).
    pub rate_count: u32,
    /// The table whose entries it meters.
    pub direct: Option<TableId>,
    /// Where a direct meter's colour goes.
    pub result: Option<FieldRef>,
}

/// A register array.
#[derive(Debug, Clone)]
pub struct RegisterArray {
    /// Its name.
    pub name: String,
    /// The number in the file.
    pub id: u32,
    /// How many.
    pub size: u32,
    /// Bits of each.
    pub width: u32,
    /// What each holds before anybody writes it.
    pub initial: BigUint,
}

/// bmv2's hash algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum HashAlgorithm {
    Crc8,
    Crc8Custom,
    Crc16,
    Crc16Custom,
    Crc32,
    Crc32Custom,
    Crc64Custom,
    CrcCcitt,
    /// Any CRC of 8, 16, 32 or 64 bits (P4_14 names: `crc_32c`, `poly_0x11021_init_0xffff` …).
    Crc(CrcParameters),
    Csum16,
    Xor16,
    Xor32,
    Identity,
    Toeplitz,
    Xxh64,
    Bmv2Hash,
    HashEx,
    /// Selectors only: members in turn.
    RoundRobin,
    /// Selectors only: members in turn, steady when membership changes.
    RoundRobinConsistent,
    /// v1model names it; bmv2 does not have it: a random number.
    Random,
}

/// A CRC in the usual parameters (polynomial without its top bit, not reflected).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CrcParameters {
    /// Bits: 8, 16, 32 or 64.
    pub width: u8,
    /// The polynomial.
    pub polynomial: u64,
    /// What the remainder begins with.
    pub initial: u64,
    /// What the result is XORed with.
    pub final_xor: u64,
    /// Bytes are read least significant bit first.
    pub reflect_data: bool,
    /// The remainder is reflected before the final XOR.
    pub reflect_remainder: bool,
}

/// A named calculation.
#[derive(Debug, Clone)]
pub struct Calculation {
    /// Its name.
    pub name: String,
    /// The hash.
    pub algorithm: HashAlgorithm,
    /// What it is over.
    pub input: Vec<CalcInput>,
}

/// A checksum field.
#[derive(Debug, Clone)]
pub struct Checksum {
    /// Its name.
    pub name: String,
    /// The field.
    pub target: FieldRef,
    /// How it is computed.
    pub calculation: CalculationId,
    /// Verified after parsing (a mismatch sets checksum_error).
    pub verify: bool,
    /// Written before deparsing.
    pub update: bool,
    /// Only when true; and only when the target's header is valid.
    pub condition: Option<Expr>,
}

/// A header reference by plain instance.
impl From<HeaderId> for HeaderRef {
    fn from(id: HeaderId) -> Self {
        HeaderRef::Header(id)
    }
}
