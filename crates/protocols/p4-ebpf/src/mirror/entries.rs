//! Tables' entries: the elements that find them.
//!
//! An entry for which the maps have no room is left out, and while one is, every packet goes to user space, which has all. It comes in
//! when others go.

use super::{Kept, MapOp, Mirror, MirrorError, word32};
use crate::maps::{MAX_MASKS, TableShape, mask, mask_bytes, owned};
use crate::pieces::{be_bytes, masked, pieces};
use barewire_p4::ir::{InitialEntry, TableId, TableKind};
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use num_bigint::BigUint;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of an entry that is in the maps.
struct EntryKeys {
    /// Hash or trie keys; for ternary entries the mask's number is in front.
    keys: Vec<Vec<u8>>,
    rank: u64,
    /// Of its record.
    kept: Kept,
    /// Lpm: bits of the prefix.
    prefix: u32,
}

/// One that is not.
struct LeftOut {
    key: Vec<MatchParam>,
    priority: u32,
    action: TableAction,
}

/// A mask of a ternary table, at a place.
struct Mask {
    bytes: Vec<u8>,
    /// Under which its entries are found: no two masks ever have the same.
    number: u32,
    /// (element, entry) pairs.
    users: u32,
}

#[derive(Default)]
pub(super) struct TableMirror {
    entries: BTreeMap<u32, EntryKeys>,
    masks: Vec<Option<Mask>>,
    last_number: u32,
    /// Entries that share an element: rank and word; the first is in the map.
    shared: BTreeMap<Vec<u8>, BTreeSet<(u64, u64)>>,
    left_out: BTreeMap<u32, LeftOut>,
}

impl TableMirror {
    /// Whether something of it is not in the maps.
    pub fn is_full(&self) -> bool {
        !self.left_out.is_empty()
    }

    /// The place of a mask.
    fn mask(&self, bytes: &[u8]) -> Option<usize> {
        self.masks.iter().position(|mask| mask.as_ref().is_some_and(|known| known.bytes == bytes))
    }

    /// Whether there is room for so many new masks.
    fn has_room(&self, fresh: usize) -> bool {
        let used = self.masks.iter().flatten().count();
        used + fresh <= MAX_MASKS as usize
    }

    /// One user less of a mask; gives its place if that was the last.
    fn release(&mut self, number: u32) -> Option<u32> {
        let at = self.masks.iter().position(|mask| mask.as_ref().is_some_and(|m| m.number == number))?;
        let mask = self.masks[at].as_mut()?;
        mask.users -= 1;
        if mask.users > 0 {
            return None;
        }
        self.masks[at] = None;
        Some(at as u32)
    }
}

fn mask_word(what: u32, number: u32) -> [u8; 8] {
    (u64::from(what) | u64::from(number) << 32).to_ne_bytes()
}

/// The element of the best entry of those that share it.
fn best(map: usize, key: &[u8], sharing: &BTreeSet<(u64, u64)>) -> MapOp {
    let (rank, word) = sharing.first().copied().unwrap_or_default();
    MapOp { map, key: key.to_vec(), value: Some(owned(key, &[rank, word])) }
}

impl Mirror {
    /// An exact or lpm key, and the bits of the prefix.
    fn plain_key(&self, table: usize, key: &[MatchParam]) -> (Vec<u8>, u32) {
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
        if shape.indexed {
            let place = out.iter().fold(0, |place, byte| place << 8 | u32::from(*byte));
            return (word32(place), prefix);
        }
        if self.program.tables[table].kind == TableKind::Lpm {
            let mut with_prefix = prefix.to_ne_bytes().to_vec();
            with_prefix.extend(out);
            return (with_prefix, prefix);
        }
        (out, prefix)
    }

