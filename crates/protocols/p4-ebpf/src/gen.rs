//! The state of one compilation, and what every part of it uses: registers, labels, ways out.
//!
//! r6 is the context, r9 the vector, r8 the record of the running action. Expressions are computed in r0 to r4; r5 and r7 are
//! for whoever needs one in between. Nothing but r6 and r9 outlives a statement.

use crate::copies::{Copies, made_here, unchanged};
use crate::cuts::Plan;
use crate::maps::{self, Shape, config, drop_reason, fixed};
use crate::output::GROUP;
use crate::recirculate::Kind;
use crate::{Form, Hook, MAX_INSNS, Reason, Refusal, SLOW_MARK, SlowPath, Target};
use barewire_ebpf::helper;
use barewire_ebpf::{Alu, Asm, AsmError, Atomic, Bits, Cond, Label, Reg, Size};
use barewire_p4::chain::{Operand, Step};
use barewire_p4::interp::CoreErrors;
use barewire_p4::ir::{ActionId, FieldId, Program};
use barewire_p4::phv::{Place, slot};
use std::collections::BTreeSet;

/// Where expressions are computed.
pub(crate) const POOL: [Reg; 5] = [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4];
/// For one instruction's worth.
pub(crate) const TEMP: Reg = Reg::R5;
/// The same, across calls.
pub(crate) const TEMP2: Reg = Reg::R7;
pub(crate) const RECORD: Reg = Reg::R8;
pub(crate) const CTX: Reg = Reg::R6;
pub(crate) const VECTOR: Reg = Reg::R9;
/// Bytes of a packet that lie in one piece at tc, whatever the parser looks at: an Ethernet header.
pub(crate) const MIN_DEPTH: u32 = 14;
/// Bytes of stack below which temporaries begin.
const STACK_FIRST: i32 = 16;
/// Where on the stack look-ups count that found memory with another key.
pub(crate) const TRIES: i16 = -16;
/// After so many it is as if nothing were found: each time the memory changed hands between two instructions.
pub(crate) const MOST_TRIES: i32 = 4;

/// What a part of the program needs, or why it cannot be.
pub(crate) type Made<T = ()> = Result<T, Reason>;

/// Nothing of the program can run, as it cannot do without this.
fn nothing(place: &str, reason: Reason) -> Refusal {
    Refusal::Nothing { place: place.to_owned(), reason }
}

/// A parser's place, known at this point of the compilation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ParserPlace {
    /// Each stack's next index.
    pub next: Vec<u32>,
    /// Bytes parsed; none when only the vector knows.
    pub at: Option<u32>,
}

pub(crate) struct Gen<'p> {
    pub program: &'p Program,
    pub target: &'p Target,
    pub shape: Shape,
    pub errors: CoreErrors,
    pub asm: Asm,
    /// Registers may be used.
    pub registers: bool,
    /// The action that runs; its record is in r8 if it has parameters.
    pub action: Option<ActionId>,
    /// Inside the parser.
    pub parser: Option<ParserPlace>,
    /// Ends of the parser that were jumped to.
    pub parser_ends: Vec<((Option<u64>, ParserPlace), Label)>,
    /// Which pipeline is being compiled.
    pub pipeline: usize,
    pub cuts: Option<Plan>,
    /// Bytes of a packet that the parser looks at, so far.
    pub depth: u32,
    /// Packets may become longer.
    pub grows: bool,
    /// Values that change nothing where they are assigned.
    pub unchanged: BTreeSet<usize>,
    /// Packets may have a multicast group here, and how its copies differ.
    pub copies: Option<Copies>,
    pub slow: Vec<(SlowPath, Label)>,
    pub drops: Vec<(u64, Label)>,
    spilled: i32,
    /// The place that is compiled, for people.
    pub place: String,
    /// Behind ingress and the traffic manager, where clones go on.
    pub behind: Option<Label>,
    /// Where it goes on when a packet that has a clone has left.
    pub sent: Option<Label>,
    /// Where it is seen why packets are not as usual, where they go on if it is nothing, and the way to user space.
    pub odd: Option<(Label, Label, Label)>,
}

