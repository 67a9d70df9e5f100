//! The entries of one table: a slab by handle, and an index from packed keys to handles.

use super::encode::{decode_args, decode_key, encode_args};
use crate::control::{ControlError, Entry, ErrorKind, MeterRate};
use barewire_p4::ir::{ActionCall, ActionId, Program, Table};
use barewire_p4_state::TableAction;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

type Result<T> = std::result::Result<T, ControlError>;

/// Entries one table may have, whatever the program says.
pub const MAX_ENTRIES: u32 = barewire_p4_state::MAX_HANDLES;
/// Versions of an index: bmv2's handles have 8 bits for them, so the 256th use of an index has the handle of the first.
const VERSIONS: u32 = 256;
/// The end of a chain.
const NONE: u32 = u32::MAX;

/// The index is keyed by hashes that are already good.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// What an entry does, packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packed {
    Call(ActionId, Box<[u8]>),
    Member(u32),
    Group(u32),
}

impl Packed {
    pub(super) fn of(program: &Program, action: &TableAction) -> Packed {
        match action {
            TableAction::Call(call) => {
                Packed::Call(call.action, encode_args(&program.actions[call.action.at()], &call.args))
            }
            TableAction::Member(member) => Packed::Member(*member),
            TableAction::Group(group) => Packed::Group(*group),
        }
    }

