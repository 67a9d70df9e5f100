//! One table: its records, the structure that finds them, and the updates of both.

use crate::error::EntryError;
use crate::exact::Exact;
use crate::lpm::Lpm;
use crate::slab::Slab;
use crate::spec::{KeyPlan, Shape, Spec};
use crate::ternary::Ternary;
use crate::tuple::Tail;
use crate::{ACTION, ARGS, BYTES, GROUP, HIT, LAST_HIT, MAX_HANDLES, MEMBER, PACKETS};
use barewire_p4::ir::{ActionCall, MeterId, ProfileId, Program, Table, TableActions};
use barewire_p4::key::{MatchParam, arg_words};
use barewire_p4::state::TableAction;
use std::sync::Arc;

/// What is counted of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryStats {
    /// Packets that hit it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When it was hit last, or its time-out was set, in microseconds of the engine's clock.
    pub last_hit_us: u64,
}

/// An action as the tables need it.
#[derive(Debug)]
pub(crate) struct ActionInfo {
    name: String,
    params: Vec<(String, u32)>,
    first: Vec<u32>,
    words: usize,
}

impl ActionInfo {
    pub(crate) fn all(program: &Program) -> Arc<Vec<ActionInfo>> {
        let infos = program.actions.iter().map(|action| {
            let (first, words) = arg_words(action.params.iter().map(|param| param.width));
            ActionInfo {
                name: action.name.clone(),
                params: action.params.iter().map(|param| (param.name.clone(), param.width)).collect(),
                first,
                words: words as usize,
            }
        });
        Arc::new(infos.collect())
    }

    pub(crate) fn words(&self) -> usize {
        self.words
    }
}

/// An action's arguments as words.
pub(crate) fn encode_args(
    info: &ActionInfo,
    call: &ActionCall,
    out: &mut Vec<u64>,
) -> Result<(), EntryError> {
    if call.args.len() != info.params.len() {
        let (expected, given) = (info.params.len(), call.args.len());
        return Err(EntryError::ArgCount { action: info.name.clone(), expected, given });
    }
    out.clear();
    out.resize(info.words, 0);
    for ((arg, (param, width)), &first) in call.args.iter().zip(&info.params).zip(&info.first) {
        if arg.bits() > u64::from(*width) {
            return Err(EntryError::ArgWidth {
                action: info.name.clone(),
                param: param.clone(),
                width: *width,
                bits: arg.bits(),
            });
        }
        for (word, digit) in out[first as usize..].iter_mut().zip(arg.iter_u64_digits()) {
            *word = digit;
        }
    }
    Ok(())
}

/// The structure that finds an entry.
#[derive(Debug)]
enum Matcher {
    Empty,
    Exact(Exact),
    Lpm(Box<Lpm>),
    Ternary(Box<Ternary>),
}

/// Time-outs of entries, for those that have one.
#[derive(Debug)]
struct Ttls {
    slab: Slab,
    /// The first record that never had one.
    top: u32,
    /// Where the next sweep goes on.
    cursor: u32,
}

/// How many keys [`TableState`] remembers.
const RECENT: usize = 64;

/// A key and its record; record 0 stands for nothing.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    key: u64,
    record: u32,
}

/// Where a key is remembered.
#[inline]
fn recent_slot(k0: u64) -> usize {
    // Short keys stand in the upper bytes of their word.
    ((k0 ^ k0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2())) as usize % RECENT
}

/// One table.
#[derive(Debug)]
pub struct TableState {
    pub(crate) name: String,
    plan: KeyPlan,
    max_size: u32,
    slab: Slab,
    matcher: Matcher,
    /// One-word keys found lately in an exact table, by their last bits: in a burst the same few keys come again and
    /// again. A record stays where it is, so only what takes entries away empties this.
    recent: Box<[Recent; RECENT]>,
    ttls: Option<Ttls>,
    entries: usize,
    /// The first record that never held an entry.
    top: u32,
    args_words: usize,
    pub(crate) profile: Option<ProfileId>,
    pub(crate) meter: Option<MeterId>,
    actions: Arc<Vec<ActionInfo>>,
    /// For each action of the program its position in the table's actions plus 1, 0 if it is not one of them.
    positions: Vec<u32>,
    /// The program's number of each of the table's actions.
    numbers: Vec<u32>,
}

