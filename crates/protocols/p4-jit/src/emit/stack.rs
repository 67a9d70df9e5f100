//! Header stacks indexed while a packet is processed: addresses are computed, and checked against the stack's size.

use super::access::int_type;
use super::{Emit, Gen, Unsupported};
use barewire_p4::ir::{FieldRef, HeaderId, HeaderRef, StackId};
use barewire_p4::phv::Place;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

/// An element of a stack that is known only when the packet is there.
#[derive(Debug, Clone, Copy)]
pub struct Element {
    /// Which stack.
    pub stack: StackId,
    /// Its first element.
    pub first: HeaderId,
    /// The vector's address moved by as much as the element lies behind the first one.
    pub base: Value,
    /// The element's number; 0 when out of range.
    pub index: Value,
    /// Whether the element exists.
    pub exists: Value,
}

impl Gen<'_, '_> {
    /// Bytes from one element of a stack to the next, if they lie evenly and their validities one after another.
    pub fn stride(&self, stack: StackId) -> Emit<u32> {
        let elements = &self.unit.program.stacks[stack.at()].elements;
        let place = |id: HeaderId| &self.unit.layout.headers[id.at()];
        let first = place(*elements.first().ok_or(Unsupported)?);
        let stride = first.words * 8;
        for (i, id) in elements.iter().enumerate() {
            let (i, here) = (i as u32, place(*id));
            if here.byte != first.byte + i * stride || here.valid_byte != first.valid_byte + i {
                return Err(Unsupported);
            }
        }
        Ok(stride)
    }

    /// The element behind a reference; `Err` for plain headers and unions.
    pub fn element(&mut self, header: &HeaderRef) -> Emit<Element> {
        let (stack, index) = match header {
            HeaderRef::StackNext(stack) => (*stack, self.stack_next(*stack)),
            HeaderRef::StackLast(stack) => {
                let next = self.stack_next(*stack);
                (*stack, self.b.ins().iadd_imm(next, -1))
            }
            HeaderRef::StackElement(stack, index) => (*stack, self.index(index)?),
            _ => return Err(Unsupported),
        };
        let stride = self.stride(stack)?;
        let elements = &self.unit.program.stacks[stack.at()].elements;
        let (first, count) = (elements[0], elements.len() as u64);
        if self.unit.program.headers[first.at()].union.is_some() {
            return Err(Unsupported);
        }
        let exists = self.icmp_imm(IntCC::UnsignedLessThan, index, count);
        let zero = self.int(0);
        let index = self.b.ins().select(exists, index, zero);
        let offset = self.b.ins().imul_imm(index, i64::from(stride));
        let base = self.b.ins().iadd(self.phv, offset);
        Ok(Element { stack, first, base, index, exists })
    }

    /// Load a field of an element: the value, its width, and whether it is signed. Elements that do not exist give 0.
    pub fn load_dynamic(&mut self, field: &FieldRef) -> Emit<(Value, u32, bool)> {
        let element = self.element(&field.header)?;
        let Place::Bits { bit, width, signed } =
            self.unit.layout.headers[element.first.at()].fields[field.field as usize]
        else {
            return Err(Unsupported);
        };
        if width > 64 {
            return Err(Unsupported);
        }
        let value = self.load_bits(element.base, bit, width);
        let zero = self.int(0);
        Ok((self.b.ins().select(element.exists, value, zero), width, signed))
    }

    /// Whether an element exists and is valid.
    pub fn valid_dynamic(&mut self, header: &HeaderRef) -> Emit<Value> {
        let element = self.element(header)?;
        let address = self.valid_address(&element);
        let offset = self.valid_offset(element.first);
        let valid = self.b.ins().load(int_type(1), self.flags.phv, address, offset);
        let zero = self.b.ins().iconst(I8, 0);
        Ok(self.b.ins().select(element.exists, valid, zero))
    }

    /// The vector's address moved by the element's number: where validities are counted from.
    pub fn valid_address(&mut self, element: &Element) -> Value {
        self.b.ins().iadd(self.phv, element.index)
    }

    /// Write a field of an element if it exists.
    pub fn store_dynamic(&mut self, field: &FieldRef, value: Value) -> Emit<()> {
        let element = self.element(&field.header)?;
        let Place::Bits { bit, width, .. } =
            self.unit.layout.headers[element.first.at()].fields[field.field as usize]
        else {
            return Err(Unsupported);
        };
        if width > 64 || self.b.func.dfg.value_type(value) != I64 {
            return Err(Unsupported);
        }
        let (write, after) = (self.block(), self.block());
        self.branch(element.exists, write, after);
        self.enter(write);
        self.store_bits(element.base, bit, width, value);
        self.forget_stack(element.stack);
        self.jump(after);
        self.enter(after);
        self.forget_stack(element.stack);
        Ok(())
    }

    /// Move a stack's elements by `count` places; what is vacated becomes invalid and zero.
    pub fn shift_stack(&mut self, stack: StackId, count: u32, up: bool) -> Emit<()> {
        let elements = &self.unit.program.stacks[stack.at()].elements;
        let (len, count) = (elements.len(), count as usize);
        let place = |at: usize| &self.unit.layout.headers[elements[at].at()];
        let words: u32 = (0..len).map(|at| place(at).words).sum();
        if words > 256 || (1..len).any(|at| place(at).words != place(0).words) {
            return Err(Unsupported);
        }
        let places: Vec<(i32, i32, u32)> = (0..len)
            .map(|at| (place(at).byte as i32, place(at).valid_byte as i32, place(at).words))
            .collect();
        let (phv, flags) = (self.phv, self.flags.phv);
        // In an order in which nothing is overwritten before it is moved.
        for step in 0..len {
            let to = if up { len - 1 - step } else { step };
            let from = if up { to.checked_sub(count) } else { Some(to + count).filter(|from| *from < len) };
            let (byte, valid_byte, words) = places[to];
            match from {
                Some(from) if from == to => {}
                Some(from) => {
                    let (from_byte, from_valid, _) = places[from];
                    self.copy((phv, flags, byte), (phv, flags, from_byte), words * 8);
                    let valid = self.b.ins().load(I8, flags, phv, from_valid);
                    self.b.ins().store(flags, valid, phv, valid_byte);
                }
                None => {
                    self.zero_header(elements[to]);
                    let zero = self.bool(false);
                    self.b.ins().store(flags, zero, phv, valid_byte);
                }
            }
        }
        let limit = self.int(len as u64);
        let next = self.stack_next(stack);
        let next = self.b.ins().umin(next, limit);
        let by = self.int(count as u64);
        let next = if up {
            let sum = self.b.ins().iadd(next, by);
            self.b.ins().umin(sum, limit)
        } else {
            let by = self.b.ins().umin(next, by);
            self.b.ins().isub(next, by)
        };
        let word = self.unit.layout.stack_next[stack.at()] as i32 * 8;
        self.b.ins().store(flags, next, phv, word);
        self.forget_stack(stack);
        Ok(())
    }

    /// Forget what is known of a stack's elements.
    pub fn forget_stack(&mut self, stack: StackId) {
        for id in &self.unit.program.stacks[stack.at()].elements {
            self.known.forget_header(*id);
            self.known.set_valid(*id, None);
        }
    }
}
