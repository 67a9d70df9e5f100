//! The parser: states, once for each place in the packet and each fill of the header stacks they are entered with.
//!
//! So `stack.next` is a header known now, offsets are constants where nothing of variable length came before, and a loop over
//! a stack ends because the stack does. A loop that no stack bounds is followed [`MAX_NODES`] states far; beyond, packets go to
//! user space.

use crate::Reason;
use crate::fields::Found;
use crate::r#gen::{CTX, Gen, Made, POOL, ParserPlace, TEMP, TEMP2, VECTOR};
use barewire_ebpf::{Alu, Bits, Cond, Label, Reg, Size};
use barewire_p4::chain::Step;
use barewire_p4::ir::{
    Expr, FieldId, HeaderId, HeaderRef, Parser, ParserOp, ParserState, StateId, TransitionMatch, ValueSetId,
    Width,
};
use barewire_p4::phv::{Place, slot};
use num_bigint::BigUint;
use num_traits::Zero;
use std::collections::{BTreeMap, BTreeSet};

/// The most states that are compiled, each as often as it is entered differently.
const MAX_NODES: usize = 600;
/// The furthest place in a packet that the verifier is told of.
const MAX_AT: i32 = 0x3fff;
/// Where a place lies that only the packet knows, when so many bytes are asked for beforehand.
const DYNAMIC_DEPTH: u32 = 256;
/// Scratch words for a transition's key.
const KEY: u32 = 2;
const KEY_WORDS: u32 = 16;
/// The scratch word of a varbit field's bytes.
const VARBIT: u32 = 19;
/// The most bytes of a varbit field.
const MAX_VARBIT: u32 = 256;

type Node = (StateId, ParserPlace);

/// Ways between states so far: they must not lead in a circle, which the verifier would walk for ever.
#[derive(Default)]
struct Routes(BTreeMap<Node, Vec<Node>>);

impl Routes {
    /// Adds a way; false when it would close a circle.
    fn add(&mut self, from: &Node, to: &Node) -> bool {
        let mut seen = BTreeSet::from([to]);
        let mut open = vec![to];
        while let Some(node) = open.pop() {
            if node == from {
                return false;
            }
            open.extend(self.0.get(node).into_iter().flatten().filter(|next| seen.insert(next)));
        }
        self.0.entry(from.clone()).or_default().push(to.clone());
        true
    }
}