    /// Which of the program's entries it is that is to be put into a table whose entries stand in code.
    fn place_of_const(&self, table: usize, entry: &LeftOut) -> Option<u32> {
        let ir = &self.program.tables[table];
        let taken = |place: u32| self.tables[table].entries.values().any(|own| own.keys == [word32(place)]);
        let is_it = |(at, initial): &(usize, &InitialEntry)| {
            let same = initial.priority == entry.priority && masked(ir, &initial.key) == entry.key;
            same && !taken(*at as u32)
        };
        ir.entries.iter().enumerate().find(is_it).map(|(at, _)| at as u32)
    }

    /// What finds an exact or lpm entry's record. Tries have no need to say whose it is: what goes stays until nobody looks at it.
    fn found_by(&self, table: usize, map: usize, key: Vec<u8>, word: u64) -> MapOp {
        let value = match self.program.tables[table].kind {
            _ if self.shape.tables[table].is_array() => word.to_ne_bytes().to_vec(),
            TableKind::Lpm => word.to_ne_bytes().to_vec(),
            _ => owned(&key, &[word]),
        };
        MapOp { map, key, value: Some(value) }
    }

    /// The numbers of entries that the arrays beside a table have places for.
    fn handles(&self, table: TableId) -> u32 {
        self.program.tables[table.at()].max_size.clamp(1, crate::maps::MAX_ENTRIES)
    }

    /// Whether an entry that is there has its counter, its meter and its time in the arrays.
    pub(super) fn has_place(&self, table: TableId, handle: u32) -> bool {
        let own = &self.tables[table.at()];
        let known = own.entries.contains_key(&handle) || own.left_out.contains_key(&handle);
        known && handle < self.handles(table)
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
        let shape = &self.shape.tables[table.at()];
        if shape.entries.is_none() {
            return Ok(());
        }
        if handle < self.handles(table) {
            for (map, bytes) in [(shape.direct, 16), (shape.hits, 8)] {
                out.extend(map.map(|map| MapOp {
                    map,
                    key: word32(handle + 1),
                    value: Some(vec![0; bytes]),
                }));
            }
            if let Some(meter) = self.program.tables[table.at()].meter {
                out.push(self.meter_op(meter, handle + 1, None));
            }
        }
        let entry =
            LeftOut { key: masked(&self.program.tables[table.at()], key), priority, action: action.clone() };
        // Those that wait are not overtaken.
        let placed = self.tables[table.at()].left_out.is_empty() && self.place(table, handle, &entry, out);
        if placed {
            return Ok(());
        }
        self.tables[table.at()].left_out.insert(handle, entry);
        self.set_full(out);
        Err(MirrorError::Full(self.program.tables[table.at()].name.clone()))
    }

