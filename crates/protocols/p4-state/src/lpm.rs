//! Longest prefixes: a trie of 16-way nodes under a root that is indexed directly.
//!
//! A slot of the root or of a node is one word: the longest prefix that ends within this level and covers the slot, and what
//! is below: nothing, a node, or a *leaf*, which is a single prefix standing for the whole subtree, compared in its own
//! record. So sparse prefixes of any length take a node for every few of them, a look-up reads the root, a node or two and
//! the record, and an update touches one node (or the root slots a short prefix covers). Fields with exact parts beside the
//! prefix have one small trie for each exact part, found by hash.

use crate::error::EntryError;
use crate::hash::{Index, Seeds};
use crate::slab::Slab;
use crate::spec::{top_bits, window};

/// Slots of a node.
const FAN: usize = 16;
/// Bits of a root that is made for many prefixes, and for few.
const ROOT_BITS: u32 = 16;
const SMALL_ROOT_BITS: u32 = 8;
/// A table declared to hold no more than this gets the small root.
const SMALL_TABLE: u32 = 256;
/// The record in the low word of a slot, or in a leaf.
const RECORD: u32 = 0x00ff_ffff;
const LEAF: u32 = 1 << 31;

#[derive(Debug, Clone, Copy)]
struct Slot(u64);

impl Slot {
    fn record(self) -> u32 {
        self.0 as u32 & RECORD
    }

    fn len(self) -> u32 {
        self.0 as u32 >> 24
    }

    fn child(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn with_result(self, record: u32, len: u32) -> Slot {
        Slot(self.0 & !0xffff_ffff | u64::from(len << 24 | record))
    }

    fn with_child(self, child: u32) -> Slot {
        Slot(self.0 & 0xffff_ffff | u64::from(child) << 32)
    }
}

/// Where a slot is.
#[derive(Debug, Clone, Copy)]
enum Place {
    Root(usize),
    Group(u32),
    Node(u32, usize),
}

/// The tries of tables with exact parts: a record for each exact part, its slot, its prefixes, its words.
#[derive(Debug)]
struct Groups {
    index: Index,
    slab: Slab,
    next: u32,
    free: Vec<u32>,
}

const GROUP_SLOT: usize = 0;
const GROUP_COUNT: usize = 1;
const GROUP_KEY: usize = 2;

/// A longest-prefix table's structure. Records keep values from word `at`, masks after them.
#[derive(Debug)]
pub(crate) struct Lpm {
    at: usize,
    words: usize,
    /// The prefix field's first bit in the key, and its bits.
    start: usize,
    width: usize,
    /// The field's bits, as the top bits of a word (of a field that is no longer than one).
    field_mask: u64,
    /// The bits of the key's other fields.
    exact: Vec<u64>,
    exact_bits: u32,
    seeds: Seeds,
    root_bits: u32,
    root: Vec<u64>,
    /// The prefix of no bits.
    default: u32,
    groups: Option<Groups>,
    nodes: Slab,
    next_node: u32,
    free_node: u32,
    pub(crate) prefixes: Index,
    pub(crate) touched: u64,
}

impl Lpm {
    /// A trie over the `width` bits from bit `start`; `full` has the bits of all fields of the key.
    pub(crate) fn new(at: usize, full: &[u64], start: usize, width: usize, max_size: u32) -> Lpm {
        let mut exact = full.to_vec();
        (start..start + width).for_each(|bit| clear_bit(&mut exact, bit));
        let exact_bits = exact.iter().map(|word| word.count_ones()).sum();
        let root_bits = if max_size <= SMALL_TABLE { SMALL_ROOT_BITS } else { ROOT_BITS }.min(width as u32);
        let grouped = exact_bits > 0;
        Lpm {
            at,
            words: full.len(),
            start,
            width,
            field_mask: top_bits(width),
            groups: grouped.then(|| Groups {
                index: Index::new(),
                slab: Slab::new(GROUP_KEY + full.len(), 64),
                next: 0,
                free: Vec::new(),
            }),
            exact,
            exact_bits,
            seeds: Seeds::new(),
            root_bits,
            root: if grouped { Vec::new() } else { vec![0; 1 << root_bits] },
            default: 0,
            nodes: Slab::new(FAN, max_size as usize),
            next_node: 1,
            free_node: 0,
            prefixes: Index::new(),
            touched: 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let groups = self.groups.as_ref().map_or(0, |groups| groups.index.bytes() + groups.slab.bytes());
        self.root.len() * 8 + self.nodes.bytes() + self.prefixes.bytes() + groups
    }

    /// Follow the slots from one on; the key's field left-aligned in `field`, `matches` saying whether a record's prefix is
    /// the key's.
    #[inline]
    fn walk<const N: usize>(
        &self,
        field: [u64; N],
        slot: u64,
        depth: u32,
        best: u32,
        matches: impl Fn(u32) -> bool,
    ) -> u32 {
        let (mut slot, mut depth, mut best) = (Slot(slot), depth as usize, best);
        loop {
            let record = slot.record();
            best = if record != 0 { record } else { best };
            let child = slot.child();
            if child == 0 {
                return best;
            }
            if child & LEAF != 0 {
                let record = child & RECORD;
                return if matches(record) { record } else { best };
            }
            let digit = field[depth / 64 % N] >> (60 - depth % 64) & 15;
            slot = Slot(self.nodes.word(child, digit as usize));
            depth += 4;
        }
    }

    #[inline]
    pub(crate) fn find1(&self, slab: &Slab, k0: u64) -> u32 {
        if self.groups.is_some() {
            return self.find(slab, &[k0]);
        }
        let field = k0 << self.start & self.field_mask;
        let slot = self.root[(field >> (64 - self.root_bits)) as usize];
        let at = self.at;
        self.walk([field], slot, self.root_bits, self.default, |record| {
            let fields = slab.get(record);
            (k0 ^ fields[at]) & fields[at + 1] == 0
        })
    }

    #[inline]
    pub(crate) fn find(&self, slab: &Slab, key: &[u64]) -> u32 {
        let first = window(key, self.start, self.width.min(64));
        let second = if self.width > 64 { window(key, self.start + 64, self.width - 64) } else { 0 };
        let field = [first, second];
        let matches = |record| {
            let (value, mask) = slab.get(record)[self.at..][..2 * self.words].split_at(self.words);
            key.iter().zip(value).zip(mask).all(|((key, value), mask)| (key ^ value) & mask == 0)
        };
        match &self.groups {
            None => {
                let slot = self.root[(first >> (64 - self.root_bits)) as usize];
                self.walk(field, slot, self.root_bits, self.default, matches)
            }
            Some(groups) => match self.group_of(groups, key) {
                None => 0,
                Some(group) => self.walk(field, groups.slab.word(group, GROUP_SLOT), 0, 0, matches),
            },
        }
    }

    fn exact_part<'a>(&'a self, key: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        key.iter().zip(&self.exact).map(|(key, exact)| key & exact)
    }