/// What a clear leaves behind: megabytes whose release would stall the engine. Drop it on another thread.
#[derive(Debug)]
pub struct Garbage {
    _slab: Slab,
    _matcher: Box<dyn std::fmt::Debug + Send>,
}

impl TableState {
    pub(crate) fn new(table: &Table, program: &Program, actions: Arc<Vec<ActionInfo>>) -> TableState {
        let mut positions = vec![0; program.actions.len()];
        for (position, action) in table.actions.iter().enumerate() {
            positions[action.at()] = position as u32 + 1;
        }
        // A default entry may run an action that is not among the table's; it needs room too.
        let extra = table.default.iter().map(|call| call.action);
        let args_words = table.actions.iter().copied().chain(extra).map(|action| actions[action.at()].words);
        let profile = match table.source {
            TableActions::Direct => None,
            TableActions::Profile(profile) => Some(profile),
        };
        let mut state = TableState {
            name: table.name.clone(),
            plan: KeyPlan::of(table),
            max_size: table.max_size,
            slab: Slab::new(1, 0),
            matcher: Matcher::Empty,
            recent: Box::new([Recent::default(); RECENT]),
            ttls: None,
            entries: 0,
            top: 1,
            args_words: args_words.max().unwrap_or(0).max(1),
            profile,
            meter: table.meter,
            actions,
            positions,
            numbers: table.actions.iter().map(|action| action.0).collect(),
        };
        (state.slab, state.matcher) = state.fresh();
        state.slab.ensure(0);
        state
    }

    /// Where the structures' words start in a record.
    fn tail_at(&self) -> usize {
        ARGS + self.args_words
    }

    fn fresh(&self) -> (Slab, Matcher) {
        let (at, words) = (self.tail_at(), self.plan.words);
        let size = self.max_size as usize + 1;
        match self.plan.shape {
            Shape::Empty => (Slab::new(at, 1), Matcher::Empty),
            Shape::Exact => (Slab::new(at + words, size), Matcher::Exact(Exact::new(at, words))),
            Shape::Lpm(slot) => {
                let slot = &self.plan.layout.slots[slot];
                let start = (slot.byte + slot.bytes) * 8 - slot.width;
                let lpm = Lpm::new(at, &self.plan.full, start as usize, slot.width as usize, self.max_size);
                (Slab::new(at + 2 * words, size), Matcher::Lpm(Box::new(lpm)))
            }
            Shape::Ternary | Shape::LongPrefix => {
                let tail = Tail::new(at, words, self.plan.end_words());
                let ternary = Ternary::new(tail, &self.plan);
                (Slab::new(tail.end(), size), Matcher::Ternary(Box::new(ternary)))
            }
        }
    }

    /// Whether a look-up gives all there is to know: the table has neither a profile nor a direct meter.
    pub fn is_plain(&self) -> bool {
        self.profile.is_none() && self.meter.is_none()
    }

    /// Words of the largest action's arguments, one at least.
    pub fn args_words(&self) -> usize {
        self.args_words
    }

    /// 64-bit words of a key.
    pub fn key_words(&self) -> usize {
        self.plan.words
    }

    /// Entries, the default one not counted.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there is no entry but the default one.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of memory the table reserves.
    pub fn bytes(&self) -> usize {
        let structure = match &self.matcher {
            Matcher::Empty => 0,
            Matcher::Exact(exact) => exact.index.bytes(),
            Matcher::Lpm(lpm) => lpm.bytes(),
            Matcher::Ternary(ternary) => ternary.bytes(),
        };
        self.slab.bytes() + structure
    }

