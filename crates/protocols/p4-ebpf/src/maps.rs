//! Which maps a program has, and what is where in their keys and values.
//!
//! ```text
//! vector     per CPU, one value: the packet header vector as in the other engines, then results, then scratch
//! config     one value: flags, the zero of time, a time for tests
//! ports      hash: interface index -> port number
//! devices    device map: port number -> interface
//! statistics per CPU: packets by how they ended
//! targets    array, for tc: port number -> interface index, and whether packets may go straight to its other end
//! defaults   one value: for each table the word of its default record
//! table T    exact: hash of the key; lpm: a trie, the prefix last; ternary: masks, and a hash of (mask, masked key) -> (rank, word)
//! records N  array: records of up to N words, of all tables and profiles; the first one is empty
//! direct T   array: packets and bytes of each entry (handle + 1; 0 is the default entry)
//! hits T     array: microseconds at which each entry was hit last (handle + 1)
//! meter M    array of locked values: whether it is configured, and the buckets of its rates; of an entry's meter at handle + 1
//! digests    ring buffer: the number of a learn list, and a sample
//! broadcast  multicast group -> device map of its interfaces, for XDP; copies: the same as a list, for tc
//! programs   array, one for each hook: the program itself, for packets that go round again
//! mirrors    hash, for tc: mirror session -> port, and the session again
//! profile    hash: member -> word; with a selector also (group, place) -> member, (group, all ones) -> how many, and the first place
//! set V      for each mask that a transition looks at it by: a hash of its values' words under that mask
//! ```
//! A record is words: the action's number plus 1 in the low half of the first (with [`MEMBER`]: a member of the profile), the
//! handle plus 1 in its high half; then the arguments as [`barewire_p4::key::arg_words`] lays them out. What finds a record holds one
//! *word*: of records without arguments the record itself, of others its place in `records`. A record that packets may find is never
//! written: a changed entry gets another place, and then another word. So a packet sees an entry as it was or as it is, whole.
//!
//! A look-up in a hash gives an address, and the kernel gives the memory there to the next element that is written as soon as this one
//! goes, or is set anew. So the values of tables' hashes, of members and of groups have their own key before their words: whoever reads
//! those and then finds another key looks again ([`owned`]). And they begin with a lock: with it the kernel changes an element where it is.
//! Otherwise a packet that looks for one while it is set anew may even find none. Programs need not take it: of a word only one half
//! changes.

use crate::pieces::{ConstPiece, constants};
use barewire_ebpf::{MapKind, MapSpec};
use barewire_p4::ir::{
    MatchKind, Program, Table, TableActions, TableKind, TransitionMatch, ValueSet, ValueSetId,
};
use barewire_p4::key::{KeyLayout, arg_words};
use barewire_p4::phv::Layout;
use num_bigint::BigUint;
use std::collections::BTreeMap;

/// In a record's low half: what follows is the number of a member of the table's profile.
pub const MEMBER: u32 = 1 << 31;
/// With [`MEMBER`]: a group of the table's profile, whose number follows.
pub const GROUP: u32 = 1 << 30;
/// In the place of a member's position in a group: how many there are.
pub const GROUP_LEN: u32 = u32::MAX;
/// The most places of members in all groups of a profile.
pub const MAX_GROUP_PLACES: u32 = 1 << 18;
/// Bytes of a record before its arguments.
pub const RECORD_ARGS: u32 = 8;
/// The most masks of a ternary table.
pub const MAX_MASKS: u32 = 64;
/// The longest key.
pub const MAX_KEY: u32 = 200;
/// The largest vector, results and scratch included: offsets have sixteen bits.
pub const MAX_VECTOR: u32 = 32_000;
/// Port numbers below this can have an interface.
pub const MAX_PORTS: u32 = 1024;
/// The most entries a map is made for.
pub const MAX_ENTRIES: u32 = 1 << 20;

