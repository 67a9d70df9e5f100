//! The oracle of every other [`State`]: vectors and maps, searched from one end to the other.
//!
//! What it does is meant to be read: bmv2's rules for tables, profiles, counters and meters with nothing done for
//! speed. Tests run engines and the switch's own state against it.

use super::{Applied, Rate, State, TableAction};
use crate::hash::Parameters;
use crate::ir::{
    ActionCall, CalculationId, CounterId, HashAlgorithm, LearnListId, MatchKind, MeterId, MeterUnit,
    ProfileId, Program, RegisterId, TableActions, TableId, TableKind, ValueSetId,
};
use crate::key::{KeyLayout, MatchParam, arg_words};
use barewire_base::Prng;
use num_bigint::BigUint;
use num_traits::One;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The most messages kept for [`PlainState::take_log`].
pub const MAX_LOG: usize = 65_536;

/// Why an operation was refused; nothing changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlainError {
    /// The table, profile, counter … is none of the program's.
    #[error("the program has no {kind} {index}")]
    Unknown { kind: &'static str, index: u32 },
    /// No entry, member or group has this number.
    #[error("{kind} {handle} does not exist")]
    Missing { kind: &'static str, handle: u32 },
    /// The number is taken.
    #[error("{kind} {handle} exists already")]
    Taken { kind: &'static str, handle: u32 },
    /// Another entry has the same key (and priority).
    #[error("entry {handle} has the same key")]
    Duplicate { handle: u32 },
    /// Not as many matches as the key has fields.
    #[error("the key has {expected} fields, not {found}")]
    KeyFields { expected: usize, found: usize },
    /// A match of a kind the key field does not have.
    #[error("key field {field} does not match this way")]
    KeyKind { field: usize },
    /// The action is not among the table's, or has other parameters.
    #[error("the action does not fit")]
    Action,
    /// An index behind the end of its array.
    #[error("index {index} is beyond the array's {size}")]
    Index { index: u64, size: usize },
    /// Rates do not fit the meter, or are not in ascending order.
    #[error("the meter takes {expected} rates in ascending order")]
    Rates { expected: u32 },
    /// The calculation does not take these parameters.
    #[error("the calculation does not take these parameters")]
    Parameters,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, packet_len: u64) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(packet_len);
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: Rate,
    tokens: u64,
    /// Tokens the rate has given since time began.
    given: u64,
}

/// One meter: bmv2's buckets, the highest rate first; without rates it is green for all.
#[derive(Debug, Clone, Default)]
struct Meter {
    buckets: Vec<Bucket>,
}

impl Meter {
    fn set(&mut self, rates: &[Rate]) {
        let bucket = |&rate: &Rate| Bucket { rate, tokens: rate.burst, given: 0 };
        self.buckets = rates.iter().rev().map(bucket).collect();
    }

    fn run(&mut self, tokens: u64, now_us: u64, precolor: u64) -> u64 {
        let highest = self.buckets.len() as u64;
        for (index, bucket) in self.buckets.iter_mut().enumerate() {
            let given = (now_us as f64 * bucket.rate.per_us) as u64;
            let new = given.saturating_sub(bucket.given);
            bucket.given = bucket.given.max(given);
            bucket.tokens = bucket.tokens.saturating_add(new).min(bucket.rate.burst);
            if bucket.tokens < tokens {
                return precolor.max(highest - index as u64);
            }
            bucket.tokens -= tokens;
        }
        precolor
    }
}

#[derive(Debug, Clone)]
struct Entry {
    key: Vec<MatchParam>,
    priority: u32,
    action: TableAction,
    count: Count,
    meter: Meter,
    last_hit_us: u64,
}

#[derive(Debug, Clone)]
struct Table {
    layout: KeyLayout,
    entries: BTreeMap<u32, Entry>,
    default: Option<TableAction>,
}

#[derive(Debug, Clone, Default)]
struct Profile {
    members: BTreeMap<u32, ActionCall>,
    groups: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Round robin: the next turn, and which turn an input got.
    turn: u64,
    turns: HashMap<u64, u64>,
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct PlainState {
    program: Arc<Program>,
    tables: Vec<Table>,
    profiles: Vec<Profile>,
    counters: Vec<Vec<Count>>,
    meters: Vec<Vec<Meter>>,
    registers: Vec<Vec<BigUint>>,
    value_sets: Vec<BTreeSet<Vec<BigUint>>>,
    parameters: HashMap<CalculationId, Parameters>,
    random: Prng,
    log: Vec<String>,
    digests: Vec<LearnListId>,
}

impl PlainState {
    /// The state of a program before any control plane came, with the program's default entries but without its
    /// other entries.
    pub fn new(program: Arc<Program>) -> PlainState {
        let default = |table: &crate::ir::Table| table.default.clone().map(TableAction::Call);
        PlainState {
            tables: program
                .tables
                .iter()
                .map(|table| Table {
                    layout: KeyLayout::of(table),
                    entries: BTreeMap::new(),
                    default: default(table),
                })
                .collect(),
            profiles: program.profiles.iter().map(|_| Profile::default()).collect(),
            counters: program.counters.iter().map(|c| vec![Count::default(); c.size as usize]).collect(),
            meters: program.meters.iter().map(|m| vec![Meter::default(); m.size as usize]).collect(),
            registers: program.registers.iter().map(|r| vec![r.initial.clone(); r.size as usize]).collect(),
            value_sets: program.value_sets.iter().map(|_| BTreeSet::new()).collect(),
            parameters: HashMap::new(),
            random: Prng::new(1),
            log: Vec::new(),
            digests: Vec::new(),
            program,
        }
    }

    /// The same with the entries that come with the program, their handles from 0 in order.
    pub fn with_program_entries(program: Arc<Program>) -> Result<PlainState, PlainError> {
        let mut state = PlainState::new(program.clone());
        for (index, table) in program.tables.iter().enumerate() {
            for (handle, entry) in table.entries.iter().enumerate() {
                let action = TableAction::Call(entry.call.clone());
                state.insert(TableId::from(index), handle as u32, &entry.key, entry.priority, action)?;
            }
        }
        Ok(state)
    }

    /// Begin the random numbers anew.
    pub fn seed_random(&mut self, seed: u64) {
        self.random = Prng::new(seed);
    }

    fn table_mut(&mut self, table: TableId) -> Result<&mut Table, PlainError> {
        self.tables.get_mut(table.at()).ok_or(PlainError::Unknown { kind: "table", index: table.0 })
    }

    fn check_action(&self, table: TableId, action: &TableAction) -> Result<(), PlainError> {
        let ir = &self.program.tables[table.at()];
        match (action, ir.source) {
            (TableAction::Call(call), _) => self.check_call(call, Some(&ir.actions)),
            (TableAction::Member(member), TableActions::Profile(profile)) => {
                let members = &self.profiles[profile.at()].members;
                let missing = PlainError::Missing { kind: "member", handle: *member };
                members.contains_key(member).then_some(()).ok_or(missing)
            }
            (TableAction::Group(group), TableActions::Profile(profile)) => {
                let groups = &self.profiles[profile.at()].groups;
                let missing = PlainError::Missing { kind: "group", handle: *group };
                groups.contains_key(group).then_some(()).ok_or(missing)
            }
            _ => Err(PlainError::Action),
        }
    }

    fn check_call(&self, call: &ActionCall, among: Option<&[crate::ir::ActionId]>) -> Result<(), PlainError> {
        let action = self.program.actions.get(call.action.at()).ok_or(PlainError::Action)?;
        let fits = action.params.len() == call.args.len()
            && action.params.iter().zip(&call.args).all(|(param, arg)| arg.bits() <= u64::from(param.width))
            && among.is_none_or(|among| among.contains(&call.action));
        fits.then_some(()).ok_or(PlainError::Action)
    }

    /// Add an entry under a handle of the caller's choice. Among equal priorities the lowest handle wins.
    pub fn insert(
        &mut self,
        table: TableId,
        handle: u32,
        key: &[MatchParam],
        priority: u32,
        action: TableAction,
    ) -> Result<(), PlainError> {
        let kind = self
            .program
            .tables
            .get(table.at())
            .ok_or(PlainError::Unknown { kind: "table", index: table.0 })?
            .kind;
        self.check_action(table, &action)?;
        let masks: Vec<Option<BigUint>> =
            self.program.tables[table.at()].key.iter().map(|field| field.mask.clone()).collect();
        let state = self.table_mut(table)?;
        if state.layout.slots.len() != key.len() {
            return Err(PlainError::KeyFields { expected: state.layout.slots.len(), found: key.len() });
        }
        for (field, (slot, param)) in state.layout.slots.iter().zip(key).enumerate() {
            let fits = match param {
                MatchParam::Exact(_) => slot.kind == MatchKind::Exact,
                MatchParam::Valid(_) => slot.kind == MatchKind::Valid,
                MatchParam::Lpm { prefix_len, .. } => {
                    slot.kind == MatchKind::Lpm && *prefix_len <= slot.width
                }
                MatchParam::Ternary { .. } => matches!(slot.kind, MatchKind::Ternary | MatchKind::Optional),
                MatchParam::Range { .. } => slot.kind == MatchKind::Range,
            };
            if !fits {
                return Err(PlainError::KeyKind { field });
            }
        }
        // A masked key field sees only the mask's bits, so its entries keep only them too.
        let key: Vec<MatchParam> = key
            .iter()
            .zip(masks)
            .map(|(param, mask)| match (param, mask) {
                (MatchParam::Exact(value), Some(mask)) => MatchParam::Exact(value & mask),
                (param, _) => param.clone(),
            })
            .collect();
        if state.entries.contains_key(&handle) {
            return Err(PlainError::Taken { kind: "entry", handle });
        }
        let by_priority = matches!(kind, TableKind::Ternary | TableKind::Range);
        let same = |entry: &Entry| entry.key == key && (!by_priority || entry.priority == priority);
        if let Some((&handle, _)) = state.entries.iter().find(|(_, entry)| same(entry)) {
            return Err(PlainError::Duplicate { handle });
        }
        let entry =
            Entry { key, priority, action, count: Count::default(), meter: Meter::default(), last_hit_us: 0 };
        state.entries.insert(handle, entry);
        Ok(())
    }

    fn entry_mut(&mut self, table: TableId, handle: u32) -> Result<&mut Entry, PlainError> {
        let missing = PlainError::Missing { kind: "entry", handle };
        self.table_mut(table)?.entries.get_mut(&handle).ok_or(missing)
    }

    /// Give an entry another action.
    pub fn modify(&mut self, table: TableId, handle: u32, action: TableAction) -> Result<(), PlainError> {
        self.entry_mut(table, handle)?;
        self.check_action(table, &action)?;
        self.entry_mut(table, handle)?.action = action;
        Ok(())
    }

    /// Take an entry away.
    pub fn remove(&mut self, table: TableId, handle: u32) -> Result<(), PlainError> {
        let missing = PlainError::Missing { kind: "entry", handle };
        self.table_mut(table)?.entries.remove(&handle).map(drop).ok_or(missing)
    }

    /// Take all entries away; the default one stays.
    pub fn clear(&mut self, table: TableId) -> Result<(), PlainError> {
        self.table_mut(table)?.entries.clear();
        Ok(())
    }

    /// Set what a miss does; none does nothing.
    pub fn set_default(&mut self, table: TableId, action: Option<TableAction>) -> Result<(), PlainError> {
        self.table_mut(table)?;
        if let Some(action) = &action {
            self.check_action(table, action)?;
        }
        self.table_mut(table)?.default = action;
        Ok(())
    }

    fn profile_mut(&mut self, profile: ProfileId) -> Result<&mut Profile, PlainError> {
        self.profiles.get_mut(profile.at()).ok_or(PlainError::Unknown { kind: "profile", index: profile.0 })
    }

    /// Add a member to a profile.
    pub fn insert_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: ActionCall,
    ) -> Result<(), PlainError> {
        self.check_call(&call, None)?;
        let members = &mut self.profile_mut(profile)?.members;
        if members.contains_key(&member) {
            return Err(PlainError::Taken { kind: "member", handle: member });
        }
        members.insert(member, call);
        Ok(())
    }

    /// Give a member another action.
    pub fn modify_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: ActionCall,
    ) -> Result<(), PlainError> {
        self.check_call(&call, None)?;
        let missing = PlainError::Missing { kind: "member", handle: member };
        *self.profile_mut(profile)?.members.get_mut(&member).ok_or(missing)? = call;
        Ok(())
    }

    /// Take a member away.
    pub fn remove_member(&mut self, profile: ProfileId, member: u32) -> Result<(), PlainError> {
        let missing = PlainError::Missing { kind: "member", handle: member };
        self.profile_mut(profile)?.members.remove(&member).map(drop).ok_or(missing)
    }

    /// Make a group, or give it other members: each with its weight, in the order they are chosen from.
    pub fn set_group(
        &mut self,
        profile: ProfileId,
        group: u32,
        members: Vec<(u32, u32)>,
    ) -> Result<(), PlainError> {
        let profile = self.profile_mut(profile)?;
        if let Some((member, _)) = members.iter().find(|(member, _)| !profile.members.contains_key(member)) {
            return Err(PlainError::Missing { kind: "member", handle: *member });
        }
        profile.groups.insert(group, members);
        Ok(())
    }

    /// Take a group away.
    pub fn remove_group(&mut self, profile: ProfileId, group: u32) -> Result<(), PlainError> {
        let missing = PlainError::Missing { kind: "group", handle: group };
        self.profile_mut(profile)?.groups.remove(&group).map(drop).ok_or(missing)
    }

    /// A counter's value.
    pub fn counter(&self, counter: CounterId, index: u64) -> Option<Count> {
        self.counters.get(counter.at())?.get(usize::try_from(index).ok()?).copied()
    }

    /// Set a counter.
    pub fn set_counter(&mut self, counter: CounterId, index: u64, value: Count) -> Result<(), PlainError> {
        let counters = self
            .counters
            .get_mut(counter.at())
            .ok_or(PlainError::Unknown { kind: "counter", index: counter.0 })?;
        let size = counters.len();
        *at_mut(counters, index).ok_or(PlainError::Index { index, size })? = value;
        Ok(())
    }

    /// What hit an entry, and when last (in microseconds).
    pub fn hits(&self, table: TableId, handle: u32) -> Option<(Count, u64)> {
        let entry = self.tables.get(table.at())?.entries.get(&handle)?;
        Some((entry.count, entry.last_hit_us))
    }

    /// Set a meter's rates, the lowest first; none makes it green for all.
    pub fn set_rates(&mut self, meter: MeterId, index: u64, rates: &[Rate]) -> Result<(), PlainError> {
        self.check_rates(meter, rates)?;
        let meters = &mut self.meters[meter.at()];
        let size = meters.len();
        at_mut(meters, index).ok_or(PlainError::Index { index, size })?.set(rates);
        Ok(())
    }

    /// Set the rates of an entry's direct meter.
    pub fn set_entry_rates(&mut self, table: TableId, handle: u32, rates: &[Rate]) -> Result<(), PlainError> {
        self.entry_mut(table, handle)?;
        let meter = self.program.tables[table.at()].meter.ok_or(PlainError::Action)?;
        self.check_rates(meter, rates)?;
        self.entry_mut(table, handle)?.meter.set(rates);
        Ok(())
    }

    fn check_rates(&self, meter: MeterId, rates: &[Rate]) -> Result<(), PlainError> {
        let ir = self.program.meters.get(meter.at());
        let ir = ir.ok_or(PlainError::Unknown { kind: "meter", index: meter.0 })?;
        let ascending = rates.windows(2).all(|pair| pair[0].per_us <= pair[1].per_us);
        let fits = rates.is_empty() || rates.len() == ir.rate_count as usize && ascending;
        fits.then_some(()).ok_or(PlainError::Rates { expected: ir.rate_count })
    }

    /// Add a value to a value set: one number a part.
    pub fn insert_value(&mut self, set: ValueSetId, parts: Vec<BigUint>) -> Result<(), PlainError> {
        let known = self.program.value_sets.get(set.at());
        let known = known.ok_or(PlainError::Unknown { kind: "value set", index: set.0 })?;
        if known.widths.len() != parts.len() {
            return Err(PlainError::KeyFields { expected: known.widths.len(), found: parts.len() });
        }
        self.value_sets[set.at()].insert(parts);
        Ok(())
    }

    /// Take a value away.
    pub fn remove_value(&mut self, set: ValueSetId, parts: &[BigUint]) -> bool {
        self.value_sets.get_mut(set.at()).is_some_and(|set| set.remove(parts))
    }

    /// Set what a control plane may set of a calculation.
    pub fn set_hash_parameters(
        &mut self,
        calculation: CalculationId,
        parameters: Parameters,
    ) -> Result<(), PlainError> {
        let unknown = PlainError::Unknown { kind: "calculation", index: calculation.0 };
        let ir = self.program.calculations.get(calculation.at()).ok_or(unknown)?;
        if !parameters.fits(ir.algorithm) {
            return Err(PlainError::Parameters);
        }
        self.parameters.insert(calculation, parameters);
        Ok(())
    }

    /// The program's messages since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// The digests asked for since the last call.
    pub fn take_digests(&mut self) -> Vec<LearnListId> {
        std::mem::take(&mut self.digests)
    }

    fn choose(
        &mut self,
        profile: ProfileId,
        group: u32,
        selector_hash: &mut dyn FnMut() -> u64,
    ) -> Option<u32> {
        let algorithm =
            self.program.profiles[profile.at()].selector.as_ref().map(|selector| selector.algorithm);
        let hash = selector_hash();
        let profile = self.profiles.get_mut(profile.at())?;
        let members = profile.groups.get(&group)?;
        let size: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let turn = match algorithm {
            Some(HashAlgorithm::RoundRobin) => {
                profile.turn += 1;
                profile.turn - 1
            }
            Some(HashAlgorithm::RoundRobinConsistent) => {
                let next = profile.turns.len() as u64;
                *profile.turns.entry(hash).or_insert(next)
            }
            _ => hash,
        };
        let mut nth = turn.checked_rem(size)?;
        for &(member, weight) in members {
            if nth < u64::from(weight) {
                return Some(member);
            }
            nth -= u64::from(weight);
        }
        None
    }
}

