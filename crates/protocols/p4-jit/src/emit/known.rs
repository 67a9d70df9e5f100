//! What is known about the packet's vector at one point of the code: fields that are in registers, headers whose
//! validity is settled. Kept per block; where paths meet, only what all of them agree on stays.

use barewire_p4::ir::{FieldId, HeaderId};
use cranelift_codegen::ir::{Block, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

/// More than so many values are not held: registers are few, and copying the lists at every branch costs time.
const MAX_FIELDS: usize = 24;
/// The same for validities: programs have thousands of headers.
const MAX_VALID: usize = 48;

/// Facts at one point.
#[derive(Debug, Clone, Default)]
pub struct Known {
    fields: BTreeMap<FieldId, Value>,
    valid: BTreeMap<HeaderId, bool>,
}

impl Known {
    /// The field's bits, zero-extended, if they are in a register.
    pub fn field(&self, field: FieldId) -> Option<Value> {
        self.fields.get(&field).copied()
    }

    /// Remember a field's bits.
    pub fn set_field(&mut self, field: FieldId, value: Value) {
        if self.fields.len() >= MAX_FIELDS && !self.fields.contains_key(&field) {
            self.fields.clear();
        }
        self.fields.insert(field, value);
    }

    /// Forget one field.
    pub fn forget_field(&mut self, field: FieldId) {
        self.fields.remove(&field);
    }

    /// Forget all fields of a header.
    pub fn forget_header(&mut self, header: HeaderId) {
        let first = FieldId { header, field: 0 };
        let last = FieldId { header, field: u32::MAX };
        let gone: Vec<FieldId> = self.fields.range(first..=last).map(|(field, _)| *field).collect();
        for field in gone {
            self.fields.remove(&field);
        }
    }

    /// Forget every field; a call is coming, and reloading is as cheap as spilling.
    pub fn forget_fields(&mut self) {
        self.fields.clear();
    }

    /// Forget everything: something may have written anywhere.
    pub fn forget_all(&mut self) {
        self.fields.clear();
        self.valid.clear();
    }

    /// Whether a header is valid, if that is settled.
    pub fn valid(&self, header: HeaderId) -> Option<bool> {
        self.valid.get(&header).copied()
    }

    /// Settle (or unsettle) a header's validity.
    pub fn set_valid(&mut self, header: HeaderId, valid: Option<bool>) {
        if self.valid.len() >= MAX_VALID && !self.valid.contains_key(&header) {
            self.valid.clear();
        }
        match valid {
            Some(valid) => self.valid.insert(header, valid),
            None => self.valid.remove(&header),
        };
    }

    fn meet(&mut self, other: &Known) {
        self.fields.retain(|field, value| other.fields.get(field) == Some(value));
        self.valid.retain(|header, valid| other.valid.get(header) == Some(valid));
    }
}

/// The facts at the entry of each block, gathered from the jumps to it.
#[derive(Debug, Default)]
pub struct Entries {
    states: HashMap<Block, Option<Known>>,
    pinned: HashSet<Block>,
}

impl Entries {
    /// A jump to `block` leaves with these facts.
    pub fn arrive(&mut self, block: Block, known: &Known) {
        if self.pinned.contains(&block) {
            self.states.insert(block, Some(Known::default()));
            return;
        }
        match self.states.get_mut(&block) {
            Some(Some(state)) => state.meet(known),
            _ => {
                self.states.insert(block, Some(known.clone()));
            }
        }
    }

    /// Nothing is known where this block begins, whoever jumps there (it has jumps that come later: a loop).
    pub fn pin(&mut self, block: Block) {
        self.pinned.insert(block);
    }

    /// Whether a block was pinned.
    pub fn is_pinned(&self, block: Block) -> bool {
        self.pinned.contains(&block)
    }

    /// Whether anything jumps there.
    pub fn reached(&self, block: Block) -> bool {
        self.states.contains_key(&block)
    }

    /// The facts where a block begins.
    pub fn take(&mut self, block: Block) -> Known {
        self.states.get_mut(&block).and_then(Option::take).unwrap_or_default()
    }
}