/// What became of a packet, in the vector's [`Shape::result`].
pub mod verdict {
    /// Sent out of the port in the second word.
    pub const FORWARD: u64 = 1;
    /// Dropped; the second word is one of [`super::drop_reason`].
    pub const DROP: u64 = 2;
    /// To user space; the second word is the position of the slow path's reason.
    pub const SLOW: u64 = 3;
    /// Copies are sent for the multicast group in the second word.
    pub const COPIES: u64 = 4;
    /// To the controller, behind a tag, by the port in the second word.
    pub const CONTROLLER: u64 = 5;
    /// To user space in a later round, behind a tag and a context.
    pub const AGAIN: u64 = 6;
}

/// Words behind the vector's keys, for packets that go round again.
pub mod recirculate {
    /// Not 0: the program was called by itself.
    pub const MARK: u32 = 0;
    /// Not 0: this is not a packet's first round, or it is a clone.
    pub const ROUND: u32 = 1;
    /// The context: the request in the first half, its kind in the second one; when it leaves, with the program's number above the kind.
    pub const HEAD: u32 = 2;
    /// Bits of the kind.
    pub const EPOCH_SHIFT: u32 = 8;
    /// Not 0: a clone was made, at tc (for tests, which make it themselves).
    pub const CLONED: u32 = 3;
    /// Not 0: a clone of the packet as it leaves egress is to be made when the packet has left.
    pub const PENDING: u32 = 4;
    /// The fields that go with the packet.
    pub const KEPT: u32 = 5;
}

/// Why packets are dropped.
pub mod drop_reason {
    #![allow(missing_docs)]
    pub const PROGRAM: u64 = 0;
    pub const ASSERT: u64 = 1;
    pub const ASSUME: u64 = 2;
    pub const NO_HEADROOM: u64 = 3;
    pub const NO_PORT: u64 = 4;
    pub const NO_REPLICA: u64 = 5;
    pub const COUNT: u64 = 6;
}

/// Offsets in the value of `config`.
pub mod config {
    /// [`ALL`]: every packet goes to user space. [`MOVING`]: the program stands at both hooks.
    pub const ALL_SLOW: u32 = 0;
    #[allow(missing_docs)]
    pub const ALL: u64 = 1;
    #[allow(missing_docs)]
    pub const MOVING: u64 = 2;
    /// Nanoseconds of CLOCK_MONOTONIC at which the switch started.
    pub const STARTED_NS: u32 = 8;
    /// Not 0: the time in microseconds, plus 1, that every packet has (tests).
    pub const FIXED_NOW_US: u32 = 16;
    /// Not 0: longer packets go to user space, as an interface has no room for them.
    pub const MAX_FRAME: u32 = 24;
    /// The controller's port, plus 1; 0: there is none.
    pub const CPU_PORT: u32 = 32;
    /// Sixteen bytes that nobody else knows, for what goes there.
    pub const TAG: u32 = 40;
    /// The number of this program among those of the switch, shifted to where it stands in a context ([`super::recirculate::EPOCH_SHIFT`]).
    pub const EPOCH: u32 = 56;
    /// Bytes of the value.
    pub const LEN: u32 = 64;
}

/// Where in the value of a hash whose elements say whose they are the key is, padded to words; the value's own words follow.
pub const OWNER: u32 = 8;

/// Bytes of such a value.
pub const fn owned_len(key: u32, value: u32) -> u32 {
    OWNER + key.next_multiple_of(8) + value
}

/// Such a value.
pub fn owned(key: &[u8], words: &[u64]) -> Vec<u8> {
    let mut value = vec![0; OWNER as usize];
    value.extend(key);
    value.resize(OWNER as usize + key.len().next_multiple_of(8), 0);
    value.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    value
}

