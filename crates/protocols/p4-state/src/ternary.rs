//! Keys with masks and ranges, by priority.
//!
//! A score of entries is a list ([`crate::linear`]). Beyond that, an entry is gathered with others under a mask they share: a coarse one, or
//! its own ([`crate::tuple_merge`]). Masks with [`PROMOTE`] entries have a hash index each ([`crate::tuple`]), searched in the order
//! of their best entry until no later one can win; all other entries are in bitmap blocks ([`crate::bits`]). An entry starts
//! in a block and moves when its mask is promoted. So masks with something in common cost a few probes however many they are,
//! masks without cost a few cache lines for 512 entries, and no update moves more than a few times [`PROMOTE`] entries.

use crate::bits::{Block, Narrow, Wide};
use crate::error::EntryError;
use crate::hash::{Index, Seeds};
use crate::linear::LinearEntries;
use crate::range::RangeField;
use crate::slab::Slab;
use crate::spec::KeyPlan;
use crate::tuple::{Tail, Tuple};
use crate::tuple_merge::{CandidateMask, candidate_masks};
use barewire_p4::key::KeyLayout;

/// Entries of a mask that deserve an index: about where searching it costs as much as the part of a block they take.
const PROMOTE: u64 = 64;
/// In a record's home: it is in a tuple, or in the list of few. Otherwise block and place.
const IN_TUPLE: u64 = 1 << 63;
const IN_FEW: u64 = 1 << 62;
/// In a record's group: its ranges must be looked at.
const FILTERED: u64 = 1 << 32;
/// The group of entries that are gathered under no mask.
const NO_GROUP: u32 = u32::MAX;

/// Fields of a group's record; its mask's words follow.
const GROUP_LISTED: usize = 0;
const GROUP_TOTAL: usize = 1;
const GROUP_HEAD: usize = 2;
const GROUP_TUPLE: usize = 3;
const GROUP_EXACT: usize = 4;
const GROUP_MASK: usize = 5;

/// The masks that entries are gathered under: how many each has, those in blocks as a list, and the tuple if there is one.
#[derive(Debug)]
struct Groups {
    index: Index,
    slab: Slab,
    next: u32,
    free: Vec<u32>,
}

/// A ternary table's structure.
#[derive(Debug)]
pub(crate) struct Ternary {
    pub(crate) tail: Tail,
    layout: KeyLayout,
    seeds: Seeds,
    ranges: Vec<RangeField>,
    linear: LinearEntries,
    /// The list was too short: entries go to the other structures until the table is empty.
    many: bool,
    /// Tuples by their best rank, the lowest first.
    order: Vec<(u64, u32)>,
    tuples: Vec<Option<Tuple>>,
    free_tuples: Vec<u32>,
    small: Block<Narrow>,
    large: Vec<Block<Wide>>,
    /// Large blocks that may have room.
    open: Vec<u32>,
    groups: Groups,
    /// All entries by key and priority.
    entries: Index,
    len: usize,
    /// Scratch: the digits an entry admits.
    digits: Vec<u16>,
    /// Entries that updates moved, ever.
    pub(crate) moved: u64,
}

