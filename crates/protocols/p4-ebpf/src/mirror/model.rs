//! Packets that look while control planes write: a model of the maps, in which every load of a packet may see any moment of the writes
//! that are under way. A look-up in a hash or a trie is one step; of arrays each word is read and written on its own, in any order.

use super::*;
use crate::maps::{GROUP_LEN, MAX_MASKS, OWNER, mask};
use crate::pieces::{be_bytes, ones};
use barewire_base::Prng;
use barewire_p4::ir::{
    Action, ActionId, ActionProfile, FieldRef, HashAlgorithm, HeaderId, HeaderRef, KeyField, KeySource,
    Param, ProfileId, Selector, Table, TableActions, TableKind,
};
use barewire_p4::key::MatchParam;
use std::collections::VecDeque;

/// What a packet may do: store so many bytes of the map.
#[allow(clippy::large_enum_variant, reason = "a test has few of them")]
enum Step {
    Put(usize, Vec<u8>, Vec<u8>),
    Word(usize, Vec<u8>, usize, [u8; 8]),
    Remove(usize, Vec<u8>),
    Wait,
    /// A write is done: from here on packets see what this state says.
    Done(State),
}

/// An entry's key, priority and action.
type Entry = (Vec<MatchParam>, u32, TableAction);

/// What tables hold, as the control plane knows them.
#[derive(Clone, Default)]
struct State {
    entries: [BTreeMap<u32, Entry>; TABLES],
    defaults: [Option<TableAction>; TABLES],
    members: BTreeMap<u32, ActionCall>,
    groups: BTreeMap<u32, Vec<(u32, u32)>>,
}

const TABLES: usize = 5;
const EXACT: usize = 0;
const LPM: usize = 1;
const TERNARY: usize = 2;
const CHOSEN: usize = 3;
const INDEXED: usize = 4;
const SIZE: u32 = 12;

fn program() -> Program {
    let action = |name: &str, widths: &[u32]| Action {
        name: name.to_owned(),
        id: 0,
        params: widths.iter().map(|&width| Param { name: String::new(), width }).collect(),
        body: Vec::new(),
    };
    let source = || KeySource::Field(FieldRef { header: HeaderRef::Header(HeaderId::from(0)), field: 0 });
    let key = |kinds: &[(MatchKind, u32)]| {
        let field = |&(kind, width): &(MatchKind, u32)| KeyField {
            name: String::new(),
            kind,
            source: source(),
            width,
            mask: None,
        };
        kinds.iter().map(field).collect()
    };
    let actions = || (0..3).map(ActionId).collect();
    let table =
        |name: &str, kind, key, source| Table { source, ..Table::new(name, kind, key, actions(), SIZE) };
    let direct = || TableActions::Direct;
    let mut program = Program::empty();
    program.actions = vec![action("none", &[]), action("one", &[9]), action("many", &[64, 100, 64])];
    program.tables = vec![
        table("exact", TableKind::Exact, key(&[(MatchKind::Exact, 2), (MatchKind::Exact, 1)]), direct()),
        table("lpm", TableKind::Lpm, key(&[(MatchKind::Exact, 1), (MatchKind::Lpm, 9)]), direct()),
        table("ternary", TableKind::Range, key(&[(MatchKind::Ternary, 3), (MatchKind::Range, 5)]), direct()),
        table("chosen", TableKind::Exact, key(&[(MatchKind::Exact, 1)]), TableActions::Profile(0.into())),
        // Keys as short as this are places in an array.
        table("indexed", TableKind::Exact, key(&[(MatchKind::Exact, 3)]), direct()),
    ];
    program.profiles = vec![ActionProfile {
        name: "profile".to_owned(),
        id: 0,
        max_size: SIZE,
        selector: Some(Selector { algorithm: HashAlgorithm::Crc16, input: Vec::new() }),
    }];
    program
}

/// The first words of a record as a packet takes them.
type Seen = Vec<u64>;

struct World {
    mirror: Mirror,
    maps: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
    steps: VecDeque<Step>,
    state: State,
    /// States while a packet is under way, the one that it began in first.
    seen: Vec<State>,
    under_way: bool,
    prng: Prng,
}