/// Offsets in the values of `targets`.
pub mod targets {
    /// The interface's index, 32 bits; 0 where there is none.
    pub const IFINDEX: u32 = 0;
    /// Not 0: the interface's other end is in another network namespace, and packets may go straight there.
    pub const PEER: u32 = 4;
    /// Bytes of a value.
    pub const LEN: u32 = 8;
}

/// Bytes of an element of a ternary table's mask array: in use or not, then the mask.
pub const fn mask_bytes(key: u32) -> u32 {
    8 + key.next_multiple_of(8)
}

/// What the first word of such an element begins with; the number by which the mask's entries are found follows.
pub mod mask {
    /// No mask, and none behind it.
    pub const END: u32 = 0;
    /// A mask.
    pub const USED: u32 = 1;
    /// No mask any more, or not yet; there may be some behind it.
    pub const HOLE: u32 = 2;
}

/// Places for records beside those of a table's entries: for defaults and for what is changed, until no packet looks at what it was.
fn spare(entries: u32) -> u32 {
    64 + entries.min(1 << 14)
}

/// Words of the places that a record of so many is kept at.
fn class(words: u32) -> u32 {
    words.next_power_of_two()
}

/// What is where in the value of a meter: the lock, whether it is configured, then for each rate, the highest first, words.
pub mod meter {
    /// 32 bits; not 0: it is configured.
    pub const CONFIGURED: u32 = 4;
    /// The first rate.
    pub const RATES: u32 = 8;
    /// What a microsecond produces: the top 64 bits of the number, which begin with a one; 0 for nothing.
    pub const FACTOR: u32 = 0;
    /// Where its point is: see [`factor`].
    pub const SHIFT: u32 = 8;
    /// The most tokens.
    pub const BURST: u32 = 16;
    /// Tokens there are.
    pub const TOKENS: u32 = 24;
    /// What had been produced when it was used last.
    pub const LAST: u32 = 32;
    /// Bytes of a rate.
    pub const RATE: u32 = 40;

    /// Bytes of a value.
    pub const fn bytes(rates: u32) -> u32 {
        RATES + RATE * rates
    }

    /// A rate without floating point. With `f` and `s` of it, `now` times the rate is `now * 2^k * f / 2^64` without its last eleven
    /// bits, shifted right by `k + s`; `k` brings the first one of `now` to the front.
    pub fn factor(per_us: f64) -> (u64, i64) {
        let bits = per_us.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i64;
        if per_us <= 0.0 || exponent == 0 {
            // Below 2^-1022 no time of ours makes a token.
            return (0, 0);
        }
        ((bits << 11) | 1 << 63, 1011 - exponent)
    }
}

/// How one table is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableShape {
    /// Its key.
    pub key: KeyLayout,
    /// Words of its records.
    pub record_words: u32,
    /// Where records are: none where they are one word, which is kept instead of its place.
    pub records: Option<usize>,
    /// The map that is looked up by key: exact or lpm entries, or (mask, masked key) of ternary ones.
    pub entries: Option<usize>,
    /// Ternary: masks.
    pub masks: Option<usize>,
    /// Counters of entries.
    pub direct: Option<usize>,
    /// When entries were hit last, where they may time out.
    pub hits: Option<usize>,
    /// Where the word of its default record lies in `defaults`.
    pub default_at: u32,
    /// Members of its profile.
    pub members: Option<MemberShape>,
    /// Groups of its profile, where that has a selector.
    pub groups: Option<usize>,
    /// Lpm: which key field is the prefix.
    pub prefix: Option<usize>,
    /// Entries that are compared in code; then `entries` is an array of their words.
    pub consts: Vec<ConstPiece>,
    /// Exact: the key is so short that it is the place in `entries`, an array of words.
    pub indexed: bool,
}

impl TableShape {
    /// Whether its entries are compared in code.
    pub fn is_const(&self) -> bool {
        !self.consts.is_empty()
    }

    /// Whether `entries` is an array of words, 0 where there is no entry.
    pub fn is_array(&self) -> bool {
        self.is_const() || self.indexed
    }

