//! Packets that go round again: resubmitted after ingress, or recirculated after egress.
//!
//! The program calls itself (a tail call), with the packet as it is then: what the next round begins with is kept in a *context* behind
//! the vector, and a mark there says that this is no new packet. The kernel makes at most 33 such calls. A packet that wants one more, or
//! that meets something in a later round that only user space can do, goes up with its context behind a tag, and user space goes on from
//! the beginning of that round: what earlier rounds did is done.

use crate::r#gen::{CTX, Gen, Made, VECTOR};
use crate::maps::{self, AgainShape, TAG_LEN, config, fixed, recirculate, verdict};
use crate::{Reason, Target};
use barewire_ebpf::{Alu, Bits, Cond, Label, Reg, Size, helper};
use barewire_p4::ir::{FieldId, FieldListId, ListItem, Program, Stmt};
use barewire_p4::phv::{Layout, Place, slot};

/// How a packet goes round again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As it came, from the end of ingress.
    Resubmit,
    /// As it would leave, from the end of egress.
    Recirculate,
    /// Not itself: a clone of what came in, which goes through egress.
    Clone,
    /// A clone of what left egress, which goes through it once more. None of them goes to user space.
    CloneOfEgress,
}

impl Kind {
    fn slot(self) -> usize {
        match self {
            Kind::Resubmit => slot::RESUBMIT,
            Kind::Recirculate => slot::RECIRCULATE,
            Kind::Clone | Kind::CloneOfEgress => slot::CLONE,
        }
    }

    /// Its number in a context.
    pub fn number(self) -> u32 {
        match self {
            Kind::Resubmit => 1,
            Kind::Recirculate => 2,
            Kind::Clone => 3,
            Kind::CloneOfEgress => 4,
        }
    }

    /// The kind with a number.
    pub fn of(number: u32) -> Option<Kind> {
        [Kind::Resubmit, Kind::Recirculate, Kind::Clone].into_iter().find(|kind| kind.number() == number)
    }
}

/// The kind of a request, and the fields that go with the packet.
fn request(stmt: &Stmt) -> Option<(Kind, Option<FieldListId>)> {
    match stmt {
        Stmt::Resubmit { fields } => Some((Kind::Resubmit, *fields)),
        Stmt::Recirculate { fields } => Some((Kind::Recirculate, *fields)),
        _ => None,
    }
}

/// Requests of a program's actions, each once.
fn requests(program: &Program) -> Vec<(Kind, Option<FieldListId>)> {
    let mut all = Vec::new();
    for found in program.actions.iter().flat_map(|action| &action.body).filter_map(request) {
        if !all.contains(&found) {
            all.push(found);
        }
    }
    all
}

/// Whether a packet may go round again at all.
pub(crate) fn any(program: &Program) -> bool {
    !requests(program).is_empty()
}

/// The fields of a list: others than fixed ones are not kept, as in the target.
pub(crate) fn kept(program: &Program, list: Option<FieldListId>) -> Vec<FieldId> {
    let items = list.and_then(|list| program.field_lists.get(list.at())).map(|list| &list.items);
    let field = |item: &ListItem| match item {
        ListItem::Field(field) => field.fixed(),
        ListItem::Const { .. } => None,
    };
    items.into_iter().flatten().filter_map(field).collect()
}

/// Words that a list's fields take; or why they cannot be kept.
pub(crate) fn words_of(program: &Program, layout: &Layout, list: Option<FieldListId>) -> Made<u32> {
    let mut words = 0;
    for field in kept(program, list) {
        let place = layout.place(field);
        if let Place::Varbit { .. } = place {
            return Err(Reason::No("a varbit field that goes round again"));
        }
        words += Gen::words_of(place);
    }
    if words > maps::MAX_KEPT {
        return Err(Reason::No("more than 15 words of fields that go round again"));
    }
    Ok(words)
}

/// Words of the fields that go round, at most; none when no packet goes round in the kernel.
pub(crate) fn words(program: &Program, layout: &Layout) -> Option<u32> {
    requests(program).into_iter().filter_map(|(_, list)| words_of(program, layout, list).ok()).max()
}