    #[inline]
    fn group_of(&self, groups: &Groups, key: &[u64]) -> Option<u32> {
        groups.index.find(self.seeds.hash(self.exact_part(key)), |group| {
            groups.slab.get(group)[GROUP_KEY..][..self.words].iter().copied().eq(self.exact_part(key))
        })
    }

    fn tail<'a>(&self, slab: &'a Slab, record: u32) -> &'a [u64] {
        &slab.get(record)[self.at..][..2 * self.words]
    }

    fn len_of(&self, slab: &Slab, record: u32) -> u32 {
        let mask = &self.tail(slab, record)[self.words..];
        mask.iter().map(|word| word.count_ones()).sum::<u32>() - self.exact_bits
    }

    /// `bits` bits of a record's prefix from bit `from` of the field; those beyond its end are zero.
    fn bits(&self, slab: &Slab, record: u32, from: u32, bits: u32) -> usize {
        let (from, bits) = (from as usize, bits as usize);
        let inside = bits.min(self.width - from);
        if bits == 0 || inside == 0 {
            return 0;
        }
        (window(self.tail(slab, record), self.start + from, inside) >> (64 - bits)) as usize
    }

    /// The record with this value and mask, the two one after the other.
    pub(crate) fn same(&self, slab: &Slab, tail: &[u64]) -> Option<u32> {
        self.prefixes.find(self.seeds.hash(tail.iter().copied()), |record| self.tail(slab, record) == tail)
    }

    fn slot(&self, place: Place) -> Slot {
        Slot(match place {
            Place::Root(at) => self.root[at],
            Place::Group(group) => {
                self.groups.as_ref().expect("made with the table").slab.word(group, GROUP_SLOT)
            }
            Place::Node(node, at) => self.nodes.word(node, at),
        })
    }

    fn set(&mut self, place: Place, slot: Slot) {
        self.touched += 1;
        match place {
            Place::Root(at) => self.root[at] = slot.0,
            Place::Group(group) => {
                let groups = self.groups.as_mut().expect("made with the table");
                groups.slab.get_mut(group)[GROUP_SLOT] = slot.0;
            }
            Place::Node(node, at) => self.nodes.get_mut(node)[at] = slot.0,
        }
    }

    fn new_node(&mut self) -> u32 {
        let node = if self.free_node != 0 {
            let node = self.free_node;
            self.free_node = self.nodes.word(node, 0) as u32;
            node
        } else {
            self.next_node += 1;
            self.nodes.ensure(self.next_node - 1);
            self.next_node - 1
        };
        self.nodes.get_mut(node)[..FAN].fill(0);
        node
    }

    fn drop_node(&mut self, node: u32) {
        self.nodes.get_mut(node)[0] = u64::from(self.free_node);
        self.free_node = node;
    }

    /// The slots that a prefix covers in the level of `bits` bits at `depth`, where it ends.
    fn covered(&self, slab: &Slab, record: u32, len: u32, depth: u32, bits: u32) -> std::ops::Range<usize> {
        let free = bits - (len - depth);
        let first = self.bits(slab, record, depth, len - depth) << free;
        first..first + (1 << free)
    }

    fn cover(&mut self, places: impl Iterator<Item = Place>, record: u32, len: u32) {
        for place in places {
            let slot = self.slot(place);
            if slot.record() == 0 || slot.len() <= len {
                self.set(place, slot.with_result(record, len));
            }
        }
    }

    /// Where the search for a prefix longer than the root's bits starts.
    fn start_of(&self, slab: &Slab, record: u32, group: Option<u32>) -> (Place, u32) {
        match group {
            Some(group) => (Place::Group(group), 0),
            None => (Place::Root(self.bits(slab, record, 0, self.root_bits)), self.root_bits),
        }
    }

    /// Insert a record whose value and mask are in place and not in the table.
    pub(crate) fn insert(&mut self, slab: &Slab, record: u32) -> Result<(), EntryError> {
        let (seeds, at, words) = (self.seeds, self.at, 2 * self.words);
        let hash_of = |record| seeds.hash(slab.get(record)[at..][..words].iter().copied());
        let group = if self.groups.is_some() { Some(self.join_group(slab, record)?) } else { None };
        if let Err(error) = self.prefixes.insert(hash_of(record), record, hash_of) {
            self.leave_group(slab, record);
            return Err(error);
        }
        let len = self.len_of(slab, record);
        if len == 0 {
            match group {
                Some(group) => {
                    let slot = self.slot(Place::Group(group));
                    self.set(Place::Group(group), slot.with_result(record, 0));
                }
                None => self.default = record,
            }
            return Ok(());
        }
        if group.is_none() && len <= self.root_bits {
            let covered = self.covered(slab, record, len, 0, self.root_bits);
            self.cover(covered.map(Place::Root), record, len);
            return Ok(());
        }
        let (mut place, mut depth) = self.start_of(slab, record, group);
        loop {
            let slot = self.slot(place);
            let child = slot.child();
            if child == 0 {
                self.set(place, slot.with_child(LEAF | record));
                return Ok(());
            }
            let node = if child & LEAF != 0 {
                let node = self.new_node();
                self.seat(slab, node, depth, child & RECORD);
                self.set(place, slot.with_child(node));
                node
            } else {
                child
            };
            if len <= depth + 4 {
                let covered = self.covered(slab, record, len, depth, 4);
                self.cover(covered.map(|at| Place::Node(node, at)), record, len);
                return Ok(());
            }
            place = Place::Node(node, self.bits(slab, record, depth, 4));
            depth += 4;
        }
    }

    /// Put what was a leaf into the node that takes its place.
    fn seat(&mut self, slab: &Slab, node: u32, depth: u32, record: u32) {
        let len = self.len_of(slab, record);
        if len <= depth + 4 {
            let covered = self.covered(slab, record, len, depth, 4);
            self.cover(covered.map(|at| Place::Node(node, at)), record, len);
        } else {
            let place = Place::Node(node, self.bits(slab, record, depth, 4));
            let slot = self.slot(place);
            self.set(place, slot.with_child(LEAF | record));
        }
    }

    /// The longest prefix that covers a record's, shorter than it and longer than `above` bits.
    fn next_shorter(&self, slab: &Slab, record: u32, above: u32) -> (u32, u32) {
        let mut tail = self.tail(slab, record).to_vec();
        for len in (above + 1..self.len_of(slab, record)).rev() {
            let (value, mask) = tail.split_at_mut(self.words);
            clear_bit(value, self.start + len as usize);
            clear_bit(mask, self.start + len as usize);
            if let Some(shorter) = self.same(slab, &tail) {
                return (shorter, len);
            }
        }
        (0, 0)
    }

    fn uncover(&mut self, places: impl Iterator<Item = Place>, record: u32, by: (u32, u32)) {
        for place in places {
            let slot = self.slot(place);
            if slot.record() == record {
                self.set(place, slot.with_result(by.0, by.1));
            }
        }
    }

    /// Take a record out, its value and mask still in place.
    pub(crate) fn remove(&mut self, slab: &Slab, record: u32) {
        let hash = self.seeds.hash(self.tail(slab, record).iter().copied());
        self.prefixes.remove(hash, record);
        let len = self.len_of(slab, record);
        let group = self.groups.as_ref().and_then(|groups| self.group_of(groups, self.tail(slab, record)));
        if len == 0 {
            match group {
                Some(group) => {
                    let slot = self.slot(Place::Group(group));
                    self.set(Place::Group(group), slot.with_result(0, 0));
                }
                None => self.default = 0,
            }
        } else if group.is_none() && len <= self.root_bits {
            let shorter = self.next_shorter(slab, record, 0);
            let covered = self.covered(slab, record, len, 0, self.root_bits);
            self.uncover(covered.map(Place::Root), record, shorter);
        } else {
            self.remove_below(slab, record, len, group);
        }
        self.leave_group(slab, record);
    }

    fn remove_below(&mut self, slab: &Slab, record: u32, len: u32, group: Option<u32>) {
        let (mut place, mut depth) = self.start_of(slab, record, group);
        let mut path = Vec::new();
        loop {
            let slot = self.slot(place);
            let child = slot.child();
            if child == 0 {
                return;
            }
            if child & LEAF != 0 {
                if child & RECORD == record {
                    self.set(place, slot.with_child(0));
                }
                break;
            }
            path.push(place);
            if len <= depth + 4 {
                let shorter = self.next_shorter(slab, record, depth);
                let covered = self.covered(slab, record, len, depth, 4);
                self.uncover(covered.map(|at| Place::Node(child, at)), record, shorter);
                break;
            }
            place = Place::Node(child, self.bits(slab, record, depth, 4));
            depth += 4;
        }
        // A node with one prefix left, or none, becomes a leaf again, or nothing.
        while let Some(place) = path.pop() {
            let slot = self.slot(place);
            let Some(below) = self.only_prefix(slot.child()) else { return };
            self.drop_node(slot.child());
            self.set(place, slot.with_child(below));
        }
    }

    /// The only prefix in a node and below it as a leaf, 0 if there is none; nothing if there are several.
    fn only_prefix(&self, node: u32) -> Option<u32> {
        let mut only = 0;
        for slot in self.nodes.get(node)[..FAN].iter().map(|&slot| Slot(slot)) {
            let leaf = match (slot.record(), slot.child()) {
                (0, 0) => continue,
                (record, 0) => LEAF | record,
                (0, child) if child & LEAF != 0 => child,
                _ => return None,
            };
            if only != 0 && only != leaf {
                return None;
            }
            only = leaf;
        }
        Some(only)
    }

    /// The group of a record's exact part, made if it is new, with one prefix more.
    fn join_group(&mut self, slab: &Slab, record: u32) -> Result<u32, EntryError> {
        let key: Vec<u64> = self.exact_part(self.tail(slab, record)).collect();
        let groups = self.groups.as_ref().expect("made with the table");
        if let Some(group) = self.group_of(groups, &key) {
            let groups = self.groups.as_mut().expect("made with the table");
            groups.slab.get_mut(group)[GROUP_COUNT] += 1;
            return Ok(group);
        }
        let (seeds, words) = (self.seeds, self.words);
        let groups = self.groups.as_mut().expect("made with the table");
        let group = groups.free.pop().unwrap_or(groups.next);
        groups.slab.ensure(group);
        let fresh = groups.slab.get_mut(group);
        (fresh[GROUP_SLOT], fresh[GROUP_COUNT]) = (0, 1);
        fresh[GROUP_KEY..][..words].copy_from_slice(&key);
        let groups_slab = &groups.slab;
        let hash_of = |group| seeds.hash(groups_slab.get(group)[GROUP_KEY..][..words].iter().copied());
        groups.index.insert(hash_of(group), group, hash_of)?;
        groups.next = groups.next.max(group + 1);
        Ok(group)
    }

    fn leave_group(&mut self, slab: &Slab, record: u32) {
        let Some(groups) = self.groups.as_ref() else { return };
        let Some(group) = self.group_of(groups, self.tail(slab, record)) else { return };
        let (seeds, words) = (self.seeds, self.words);
        let groups = self.groups.as_mut().expect("made with the table");
        let fields = groups.slab.get_mut(group);
        fields[GROUP_COUNT] -= 1;
        if fields[GROUP_COUNT] == 0 {
            let hash = seeds.hash(fields[GROUP_KEY..][..words].iter().copied());
            groups.index.remove(hash, group);
            groups.free.push(group);
        }
    }

    /// Nodes in use.
    #[cfg(test)]
    pub(crate) fn nodes_in_use(&self) -> usize {
        let mut free = 0;
        let mut node = self.free_node;
        while node != 0 {
            free += 1;
            node = self.nodes.word(node, 0) as u32;
        }
        self.next_node as usize - 1 - free
    }
}