    /// The order in which key fields stand in the key: the prefix is last.
    pub fn order(&self) -> Vec<usize> {
        let fields = self.key.slots.len();
        let mut order: Vec<usize> = (0..fields).filter(|at| Some(*at) != self.prefix).collect();
        order.extend(self.prefix);
        order
    }
}

/// How a profile's members are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberShape {
    /// Member -> word.
    pub map: usize,
    /// Words of their records.
    pub record_words: u32,
    /// Where records are, as of a table.
    pub records: Option<usize>,
}

/// How one parser value set is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetShape {
    /// Words of each part of a value.
    pub words: Vec<u32>,
    /// By the masks that transitions look at it by (none: whole values): the map of its values under that mask.
    pub by_mask: Vec<(Option<Vec<BigUint>>, usize)>,
}

impl SetShape {
    /// A value's words under a mask, as they stand in the map's key: part by part, the least significant first.
    pub fn key(&self, value: &[BigUint], mask: Option<&[BigUint]>) -> Vec<u8> {
        let digit = |n: &BigUint, word: u32| n.iter_u64_digits().nth(word as usize).unwrap_or(0);
        let mut key = Vec::new();
        for (part, words) in self.words.iter().enumerate() {
            for word in 0..*words {
                let mask = mask.map_or(u64::MAX, |mask| mask.get(part).map_or(0, |mask| digit(mask, word)));
                let value = value.get(part).map_or(0, |value| digit(value, word));
                key.extend((value & mask).to_ne_bytes());
            }
        }
        key
    }
}

/// What packets that go round again need, and clones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgainShape {
    /// Where [`recirculate`] lies in the vector.
    pub at: u32,
    /// Words of fields that go with a packet, at most.
    pub words: u32,
    /// Where the program calls itself: the arrays whose only element it is, at XDP and at tc.
    pub programs: Option<[usize; 2]>,
    /// Mirror session -> port, at tc, where clones are made.
    pub mirrors: Option<usize>,
    /// Packets are resubmitted and recirculated.
    pub rounds: bool,
    /// At tc, clones of what leaves egress are made: where in the vector its headers are kept for them.
    pub headers: Option<u32>,
}

/// In the place of a mirror session's port: it is more than a port.
pub const NO_PLAIN_SESSION: u32 = u32::MAX;

impl AgainShape {
    /// Where a word of [`recirculate`] lies.
    pub fn word(&self, word: u32) -> i16 {
        (self.at + 8 * word) as i16
    }

    /// Bytes of a context.
    pub fn context(&self) -> u32 {
        8 * (1 + self.words)
    }
}

/// All of a program's maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Descriptions, in the order of their numbers.
    pub maps: Vec<MapSpec>,
    /// The vector's layout.
    pub layout: Layout,
    /// Bytes of the vector's map value.
    pub vector_bytes: u32,
    /// Where results lie in it: verdict, detail, port.
    pub result: u32,
    /// Scratch words.
    pub scratch: u32,
    /// Where keys are put together.
    pub key_at: u32,
    /// Tables.
    pub tables: Vec<TableShape>,
    /// Counter arrays that have a map.
    pub counters: Vec<usize>,
    /// Register arrays.
    pub registers: Vec<usize>,
    /// Meter arrays; those of tables are indexed by handle + 1.
    pub meters: Vec<usize>,
    /// Places for records, by words.
    pub records: Vec<(u32, usize)>,
    /// Profiles: their members.
    pub members: Vec<MemberShape>,
    /// Profiles with selectors: places of groups.
    pub groups: Vec<Option<usize>>,
    /// Parser value sets.
    pub value_sets: Vec<SetShape>,
    /// Digests, where the program has any.
    pub ring: Option<usize>,
    /// For XDP: multicast group -> device map of its copies, where copies are made here.
    pub broadcast: Option<usize>,
    /// For tc: multicast group -> how many copies, and their interfaces.
    pub copies: Option<usize>,
    /// For packets that go round again.
    pub again: Option<AgainShape>,
    /// Tables of CRCs that the code looks into, by what they are of.
    pub crc: Vec<(barewire_p4::ir::CrcParameters, u32)>,
}

