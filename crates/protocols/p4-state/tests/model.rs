//! Every table structure against a list that is searched from end to end, under random operations.

mod support;

use barewire_base::Prng;
use barewire_p4::ir::{MatchKind, TableId, TableKind};
use barewire_p4::key::{KeyLayout, MatchParam};
use barewire_p4::state::State;
use barewire_p4_state::{ARGS, EntryError, HIT, ProgramState, StateError, TableAction};
use num_bigint::BigUint;
use std::collections::BTreeMap;
use support::*;

const T: TableId = TableId(0);

/// One entry of the model.
struct Entry {
    params: Vec<MatchParam>,
    priority: u32,
    n: u64,
}

/// How random keys are made: few different bits collide more.
#[derive(Clone, Copy)]
struct Taste {
    /// Values have at most so many bits set apart from the field's top ones.
    pool: u64,
    masks: u64,
    priorities: u64,
}

struct Model {
    prng: Prng,
    layout: KeyLayout,
    kind: TableKind,
    taste: Taste,
    entries: BTreeMap<u32, Entry>,
}

impl Model {
    /// A value: from a pool of few, spread over the field; sometimes anything.
    fn value(&mut self, width: u32) -> BigUint {
        let n = if self.prng.chance(0.1) { self.prng.next_u64() } else { self.prng.below(self.taste.pool) };
        let spread = Prng::new(n).next_u64();
        let mut wide = BigUint::from(0_u8);
        for word in 0..width.div_ceil(64) {
            // Values share their upper parts half of the time.
            let part = if n.is_multiple_of(2) && word > 0 {
                spread % 3
            } else {
                Prng::new(n + u64::from(word)).next_u64()
            };
            wide = wide << 64_u32 | BigUint::from(part);
        }
        // And those of one word their upper half.
        if n % 4 == 1 { wide & ones(width / 2) } else { wide & ones(width) }
    }

    fn mask(&mut self, width: u32) -> BigUint {
        let n = self.prng.below(self.taste.masks);
        match n {
            0 => ones(width),
            1 => BigUint::ZERO,
            2 => ones(width / 2) << (width - width / 2),
            _ => {
                let mut prng = Prng::new(n * 1000 + u64::from(width));
                let mut wide = BigUint::ZERO;
                for _ in 0..width.div_ceil(64) {
                    wide = wide << 64_u32 | BigUint::from(prng.next_u64() | prng.next_u64());
                }
                wide & ones(width)
            }
        }
    }

    fn params(&mut self) -> Vec<MatchParam> {
        let slots = self.layout.slots.clone();
        slots
            .iter()
            .map(|slot| {
                let value = self.value(slot.width);
                match slot.kind {
                    MatchKind::Exact => MatchParam::Exact(value),
                    MatchKind::Valid => MatchParam::Valid(value.bit(0)),
                    MatchKind::Lpm => {
                        let prefix_len = self.prng.below(u64::from(slot.width) + 1) as u32;
                        let mask = ones(prefix_len) << (slot.width - prefix_len);
                        MatchParam::Lpm { value: value & mask, prefix_len }
                    }
                    MatchKind::Ternary => {
                        let mask = self.mask(slot.width);
                        MatchParam::Ternary { value: value & &mask, mask }
                    }
                    MatchKind::Optional => {
                        let mask = if self.prng.chance(0.3) { BigUint::ZERO } else { ones(slot.width) };
                        MatchParam::Ternary { value: value & &mask, mask }
                    }
                    MatchKind::Range => {
                        let other = self.value(slot.width);
                        let (low, high) = if value <= other { (value, other) } else { (other, value) };
                        match self.prng.below(4) {
                            0 => MatchParam::Range { low: BigUint::ZERO, high: ones(slot.width) },
                            1 => MatchParam::Range { high: low.clone(), low },
                            _ => MatchParam::Range { low, high },
                        }
                    }
                }
            })
            .collect()
    }

    /// A key: often one that an entry matches.
    fn key(&mut self) -> Vec<BigUint> {
        let slots = self.layout.slots.clone();
        let like = self.entries.len().checked_sub(1).and_then(|_| {
            let at = self.prng.below(self.entries.len() as u64) as usize;
            self.prng.chance(0.7).then(|| self.entries.values().nth(at).unwrap().params.clone())
        });
        slots
            .iter()
            .enumerate()
            .map(|(at, slot)| {
                let random = self.value(slot.width);
                match like.as_ref().map(|params| &params[at]) {
                    None => random,
                    Some(MatchParam::Exact(value)) => value.clone(),
                    Some(MatchParam::Valid(valid)) => BigUint::from(u8::from(*valid)),
                    Some(MatchParam::Lpm { value, prefix_len }) => {
                        value | (random & ones(slot.width - prefix_len))
                    }
                    Some(MatchParam::Ternary { value, mask }) => value | (random & (ones(slot.width) ^ mask)),
                    Some(MatchParam::Range { low, high }) => {
                        if self.prng.chance(0.5) {
                            low.clone()
                        } else {
                            (low + high) / 2_u8
                        }
                    }
                }
            })
            .collect()
    }

