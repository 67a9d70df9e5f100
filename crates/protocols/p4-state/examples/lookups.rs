//! Nanoseconds a look-up and an update, for each kind of table: `cargo run --release -p barewire-p4-state --example lookups`.
//! With words, only the rows whose names contain one of them.
#![allow(clippy::disallowed_methods)] // a measurement reads the clock

#[path = "../tests/support/mod.rs"]
mod support;

use barewire_base::Prng;
use barewire_p4::ir::MatchKind::{Exact, Lpm, Range, Ternary};
use barewire_p4::ir::{MatchKind, TableId, TableKind};
use barewire_p4::key::{KeyLayout, MatchParam};
use barewire_p4_state::{HIT, ProgramState, TableAction};
use num_bigint::BigUint;
use std::hint::black_box;
use std::time::Instant;
use support::{call, key, ones, program, table};

const T: TableId = TableId(0);
/// Keys that are looked up, in random order.
const KEYS: usize = 1 << 13;
const FIVE_TUPLE: [(MatchKind, u32); 5] =
    [(Ternary, 32), (Ternary, 32), (Ternary, 16), (Ternary, 16), (Ternary, 8)];

struct Rig {
    state: ProgramState,
    layout: KeyLayout,
    keys: Vec<u64>,
    wanted: Vec<String>,
    name: String,
}

fn rig(name: String, kind: TableKind, fields: &[(MatchKind, u32)], size: usize) -> Option<Rig> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word.as_str())) {
        return None;
    }
    let mut of = table(kind, fields);
    of.max_size = size as u32;
    let state = ProgramState::new(&program(vec![of]));
    Some(Rig { state, layout: KeyLayout::of_fields(fields), keys: vec![], wanted, name })
}

/// A key that the entry matches.
fn hit(prng: &mut Prng, layout: &KeyLayout, params: &[MatchParam]) -> Vec<u64> {
    let values: Vec<BigUint> = params
        .iter()
        .zip(&layout.slots)
        .map(|(param, slot)| {
            let wide = BigUint::from(prng.next_u64()) << 64_u32 | BigUint::from(prng.next_u64());
            let random = wide & ones(slot.width);
            match param {
                MatchParam::Exact(value) => value.clone(),
                MatchParam::Valid(valid) => BigUint::from(u8::from(*valid)),
                MatchParam::Lpm { value, prefix_len } => value | (random & ones(slot.width - prefix_len)),
                MatchParam::Ternary { value, mask } => value | (random & (ones(slot.width) ^ mask)),
                MatchParam::Range { low, high } => (low + high) / 2_u8,
            }
        })
        .collect();
    key(layout, &values)
}

impl Rig {
    /// Insert the entries, look random ones of them up, remove and insert some again.
    fn run(&mut self, entries: usize, mut params: impl FnMut(&mut Prng, usize) -> (Vec<MatchParam>, u32)) {
        let mut prng = Prng::new(1);
        let list: Vec<_> = (0..entries).map(|at| params(&mut prng, at)).collect();
        let mut held = Vec::with_capacity(entries);
        let (mut worst, start) = (0, Instant::now());
        for (at, (params, priority)) in list.iter().enumerate() {
            let one = Instant::now();
            let action = TableAction::Call(call(at as u64));
            if self.state.insert(T, at as u32, params, *priority, &action).is_ok() {
                held.push(at);
            }
            worst = worst.max(one.elapsed().as_nanos());
        }
        let insert = start.elapsed().as_nanos() as f64 / entries as f64;
        let words = self.layout.words as usize;
        self.keys = (0..KEYS)
            .flat_map(|_| {
                let at = held[prng.below(held.len() as u64) as usize];
                hit(&mut prng, &self.layout, &list[at].0)
            })
            .collect();
        let table = &mut self.state.tables[0];
        let mut hits = 0;
        let mut once = || {
            let start = Instant::now();
            for key in self.keys.chunks_exact(words) {
                let record = match *key {
                    [k0] => table.find1(k0),
                    [k0, k1] => table.find2(k0, k1),
                    _ => table.find(key),
                };
                hits += u64::from(record[0] & HIT != 0);
                // What a program does with a record: count, and read an argument.
                barewire_p4_state::account(record, 60, 1);
                black_box(record[4]);
            }
            start.elapsed().as_nanos() as f64 / KEYS as f64
        };
        once();
        let mut times: Vec<f64> = (0..25).map(|_| once()).collect();
        times.sort_by(f64::total_cmp);
        let churn = entries.min(20_000);
        let start = Instant::now();
        for at in 0..churn {
            let handle = held[(at * 7919) % held.len()];
            let (params, priority) = &list[handle];
            self.state.remove(T, handle as u32).unwrap();
            let action = TableAction::Call(call(handle as u64));
            self.state.insert(T, handle as u32, params, *priority, &action).unwrap();
        }
        let churn = start.elapsed().as_nanos() as f64 / churn as f64;
        let parts = self.state.tables[0].ternary_parts();
        println!(
            "{:34} {:7} entries  find {:7.1} ns (best {:6.1})  insert {:7.0} ns, worst {:7} ns  remove+insert {:7.0} ns  {:9} KiB  hits {:5.1} %{}",
            self.name,
            held.len(),
            times[times.len() / 2],
            times[0],
            insert,
            worst,
            churn,
            self.state.tables[0].bytes() / 1024,
            hits as f64 * 100.0 / (26 * KEYS) as f64,
            parts.map_or(String::new(), |(tuples, blocks)| format!("  {tuples} tuples, {blocks} blocks")),
        );
        let _ = &self.wanted;
    }
}