/// Numbers of the maps that every program has.
#[allow(missing_docs)]
pub mod fixed {
    pub const VECTOR: usize = 0;
    pub const CONFIG: usize = 1;
    pub const PORTS: usize = 2;
    pub const DEVICES: usize = 3;
    pub const STATISTICS: usize = 4;
    pub const DEFAULTS: usize = 5;
    pub const CONSTANTS: usize = 6;
    pub const TARGETS: usize = 7;
}

/// Scratch words: for wide values, parser keys, varbit lengths.
pub const SCRATCH_WORDS: u32 = 64;
/// Element of `statistics`: to user space for their length.
pub const TOO_LONG: u32 = 2 + drop_reason::COUNT as u32;
/// Element of `statistics`: digests that the ring buffer had no room for.
pub const DIGEST_LOST: u32 = TOO_LONG + 1;
/// Element of `statistics`: to user space at XDP for a clone that tc makes.
pub const WANTS_CLONE: u32 = DIGEST_LOST + 1;
/// Elements of `statistics`: forwarded, to user space, dropped by reason, to user space for their length, lost digests, to user space
/// for clones.
pub const STATISTICS: u32 = WANTS_CLONE + 1;
/// Bytes before a packet for the controller.
pub const TAG_LEN: u32 = 32;
/// The most words of fields that go round with a packet.
pub const MAX_KEPT: u32 = 15;
/// The most words of fields that go with a clone.
pub const MAX_CLONE_KEPT: u32 = 2;
/// The most bytes of a context, which stands behind the tag of a packet that user space takes in a later round.
pub const MAX_CONTEXT: u32 = 8 * (1 + MAX_KEPT);
/// Where in the tag its length is, in the network's order.
pub const TAG_CONTEXT: u32 = 14;
/// Where in them the secret is.
pub const TAG_SECRET: u32 = 16;
/// Bytes of the ring buffer of digests.
pub const RING_BYTES: u32 = 1 << 18;
/// Bytes of a record before a digest's items: the list's number.
pub const RECORD_HEADER: u32 = 8;
/// The longest record.
pub const MAX_DIGEST: u32 = 400;
/// The most multicast groups with copies.
pub const MAX_GROUPS: u32 = 4096;
/// The most copies of a packet.
pub const MAX_COPIES: u32 = 64;
/// Bytes of a list of them: how many, and their interfaces.
pub const COPIES_LEN: u32 = 4 + 4 * MAX_COPIES;

fn map(name: &str, kind: MapKind, key: u32, value: u32, entries: u32) -> MapSpec {
    MapSpec {
        name: name.to_owned(),
        kind,
        key,
        value,
        entries,
        initial: Vec::new(),
        lock: false,
        inner: None,
    }
}

/// A hash whose elements say whose they are ([`owned`]).
fn owned_map(name: &str, key: u32, value: u32, entries: u32) -> MapSpec {
    MapSpec { lock: true, ..map(name, MapKind::Hash, key, owned_len(key, value), entries) }
}

fn array(name: &str, value: u32, entries: u32) -> MapSpec {
    map(name, MapKind::Array, 4, value, entries.max(1))
}

/// Words of a table's records: the action, and the arguments of the largest.
fn words_of_table(program: &Program, table: &Table) -> u32 {
    // A default entry may run an action that is not among the table's.
    let actions = table.actions.iter().copied().chain(table.default.iter().map(|call| call.action));
    let args = actions.map(|action| arg_words(program.actions[action.at()].params.iter().map(|p| p.width)).1);
    1 + args.max().unwrap_or(0)
}