fn at_mut<T>(array: &mut [T], index: u64) -> Option<&mut T> {
    array.get_mut(usize::try_from(index).ok()?)
}

/// Whether an entry's match takes a key field's value.
pub fn matches(param: &MatchParam, width: u32, value: &BigUint) -> bool {
    match param {
        MatchParam::Exact(exact) => value == exact,
        MatchParam::Valid(valid) => *value == BigUint::from(*valid),
        MatchParam::Lpm { value: prefix, prefix_len } => {
            let rest = width.saturating_sub(*prefix_len);
            value >> rest == prefix >> rest
        }
        MatchParam::Ternary { value: bits, mask } => value & mask == *bits,
        MatchParam::Range { low, high } => low <= value && value <= high,
    }
}

impl State for PlainState {
    fn apply(
        &mut self,
        table: TableId,
        key: &[u64],
        packet_len: u64,
        now_us: u64,
        selector_hash: &mut dyn FnMut() -> u64,
    ) -> Applied {
        let ir = &self.program.tables[table.at()];
        let state = &mut self.tables[table.at()];
        let values: Vec<BigUint> =
            (0..state.layout.slots.len()).map(|slot| state.layout.get(key, slot)).collect();
        let mut best: Option<(u32, u64)> = None;
        // A table without a key has no entries to match.
        for (&handle, entry) in state.entries.iter().filter(|_| !values.is_empty()) {
            let slots = state.layout.slots.iter();
            let hit = slots
                .zip(&entry.key)
                .zip(&values)
                .all(|((slot, param), value)| matches(param, slot.width, value));
            // Less is better.
            let rank = match ir.kind {
                TableKind::Exact => 0,
                TableKind::Lpm => {
                    let prefix_len = |param: &MatchParam| match param {
                        MatchParam::Lpm { prefix_len, .. } => u64::from(*prefix_len),
                        _ => 0,
                    };
                    u64::MAX - entry.key.iter().map(prefix_len).sum::<u64>()
                }
                TableKind::Ternary | TableKind::Range => u64::from(entry.priority),
            };
            if hit && best.is_none_or(|(_, best)| rank < best) {
                best = Some((handle, rank));
            }
        }
        let (action, color) = match best.and_then(|(handle, _)| state.entries.get_mut(&handle)) {
            Some(entry) => {
                entry.count.add(packet_len);
                entry.last_hit_us = now_us;
                let color = ir.meter.map(|meter| {
                    let tokens = match self.program.meters[meter.at()].unit {
                        MeterUnit::Packets => 1,
                        MeterUnit::Bytes => packet_len,
                    };
                    entry.meter.run(tokens, now_us, 0)
                });
                (Some(entry.action.clone()), color)
            }
            None => (state.default.clone(), None),
        };
        let source = ir.source;
        let member = |state: &PlainState, member: u32| match source {
            TableActions::Profile(profile) => state.profiles[profile.at()].members.get(&member).cloned(),
            TableActions::Direct => None,
        };
        let call = match action {
            Some(TableAction::Call(call)) => Some(call),
            Some(TableAction::Member(index)) => member(self, index),
            Some(TableAction::Group(group)) => match source {
                TableActions::Profile(profile) => {
                    self.choose(profile, group, selector_hash).and_then(|index| member(self, index))
                }
                TableActions::Direct => None,
            },
            None => None,
        };
        Applied {
            hit: best.is_some(),
            args: call.as_ref().map(|call| pack_args(&self.program, call)).unwrap_or_default(),
            action: call.map(|call| call.action),
            color,
            handle: best.map(|(handle, _)| u64::from(handle)),
        }
    }