    fn prefix_len(entry: &Entry) -> u32 {
        entry
            .params
            .iter()
            .map(|p| if let MatchParam::Lpm { prefix_len, .. } = p { *prefix_len } else { 0 })
            .sum()
    }

    fn ternary(&self) -> bool {
        matches!(self.kind, TableKind::Ternary | TableKind::Range)
    }

    fn find(&self, key: &[BigUint]) -> Option<u32> {
        let hits = self.entries.iter().filter(|(_, entry)| {
            let fields = entry.params.iter().zip(key).zip(&self.layout.slots);
            fields.into_iter().all(|((param, value), slot)| matches(param, value, slot.width))
        });
        if self.ternary() {
            hits.min_by_key(|&(&handle, entry)| (entry.priority, handle)).map(|(&handle, _)| handle)
        } else {
            hits.max_by_key(|(_, entry)| Model::prefix_len(entry)).map(|(&handle, _)| handle)
        }
    }

    fn twin(&self, params: &[MatchParam], priority: u32) -> Option<u32> {
        let same = |entry: &&Entry| entry.params == params && (!self.ternary() || entry.priority == priority);
        self.entries.iter().find(|(_, entry)| same(entry)).map(|(&handle, _)| handle)
    }
}

fn check(state: &mut ProgramState, model: &mut Model, context: &str) {
    let values = model.key();
    let expected = model.find(&values);
    let words = key(&model.layout, &values);
    let table = &mut state.tables[0];
    assert_eq!(table.find_index(&words).checked_sub(1), expected, "{context}: key {values:?}");
    let record = match words[..] {
        [k0] => table.find1(k0),
        [k0, k1] => table.find2(k0, k1),
        _ => table.find(&words),
    };
    assert_eq!(record[0] & HIT != 0, expected.is_some(), "{context}");
    if let Some(handle) = expected {
        let n = model.entries[&handle].n;
        assert_eq!((record[0] as u32, record[ARGS], record[ARGS + 1]), (2, n % 512, n), "{context}");
    }
    let applied = state.apply(T, &words, 60, 5, &mut || unreachable!("no group"));
    assert_eq!((applied.hit, applied.handle), (expected.is_some(), expected.map(u64::from)), "{context}");
}

fn run(kind: TableKind, fields: &[(MatchKind, u32)], handles: u64, steps: u64, taste: Taste) {
    let mut of = table(kind, fields);
    for seed in 0..2 {
        of.max_size = if seed == 0 { 1 << 20 } else { 100 };
        let program = program(vec![of.clone()]);
        let mut state = ProgramState::new(&program);
        let layout = KeyLayout::of_fields(fields);
        let prng = Prng::new(seed);
        let mut model = Model { prng, layout, kind, taste, entries: BTreeMap::new() };
        for step in 0..steps {
            let context = format!("{fields:?} seed {seed} step {step}");
            // Grow, shrink, grow.
            let grow = if step / 1000 % 3 == 1 { 0.3 } else { 0.75 };
            let handle = model.prng.below(handles) as u32;
            if model.prng.chance(grow) {
                let params = model.params();
                let priority = model.prng.below(model.taste.priorities) as u32;
                let n = model.prng.below(1 << 48);
                let got = state.insert(T, handle, &params, priority, &TableAction::Call(call(n)));
                let refused = |source| {
                    Err(StateError::Refused {
                        subject: barewire_p4_state::Subject::Table,
                        name: "t".into(),
                        source,
                    })
                };
                if model.entries.contains_key(&handle) {
                    assert_eq!(got, refused(EntryError::HandleInUse { handle }), "{context}");
                } else if let Some(twin) = model.twin(&params, priority) {
                    assert_eq!(got, refused(EntryError::Duplicate { handle: twin }), "{context}");
                    assert_eq!(state.tables[0].handle_of(&params, priority), Ok(Some(twin)));
                } else {
                    assert_eq!(got, Ok(()), "{context}");
                    model.entries.insert(handle, Entry { params, priority, n });
                }
            } else if model.prng.chance(0.2) {
                let n = model.prng.below(1 << 48);
                let got = state.modify(T, handle, &TableAction::Call(call(n)));
                assert_eq!(got.is_ok(), model.entries.contains_key(&handle), "{context}");
                model.entries.entry(handle).and_modify(|entry| entry.n = n);
            } else {
                let got = state.remove(T, handle);
                assert_eq!(got.is_ok(), model.entries.remove(&handle).is_some(), "{context}");
            }
            check(&mut state, &mut model, &context);
        }
        assert_eq!(state.tables[0].len(), model.entries.len());
        for handle in model.entries.keys() {
            state.remove(T, *handle).unwrap();
        }
        model.entries.clear();
        check(&mut state, &mut model, "after all was removed");
    }
}