    /// Masks with an index of their own, and blocks of bitmaps beside them, of a ternary table.
    pub fn ternary_parts(&self) -> Option<(usize, usize)> {
        match &self.matcher {
            Matcher::Ternary(ternary) => Some(ternary.parts()),
            _ => None,
        }
    }

    /// Entries and slots that updates have moved or rewritten, ever: what bounds the time of an update.
    pub fn work(&self) -> u64 {
        match &self.matcher {
            Matcher::Empty => 0,
            Matcher::Exact(exact) => exact.index.moved,
            Matcher::Lpm(lpm) => lpm.touched + lpm.prefixes.moved,
            Matcher::Ternary(ternary) => ternary.moved_in_all(),
        }
    }

    /// The record of the entry that matches a key of one word, the default one if none does. Counts nothing.
    #[inline]
    pub fn find1(&mut self, k0: u64) -> &mut [u64] {
        let Recent { key, record } = self.recent[recent_slot(k0)];
        let record = if key == k0 && record != 0 { record } else { self.find1_anew(k0) };
        self.slab.get_mut(record)
    }

    /// The same where the key is one prefix: what was found lately is not asked, as it would rarely be there.
    #[inline]
    pub fn find1_prefix(&mut self, k0: u64) -> &mut [u64] {
        let record = match &self.matcher {
            Matcher::Lpm(lpm) if self.plan.words == 1 => lpm.find1(&self.slab, k0),
            _ => self.find1_anew(k0),
        };
        self.slab.get_mut(record)
    }

    // Not part of the above: the usual way should need few registers.
    #[inline(never)]
    fn find1_anew(&mut self, k0: u64) -> u32 {
        match &self.matcher {
            _ if self.plan.words != 1 => self.find_padded(&[k0]),
            Matcher::Exact(exact) => {
                let record = exact.find1(&self.slab, k0);
                self.recent[recent_slot(k0)] = Recent { key: k0, record };
                record
            }
            Matcher::Lpm(lpm) => lpm.find1(&self.slab, k0),
            Matcher::Ternary(ternary) => ternary.find1(&self.slab, k0),
            Matcher::Empty => 0,
        }
    }

    /// The same for a key of two words.
    #[inline]
    pub fn find2(&mut self, k0: u64, k1: u64) -> &mut [u64] {
        let record = match &self.matcher {
            _ if self.plan.words != 2 => self.find_padded(&[k0, k1]),
            Matcher::Exact(exact) => exact.find2(&self.slab, k0, k1),
            Matcher::Lpm(lpm) => lpm.find(&self.slab, &[k0, k1]),
            Matcher::Ternary(ternary) => ternary.find2(&self.slab, k0, k1),
            Matcher::Empty => 0,
        };
        self.slab.get_mut(record)
    }

    /// The same for a key of any length (what it lacks is 0).
    #[inline]
    pub fn find(&mut self, key: &[u64]) -> &mut [u64] {
        let record = self.find_index(key);
        self.slab.get_mut(record)
    }

    /// The number of the record that matches: an entry's handle plus 1, or 0 on a miss.
    #[inline]
    pub fn find_index(&self, key: &[u64]) -> u32 {
        if key.len() != self.plan.words {
            return self.find_padded(key);
        }
        match &self.matcher {
            Matcher::Empty => 0,
            Matcher::Exact(exact) => exact.find(&self.slab, key),
            Matcher::Lpm(lpm) => lpm.find(&self.slab, key),
            Matcher::Ternary(ternary) => ternary.find(&self.slab, key),
        }
    }

    #[cold]
    fn find_padded(&self, key: &[u64]) -> u32 {
        let mut padded = key.to_vec();
        padded.resize(self.plan.words, 0);
        match &self.matcher {
            Matcher::Empty => 0,
            Matcher::Exact(exact) => exact.find(&self.slab, &padded),
            Matcher::Lpm(lpm) => lpm.find(&self.slab, &padded),
            Matcher::Ternary(ternary) => ternary.find(&self.slab, &padded),
        }
    }