    fn count(&mut self, counter: CounterId, index: u64, packet_len: u64) {
        if let Some(count) = at_mut(&mut self.counters[counter.at()], index) {
            count.add(packet_len);
        }
    }

    fn meter(&mut self, meter: MeterId, index: u64, packet_len: u64, now_us: u64, precolor: u64) -> u64 {
        let tokens = match self.program.meters[meter.at()].unit {
            MeterUnit::Packets => 1,
            MeterUnit::Bytes => packet_len,
        };
        match at_mut(&mut self.meters[meter.at()], index) {
            Some(meter) => meter.run(tokens, now_us, precolor),
            None => 0,
        }
    }

    fn register(&mut self, register: RegisterId, index: u64) -> BigUint {
        at_mut(&mut self.registers[register.at()], index).map(|value| value.clone()).unwrap_or_default()
    }

    fn set_register(&mut self, register: RegisterId, index: u64, value: &BigUint) {
        let width = self.program.registers[register.at()].width;
        if let Some(cell) = at_mut(&mut self.registers[register.at()], index) {
            *cell = value & ((BigUint::one() << width) - 1_u8);
        }
    }

    fn value_set_contains(&mut self, set: ValueSetId, parts: &[BigUint], mask: Option<&[BigUint]>) -> bool {
        let equal = |value: &Vec<BigUint>| match mask {
            Some(mask) => {
                value.iter().zip(mask).zip(parts).all(|((value, mask), part)| value & mask == *part)
            }
            None => value == parts,
        };
        self.value_sets[set.at()].iter().any(equal)
    }

    fn random(&mut self, low: u64, high: u64) -> u64 {
        match high.checked_sub(low) {
            Some(u64::MAX) => self.random.next_u64(),
            Some(span) => low + self.random.below(span + 1),
            None => low,
        }
    }

    fn log(&mut self, message: &str) {
        if self.log.len() < MAX_LOG {
            self.log.push(message.to_owned());
        }
    }

    fn hash_parameters(&self, calculation: CalculationId) -> Option<&Parameters> {
        self.parameters.get(&calculation)
    }

    fn digest(&mut self, list: LearnListId) {
        if self.digests.len() < MAX_LOG {
            self.digests.push(list);
        }
    }
}

/// An action's arguments as [`arg_words`] lays them out.
pub fn pack_args(program: &Program, call: &ActionCall) -> Vec<u64> {
    let params = &program.actions[call.action.at()].params;
    let (first, total) = arg_words(params.iter().map(|param| param.width));
    let mut words = vec![0; total as usize];
    for (arg, at) in call.args.iter().zip(first) {
        for (word, digit) in words[at as usize..].iter_mut().zip(arg.to_u64_digits()) {
            *word = digit;
        }
    }
    words
}

#[cfg(test)]
mod tests;
