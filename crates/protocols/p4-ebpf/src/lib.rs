//! Compiles P4 programs to eBPF, so that packets the kernel can handle stay in the kernel.
//!
//! What flows through here: [`compile`] takes the program ([`barewire_p4::ir`]) and what its target does around it
//! ([`barewire_p4::chain`]) and gives instructions, descriptions of the maps they look into ([`maps`]), and the places from
//! which on a packet has to go to user space, each with its reason ([`SlowPath`]). [`mirror`] turns what control planes write
//! into changes of those maps. Nothing here talks to a kernel.
//!
//! The packet header vector lies in a per-CPU map with the layout that the other engines have. So what the compiler leaves
//! in registers or on the stack is short, and the verifier, which knows nothing of what is in maps, has one state where ways meet:
//! it walks each instruction about once.
//!
//! A packet is handed over before anything has been counted, written or sent for it in the round that it is in, so user space does the
//! whole of that round (the only one of most packets; `again` has the others): `cuts` finds, for each effect, whether something lies behind it that only user space can do, and then hands over before
//! the effect.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod calc;
mod clones;
mod copies;
mod cuts;
mod deparse;
mod digest;
mod expr;
mod fields;
mod r#gen;
pub mod maps;
mod meter;
pub mod mirror;
mod output;
mod parser;
mod pieces;
mod pipeline;
mod recirculate;
mod stmt;
mod table;

pub use output::{TAG_TYPE, tag};
pub use recirculate::{Context, Kind as AgainKind};

use barewire_ebpf::{Insn, MapSpec};
use barewire_p4::chain::Step;
use barewire_p4::ir::{FieldId, Program};
use std::fmt;

/// Where in the kernel a program stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hook {
    /// XDP: frames, before the kernel makes anything of them.
    #[default]
    Xdp,
    /// Traffic control, ingress: packets with all that the kernel knows of them, segments that are still to be cut included.
    Tc,
}

/// What the target does around the program, and what the kernel at hand can do.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// What happens between parser and deparser; empty for programs that have no usual way.
    pub steps: Vec<Step>,
    /// Where the number of the port goes that the packet came in by.
    pub ingress_port: Option<FieldId>,
    /// Where the packet's length goes.
    pub packet_length: Option<FieldId>,
    /// Where the time of its arrival goes.
    pub ingress_timestamp: Option<FieldId>,
    /// The multicast group of a packet: not 0, and copies are to be made.
    pub mcast_grp: Option<FieldId>,
    /// Where the number of the port goes that a packet, or a copy of it, leaves by.
    pub egress_port: Option<FieldId>,
    /// Where a copy's replication id goes.
    pub egress_rid: Option<FieldId>,
    /// Where the packet's type goes, which is 0 for a usual packet, and that of a copy.
    pub replica: Option<(FieldId, u64)>,
    /// The type of a clone of what came in.
    pub cloned: u64,
    /// The type of a clone of what leaves egress.
    pub cloned_of_egress: u64,
    /// The type of a packet that was resubmitted.
    pub resubmitted: u64,
    /// The type of one that was recirculated.
    pub recirculated: u64,
    /// Fields by which a program asks for what only user space does, and what that is.
    pub refused: Vec<(FieldId, &'static str)>,
    /// The port by which packets do not leave but come in again, in user space.
    pub recirculate_port: Option<u32>,
    /// The port that means drop.
    pub drop_port: u32,
    /// Jumps of 32 bits may be used (kernel 6.6).
    pub far_jumps: bool,
    /// Where the program is to stand.
    pub hook: Hook,
}

impl Target {
    /// The deparser between ingress and egress, where packets are deparsed and parsed again there.
    pub(crate) fn between(&self) -> Option<usize> {
        let at = self.steps.iter().position(|step| matches!(step, Step::Deparse(_)))?;
        (at + 1 < self.steps.len()).then_some(at)
    }
}