const TASTE: Taste = Taste { pool: 300, masks: 8, priorities: 5 };

use MatchKind::{Exact, Lpm, Optional, Range, Ternary, Valid};

#[test]
fn exact_keys() {
    let taste = Taste { pool: 3_000, ..TASTE };
    for fields in [
        &[(Exact, 16)][..],
        &[(Exact, 64)],
        &[(Valid, 1), (Exact, 32)],
        &[(Exact, 128)],
        &[(Exact, 48), (Exact, 48)],
        &[(Exact, 128), (Exact, 128), (Exact, 9), (Valid, 1)],
    ] {
        run(TableKind::Exact, fields, 1_500, 4_000, taste);
    }
}

#[test]
fn prefixes() {
    for fields in [
        &[(Lpm, 1)][..],
        &[(Lpm, 5)],
        &[(Lpm, 13)],
        &[(Lpm, 32)],
        &[(Lpm, 33)],
        &[(Lpm, 64)],
        &[(Lpm, 65)],
        &[(Lpm, 128)],
    ] {
        run(TableKind::Lpm, fields, 400, 4_000, TASTE);
    }
}

#[test]
fn prefixes_beside_exact_fields() {
    let taste = Taste { pool: 20, ..TASTE };
    for fields in [
        &[(Exact, 12), (Lpm, 32)][..],
        &[(Lpm, 32), (Exact, 8)],
        &[(Exact, 64), (Lpm, 128), (Valid, 1)],
        &[(Exact, 3), (Lpm, 7)],
    ] {
        run(TableKind::Lpm, fields, 400, 4_000, taste);
    }
}

#[test]
fn prefixes_too_long_for_a_trie() {
    run(TableKind::Lpm, &[(Lpm, 200)], 300, 3_000, TASTE);
    run(TableKind::Lpm, &[(Exact, 8), (Lpm, 129)], 300, 3_000, Taste { pool: 20, ..TASTE });
}

#[test]
fn masks_few_and_many() {
    for (masks, handles) in [(1, 300), (4, 2_000), (8, 2_000), (100_000, 1_500)] {
        let taste = Taste { masks, ..TASTE };
        for fields in [
            &[(Ternary, 32)][..],
            &[(Ternary, 32), (Ternary, 32), (Ternary, 16), (Ternary, 16), (Ternary, 8)],
            &[(Ternary, 128), (Ternary, 128), (Exact, 8)],
        ] {
            run(TableKind::Ternary, fields, handles, 4_000, taste);
        }
    }
}

#[test]
fn one_value_at_many_priorities() {
    let taste = Taste { pool: 3, masks: 2, priorities: 10_000 };
    run(TableKind::Ternary, &[(Ternary, 16), (Exact, 3)], 1_000, 6_000, taste);
}

#[test]
fn mixtures() {
    for fields in [
        &[(Exact, 9), (Lpm, 32), (Ternary, 48), (Valid, 1), (Optional, 16)][..],
        &[(Optional, 128), (Optional, 3)],
        &[(Lpm, 32), (Lpm, 32)],
    ] {
        run(TableKind::Ternary, fields, 1_000, 4_000, Taste { pool: 30, ..TASTE });
    }
    run(TableKind::Ternary, &[(Exact, 8)], 1_000, 3_000, Taste { pool: 30, ..TASTE });
}

#[test]
fn ranges() {
    for fields in [
        &[(Range, 16)][..],
        &[(Range, 9), (Range, 33)],
        &[(Exact, 8), (Range, 16), (Ternary, 32), (Range, 16)],
        &[(Range, 128), (Lpm, 32)],
    ] {
        run(TableKind::Range, fields, 1_000, 3_000, Taste { pool: 60, ..TASTE });
    }
}