impl Ternary {
    pub(crate) fn new(tail: Tail, plan: &KeyPlan) -> Ternary {
        let digits = plan.layout.bytes as usize * 2;
        Ternary {
            tail,
            layout: plan.layout.clone(),
            seeds: Seeds::new(),
            ranges: plan.ranges.clone(),
            linear: LinearEntries::new(tail.words),
            many: false,
            order: Vec::new(),
            tuples: Vec::new(),
            free_tuples: Vec::new(),
            small: Block::new(digits),
            large: Vec::new(),
            open: Vec::new(),
            groups: Groups {
                index: Index::new(),
                slab: Slab::new(GROUP_MASK + tail.words, 0),
                next: 0,
                free: Vec::new(),
            },
            entries: Index::new(),
            len: 0,
            digits: vec![0; digits],
            moved: 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let tuples: usize = self.tuples.iter().flatten().map(Tuple::bytes).sum();
        let blocks: usize = self.small.bytes() + self.large.iter().map(Block::bytes).sum::<usize>();
        tuples + blocks + self.groups.index.bytes() + self.groups.slab.bytes() + self.entries.bytes()
    }

    /// Records moved by updates so far, by those of its indices too.
    pub(crate) fn moved_in_all(&self) -> u64 {
        let tuples: u64 = self.tuples.iter().flatten().map(|tuple| tuple.index.moved).sum();
        self.moved + tuples + self.groups.index.moved + self.entries.moved
    }

    /// How many tuples and how many large blocks there are.
    pub(crate) fn parts(&self) -> (usize, usize) {
        (self.order.len(), self.large.len())
    }

    #[inline]
    fn admits(&self, slab: &Slab, record: u32, key: &[u64]) -> bool {
        let ends = &slab.get(record)[self.tail.ends..][..self.tail.end_words];
        self.ranges.iter().all(|range| range.admits(key, ends))
    }

    #[inline]
    fn matches(&self, slab: &Slab, record: u32, key: &[u64]) -> bool {
        let (value, mask) = slab.get(record)[self.tail.value..self.tail.ends].split_at(self.tail.words);
        let words = key.iter().zip(value).zip(mask);
        words.into_iter().all(|((key, value), mask)| (key ^ value) & mask == 0)
            && self.admits(slab, record, key)
    }

    #[inline]
    fn search(&self, slab: &Slab, key: &[u64], probe: impl Fn(&Tuple) -> Option<u32>) -> u32 {
        let verify = |record| self.admits(slab, record, key);
        if !self.many {
            return self.linear.find(key, verify).unwrap_or(0);
        }
        let (mut best, mut found) = (u64::MAX, 0);
        for &(lowest, tuple) in &self.order {
            if lowest >= best {
                break;
            }
            let Some(tuple) = &self.tuples[tuple as usize] else { continue };
            let Some(mut record) = probe(tuple) else { continue };
            loop {
                let rank = slab.word(record, self.tail.rank);
                if rank >= best {
                    break;
                }
                if tuple.exact || self.matches(slab, record, key) {
                    (best, found) = (rank, record);
                    break;
                }
                record = self.tail.next(slab, record);
                if record == 0 {
                    break;
                }
            }
        }
        if self.small.best < best {
            found = self.small.find(key, &mut best, verify).unwrap_or(found);
        }
        for block in &self.large {
            if block.best < best {
                found = block.find(key, &mut best, verify).unwrap_or(found);
            }
        }
        found
    }

    #[inline]
    pub(crate) fn find1(&self, slab: &Slab, k0: u64) -> u32 {
        self.search(slab, &[k0], |tuple| tuple.find1(slab, &self.tail, self.seeds, k0))
    }

    #[inline]
    pub(crate) fn find2(&self, slab: &Slab, k0: u64, k1: u64) -> u32 {
        self.search(slab, &[k0, k1], |tuple| tuple.find2(slab, &self.tail, self.seeds, k0, k1))
    }

    #[inline]
    pub(crate) fn find(&self, slab: &Slab, key: &[u64]) -> u32 {
        self.search(slab, key, |tuple| tuple.find(slab, &self.tail, self.seeds, key))
    }

    /// What makes an entry's key: its priority, value, mask and ranges.
    fn identity<'a>(slab: &'a Slab, tail: &Tail, record: u32) -> (u64, &'a [u64]) {
        let fields = slab.get(record);
        (fields[tail.rank] >> 32, &fields[tail.value..tail.ends + tail.end_words])
    }

    fn identity_hash(seeds: Seeds, identity: (u64, &[u64])) -> u64 {
        seeds.hash(std::iter::once(identity.0).chain(identity.1.iter().copied()))
    }