impl Gen<'_> {
    /// Whether packets go round again here, and the array of programs.
    fn rounds(&self) -> Option<(AgainShape, usize)> {
        let shape = self.shape.again.filter(|shape| shape.rounds)?;
        let [at_xdp, at_tc] = shape.programs?;
        match self.is_tc() {
            false => Some((shape, at_xdp)),
            // A clone of what came in, in a later round, would have its context in the place of the packet's.
            true => (shape.mirrors.is_none() || shape.headers.is_some()).then_some((shape, at_tc)),
        }
    }

    /// Ask for another round; it begins when the pipeline of its kind has ended.
    pub fn ask_again(&mut self, kind: Kind, list: Option<FieldListId>) -> Made {
        let why = match (kind, self.rounds().is_some(), self.parser.is_some()) {
            (_, true, false) => None,
            (_, _, true) => Some("resubmission and recirculation in the parser"),
            (Kind::Resubmit, ..) => Some("resubmission beside clones, at tc"),
            _ => Some("recirculation beside clones, at tc"),
        };
        words_of(self.program, &self.shape.layout, list)?;
        if let Some(why) = why {
            return Err(Reason::No(why));
        }
        let at = self.slot(kind.slot());
        self.asm.store_imm(Size::D, VECTOR, at, list.map_or(1, |list| list.0 as i32 + 2));
        Ok(())
    }

    /// Lists of a kind's requests that are answered here.
    fn lists(&self, kind: Kind) -> Vec<Option<FieldListId>> {
        if self.rounds().is_none() {
            return Vec::new();
        }
        let mut all = requests(self.program);
        all.retain(|(of, list)| *of == kind && words_of(self.program, &self.shape.layout, *list).is_ok());
        all.into_iter().map(|(_, list)| list).collect()
    }

    /// A request that is not answered: what is cut, and what goes round, does so once.
    pub fn forget_request(&mut self, kind: Kind) {
        if !self.lists(kind).is_empty() {
            let at = self.slot(kind.slot());
            self.asm.store_imm(Size::D, VECTOR, at, 0);
        }
    }

    /// A packet that goes round is not cut: it does not leave.
    pub fn keep_whole(&mut self) {
        if self.lists(Kind::Recirculate).is_empty() {
            return;
        }
        let (asked, cut, leaves) =
            (self.slot(slot::RECIRCULATE), self.slot(slot::TRUNCATE), self.asm.label());
        self.asm.load(Size::D, Reg::R0, VECTOR, asked);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, leaves);
        self.asm.store_imm(Size::D, VECTOR, cut, 0);
        self.asm.place(leaves);
    }

    /// The next round, if it was asked for.
    pub fn recirculate(&mut self, kind: Kind) -> Made {
        let lists = self.lists(kind);
        let (Some((shape, programs)), false) = (self.rounds(), lists.is_empty()) else { return Ok(()) };
        let (asked, over, kept) = (self.slot(kind.slot()), self.asm.label(), self.asm.label());
        self.asm.load(Size::D, Reg::R0, VECTOR, asked);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, over);
        let (head, number) = (shape.word(recirculate::HEAD), kind.number());
        self.asm.store(Size::W, VECTOR, head, Reg::R0);
        self.asm.store_imm(Size::W, VECTOR, head + 4, number as i32);
        for list in lists {
            let other = self.asm.label();
            self.jump_unless_asked(asked, list, other);
            self.put_kept(shape, list)?;
            self.asm.jump(kept);
            self.asm.place(other);
        }
        self.asm.place(kept);
        let (mark, round) = (shape.word(recirculate::MARK), shape.word(recirculate::ROUND));
        self.asm.store_imm(Size::D, VECTOR, round, 1);
        self.asm.store_imm(Size::D, VECTOR, mark, 1);
        self.asm.mov(Reg::R1, CTX);
        self.asm.map(Reg::R2, programs as i32);
        self.asm.mov_imm(Reg::R3, 0);
        self.asm.call(helper::TAIL_CALL);
        // It was one too many.
        self.asm.store_imm(Size::D, VECTOR, mark, 0);
        self.place = match kind {
            Kind::Resubmit => "resubmission".to_owned(),
            _ => "recirculation".to_owned(),
        };
        let slow = self.slow(Reason::Rounds);
        self.asm.jump(slow);
        self.asm.place(over);
        Ok(())
    }

    /// Goes there unless the request at a place of the vector is the one with this list.
    fn jump_unless_asked(&mut self, at: i16, list: Option<FieldListId>, other: Label) {
        self.asm.load(Size::D, Reg::R0, VECTOR, at);
        let asked = list.map_or(1, |list| list.0 as i32 + 2);
        self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, asked, other);
    }

    /// Where later rounds are user space's alone.
    fn later(&self) -> Option<AgainShape> {
        self.shape.again.filter(|_| self.target.between().is_some())
    }

    /// Every packet that comes is a new one.
    pub fn first_round(&mut self) {
        if let Some(shape) = self.later() {
            self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::ROUND), 0);
        }
    }

    /// A packet for the port by which it comes in again goes to user space with what it is now.
    pub fn leave_again(&mut self) {
        let (Some(shape), Some(port)) = (self.later(), self.target.recirculate_port) else { return };
        let (kept, len) = (self.shape.result as i16 + 16, self.slot(slot::PACKET_LEN));
        let leaves = self.asm.label();
        self.asm.load(Size::D, Reg::R0, VECTOR, kept);
        self.asm.constant(Reg::R1, u64::from(port));
        self.asm.jump_if(Bits::B64, Cond::Ne, Reg::R0, Reg::R1, leaves);
        let head = shape.word(recirculate::HEAD);
        self.asm.store_imm(Size::W, VECTOR, head, 0);
        self.asm.store_imm(Size::W, VECTOR, head + 4, Kind::Recirculate.number() as i32);
        self.asm.load(Size::D, Reg::R0, VECTOR, len);
        self.asm.store(Size::D, VECTOR, shape.word(recirculate::KEPT), Reg::R0);
        self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::ROUND), 1);
        self.place = "recirculation".to_owned();
        let slow = self.slow(Reason::Rounds);
        self.asm.jump(slow);
        self.asm.place(leaves);
    }

    /// Whether it is a new packet that comes, or goes there. Loses r1.
    pub fn jump_if_again(&mut self, to: Label) {
        let of_egress = self.clones_of_egress();
        let Some(shape) = self.rounds().map(|(shape, _)| shape).or(of_egress) else { return };
        self.asm.load(Size::D, Reg::R1, VECTOR, shape.word(recirculate::MARK));
        self.asm.jump_nonzero(Reg::R1, to);
        self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::ROUND), 0);
        if of_egress.is_some() {
            self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::PENDING), 0);
        }
    }

    /// What a later round begins with.
    pub fn begin_again(&mut self, ready: Label, here: Label) -> Made {
        let (rounds, of_egress) = (self.rounds().map(|(shape, _)| shape), self.clones_of_egress());
        let Some(shape) = rounds.or(of_egress) else { return Ok(()) };
        self.asm.jump(ready);
        self.asm.place(here);
        self.asm.store_imm(Size::D, VECTOR, shape.word(recirculate::MARK), 0);
        if of_egress.is_some() {
            let other = self.asm.label();
            if rounds.is_some() {
                self.asm.load(Size::W, Reg::R0, VECTOR, shape.word(recirculate::HEAD) + 4);
                let number = Kind::CloneOfEgress.number() as i32;
                self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, number, other);
            }
            self.begin_clone_of_egress(shape)?;
            self.asm.place(other);
        }
        if rounds.is_none() {
            self.asm.place(ready);
            return Ok(());
        }
        self.blank();
        let len = self.slot(slot::PACKET_LEN);
        if self.is_tc() {
            self.asm.load(Size::W, Reg::R2, CTX, helper::skb::LEN);
        } else {
            self.asm.load(Size::W, Reg::R1, CTX, helper::xdp::DATA);
            self.asm.load(Size::W, Reg::R2, CTX, helper::xdp::DATA_END);
            self.asm.alu(Alu::Sub, Reg::R2, Reg::R1);
        }
        self.asm.store(Size::D, VECTOR, len, Reg::R2);
        if self.needs_time() {
            self.asm.map_value(Reg::R7, fixed::CONFIG as i32, 0);
            self.time();
        }
        // Fields first: what the target sets, it sets whatever they are.
        let (head, done) = (shape.word(recirculate::HEAD), self.asm.label());
        for kind in [Kind::Resubmit, Kind::Recirculate] {
            for list in self.lists(kind) {
                let other = self.asm.label();
                self.asm.load(Size::W, Reg::R0, VECTOR, head + 4);
                self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, kind.number() as i32, other);
                self.asm.load(Size::W, Reg::R0, VECTOR, head);
                let asked = list.map_or(1, |list| list.0 as i32 + 2);
                self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, asked, other);
                self.take_kept(shape, list)?;
                self.asm.jump(done);
                self.asm.place(other);
            }
        }
        self.asm.place(done);
        let Target { replica, resubmitted, recirculated, packet_length, .. } = *self.target;
        if let Some((field, _)) = replica {
            let set = self.asm.label();
            self.asm.load(Size::W, Reg::R1, VECTOR, head + 4);
            self.asm.constant(Reg::R0, resubmitted);
            self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, Kind::Resubmit.number() as i32, set);
            self.asm.constant(Reg::R0, recirculated);
            self.asm.place(set);
            self.set_meta(field, Reg::R0)?;
        }
        if let Some(field) = packet_length {
            self.asm.load(Size::D, Reg::R0, VECTOR, len);
            self.set_meta(field, Reg::R0)?;
        }
        self.asm.place(ready);
        Ok(())
    }

    /// Keep a list's fields behind the vector.
    pub fn put_kept(&mut self, shape: AgainShape, list: Option<FieldListId>) -> Made {
        let mut word = recirculate::KEPT;
        for field in kept(self.program, list) {
            let place = self.field_place(field)?;
            for part in 0..Self::words_of(place) {
                self.load_place(place, part, Reg::R0, false)?;
                self.asm.store(Size::D, VECTOR, shape.word(word), Reg::R0);
                word += 1;
            }
        }
        Ok(())
    }

    /// The other way.
    pub fn take_kept(&mut self, shape: AgainShape, list: Option<FieldListId>) -> Made {
        let mut word = recirculate::KEPT;
        for field in kept(self.program, list) {
            let place = self.field_place(field)?;
            if Self::narrow(place) {
                self.asm.load(Size::D, Reg::R0, VECTOR, shape.word(word));
                self.store_place(place, Reg::R0)?;
                word += 1;
                continue;
            }
            for part in 0..Self::words_of(place) {
                self.asm.load(Size::D, Reg::R0, VECTOR, shape.word(word));
                let to = self.scratch(part);
                self.asm.store(Size::D, VECTOR, to, Reg::R0);
                word += 1;
            }
            self.store_wide(place, 0)?;
        }
        Ok(())
    }

    /// A packet that is to go to user space goes there as it is in a later round, if this is one.
    pub fn hand_on(&mut self) {
        let clones = self.clones();
        let here = self.rounds().or(clones).map(|(shape, _)| shape);
        let Some(shape) = here.or(self.later()) else { return };
        let first = self.asm.label();
        self.asm.load(Size::D, Reg::R1, VECTOR, shape.word(recirculate::ROUND));
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 0, first);
        let result = self.shape.result as i16;
        self.asm.store_imm(Size::D, VECTOR, result, verdict::AGAIN as i32);
        self.put_tag(shape.context());
        let words =
            std::iter::once(recirculate::HEAD).chain((0..shape.words).map(|word| recirculate::KEPT + word));
        for (at, word) in words.enumerate() {
            self.asm.load(Size::D, Reg::R2, VECTOR, shape.word(word));
            self.asm.store(Size::D, Reg::R1, TAG_LEN as i16 + 8 * at as i16, Reg::R2);
        }
        // Another program would make something else of it.
        self.asm.map_value(Reg::R3, fixed::CONFIG as i32, 0);
        self.asm.load(Size::D, Reg::R2, Reg::R3, config::EPOCH as i16);
        self.asm.load(Size::W, Reg::R3, VECTOR, shape.word(recirculate::HEAD) + 4);
        self.asm.alu(Alu::Or, Reg::R2, Reg::R3);
        self.asm.store(Size::W, Reg::R1, TAG_LEN as i16 + 4, Reg::R2);
        self.account(1);
        self.come_up();
        self.asm.place(first);
    }

    /// Puts a tag before the packet, and room for a context; `r1` points there. Loses r0 to r5.
    pub fn put_tag(&mut self, context: u32) {
        let no_room = self.dropped(maps::drop_reason::NO_HEADROOM);
        let len = TAG_LEN + context;
        self.asm.mov(Reg::R1, CTX);
        if self.is_tc() {
            self.asm.mov_imm(Reg::R2, len as i32);
            self.asm.mov_imm(Reg::R3, 0);
            self.asm.call(helper::SKB_CHANGE_HEAD);
        } else {
            self.asm.mov_imm(Reg::R2, -(len as i32));
            self.asm.call(helper::XDP_ADJUST_HEAD);
        }
        self.asm.jump_nonzero(Reg::R0, no_room);
        let (data, data_end) = self.ends_of_packet();
        self.asm.load(Size::W, Reg::R1, CTX, data);
        self.asm.load(Size::W, Reg::R2, CTX, data_end);
        self.asm.mov(Reg::R3, Reg::R1);
        self.asm.add_imm(Reg::R3, len as i32);
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R3, Reg::R2, no_room);
        // Addresses of nobody, the type, how long the context is, the secret.
        self.asm.store_imm(Size::D, Reg::R1, 0, 0);
        self.asm.store_imm(Size::W, Reg::R1, 8, 0);
        self.asm.store_imm(Size::H, Reg::R1, 12, i32::from(u16::from_ne_bytes(crate::TAG_TYPE)));
        let context = u16::from_ne_bytes((context as u16).to_be_bytes());
        self.asm.store_imm(Size::H, Reg::R1, 14, i32::from(context));
        self.asm.map_value(Reg::R3, fixed::CONFIG as i32, 0);
        for word in 0..2 {
            self.asm.load(Size::D, Reg::R5, Reg::R3, (config::TAG + 8 * word) as i16);
            self.asm.store(Size::D, Reg::R1, (maps::TAG_SECRET + 8 * word) as i16, Reg::R5);
        }
    }
}

