//! Clones of what came in, at tc: the packet as it is when ingress has ended comes in again at its interface, with a mark that names the
//! mirror session, and the fields that go along beside it. It is parsed anew, and goes through egress as the session says.
//!
//! So a clone is a packet of its own, and what only user space can do for it user space does, from the same point. That egress runs later
//! for a clone than for its original must not show: programs whose egress keeps state that depends on the order have clones in user space.
//!
//! Clones of what leaves egress have headers and no bytes yet. So the headers are kept beside the vector, the packet is sent as a copy, and
//! then the program calls itself for the clone, which begins with those headers behind ingress, in front of the payload of the packet. As no
//! way leads from there to user space, such clones are made in the kernel only where egress and deparser need none.

use crate::r#gen::{CTX, Gen, Made, VECTOR};
use crate::maps::{
    AgainShape, MAX_CLONE_KEPT, NO_PLAIN_SESSION, config, drop_reason, fixed, recirculate, verdict,
};
use crate::output::GROUP;
use crate::recirculate::{Kind, words_of};
use crate::{CLONE_MARK, Hook, Reason, SESSIONS, Target};
use barewire_ebpf::{Alu, Bits, Cond, Label, Reg, Size, helper};
use barewire_p4::chain::Step;
use barewire_p4::ir::{Expr, FieldListId, Node, Program, Stmt};
use barewire_p4::phv::{Layout, slot};

/// Bits of a request's session; its list of fields stands above them.
const SESSION_BITS: i32 = SESSIONS.trailing_zeros() as i32;
/// The highest number of a list, its position plus 1: the program's number stands above it.
const MAX_LIST: u32 = (1 << recirculate::EPOCH_SHIFT) - 1;
/// The scratch word of the mark that a packet came with.
const MARK: u32 = 1;

/// Lists of fields that go with clones of what came in, or of what leaves egress, each once.
fn lists(program: &Program, of_egress: bool) -> Vec<Option<FieldListId>> {
    let mut all = Vec::new();
    for stmt in program.actions.iter().flat_map(|action| &action.body) {
        let fields = match stmt {
            Stmt::CloneIngress { fields, .. } if !of_egress => fields,
            Stmt::CloneEgress { fields, .. } if of_egress => fields,
            _ => continue,
        };
        if !all.contains(fields) {
            all.push(*fields);
        }
    }
    all
}

/// Whether a list fits what stands beside a packet; or why not.
fn fits(program: &Program, layout: &Layout, list: Option<FieldListId>) -> Made<u32> {
    match words_of(program, layout, list)? {
        words @ 0..=MAX_CLONE_KEPT if list.is_none_or(|list| list.0 < MAX_LIST) => Ok(words),
        _ => Err(Reason::No("clones with more than 2 words of fields")),
    }
}

/// Words of the fields that go with clones, at most; none when no clone is made in the kernel.
pub(crate) fn words(program: &Program, layout: &Layout) -> Option<u32> {
    lists(program, false).into_iter().filter_map(|list| fits(program, layout, list).ok()).max()
}

/// The same for clones of what leaves egress.
pub(crate) fn words_of_egress(program: &Program, layout: &Layout) -> Option<u32> {
    let recirculates = |stmt: &Stmt| matches!(stmt, Stmt::Recirculate { .. });
    // Both would begin where the other does.
    if program.actions.iter().flat_map(|action| &action.body).any(recirculates) {
        return None;
    }
    lists(program, true).into_iter().filter_map(|list| words_of(program, layout, list).ok()).max()
}

/// The pipelines before and behind the traffic manager.
pub(crate) fn ingress_and_egress(target: &Target) -> Option<(usize, usize)> {
    let mut runs = target.steps.iter().filter_map(|step| match step {
        Step::Run(pipeline) => Some(*pipeline),
        _ => None,
    });
    Some((runs.next()?, runs.next_back()?))
}

