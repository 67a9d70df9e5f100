//! Headers as wholes: validity, extraction, copies, stacks. Every change of the vector passes through here, so that
//! it can be watched.

use super::eval::{max_bits, packet_bits};
use super::trace::{Event, hex, number};
use super::{Context, ParserFault};
use crate::ir::{FieldId, HeaderId, StackId, UnionId, UnionStackId, Width};
use crate::phv::{Place, slot};
use crate::state::State;
use num_bigint::{BigInt, BigUint};
use num_traits::ToPrimitive;

impl<S: State + ?Sized> Context<'_, S> {
    /// A header's name.
    pub(super) fn header_name(&self, header: HeaderId) -> String {
        self.plan.program.headers[header.at()].name.clone()
    }

    /// A field's name.
    pub(super) fn field_name(&self, field: FieldId) -> String {
        let program = &self.plan.program;
        format!("{}.{}", program.headers[field.header.at()].name, program.field_def(field).name)
    }

    /// Write a field's low bits.
    pub(super) fn write(&mut self, field: FieldId, value: &BigInt) {
        let old = self.tracer.wants().then(|| self.phv.field(&self.plan.layout, field));
        let width = self.field_bits(field);
        self.phv.set_field(&self.plan.layout, field, &super::eval::low_bits(value, width));
        if let Some(old) = old {
            let new = self.phv.field(&self.plan.layout, field);
            let event = Event::Field { field: self.field_name(field), old: number(&old), new: number(&new) };
            self.tracer.record(event);
        }
    }

    /// Say that a header is valid or not; a valid member of a union makes the others invalid.
    pub(super) fn set_validity(&mut self, header: HeaderId, valid: bool) {
        let plan = self.plan;
        let ir = &plan.program.headers[header.at()];
        if ir.metadata {
            return;
        }
        if valid && let Some(union) = ir.union {
            for &member in plan.program.unions[union.at()].members.iter().filter(|&&member| member != header)
            {
                self.mark(member, false);
            }
        }
        self.mark(header, valid);
    }

    fn mark(&mut self, header: HeaderId, valid: bool) {
        if self.phv.is_valid(&self.plan.layout, header) == valid {
            return;
        }
        self.phv.set_valid(&self.plan.layout, header, valid);
        if self.tracer.wants() {
            let event = Event::Validity { header: self.header_name(header), valid };
            self.tracer.record(event);
        }
    }

    /// `setValid`: fields of a header that was invalid become 0, a varbit one stays as long as it was.
    pub(super) fn make_valid(&mut self, header: HeaderId) {
        if self.is_valid(header) {
            return;
        }
        let ty = self.plan.program.header_type_of(header);
        let varbit = ty.varbit().map(|field| FieldId { header, field: field as u32 });
        let len = varbit.map(|field| (self.plan.layout.place(field), self.field_bits(field)));
        self.clear(header);
        if let Some((Place::Varbit { len_word, .. }, bits)) = len {
            self.phv.set_slot(len_word as usize, u64::from(bits));
        }
        self.set_validity(header, true);
        self.grow(header, 1);
    }

    /// `setInvalid`.
    pub(super) fn make_invalid(&mut self, header: HeaderId) {
        if !self.plan.program.headers[header.at()].metadata && self.is_valid(header) {
            self.set_validity(header, false);
            self.grow(header, -1);
        }
    }

    /// A header was added (1) or removed (-1).
    fn grow(&mut self, header: HeaderId, sign: i64) {
        let fields = self.plan.program.header_type_of(header).fields.len() as u32;
        let bits: u64 = (0..fields).map(|field| u64::from(self.field_bits(FieldId { header, field }))).sum();
        let growth = self.phv.slot(slot::GROWTH);
        self.phv.set_slot(slot::GROWTH, growth.wrapping_add_signed(sign * (bits / 8) as i64));
    }

    fn storage(&self, header: HeaderId) -> std::ops::Range<usize> {
        let place = &self.plan.layout.headers[header.at()];
        let first = place.byte as usize / 8;
        first..first + place.words as usize
    }

    /// Make all of a header's bits zero.
    fn clear(&mut self, header: HeaderId) {
        let storage = self.storage(header);
        self.phv.words_mut()[storage].fill(0);
    }

    /// Copy a header's bits and validity to another of the same type, whatever union they are in.
    fn copy_storage(&mut self, dst: HeaderId, src: HeaderId) {
        let (from, to) = (self.storage(src), self.storage(dst));
        let words = from.len().min(to.len());
        self.phv.words_mut().copy_within(from.start..from.start + words, to.start);
        let valid = self.phv.is_valid(&self.plan.layout, src);
        self.mark(dst, valid);
    }

    /// Assign a header: its validity, and its fields if it is valid.
    pub(super) fn copy_header(&mut self, dst: Option<HeaderId>, src: Option<HeaderId>) {
        let Some(dst) = dst else { return };
        let Some(src) = src.filter(|&src| self.is_valid(src)) else {
            self.set_validity(dst, false);
            return;
        };
        self.set_validity(dst, true);
        let program = &self.plan.program;
        let fields = program.header_type_of(dst).fields.len().min(program.header_type_of(src).fields.len());
        for field in 0..fields as u32 {
            let (dst, src) = (FieldId { header: dst, field }, FieldId { header: src, field });
            match self.plan.layout.place(dst) {
                Place::Varbit { .. } => self.copy_varbit(dst, src),
                _ => {
                    let value = BigInt::from(self.phv.field(&self.plan.layout, src));
                    self.write(dst, &value);
                }
            }
        }
    }

    /// Assign a union, member by member.
    pub(super) fn copy_union(&mut self, dst: Option<UnionId>, src: Option<UnionId>) {
        let Some(dst) = dst else { return };
        let unions = &self.plan.program.unions;
        let members = unions[dst.at()].members.len();
        for member in 0..members {
            let src = src.and_then(|src| unions[src.at()].members.get(member)).copied();
            self.copy_header(Some(unions[dst.at()].members[member]), src);
        }
    }

    /// Assign a stack: elements and next index.
    pub(super) fn copy_stack(&mut self, dst: StackId, src: StackId) {
        let stacks = &self.plan.program.stacks;
        let next = self.phv.stack_next(&self.plan.layout, src);
        self.set_stack_next(dst, next.min(stacks[dst.at()].elements.len() as u64));
        for (element, &header) in stacks[dst.at()].elements.iter().enumerate() {
            self.copy_header(Some(header), stacks[src.at()].elements.get(element).copied());
        }
    }

    /// Assign a stack of unions: elements and next index.
    pub(super) fn copy_union_stack(&mut self, dst: UnionStackId, src: UnionStackId) {
        let stacks = &self.plan.program.union_stacks;
        let next = self.phv.union_stack_next(&self.plan.layout, src);
        self.set_union_stack_next(dst, next.min(stacks[dst.at()].elements.len() as u64));
        for (element, &union) in stacks[dst.at()].elements.iter().enumerate() {
            self.copy_union(Some(union), stacks[src.at()].elements.get(element).copied());
        }
    }

    /// Copy a varbit field: length (as far as the other can hold it) and bits.
    pub(super) fn copy_varbit(&mut self, dst: FieldId, src: FieldId) {
        let layout = &self.plan.layout;
        let Place::Varbit { len_word, byte, max_bits } = layout.place(dst) else {
            let value = BigInt::from(self.phv.field(layout, src));
            return self.write(dst, &value);
        };
        let old = self.tracer.wants().then(|| self.phv.field(layout, dst));
        let bits = self.field_bits(src).min(max_bits);
        let value = self.phv.field(layout, src);
        let words = max_bits.div_ceil(64) as usize;
        let first = byte as usize / 8;
        self.phv.words_mut()[first..first + words].fill(0);
        self.phv.set_slot(len_word as usize, u64::from(bits));
        self.phv.set_field(layout, dst, &value);
        if let Some(old) = old {
            let new = self.phv.field(layout, dst);
            let event = Event::Field { field: self.field_name(dst), old: number(&old), new: number(&new) };
            self.tracer.record(event);
        }
    }

    pub(super) fn set_stack_next(&mut self, stack: StackId, next: u64) {
        self.phv.set_slot(self.plan.layout.stack_next[stack.at()] as usize, next);
    }

    pub(super) fn set_union_stack_next(&mut self, stack: UnionStackId, next: u64) {
        self.phv.set_slot(self.plan.layout.union_stack_next[stack.at()] as usize, next);
    }

    /// Move elements by `count` places, up or down; what is vacated becomes invalid and zero.
    fn shift_headers(&mut self, elements: &[HeaderId], count: usize, up: bool) {
        let len = elements.len();
        let order: Box<dyn Iterator<Item = usize>> =
            if up { Box::new((0..len).rev()) } else { Box::new(0..len) };
        for to in order {
            let from = if up { to.checked_sub(count) } else { Some(to + count).filter(|&from| from < len) };
            match from {
                Some(from) => self.copy_storage(elements[to], elements[from]),
                None => {
                    self.clear(elements[to]);
                    self.mark(elements[to], false);
                }
            }
        }
    }

    /// `push_front` and `pop_front` of a stack.
    pub(super) fn shift_stack(&mut self, stack: StackId, count: u32, up: bool) {
        let plan = self.plan;
        let elements = &plan.program.stacks[stack.at()].elements;
        let next = self.phv.stack_next(&plan.layout, stack);
        self.set_stack_next(stack, shifted(next, count, up, elements.len()));
        self.shift_headers(elements, count as usize, up);
    }

    /// The same of a stack of unions.
    pub(super) fn shift_union_stack(&mut self, stack: UnionStackId, count: u32, up: bool) {
        let plan = self.plan;
        let elements = &plan.program.union_stacks[stack.at()].elements;
        let next = self.phv.union_stack_next(&plan.layout, stack);
        self.set_union_stack_next(stack, shifted(next, count, up, elements.len()));
        let unions = &plan.program.unions;
        let members = elements.iter().map(|union| unions[union.at()].members.len()).min().unwrap_or(0);
        for member in 0..members {
            let column: Vec<HeaderId> =
                elements.iter().map(|union| unions[union.at()].members[member]).collect();
            self.shift_headers(&column, count as usize, up);
        }
    }

    /// Read a header from the parser's place and make it valid. `varbit` is the length of its varbit field in bits;
    /// without it the header's own length expression says it, and it is empty without either. On an error nothing
    /// has changed.
    pub(super) fn extract(&mut self, header: HeaderId, varbit: Option<BigInt>) -> Result<(), ParserFault> {
        let plan = self.plan;
        let errors = plan.errors;
        let ty = plan.program.header_type_of(header);
        let fixed_bits = u64::from(ty.fixed_bits());
        let varbit_max = ty.varbit().map_or(0, |field| max_bits(ty.fields[field].width));
        let left_bits = (self.packet.len() - self.at.min(self.packet.len())) as u64 * 8;
        let varbit_bits = match (varbit, &plan.program.headers[header.at()].length_exp) {
            (Some(bits), _) => bits,
            (None, Some(length)) if varbit_max > 0 => {
                if left_bits < fixed_bits {
                    return Err(ParserFault(errors.packet_too_short));
                }
                // The length is in the fields before the varbit one: read them, look, and put them back.
                let storage = self.storage(header);
                let before = self.phv.words()[storage.clone()].to_vec();
                self.read_fields(header, 0);
                let length = self.eval(length);
                self.phv.words_mut()[storage].copy_from_slice(&before);
                length?.int()
            }
            _ => BigInt::ZERO,
        };
        let varbit_bits = match varbit_bits.to_u64() {
            Some(bits) if bits.is_multiple_of(8) => bits,
            // Beyond any packet; still a multiple of 8 or not.
            None if varbit_bits > BigInt::ZERO
                && !varbit_bits.bit(0)
                && !varbit_bits.bit(1)
                && !varbit_bits.bit(2) =>
            {
                return Err(ParserFault(errors.packet_too_short));
            }
            _ => return Err(ParserFault(errors.parser_invalid_argument)),
        };
        if left_bits < fixed_bits.saturating_add(varbit_bits) {
            return Err(ParserFault(errors.packet_too_short));
        }
        if varbit_bits > u64::from(varbit_max) {
            return Err(ParserFault(errors.header_too_short));
        }
        self.read_fields(header, varbit_bits as u32);
        let bytes = (fixed_bits + varbit_bits).div_ceil(8) as usize;
        if self.tracer.wants() {
            let bytes = hex(&self.packet[self.at..self.at + bytes]);
            let event = Event::Extract { header: self.header_name(header), bytes };
            self.tracer.record(event);
        }
        self.set_validity(header, true);
        self.at += bytes;
        Ok(())
    }

    /// Fill a header's fields with the packet's bits at the parser's place.
    fn read_fields(&mut self, header: HeaderId, varbit_bits: u32) {
        let plan = self.plan;
        self.clear(header);
        let mut bit = self.at as u64 * 8;
        for (index, field) in plan.program.header_type_of(header).fields.iter().enumerate() {
            let id = FieldId { header, field: index as u32 };
            let width = match field.width {
                Width::Fixed(width) => width,
                Width::Varbit(max) => {
                    if let Place::Varbit { len_word, .. } = plan.layout.place(id) {
                        self.phv.set_slot(len_word as usize, u64::from(varbit_bits.min(max)));
                    }
                    varbit_bits
                }
            };
            let value: BigUint = packet_bits(self.packet, bit, width);
            self.phv.set_field(&plan.layout, id, &value);
            bit += u64::from(width);
        }
    }
}

fn shifted(next: u64, count: u32, up: bool, len: usize) -> u64 {
    let next = next.min(len as u64);
    if up { (next + u64::from(count)).min(len as u64) } else { next.saturating_sub(u64::from(count)) }
}