    /// Put an entry into the maps, if there is room.
    fn place(&mut self, table: TableId, handle: u32, entry: &LeftOut, out: &mut Vec<MapOp>) -> bool {
        let at = table.at();
        let shape = self.shape.tables[at].clone();
        let Some(map) = shape.entries else { return true };
        if handle >= self.handles(table) {
            return false;
        }
        let room = self.shape.maps[map].entries as usize;
        let record = self.record(shape.record_words, Some(&entry.action), handle + 1);
        let rank = u64::from(entry.priority) << 32 | u64::from(handle);
        let Some(masks) = shape.masks else {
            let (key, prefix) = match shape.is_const() {
                true => match self.place_of_const(at, entry) {
                    Some(place) => (word32(place), 0),
                    None => return false,
                },
                false => self.plain_key(at, &entry.key),
            };
            if self.tables[at].entries.len() >= room {
                return false;
            }
            let Some(kept) = self.keep(shape.records, &record, out) else { return false };
            out.push(self.found_by(at, map, key.clone(), kept.word));
            self.tables[at].entries.insert(handle, EntryKeys { keys: vec![key], rank, kept, prefix });
            return true;
        };
        let Some(pieces) = pieces(&shape.key, &entry.key) else { return false };
        let own = &self.tables[at];
        let fresh: BTreeSet<&Vec<u8>> =
            pieces.iter().map(|(_, mask)| mask).filter(|mask| own.mask(mask).is_none()).collect();
        // As if no element were there yet: which are is known only with the masks' numbers.
        if !own.has_room(fresh.len()) || own.shared.len() + pieces.len() > room {
            return false;
        }
        let Some(kept) = self.keep(shape.records, &record, out) else { return false };
        let mut keys = Vec::with_capacity(pieces.len());
        let mut ready = Vec::new();
        let own = &mut self.tables[at];
        for (value, bytes) in pieces {
            let place = match own.mask(&bytes) {
                Some(place) => place,
                None => {
                    let free = own.masks.iter().position(Option::is_none);
                    let place = free.unwrap_or(own.masks.len());
                    if place == own.masks.len() {
                        own.masks.push(None);
                    }
                    own.last_number = own.last_number.wrapping_add(1);
                    let number = own.last_number;
                    own.masks[place] = Some(Mask { bytes: bytes.clone(), number, users: 0 });
                    // Its bits first, and what makes it one when its entries are there.
                    for (what, to) in [(mask::HOLE, &mut *out), (mask::USED, &mut ready)] {
                        let mut element = vec![0; mask_bytes(shape.key.bytes) as usize];
                        element[..8].copy_from_slice(&mask_word(what, number));
                        element[8..8 + bytes.len()].copy_from_slice(&bytes);
                        to.push(MapOp { map: masks, key: word32(place as u32), value: Some(element) });
                    }
                    place
                }
            };
            let Some(mask) = &mut own.masks[place] else { continue };
            mask.users += 1;
            let mut key = word32(mask.number);
            key.extend(value);
            let sharing = own.shared.entry(key.clone()).or_default();
            sharing.insert((rank, kept.word));
            if sharing.first() == Some(&(rank, kept.word)) {
                out.push(best(map, &key, sharing));
            }
            keys.push(key);
        }
        out.extend(ready);
        self.tables[at].entries.insert(handle, EntryKeys { keys, rank, kept, prefix: 0 });
        true
    }

    /// Give an entry another action.
    ///
    /// # Errors
    /// [`MirrorError::Missing`]; [`MirrorError::Full`]: packets go to user space for good.
    pub fn modify(
        &mut self,
        table: TableId,
        handle: u32,
        action: &TableAction,
        out: &mut Vec<MapOp>,
    ) -> Result<(), MirrorError> {
        let shape = self.shape.tables[table.at()].clone();
        let Some(map) = shape.entries else { return Ok(()) };
        if let Some(entry) = self.tables[table.at()].left_out.get_mut(&handle) {
            entry.action = action.clone();
            return Ok(());
        }
        if !self.tables[table.at()].entries.contains_key(&handle) {
            return Err(MirrorError::Missing(handle));
        }
        let record = self.record(shape.record_words, Some(action), handle + 1);
        let Some(kept) = self.keep(shape.records, &record, out) else {
            self.give_up(out);
            return Err(MirrorError::Full(self.program.tables[table.at()].name.clone()));
        };
        let word = kept.word;
        if let Some(entry) = self.tables[table.at()].entries.get(&handle).filter(|_| shape.masks.is_none()) {
            let keys = entry.keys.iter().cloned();
            out.extend(keys.map(|key| self.found_by(table.at(), map, key, word)));
        }
        let own = &mut self.tables[table.at()];
        let Some(entry) = own.entries.get_mut(&handle) else { return Err(MirrorError::Missing(handle)) };
        let before = std::mem::replace(&mut entry.kept, kept);
        for key in entry.keys.iter().filter(|_| shape.masks.is_some()) {
            let Some(sharing) = own.shared.get_mut(key) else { continue };
            sharing.remove(&(entry.rank, before.word));
            sharing.insert((entry.rank, word));
            if sharing.first() == Some(&(entry.rank, word)) {
                out.push(best(map, key, sharing));
            }
        }
        self.retire(shape.records, before.slot);
        Ok(())
    }

    /// Take an entry away.
    ///
    /// # Errors
    /// [`MirrorError::Missing`].
    pub fn remove(&mut self, table: TableId, handle: u32, out: &mut Vec<MapOp>) -> Result<(), MirrorError> {
        if self.shape.tables[table.at()].entries.is_none() {
            return Ok(());
        }
        if self.tables[table.at()].left_out.remove(&handle).is_some() {
            self.set_full(out);
            return Ok(());
        }
        if !self.take_out(table, handle, out) {
            return Err(MirrorError::Missing(handle));
        }
        self.bring_in(table, out);
        Ok(())
    }

