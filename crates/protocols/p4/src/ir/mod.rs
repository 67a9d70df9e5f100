//! The intermediate representation: what a P4 program is once it has been read and checked.
//!
//! A [`Program`] is closed: every name has become an index, every constant has its value, every reference
//! has been checked to exist, so that neither the interpreter nor the compiler looks anything up by name
//! while a packet waits. It is made for two front ends, bmv2 JSON now and P4-16 source later: a table may be
//! applied by several nodes of a pipeline, arithmetic is on unbounded integers with explicit wrapping
//! ([`expr::Expr`]), and control flow is a graph.

pub mod check;
pub mod expr;
pub mod objects;
pub mod range;
pub mod stmt;
pub mod visit;

pub use expr::{BinaryOp, Expr, FieldRef, HeaderRef, UnaryOp, UnionRef};
pub use objects::*;
pub use stmt::{CalcInput, HashSource, ParserOp, Stmt};
pub use visit::Written;

/// Entries a table is declared for, cells of a counter, meter or register array, members of a profile.
pub const MAX_ARRAY_SIZE: u32 = 1 << 26;
/// Bytes that all counters, meters and registers take together.
pub const MAX_STATE_BYTES: u64 = 4 << 30;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// The index as a position in the program's vector of these.
            pub const fn at(self) -> usize { self.0 as usize }
        }
        impl From<usize> for $name {
            fn from(index: usize) -> Self { Self(u32::try_from(index).expect("programs are bounded")) }
        }
    )* };
}

ids! {
    /// A [`HeaderType`] in [`Program::header_types`].
    HeaderTypeId,
    /// A header instance, metadata instances, stack elements and union members included, in [`Program::headers`].
    HeaderId,
    /// A [`HeaderStack`] in `Program::stacks`.
    StackId,
    /// A [`HeaderUnion`] in [`Program::unions`].
    UnionId,
    /// A [`UnionStack`] in [`Program::union_stacks`].
    UnionStackId,
    /// An [`Action`] in [`Program::actions`].
    ActionId,
    /// A [`Table`] in [`Program::tables`].
    TableId,
    /// An [`ActionProfile`] in [`Program::profiles`].
    ProfileId,
    /// A [`CounterArray`] in [`Program::counters`].
    CounterId,
    /// A [`MeterArray`] in [`Program::meters`].
    MeterId,
    /// A [`RegisterArray`] in [`Program::registers`].
    RegisterId,
    /// A [`Calculation`] in [`Program::calculations`].
    CalculationId,
    /// A [`FieldList`] in [`Program::field_lists`].
    FieldListId,
    /// A [`LearnList`] in [`Program::learn_lists`].
    LearnListId,
    /// A [`ValueSet`] in [`Program::value_sets`].
    ValueSetId,
    /// A [`Node`] of one [`Pipeline`].
    NodeId,
    /// A [`ParserState`] of one [`Parser`].
    StateId,
    /// A one's complement checksum unit (PSA `InternetChecksum`), in [`Program::checksum_units`].
    ChecksumUnitId,
}

/// Which target's rules the program was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// `simple_switch`: v1model and P4_14.
    V1Model,
    /// `psa_switch`: the Portable Switch Architecture.
    Psa,
}

/// One field of one header instance, known before any packet comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId {
    /// The instance.
    pub header: HeaderId,
    /// The position in its type's fields.
    pub field: u32,
}