    pub(super) fn unpack(&self, program: &Program) -> TableAction {
        match self {
            Packed::Call(action, args) => {
                let args = decode_args(&program.actions[action.at()], args);
                TableAction::Call(ActionCall { action: *action, args })
            }
            Packed::Member(member) => TableAction::Member(*member),
            Packed::Group(group) => TableAction::Group(*group),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Slot {
    used: bool,
    /// How many entries this slot has had before.
    version: u32,
    priority: u32,
    hash: u64,
    /// The next slot whose key has the same hash.
    next: u32,
    ttl_ms: u32,
    /// When it was made, its time-out set, or its idleness last notified: idleness counts from here at the earliest.
    since_us: u64,
    is_const: bool,
    key: Box<[u8]>,
    action: Packed,
    cookie: Box<[u8]>,
}

/// Some entries as they are kept: to be copied under a lock, and unpacked without it.
#[derive(Debug)]
pub(crate) struct PackedEntries(Vec<(u32, Slot)>);

impl PackedEntries {
    /// Unpack them; the table is the one they are of.
    pub(crate) fn unpack(self, program: &Program, table: &Table) -> impl Iterator<Item = Entry> {
        self.0.into_iter().map(move |(index, slot)| slot.entry(program, table, index))
    }
}

/// An entry before it is changed or taken out, with the rates of its meter.
#[derive(Debug)]
pub(crate) struct Before(Slot, Option<Vec<MeterRate>>);

impl Slot {
    fn entry(&self, program: &Program, table: &Table, index: u32) -> Entry {
        Entry {
            handle: handle_of(index, self.version),
            key: decode_key(table, &self.key),
            priority: self.priority,
            action: self.action.unpack(program),
            ttl_ms: self.ttl_ms,
            is_const: self.is_const,
            cookie: self.cookie.to_vec(),
        }
    }
}

/// What [`TableStore::insert`] stores.
#[derive(Debug)]
pub(super) struct NewSlot {
    pub key: Box<[u8]>,
    pub priority: u32,
    pub action: Packed,
    pub ttl_ms: u32,
    pub since_us: u64,
    pub is_const: bool,
    pub cookie: Box<[u8]>,
}

/// The entries of one table.
#[derive(Debug)]
pub(super) struct TableStore {
    name: String,
    slots: Vec<Slot>,
    free: BinaryHeap<Reverse<u32>>,
    by_hash: HashMap<u64, u32, BuildHasherDefault<AsIs>>,
    hasher: RandomState,
    len: usize,
    max: usize,
    /// What a miss runs.
    pub default: Option<TableAction>,
    /// Rates of entries' direct meters, where set.
    pub direct_rates: HashMap<u32, Vec<MeterRate>>,
    /// Entries with a time-out, and when they were last reported idle (0 for never).
    pub ageing: BTreeMap<u32, u64>,
}

/// A handle of an index's version.
pub fn handle_of(index: u32, version: u32) -> u64 {
    u64::from(version) << 32 | u64::from(index)
}

impl TableStore {
    pub(super) fn new(table: &Table) -> TableStore {
        // What came with the program always fits.
        let own = u32::try_from(table.entries.len()).unwrap_or(MAX_ENTRIES);
        TableStore {
            name: table.name.clone(),
            slots: Vec::new(),
            free: BinaryHeap::new(),
            by_hash: HashMap::default(),
            hasher: RandomState::new(),
            len: 0,
            max: table.max_size.max(own).min(MAX_ENTRIES) as usize,
            default: table.default.clone().map(TableAction::Call),
            direct_rates: HashMap::new(),
            ageing: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many indices have been used so far.
    pub(super) fn places(&self) -> u64 {
        self.slots.len() as u64
    }

    fn hash(&self, key: &[u8], priority: u32) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.write_u32(priority);
        hasher.finish()
    }

    fn chain(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.by_hash.get(&hash).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let here = at;
            at = self.slots.get(here as usize)?.next;
            Some(here)
        })
    }

    /// The entry with this packed key and priority.
    pub(super) fn find(&self, key: &[u8], priority: u32) -> Option<u32> {
        self.chain(self.hash(key, priority)).find(|at| {
            let slot = &self.slots[*at as usize];
            slot.priority == priority && *slot.key == *key
        })
    }

    /// The entry with this packed key that wins among all priorities.
    pub(super) fn find_any_priority(&self, key: &[u8]) -> Option<u32> {
        let same = |(at, slot): (usize, &Slot)| {
            (slot.used && *slot.key == *key).then_some((slot.priority, at as u32))
        };
        self.slots.iter().enumerate().filter_map(same).min().map(|(_, at)| at)
    }

    /// A new entry at the lowest free index; gives the index.
    pub(super) fn insert(&mut self, new: NewSlot) -> Result<u32> {
        let hash = self.hash(&new.key, new.priority);
        if let Some(at) = self.find(&new.key, new.priority) {
            return Err(ControlError::new(
                ErrorKind::DuplicateEntry,
                format!("table '{}' has that key already, in entry {}", self.name, self.handle(at)),
            ));
        }
        if self.len >= self.max {
            return Err(ControlError::new(
                ErrorKind::TableFull,
                format!("table '{}' is full: it holds {} entries", self.name, self.max),
            ));
        }
        let index = match self.free.pop() {
            Some(Reverse(index)) => index,
            None => self.slots.len() as u32,
        };
        self.fill(index, None, hash, new);
        Ok(index)
    }

    /// A new entry with this handle, as it was when the state was saved.
    pub(super) fn insert_at(&mut self, index: u32, version: u32, new: NewSlot) -> Result<()> {
        let bad = |what: &str| {
            ControlError::new(
                ErrorKind::InvalidHandle,
                format!("table '{}', entry {index}: {what}", self.name),
            )
        };
        if index as usize >= self.max {
            return Err(bad("the table is smaller than that"));
        }
        if self.slots.get(index as usize).is_some_and(|slot| slot.used) {
            return Err(bad("the handle is taken"));
        }
        if self.find(&new.key, new.priority).is_some() {
            let what = format!("table '{}', entry {index}: its key is another's already", self.name);
            return Err(ControlError::new(ErrorKind::DuplicateEntry, what));
        }
        let hash = self.hash(&new.key, new.priority);
        self.fill(index, Some(version), hash, new);
        Ok(())
    }

    /// After [`TableStore::insert_at`]s: which indices are free.
    pub(super) fn collect_free(&mut self) {
        let free = |(at, slot): (usize, &Slot)| (!slot.used).then_some(Reverse(at as u32));
        self.free = self.slots.iter().enumerate().filter_map(free).collect();
    }

    fn fill(&mut self, index: u32, version: Option<u32>, hash: u64, new: NewSlot) {
        let at = index as usize;
        while self.slots.len() <= at {
            self.slots.push(Slot {
                used: false,
                version: 0,
                priority: 0,
                hash: 0,
                next: NONE,
                ttl_ms: 0,
                since_us: 0,
                is_const: false,
                key: Box::default(),
                action: Packed::Member(0),
                cookie: Box::default(),
            });
        }
        let first = self.by_hash.insert(hash, index).unwrap_or(NONE);
        let slot = &mut self.slots[at];
        *slot = Slot {
            used: true,
            version: version.unwrap_or(slot.version) % VERSIONS,
            priority: new.priority,
            hash,
            next: first,
            ttl_ms: new.ttl_ms,
            since_us: new.since_us,
            is_const: new.is_const,
            key: new.key,
            action: new.action,
            cookie: new.cookie,
        };
        if new.ttl_ms != 0 {
            self.ageing.insert(index, 0);
        }
        self.len += 1;
    }

    /// Take an entry out; gives what it did.
    pub(super) fn remove(&mut self, index: u32) -> Packed {
        let slot = &mut self.slots[index as usize];
        let (hash, next) = (slot.hash, slot.next);
        slot.used = false;
        slot.version = slot.version.wrapping_add(1) % VERSIONS;
        slot.next = NONE;
        slot.key = Box::default();
        slot.cookie = Box::default();
        let action = std::mem::replace(&mut slot.action, Packed::Member(0));
        if self.by_hash.get(&hash) == Some(&index) {
            if next == NONE {
                self.by_hash.remove(&hash);
            } else {
                self.by_hash.insert(hash, next);
            }
        } else {
            let before = self.chain(hash).find(|at| self.slots[*at as usize].next == index);
            if let Some(before) = before {
                self.slots[before as usize].next = next;
            }
        }
        self.free.push(Reverse(index));
        self.direct_rates.remove(&index);
        self.ageing.remove(&index);
        self.len -= 1;
        action
    }

    /// All entries gone, as after start: handles begin anew. Gives what they did.
    pub(super) fn clear(&mut self) -> Vec<Packed> {
        let slots = std::mem::take(&mut self.slots);
        self.free.clear();
        self.by_hash.clear();
        self.direct_rates.clear();
        self.ageing.clear();
        self.len = 0;
        slots.into_iter().filter(|slot| slot.used).map(|slot| slot.action).collect()
    }

    /// The index behind a handle.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidHandle`], [`ErrorKind::ExpiredHandle`].
    pub(super) fn index(&self, handle: u64) -> Result<u32> {
        let (index, version) = (handle as u32, (handle >> 32) as u32);
        match self.slots.get(index as usize).filter(|slot| slot.used) {
            None => Err(ControlError::new(
                ErrorKind::InvalidHandle,
                format!("table '{}' has no entry with handle {handle}", self.name),
            )),
            Some(slot) if slot.version != version => Err(ControlError::new(
                ErrorKind::ExpiredHandle,
                format!(
                    "table '{}': handle {handle} has expired, its place is now entry {}",
                    self.name,
                    self.handle(index)
                ),
            )),
            Some(_) => Ok(index),
        }
    }

    pub(super) fn handle(&self, index: u32) -> u64 {
        handle_of(index, self.slots[index as usize].version)
    }

    /// The handle of an index, if there is an entry now.
    pub(super) fn live_handle(&self, index: u32) -> Option<u64> {
        self.slots.get(index as usize).filter(|slot| slot.used).map(|slot| handle_of(index, slot.version))
    }

    pub(super) fn set_action(&mut self, index: u32, action: Packed) -> Packed {
        std::mem::replace(&mut self.slots[index as usize].action, action)
    }

    pub(super) fn set_ttl(&mut self, index: u32, ttl_ms: u32, now_us: u64) {
        let slot = &mut self.slots[index as usize];
        (slot.ttl_ms, slot.since_us) = (ttl_ms, now_us);
        if ttl_ms == 0 {
            self.ageing.remove(&index);
        } else {
            self.ageing.insert(index, 0);
        }
    }

    pub(super) fn set_cookie(&mut self, index: u32, cookie: Vec<u8>) {
        self.slots[index as usize].cookie = cookie.into();
    }

    /// Since when an entry may count as idle at the earliest.
    pub(super) fn since_us(&self, index: u32) -> u64 {
        self.slots[index as usize].since_us
    }

    /// Whether an entry is idle, given its last hit; if so it is so again after another time-out.
    pub(super) fn check_idle(&mut self, index: u32, last_hit_us: u64, now_us: u64) -> bool {
        let Some(slot) = self.slots.get(index as usize).filter(|slot| slot.used && slot.ttl_ms != 0) else {
            return false;
        };
        let Some(reported_us) = self.ageing.get_mut(&index) else { return false };
        let from_us = slot.since_us.max(last_hit_us).max(*reported_us);
        if now_us.saturating_sub(from_us) < u64::from(slot.ttl_ms) * 1000 {
            return false;
        }
        *reported_us = now_us;
        true
    }

    /// The indices of all entries, ascending.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.used).map(|(at, _)| at as u32)
    }

    pub(super) fn entry(&self, program: &Program, table: &Table, index: u32) -> Entry {
        self.slots[index as usize].entry(program, table, index)
    }

    /// The entries of some places, from this one on; and where to go on, if there are more.
    pub(super) fn copy(&self, from: u32, places: u32) -> (PackedEntries, Option<u32>) {
        let to = from.saturating_add(places).min(self.slots.len() as u32);
        let some = self.slots.get(from as usize..to as usize).unwrap_or_default();
        let used = (from..).zip(some).filter(|(_, slot)| slot.used);
        let copies = used.map(|(index, slot)| (index, slot.clone())).collect();
        (PackedEntries(copies), ((to as usize) < self.slots.len()).then_some(to))
    }

    /// Idle time-outs begin now.
    pub(super) fn restart_ages(&mut self, now_us: u64) {
        for index in self.ageing.keys() {
            self.slots[*index as usize].since_us = now_us;
        }
    }

    /// An entry as it is now, for [`TableStore::put_back`].
    pub(super) fn before(&self, index: u32) -> Before {
        Before(self.slots[index as usize].clone(), self.direct_rates.get(&index).cloned())
    }

    /// Make an entry as it was before; gives what it did after, if it was there, and what it does now. Which places are
    /// free has to be found anew when it was not there ([`TableStore::collect_free`]).
    pub(super) fn put_back(&mut self, index: u32, before: Before) -> (Option<Packed>, Packed) {
        let Before(old, rates) = before;
        let action = old.action.clone();
        let slot = &mut self.slots[index as usize];
        if slot.used {
            let (ttl_ms, since_us) = (old.ttl_ms, old.since_us);
            slot.cookie = old.cookie;
            let after = std::mem::replace(&mut slot.action, old.action);
            self.set_ttl(index, ttl_ms, since_us);
            return (Some(after), action);
        }
        let new = NewSlot {
            key: old.key,
            priority: old.priority,
            action: old.action,
            ttl_ms: old.ttl_ms,
            since_us: old.since_us,
            is_const: old.is_const,
            cookie: old.cookie,
        };
        self.fill(index, Some(old.version), old.hash, new);
        if let Some(rates) = rates {
            self.direct_rates.insert(index, rates);
        }
        (None, action)
    }

    /// Take out an entry that was just added, as if it never had been; gives what it did.
    pub(super) fn take_back(&mut self, index: u32) -> Packed {
        let version = self.slots[index as usize].version;
        let action = self.remove(index);
        self.slots[index as usize].version = version;
        action
    }
}
