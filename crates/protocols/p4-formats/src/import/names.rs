//! Names and numbers of the file, and what they stand for.

use super::error::{Fault, Problem, Result, nearest};
use super::json::Json;
use barewire_p4::ir::{
    ActionId, CalculationId, ChecksumUnitId, CounterId, FieldListId, HashAlgorithm, HeaderId, HeaderTypeId,
    LearnListId, MeterId, ProfileId, RegisterId, StackId, UnionId, UnionStackId, ValueSetId,
};
use num_bigint::BigUint;
use std::collections::{HashMap, HashSet};

/// The objects of one kind by name.
pub(super) struct Scope<T> {
    kind: &'static str,
    by_name: HashMap<String, T>,
}

impl<T: Clone> Scope<T> {
    pub fn new(kind: &'static str) -> Scope<T> {
        Scope { kind, by_name: HashMap::new() }
    }

    /// A new name; `at` is where it stands.
    pub fn add(&mut self, at: &Json<'_>, name: &str, value: T) -> Result<()> {
        if self.by_name.insert(name.to_owned(), value).is_some() {
            return Err(Fault::new(at, Problem::Duplicate { kind: self.kind, name: name.to_owned() }));
        }
        Ok(())
    }

    /// What the name at `at` stands for.
    pub fn at(&self, at: &Json<'_>) -> Result<T> {
        self.named(at, at.str()?)
    }

    pub fn named(&self, at: &Json<'_>, name: &str) -> Result<T> {
        self.by_name.get(name).cloned().ok_or_else(|| {
            let nearest = nearest(name, self.by_name.keys().map(String::as_str));
            Fault::new(at, Problem::Unknown { kind: self.kind, name: name.to_owned(), nearest })
        })
    }

    pub fn get(&self, name: &str) -> Option<T> {
        self.by_name.get(name).cloned()
    }
}

/// The objects of one kind by number.
pub(super) struct Numbers<T> {
    kind: &'static str,
    by_number: HashMap<i64, T>,
}

impl<T: Copy> Numbers<T> {
    pub fn new(kind: &'static str) -> Numbers<T> {
        Numbers { kind, by_number: HashMap::new() }
    }

    /// A new object whose number is its member `id`.
    pub fn add(&mut self, object: &Json<'_>, value: T) -> Result<u32> {
        let id = object.need("id")?;
        let number = id.count("id", u32::MAX)?;
        if self.by_number.insert(number.into(), value).is_some() {
            return Err(Fault::new(id, Problem::Duplicate { kind: self.kind, name: number.to_string() }));
        }
        Ok(number)
    }

    pub fn at(&self, at: &Json<'_>) -> Result<T> {
        self.numbered(at, at.int()?)
    }

    pub fn numbered(&self, at: &Json<'_>, number: i64) -> Result<T> {
        self.by_number.get(&number).copied().ok_or_else(|| {
            Fault::new(at, Problem::Unknown { kind: self.kind, name: number.to_string(), nearest: None })
        })
    }

    pub fn get(&self, number: i64) -> Option<T> {
        self.by_number.get(&number).copied()
    }
}

/// A PSA extern.
#[derive(Debug, Clone)]
pub(super) enum Extern {
    Counter(CounterId),
    Meter(MeterId),
    Hash(HashAlgorithm),
    Checksum(ChecksumUnitId),
    Random { low: BigUint, high: BigUint },
}

/// The type of a union: members by name with their types.
pub(super) struct UnionType {
    pub members: Vec<(String, HeaderTypeId)>,
}

/// All names.
pub(super) struct Names {
    pub header_types: Scope<HeaderTypeId>,
    /// Each type's fields by name.
    pub fields: Vec<HashMap<String, u32>>,
    pub headers: Scope<HeaderId>,
    pub header_numbers: Numbers<HeaderId>,
    pub stacks: Scope<StackId>,
    pub union_types: Scope<usize>,
    pub union_type_list: Vec<UnionType>,
    pub unions: Scope<UnionId>,
    pub union_numbers: Numbers<UnionId>,
    pub union_stacks: Scope<UnionStackId>,
    /// The type of each union.
    pub type_of_union: Vec<usize>,
    /// Header or stack element taken by a stack or a union already.
    pub owned_headers: HashSet<HeaderId>,
    pub aliases: HashMap<String, barewire_p4::ir::FieldId>,
    /// Fields whose value is clamped when written.
    pub saturating: HashSet<(HeaderTypeId, u32)>,
    pub field_lists: Numbers<FieldListId>,
    pub learn_lists: Numbers<LearnListId>,
    pub calculations: Scope<CalculationId>,
    pub counters: Scope<CounterId>,
    pub meters: Scope<MeterId>,
    pub registers: Scope<RegisterId>,
    pub externs: Scope<Extern>,
    pub value_sets: Scope<ValueSetId>,
    /// The declared width of each value set's values.
    pub value_set_bits: Vec<u32>,
    pub actions: Numbers<ActionId>,
    pub first_action: Scope<ActionId>,
    pub profiles: Scope<ProfileId>,
    /// A number no counter array has, and one no meter array has.
    pub free_counter: u32,
    pub free_meter: u32,
}

impl Default for Names {
    fn default() -> Names {
        Names {
            header_types: Scope::new("header type"),
            fields: Vec::new(),
            headers: Scope::new("header"),
            header_numbers: Numbers::new("header number"),
            stacks: Scope::new("header stack"),
            union_types: Scope::new("header union type"),
            union_type_list: Vec::new(),
            unions: Scope::new("header union"),
            union_numbers: Numbers::new("header union number"),
            union_stacks: Scope::new("header union stack"),
            type_of_union: Vec::new(),
            owned_headers: HashSet::new(),
            aliases: HashMap::new(),
            saturating: HashSet::new(),
            field_lists: Numbers::new("field list number"),
            learn_lists: Numbers::new("learn list number"),
            calculations: Scope::new("calculation"),
            counters: Scope::new("counter array"),
            meters: Scope::new("meter array"),
            registers: Scope::new("register array"),
            externs: Scope::new("extern instance"),
            value_sets: Scope::new("value set"),
            value_set_bits: Vec::new(),
            actions: Numbers::new("action number"),
            first_action: Scope::new("action"),
            profiles: Scope::new("action profile"),
            free_counter: 0,
            free_meter: 0,
        }
    }
}
