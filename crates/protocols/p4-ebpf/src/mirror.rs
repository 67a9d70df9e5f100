//! What control planes write, as changes of the maps: one mirror of the tables that says which elements change.
//!
//! Order is chosen so that a packet in between sees each table before or after: a record is there before what finds it, and is not
//! written again before all packets that may have found it are gone ([`MapOp::wait`]); a ternary entry's key is there before its mask.

mod entries;
#[cfg(test)]
mod model;
mod profiles;
mod slots;

use crate::maps::{GROUP, MEMBER, Shape, config, fixed, meter, recirculate};
use crate::pieces::ones;
use barewire_ebpf::MapKind;
use barewire_p4::ir::{ActionCall, CounterId, MatchKind, MeterId, Program, RegisterId, TableId, ValueSetId};
use barewire_p4::key::arg_words;
use barewire_p4_state::TableAction;
use entries::TableMirror;
use num_bigint::BigUint;
use profiles::ProfileMirror;
use slots::Slots;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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

impl MapOp {
    /// No change: those that follow are made when every packet that was under way has left the program.
    pub fn wait() -> MapOp {
        MapOp { map: usize::MAX, key: Vec::new(), value: None }
    }

    /// Whether it is [`MapOp::wait`].
    pub fn is_wait(&self) -> bool {
        self.map == usize::MAX
    }
}

/// Why a write cannot be mirrored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// There is no such entry.
    #[error("entry {0} is not there")]
    Missing(u32),
    /// More masks, ranges, entries or members than the maps hold: packets go to user space until it fits again.
    #[error("'{0}' has more masks, ranges, entries or members than its maps hold")]
    Full(String),
}

/// A parser value set.
#[derive(Default)]
struct SetMirror {
    values: BTreeSet<Vec<BigUint>>,
    /// Map and key of each element, with how many values have it: under a mask several may be the same.
    elements: BTreeMap<(usize, Vec<u8>), u32>,
}

/// A record that is there.
struct Kept {
    word: u64,
    slot: Option<u32>,
}

/// The mirror of one program's state.
pub struct Mirror {
    program: Arc<Program>,
    shape: Shape,
    tables: Vec<TableMirror>,
    defaults: Vec<u8>,
    /// The place of each table's default record.
    default_slots: Vec<Option<u32>>,
    sets: Vec<SetMirror>,
    profiles: Vec<ProfileMirror>,
    /// Places of records, by their map.
    slots: BTreeMap<usize, Slots>,
    /// What `config` holds.
    config: [u64; (config::LEN / 8) as usize],
    /// Something went wrong outside.
    gave_up: bool,
    /// A multicast group has copies that are not made here.
    slow_copies: bool,
    /// A mirror session is more than a port.
    slow_sessions: bool,
    /// The program stands at both hooks.
    moving: bool,
}