    pub(crate) fn record(&mut self, record: u32) -> &mut [u64] {
        self.slab.get_mut(record)
    }

    /// The position of an action of the program in the table's actions plus 1, 0 if it is not one of them.
    pub(crate) fn position(&self, action: u64) -> u32 {
        self.positions.get(action as usize).copied().unwrap_or(0)
    }

    /// The program's number of an action by its position plus 1.
    pub(crate) fn number(&self, position: u32) -> Option<u32> {
        self.numbers.get((position as usize).checked_sub(1)?).copied()
    }

    /// Words of the arguments of an action of the program.
    pub(crate) fn words_of(&self, action: u32) -> usize {
        self.actions[action as usize].words
    }

    fn live(&self, handle: u32) -> Result<u32, EntryError> {
        let record = handle.saturating_add(1);
        let there =
            handle < MAX_HANDLES && self.slab.exists(record) && self.slab.word(record, ACTION) & HIT != 0;
        if there { Ok(record) } else { Err(EntryError::NoHandle { handle }) }
    }

    /// Word 0 without the hit bit, and the arguments.
    fn encode(&self, action: &TableAction, default: bool) -> Result<(u64, Vec<u64>), EntryError> {
        match (action, self.profile) {
            (TableAction::Call(call), profile) if profile.is_none() || default => {
                let position = self.position(call.action.0.into());
                if position == 0 {
                    return Err(EntryError::NoAction { action: call.action.0 });
                }
                let mut args = Vec::new();
                encode_args(&self.actions[call.action.at()], call, &mut args)?;
                Ok((u64::from(position), args))
            }
            (TableAction::Call(_), _) => {
                Err(EntryError::EntryKind { expected: "members or groups", given: "an action" })
            }
            (TableAction::Member(member), Some(_)) => Ok((MEMBER, vec![u64::from(*member)])),
            (TableAction::Group(group), Some(_)) => Ok((GROUP, vec![u64::from(*group)])),
            (TableAction::Member(_), None) => {
                Err(EntryError::EntryKind { expected: "actions", given: "a member" })
            }
            (TableAction::Group(_), None) => {
                Err(EntryError::EntryKind { expected: "actions", given: "a group" })
            }
        }
    }

    fn write(&mut self, record: u32, word: u64, args: &[u64]) {
        let words = self.args_words;
        let fields = self.slab.get_mut(record);
        fields[ACTION] = word;
        fields[ARGS..ARGS + words].fill(0);
        fields[ARGS..ARGS + args.len()].copy_from_slice(args);
    }

    fn priority(&self, spec: &Spec, priority: u32) -> u32 {
        // Long prefixes live among ternary keys: the longest first.
        if self.plan.shape == Shape::LongPrefix { u32::MAX - spec.prefix_len } else { priority }
    }

    /// The entry with the same key (and priority, where there are priorities).
    fn same(&self, spec: &Spec, priority: u32) -> Option<u32> {
        let words = |parts: &[&[u64]]| parts.concat();
        match &self.matcher {
            Matcher::Empty => None,
            Matcher::Exact(exact) => Some(exact.find(&self.slab, &spec.value)).filter(|&record| record != 0),
            Matcher::Lpm(lpm) => lpm.same(&self.slab, &words(&[&spec.value, &spec.mask])),
            Matcher::Ternary(ternary) => {
                let words = words(&[&spec.value, &spec.mask, &spec.ends]);
                ternary.same(&self.slab, self.priority(spec, priority), &words)
            }
        }
    }

    /// The handle of the entry with this key (and priority, where there are priorities).
    pub fn handle_of(&self, params: &[MatchParam], priority: u32) -> Result<Option<u32>, EntryError> {
        let spec = self.plan.spec(params)?;
        Ok(self.same(&spec, priority).map(|record| record - 1))
    }