fn clear_bit(words: &mut [u64], bit: usize) {
    words[bit / 64] &= !(1 << (63 - bit % 64));
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    /// Records of four words: value, mask.
    fn put(slab: &mut Slab, record: u32, value: u128, len: u32) {
        slab.ensure(record);
        let mask = if len == 0 { 0 } else { u128::MAX << (128 - len) };
        let value = value & mask;
        let words = [(value >> 64) as u64, value as u64, (mask >> 64) as u64, mask as u64];
        slab.get_mut(record).copy_from_slice(&words);
    }

    #[test]
    fn nodes_come_and_go_with_prefixes() {
        for seed in 0..3 {
            let mut prng = Prng::new(seed);
            let mut slab = Slab::new(4, 0);
            let mut lpm = Lpm::new(0, &[u64::MAX; 2], 0, 128, 1000);
            let mut held = Vec::new();
            for record in 1..3_000 {
                let value = u128::from(prng.below(40)) << 90 | u128::from(prng.next_u64()) << prng.below(40);
                put(&mut slab, record, value, prng.below(129) as u32);
                if lpm.same(&slab, slab.get(record)).is_none() {
                    lpm.insert(&slab, record).unwrap();
                    held.push(record);
                }
            }
            let most = lpm.nodes_in_use();
            assert!(most > 500, "seed {seed}: {most}");
            assert!(most < 8 * held.len(), "seed {seed}: {most} nodes for {} prefixes", held.len());
            while let Some(record) = held.pop() {
                lpm.remove(&slab, record);
                if held.len() == 1 {
                    assert_eq!(lpm.nodes_in_use(), 0, "seed {seed}: one prefix needs no node");
                }
            }
            assert!(lpm.root.iter().all(|&slot| slot == 0) && lpm.default == 0);
        }
    }

    #[test]
    fn an_update_touches_what_its_prefix_covers() {
        let mut slab = Slab::new(4, 0);
        let mut lpm = Lpm::new(0, &[u64::MAX; 2], 0, 128, 1_000_000);
        let mut prng = Prng::new(1);
        for record in 1..20_000 {
            let len = prng.below(129) as u32;
            put(&mut slab, record, u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64()), len);
            if lpm.same(&slab, slab.get(record)).is_some() {
                continue;
            }
            let before = lpm.touched;
            lpm.insert(&slab, record).unwrap();
            let bound = if len <= ROOT_BITS { 1 << (ROOT_BITS - len) } else { 40 };
            assert!(lpm.touched - before <= bound, "a prefix of {len} bits wrote {}", lpm.touched - before);
        }
    }
}