    /// The record with this priority and these words (value, mask, ends).
    pub(crate) fn same(&self, slab: &Slab, priority: u32, words: &[u64]) -> Option<u32> {
        let identity = (u64::from(priority), words);
        let hash = Ternary::identity_hash(self.seeds, identity);
        self.entries.find(hash, |record| Ternary::identity(slab, &self.tail, record) == identity)
    }

    /// Insert a record whose rank, value, mask and ends are in place and not in the table.
    pub(crate) fn insert(&mut self, slab: &mut Slab, record: u32, filtered: bool) -> Result<(), EntryError> {
        let (seeds, tail) = (self.seeds, self.tail);
        let hash_of = |record| Ternary::identity_hash(seeds, Ternary::identity(slab, &tail, record));
        self.entries.insert(hash_of(record), record, hash_of)?;
        self.len += 1;
        let flag = if filtered { FILTERED } else { 0 };
        slab.get_mut(record)[tail.group] = flag | u64::from(NO_GROUP);
        if !self.many {
            if !self.linear.is_full() {
                let rank = slab.word(record, tail.rank);
                self.linear.insert(rank, record, tail.value_of(slab, record), tail.mask_of(slab, record));
                slab.get_mut(record)[tail.home] = IN_FEW;
                return Ok(());
            }
            self.many = true;
            for record in self.linear.take() {
                self.moved += 1;
                self.place(slab, record);
            }
        }
        self.place(slab, record);
        Ok(())
    }

    /// Take a record out, everything of it still in place.
    pub(crate) fn remove(&mut self, slab: &mut Slab, record: u32) {
        let hash = Ternary::identity_hash(self.seeds, Ternary::identity(slab, &self.tail, record));
        self.entries.remove(hash, record);
        self.len -= 1;
        let group = slab.word(record, self.tail.group) as u32;
        let home = slab.word(record, self.tail.home);
        if home & IN_FEW != 0 {
            self.linear.remove(slab.word(record, self.tail.rank));
        } else if home & IN_TUPLE != 0 {
            self.take_from_tuple(slab, record, home as u32);
        } else {
            self.take_from_block(slab, record);
            if group != NO_GROUP {
                self.unlist(slab, group, record);
            }
        }
        if group != NO_GROUP {
            self.leave_group(group);
        }
        if self.len == 0 {
            self.many = false;
        }
    }

    /// Put a record where it belongs: the tuple of the first of its masks that has one with room; or a block, gathered
    /// under the first mask that has none yet.
    fn place(&mut self, slab: &mut Slab, record: u32) {
        let filtered = slab.word(record, self.tail.group) & FILTERED != 0;
        for candidate in candidate_masks(&self.layout, self.tail.mask_of(slab, record), filtered) {
            let Some(group) = self.join_group(&candidate) else { continue };
            let tuple = self.groups.slab.word(group, GROUP_TUPLE);
            if tuple == 0 {
                self.set_group(slab, record, group);
                self.add_to_block(slab, record, filtered);
                self.enlist(slab, group, record);
                if self.groups.slab.word(group, GROUP_LISTED) >= PROMOTE {
                    self.promote(slab, group);
                }
                return;
            }
            if self.add_to_tuple(slab, record, (tuple - 1) as u32) {
                self.set_group(slab, record, group);
                return;
            }
            self.leave_group(group);
        }
        self.set_group(slab, record, NO_GROUP);
        self.add_to_block(slab, record, filtered);
    }

    fn set_group(&self, slab: &mut Slab, record: u32, group: u32) {
        let word = &mut slab.get_mut(record)[self.tail.group];
        *word = *word & FILTERED | u64::from(group);
    }