    /// Add an entry under a handle of the caller's, which is free. Where there are priorities, the lowest number wins, then
    /// the lowest handle.
    pub fn insert(
        &mut self,
        handle: u32,
        params: &[MatchParam],
        priority: u32,
        action: &TableAction,
    ) -> Result<(), EntryError> {
        let spec = self.plan.spec(params)?;
        if handle >= MAX_HANDLES {
            return Err(EntryError::HandleTooLarge { handle, limit: MAX_HANDLES });
        }
        if self.live(handle).is_ok() {
            return Err(EntryError::HandleInUse { handle });
        }
        let (word, args) = self.encode(action, false)?;
        if let Some(record) = self.same(&spec, priority) {
            return Err(EntryError::Duplicate { handle: record - 1 });
        }
        let record = handle + 1;
        let priority = self.priority(&spec, priority);
        let (at, words) = (self.tail_at(), self.plan.words);
        self.slab.ensure(record);
        let fields = self.slab.get_mut(record);
        fields.fill(0);
        match &mut self.matcher {
            Matcher::Empty => return Err(EntryError::NoKey),
            Matcher::Exact(exact) => {
                fields[at..at + words].copy_from_slice(&spec.value);
                exact.insert(&self.slab, record)?;
            }
            Matcher::Lpm(lpm) => {
                fields[at..at + words].copy_from_slice(&spec.value);
                fields[at + words..at + 2 * words].copy_from_slice(&spec.mask);
                lpm.insert(&self.slab, record)?;
            }
            Matcher::Ternary(ternary) => {
                let tail = ternary.tail;
                fields[tail.rank] = u64::from(priority) << 32 | u64::from(handle);
                fields[tail.value..tail.value + words].copy_from_slice(&spec.value);
                fields[tail.value + words..tail.ends].copy_from_slice(&spec.mask);
                fields[tail.ends..tail.ends + tail.end_words].copy_from_slice(&spec.ends);
                ternary.insert(&mut self.slab, record, spec.filtered)?;
            }
        }
        self.write(record, word | HIT, &args);
        self.entries += 1;
        self.top = self.top.max(record + 1);
        Ok(())
    }

    /// Give an entry another action; its counters go on.
    pub fn modify(&mut self, handle: u32, action: &TableAction) -> Result<(), EntryError> {
        let record = self.live(handle)?;
        let (word, args) = self.encode(action, false)?;
        self.write(record, word | HIT, &args);
        Ok(())
    }

    /// Remove an entry.
    pub fn remove(&mut self, handle: u32) -> Result<(), EntryError> {
        let record = self.live(handle)?;
        match &mut self.matcher {
            Matcher::Empty => return Err(EntryError::NoKey),
            Matcher::Exact(exact) => {
                *self.recent = [Recent::default(); RECENT];
                exact.remove(&self.slab, record);
            }
            Matcher::Lpm(lpm) => lpm.remove(&self.slab, record),
            Matcher::Ternary(ternary) => ternary.remove(&mut self.slab, record),
        }
        self.slab.get_mut(record)[ACTION] = 0;
        if let Some(ttls) = &mut self.ttls
            && ttls.slab.exists(record)
        {
            ttls.slab.get_mut(record)[0] = 0;
        }
        self.entries -= 1;
        Ok(())
    }

    /// Remove all entries; the default one stays.
    pub fn clear(&mut self) -> Garbage {
        let default = self.slab.get(0).to_vec();
        let (slab, matcher) = self.fresh();
        *self.recent = [Recent::default(); RECENT];
        let garbage = Garbage {
            _slab: std::mem::replace(&mut self.slab, slab),
            _matcher: Box::new(std::mem::replace(&mut self.matcher, matcher)),
        };
        self.slab.ensure(0);
        self.slab.get_mut(0).copy_from_slice(&default);
        self.ttls = None;
        self.entries = 0;
        self.top = 1;
        garbage
    }