fn word32(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

impl Mirror {
    /// The mirror of a state without entries and default actions: what maps hold when they are new.
    pub fn new(program: Arc<Program>, shape: Shape) -> Mirror {
        let tables = shape.tables.iter().map(|_| TableMirror::default()).collect();
        let defaults = vec![0; shape.maps[fixed::DEFAULTS].value as usize];
        let sets = shape.value_sets.iter().map(|_| SetMirror::default()).collect();
        let profiles = shape.members.iter().map(|_| ProfileMirror::default()).collect();
        let places = |(_, map): &(u32, usize)| (*map, Slots::new(shape.maps[*map].entries));
        Mirror {
            default_slots: vec![None; shape.tables.len()],
            slots: shape.records.iter().map(places).collect(),
            program,
            shape,
            tables,
            defaults,
            sets,
            profiles,
            config: [0; (config::LEN / 8) as usize],
            gave_up: false,
            slow_copies: false,
            slow_sessions: false,
            moving: false,
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
        self.gave_up
            || self.slow_copies
            || self.slow_sessions
            || self.tables.iter().any(TableMirror::is_full)
            || self.profiles.iter().any(ProfileMirror::is_full)
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

    /// Say to which port a mirror session's clones go ([`crate::maps::NO_PLAIN_SESSION`]: it is more than a port); none for one that is not there.
    pub fn set_session(&mut self, session: u32, port: Option<u32>, out: &mut Vec<MapOp>) {
        let Some(map) = self.shape.again.and_then(|again| again.mirrors) else { return };
        // The session beside its port: who reads it knows whose it is.
        let value = port.map(|port| (u64::from(session) << 32 | u64::from(port)).to_ne_bytes().to_vec());
        out.push(MapOp { map, key: word32(session), value });
    }

    /// Whether the program stands at both hooks: then what XDP has worked on is not taken for a packet at tc.
    pub fn set_moving(&mut self, is: bool, out: &mut Vec<MapOp>) {
        self.moving = is;
        self.set_full(out);
    }

    /// Whether a mirror session is more than a port, at a hook where clones of what leaves egress are made: while one is, every packet goes
    /// to user space.
    pub fn set_slow_sessions(&mut self, are: bool, out: &mut Vec<MapOp>) {
        self.slow_sessions = are;
        self.set_full(out);
    }

    /// Say which of the switch's programs this is, for packets that user space takes in a later round.
    pub fn set_epoch(&mut self, epoch: u32, out: &mut Vec<MapOp>) {
        self.config[(config::EPOCH / 8) as usize] = u64::from(epoch << recirculate::EPOCH_SHIFT);
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
        let full = match (self.is_full(), self.moving) {
            (true, _) => config::ALL,
            (false, true) => config::MOVING,
            (false, false) => 0,
        };
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

    /// A record of so many words: `entry` is the handle plus 1, 0 for the default one.
    fn record(&self, record_words: u32, action: Option<&TableAction>, entry: u32) -> Vec<u64> {
        let mut words = vec![0_u64; record_words as usize];
        words[0] = u64::from(entry) << 32;
        match action {
            Some(TableAction::Call(call)) => self.call_words(call, &mut words),
            Some(TableAction::Member(member)) => words[0] |= u64::from(MEMBER | member & (GROUP - 1)),
            Some(TableAction::Group(group)) => words[0] |= u64::from(MEMBER | GROUP | group & (GROUP - 1)),
            None => {}
        }
        words
    }

    /// Puts a record where no packet looks yet; gives the word that finds it, and its place if it has one. None when there is none.
    fn keep(&mut self, records: Option<usize>, record: &[u64], out: &mut Vec<MapOp>) -> Option<Kept> {
        let Some(map) = records else { return Some(Kept { word: record[0], slot: None }) };
        let slot = self.slots.get_mut(&map)?.take(out)?;
        let mut value: Vec<u8> = record.iter().flat_map(|word| word.to_ne_bytes()).collect();
        value.resize(self.shape.maps[map].value as usize, 0);
        out.push(MapOp { map, key: word32(slot), value: Some(value) });
        Some(Kept { word: slot.into(), slot: Some(slot) })
    }

    /// Nothing that is written from here on finds the record at a place.
    fn retire(&mut self, records: Option<usize>, slot: Option<u32>) {
        if let (Some(slots), Some(slot)) = (records.and_then(|map| self.slots.get_mut(&map)), slot) {
            slots.retire(slot);
        }
    }

    /// Set what a miss does.
    ///
    /// # Errors
    /// [`MirrorError::Full`]; packets then go to user space for good.
    pub fn set_default(
        &mut self,
        table: TableId,
        action: Option<&TableAction>,
        out: &mut Vec<MapOp>,
    ) -> Result<(), MirrorError> {
        let shape = &self.shape.tables[table.at()];
        let (records, words, at) = (shape.records, shape.record_words, shape.default_at as usize);
        let kept = match action {
            Some(_) => self.keep(records, &self.record(words, action, 0), out),
            None => Some(Kept { word: 0, slot: None }),
        };
        let Some(kept) = kept else {
            self.give_up(out);
            return Err(MirrorError::Full(self.program.tables[table.at()].name.clone()));
        };
        self.defaults[at..at + 8].copy_from_slice(&kept.word.to_ne_bytes());
        out.push(MapOp { map: fixed::DEFAULTS, key: word32(0), value: Some(self.defaults.clone()) });
        let before = std::mem::replace(&mut self.default_slots[table.at()], kept.slot);
        self.retire(records, before);
        Ok(())
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
        if let (Some(meter), true) = (self.program.tables[table.at()].meter, self.has_place(table, handle)) {
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
        self.has_place(table, handle).then_some((map, handle.wrapping_add(1)))
    }

    /// Where an entry's counter is: the map and the element; no handle: the default entry's.
    pub fn direct_counter(&self, table: TableId, handle: Option<u32>) -> Option<(usize, u32)> {
        let map = self.shape.tables[table.at()].direct?;
        match handle {
            Some(handle) => self.has_place(table, handle).then_some((map, handle.wrapping_add(1))),
            None => Some((map, 0)),
        }
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