/// Why a packet has to go to user space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Something the compiler has no code for.
    No(&'static str),
    /// The effect cannot be had before what comes after it.
    Before(&'static str),
    /// A table has more than its maps can hold.
    Overflow,
    /// Longer than the interfaces' frames: a segment that a card or another interface is to cut.
    TooLong,
    /// It goes round more often than the kernel lets a program call itself.
    Rounds,
    /// A mirror session that is more than a port, or is not there.
    Session,
}

impl Reason {
    /// Whether it is something of the program; otherwise it is of the moment, and may never come.
    pub fn is_of_the_program(&self) -> bool {
        !matches!(self, Reason::Overflow | Reason::TooLong | Reason::Rounds | Reason::Session)
            && ![Reason::DEEP, Reason::TAGGED].contains(self)
    }

    /// Whether tc would make the clone for which a packet leaves XDP.
    pub(crate) fn is_of_clones(&self) -> bool {
        matches!(self, Reason::No(what) | Reason::Before(what) if *what == CLONES)
    }

    /// A place in a packet that the verifier is not told of.
    pub(crate) const DEEP: Reason = Reason::No("headers deeper than 16 kB");
    /// The kernel took the tag out of the frame before tc.
    pub(crate) const TAGGED: Reason = Reason::No("a VLAN tag beside the frame, at tc");
    /// No helper makes a packet shorter at its front, whatever its headers are.
    pub(crate) const SHRINKS: Reason = Reason::No("headers taken away, at tc");
    /// The same, for a header that the parser finds more than once.
    pub(crate) const AGAIN: Reason = Reason::No("a header extracted again in its own place, at tc");
    /// A sender that leaves its checksums to the card has not finished them.
    pub(crate) const UNFINISHED: Reason =
        Reason::No("a TCP or UDP checksum's value, which may be unfinished at tc");
}

/// Why packets that are to be cloned leave XDP.
pub(crate) const CLONES: &str = "clones, at XDP";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::No(what) => f.write_str(what),
            Reason::Before(what) => write!(f, "comes before: {what}"),
            Reason::Overflow => f.write_str("a table does not fit its maps"),
            Reason::TooLong => f.write_str("longer than the interfaces' frames"),
            Reason::Rounds => f.write_str("more rounds than the kernel makes"),
            Reason::Session => f.write_str("a mirror session that is more than a port"),
        }
    }
}

/// A place of the program that the kernel does not go beyond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowPath {
    /// Where: a parser state, a table with an action, a condition.
    pub place: String,
    /// Why.
    pub reason: Reason,
}

/// Why a program has no kernel form at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The target's rules cannot be said as steps.
    #[error("{0}")]
    Target(&'static str),
    /// Every packet would go to user space.
    #[error("every packet would go to user space: {place}: {reason}")]
    Nothing {
        /// Where.
        place: String,
        /// Why.
        reason: Reason,
    },
    /// Too large for the instruction set or for the kernel's limits.
    #[error("{0}")]
    TooLarge(String),
}

/// A compiled program.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The instructions; maps are named by their position in `maps` ([`barewire_ebpf::bind_maps`]).
    pub insns: Vec<Insn>,
    /// The maps.
    pub maps: Vec<MapSpec>,
    /// What is where in them.
    pub shape: maps::Shape,
    /// Ways that end in user space.
    pub slow: Vec<SlowPath>,
    /// Copies for multicast groups are made in the kernel.
    pub multicasts: bool,
    /// But not one that would go back where the packet came from.
    pub not_back: bool,
    /// Packets are resubmitted and recirculated in the kernel, at tc only without clones.
    pub rounds: bool,
    /// Clones of what came in are made in the kernel, at tc.
    pub clones: bool,
    /// And nothing else goes to user space at tc that does not at XDP.
    pub clones_alone: bool,
    /// Registers live in the kernel's maps; otherwise user space has all of them.
    pub registers: bool,
    /// The same for tc, with the same maps; or why it has none.
    pub tc: Result<Form, Refusal>,
}

/// A program's form for one hook.
#[derive(Debug, Clone)]
pub struct Form {
    /// The instructions.
    pub insns: Vec<Insn>,
    /// Ways that end in user space.
    pub slow: Vec<SlowPath>,
}

/// The mark of packets that go to user space from tc: they come in again at their interface, where the switch's socket takes those alone.
pub const SLOW_MARK: u32 = 0x6277_6b31;

/// The mark of copies for the controller that come in again, as their packets have clones.
pub const CONTROLLER_MARK: u32 = 0x6277_6b32;

/// The mark of clones that come in again at tc; with a session's number in its low bits.
pub const CLONE_MARK: u32 = 0x6278_0000;

/// Numbers of mirror sessions are below this.
pub const SESSIONS: u32 = 1 << 15;

/// The most instructions that are loaded; the kernel's own limit is on those it walks through, a million.
pub const MAX_INSNS: usize = 200_000;

