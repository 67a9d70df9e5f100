//! What control planes write, as changes of the maps: one mirror of the tables that says which elements change.
//!
//! Order is chosen so that a packet in between sees the table before or after: a ternary entry's record is there before its key,
//! and its key before its mask.

use crate::maps::{
    GROUP, GROUP_LEN, MAX_GROUP_PLACES, MAX_MASKS, MEMBER, Shape, TableShape, again, config, fixed,
    mask_bytes, meter,
};
use barewire_ebpf::MapKind;
use barewire_p4::ir::{
    ActionCall, CounterId, MatchKind, MeterId, ProfileId, Program, RegisterId, TableId, TableKind, ValueSetId,
};
use barewire_p4::key::{MatchParam, arg_words};
use barewire_p4_state::TableAction;
use num_bigint::BigUint;
use num_traits::One;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most elements that ranges of one entry are made into.
const MAX_PIECES: usize = 1024;

/// A change of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapOp {
    /// Which map, by its position among [`Shape::maps`].
    pub map: usize,
    /// The element.
    pub key: Vec<u8>,
    /// What it gets; none: it goes.
    pub value: Option<Vec<u8>>,
}

/// Why a write cannot be mirrored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// There is no such entry.
    #[error("entry {0} is not there")]
    Missing(u32),
    /// More masks, ranges or entries than the maps hold: packets go to user space until the table is cleared.
    #[error("table '{0}' has more masks, ranges or entries than its maps hold")]
    Full(String),
}

struct EntryKeys {
    slot: u32,
    /// Hash or trie keys; for ternary entries the mask's number is in front.
    keys: Vec<Vec<u8>>,
    rank: u64,
    action: TableAction,
}

#[derive(Default)]
struct TableMirror {
    entries: BTreeMap<u32, EntryKeys>,
    /// Masks in use, with how many (element, entry) pairs.
    masks: Vec<Option<(Vec<u8>, u32)>>,
    /// Entries that share an element: rank and slot; the first is in the map.
    shared: BTreeMap<Vec<u8>, BTreeSet<(u64, u32)>>,
    full: bool,
}

/// A parser value set.
#[derive(Default)]
struct SetMirror {
    values: BTreeSet<Vec<BigUint>>,
    /// Map and key of each element, with how many values have it: under a mask several may be the same.
    elements: BTreeMap<(usize, Vec<u8>), u32>,
}

/// The mirror of one program's state.
pub struct Mirror {
    program: Arc<Program>,
    shape: Shape,
    tables: Vec<TableMirror>,
    defaults: Vec<u8>,
    sets: Vec<SetMirror>,
    /// Places in the map of each group of each profile: more than are in use, as a packet may still look at them.
    places: BTreeMap<(usize, u32), u32>,
    /// What `config` holds.
    config: [u64; (config::LEN / 8) as usize],
    /// Something went wrong outside.
    gave_up: bool,
    /// A multicast group has copies that are not made here.
    slow_copies: bool,
}

fn word32(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

fn place_key(group: u32, place: u32) -> Vec<u8> {
    [group.to_ne_bytes(), place.to_ne_bytes()].concat()
}

fn be_bytes(value: &BigUint, bytes: u32) -> Vec<u8> {
    let digits = value.to_bytes_be();
    let bytes = bytes as usize;
    let mut out = vec![0; bytes];
    let take = digits.len().min(bytes);
    out[bytes - take..].copy_from_slice(&digits[digits.len() - take..]);
    out
}

fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - 1_u8
}

/// A range as values under masks.
fn prefixes(low: &BigUint, high: &BigUint, width: u32) -> Vec<(BigUint, BigUint)> {
    let mut out = Vec::new();
    let mut at = low.clone();
    while at <= *high {
        // The largest block that begins here and does not go beyond.
        let mut bits = at.trailing_zeros().map_or(width, |zeros| (zeros as u32).min(width));
        while bits > 0 && &at + ones(bits) > *high {
            bits -= 1;
        }
        out.push((at.clone(), ones(width) ^ ones(bits)));
        at += BigUint::one() << bits;
    }
    out
}

