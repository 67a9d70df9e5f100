//! Packets made by walking a parser: the constants of its transitions are written where its keys look.

use barewire_base::Prng;
use barewire_p4::ir::{
    Expr, FieldRef, HeaderId, HeaderRef, ParserOp, Program, StackId, StateId, TransitionMatch, UnionStackId,
    Width,
};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::collections::BTreeMap;

/// The longest packet that is made.
pub const JUMBO: usize = 9000;

struct Walk<'p> {
    program: &'p Program,
    data: Vec<u8>,
    /// Bits read so far.
    at: usize,
    /// Where each header lies.
    headers: BTreeMap<HeaderId, usize>,
    stacks: BTreeMap<StackId, usize>,
    union_stacks: BTreeMap<UnionStackId, usize>,
}

impl Walk<'_> {
    fn need(&mut self, bits: usize, prng: &mut Prng) {
        let plain = prng.chance(0.2);
        while self.data.len() * 8 < bits {
            let byte = match prng.below(8) {
                _ if plain => 0,
                0 => 0,
                1 => 0xff,
                2 => prng.below(4) as u8,
                _ => prng.next_u64() as u8,
            };
            self.data.push(byte);
        }
    }

    fn put(&mut self, at: usize, width: u32, value: &BigUint, prng: &mut Prng) {
        self.need(at + width as usize, prng);
        for i in 0..width as usize {
            let bit = value.bit(u64::from(width) - 1 - i as u64);
            let (byte, mask) = ((at + i) / 8, 0x80 >> ((at + i) % 8));
            if bit {
                self.data[byte] |= mask;
            } else {
                self.data[byte] &= !mask;
            }
        }
    }

    fn header(&self, header: &HeaderRef) -> Option<HeaderId> {
        let element = |stack: &StackId, back: usize| {
            let next = self.stacks.get(stack).copied().unwrap_or(0);
            self.program.stacks[stack.at()].elements.get(next.checked_sub(back)?).copied()
        };
        let member = |stack: &UnionStackId, back: usize, member: u32| {
            let next = self.union_stacks.get(stack).copied().unwrap_or(0);
            let union = self.program.union_stacks[stack.at()].elements.get(next.checked_sub(back)?)?;
            self.program.unions[union.at()].members.get(member as usize).copied()
        };
        match header {
            HeaderRef::Header(id) => Some(*id),
            HeaderRef::StackNext(stack) => element(stack, 0),
            HeaderRef::StackLast(stack) => element(stack, 1),
            HeaderRef::UnionStackNext(stack, at) => member(stack, 0, *at),
            HeaderRef::UnionStackLast(stack, at) => member(stack, 1, *at),
            _ => None,
        }
    }

    /// Where a field lies in the packet, if it was extracted.
    fn field(&self, field: &FieldRef) -> Option<(usize, u32)> {
        let header = self.header(&field.header)?;
        let mut at = *self.headers.get(&header)?;
        for (index, def) in self.program.header_type_of(header).fields.iter().enumerate() {
            let Width::Fixed(width) = def.width else { return None };
            if index == field.field as usize {
                return Some((at, width));
            }
            at += width as usize;
        }
        None
    }

    fn extract(&mut self, header: &HeaderRef, varbit: usize, prng: &mut Prng) {
        let Some(id) = self.header(header) else { return };
        let bits = self.program.header_type_of(id).fixed_bits() as usize + varbit;
        self.headers.insert(id, self.at);
        self.at += bits;
        self.need(self.at, prng);
        match header {
            HeaderRef::StackNext(stack) => *self.stacks.entry(*stack).or_default() += 1,
            HeaderRef::UnionStackNext(stack, _) => *self.union_stacks.entry(*stack).or_default() += 1,
            _ => {}
        }
    }

    /// Make a key part equal to a value, where it is a plain piece of the packet.
    fn satisfy(&mut self, part: &Expr, value: &BigUint, prng: &mut Prng) {
        match part {
            Expr::Field(field) => {
                if let Some((at, width)) = self.field(field) {
                    self.put(at, width, value, prng);
                }
            }
            Expr::Lookahead { offset, width } => self.put(self.at + *offset as usize, *width, value, prng),
            Expr::Wrap { value: inner, .. } => self.satisfy(inner, value, prng),
            Expr::Binary(barewire_p4::ir::BinaryOp::BitAnd, inner, other) => {
                let inner = if matches!(**inner, Expr::Int(_)) { other } else { inner };
                self.satisfy(inner, value, prng);
            }
            _ => {}
        }
    }
}