impl Gen<'_> {
    /// A whole parser and the checksums behind it.
    pub fn parser(&mut self, index: usize) {
        let parser = &self.program.parsers[index];
        let start = ParserPlace { next: vec![0; self.program.stacks.len()], at: Some(0) };
        let at = self.slot(slot::PARSER_ERROR);
        self.asm.constant(Reg::R0, self.errors.no_error);
        self.asm.store(Size::D, VECTOR, at, Reg::R0);
        let mut labels: BTreeMap<Node, Label> = BTreeMap::new();
        let mut queue: Vec<Node> = Vec::new();
        let mut ways = Routes::default();
        let end = self.asm.label();
        match parser.start {
            Some(state) => {
                let label = self.asm.label();
                labels.insert((state, start.clone()), label);
                queue.push((state, start));
                self.asm.jump(label);
            }
            None => {
                let label = self.parser_end(None, &start);
                self.asm.jump(label);
            }
        }
        while let Some(node) = queue.pop() {
            self.asm.place(labels[&node]);
            self.place = format!("parser state {}", parser.states[node.0.at()].name);
            self.parser = Some(node.1.clone());
            let begin = self.asm.len();
            let mut next = Vec::new();
            if let Err(reason) = self.state(parser, &node, &mut labels, &mut next, &mut ways) {
                // Nothing was done for the packet yet: user space begins anew.
                self.take_back(begin);
                let slow = self.slow(reason);
                self.asm.jump(slow);
            }
            queue.extend(next);
        }
        self.parser = None;
        let ends = std::mem::take(&mut self.parser_ends);
        for ((error, place), label) in ends {
            self.asm.place(label);
            if let Some(error) = error {
                let (number, rejected) = (self.slot(slot::PARSER_ERROR), self.slot(slot::REJECTED));
                self.asm.constant(Reg::R0, error);
                self.asm.store(Size::D, VECTOR, number, Reg::R0);
                self.asm.store_imm(Size::D, VECTOR, rejected, 1);
            }
            if let Some(at) = place.at {
                let parsed = self.slot(slot::PARSED);
                self.asm.store_imm(Size::D, VECTOR, parsed, at as i32);
            }
            for (stack, next) in place.next.iter().enumerate().filter(|(_, next)| **next > 0) {
                let at = self.word(self.shape.layout.stack_next[stack]);
                self.asm.store_imm(Size::D, VECTOR, at, *next as i32);
            }
            self.asm.jump(end);
        }
        self.asm.place(end);
        self.place = "the checksums behind the parser".to_owned();
        let begin = self.asm.len();
        if let Err(reason) = self.checksums(true) {
            self.take_back(begin);
            let slow = self.slow(reason);
            self.asm.jump(slow);
        }
    }

    /// The end of the parser with an error, or without.
    pub fn parser_end(&mut self, error: Option<u64>, place: &ParserPlace) -> Label {
        let key = (error, place.clone());
        if let Some((_, label)) = self.parser_ends.iter().find(|(known, _)| *known == key) {
            return *label;
        }
        let label = self.asm.label();
        self.parser_ends.push((key, label));
        label
    }

    fn here(&self) -> Made<ParserPlace> {
        self.parser.clone().ok_or(Reason::No("parsing outside the parser"))
    }

    fn fault(&mut self, error: u64) -> Made<Label> {
        let here = self.here()?;
        Ok(self.parser_end(Some(error), &here))
    }

    fn state(
        &mut self,
        parser: &Parser,
        from: &Node,
        labels: &mut BTreeMap<Node, Label>,
        queue: &mut Vec<Node>,
        ways: &mut Routes,
    ) -> Made {
        let state = &parser.states[from.0.at()];
        for op in &state.ops {
            self.parser_op(op)?;
        }
        let here = self.here()?;
        // The key, in scratch words: evaluated once, as it may hold a lookahead.
        let mut at = KEY;
        let mut parts = Vec::new();
        for (part, width) in &state.key {
            let words = width.div_ceil(64).max(1);
            if at + words > KEY + KEY_WORDS {
                return Err(Reason::No("a select on more than 1,024 bits"));
            }
            for word in 0..words {
                self.eval(part, word, 0)?;
                self.mask(Reg::R0, (width - 64 * word).min(64));
                let to = self.scratch(at + word);
                self.asm.store(Size::D, VECTOR, to, Reg::R0);
            }
            parts.push((at, words));
            at += words;
        }
        for transition in &state.transitions {
            let other = self.asm.label();
            match &transition.when {
                TransitionMatch::Masked(cases) => {
                    for ((first, words), (value, mask)) in parts.iter().zip(cases) {
                        for word in 0..*words {
                            let digit = |n: &BigUint| n.iter_u64_digits().nth(word as usize).unwrap_or(0);
                            let (value, mask) = (digit(value), digit(mask));
                            if mask == 0 {
                                if value != 0 {
                                    self.asm.jump(other);
                                }
                                continue;
                            }
                            let from = self.scratch(first + word);
                            self.asm.load(Size::D, Reg::R0, VECTOR, from);
                            if mask != u64::MAX {
                                self.and_constant(Reg::R0, mask);
                            }
                            match i32::try_from(value) {
                                Ok(imm) => self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, imm, other),
                                Err(_) => {
                                    self.asm.constant(Reg::R1, value);
                                    self.asm.jump_if(Bits::B64, Cond::Ne, Reg::R0, Reg::R1, other);
                                }
                            }
                        }
                    }
                }
                TransitionMatch::ValueSet(set, mask) => {
                    self.value_set(*set, mask.as_deref(), at - KEY)?;
                    self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, other);
                }
                TransitionMatch::Default => {}
            }
            let to = match transition.next {
                None => self.parser_end(None, &here),
                Some(next) => {
                    let node = (next, here.clone());
                    match labels.get(&node) {
                        _ if !ways.add(from, &node) => self.slow(Reason::No("a parser loop without a bound")),
                        Some(label) => *label,
                        None if labels.len() >= MAX_NODES => {
                            self.slow(Reason::No("a parser loop without a bound"))
                        }
                        None => {
                            let label = self.asm.label();
                            labels.insert(node.clone(), label);
                            queue.push(node);
                            label
                        }
                    }
                }
            };
            self.asm.jump(to);
            self.asm.place(other);
            if transition.when == TransitionMatch::Default {
                return Ok(());
            }
        }
        let none = self.fault(self.errors.no_match)?;
        self.asm.jump(none);
        Ok(())
    }

    /// `r0` = 0 if the key, so many words of scratch, is not in a set.
    fn value_set(&mut self, set: ValueSetId, mask: Option<&[BigUint]>, words: u32) -> Made {
        let shape = self.shape.value_sets[set.at()].clone();
        let known = shape.by_mask.iter().find(|(known, _)| known.as_deref() == mask);
        let Some((_, map)) = known.filter(|_| words == shape.words.iter().sum::<u32>()) else {
            return Err(Reason::No("a value set of no parts"));
        };
        let Some(mask) = mask else {
            let key = self.shape.scratch + 8 * KEY;
            self.lookup(*map, key);
            return Ok(());
        };
        let key = self.shape.key_at;
        let bits = shape.words.iter().zip(mask).flat_map(|(words, mask)| {
            (0..*words as usize).map(|word| mask.iter_u64_digits().nth(word).unwrap_or(0))
        });
        for (word, bits) in bits.enumerate() {
            let from = self.scratch(KEY + word as u32);
            self.asm.load(Size::D, Reg::R0, VECTOR, from);
            if bits != u64::MAX {
                self.and_constant(Reg::R0, bits);
            }
            self.asm.store(Size::D, VECTOR, (key + 8 * word as u32) as i16, Reg::R0);
        }
        self.lookup(*map, key);
        Ok(())
    }

    fn and_constant(&mut self, reg: Reg, mask: u64) {
        match i32::try_from(mask as i64) {
            Ok(imm) => self.asm.alu_imm(Alu::And, reg, imm),
            Err(_) => {
                self.asm.constant(TEMP, mask);
                self.asm.alu(Alu::And, reg, TEMP);
            }
        }
    }

    fn parser_op(&mut self, op: &ParserOp) -> Made {
        match op {
            ParserOp::Extract(header) => self.extract(header, None),
            ParserOp::ExtractVarbit { header, bits } => self.extract(header, Some(bits)),
            ParserOp::Advance { bits } => self.advance(bits),
            ParserOp::Verify { condition, error } => {
                let fine = self.asm.label();
                let Expr::Int(error) = error else { return Err(Reason::No("a computed parser error")) };
                let fault = self.fault(crate::expr::word_of(error, 0))?;
                self.branch(condition, fine, true, 0)?;
                self.asm.jump(fault);
                self.asm.place(fine);
                Ok(())
            }
            ParserOp::Stmt(stmt) if Self::effect(stmt) => {
                Err(Reason::No("counters and registers in the parser"))
            }
            ParserOp::Stmt(stmt) => self.stmt(stmt),
        }
    }

    /// `base` points where the parser is, `bytes` from there are in the packet, or on to `short`. Gives the offset to load with.
    /// Loses r5 and r7.
    fn packet(&mut self, base: Reg, bytes: u32, short: Label) -> Made<i16> {
        let here = self.here()?;
        let mut offset = 0;
        let (data, data_end) = self.ends_of_packet();
        self.depth = self.depth.max(here.at.unwrap_or(DYNAMIC_DEPTH) + bytes);
        self.asm.load(Size::W, base, CTX, data);
        match here.at {
            Some(at) if at + bytes <= MAX_AT as u32 => offset = at as i16,
            Some(_) => return Err(Reason::DEEP),
            None => {
                let (at, deep) = (self.slot(slot::PARSED), self.slow(Reason::DEEP));
                self.asm.load(Size::D, TEMP, VECTOR, at);
                self.asm.jump_if_imm(Bits::B64, Cond::Gt, TEMP, MAX_AT, deep);
                self.asm.alu(Alu::Add, base, TEMP);
            }
        }
        self.asm.load(Size::W, TEMP2, CTX, data_end);
        self.asm.mov(TEMP, base);
        self.asm.add_imm(TEMP, i32::from(offset) + bytes as i32);
        if !self.is_tc() {
            self.asm.jump_if(Bits::B64, Cond::Gt, TEMP, TEMP2, short);
            return Ok(offset);
        }
        // Not in the piece that can be looked at, or not in the packet.
        let (fine, deep, len) = (self.asm.label(), self.slow(Reason::DEEP), self.slot(slot::PACKET_LEN));
        self.asm.jump_if(Bits::B64, Cond::Le, TEMP, TEMP2, fine);
        match here.at {
            Some(at) => self.asm.mov_imm(TEMP, (at + bytes) as i32),
            None => {
                let parsed = self.slot(slot::PARSED);
                self.asm.load(Size::D, TEMP, VECTOR, parsed);
                self.asm.add_imm(TEMP, bytes as i32);
            }
        }
        self.asm.load(Size::D, TEMP2, VECTOR, len);
        self.asm.jump_if(Bits::B64, Cond::Le, TEMP, TEMP2, deep);
        self.asm.jump(short);
        self.asm.place(fine);
        Ok(offset)
    }

    /// Copy bytes from the packet into the vector.
    fn copy_in(&mut self, base: Reg, offset: i16, to: i16, bytes: u32) {
        let mut at = 0;
        while at < bytes {
            let left = bytes - at;
            let size = [Size::D, Size::W, Size::H, Size::B].into_iter().find(|s| s.bytes() <= left);
            let size = size.unwrap_or(Size::B);
            self.asm.load(size, TEMP, base, offset + at as i16);
            self.asm.store(size, VECTOR, to + at as i16, TEMP);
            at += size.bytes();
        }
    }

    fn extract(&mut self, reference: &HeaderRef, varbit: Option<&Expr>) -> Made {
        let header = match self.header(reference)? {
            Found::Fixed(header) if self.is_tc() && !self.is_emitted(header) => return Err(Reason::SHRINKS),
            Found::Fixed(header) => header,
            Found::Nothing => {
                let fault = self.fault(self.errors.stack_out_of_bounds)?;
                self.asm.jump(fault);
                // What follows is not reached; it still has to be well formed.
                return Ok(());
            }
            Found::Among(..) => return Err(Reason::No("extraction into an element that the packet names")),
        };
        if self.is_tc() {
            // The first one is not put back: the packet gets shorter.
            for before in self.lost_by(header) {
                let (at, again) = (self.valid_byte(before), self.slow(Reason::AGAIN));
                self.asm.load(Size::B, Reg::R0, VECTOR, at);
                self.asm.jump_nonzero(Reg::R0, again);
            }
        }
        let ty = self.program.header_type_of(header);
        let (fixed, has_varbit) = (ty.fixed_bits(), ty.varbit());
        let length_exp = self.program.headers[header.at()].length_exp.as_ref();
        let variable = has_varbit.filter(|_| varbit.is_some() || length_exp.is_some());
        if has_varbit.is_none() && varbit.is_some() {
            return Err(Reason::No("a length for a header without a varbit field"));
        }
        match variable {
            None => self.extract_fixed(header, fixed)?,
            Some(field) => {
                let Width::Varbit(max) = ty.fields[field].width else { return Ok(()) };
                self.extract_varbit(header, field as u32, fixed, max, varbit, length_exp)?;
            }
        }
        let next = match reference {
            HeaderRef::StackNext(stack) => Some(stack.at()),
            _ => None,
        };
        if let (Some(stack), Some(place)) = (next, &mut self.parser) {
            place.next[stack] += 1;
        }
        Ok(())
    }

    /// Headers that may have been extracted before and that the extraction of this one takes away: itself, where a way through the parser
    /// comes by twice, and the others of its union.
    fn lost_by(&self, header: HeaderId) -> Vec<HeaderId> {
        let union = self.program.headers[header.at()].union;
        let mut all = vec![header];
        if let Some(union) = union {
            let members = &self.program.unions[union.at()].members;
            all.extend(members.iter().copied().filter(|member| *member != header));
        }
        let takes = |state: &ParserState, wanted: HeaderId| {
            let taken = |op: &&ParserOp| {
                matches!(op, ParserOp::Extract(HeaderRef::Header(found))
                    | ParserOp::ExtractVarbit { header: HeaderRef::Header(found), .. } if *found == wanted)
            };
            state.ops.iter().filter(taken).count()
        };
        let comes_behind = |wanted: HeaderId| {
            self.program.parsers.iter().any(|parser| {
                let mut behind: Vec<usize> = Vec::new();
                for (at, state) in parser.states.iter().enumerate() {
                    if takes(state, wanted) == 0 {
                        continue;
                    }
                    if takes(state, header) + usize::from(wanted != header) > 1 {
                        return true;
                    }
                    behind.push(at);
                }
                let (mut seen, mut found) = (BTreeSet::new(), false);
                while let Some(at) = behind.pop() {
                    for next in parser.states[at].transitions.iter().filter_map(|t| t.next) {
                        found |= takes(&parser.states[next.at()], header) > 0;
                        if seen.insert(next.at()) {
                            behind.push(next.at());
                        }
                    }
                }
                found
            })
        };
        all.retain(|wanted| comes_behind(*wanted));
        all
    }

    /// Whether a header goes back in front of the payload.
    fn is_emitted(&self, header: HeaderId) -> bool {
        self.target.steps.iter().any(|step| {
            matches!(step, Step::Deparse(deparser) if self.program.deparsers[*deparser].order.contains(&header))
        })
    }

    fn extract_fixed(&mut self, header: HeaderId, fixed: u32) -> Made {
        let short = self.fault(self.errors.packet_too_short)?;
        let bytes = fixed.div_ceil(8);
        let offset = self.packet(Reg::R0, bytes, short)?;
        let place = self.shape.layout.headers[header.at()].clone();
        for field in &place.fields {
            if let Place::Varbit { len_word, byte, max_bits } = field {
                let len = self.word(*len_word);
                self.asm.store_imm(Size::D, VECTOR, len, 0);
                for word in 0..max_bits.div_ceil(64) {
                    self.asm.store_imm(Size::D, VECTOR, (byte + 8 * word) as i16, 0);
                }
            }
        }
        let to = place.byte as i16;
        self.copy_in(Reg::R0, offset, to, bytes);
        if !fixed.is_multiple_of(8) {
            let last = to + bytes as i16 - 1;
            self.asm.load(Size::B, TEMP, VECTOR, last);
            self.asm.alu_imm(Alu::And, TEMP, 0xff << (8 - fixed % 8) & 0xff);
            self.asm.store(Size::B, VECTOR, last, TEMP);
        }
        self.mark_valid(header);
        self.move_on(bytes);
        Ok(())
    }

    /// The parser is so many bytes further.
    fn move_on(&mut self, bytes: u32) {
        let parsed = self.slot(slot::PARSED);
        match &mut self.parser {
            Some(ParserPlace { at: Some(at), .. }) => *at += bytes,
            _ => {
                self.asm.load(Size::D, TEMP, VECTOR, parsed);
                self.asm.add_imm(TEMP, bytes as i32);
                self.asm.store(Size::D, VECTOR, parsed, TEMP);
            }
        }
    }

    /// The parser's place is in the vector from here on.
    fn place_in_vector(&mut self) {
        let parsed = self.slot(slot::PARSED);
        if let Some(ParserPlace { at, .. }) = &mut self.parser
            && let Some(known) = at.take()
        {
            self.asm.store_imm(Size::D, VECTOR, parsed, known as i32);
        }
    }

    fn extract_varbit(
        &mut self,
        header: HeaderId,
        field: u32,
        fixed: u32,
        max: u32,
        bits: Option<&Expr>,
        length_exp: Option<&Expr>,
    ) -> Made {
        let place = self.shape.layout.headers[header.at()].clone();
        let Place::Varbit { len_word, byte, .. } = self.shape.layout.place(FieldId { header, field }) else {
            return Err(Reason::No("a varbit field"));
        };
        if place.bits_before_varbit != fixed || !fixed.is_multiple_of(8) || max / 8 > MAX_VARBIT {
            return Err(Reason::No("a varbit field that is not last, or a long one"));
        }
        let (whole, errors) = (fixed / 8, self.errors);
        let (short, invalid, long) = (
            self.fault(errors.packet_too_short)?,
            self.fault(errors.parser_invalid_argument)?,
            self.fault(errors.header_too_short)?,
        );
        let to = place.byte as i16;
        // A fault leaves the header as it was: nothing of it, as each header is extracted once or anew.
        let (undo_short, undo_invalid, undo_long) = (self.asm.label(), self.asm.label(), self.asm.label());
        let own = bits.is_none();
        let length = match (bits, length_exp) {
            (Some(bits), _) => bits,
            (None, Some(length)) => {
                let offset = self.packet(Reg::R0, whole, short)?;
                self.copy_in(Reg::R0, offset, to, whole);
                length
            }
            (None, None) => return Err(Reason::No("a varbit field")),
        };
        let (short_, invalid_, long_) =
            if own { (undo_short, undo_invalid, undo_long) } else { (short, invalid, long) };
        let bounds = self.range(length);
        if !bounds.fits_i64() {
            return Err(Reason::No("a length of more than 63 bits"));
        }
        self.eval(length, 0, 0)?;
        if bounds.neg {
            self.asm.jump_if_imm(Bits::B64, Cond::SignedLt, Reg::R0, 0, invalid_);
        }
        self.asm.jump_if_imm(Bits::B64, Cond::Set, Reg::R0, 7, invalid_);
        self.asm.alu_imm(Alu::Rsh, Reg::R0, 3);
        // fixed + varbit bytes <= what is left
        let (len, parsed) = (self.slot(slot::PACKET_LEN), self.slot(slot::PARSED));
        self.asm.load(Size::D, Reg::R1, VECTOR, len);
        self.asm.mov(Reg::R2, Reg::R0);
        match self.here()?.at {
            Some(at) => self.asm.add_imm(Reg::R2, (at + whole) as i32),
            None => {
                self.asm.load(Size::D, Reg::R3, VECTOR, parsed);
                self.asm.alu(Alu::Add, Reg::R2, Reg::R3);
                self.asm.add_imm(Reg::R2, whole as i32);
            }
        }
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R2, Reg::R1, short_);
        self.asm.jump_if_imm(Bits::B64, Cond::Gt, Reg::R0, (max / 8) as i32, long_);
        let kept = self.scratch(VARBIT);
        self.asm.store(Size::D, VECTOR, kept, Reg::R0);
        self.asm.alu_imm(Alu::Lsh, Reg::R0, 3);
        let len_at = self.word(len_word);
        self.asm.store(Size::D, VECTOR, len_at, Reg::R0);
        for word in 0..max.div_ceil(64) {
            self.asm.store_imm(Size::D, VECTOR, (byte + 8 * word) as i16, 0);
        }
        let offset = self.packet(Reg::R0, whole, short)?;
        self.copy_in(Reg::R0, offset, to, whole);
        self.depth = self.depth.max(self.here()?.at.unwrap_or(DYNAMIC_DEPTH) + whole + max / 8);
        self.asm.load(Size::D, Reg::R1, VECTOR, kept);
        self.copy_varbit(offset + whole as i16, byte, max / 8, short);
        if own {
            // Out of the way, what puts the header back.
            let over = self.asm.label();
            self.asm.jump(over);
            for (label, to) in [(undo_short, short), (undo_invalid, invalid), (undo_long, long)] {
                self.asm.place(label);
                self.clear(header);
                self.asm.jump(to);
            }
            self.asm.place(over);
        } else {
            for label in [undo_short, undo_invalid, undo_long] {
                self.asm.place(label);
            }
        }
        self.mark_valid(header);
        self.place_in_vector();
        self.asm.load(Size::D, Reg::R0, VECTOR, parsed);
        self.asm.load(Size::D, Reg::R1, VECTOR, kept);
        self.asm.alu(Alu::Add, Reg::R0, Reg::R1);
        self.asm.add_imm(Reg::R0, whole as i32);
        self.asm.store(Size::D, VECTOR, parsed, Reg::R0);
        Ok(())
    }

    /// Copies the `r1` bytes of a varbit field, `max` at most, from `offset` behind `r0` to `byte` of the vector.
    fn copy_varbit(&mut self, offset: i16, byte: u32, max: u32, short: Label) {
        // The packet is long enough, so it is in pieces.
        let beyond = if self.is_tc() { self.slow(Reason::DEEP) } else { short };
        let done = self.asm.label();
        for at in 0..max {
            self.asm.jump_if_imm(Bits::B64, Cond::Le, Reg::R1, at as i32, done);
            self.asm.mov(TEMP, Reg::R0);
            let offset = offset + at as i16;
            self.asm.add_imm(TEMP, i32::from(offset) + 1);
            self.asm.jump_if(Bits::B64, Cond::Gt, TEMP, TEMP2, beyond);
            self.asm.load(Size::B, TEMP, Reg::R0, offset);
            self.asm.store(Size::B, VECTOR, (byte + at) as i16, TEMP);
        }
        self.asm.place(done);
    }

    fn advance(&mut self, bits: &Expr) -> Made {
        if self.is_tc() {
            return Err(Reason::SHRINKS);
        }
        let errors = self.errors;
        let (short, invalid) =
            (self.fault(errors.packet_too_short)?, self.fault(errors.parser_invalid_argument)?);
        if let Expr::Int(bits) = bits
            && let Ok(bits) = u32::try_from(bits)
            && bits.is_multiple_of(8)
        {
            let _ = self.packet(Reg::R0, bits / 8, short)?;
            self.move_on(bits / 8);
            return Ok(());
        }
        let bounds = self.range(bits);
        if !bounds.fits_i64() {
            return Err(Reason::No("a length of more than 63 bits"));
        }
        self.eval(bits, 0, 0)?;
        if bounds.neg {
            self.asm.jump_if_imm(Bits::B64, Cond::SignedLt, Reg::R0, 0, invalid);
        }
        self.asm.jump_if_imm(Bits::B64, Cond::Set, Reg::R0, 7, invalid);
        self.asm.alu_imm(Alu::Rsh, Reg::R0, 3);
        let (len, parsed) = (self.slot(slot::PACKET_LEN), self.slot(slot::PARSED));
        match self.here()?.at {
            Some(at) => self.asm.mov_imm(Reg::R2, at as i32),
            None => self.asm.load(Size::D, Reg::R2, VECTOR, parsed),
        }
        self.asm.load(Size::D, Reg::R1, VECTOR, len);
        self.asm.alu(Alu::Add, Reg::R0, Reg::R2);
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R0, Reg::R1, short);
        if let Some(place) = &mut self.parser {
            place.at = None;
        }
        self.asm.store(Size::D, VECTOR, parsed, Reg::R0);
        Ok(())
    }

    /// A word of the bits that follow.
    pub fn lookahead(&mut self, offset: u32, width: u32, word: u32, at: usize) -> Made {
        let errors = self.errors;
        let short = self.fault(errors.packet_too_short)?;
        let left = width.saturating_sub(64 * word);
        if left.is_zero() {
            self.asm.mov_imm(POOL[at], 0);
            return Ok(());
        }
        let take = left.min(64);
        let base = POOL[at];
        let begin = self.packet(base, (offset + width).div_ceil(8), short)?;
        let (first, last) = (offset + left - take, offset + left);
        let (byte, end) = (first / 8, last.div_ceil(8));
        if end - byte > 8 {
            return Err(Reason::No("a lookahead across nine bytes"));
        }
        self.asm.mov_imm(TEMP, 0);
        for at in byte..end {
            self.asm.load(Size::B, TEMP2, base, begin + at as i16);
            if at > byte {
                self.asm.alu_imm(Alu::Lsh, TEMP, 8);
            }
            self.asm.alu(Alu::Or, TEMP, TEMP2);
        }
        let right = end * 8 - last;
        if right > 0 {
            self.asm.alu_imm(Alu::Rsh, TEMP, right as i32);
        }
        self.asm.mov(base, TEMP);
        self.mask(base, take);
        Ok(())
    }
}