impl World {
    fn new(seed: u64) -> World {
        let program = Arc::new(program());
        let shape = Shape::of(&program);
        let maps = shape.maps.iter().map(|_| BTreeMap::new()).collect();
        let mirror = Mirror::new(program, shape);
        World {
            mirror,
            maps,
            steps: VecDeque::new(),
            state: State::default(),
            seen: Vec::new(),
            under_way: false,
            prng: Prng::new(seed),
        }
    }

    fn is_array(&self, map: usize) -> bool {
        matches!(self.mirror.shape.maps[map].kind, MapKind::Array)
    }

    /// Queue what a write asks for.
    fn queue(&mut self, ops: Vec<MapOp>, state: State) {
        for op in ops {
            if op.is_wait() {
                self.steps.push_back(Step::Wait);
                continue;
            }
            let Some(value) = op.value else {
                self.steps.push_back(Step::Remove(op.map, op.key));
                continue;
            };
            assert_eq!(value.len(), self.mirror.shape.maps[op.map].value as usize);
            assert_eq!(op.key.len(), self.mirror.shape.maps[op.map].key as usize);
            if !self.is_array(op.map) {
                self.steps.push_back(Step::Put(op.map, op.key, value));
                continue;
            }
            let mut words: Vec<(usize, [u8; 8])> =
                value.chunks_exact(8).map(|word| word.try_into().expect("eight")).enumerate().collect();
            while !words.is_empty() {
                let (at, word) = words.swap_remove(self.prng.below(words.len() as u64) as usize);
                self.steps.push_back(Step::Word(op.map, op.key.clone(), at, word));
            }
        }
        self.steps.push_back(Step::Done(state));
    }

    /// Let the writer go on, but not past a wait for the packet that is under way.
    fn write_on(&mut self, most: u64) {
        for _ in 0..most {
            if matches!(self.steps.front(), Some(Step::Wait)) && self.under_way {
                return;
            }
            match self.steps.pop_front() {
                None => return,
                Some(Step::Wait) => {}
                Some(Step::Put(map, key, value)) => {
                    let (spec, own) = (&self.mirror.shape.maps[map], &mut self.maps[map]);
                    assert!(
                        own.contains_key(&key) || own.len() < spec.entries as usize,
                        "{} is full",
                        spec.name
                    );
                    own.insert(key, value);
                }
                Some(Step::Word(map, key, at, word)) => {
                    let len = self.mirror.shape.maps[map].value as usize;
                    let value = self.maps[map].entry(key).or_insert_with(|| vec![0; len]);
                    value[8 * at..8 * at + 8].copy_from_slice(&word);
                }
                Some(Step::Remove(map, key)) => drop(self.maps[map].remove(&key)),
                Some(Step::Done(state)) => {
                    self.state = state.clone();
                    self.seen.push(state);
                }
            }
        }
    }

    fn pause(&mut self) {
        let steps = [0, 0, 1, 3, 12, 100][self.prng.below(6) as usize];
        self.write_on(steps);
    }