    /// Set the default entry; none does nothing on a miss.
    pub fn set_default(&mut self, action: Option<&TableAction>) -> Result<(), EntryError> {
        let (word, args) = match action {
            Some(action) => self.encode(action, true)?,
            None => (0, Vec::new()),
        };
        self.write(0, word, &args);
        Ok(())
    }

    /// What was counted of an entry; of misses, without a handle.
    pub fn stats(&self, handle: Option<u32>) -> Result<EntryStats, EntryError> {
        let record = handle.map_or(Ok(0), |handle| self.live(handle))?;
        let fields = self.slab.get(record);
        Ok(EntryStats { packets: fields[PACKETS], bytes: fields[BYTES], last_hit_us: fields[LAST_HIT] })
    }

    /// Set an entry's direct counter.
    pub fn set_counter(&mut self, handle: Option<u32>, packets: u64, bytes: u64) -> Result<(), EntryError> {
        let record = handle.map_or(Ok(0), |handle| self.live(handle))?;
        let fields = self.slab.get_mut(record);
        (fields[PACKETS], fields[BYTES]) = (packets, bytes);
        Ok(())
    }

    /// Set the direct counters of so many records from one on (0 is the default entry's) to 0; the next record to go on with, or
    /// none at the end. In pieces, since a million at once would stall the engine.
    pub fn reset_counters(&mut self, from: u32, budget: u32) -> Option<u32> {
        let end = from.saturating_add(budget).min(self.top);
        for record in from..end {
            if self.slab.exists(record) {
                let fields = self.slab.get_mut(record);
                (fields[PACKETS], fields[BYTES]) = (0, 0);
            }
        }
        (end < self.top).then_some(end)
    }

    /// Say that an entry was hit at a time, by somebody else who looks at a copy of it.
    pub fn touch(&mut self, handle: u32, at_us: u64) -> Result<(), EntryError> {
        let record = self.live(handle)?;
        let last = &mut self.slab.get_mut(record)[LAST_HIT];
        *last = at_us.max(*last);
        Ok(())
    }

    /// Let an entry time out when it has not been hit for so long; 0: never. It starts to age now.
    pub fn set_ttl(&mut self, handle: u32, ttl_us: u64, now_us: u64) -> Result<(), EntryError> {
        let record = self.live(handle)?;
        let ttls = self.ttls.get_or_insert_with(|| Ttls { slab: Slab::new(1, 0), top: 0, cursor: 0 });
        ttls.slab.ensure(record);
        ttls.slab.get_mut(record)[0] = ttl_us;
        ttls.top = ttls.top.max(record + 1);
        self.slab.get_mut(record)[LAST_HIT] = now_us;
        Ok(())
    }

    /// Look for idle entries, at most `budget` records on from where the last call stopped, and append their handles; whether the
    /// end was reached (the next call starts over). An entry is reported in every round until it is hit or removed.
    pub fn idle(&mut self, now_us: u64, budget: u32, handles: &mut Vec<u32>) -> bool {
        let Some(ttls) = &mut self.ttls else { return true };
        let end = ttls.top.min(ttls.cursor.saturating_add(budget));
        for record in ttls.cursor.max(1)..end {
            let ttl_us = if ttls.slab.exists(record) { ttls.slab.word(record, 0) } else { 0 };
            if ttl_us != 0 && now_us.saturating_sub(self.slab.word(record, LAST_HIT)) >= ttl_us {
                handles.push(record - 1);
            }
        }
        let done = end == ttls.top;
        ttls.cursor = if done { 0 } else { end };
        done
    }

    /// As new, without default entry; what was, to be dropped elsewhere.
    pub(crate) fn reset(&mut self) -> Garbage {
        let garbage = self.clear();
        self.slab.get_mut(0).fill(0);
        garbage
    }
}