    /// The group of a mask, made if it is new, with one entry more; none if it cannot be made.
    fn join_group(&mut self, candidate: &CandidateMask) -> Option<u32> {
        let (seeds, words) = (self.seeds, self.tail.words);
        let exact = u64::from(candidate.exact);
        let hash = seeds.hash(candidate.mask.iter().copied().chain([exact]));
        let groups = &mut self.groups;
        let known = groups.index.find(hash, |other| {
            let fields = groups.slab.get(other);
            fields[GROUP_EXACT] == exact && fields[GROUP_MASK..][..words] == *candidate.mask
        });
        if let Some(known) = known {
            groups.slab.get_mut(known)[GROUP_TOTAL] += 1;
            return Some(known);
        }
        let new = groups.free.last().copied().unwrap_or(groups.next);
        groups.slab.ensure(new);
        let fields = groups.slab.get_mut(new);
        fields[..GROUP_MASK].fill(0);
        fields[GROUP_TOTAL] = 1;
        fields[GROUP_EXACT] = exact;
        fields[GROUP_MASK..][..words].copy_from_slice(&candidate.mask);
        let of = &groups.slab;
        groups.index.insert(hash, new, |group| group_hash(seeds, of.get(group), words)).ok()?;
        groups.free.pop();
        groups.next = groups.next.max(new + 1);
        Some(new)
    }

    fn leave_group(&mut self, group: u32) {
        let (seeds, words) = (self.seeds, self.tail.words);
        let fields = self.groups.slab.get_mut(group);
        fields[GROUP_TOTAL] -= 1;
        if fields[GROUP_TOTAL] == 0 {
            let tuple = fields[GROUP_TUPLE];
            let hash = group_hash(seeds, fields, words);
            self.groups.index.remove(hash, group);
            self.groups.free.push(group);
            if tuple != 0 {
                self.tuples[tuple as usize - 1] = None;
                self.free_tuples.push(tuple as u32 - 1);
            }
        }
    }

    /// Put a record at the head of its group's list.
    fn enlist(&mut self, slab: &mut Slab, group: u32, record: u32) {
        let fields = self.groups.slab.get_mut(group);
        let head = fields[GROUP_HEAD] as u32;
        fields[GROUP_HEAD] = u64::from(record);
        fields[GROUP_LISTED] += 1;
        self.tail.link(slab, 0, record, head);
    }

    fn unlist(&mut self, slab: &mut Slab, group: u32, record: u32) {
        let (previous, next) = self.tail.unlink(slab, record);
        let fields = self.groups.slab.get_mut(group);
        fields[GROUP_LISTED] -= 1;
        if previous == 0 {
            fields[GROUP_HEAD] = u64::from(next);
        }
    }

    /// Give a group an index, and place its entries anew.
    fn promote(&mut self, slab: &mut Slab, group: u32) {
        let fields = self.groups.slab.get(group);
        let tuple = Some(Tuple::new(&fields[GROUP_MASK..][..self.tail.words], fields[GROUP_EXACT] != 0));
        let at = match self.free_tuples.pop() {
            Some(at) => {
                self.tuples[at as usize] = tuple;
                at
            }
            None => {
                self.tuples.push(tuple);
                self.tuples.len() as u32 - 1
            }
        };
        let fields = self.groups.slab.get_mut(group);
        fields[GROUP_TUPLE] = u64::from(at) + 1;
        // The group must outlive its entries' moving.
        fields[GROUP_TOTAL] += 1;
        let mut listed = Vec::new();
        let mut record = fields[GROUP_HEAD] as u32;
        while record != 0 {
            listed.push(record);
            record = self.tail.next(slab, record);
        }
        for record in listed {
            self.moved += 1;
            self.take_from_block(slab, record);
            self.unlist(slab, group, record);
            self.leave_group(group);
            self.place(slab, record);
        }
        self.leave_group(group);
    }

    /// The digits a record admits, into the scratch.
    fn admit(&mut self, slab: &Slab, record: u32) {
        let tail = &self.tail;
        let (value, mask) = (tail.value_of(slab, record), tail.mask_of(slab, record));
        for (at, set) in self.digits.iter_mut().enumerate() {
            let digit = |words: &[u64]| (words[at / 16] >> (60 - at % 16 * 4) & 15) as usize;
            *set = ADMITTED[digit(mask)][digit(value)];
        }
        let ends = &slab.get(record)[tail.ends..][..tail.end_words];
        for range in &self.ranges {
            range.narrow(ends, &mut self.digits);
        }
    }