    /// A look-up in a hash, whose values say whose they are: what a packet reads there is of one moment.
    fn look_up(&mut self, map: usize, key: &[u8]) -> Option<Vec<u64>> {
        self.pause();
        let value = self.maps[map].get(key)?;
        let (own, value) = value[OWNER as usize..].split_at(key.len().next_multiple_of(8));
        assert_eq!(&own[..key.len()], key);
        Some(value.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight"))).collect())
    }

    /// The same in a trie.
    fn longest(&mut self, map: usize, key: &[u8]) -> Option<Vec<u64>> {
        self.pause();
        let bits = |bytes: &[u8], len: usize| {
            (0..len).map(|at| bytes[at / 8] >> (7 - at % 8) & 1).collect::<Vec<u8>>()
        };
        let prefix = |of: &[u8]| u32::from_ne_bytes(of[..4].try_into().expect("four")) as usize;
        let found = self.maps[map]
            .iter()
            .filter(|(known, _)| bits(&known[4..], prefix(known)) == bits(&key[4..], prefix(known)))
            .max_by_key(|(known, _)| prefix(known))?;
        Some(
            found.1.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight"))).collect(),
        )
    }

    /// A word of an array.
    fn load(&mut self, map: usize, index: u32, word: usize) -> u64 {
        self.pause();
        let value = self.maps[map].get(&index.to_ne_bytes()[..]);
        value.map_or(0, |value| u64::from_ne_bytes(value[8 * word..8 * word + 8].try_into().expect("eight")))
    }

    /// The record that a word finds; only those words of it that its action takes.
    fn record(&mut self, records: Option<usize>, word: u64) -> Seen {
        let Some(map) = records else { return vec![word] };
        let first = self.load(map, word as u32, 0);
        let mut seen = vec![first];
        if let Some(action) =
            (first as u32 & (MEMBER - 1)).checked_sub(1).filter(|_| first as u32 & MEMBER == 0)
        {
            let params = self.mirror.program.actions[action as usize].params.iter().map(|param| param.width);
            let words = arg_words(params).1;
            seen.extend((0..words as usize).map(|at| self.load(map, word as u32, 1 + at)));
        }
        seen
    }

    /// What a packet with this key gets of a table, step by step as the program does.
    fn packet(&mut self, table: usize, key: &[u64], hash: u64) -> Seen {
        let shape = self.mirror.shape.tables[table].clone();
        let mut bytes = Vec::new();
        for field in shape.order() {
            bytes.extend(be_bytes(&key[field].into(), shape.key.slots[field].bytes));
        }
        let map = shape.entries.expect("it has a key");
        let word = match (shape.masks, shape.prefix) {
            (Some(masks), _) => self.best_of(masks, map, &bytes),
            (None, Some(_)) => {
                let key = [(8 * shape.key.bytes).to_ne_bytes().to_vec(), bytes].concat();
                self.longest(map, &key).map(|value| value[0])
            }
            (None, None) if shape.indexed => Some(self.load(map, key[0] as u32, 0)).filter(|word| *word != 0),
            (None, None) => self.look_up(map, &bytes).map(|value| value[0]),
        };
        let word = match word {
            Some(word) => word,
            None => self.load(fixed::DEFAULTS, 0, table),
        };
        let seen = self.record(shape.records, word);
        let what = seen[0] as u32;
        if what & MEMBER == 0 {
            return seen;
        }
        let mut member = what & (GROUP - 1);
        if what & GROUP != 0 {
            let groups = shape.groups.expect("it has a selector");
            let place = |group: u32, place: u32| [group.to_ne_bytes(), place.to_ne_bytes()].concat();
            let Some(places) = self.look_up(groups, &place(member, GROUP_LEN)) else { return vec![] };
            let (count, first) = (places[0] & 0xffff_ffff, places[0] >> 32);
            if count == 0 {
                return vec![];
            }
            let Some(found) = self.look_up(groups, &place(member, (first + hash % count) as u32)) else {
                return vec![];
            };
            member = found[0] as u32;
        }
        let members = shape.members.expect("it has a profile");
        match self.look_up(members.map, &member.to_ne_bytes()) {
            Some(word) => self.record(members.records, word[0]),
            None => vec![],
        }
    }

    fn best_of(&mut self, masks: usize, map: usize, key: &[u8]) -> Option<u64> {
        let mut best: Option<(u64, u64)> = None;
        for place in 0..MAX_MASKS {
            let word = self.load(masks, place, 0);
            match word as u32 {
                mask::END => break,
                mask::HOLE => continue,
                _ => {}
            }
            let mut padded = key.to_vec();
            padded.resize(key.len().next_multiple_of(8), 0);
            let mut masked = Vec::new();
            for (at, chunk) in padded.chunks_exact(8).enumerate() {
                let bits = self.load(masks, place, 1 + at).to_ne_bytes();
                masked.extend(chunk.iter().zip(bits).map(|(byte, bits)| byte & bits));
            }
            masked.truncate(key.len());
            let element = [&((word >> 32) as u32).to_ne_bytes()[..], &masked].concat();
            if let Some(found) = self.look_up(map, &element)
                && best.is_none_or(|(rank, _)| found[0] < rank)
            {
                best = Some((found[0], found[1]));
            }
        }
        best.map(|(_, word)| word)
    }

    /// What it may get by a state.
    fn expected(&self, state: &State, table: usize, key: &[u64], hash: u64) -> Seen {
        let ones = |width: u32| (1_u64 << width) - 1;
        let digit = |n: &BigUint| n.iter_u64_digits().next().unwrap_or(0);
        let slots = &self.mirror.shape.tables[table].key.slots;
        let matches = |params: &[MatchParam]| {
            params.iter().zip(key).zip(slots).all(|((param, key), slot)| match param {
                MatchParam::Exact(value) => digit(value) == *key,
                MatchParam::Lpm { value, prefix_len } => {
                    let mask = ones(*prefix_len) << (slot.width - prefix_len);
                    digit(value) == key & mask
                }
                MatchParam::Ternary { value, mask } => digit(value) == key & digit(mask),
                MatchParam::Range { low, high } => (digit(low)..=digit(high)).contains(key),
                MatchParam::Valid(_) => false,
            })
        };
        let length = |params: &[MatchParam]| {
            params
                .iter()
                .map(|p| if let MatchParam::Lpm { prefix_len, .. } = p { *prefix_len } else { 0 })
                .sum::<u32>()
        };
        let found = state.entries[table]
            .iter()
            .filter(|(_, (params, ..))| matches(params))
            .min_by_key(|(handle, (params, priority, _))| (32 - length(params), *priority, **handle));
        let (entry, action) = match found {
            Some((handle, (_, _, action))) => (handle + 1, Some(action)),
            None => (0, state.defaults[table].as_ref()),
        };
        let member = match action {
            Some(TableAction::Member(member)) => Some(*member),
            Some(TableAction::Group(group)) => {
                let all: Vec<u32> = state.groups[group]
                    .iter()
                    .flat_map(|&(member, weight)| std::iter::repeat_n(member, weight as usize))
                    .collect();
                if all.is_empty() {
                    return vec![];
                }
                Some(all[(hash % all.len() as u64) as usize])
            }
            _ => None,
        };
        let call = |call: &ActionCall, entry| {
            let words =
                1 + arg_words(self.mirror.program.actions[call.action.at()].params.iter().map(|p| p.width)).1;
            self.mirror.record(words, Some(&TableAction::Call(call.clone())), entry)
        };
        match (member, action) {
            (Some(member), _) => call(&state.members[&member], 0),
            (None, Some(TableAction::Call(of))) => call(of, entry),
            _ => vec![0],
        }
    }

    fn a_call(&mut self) -> ActionCall {
        let action = ActionId(self.prng.below(3) as u32);
        let widths = self.mirror.program.actions[action.at()].params.iter().map(|param| param.width);
        // Each write has numbers of its own, so that halves of two are seen.
        let args = widths.collect::<Vec<_>>().into_iter().map(|width| {
            let value = BigUint::from(self.prng.next_u64()) << 40_u32 | BigUint::from(self.prng.next_u64());
            value & ones(width)
        });
        ActionCall { action, args: args.collect() }
    }

    fn an_action(&mut self, table: usize, state: &State) -> Option<TableAction> {
        if table != CHOSEN {
            return Some(TableAction::Call(self.a_call()));
        }
        let pick = |prng: &mut Prng, of: Vec<u32>| {
            (!of.is_empty()).then(|| of[prng.below(of.len() as u64) as usize])
        };
        let prng = &mut self.prng;
        match prng.chance(0.5) {
            true => pick(prng, state.members.keys().copied().collect()).map(TableAction::Member),
            false => pick(prng, state.groups.keys().copied().collect()).map(TableAction::Group),
        }
    }

    fn a_key(&mut self, table: usize) -> Vec<MatchParam> {
        let prng = &mut self.prng;
        let mut exact = |bits: u32| MatchParam::Exact(prng.below(1 << bits).into());
        match table {
            EXACT => vec![exact(2), exact(1)],
            INDEXED => vec![exact(3)],
            CHOSEN => vec![exact(1)],
            LPM => {
                let first = exact(1);
                let prefix_len = [0, 1, 5, 9][prng.below(4) as usize];
                let value = prng.below(1 << 9) & !((1 << (9 - prefix_len)) - 1);
                vec![first, MatchParam::Lpm { value: value.into(), prefix_len }]
            }
            _ => {
                let mask = prng.below(8);
                let value = prng.below(8) & mask;
                let (one, other) = (prng.below(32), prng.below(32));
                let (low, high) = (one.min(other), one.max(other));
                vec![
                    MatchParam::Ternary { value: value.into(), mask: mask.into() },
                    MatchParam::Range { low: low.into(), high: high.into() },
                ]
            }
        }
    }

    /// A random write on what the last queued one leaves.
    fn write(&mut self, mut state: State) -> State {
        let table = self.prng.below(TABLES as u64) as usize;
        let id = TableId::from(table);
        let mut out = Vec::new();
        let profile = ProfileId::from(0);
        let what = self.prng.below(if table == CHOSEN { 14 } else { 8 });
        let handles: Vec<u32> = state.entries[table].keys().copied().collect();
        let some = |prng: &mut Prng, of: &[u32]| of.get(prng.below(of.len().max(1) as u64) as usize).copied();
        match what {
            0..=2 => {
                let free = (0..SIZE).find(|handle| !handles.contains(handle));
                let (key, priority) = (self.a_key(table), self.prng.below(3) as u32);
                let priority = if table == TERNARY { priority } else { 0 };
                let twice =
                    state.entries[table].values().any(|(known, p, _)| *known == key && *p == priority);
                let action = self.an_action(table, &state);
                if let (Some(handle), Some(action), false) = (free, action, twice) {
                    let done = self.mirror.insert(id, handle, &key, priority, &action, &mut out);
                    assert!(done.is_ok() || self.mirror.is_full());
                    state.entries[table].insert(handle, (key, priority, action));
                }
            }
            3..=5 => {
                if let (Some(handle), Some(action)) =
                    (some(&mut self.prng, &handles), self.an_action(table, &state))
                {
                    self.mirror.modify(id, handle, &action, &mut out).expect("it is there");
                    state.entries[table].get_mut(&handle).expect("it is there").2 = action;
                }
            }
            6 if self.prng.chance(0.2) => {
                self.mirror.clear(id, &mut out);
                state.entries[table].clear();
            }
            6 => {
                if let Some(handle) = some(&mut self.prng, &handles) {
                    self.mirror.remove(id, handle, &mut out).expect("it is there");
                    state.entries[table].remove(&handle);
                }
            }
            7 => {
                let action = self.prng.chance(0.8).then(|| TableAction::Call(self.a_call()));
                self.mirror.set_default(id, action.as_ref(), &mut out).expect("it fits");
                state.defaults[table] = action;
            }
            8..=10 => {
                let member = self.prng.below(4) as u32;
                let call = self.a_call();
                self.mirror.set_member(profile, member, &call, &mut out).expect("it fits");
                state.members.insert(member, call);
            }
            11 => {
                let used: BTreeSet<u32> =
                    state.groups.values().flatten().map(|(member, _)| *member).collect();
                let named =
                    |state: &State, of: &TableAction| state.entries[CHOSEN].values().any(|(_, _, a)| a == of);
                let member = self.prng.below(4) as u32;
                if !used.contains(&member)
                    && !named(&state, &TableAction::Member(member))
                    && state.members.remove(&member).is_some()
                {
                    self.mirror.remove_member(profile, member, &mut out);
                }
            }
            12 => {
                let group = self.prng.below(2) as u32;
                let all: Vec<u32> = state.members.keys().copied().collect();
                let members: Vec<(u32, u32)> = all
                    .into_iter()
                    .filter(|_| self.prng.chance(0.6))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|member| (member, self.prng.below(3) as u32))
                    .collect();
                self.mirror.set_group(profile, group, &members, &mut out).expect("it fits");
                state.groups.insert(group, members);
            }
            _ => {
                let group = self.prng.below(2) as u32;
                let named = state.entries[CHOSEN].values().any(|(_, _, a)| *a == TableAction::Group(group));
                if !named && state.groups.remove(&group).is_some() {
                    self.mirror.remove_group(profile, group, &mut out);
                }
            }
        }
        self.queue(out, state.clone());
        state
    }
}

