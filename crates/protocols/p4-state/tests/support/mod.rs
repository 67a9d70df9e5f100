//! Programs of nothing but tables, made by hand, for tests and measurements.
#![allow(dead_code)] // each user takes what it needs

use barewire_p4::ir::*;
use barewire_p4::key::{KeyLayout, MatchParam};
use num_bigint::BigUint;

/// An action with parameters of these widths.
pub fn action(name: &str, widths: &[u32]) -> Action {
    let params = widths.iter().enumerate().map(|(at, &width)| Param { name: format!("p{at}"), width });
    Action { name: name.into(), id: 0, params: params.collect(), body: vec![] }
}

/// A table of these key fields with actions 0 and 1.
pub fn table(kind: TableKind, key: &[(MatchKind, u32)]) -> Table {
    let field = |(at, &(kind, width)): (usize, &(MatchKind, u32))| KeyField {
        name: format!("k{at}"),
        kind,
        source: KeySource::Valid(HeaderRef::Header(HeaderId(0))),
        width,
        mask: None,
    };
    let key = key.iter().enumerate().map(field).collect();
    let actions = vec![ActionId(1), ActionId(0)];
    Table { support_timeout: true, ..Table::new("t", kind, key, actions, 1 << 20) }
}

/// A program of these tables and two actions: `a` with 9 and 48 bits, `b` with 130.
pub fn program(tables: Vec<Table>) -> Program {
    Program { actions: vec![action("a", &[9, 48]), action("b", &[130])], tables, ..Program::empty() }
}

/// A call of action `a`.
pub fn call(n: u64) -> ActionCall {
    ActionCall {
        action: ActionId(0),
        args: vec![BigUint::from(n % 512), BigUint::from(n & 0xffff_ffff_ffff)],
    }
}

/// A key's words.
pub fn key(layout: &KeyLayout, values: &[BigUint]) -> Vec<u64> {
    let mut words = vec![0; layout.words as usize];
    values.iter().enumerate().for_each(|(slot, value)| layout.put(&mut words, slot, value));
    words
}

/// `width` ones.
pub fn ones(width: u32) -> BigUint {
    (BigUint::from(1_u8) << width) - 1_u8
}

/// Whether a value is what a match says.
pub fn matches(param: &MatchParam, value: &BigUint, width: u32) -> bool {
    match param {
        MatchParam::Exact(exact) => value == exact,
        MatchParam::Valid(valid) => (value.bits() != 0) == *valid,
        MatchParam::Lpm { value: prefix, prefix_len } => {
            value >> (width - prefix_len) == prefix >> (width - prefix_len)
        }
        MatchParam::Ternary { value: bits, mask } => &(value & mask) == bits,
        MatchParam::Range { low, high } => low <= value && value <= high,
    }
}