/// Words of a profile's records: those of the table that needs most.
fn words_of_profile(program: &Program, at: usize) -> u32 {
    let users = program.tables.iter();
    let users = users.filter(|t| matches!(t.source, TableActions::Profile(p) if p.at() == at));
    users.map(|table| words_of_table(program, table)).max().unwrap_or(1)
}

/// How many records of each class of words a program needs, the spare ones included. A record of one word needs no map.
fn record_places(program: &Program) -> BTreeMap<u32, u32> {
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    let tables_need = program.tables.iter().map(|table| {
        let entries = if table.key.is_empty() { 0 } else { entries_of(table.max_size) };
        (words_of_table(program, table), entries)
    });
    let profiles_need = program
        .profiles
        .iter()
        .enumerate()
        .map(|(at, p)| (words_of_profile(program, at), entries_of(p.max_size)));
    for (words, entries) in tables_need.chain(profiles_need).filter(|(words, _)| *words > 1) {
        let of_class = places.entry(class(words)).or_insert(1);
        *of_class = of_class.saturating_add(entries.saturating_add(spare(entries)));
    }
    places
}

impl Shape {
    /// Lays out a program's maps.
    pub fn of(program: &Program) -> Shape {
        let layout = Layout::of(program);
        let result = layout.words * 8;
        let scratch = result + 24;
        let key_at = scratch + SCRATCH_WORDS * 8;
        let vector_bytes = key_at + 2 * (MAX_KEY + 24);
        let mut maps = vec![
            map("vector", MapKind::PercpuArray, 4, vector_bytes, 1),
            array("config", config::LEN, 1),
            map("ports", MapKind::Hash, 4, 4, MAX_PORTS),
            map("devices", MapKind::DevMap, 4, 4, MAX_PORTS),
            map("statistics", MapKind::PercpuArray, 4, 8, STATISTICS),
            array("defaults", 8, 1),
            array("constants", 8, 1),
            array("targets", targets::LEN, MAX_PORTS),
        ];
        let mut add = |spec: MapSpec| {
            maps.push(spec);
            maps.len() - 1
        };
        let records: Vec<(u32, usize)> = record_places(program)
            .into_iter()
            .map(|(words, places)| (words, add(array(&format!("records.{words}"), 8 * words, places))))
            .collect();
        let records_of = |words: u32| {
            records.iter().find(|(known, _)| words > 1 && *known == class(words)).map(|(_, map)| *map)
        };
        let (mut members, mut groups) = (Vec::new(), Vec::new());
        for (at, profile) in program.profiles.iter().enumerate() {
            let record_words = words_of_profile(program, at);
            let entries = entries_of(profile.max_size);
            let map_of = add(owned_map(&profile.name, 4, 8, entries));
            members.push(MemberShape { map: map_of, record_words, records: records_of(record_words) });
            let name = format!("{}.g", profile.name.rsplit('.').next().unwrap_or(&profile.name));
            let places = profile.selector.as_ref();
            groups.push(places.map(|_| add(owned_map(&name, 8, 8, MAX_GROUP_PLACES))));
        }
        let mut tables = Vec::new();
        for (at, table) in program.tables.iter().enumerate() {
            let profile = match table.source {
                TableActions::Profile(profile) => Some((members[profile.at()], groups[profile.at()])),
                TableActions::Direct => None,
            };
            let record_words = words_of_table(program, table);
            let records = records_of(record_words);
            tables.push(table_shape(table, record_words, records, 8 * at as u32, profile, &mut add));
        }
        let counters = program
            .counters
            .iter()
            .map(|counter| {
                add(array(&counter.name, 16, if counter.direct.is_some() { 1 } else { counter.size }))
            })
            .collect();
        let registers = program
            .registers
            .iter()
            .map(|register| add(array(&register.name, 8 * register.width.div_ceil(64).max(1), register.size)))
            .collect();
        let meters = program
            .meters
            .iter()
            .map(|meter| {
                let entries = match meter.direct {
                    Some(table) => entries_of(program.tables[table.at()].max_size) + 1,
                    None => meter.size,
                };
                add(MapSpec { lock: true, ..array(&meter.name, meter::bytes(meter.rate_count), entries) })
            })
            .collect();
        let sets = program.value_sets.iter().enumerate();
        let value_sets = sets.map(|(at, set)| set_shape(program, at.into(), set, &mut add)).collect();
        let ring = (!program.learn_lists.is_empty())
            .then(|| add(map("digests", MapKind::RingBuf, 0, 0, RING_BYTES)));
        maps[fixed::DEFAULTS].value = (8 * program.tables.len() as u32).max(8);
        Shape {
            maps,
            layout,
            vector_bytes,
            result,
            scratch,
            key_at,
            tables,
            counters,
            registers,
            meters,
            records,
            members,
            groups,
            value_sets,
            ring,
            broadcast: None,
            copies: None,
            again: None,
            crc: Vec::new(),
        }
    }