    /// The way out of the maps; says whether it was there.
    fn take_out(&mut self, table: TableId, handle: u32, out: &mut Vec<MapOp>) -> bool {
        let shape = self.shape.tables[table.at()].clone();
        let own = &mut self.tables[table.at()];
        let (Some(map), Some(entry)) = (shape.entries, own.entries.remove(&handle)) else { return false };
        let EntryKeys { keys, rank, kept, .. } = entry;
        for key in keys {
            let Some(masks) = shape.masks else {
                let nothing = shape.is_array().then(|| vec![0; 8]);
                out.push(MapOp { map, key, value: nothing });
                continue;
            };
            if let Some(sharing) = own.shared.get_mut(&key) {
                let was_first = sharing.first() == Some(&(rank, kept.word));
                sharing.remove(&(rank, kept.word));
                if sharing.is_empty() {
                    own.shared.remove(&key);
                    out.push(MapOp { map, key: key.clone(), value: None });
                } else if was_first {
                    out.push(best(map, &key, sharing));
                }
            }
            let number = u32::from_ne_bytes([key[0], key[1], key[2], key[3]]);
            if let Some(place) = own.release(number) {
                let mut element = vec![0; mask_bytes(shape.key.bytes) as usize];
                // A hole, that later masks fill: the ones behind it stay where they are.
                element[..8].copy_from_slice(&mask_word(mask::HOLE, 0));
                out.push(MapOp { map: masks, key: word32(place), value: Some(element) });
            }
        }
        self.retire(shape.records, kept.slot);
        true
    }

    /// There may be room for entries that were left out.
    fn bring_in(&mut self, table: TableId, out: &mut Vec<MapOp>) {
        let mut any = false;
        while let Some((handle, entry)) = self.tables[table.at()].left_out.pop_first() {
            if !self.place(table, handle, &entry, out) {
                self.tables[table.at()].left_out.insert(handle, entry);
                break;
            }
            any = true;
        }
        if any {
            self.set_full(out);
        }
    }

    /// Take all entries away. Each packet sees all of them that it could match, or none.
    pub fn clear(&mut self, table: TableId, out: &mut Vec<MapOp>) {
        let shape: &TableShape = &self.shape.tables[table.at()];
        let (masks, bytes) = (shape.masks, mask_bytes(shape.key.bytes) as usize);
        let own = &mut self.tables[table.at()];
        let was_full = !std::mem::take(&mut own.left_out).is_empty();
        let mut all: Vec<(u32, u32)> =
            own.entries.iter().map(|(handle, entry)| (entry.prefix, *handle)).collect();
        // What a packet would match when longer prefixes are gone is gone before.
        all.sort_unstable();
        let places = own.masks.len() as u32;
        let end = |map, place: u32| MapOp { map, key: word32(place), value: Some(vec![0; bytes]) };
        if let Some(masks) = masks.filter(|_| places > 0) {
            // No mask is looked at any more, from the first one on; its bits stay, for who looked at it as one.
            let mut first = end(masks, 0);
            if let (Some(value), Some(Some(mask))) = (&mut first.value, own.masks.first()) {
                value[8..8 + mask.bytes.len()].copy_from_slice(&mask.bytes);
            }
            out.push(first);
            out.push(MapOp::wait());
        }
        let begin = out.len();
        for (_, handle) in all {
            self.take_out(table, handle, out);
        }
        if let Some(masks) = masks {
            // Holes would be looked behind.
            let gone = out.split_off(begin);
            out.extend(gone.into_iter().filter(|op| op.map != masks));
            out.extend((1..places).map(|place| end(masks, place)));
            self.tables[table.at()].masks.clear();
        }
        if was_full {
            self.set_full(out);
        }
    }
}