/// A packet that a parser understands, at least in part.
pub fn structured(program: &Program, parser: usize, prng: &mut Prng) -> Vec<u8> {
    let mut walk = Walk {
        program,
        data: Vec::new(),
        at: 0,
        headers: BTreeMap::new(),
        stacks: BTreeMap::new(),
        union_stacks: BTreeMap::new(),
    };
    let Some(parser) = program.parsers.get(parser) else { return Vec::new() };
    let mut next: Option<StateId> = parser.start;
    for _ in 0..48 {
        let Some(state) = next else { break };
        let state = &parser.states[state.at()];
        for op in &state.ops {
            match op {
                ParserOp::Extract(header) => {
                    let varbit = if prng.chance(0.3) { prng.below(6) as usize * 32 } else { 0 };
                    let has =
                        walk.header(header).is_some_and(|id| program.header_type_of(id).varbit().is_some());
                    walk.extract(header, if has { varbit } else { 0 }, prng);
                }
                ParserOp::ExtractVarbit { header, .. } => {
                    // The length comes from a field nobody knows here: an IPv4 header length often works out.
                    let words = prng.below(6) as usize;
                    walk.extract(header, words * 32, prng);
                    if let Some(id) = walk.header(header)
                        && let Some(at) = walk.headers.get(&id).copied()
                        && prng.chance(0.5)
                    {
                        walk.put(at, 8, &BigUint::from(0x45 + words), prng);
                    }
                }
                ParserOp::Advance { .. } => {
                    walk.at += 8 * prng.below(8) as usize;
                    walk.need(walk.at, prng);
                }
                _ => {}
            }
        }
        if state.transitions.is_empty() {
            break;
        }
        // Later transitions are often the default; prefer those that lead on.
        let leading: Vec<usize> =
            (0..state.transitions.len()).filter(|at| state.transitions[*at].next.is_some()).collect();
        let at = if !leading.is_empty() && prng.chance(0.9) {
            leading[prng.below(leading.len() as u64) as usize]
        } else {
            prng.below(state.transitions.len() as u64) as usize
        };
        let transition = &state.transitions[at];
        if let TransitionMatch::Masked(pairs) = &transition.when {
            for ((part, width), (value, mask)) in state.key.iter().zip(pairs) {
                let mut noise = vec![0; width.div_ceil(8) as usize];
                prng.fill(&mut noise);
                let noise = BigUint::from_bytes_be(&noise);
                let free = &noise ^ (&noise & mask);
                walk.satisfy(part, &(value | free), prng);
            }
        }
        next = transition.next;
    }
    let payload = prng.below(80) as usize;
    let end = walk.at + payload * 8;
    walk.need(end, prng);
    let mut data = walk.data;
    data.truncate(JUMBO);
    data
}

/// Change a packet: cut it, lengthen it, flip bits, or leave it.
pub fn mutate(mut packet: Vec<u8>, prng: &mut Prng) -> Vec<u8> {
    match prng.below(8) {
        0 => packet.truncate(prng.below(packet.len() as u64 + 1) as usize),
        1 => {
            for _ in 0..=prng.below(4) {
                let len = packet.len() as u64;
                if let Some(byte) = packet.get_mut(prng.below(len) as usize) {
                    *byte ^= 1 << prng.below(8);
                }
            }
        }
        2 => {
            let old = packet.len();
            let more = if prng.chance(0.1) { JUMBO - old.min(JUMBO) } else { prng.below(64) as usize };
            packet.resize(old + more, 0);
            prng.fill(&mut packet[old..]);
        }
        3 => {
            let longest = if prng.chance(0.05) { JUMBO as u64 } else { 128 };
            let len = prng.below(longest + 1) as usize;
            packet.clear();
            packet.resize(len, 0);
            prng.fill(&mut packet);
        }
        _ => {}
    }
    packet
}

/// A value's low bits as a number of at most 64.
pub fn low64(value: &BigUint) -> u64 {
    (value & BigUint::from(u64::MAX)).to_u64().unwrap_or(0)
}