impl<'p> Gen<'p> {
    pub fn new(program: &'p Program, target: &'p Target, shape: Shape, registers: bool) -> Gen<'p> {
        Gen {
            program,
            target,
            errors: CoreErrors::of(program),
            asm: Asm::default(),
            registers,
            action: None,
            parser: None,
            parser_ends: Vec::new(),
            pipeline: 0,
            cuts: None,
            depth: 0,
            grows: false,
            unchanged: if target.refused.is_empty() { BTreeSet::new() } else { unchanged(program) },
            copies: made_here(program, target),
            shape,
            slow: Vec::new(),
            drops: Vec::new(),
            spilled: 0,
            place: String::new(),
            behind: None,
            sent: None,
            odd: None,
        }
    }

    /// Whether the program is to stand at tc.
    pub fn is_tc(&self) -> bool {
        self.target.hook == Hook::Tc
    }

    /// Where the context says at which addresses the packet begins and ends.
    pub fn ends_of_packet(&self) -> (i16, i16) {
        match self.target.hook {
            Hook::Xdp => (helper::xdp::DATA, helper::xdp::DATA_END),
            Hook::Tc => (helper::skb::DATA, helper::skb::DATA_END),
        }
    }

    /// Where a slot of the vector lies.
    pub fn slot(&self, slot: usize) -> i16 {
        (slot * 8) as i16
    }

    /// Where a word of the vector lies.
    pub fn word(&self, word: u32) -> i16 {
        (word * 8) as i16
    }

    pub fn scratch(&self, word: u32) -> i16 {
        (self.shape.scratch + word * 8) as i16
    }

    pub fn valid_byte(&self, header: barewire_p4::ir::HeaderId) -> i16 {
        self.shape.layout.headers[header.at()].valid_byte as i16
    }

    /// A place on the stack for eight bytes, until given back.
    pub fn spill(&mut self) -> Made<i16> {
        let at = STACK_FIRST + 8 * (self.spilled + 1);
        if at > 480 {
            return Err(Reason::No("an expression too deep for the stack"));
        }
        self.spilled += 1;
        Ok(-(at as i16))
    }

    /// Forget code from a position on: it could not be finished.
    pub fn take_back(&mut self, begin: usize) {
        self.asm.truncate(begin);
        self.spilled = 0;
    }

    /// Whether some code could be made, and why not; nothing of it stays.
    pub fn dry(&mut self, make: impl FnOnce(&mut Self) -> Made) -> Option<Reason> {
        let begin = self.asm.len();
        let made = make(self);
        self.take_back(begin);
        self.parser_ends.clear();
        made.err()
    }

    /// Ways to user space so far.
    pub fn slow_paths(&self) -> impl Iterator<Item = &SlowPath> {
        self.slow.iter().map(|(path, _)| path)
    }

    pub fn unspill(&mut self) {
        self.spilled -= 1;
    }

    /// The way to user space for a reason.
    pub fn slow(&mut self, reason: Reason) -> Label {
        let path = SlowPath { place: self.place.clone(), reason };
        if let Some((_, label)) = self.slow.iter().find(|(known, _)| *known == path) {
            return *label;
        }
        let label = self.asm.label();
        self.slow.push((path, label));
        label
    }

    pub fn dropped(&mut self, reason: u64) -> Label {
        if let Some((_, label)) = self.drops.iter().find(|(known, _)| *known == reason) {
            return *label;
        }
        let label = self.asm.label();
        self.drops.push((reason, label));
        label
    }

    /// `r0 = map[key]` where the key lies at `r9 + at`; 0 when there is none.
    pub fn lookup(&mut self, map: usize, at: u32) {
        self.asm.map(Reg::R1, map as i32);
        self.asm.mov(Reg::R2, VECTOR);
        self.asm.add_imm(Reg::R2, at as i32);
        self.asm.call(helper::MAP_LOOKUP_ELEM);
    }

    /// `r0 = hash[key]` where so many bytes of key lie at `r9 + at`, or on to `none`. The registers, of r1 to r3, get the value's words:
    /// they are that key's, though the memory may be another's by now ([`maps::owned`]). Loses r0 to r5 else.
    pub fn lookup_own(&mut self, map: usize, at: u32, bytes: u32, to: &[Reg], none: Label) {
        let (again, changed, ours) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.mov_imm(Reg::R1, 0);
        self.asm.store(Size::D, Reg::FP, TRIES, Reg::R1);
        self.asm.place(again);
        self.lookup(map, at);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
        for (word, reg) in (maps::OWNER + bytes.next_multiple_of(8)..).step_by(8).zip(to) {
            self.asm.load(Size::D, *reg, Reg::R0, word as i16);
        }
        // The words first: who writes another element writes its key before them.
        let mut done = 0;
        while done < bytes {
            let (left, here) = (bytes - done, at + done);
            let fits = |size: &Size| size.bytes() <= left && here.is_multiple_of(size.bytes());
            let size = [Size::D, Size::W, Size::H, Size::B].into_iter().find(fits).unwrap_or(Size::B);
            self.asm.load(size, Reg::R4, VECTOR, here as i16);
            self.asm.load(size, Reg::R5, Reg::R0, (maps::OWNER + done) as i16);
            self.asm.jump_if(Bits::B64, Cond::Ne, Reg::R4, Reg::R5, changed);
            done += size.bytes();
        }
        self.asm.jump(ours);
        self.asm.place(changed);
        self.asm.load(Size::D, Reg::R1, Reg::FP, TRIES);
        self.asm.jump_if_imm(Bits::B64, Cond::Ge, Reg::R1, MOST_TRIES, none);
        self.asm.add_imm(Reg::R1, 1);
        self.asm.store(Size::D, Reg::FP, TRIES, Reg::R1);
        self.asm.jump(again);
        self.asm.place(ours);
    }

    /// `r0 = array[index]` where the index is a register's low 32 bits.
    pub fn lookup_index(&mut self, map: usize, index: Reg) {
        self.asm.store(Size::W, Reg::FP, -4, index);
        self.asm.map(Reg::R1, map as i32);
        self.asm.mov(Reg::R2, Reg::FP);
        self.asm.add_imm(Reg::R2, -4);
        self.asm.call(helper::MAP_LOOKUP_ELEM);
    }

    /// Adds 1 and the packet's length to the two words at `r0`.
    pub fn count(&mut self) {
        let len = self.slot(slot::PACKET_LEN);
        self.asm.mov_imm(Reg::R1, 1);
        self.asm.atomic(Atomic::Add, Size::D, Reg::R0, 0, Reg::R1);
        self.asm.load(Size::D, Reg::R1, VECTOR, len);
        self.asm.atomic(Atomic::Add, Size::D, Reg::R0, 8, Reg::R1);
    }

    fn operand(&mut self, operand: Operand, to: Reg) -> Made {
        match operand {
            Operand::Const(value) => self.asm.constant(to, value),
            Operand::Slot(slot) => {
                let at = self.slot(slot);
                self.asm.load(Size::D, to, VECTOR, at);
            }
            Operand::SlotIsSet(slot) => {
                let (at, zero) = (self.slot(slot), self.asm.label());
                self.asm.load(Size::D, to, VECTOR, at);
                self.asm.jump_if_imm(Bits::B64, Cond::Eq, to, 0, zero);
                self.asm.mov_imm(to, 1);
                self.asm.place(zero);
            }
            Operand::SlotPlus(slot, more) => {
                let at = self.slot(slot);
                self.asm.load(Size::D, to, VECTOR, at);
                self.asm.add_imm(to, more as i32);
            }
            Operand::SlotSum(left, right) => {
                let (left, right) = (self.slot(left), self.slot(right));
                self.asm.load(Size::D, to, VECTOR, left);
                self.asm.load(Size::D, TEMP, VECTOR, right);
                self.asm.alu(Alu::Add, to, TEMP);
            }
            Operand::Field(field) => self.load_field(field, 0, to)?,
        }
        Ok(())
    }

    /// Write a metadata field's low bits from a register.
    pub fn set_meta(&mut self, field: FieldId, from: Reg) -> Made {
        let place = self.field_place(field)?;
        self.store_place(place, from)
    }

    fn prologue(&mut self) -> Made {
        let out = self.asm.label();
        self.asm.mov(CTX, Reg::R1);
        let (abort, pass) = match self.target.hook {
            Hook::Xdp => (helper::xdp::ABORTED, helper::xdp::PASS),
            Hook::Tc => (helper::skb::SHOT, helper::skb::UNSPEC),
        };
        if self.is_tc() {
            // One that this program sent to user space: the socket has it, and the kernel gets it as it would have.
            let other = self.asm.label();
            self.asm.load(Size::W, Reg::R1, CTX, helper::skb::MARK);
            self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R1, SLOW_MARK as i32, other);
            self.asm.mov_imm(Reg::R1, 0);
            self.asm.store(Size::W, CTX, helper::skb::MARK, Reg::R1);
            self.asm.mov_imm(Reg::R0, helper::skb::UNSPEC);
            self.asm.exit();
            self.asm.place(other);
        }
        self.asm.store_imm(Size::W, Reg::FP, -4, 0);
        self.asm.map(Reg::R1, fixed::VECTOR as i32);
        self.asm.mov(Reg::R2, Reg::FP);
        self.asm.add_imm(Reg::R2, -4);
        self.asm.call(helper::MAP_LOOKUP_ELEM);
        self.asm.jump_nonzero(Reg::R0, out);
        self.asm.mov_imm(Reg::R0, abort);
        self.asm.exit();
        self.asm.place(out);
        self.asm.mov(VECTOR, Reg::R0);
        let (again, ready) = (self.asm.label(), self.asm.label());
        self.jump_if_again(again);
        self.first_round();
        self.is_for_controller();
        self.is_clone();
        self.blank();
        self.asm.map_value(Reg::R7, fixed::CONFIG as i32, 0);
        self.asm.load(Size::D, Reg::R1, Reg::R7, config::ALL_SLOW as i16);
        self.place = "every packet".to_owned();
        let slow = self.slow(Reason::Overflow);
        match self.is_tc() {
            false => self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, config::ALL as i32, slow),
            true => {
                let (odd, on) = (self.asm.label(), self.asm.label());
                self.asm.jump_nonzero(Reg::R1, odd);
                self.asm.place(on);
                self.odd = Some((odd, on, slow));
            }
        }

        let at = self.slot(slot::PACKET_LEN);
        match self.target.hook {
            Hook::Xdp => self.length_of_frame(at),
            Hook::Tc => self.length_of_packet(at),
        }
        if let Some(field) = self.target.packet_length {
            self.asm.load(Size::D, Reg::R0, VECTOR, at);
            self.set_meta(field, Reg::R0)?;
        }
        if self.needs_time() {
            self.time();
            if let Some(field) = self.target.ingress_timestamp {
                self.set_meta(field, Reg::R0)?;
            }
        }
        // The port: packets from an interface that is none of ours go on to the kernel.
        let known = self.asm.label();
        let interface = match self.target.hook {
            Hook::Xdp => helper::xdp::INGRESS_IFINDEX,
            Hook::Tc => helper::skb::IFINDEX,
        };
        self.asm.load(Size::W, Reg::R1, CTX, interface);
        self.lookup_index(fixed::PORTS, Reg::R1);
        self.asm.jump_nonzero(Reg::R0, known);
        self.asm.mov_imm(Reg::R0, pass);
        self.asm.exit();
        self.asm.place(known);
        if let Some(field) = self.target.ingress_port {
            self.asm.load(Size::W, Reg::R0, Reg::R0, 0);
            self.set_meta(field, Reg::R0)?;
        }
        self.begin_again(ready, again)
    }

    /// The vector as it is before a packet.
    pub fn blank(&mut self) {
        let blank = self.shape.layout.new_phv();
        for (word, value) in blank.words().iter().enumerate() {
            let at = self.word(word as u32);
            match i32::try_from(*value as i64) {
                Ok(imm) => self.asm.store_imm(Size::D, VECTOR, at, imm),
                Err(_) => {
                    self.asm.wide(Reg::R1, *value);
                    self.asm.store(Size::D, VECTOR, at, Reg::R1);
                }
            }
        }
        let at = self.slot(slot::DROP_PORT);
        self.asm.store_imm(Size::D, VECTOR, at, self.target.drop_port as i32);
    }

    /// What is parsed next is a new packet: of the one before only metadata is left, and how long it was when it came in.
    fn new_packet(&mut self) {
        let kept = [slot::PACKET_LEN, slot::NOW_US, slot::DROP_PORT];
        let (metadata, headers) = (self.shape.layout.metadata_word, self.shape.layout.headers_word);
        let blank = self.shape.layout.new_phv();
        for (word, value) in blank.words().iter().enumerate() {
            if kept.contains(&word) || (metadata..headers).contains(&(word as u32)) {
                continue;
            }
            self.asm.constant(Reg::R1, *value);
            let at = self.word(word as u32);
            self.asm.store(Size::D, VECTOR, at, Reg::R1);
        }
    }

    /// `r0` = the time, which also goes to its slot. The configuration is in r7.
    pub fn time(&mut self) {
        let (fixed_time, done) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::D, Reg::R0, Reg::R7, config::FIXED_NOW_US as i16);
        self.asm.jump_nonzero(Reg::R0, fixed_time);
        self.asm.call(helper::KTIME_GET_NS);
        self.asm.load(Size::D, Reg::R1, Reg::R7, config::STARTED_NS as i16);
        self.asm.alu(Alu::Sub, Reg::R0, Reg::R1);
        self.asm.alu_imm(Alu::Div, Reg::R0, 1000);
        self.asm.jump(done);
        self.asm.place(fixed_time);
        self.asm.add_imm(Reg::R0, -1);
        self.asm.place(done);
        let at = self.slot(slot::NOW_US);
        self.asm.store(Size::D, VECTOR, at, Reg::R0);
    }

    /// A frame's length, and whether every interface has room for it. Loses r1 and r2; the configuration is in r7.
    fn length_of_frame(&mut self, at: i16) {
        self.asm.load(Size::W, Reg::R1, CTX, helper::xdp::DATA);
        self.asm.load(Size::W, Reg::R2, CTX, helper::xdp::DATA_END);
        self.asm.alu(Alu::Sub, Reg::R2, Reg::R1);
        self.asm.store(Size::D, VECTOR, at, Reg::R2);
        let (fits, large) = (self.asm.label(), self.slow(Reason::TooLong));
        self.asm.load(Size::D, Reg::R1, Reg::R7, config::MAX_FRAME as i16);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, fits);
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R2, Reg::R1, large);
        self.asm.place(fits);
    }

    /// The same at tc, where a packet may have its bytes in pieces, be a segment that is still to be cut, or have its tag beside it.
    /// Loses r0 to r5.
    fn length_of_packet(&mut self, at: i16) {
        /// Ethernet, IPv4 and TCP: what each packet that is cut from a segment has before its payload, at least.
        const HEADERS: i32 = 54;
        let (fits, whole, linear) = (self.asm.label(), self.asm.label(), self.asm.label());
        let (large, tagged) = (self.slow(Reason::TooLong), self.slow(Reason::TAGGED));
        self.asm.load(Size::W, Reg::R1, CTX, helper::skb::VLAN_PRESENT);
        self.asm.jump_nonzero(Reg::R1, tagged);
        self.asm.load(Size::W, Reg::R2, CTX, helper::skb::LEN);
        self.asm.store(Size::D, VECTOR, at, Reg::R2);
        self.asm.load(Size::W, Reg::R3, CTX, helper::skb::GSO_SIZE);
        if self.cuts.as_ref().is_some_and(|plan| plan.grows) {
            // Whoever cuts a segment does not know of headers that came in front of it.
            self.asm.jump_nonzero(Reg::R3, large);
        }
        self.asm.load(Size::D, Reg::R1, Reg::R7, config::MAX_FRAME as i16);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, fits);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R3, 0, whole);
        self.asm.mov(Reg::R2, Reg::R3);
        self.asm.add_imm(Reg::R2, HEADERS);
        self.asm.place(whole);
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R2, Reg::R1, large);
        self.asm.place(fits);
        // What the parser looks at has to lie in one piece.
        let depth = self.cuts.as_ref().map_or(0, |plan| plan.depth).max(MIN_DEPTH);
        let short = self.asm.label();
        self.asm.load(Size::D, Reg::R2, VECTOR, at);
        self.asm.jump_if_imm(Bits::B64, Cond::Le, Reg::R2, depth as i32, short);
        self.asm.mov_imm(Reg::R2, depth as i32);
        self.asm.place(short);
        self.asm.load(Size::W, Reg::R1, CTX, helper::skb::DATA);
        self.asm.load(Size::W, Reg::R3, CTX, helper::skb::DATA_END);
        self.asm.alu(Alu::Sub, Reg::R3, Reg::R1);
        self.asm.jump_if(Bits::B64, Cond::Ge, Reg::R3, Reg::R2, linear);
        self.asm.mov(Reg::R1, CTX);
        self.asm.call(helper::SKB_PULL_DATA);
        self.asm.place(linear);
        self.asm.map_value(Reg::R7, fixed::CONFIG as i32, 0);
    }

    /// The packet's type: a copy's, or the usual one, which is 0.
    fn packet_type(&mut self, field: FieldId) -> Made {
        let (group, usual) = (self.scratch(GROUP), self.asm.label());
        self.asm.mov_imm(Reg::R1, 0);
        self.asm.load(Size::D, Reg::R0, VECTOR, group);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, usual);
        self.asm.mov_imm(Reg::R1, self.target.replica.map_or(0, |(_, value)| value) as i32);
        self.asm.place(usual);
        self.asm.mov(Reg::R0, Reg::R1);
        self.set_meta(field, Reg::R0)
    }

    /// The port that a packet leaves by. Copies have one that is not where it came from: that one is left out where they are sent.
    fn way_out(&mut self, field: FieldId, value: Operand) -> Made {
        let (group, usual) = (self.scratch(GROUP), self.asm.label());
        self.operand(value, Reg::R0)?;
        self.asm.load(Size::D, Reg::R1, VECTOR, group);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, usual);
        if let Some(port) = self.target.ingress_port {
            self.operand(Operand::Field(port), Reg::R0)?;
            self.asm.alu_imm(Alu::Xor, Reg::R0, 1);
        }
        self.asm.place(usual);
        self.set_meta(field, Reg::R0)
    }

    pub fn needs_time(&self) -> bool {
        let set = |step: &Step| matches!(step, Step::Set(_, Operand::Slot(slot::NOW_US)));
        let stamps = self.shape.tables.iter().any(|table| table.hits.is_some());
        let meters = !self.program.meters.is_empty();
        stamps || meters || self.target.ingress_timestamp.is_some() || self.target.steps.iter().any(set)
    }

    /// Ends the packet's path where the program asked for that: drops it, or has done with it what was asked for. `kept`: it is known
    /// where the packet goes.
    fn stop_if(&mut self, value: Operand, kept: bool) -> Result<(), Refusal> {
        let step = |reason| nothing("a step", reason);
        let reason = match value {
            Operand::Slot(slot::ASSERT) => drop_reason::ASSERT,
            Operand::Slot(slot::DIGEST) => {
                return self.take_digest().map_err(|reason| nothing("a digest", reason));
            }
            Operand::Slot(slot::RESUBMIT) => return self.recirculate(Kind::Resubmit).map_err(step),
            Operand::Slot(slot::CLONE) if !kept => return self.make_clone().map_err(step),
            Operand::Slot(slot::CLONE) => return self.keep_clone().map_err(step),
            // It is deparsed first.
            Operand::Slot(slot::RECIRCULATE) => {
                self.keep_whole();
                return Ok(());
            }
            // Requests that the kernel never makes: those packets went to user space before.
            Operand::Slot(_) => return Ok(()),
            Operand::Field(field) if Some(field) == self.target.mcast_grp => {
                return self.take_group(value).map_err(step);
            }
            // One queue has one priority.
            _ => drop_reason::PROGRAM,
        };
        let out = self.dropped(reason);
        self.operand(value, Reg::R0).map_err(step)?;
        self.asm.jump_nonzero(Reg::R0, out);
        Ok(())
    }

    /// Notes the multicast group that ingress chose. Where copies are not made here it is never set.
    fn take_group(&mut self, group: Operand) -> Made {
        if self.copies.is_none() {
            return Ok(());
        }
        self.operand(group, Reg::R0)?;
        let (group, usual) = (self.scratch(GROUP), self.asm.label());
        self.asm.store(Size::D, VECTOR, group, Reg::R0);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, usual);
        // What ingress asked for is not asked of its copies.
        self.forget_request(Kind::Recirculate);
        let cut = self.slot(slot::TRUNCATE);
        self.asm.store_imm(Size::D, VECTOR, cut, 0);
        self.asm.place(usual);
        Ok(())
    }

    /// The whole program.
    pub fn program_whole(mut self) -> Result<(Form, Shape), Refusal> {
        // Where clones go on.
        let behind = self.asm.label();
        self.behind = Some(behind);
        self.prologue().map_err(|reason| nothing("a packet's arrival", reason))?;
        let steps = self.target.steps.clone();
        // Whether it is known where the packet goes.
        let mut kept = false;
        let mut ingress = true;
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Parse(parser) => self.parser(*parser),
                Step::Run(pipeline) => {
                    if std::mem::take(&mut ingress) {
                        self.clone_to_egress().map_err(|reason| nothing("clones", reason))?;
                    }
                    self.pipeline(*pipeline);
                }
                Step::Set(field, _)
                    if self.copies.is_some() && self.target.replica.is_some_and(|(f, _)| f == *field) =>
                {
                    self.packet_type(*field).map_err(|reason| nothing("the target's metadata", reason))?;
                }
                Step::Set(field, value)
                    if self.copies == Some(Copies::NotBack) && self.target.egress_port == Some(*field) =>
                {
                    self.way_out(*field, *value)
                        .map_err(|reason| nothing("the target's metadata", reason))?;
                }
                Step::Set(field, value) => {
                    let made = self.operand(*value, Reg::R0).and_then(|()| self.set_meta(*field, Reg::R0));
                    made.map_err(|reason| nothing("the target's metadata", reason))?;
                }
                Step::StopIfAny(values, _) => {
                    for value in values {
                        self.stop_if(*value, kept)?;
                    }
                }
                Step::StopIfEqual(left, right, _) => {
                    let (out, on) = (self.dropped(drop_reason::PROGRAM), self.asm.label());
                    if self.copies.is_some() && !kept {
                        // Copies go whatever the port is.
                        let group = self.scratch(GROUP);
                        self.asm.load(Size::D, Reg::R0, VECTOR, group);
                        self.asm.jump_nonzero(Reg::R0, on);
                    }
                    let made = self.operand(*left, Reg::R0).and_then(|()| self.operand(*right, Reg::R1));
                    made.map_err(|reason| nothing("a step", reason))?;
                    self.asm.jump_if(Bits::B64, Cond::Eq, Reg::R0, Reg::R1, out);
                    self.asm.place(on);
                }
                Step::Keep(value) => {
                    kept = true;
                    self.asm.place(behind);
                    self.operand(*value, Reg::R0).map_err(|reason| nothing("a step", reason))?;
                    let at = self.shape.result as i16 + 16;
                    self.asm.store(Size::D, VECTOR, at, Reg::R0);
                }
                Step::Deparse(deparser) if at + 1 < steps.len() => {
                    let made = self.deparse_code(*deparser);
                    made.map_err(|reason| nothing("the deparser of ingress", reason))?;
                    self.new_packet();
                }
                Step::Deparse(deparser) => {
                    self.deparse(*deparser).map_err(|reason| nothing("the deparser", reason))?;
                }
            }
        }
        self.ends();
        let Gen { asm, shape, slow, target, .. } = self;
        let insns = asm.finish(target.far_jumps).map_err(|error| match error {
            AsmError::TooFar => {
                Refusal::TooLarge("jumps of more than 32,767 instructions need kernel 6.6".to_owned())
            }
            AsmError::Unplaced => Refusal::TooLarge(error.to_string()),
        })?;
        if insns.len() > MAX_INSNS {
            return Err(Refusal::TooLarge(format!("{} instructions, of {MAX_INSNS} at most", insns.len())));
        }
        Ok((Form { insns, slow: slow.into_iter().map(|(path, _)| path).collect() }, shape))
    }

    /// Whether a place holds at most 64 bits.
    pub fn narrow(place: Place) -> bool {
        matches!(place, Place::Words { width, .. } | Place::Bits { width, .. } if width <= 64)
    }

    /// The widths of the running action's parameters.
    pub fn params(&self) -> Vec<u32> {
        let action = self.action.map(|action| &self.program.actions[action.at()].params);
        action.map_or(Vec::new(), |params| params.iter().map(|p| p.width).collect())
    }

    /// Where a parameter's first word lies in the record, and how many words it has.
    pub fn param(&self, index: u32) -> Option<(i16, u32)> {
        let widths = self.params();
        let width = *widths.get(index as usize)?;
        let first = barewire_p4::key::arg_words(widths.iter().copied()).0[index as usize];
        Some(((maps::RECORD_ARGS + 8 * first) as i16, width.div_ceil(64).max(1)))
    }
}