    /// With what packets need that go round again, clones of what came in, and those of what leaves egress: so many words of fields go
    /// along, where there are any.
    pub fn add_rounds(&mut self, rounds: Option<u32>, clones: Option<u32>, of_egress: Option<u32>) {
        let mut add = |spec: MapSpec| {
            self.maps.push(spec);
            self.maps.len() - 1
        };
        let programs = rounds
            .or(of_egress)
            .map(|_| ["programs", "programs.tc"].map(|name| add(map(name, MapKind::ProgArray, 4, 4, 1))));
        let mirrors = clones.or(of_egress).map(|_| add(map("mirrors", MapKind::Hash, 4, 8, crate::SESSIONS)));
        let words = rounds.max(clones).max(of_egress).unwrap_or(0);
        let at = self.vector_bytes;
        self.vector_bytes += 8 * (recirculate::KEPT + words);
        let headers = of_egress.map(|_| self.vector_bytes);
        self.again = Some(AgainShape { at, words, programs, mirrors, rounds: rounds.is_some(), headers });
        if headers.is_some() {
            self.vector_bytes += 8 * self.layout.words;
        }
        self.maps[fixed::VECTOR].value = self.vector_bytes;
    }

    /// With a context for packets that user space takes in a later round, for which this only says how long they were.
    pub fn add_later(&mut self) {
        self.again = Some(AgainShape {
            at: self.vector_bytes,
            words: 1,
            programs: None,
            mirrors: None,
            rounds: false,
            headers: None,
        });
        self.vector_bytes += 8 * (recirculate::KEPT + 1);
        self.maps[fixed::VECTOR].value = self.vector_bytes;
    }

    /// With maps for the copies of multicast groups.
    pub fn add_groups(&mut self) {
        let inner = Some(Box::new(map("copies", MapKind::DevMap, 4, 4, MAX_COPIES)));
        self.maps.push(MapSpec { inner, ..map("broadcast", MapKind::HashOfMaps, 4, 4, MAX_GROUPS) });
        self.broadcast = Some(self.maps.len() - 1);
        self.maps.push(map("copies", MapKind::Hash, 4, COPIES_LEN, MAX_GROUPS));
        self.copies = Some(self.maps.len() - 1);
    }
}

/// Values of a set that does not say how many it holds.
const SET_VALUES: u32 = 1 << 16;