/// Compiles a program for XDP, and for tc where it can be.
///
/// # Errors
/// [`Refusal`]: why no packet would stay in the kernel.
pub fn compile(program: &Program, target: &Target) -> Result<Compiled, Refusal> {
    if target.steps.is_empty() {
        return Err(Refusal::Target("programs that look at their queues run in user space"));
    }
    let between = target.between();
    let made = copies::made_here(program, target);
    let layout = maps::Shape::of(program).layout;
    let (rounds, clones) = (recirculate::words(program, &layout), clones::words(program, &layout));
    let shape_with = |of_egress: Option<u32>| {
        let mut shape = maps::Shape::of(program);
        if made.is_some() {
            shape.add_groups();
        }
        if rounds.is_some() || clones.is_some() || of_egress.is_some() {
            shape.add_rounds(rounds, clones, of_egress);
        }
        if between.is_some() {
            shape.add_later();
        }
        shape
    };
    // One kind of clones alone: both would have their context in the same place.
    let of_egress = clones::words_of_egress(program, &layout);
    let of_egress = of_egress.filter(|_| clones.is_none() && between.is_none());
    let of_egress = of_egress.filter(|_| clones_may_stay(program, target, shape_with(of_egress)));
    let mut shape = shape_with(of_egress);
    if shape.vector_bytes > maps::MAX_VECTOR {
        return Err(Refusal::TooLarge(format!(
            "a packet header vector of {} bytes: more than {} are out of an instruction's reach",
            shape.vector_bytes,
            maps::MAX_VECTOR
        )));
    }
    // With slow paths, registers would have two homes; then they stay in user space.
    let mut plan = cuts::plan(program, target, &mut shape, true);
    if plan.any() && !program.registers.is_empty() {
        plan = cuts::plan(program, target, &mut shape, false);
    }
    if let Some((place, reason)) = plan.whole.clone() {
        return Err(Refusal::Nothing { place, reason });
    }
    let registers = plan.registers;
    if let Some(at) = between {
        // What a packet has done in ingress is done.
        let egress = Target { steps: target.steps[at + 1..].to_vec(), ..target.clone() };
        let plan = cuts::plan(program, &egress, &mut shape, registers);
        let why = plan.whole.clone().map(|(_, reason)| reason);
        let first = plan.nodes.values().chain(plan.cuts.values()).next().cloned();
        let parser = plan.parser.then_some(Reason::No("something in the egress parser"));
        if let Some(reason) = why.or(first).or(parser) {
            return Err(Refusal::Nothing { place: "egress".to_owned(), reason });
        }
    }
    let mut generator = r#gen::Gen::new(program, target, shape, registers);
    generator.cuts = Some(plan);
    let (form, shape) = generator.program_whole()?;
    // Both look into the same maps, constants included.
    let at_tc = Target { hook: Hook::Tc, ..target.clone() };
    let (tc, shape) = match compile_tc(program, &at_tc, shape.clone(), registers) {
        Ok((form, shape)) => (Ok(form), shape),
        Err(refusal) => (Err(refusal), shape),
    };
    let (multicasts, not_back) = (made.is_some(), made == Some(copies::Copies::NotBack));
    let (rounds, clones) = (rounds.is_some(), (clones.is_some() || of_egress.is_some()) && tc.is_ok());
    let at_xdp = |path: &SlowPath| form.slow.iter().any(|known| known.reason == path.reason);
    let of_tc = tc.as_ref().map_or(&[][..], |form| &form.slow);
    let clones_alone = clones && of_tc.iter().all(|path| !path.reason.is_of_the_program() || at_xdp(path));
    Ok(Compiled {
        insns: form.insns,
        maps: shape.maps.clone(),
        shape,
        slow: form.slow,
        multicasts,
        not_back,
        rounds,
        clones,
        clones_alone,
        registers,
        tc,
    })
}

/// Whether nothing that a clone of what leaves egress meets at tc is for user space.
fn clones_may_stay(program: &Program, target: &Target, mut shape: maps::Shape) -> bool {
    let Some((_, egress)) = clones::ingress_and_egress(target) else { return false };
    if shape.vector_bytes > maps::MAX_VECTOR {
        return false;
    }
    let target = Target { hook: Hook::Tc, ..target.clone() };
    // Where packets to clone leave XDP, user space has the registers.
    let plan = cuts::plan(program, &target, &mut shape, program.registers.is_empty());
    let in_egress = plan.nodes.keys().map(|key| key.0).chain(plan.cuts.keys().map(|key| key.0));
    plan.deparser.is_none() && plan.whole.is_none() && !in_egress.into_iter().any(|at| at == egress)
}

fn compile_tc(
    program: &Program,
    target: &Target,
    mut shape: maps::Shape,
    registers: bool,
) -> Result<(Form, maps::Shape), Refusal> {
    if target.between().is_some() {
        return Err(Refusal::Target("PSA programs stand at XDP"));
    }
    let plan = cuts::plan(program, target, &mut shape, registers);
    if let Some((place, reason)) = plan.whole.clone() {
        return Err(Refusal::Nothing { place, reason });
    }
    if registers && plan.any() && !program.registers.is_empty() {
        return Err(Refusal::TooLarge("its registers would have two homes at tc".to_owned()));
    }
    let mut generator = r#gen::Gen::new(program, target, shape, registers);
    generator.cuts = Some(plan);
    generator.program_whole()
}