/// What a packet that goes on in user space had when its round began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// How it goes round.
    pub kind: Kind,
    /// The number of the program that wrote it.
    pub epoch: u32,
    /// The request: 1, or the position of a list of fields plus 2; a clone's session, and above its 15 bits the list's position plus 1.
    pub request: u64,
    /// The fields' words, in the list's order; the least significant word of each first.
    pub words: [u64; maps::MAX_KEPT as usize],
}

impl Context {
    /// Reads one; none for what is not one.
    pub fn read(bytes: &[u8]) -> Option<Context> {
        let (request, rest) = bytes.split_first_chunk()?;
        let (kind, rest) = rest.split_first_chunk()?;
        let (request, kind) = (u32::from_ne_bytes(*request), u32::from_ne_bytes(*kind));
        let (epoch, kind) = (kind >> recirculate::EPOCH_SHIFT, kind & ((1 << recirculate::EPOCH_SHIFT) - 1));
        let mut words = [0; maps::MAX_KEPT as usize];
        for (word, bytes) in words.iter_mut().zip(rest.chunks_exact(8)) {
            *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
        }
        Some(Context { kind: Kind::of(kind)?, epoch, request: u64::from(request), words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_they_are_written() {
        let mut bytes = Vec::new();
        bytes.extend(3_u32.to_ne_bytes());
        bytes.extend((Kind::Recirculate.number() | 5 << recirculate::EPOCH_SHIFT).to_ne_bytes());
        bytes.extend(7_u64.to_ne_bytes());
        let found = Context::read(&bytes).expect("a context");
        assert_eq!((found.kind, found.epoch, found.request), (Kind::Recirculate, 5, 3));
        assert_eq!(found.words[..2], [7, 0]);
        assert_eq!(Context::read(&bytes[..7]), None);
        bytes[4..8].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(Context::read(&bytes), None, "no such kind");
    }
}