    fn add_to_block(&mut self, slab: &mut Slab, record: u32, filtered: bool) {
        self.admit(slab, record);
        let rank = slab.word(record, self.tail.rank);
        let home = if !self.small.is_full() {
            self.small.insert(&self.digits, rank, record, filtered) as u64
        } else {
            while self.open.last().is_some_and(|&block| self.large[block as usize].is_full()) {
                self.open.pop();
            }
            let block = self.open.last().copied().unwrap_or_else(|| {
                self.large.push(Block::new(self.digits.len()));
                self.open.push(self.large.len() as u32 - 1);
                self.large.len() as u32 - 1
            });
            let place = self.large[block as usize].insert(&self.digits, rank, record, filtered);
            u64::from(block + 1) << 32 | place as u64
        };
        slab.get_mut(record)[self.tail.home] = home;
    }

    fn take_from_block(&mut self, slab: &Slab, record: u32) {
        self.admit(slab, record);
        let home = slab.word(record, self.tail.home);
        let place = home as u32 as usize;
        match (home >> 32) as usize {
            0 => self.small.remove(place, &self.digits),
            block => {
                let full = self.large[block - 1].is_full();
                self.large[block - 1].remove(place, &self.digits);
                if full && !self.open.contains(&(block as u32 - 1)) {
                    self.open.push(block as u32 - 1);
                }
                while self.large.last().is_some_and(|block| block.len == 0) {
                    self.large.pop();
                    let last = self.large.len() as u32;
                    self.open.retain(|&open| open != last);
                }
            }
        }
    }

    /// Keep the order of tuples when one's best rank has changed.
    fn reorder(&mut self, tuple: u32, before: u64) {
        let now = self.tuples[tuple as usize].as_ref().map_or(u64::MAX, |tuple| tuple.best);
        if now == before {
            return;
        }
        if before != u64::MAX
            && let Ok(at) = self.order.binary_search(&(before, tuple))
        {
            self.order.remove(at);
        }
        if now != u64::MAX
            && let Err(at) = self.order.binary_search(&(now, tuple))
        {
            self.order.insert(at, (now, tuple));
        }
    }

    /// Whether the tuple took the record.
    fn add_to_tuple(&mut self, slab: &mut Slab, record: u32, at: u32) -> bool {
        let Some(tuple) = self.tuples[at as usize].as_mut() else { return false };
        let before = tuple.best;
        if !tuple.insert(slab, &self.tail, self.seeds, record) {
            return false;
        }
        slab.get_mut(record)[self.tail.home] = IN_TUPLE | u64::from(at);
        self.reorder(at, before);
        true
    }

    fn take_from_tuple(&mut self, slab: &mut Slab, record: u32, at: u32) {
        let Some(tuple) = self.tuples[at as usize].as_mut() else { return };
        let before = tuple.best;
        tuple.remove(slab, &self.tail, self.seeds, record);
        debug_assert!(before != u64::MAX && (!tuple.is_empty() || tuple.best == u64::MAX));
        self.reorder(at, before);
    }
}

/// By mask and value of a digit, the digits that match.
const ADMITTED: [[u16; 16]; 16] = {
    let mut table = [[0; 16]; 16];
    let mut at = 0;
    while at < 16 * 16 * 16 {
        let (mask, value, digit) = (at / 256, at / 16 % 16, at % 16);
        if digit & mask == value & mask {
            table[mask][value] |= 1 << digit;
        }
        at += 1;
    }
    table
};

fn group_hash(seeds: Seeds, fields: &[u64], words: usize) -> u64 {
    seeds.hash(fields[GROUP_MASK..][..words].iter().copied().chain([fields[GROUP_EXACT]]))
}