fn set_shape(
    program: &Program,
    id: ValueSetId,
    set: &ValueSet,
    add: &mut impl FnMut(MapSpec) -> usize,
) -> SetShape {
    let words: Vec<u32> = set.widths.iter().map(|width| width.div_ceil(64).max(1)).collect();
    let key = 8 * words.iter().sum::<u32>();
    let most = if set.max_size == 0 { SET_VALUES } else { set.max_size };
    let mut shape = SetShape { words, by_mask: Vec::new() };
    let states = program.parsers.iter().flat_map(|parser| &parser.states);
    for transition in states.flat_map(|state| &state.transitions) {
        let TransitionMatch::ValueSet(wanted, mask) = &transition.when else { continue };
        if *wanted != id || key == 0 || key > MAX_KEY || shape.by_mask.iter().any(|(known, _)| known == mask)
        {
            continue;
        }
        let name = set.name.rsplit('.').next().unwrap_or(&set.name);
        let name = if mask.is_some() { format!("{name}.{}", shape.by_mask.len()) } else { name.to_owned() };
        // New values come before the ones that they replace go.
        let map = add(map(&name, MapKind::Hash, key, 4, entries_of(most.saturating_mul(2))));
        shape.by_mask.push((mask.clone(), map));
    }
    shape
}

/// Keys of so many bits are places in an array, whatever the table's size: 32 KiB at most.
const INDEX_BITS: u32 = 12;

/// Whether a table's key, such as a port, may be a place in an array: a look-up there takes a few instructions and no call.
fn is_index(table: &Table) -> bool {
    let [field] = &table.key[..] else { return false };
    table.kind == TableKind::Exact && field.width <= INDEX_BITS
}

fn entries_of(max_size: u32) -> u32 {
    max_size.clamp(1, MAX_ENTRIES)
}

fn table_shape(
    table: &Table,
    record_words: u32,
    records: Option<usize>,
    default_at: u32,
    profile: Option<(MemberShape, Option<usize>)>,
    add: &mut impl FnMut(MapSpec) -> usize,
) -> TableShape {
    let key = KeyLayout::of(table);
    let entries = entries_of(table.max_size);
    let name = |suffix: &str| format!("{}{suffix}", table.name.rsplit('.').next().unwrap_or(&table.name));
    let spec = |add: &mut dyn FnMut(MapSpec) -> usize, suffix: &str, kind, key: u32, value: u32, entries| {
        add(map(&name(suffix), kind, key, value, entries))
    };
    let mut shape = TableShape {
        record_words,
        records,
        entries: None,
        masks: None,
        direct: None,
        hits: None,
        default_at,
        members: profile.map(|(members, _)| members),
        groups: profile.and_then(|(_, groups)| groups),
        prefix: None,
        consts: constants(table, &key),
        indexed: is_index(table),
        key,
    };
    if shape.is_const() {
        shape.entries = Some(spec(add, "", MapKind::Array, 4, 8, table.entries.len() as u32));
    } else if shape.indexed {
        shape.entries = Some(spec(add, "", MapKind::Array, 4, 8, 1 << table.key[0].width));
    } else if !table.key.is_empty() && shape.key.bytes <= MAX_KEY {
        match table.kind {
            TableKind::Exact => {
                shape.entries = Some(add(owned_map(&name(""), shape.key.bytes, 8, entries)));
            }
            TableKind::Lpm => {
                shape.prefix = table.key.iter().position(|field| field.kind == MatchKind::Lpm);
                // Kernels before 6.13 want room for a node more when one is changed.
                shape.entries = Some(spec(add, "", MapKind::LpmTrie, 4 + shape.key.bytes, 8, entries + 1));
            }
            TableKind::Ternary | TableKind::Range => {
                let (bytes, many) = (shape.key.bytes, entries.saturating_mul(4).min(MAX_ENTRIES));
                shape.masks = Some(spec(add, ".m", MapKind::Array, 4, mask_bytes(bytes), MAX_MASKS));
                shape.entries = Some(add(owned_map(&name(""), 4 + bytes, 16, many)));
            }
        }
    }
    if table.counter.is_some() {
        shape.direct = Some(spec(add, ".c", MapKind::Array, 4, 16, entries + 1));
    }
    if table.support_timeout && !table.key.is_empty() {
        shape.hits = Some(spec(add, ".t", MapKind::Array, 4, 8, entries + 1));
    }
    shape
}