/// A whole program, every reference resolved.
#[derive(Debug, Clone)]
pub struct Program {
    /// The name of the source file, as its compiler wrote it; empty when it did not.
    pub name: String,
    /// The target's rules.
    pub arch: Arch,
    /// The text of the file, as loaded (control planes hand it back and take its MD5).
    pub source: String,
    /// Kinds of header.
    pub header_types: Vec<HeaderType>,
    /// Instances, metadata too.
    pub headers: Vec<Header>,
    /// Header stacks.
    pub stacks: Vec<HeaderStack>,
    /// Header unions.
    pub unions: Vec<HeaderUnion>,
    /// Stacks of header unions.
    pub union_stacks: Vec<UnionStack>,
    /// Parser errors: name and number.
    pub errors: Vec<(String, u32)>,
    /// Enumerations: name, and each member with its number.
    pub enums: Vec<(String, Vec<(String, u64)>)>,
    /// Names that stand for fields (`standard_metadata.mcast_grp` for `intrinsic_metadata.mcast_grp`): alias, field.
    pub field_aliases: Vec<(String, FieldId)>,
    /// What clones, resubmitted and recirculated packets keep.
    pub field_lists: Vec<FieldList>,
    /// What a digest carries.
    pub learn_lists: Vec<LearnList>,
    /// Parser value sets.
    pub value_sets: Vec<ValueSet>,
    /// Parsers: v1model has one ("parser"), PSA two ("ingress_parser", "egress_parser").
    pub parsers: Vec<Parser>,
    /// Deparsers: v1model has one ("deparser"), PSA two.
    pub deparsers: Vec<Deparser>,
    /// Actions.
    pub actions: Vec<Action>,
    /// Tables of all pipelines.
    pub tables: Vec<Table>,
    /// Action profiles, with or without selector.
    pub profiles: Vec<ActionProfile>,
    /// Pipelines: "ingress", "egress".
    pub pipelines: Vec<Pipeline>,
    /// Counter arrays, direct ones too.
    pub counters: Vec<CounterArray>,
    /// Meter arrays, direct ones too.
    pub meters: Vec<MeterArray>,
    /// Register arrays.
    pub registers: Vec<RegisterArray>,
    /// Named hash calculations.
    pub calculations: Vec<Calculation>,
    /// Checksums to verify after parsing and to update before deparsing, in order.
    pub checksums: Vec<Checksum>,
    /// PSA `InternetChecksum` instances, by name.
    pub checksum_units: Vec<String>,
}

impl Program {
    /// A program without anything: what a switch has before it is given one. Engines must not be asked to run it.
    pub fn empty() -> Program {
        Program {
            name: String::new(),
            arch: Arch::V1Model,
            source: String::new(),
            header_types: Vec::new(),
            headers: Vec::new(),
            stacks: Vec::new(),
            unions: Vec::new(),
            union_stacks: Vec::new(),
            errors: Vec::new(),
            enums: Vec::new(),
            field_aliases: Vec::new(),
            field_lists: Vec::new(),
            learn_lists: Vec::new(),
            value_sets: Vec::new(),
            parsers: Vec::new(),
            deparsers: Vec::new(),
            actions: Vec::new(),
            tables: Vec::new(),
            profiles: Vec::new(),
            pipelines: Vec::new(),
            counters: Vec::new(),
            meters: Vec::new(),
            registers: Vec::new(),
            calculations: Vec::new(),
            checksums: Vec::new(),
            checksum_units: Vec::new(),
        }
    }

    /// The field `header.field` by its name as control planes write it, aliases resolved.
    pub fn field(&self, name: &str) -> Option<FieldId> {
        if let Some((_, field)) = self.field_aliases.iter().find(|(alias, _)| alias == name) {
            return Some(*field);
        }
        let (header, field) = name.rsplit_once('.')?;
        self.plain_field(header, field)
    }

    /// The field of a header instance, by both names, aliases not considered.
    pub fn plain_field(&self, header: &str, field: &str) -> Option<FieldId> {
        let at = self.headers.iter().position(|h| h.name == header)?;
        let ty = self.header_type_of(HeaderId::from(at));
        let index = ty.fields.iter().position(|f| f.name == field)?;
        Some(FieldId { header: HeaderId::from(at), field: index as u32 })
    }

    /// The type of a header instance.
    pub fn header_type_of(&self, header: HeaderId) -> &HeaderType {
        &self.header_types[self.headers[header.at()].ty.at()]
    }

    /// The definition of a field.
    pub fn field_def(&self, field: FieldId) -> &FieldDef {
        &self.header_type_of(field.header).fields[field.field as usize]
    }

    /// The type behind a reference to a header, whichever element it turns out to be.
    pub fn type_of_ref(&self, header: &HeaderRef) -> HeaderTypeId {
        match header {
            HeaderRef::Header(id) => self.headers[id.at()].ty,
            HeaderRef::StackNext(stack) | HeaderRef::StackLast(stack) | HeaderRef::StackElement(stack, _) => {
                self.stacks[stack.at()].ty
            }
            HeaderRef::UnionStackNext(stack, member)
            | HeaderRef::UnionStackLast(stack, member)
            | HeaderRef::UnionStackElement(stack, _, member) => {
                let first = self.union_stacks[stack.at()].elements[0];
                self.headers[self.unions[first.at()].members[*member as usize].at()].ty
            }
        }
    }

    /// The definition of the field behind a reference.
    pub fn field_def_of_ref(&self, field: &FieldRef) -> &FieldDef {
        &self.header_types[self.type_of_ref(&field.header).at()].fields[field.field as usize]
    }
}