fn exact() {
    for entries in [10, 1_000, 10_000, 100_000, 1_000_000] {
        for fields in [&[(Exact, 48)][..], &[(Exact, 32), (Exact, 32), (Exact, 32)]] {
            let name = format!("exact {} bit", fields.iter().map(|field| field.1).sum::<u32>());
            let Some(mut rig) = rig(name, TableKind::Exact, fields, entries) else { continue };
            rig.run(entries, |prng, at| {
                let exact = |(_, width): &(MatchKind, u32)| {
                    MatchParam::Exact(
                        (BigUint::from(prng.next_u64()) << 24 | BigUint::from(at)) & ones(*width),
                    )
                };
                (fields.iter().map(exact).collect(), 0)
            });
        }
    }
}

fn lpm() {
    for entries in [10, 1_000, 100_000, 1_000_000] {
        for width in [32, 128] {
            let Some(mut rig) = rig(format!("lpm {width} bit"), TableKind::Lpm, &[(Lpm, width)], entries)
            else {
                continue;
            };
            rig.run(entries, |prng, _| {
                // Lengths as in the Internet: most of them three quarters (IPv4) or three eighths (IPv6) of the address.
                let prefix_len = match (width, prng.below(10)) {
                    (32, 0..6) => 24,
                    (32, _) => 16 + prng.below(8) as u32,
                    (_, 0..6) => 48,
                    _ => 29 + prng.below(36) as u32,
                };
                let value = BigUint::from(prng.next_u64()) << (width - width.min(64))
                    & (ones(prefix_len) << (width - prefix_len));
                let value = if width == 32 { value & ones(32) } else { value };
                (vec![MatchParam::Lpm { value, prefix_len }], 0)
            });
        }
    }
}

/// A mask of a five-tuple's field: some prefix, or for small numbers of masks one of few.
fn mask(prng: &mut Prng, width: u32) -> BigUint {
    let len = prng.below(u64::from(width) + 1) as u32;
    ones(len) << (width - len)
}

fn ternary() {
    for entries in [10, 100, 1_000, 10_000, 50_000] {
        for masks in [1, 64, usize::MAX] {
            let shown =
                if masks == usize::MAX { "every mask differs".into() } else { format!("{masks} masks") };
            let name = format!("ternary 104 bit, {shown}");
            let Some(mut rig) = rig(name, TableKind::Ternary, &FIVE_TUPLE, entries) else { continue };
            rig.run(entries, |prng, at| {
                // The masks are the same for the same number.
                let mut of_mask = Prng::new((at % masks) as u64 + 7);
                let params = FIVE_TUPLE.map(|(_, width)| {
                    let mask = if masks == 1 { ones(width) } else { mask(&mut of_mask, width) };
                    MatchParam::Ternary { value: BigUint::from(prng.next_u64()) & &mask, mask }
                });
                (params.to_vec(), prng.below(1 << 20) as u32)
            });
        }
        // Bits cared for at random, none in common: the worst case of every classifier.
        let name = "ternary 104 bit, random masks".to_owned();
        let Some(mut rig) = rig(name, TableKind::Ternary, &FIVE_TUPLE, entries) else { continue };
        rig.run(entries, |prng, _| {
            let params = FIVE_TUPLE.map(|(_, width)| {
                let mask = BigUint::from(prng.next_u64()) & ones(width);
                MatchParam::Ternary { value: BigUint::from(prng.next_u64()) & &mask, mask }
            });
            (params.to_vec(), prng.below(1 << 20) as u32)
        });
    }
}

fn range() {
    let fields = [(Lpm, 32), (Lpm, 32), (Range, 16), (Range, 16), (Exact, 8)];
    for entries in [100, 1_000, 10_000] {
        let Some(mut rig) = rig("range 104 bit".into(), TableKind::Range, &fields, entries) else { continue };
        rig.run(entries, |prng, _| {
            let prefix = |prng: &mut Prng| {
                let prefix_len = 8 + prng.below(25) as u32;
                let value = BigUint::from(prng.next_u64() as u32) & (ones(prefix_len) << (32 - prefix_len));
                MatchParam::Lpm { value, prefix_len }
            };
            let range = |prng: &mut Prng| {
                let (a, b) = (prng.below(65_536) as u32, prng.below(65_536) as u32);
                MatchParam::Range { low: a.min(b).into(), high: a.max(b).into() }
            };
            let params =
                vec![prefix(prng), prefix(prng), range(prng), range(prng), MatchParam::Exact(6_u8.into())];
            (params, prng.below(1 << 20) as u32)
        });
    }
}

fn main() {
    exact();
    lpm();
    ternary();
    range();
}