impl Gen<'_> {
    /// Whether clones are made here.
    pub fn clones(&self) -> Option<(AgainShape, usize)> {
        let shape = self.shape.again.filter(|shape| self.is_tc() && shape.headers.is_none())?;
        Some((shape, shape.mirrors?))
    }

    /// Whether clones of what leaves egress are made here.
    pub fn clones_of_egress(&self) -> Option<AgainShape> {
        self.shape.again.filter(|shape| self.is_tc() && shape.headers.is_some())
    }

    /// Whether it shows which packet went through egress first.
    fn egress_knows_order(&self, egress: usize) -> bool {
        let program = self.program;
        let sees = |stmt: &Stmt| {
            matches!(
                stmt,
                Stmt::RegisterRead { .. }
                    | Stmt::RegisterWrite { .. }
                    | Stmt::Meter { .. }
                    | Stmt::Digest { .. }
            )
        };
        program.pipelines[egress].nodes.iter().any(|node| {
            let actions = match node {
                Node::Table { table, .. } => {
                    if program.tables[table.at()].meter.is_some() {
                        return true;
                    }
                    self.table_actions(*table)
                }
                Node::Call { action, .. } => vec![*action],
                Node::If { .. } => Vec::new(),
            };
            actions.iter().flat_map(|action| &program.actions[action.at()].body).any(sees)
        })
    }

    /// Ask for a clone; it is made when ingress has ended.
    pub fn ask_clone(&mut self, session: &Expr, list: Option<FieldListId>) -> Made {
        if self.target.hook == Hook::Xdp {
            return Err(Reason::No(crate::CLONES));
        }
        fits(self.program, &self.shape.layout, list)?;
        let Some((ingress, egress)) = ingress_and_egress(self.target) else {
            return Err(Reason::No("clones"));
        };
        if self.clones().is_none() || self.parser.is_some() || self.pipeline != ingress {
            return Err(Reason::No("clones that are not asked for in ingress"));
        }
        if self.egress_knows_order(egress) {
            return Err(Reason::No("clones, as egress knows the order of packets"));
        }
        self.ask(session, list)
    }

    fn ask(&mut self, session: &Expr, list: Option<FieldListId>) -> Made {
        self.eval(session, 0, 0)?;
        self.asm.alu_imm(Alu::And, Reg::R0, SESSIONS as i32 - 1);
        self.asm.add_imm(Reg::R0, 1);
        let (asked, fields) = (self.slot(slot::CLONE), self.slot(slot::CLONE_FIELDS));
        self.asm.store(Size::D, VECTOR, asked, Reg::R0);
        self.asm.store_imm(Size::D, VECTOR, fields, list.map_or(0, |list| list.0 as i32 + 1));
        Ok(())
    }

    /// Ask for a clone of what leaves egress; it is made when the packet has left.
    pub fn ask_clone_of_egress(&mut self, session: &Expr, list: Option<FieldListId>) -> Made {
        if self.shape.again.is_none_or(|shape| shape.headers.is_none()) {
            return Err(Reason::No("clones of what leaves egress"));
        }
        if self.target.hook == Hook::Xdp {
            return Err(Reason::No(crate::CLONES));
        }
        words_of(self.program, &self.shape.layout, list)?;
        let egress = ingress_and_egress(self.target).map(|(_, egress)| egress);
        if self.parser.is_some() || Some(self.pipeline) != egress {
            return Err(Reason::No("clones that are not asked for in egress"));
        }
        self.ask(session, list)
    }

    /// Lists of the clones that are made here.
    fn clone_lists(&self) -> Vec<Option<FieldListId>> {
        let mut all = lists(self.program, false);
        all.retain(|list| fits(self.program, &self.shape.layout, *list).is_ok());
        all
    }

    /// Lists of the clones of what leaves egress.
    fn lists_of_egress(&self) -> Vec<Option<FieldListId>> {
        let mut all = lists(self.program, true);
        all.retain(|list| words_of(self.program, &self.shape.layout, *list).is_ok());
        all
    }

    /// Words of the vector that the packet may change before its clone begins, with their places where they are kept.
    fn kept_headers(&self, headers: u32) -> Vec<(i16, i16)> {
        let layout = &self.shape.layout;
        let metadata = layout.metadata_word..layout.headers_word;
        let words = (slot::COUNT as u32..layout.words).filter(|word| !metadata.contains(word));
        words.map(|word| (self.word(word), (headers + 8 * word) as i16)).collect()
    }

    /// The request for a clone of what leaves egress, if there is one, with what the clone begins with.
    pub fn keep_clone(&mut self) -> Made {
        let Some(shape) = self.clones_of_egress() else { return Ok(()) };
        let over = self.keep_request(shape, self.lists_of_egress())?;
        self.asm.store_imm(
            Size::W,
            VECTOR,
            shape.word(recirculate::HEAD) + 4,
            Kind::CloneOfEgress.number() as i32,
        );
        for (word, kept) in self.kept_headers(shape.headers.unwrap_or(0)) {
            self.asm.load(Size::D, Reg::R0, VECTOR, word);
            self.asm.store(Size::D, VECTOR, kept, Reg::R0);
        }
        for answered in [slot::CLONE, slot::CLONE_FIELDS] {
            let at = self.slot(answered);
            self.asm.store_imm(Size::D, VECTOR, at, 0);
        }
        self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::PENDING), 1);
        self.asm.place(over);
        Ok(())
    }

    /// Where a packet's clone is made, once the packet has left or was dropped.
    fn for_clone(&mut self) -> Label {
        match self.sent {
            Some(sent) => sent,
            None => *self.sent.insert(self.asm.label()),
        }
    }

    /// If there is to be a clone, the packet leaves as a copy: `send` sends it (tests go on without), and what is left becomes the clone.
    /// Otherwise on behind this. Loses r1.
    pub fn send_copy_if_pending(&mut self, send: impl FnOnce(&mut Self)) {
        let Some(shape) = self.clones_of_egress() else { return };
        let (alone, sent) = (self.asm.label(), self.for_clone());
        self.asm.load(Size::D, Reg::R1, VECTOR, shape.word(recirculate::PENDING));
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, alone);
        self.asm.map_value(Reg::R1, fixed::CONFIG as i32, 0);
        self.asm.load(Size::D, Reg::R1, Reg::R1, config::FIXED_NOW_US as i16);
        self.asm.jump_nonzero(Reg::R1, sent);
        send(self);
        self.asm.jump(sent);
        self.asm.place(alone);
    }

    /// The packet was dropped: on to its clone, if there is to be one. Loses r1.
    pub fn clone_if_pending(&mut self) {
        let Some(shape) = self.clones_of_egress() else { return };
        let sent = self.for_clone();
        self.asm.load(Size::D, Reg::R1, VECTOR, shape.word(recirculate::PENDING));
        self.asm.jump_nonzero(Reg::R1, sent);
    }

    /// The program calls itself for the clone.
    pub fn call_for_clone(&mut self, here: Label) {
        let Some((shape, [_, programs])) = self.clones_of_egress().and_then(|s| Some((s, s.programs?)))
        else {
            return;
        };
        let end = self.asm.label();
        self.asm.place(here);
        self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::PENDING), 0);
        self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::MARK), 1);
        // Tests call it themselves.
        self.asm.map_value(Reg::R1, fixed::CONFIG as i32, 0);
        self.asm.load(Size::D, Reg::R1, Reg::R1, config::FIXED_NOW_US as i16);
        self.asm.jump_nonzero(Reg::R1, end);
        self.asm.mov(Reg::R1, CTX);
        self.asm.map(Reg::R2, programs as i32);
        self.asm.mov_imm(Reg::R3, 0);
        self.asm.call(helper::TAIL_CALL);
        // A clone of a clone of a clone …: it was one too many.
        self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::MARK), 0);
        self.account(2 + drop_reason::NO_REPLICA as u32);
        self.asm.place(end);
        self.asm.mov_imm(Reg::R0, helper::skb::SHOT);
        self.asm.exit();
    }

    /// The clone's way to egress.
    pub fn begin_clone_of_egress(&mut self, shape: AgainShape) -> Made {
        for (word, kept) in self.kept_headers(shape.headers.unwrap_or(0)) {
            self.asm.load(Size::D, Reg::R0, VECTOR, kept);
            self.asm.store(Size::D, VECTOR, word, Reg::R0);
        }
        for asked in [slot::DIGEST, slot::RESUBMIT, slot::RECIRCULATE, slot::TRUNCATE] {
            let at = self.slot(asked);
            self.asm.store_imm(Size::D, VECTOR, at, 0);
        }
        let none = self.asm.label();
        self.enter_egress(shape, self.lists_of_egress(), self.target.cloned_of_egress, none, none)?;
        self.place_unknown(none);
        Ok(())
    }

    /// The end of a clone whose session is not there.
    fn place_unknown(&mut self, here: Label) {
        self.asm.place(here);
        let (result, none) = (self.shape.result as i16, self.dropped(drop_reason::NO_REPLICA));
        self.asm.store_imm(Size::D, VECTOR, result, verdict::DROP as i32);
        self.asm.store_imm(Size::D, VECTOR, result + 8, drop_reason::NO_REPLICA as i32);
        self.asm.jump(none);
    }

    /// With no metadata but what went along, on behind ingress to the port of the session in the context; or on to `unknown`, or, where it
    /// is more than a port, to `other`.
    fn enter_egress(
        &mut self,
        shape: AgainShape,
        lists: Vec<Option<FieldListId>>,
        instance: u64,
        unknown: Label,
        other: Label,
    ) -> Made {
        let (Some(mirrors), Some(there)) = (shape.mirrors, self.behind) else {
            return Err(Reason::No("clones"));
        };
        let head = shape.word(recirculate::HEAD);
        self.asm.load(Size::W, Reg::R1, VECTOR, head);
        self.asm.alu_imm(Alu::And, Reg::R1, SESSIONS as i32 - 1);
        self.asm.mov(Reg::R8, Reg::R1);
        self.lookup_index(mirrors, Reg::R1);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, unknown);
        // The port and whose it is at once: the memory may be another session's by now.
        self.asm.load(Size::D, Reg::R1, Reg::R0, 0);
        self.asm.mov(Reg::R2, Reg::R1);
        self.asm.alu_imm(Alu::Rsh, Reg::R2, 32);
        self.asm.jump_if(Bits::B64, Cond::Ne, Reg::R2, Reg::R8, other);
        self.asm.alu32(Alu::Mov, Reg::R8, Reg::R1);
        self.asm.jump_if_imm(Bits::B32, Cond::Eq, Reg::R1, NO_PLAIN_SESSION as i32, other);
        let layout = &self.shape.layout;
        for word in layout.metadata_word..layout.headers_word {
            let at = self.word(word);
            self.asm.store_imm(Size::D, VECTOR, at, 0);
        }
        let done = self.asm.label();
        for list in lists.into_iter().filter(|list| list.is_some()) {
            let other = self.asm.label();
            self.asm.load(Size::W, Reg::R1, VECTOR, head);
            self.asm.alu_imm(Alu::Rsh, Reg::R1, SESSION_BITS);
            let number = list.map_or(0, |list| list.0 as i32 + 1);
            self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R1, number, other);
            self.take_kept(shape, list)?;
            self.asm.jump(done);
            self.asm.place(other);
        }
        self.asm.place(done);
        if let Some((field, _)) = self.target.replica {
            self.asm.constant(Reg::R0, instance);
            self.set_meta(field, Reg::R0)?;
        }
        // What follows takes the port from there.
        let way = self.target.steps.iter().find_map(|step| match step {
            Step::Keep(barewire_p4::chain::Operand::Field(field)) => Some(*field),
            _ => None,
        });
        let Some(way) = way else { return Err(Reason::No("clones")) };
        self.asm.mov(Reg::R0, Reg::R8);
        self.set_meta(way, Reg::R0)?;
        let group = self.scratch(GROUP);
        self.asm.store_imm(Size::D, VECTOR, group, 0);
        self.asm.jump(there);
        Ok(())
    }

    /// The clone that was asked for goes into the context: its session, its list and the fields of that list, which is one of `lists`. The
    /// label is for its caller to place: where it goes on if none was asked for. Loses r0 and r1.
    fn keep_request(&mut self, shape: AgainShape, lists: Vec<Option<FieldListId>>) -> Result<Label, Reason> {
        let (asked, fields) = (self.slot(slot::CLONE), self.slot(slot::CLONE_FIELDS));
        let (none, ready) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::D, Reg::R0, VECTOR, asked);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
        self.asm.add_imm(Reg::R0, -1);
        self.asm.load(Size::D, Reg::R1, VECTOR, fields);
        self.asm.alu_imm(Alu::Lsh, Reg::R1, SESSION_BITS);
        self.asm.alu(Alu::Or, Reg::R0, Reg::R1);
        self.asm.store(Size::W, VECTOR, shape.word(recirculate::HEAD), Reg::R0);
        for list in lists.into_iter().filter(|list| list.is_some()) {
            let other = self.asm.label();
            self.asm.load(Size::D, Reg::R0, VECTOR, fields);
            let number = list.map_or(0, |list| list.0 as i32 + 1);
            self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, number, other);
            self.put_kept(shape, list)?;
            self.asm.jump(ready);
            self.asm.place(other);
        }
        self.asm.place(ready);
        Ok(none)
    }

    /// The clone that was asked for, if any.
    pub fn make_clone(&mut self) -> Made {
        let Some((shape, _)) = self.clones() else { return Ok(()) };
        let (head, cloned) = (shape.word(recirculate::HEAD), shape.word(recirculate::CLONED));
        let over = self.keep_request(shape, self.clone_lists())?;
        self.asm.store_imm(Size::D, VECTOR, cloned, 1);
        for word in 0..shape.words.min(MAX_CLONE_KEPT) {
            self.asm.load(Size::D, Reg::R1, VECTOR, shape.word(recirculate::KEPT + word));
            self.asm.store(Size::D, CTX, helper::skb::CB + 8 * word as i16, Reg::R1);
        }
        self.asm.load(Size::W, Reg::R1, VECTOR, head);
        self.asm.mov(Reg::R2, Reg::R1);
        self.asm.alu_imm(Alu::Rsh, Reg::R2, SESSION_BITS);
        self.asm.map_value(Reg::R3, fixed::CONFIG as i32, 0);
        self.asm.load(Size::D, Reg::R3, Reg::R3, config::EPOCH as i16);
        self.asm.alu(Alu::Or, Reg::R2, Reg::R3);
        self.asm.store(Size::W, CTX, helper::skb::CB + 16, Reg::R2);
        let mark = self.scratch(MARK);
        self.asm.load(Size::W, Reg::R2, CTX, helper::skb::MARK);
        self.asm.store(Size::D, VECTOR, mark, Reg::R2);
        self.asm.alu_imm(Alu::And, Reg::R1, SESSIONS as i32 - 1);
        self.asm.alu_imm(Alu::Or, Reg::R1, CLONE_MARK as i32);
        self.asm.store(Size::W, CTX, helper::skb::MARK, Reg::R1);
        // Tests have no interface where it would come in.
        let made = self.asm.label();
        self.asm.map_value(Reg::R1, fixed::CONFIG as i32, 0);
        self.asm.load(Size::D, Reg::R1, Reg::R1, config::FIXED_NOW_US as i16);
        self.asm.jump_nonzero(Reg::R1, made);
        self.asm.mov(Reg::R1, CTX);
        self.asm.load(Size::W, Reg::R2, CTX, helper::skb::IFINDEX);
        self.asm.mov_imm(Reg::R3, helper::skb::F_INGRESS);
        self.asm.call(helper::CLONE_REDIRECT);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, made);
        self.account(2 + drop_reason::NO_REPLICA as u32);
        self.asm.place(made);
        self.asm.load(Size::D, Reg::R1, VECTOR, mark);
        self.asm.store(Size::W, CTX, helper::skb::MARK, Reg::R1);
        self.asm.place(over);
        Ok(())
    }

    /// Whether a packet that comes in is a clone: then what it has beside it goes behind the vector. Loses r1 to r3.
    pub fn is_clone(&mut self) {
        let Some((shape, _)) = self.clones() else { return };
        let usual = self.asm.label();
        let (head, round) = (shape.word(recirculate::HEAD), shape.word(recirculate::ROUND));
        self.asm.store_imm(Size::D, VECTOR, round, 0);
        self.asm.load(Size::W, Reg::R1, CTX, helper::skb::MARK);
        self.asm.mov(Reg::R2, Reg::R1);
        self.asm.alu_imm(Alu::And, Reg::R2, -(SESSIONS as i32));
        self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R2, CLONE_MARK as i32, usual);
        self.asm.alu_imm(Alu::And, Reg::R1, SESSIONS as i32 - 1);
        // Another program would make something else of it.
        let other = self.dropped(drop_reason::NO_REPLICA);
        self.asm.load(Size::W, Reg::R2, CTX, helper::skb::CB + 16);
        self.asm.map_value(Reg::R3, fixed::CONFIG as i32, 0);
        self.asm.load(Size::D, Reg::R3, Reg::R3, config::EPOCH as i16);
        self.asm.xor(Reg::R2, Reg::R3);
        self.asm.jump_if_imm(Bits::B64, Cond::Gt, Reg::R2, MAX_LIST as i32, other);
        self.asm.alu_imm(Alu::Lsh, Reg::R2, SESSION_BITS);
        self.asm.alu(Alu::Or, Reg::R1, Reg::R2);
        self.asm.store(Size::W, VECTOR, head, Reg::R1);
        self.asm.store_imm(Size::W, VECTOR, head + 4, Kind::Clone.number() as i32);
        for word in 0..shape.words.min(MAX_CLONE_KEPT) {
            self.asm.load(Size::D, Reg::R1, CTX, helper::skb::CB + 8 * word as i16);
            self.asm.store(Size::D, VECTOR, shape.word(recirculate::KEPT + word), Reg::R1);
        }
        self.asm.store_imm(Size::D, VECTOR, round, 1);
        self.asm.mov_imm(Reg::R1, 0);
        self.asm.store(Size::W, CTX, helper::skb::MARK, Reg::R1);
        self.asm.place(usual);
    }

    /// A clone that has been parsed goes on behind ingress.
    pub fn clone_to_egress(&mut self) -> Made {
        let Some((shape, _)) = self.clones() else { return Ok(()) };
        let (usual, round) = (self.asm.label(), shape.word(recirculate::ROUND));
        self.asm.load(Size::D, Reg::R1, VECTOR, round);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, usual);
        self.place = "clones".to_owned();
        let (unknown, other) = (self.asm.label(), self.slow(Reason::Session));
        self.enter_egress(shape, self.clone_lists(), self.target.cloned, unknown, other)?;
        self.place_unknown(unknown);
        self.asm.place(usual);
        Ok(())
    }
}