impl Mirror {
    /// The mirror of a state without entries and default actions: what maps hold when they are new.
    pub fn new(program: Arc<Program>, shape: Shape) -> Mirror {
        let tables = shape.tables.iter().map(|_| TableMirror::default()).collect();
        let defaults = vec![0; shape.maps[fixed::DEFAULTS].value as usize];
        let sets = shape.value_sets.iter().map(|_| SetMirror::default()).collect();
        Mirror {
            program,
            shape,
            tables,
            defaults,
            sets,
            places: BTreeMap::new(),
            config: [0; (config::LEN / 8) as usize],
            gave_up: false,
            slow_copies: false,
        }
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The maps.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether every packet has to go to user space now.
    pub fn is_full(&self) -> bool {
        self.gave_up || self.slow_copies || self.tables.iter().any(|table| table.full)
    }

    /// Set the zero of time, and a time that every packet has (none: the clock's).
    pub fn set_time(&mut self, started_ns: u64, fixed_us: Option<u64>, out: &mut Vec<MapOp>) {
        self.config[(config::STARTED_NS / 8) as usize] = started_ns;
        self.config[(config::FIXED_NOW_US / 8) as usize] = fixed_us.map_or(0, |us| us + 1);
        self.write_config(out);
    }

    /// From now on every packet goes to user space.
    pub fn give_up(&mut self, out: &mut Vec<MapOp>) {
        self.gave_up = true;
        self.set_full(out);
    }

    /// Whether a multicast group has copies that are not made here: while one does, every packet goes to user space.
    pub fn set_slow_copies(&mut self, are: bool, out: &mut Vec<MapOp>) {
        self.slow_copies = are;
        self.set_full(out);
    }

    /// Set the controller's port, and what packets for it are known by.
    pub fn set_controller(&mut self, port: Option<u32>, secret: [u8; 16], out: &mut Vec<MapOp>) {
        self.config[(config::CPU_PORT / 8) as usize] = port.map_or(0, |port| u64::from(port) + 1);
        for (word, bytes) in self.config[(config::TAG / 8) as usize..].iter_mut().zip(secret.chunks_exact(8))
        {
            *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
        }
        self.write_config(out);
    }

    /// Say to which port a mirror session's clones go; none for one that is more than a port, or is not there.
    pub fn set_session(&mut self, session: u32, port: Option<u32>, out: &mut Vec<MapOp>) {
        let Some(map) = self.shape.again.and_then(|again| again.mirrors) else { return };
        out.push(MapOp { map, key: word32(session), value: port.map(word32) });
    }

    /// Say which of the switch's programs this is, for packets that user space takes in a later round.
    pub fn set_epoch(&mut self, epoch: u32, out: &mut Vec<MapOp>) {
        self.config[(config::EPOCH / 8) as usize] = u64::from(epoch << again::EPOCH_SHIFT);
        self.write_config(out);
    }

    /// Send longer packets to user space.
    pub fn set_max_frame(&mut self, bytes: u32, out: &mut Vec<MapOp>) {
        self.config[(config::MAX_FRAME / 8) as usize] = bytes.into();
        self.write_config(out);
    }

    fn write_config(&self, out: &mut Vec<MapOp>) {
        let value = self.config.iter().flat_map(|word| word.to_ne_bytes()).collect();
        out.push(MapOp { map: fixed::CONFIG, key: word32(0), value: Some(value) });
    }

    fn set_full(&mut self, out: &mut Vec<MapOp>) {
        let full = u64::from(self.is_full());
        if self.config[(config::ALL_SLOW / 8) as usize] != full {
            self.config[(config::ALL_SLOW / 8) as usize] = full;
            self.write_config(out);
        }
    }

    fn call_words(&self, call: &ActionCall, words: &mut [u64]) {
        let widths = self.program.actions[call.action.at()].params.iter().map(|param| param.width);
        let (first, _) = arg_words(widths);
        for (arg, first) in call.args.iter().zip(first) {
            for (at, digit) in arg.iter_u64_digits().enumerate() {
                if let Some(word) = words.get_mut(1 + first as usize + at) {
                    *word = digit;
                }
            }
        }
        words[0] |= u64::from(call.action.0) + 1;
    }

    /// A record: `entry` is the slot plus 1, 0 for the default one.
    fn record(&self, shape: &TableShape, action: Option<&TableAction>, entry: u32) -> Vec<u8> {
        let mut words = vec![0_u64; shape.record_words as usize];
        words[0] = u64::from(entry) << 32;
        match action {
            Some(TableAction::Call(call)) => self.call_words(call, &mut words),
            Some(TableAction::Member(member)) => words[0] |= u64::from(MEMBER | member & (GROUP - 1)),
            Some(TableAction::Group(group)) => words[0] |= u64::from(MEMBER | GROUP | group & (GROUP - 1)),
            None => {}
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// The values and masks of a ternary key, each a whole key.
    fn pieces(&self, table: usize, key: &[MatchParam]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let shape = &self.shape.tables[table];
        let mut all: Vec<(Vec<u8>, Vec<u8>)> = vec![(Vec::new(), Vec::new())];
        for (param, slot) in key.iter().zip(&shape.key.slots) {
            let full = ones(slot.width);
            let options = match param {
                MatchParam::Exact(value) => vec![(value.clone(), full)],
                MatchParam::Valid(valid) => vec![(BigUint::from(u8::from(*valid)), full)],
                MatchParam::Lpm { value, prefix_len } => {
                    vec![(value.clone(), ones(*prefix_len) << (slot.width - prefix_len))]
                }
                MatchParam::Ternary { value, mask } => vec![(value & mask, mask.clone())],
                MatchParam::Range { low, high } => prefixes(low, high, slot.width),
            };
            if all.len() * options.len() > MAX_PIECES {
                return None;
            }
            let mut next = Vec::with_capacity(all.len() * options.len());
            for (value, mask) in &all {
                for (v, m) in &options {
                    let (mut value, mut mask) = (value.clone(), mask.clone());
                    value.extend(be_bytes(v, slot.bytes));
                    mask.extend(be_bytes(m, slot.bytes));
                    next.push((value, mask));
                }
            }
            all = next;
        }
        Some(all)
    }

    /// An exact or lpm key.
    fn plain_key(&self, table: usize, key: &[MatchParam]) -> Vec<u8> {
        let shape = &self.shape.tables[table];
        let mut out = Vec::new();
        let mut prefix = 8 * shape.key.bytes;
        for field in shape.order() {
            let slot = &shape.key.slots[field];
            let value = match &key[field] {
                MatchParam::Exact(value) => value.clone(),
                MatchParam::Valid(valid) => BigUint::from(u8::from(*valid)),
                MatchParam::Lpm { value, prefix_len } => {
                    prefix = prefix - slot.width + prefix_len;
                    value.clone()
                }
                MatchParam::Ternary { value, .. } => value.clone(),
                MatchParam::Range { low, .. } => low.clone(),
            };
            out.extend(be_bytes(&value, slot.bytes));
        }
        if self.program.tables[table].kind == TableKind::Lpm {
            let mut with_prefix = prefix.to_ne_bytes().to_vec();
            with_prefix.extend(out);
            return with_prefix;
        }
        out
    }

    /// A masked key field sees only the mask's bits, so its entries keep only them too.
    fn masked(&self, table: TableId, key: &[MatchParam]) -> Vec<MatchParam> {
        let fields = &self.program.tables[table.at()].key;
        key.iter()
            .zip(fields)
            .map(|(param, field)| match (param, &field.mask) {
                (MatchParam::Exact(value), Some(mask)) => MatchParam::Exact(value & mask),
                (param, _) => param.clone(),
            })
            .collect()
    }

    /// Add an entry.
    ///
    /// # Errors
    /// [`MirrorError::Full`]; `out` then says that packets go to user space.
    pub fn insert(
        &mut self,
        table: TableId,
        handle: u32,
        key: &[MatchParam],
        priority: u32,
        action: &TableAction,
        out: &mut Vec<MapOp>,
    ) -> Result<(), MirrorError> {
        let at = table.at();
        let shape = self.shape.tables[at].clone();
        let Some(entries) = shape.entries else { return Ok(()) };
        let key = self.masked(table, key);
        let most = self.shape.maps[shape.records.unwrap_or(entries)].entries;
        // Handles are given from the lowest on, so there are none beyond the size of a table that fits.
        let slot = handle;
        if slot >= most {
            return self.full(table, out);
        }
        let record = self.record(&shape, Some(action), slot + 1);
        if let Some(direct) = shape.direct {
            out.push(MapOp { map: direct, key: word32(slot + 1), value: Some(vec![0; 16]) });
        }
        if let Some(hits) = shape.hits {
            out.push(MapOp { map: hits, key: word32(slot + 1), value: Some(vec![0; 8]) });
        }
        if let Some(meter) = self.program.tables[at].meter {
            out.push(self.meter_op(meter, slot + 1, None));
        }
        let rank = u64::from(priority) << 32 | u64::from(handle);
        let mut keys = Vec::new();
        match shape.records {
            None => {
                let key = self.plain_key(at, &key);
                keys.push(key.clone());
                out.push(MapOp { map: entries, key, value: Some(record) });
            }
            Some(records) => {
                let Some(pieces) = self.pieces(at, &key) else { return self.full(table, out) };
                out.push(MapOp { map: records, key: word32(slot), value: Some(record) });
                let mut fresh = Vec::new();
                for (value, mask) in pieces {
                    let Some((number, is_new)) = self.tables[at].mask(&mask) else {
                        return self.full(table, out);
                    };
                    if is_new {
                        let mut element = vec![0; mask_bytes(shape.key.bytes) as usize];
                        element[..8].copy_from_slice(&1_u64.to_ne_bytes());
                        element[8..8 + mask.len()].copy_from_slice(&mask);
                        let masks = shape.masks.unwrap_or(0);
                        fresh.push(MapOp { map: masks, key: word32(number), value: Some(element) });
                    }
                    let mut element = word32(number);
                    element.extend(value);
                    let sharing = self.tables[at].shared.entry(element.clone()).or_default();
                    sharing.insert((rank, slot));
                    if sharing.first() == Some(&(rank, slot)) {
                        out.push(best(entries, &element, sharing));
                    }
                    keys.push(element);
                }
                out.extend(fresh);
            }
        }
        let action = action.clone();
        self.tables[at].entries.insert(handle, EntryKeys { slot, keys, rank, action });
        Ok(())
    }

    fn full(&mut self, table: TableId, out: &mut Vec<MapOp>) -> Result<(), MirrorError> {
        self.tables[table.at()].full = true;
        self.set_full(out);
        Err(MirrorError::Full(self.program.tables[table.at()].name.clone()))
    }

    /// Give an entry another action.
    ///
    /// # Errors
    /// [`MirrorError::Missing`].
    pub fn modify(
        &mut self,
        table: TableId,
        handle: u32,
        action: &TableAction,
        out: &mut Vec<MapOp>,
    ) -> Result<(), MirrorError> {
        let shape = self.shape.tables[table.at()].clone();
        let Some(entries) = shape.entries else { return Ok(()) };
        let Some(entry) = self.tables[table.at()].entries.get_mut(&handle) else {
            return self.missing(table, handle);
        };
        entry.action = action.clone();
        let (slot, key) = (entry.slot, entry.keys.first().cloned().unwrap_or_default());
        let value = Some(self.record(&shape, Some(action), slot + 1));
        out.push(match shape.records {
            Some(records) => MapOp { map: records, key: word32(slot), value },
            None => MapOp { map: entries, key, value },
        });
        Ok(())
    }

    /// A full table does not have all entries.
    fn missing(&self, table: TableId, handle: u32) -> Result<(), MirrorError> {
        if self.tables[table.at()].full { Ok(()) } else { Err(MirrorError::Missing(handle)) }
    }

    /// Take an entry away.
    ///
    /// # Errors
    /// [`MirrorError::Missing`].
    pub fn remove(&mut self, table: TableId, handle: u32, out: &mut Vec<MapOp>) -> Result<(), MirrorError> {
        let shape = self.shape.tables[table.at()].clone();
        let Some(map) = shape.entries else { return Ok(()) };
        let mirror = &mut self.tables[table.at()];
        let Some(entry) = mirror.entries.remove(&handle) else { return self.missing(table, handle) };
        for key in entry.keys {
            if shape.records.is_none() {
                out.push(MapOp { map, key, value: None });
                continue;
            }
            if let Some(sharing) = mirror.shared.get_mut(&key) {
                let was_first = sharing.first() == Some(&(entry.rank, entry.slot));
                sharing.remove(&(entry.rank, entry.slot));
                if sharing.is_empty() {
                    mirror.shared.remove(&key);
                    out.push(MapOp { map, key: key.clone(), value: None });
                } else if was_first {
                    out.push(best(map, &key, sharing));
                }
            }
            let number = u32::from_ne_bytes([key[0], key[1], key[2], key[3]]);
            if mirror.release(number) {
                let mut element = vec![0; mask_bytes(shape.key.bytes) as usize];
                // A hole, that later masks fill: the ones behind it stay where they are.
                element[..8].copy_from_slice(&2_u64.to_ne_bytes());
                out.push(MapOp { map: shape.masks.unwrap_or(0), key: word32(number), value: Some(element) });
            }
        }
        Ok(())
    }

    /// Take all entries away.
    pub fn clear(&mut self, table: TableId, out: &mut Vec<MapOp>) {
        let handles: Vec<u32> = self.tables[table.at()].entries.keys().copied().collect();
        for handle in handles {
            let _ = self.remove(table, handle, out);
        }
        if self.tables[table.at()].full {
            // What was half done goes too.
            if let Some(map) = self.shape.tables[table.at()].entries {
                let left = std::mem::take(&mut self.tables[table.at()].shared);
                out.extend(left.into_keys().map(|key| MapOp { map, key, value: None }));
            }
            if let Some(map) = self.shape.tables[table.at()].masks {
                let bytes = mask_bytes(self.shape.tables[table.at()].key.bytes) as usize;
                let empty = |number: u32| MapOp { map, key: word32(number), value: Some(vec![0; bytes]) };
                out.extend((0..MAX_MASKS).map(empty));
            }
            self.tables[table.at()] = TableMirror::default();
            self.set_full(out);
        }
    }

    /// Set what a miss does.
    pub fn set_default(&mut self, table: TableId, action: Option<&TableAction>, out: &mut Vec<MapOp>) {
        let shape = self.shape.tables[table.at()].clone();
        let record = self.record(&shape, action, 0);
        let at = shape.default_at as usize;
        self.defaults[at..at + record.len()].copy_from_slice(&record);
        out.push(MapOp { map: fixed::DEFAULTS, key: word32(0), value: Some(self.defaults.clone()) });
    }

    /// Set a profile's member.
    pub fn set_member(&mut self, profile: ProfileId, member: u32, call: &ActionCall, out: &mut Vec<MapOp>) {
        let map = self.shape.members[profile.at()];
        let mut words = vec![0; self.shape.maps[map].value as usize / 8];
        self.call_words(call, &mut words);
        let value = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        out.push(MapOp { map, key: word32(member), value: Some(value) });
    }

    /// Set a group of a profile: each member as often as its weight says.
    ///
    /// # Errors
    /// [`MirrorError::Full`]; packets then go to user space.
    pub fn set_group(
        &mut self,
        profile: ProfileId,
        group: u32,
        members: &[(u32, u32)],
        out: &mut Vec<MapOp>,
    ) -> Result<(), MirrorError> {
        let Some(map) = self.shape.groups[profile.at()] else { return Ok(()) };
        let all: Vec<u32> = members
            .iter()
            .flat_map(|&(member, weight)| std::iter::repeat_n(member, weight as usize))
            .collect();
        let at = (profile.at(), group);
        let had = self.places.get(&at).copied().unwrap_or(0);
        let others: u64 = self
            .places
            .iter()
            .filter(|((known, other), _)| (*known, *other) != at && *known == profile.at())
            .map(|(_, places)| u64::from(*places) + 1)
            .sum();
        if others + all.len() as u64 + 1 > u64::from(MAX_GROUP_PLACES) {
            self.give_up(out);
            return Err(MirrorError::Full(self.program.profiles[profile.at()].name.clone()));
        }
        // Places first: whoever reads how many there are finds them. What is left of a larger group stays, for those who read that.
        for (place, member) in all.iter().enumerate() {
            out.push(MapOp { map, key: place_key(group, place as u32), value: Some(word32(*member)) });
        }
        out.push(MapOp { map, key: place_key(group, GROUP_LEN), value: Some(word32(all.len() as u32)) });
        self.places.insert(at, had.max(all.len() as u32));
        Ok(())
    }

    /// Remove a group: entries that name it run no action.
    pub fn remove_group(&mut self, profile: ProfileId, group: u32, out: &mut Vec<MapOp>) {
        let Some(map) = self.shape.groups[profile.at()] else { return };
        let Some(places) = self.places.remove(&(profile.at(), group)) else { return };
        out.push(MapOp { map, key: place_key(group, GROUP_LEN), value: None });
        for place in 0..places {
            out.push(MapOp { map, key: place_key(group, place), value: None });
        }
    }

    /// Take a profile's member away: what names it runs no action.
    pub fn remove_member(&mut self, profile: ProfileId, member: u32, out: &mut Vec<MapOp>) {
        out.push(MapOp { map: self.shape.members[profile.at()], key: word32(member), value: None });
    }

    /// Add a value to a parser value set.
    pub fn add_to_set(&mut self, set: ValueSetId, value: &[BigUint], out: &mut Vec<MapOp>) {
        let (mirror, shape) = (&mut self.sets[set.at()], &self.shape.value_sets[set.at()]);
        if !mirror.values.insert(value.to_vec()) {
            return;
        }
        for (mask, map) in &shape.by_mask {
            let key = shape.key(value, mask.as_deref());
            let users = mirror.elements.entry((*map, key.clone())).or_default();
            *users += 1;
            if *users == 1 {
                out.push(MapOp { map: *map, key, value: Some(word32(1)) });
            }
        }
    }

    /// Take a value out of a parser value set.
    pub fn remove_from_set(&mut self, set: ValueSetId, value: &[BigUint], out: &mut Vec<MapOp>) {
        let (mirror, shape) = (&mut self.sets[set.at()], &self.shape.value_sets[set.at()]);
        if !mirror.values.remove(value) {
            return;
        }
        for (mask, map) in &shape.by_mask {
            let element = (*map, shape.key(value, mask.as_deref()));
            let Some(users) = mirror.elements.get_mut(&element) else { continue };
            *users -= 1;
            if *users == 0 {
                mirror.elements.remove(&element);
                out.push(MapOp { map: *map, key: element.1, value: None });
            }
        }
    }

    /// Put these values in the place of all of a parser value set. Those that stay are there all the time.
    pub fn replace_set(&mut self, set: ValueSetId, values: &[Vec<BigUint>], out: &mut Vec<MapOp>) {
        let wanted: BTreeSet<&Vec<BigUint>> = values.iter().collect();
        let gone: Vec<_> =
            self.sets[set.at()].values.iter().filter(|v| !wanted.contains(v)).cloned().collect();
        for value in values {
            self.add_to_set(set, value, out);
        }
        for value in gone {
            self.remove_from_set(set, &value, out);
        }
    }

    /// Set a register.
    pub fn set_register(&mut self, register: RegisterId, index: u32, value: &BigUint, out: &mut Vec<MapOp>) {
        let map = self.shape.registers[register.at()];
        let mut bytes = vec![0; self.shape.maps[map].value as usize];
        let width = self.program.registers[register.at()].width;
        for (digit, to) in (value & ones(width)).iter_u64_digits().zip(bytes.chunks_mut(8)) {
            to.copy_from_slice(&digit.to_ne_bytes());
        }
        out.push(MapOp { map, key: word32(index), value: Some(bytes) });
    }

    /// Set a meter's rates, from the lowest to the highest (tokens in a microsecond, and how many at once), its buckets full; none makes
    /// it as one never configured.
    pub fn set_meter(
        &mut self,
        meter: MeterId,
        index: u32,
        rates: Option<&[(f64, u64)]>,
        out: &mut Vec<MapOp>,
    ) {
        out.push(self.meter_op(meter, index, rates));
    }

    /// The same for an entry's meter.
    pub fn set_direct_meter(
        &mut self,
        table: TableId,
        handle: u32,
        rates: Option<&[(f64, u64)]>,
        out: &mut Vec<MapOp>,
    ) {
        let known = self.tables[table.at()].entries.contains_key(&handle);
        if let (Some(meter), true) = (self.program.tables[table.at()].meter, known) {
            out.push(self.meter_op(meter, handle + 1, rates));
        }
    }

    fn meter_op(&self, meter: MeterId, index: u32, rates: Option<&[(f64, u64)]>) -> MapOp {
        let map = self.shape.meters[meter.at()];
        let mut value = vec![0; self.shape.maps[map].value as usize];
        let mut put = |at: u32, word: u64| {
            if let Some(bytes) = value.get_mut(at as usize..at as usize + 8) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
        };
        for (at, (per_us, burst)) in rates.unwrap_or_default().iter().rev().enumerate() {
            let at = meter::RATES + meter::RATE * at as u32;
            let (factor, shift) = meter::factor(*per_us);
            put(at + meter::FACTOR, factor);
            put(at + meter::SHIFT, shift as u64);
            put(at + meter::BURST, *burst);
            put(at + meter::TOKENS, *burst);
        }
        let configured = u32::from(rates.is_some());
        let at = meter::CONFIGURED as usize;
        value[at..at + 4].copy_from_slice(&configured.to_ne_bytes());
        MapOp { map, key: word32(index), value: Some(value) }
    }

    /// Set a counter of an array.
    pub fn set_counter(&mut self, counter: CounterId, index: u32, value: [u64; 2], out: &mut Vec<MapOp>) {
        let map = self.shape.counters[counter.at()];
        let value = value.iter().flat_map(|word| word.to_ne_bytes()).collect();
        out.push(MapOp { map, key: word32(index), value: Some(value) });
    }

    /// Where the time of an entry's last hit is: the map and the element.
    pub fn last_hit(&self, table: TableId, handle: u32) -> Option<(usize, u32)> {
        let map = self.shape.tables[table.at()].hits?;
        Some((map, self.tables[table.at()].entries.get(&handle)?.slot + 1))
    }

    /// Where an entry's counter is: the map and the element; no handle: the default entry's.
    pub fn direct_counter(&self, table: TableId, handle: Option<u32>) -> Option<(usize, u32)> {
        let map = self.shape.tables[table.at()].direct?;
        let index = match handle {
            Some(handle) => self.tables[table.at()].entries.get(&handle)?.slot + 1,
            None => 0,
        };
        Some((map, index))
    }

    /// Maps whose elements can be taken out one by one.
    pub fn is_keyed(&self, map: usize) -> bool {
        matches!(self.shape.maps[map].kind, MapKind::Hash | MapKind::LpmTrie)
    }

    /// How a table's key fields match, for those who look at entries.
    pub fn kinds(&self, table: TableId) -> Vec<MatchKind> {
        self.program.tables[table.at()].key.iter().map(|field| field.kind).collect()
    }
}

fn best(map: usize, key: &[u8], sharing: &BTreeSet<(u64, u32)>) -> MapOp {
    let (rank, slot) = sharing.first().copied().unwrap_or_default();
    let mut value = rank.to_ne_bytes().to_vec();
    value.extend(u64::from(slot).to_ne_bytes());
    MapOp { map, key: key.to_vec(), value: Some(value) }
}

impl TableMirror {
    /// A mask's number, and whether it is new; none when there are too many.
    fn mask(&mut self, mask: &[u8]) -> Option<(u32, bool)> {
        if let Some(at) = self.masks.iter().position(|m| m.as_ref().is_some_and(|(known, _)| known == mask)) {
            if let Some((_, users)) = &mut self.masks[at] {
                *users += 1;
            }
            return Some((at as u32, false));
        }
        let at = match self.masks.iter().position(Option::is_none) {
            Some(at) => at,
            None if self.masks.len() < MAX_MASKS as usize => {
                self.masks.push(None);
                self.masks.len() - 1
            }
            None => return None,
        };
        self.masks[at] = Some((mask.to_vec(), 1));
        Some((at as u32, true))
    }

    /// One user less; says whether it was the last.
    fn release(&mut self, number: u32) -> bool {
        let Some(place) = self.masks.get_mut(number as usize) else { return false };
        let Some((_, users)) = place else { return false };
        *users -= 1;
        let last = *users == 0;
        if last {
            *place = None;
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_prefixes_that_cover_each_value_once() {
        for (low, high) in [(0_u32, 0), (0, 255), (1, 254), (3, 17), (255, 255), (128, 200)] {
            let pieces = prefixes(&low.into(), &high.into(), 8);
            for value in 0..256_u32 {
                let hits = pieces.iter().filter(|(v, m)| BigUint::from(value) & m == *v).count();
                assert_eq!(hits, usize::from((low..=high).contains(&value)), "{value} in {low}..={high}");
            }
        }
        assert!(!prefixes(&BigUint::ZERO, &BigUint::ZERO, 1).is_empty());
    }
}