/// Whatever is written while a packet is under way, it gets what a table says at some moment of that.
#[test]
fn packets_see_each_write_whole_or_not_at_all() {
    let (mut packets, mut between) = (0, 0);
    for seed in 0..60 {
        let mut world = World::new(0xa70a_0000 + seed);
        let mut last = State::default();
        for _ in 0..400 {
            // Where a packet looks twice, at masks one after the other, at an entry and then its member or the default, it may see of
            // two writes the second one alone. So there is one; or all that counts is that what it gets is whole.
            let table = world.prng.below(TABLES as u64) as usize;
            let strict = table == TERNARY || world.prng.chance(0.5);
            let writes = if strict { 1 } else { world.prng.below(4) };
            if strict {
                world.write_on(u64::MAX);
            }
            for _ in 0..writes {
                last = world.write(last);
            }
            let key: Vec<u64> = match table {
                EXACT => vec![world.prng.below(4), world.prng.below(2)],
                INDEXED => vec![world.prng.below(8)],
                LPM => vec![world.prng.below(2), world.prng.below(512)],
                TERNARY => vec![world.prng.below(8), world.prng.below(32)],
                _ => vec![world.prng.below(2)],
            };
            let hash = world.prng.next_u64();
            world.seen = vec![world.state.clone()];
            world.under_way = true;
            let full = world.mirror.is_full();
            let got = world.packet(table, &key, hash);
            world.under_way = false;
            // What comes between the last step and the end of a write it may have seen, too.
            let mut may: Vec<Seen> =
                world.seen.iter().map(|state| world.expected(state, table, &key, hash)).collect();
            may.extend(world.steps.iter().find_map(|step| match step {
                Step::Done(state) => Some(world.expected(state, table, &key, hash)),
                _ => None,
            }));
            if !strict {
                let next = world.steps.iter().find_map(|step| match step {
                    Step::Done(state) => Some(state),
                    _ => None,
                });
                let states = || world.seen.iter().chain(next);
                let members = states().flat_map(|state| state.members.values()).filter(|_| table == CHOSEN);
                let defaults = states().filter_map(|state| match &state.defaults[table] {
                    Some(TableAction::Call(call)) => Some(call),
                    _ => None,
                });
                let whole = |call: &ActionCall| {
                    let params =
                        world.mirror.program.actions[call.action.at()].params.iter().map(|p| p.width);
                    world.mirror.record(1 + arg_words(params).1, Some(&TableAction::Call(call.clone())), 0)
                };
                may.extend(members.chain(defaults).map(whole));
                may.extend(states().any(|state| state.defaults[table].is_none()).then(|| vec![0]));
            }
            between += usize::from(may.len() > 1);
            packets += 1;
            assert!(
                full || may.contains(&got),
                "seed {seed}, table {table}, key {key:?}: {got:x?}, not of {may:x?}"
            );
        }
    }
    assert!(between > packets / 10, "{between} of {packets} with writes under way");
}

/// What does not fit sends packets to user space, and what goes lets others in again.
#[test]
fn what_does_not_fit_comes_in_when_others_go() {
    let mut world = World::new(1);
    let table = TableId::from(TERNARY);
    let action = TableAction::Call(ActionCall { action: ActionId(0), args: Vec::new() });
    let (mut out, mut state) = (Vec::new(), State::default());
    // Each of these ranges is eight elements: the map has room for six of them.
    for handle in 0..SIZE {
        let mask = handle % 8;
        let key = vec![
            MatchParam::Ternary { value: mask.into(), mask: mask.into() },
            MatchParam::Range { low: 1_u8.into(), high: 30_u8.into() },
        ];
        let _ = world.mirror.insert(table, handle, &key, handle / 8, &action, &mut out);
        state.entries[TERNARY].insert(handle, (key, handle / 8, action.clone()));
    }
    assert!(world.mirror.is_full());
    for handle in 0..SIZE {
        if !world.mirror.is_full() {
            break;
        }
        world.mirror.remove(table, handle, &mut out).expect("it is there");
        state.entries[TERNARY].remove(&handle);
    }
    assert!(!world.mirror.is_full() && state.entries[TERNARY].len() >= 4);
    world.queue(out, state.clone());
    world.write_on(u64::MAX);
    for one in 0..8 {
        for other in 0..32 {
            let expected = world.expected(&state, TERNARY, &[one, other], 0);
            assert_eq!(world.packet(TERNARY, &[one, other], 0), expected, "{one}, {other}");
        }
    }
    let mut out = Vec::new();
    world.mirror.clear(table, &mut out);
    world.queue(out, State::default());
    world.write_on(u64::MAX);
    assert_eq!(world.packet(TERNARY, &[7, 7], 0), [0]);
}

/// A group that changes without end has room all the time.
#[test]
fn groups_change_without_end() {
    let mut world = World::new(2);
    let profile = ProfileId::from(0);
    let mut waits = 0;
    for round in 0..40_000_u32 {
        let mut out = Vec::new();
        world
            .mirror
            .set_group(profile, round % 3, &[(round % 4, 1 + round % 16)], &mut out)
            .expect("it fits");
        waits += out.iter().filter(|op| op.is_wait()).count();
        world.queue(out, State::default());
        world.write_on(u64::MAX);
    }
    let groups = world.mirror.shape.groups[0].expect("a selector");
    assert!(world.maps[groups].len() < 5000 && (1..1000).contains(&waits), "{waits} waits");
}
