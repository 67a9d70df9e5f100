//! P4: program files, packet tests, and random programs and packets through both engines.

use barewire_base::Prng;
use barewire_p4::ir::Program;
use barewire_p4_formats::import::import;
use barewire_p4_formats::stf;
use barewire_p4_jit::Options;
use barewire_p4_jit::differential::{Pair, packets, programs};
use std::hint::black_box;
use std::sync::{Arc, OnceLock};

/// The programs that come with barewire, as the reference compiler writes them.
const SAMPLES: [&str; 6] = [
    include_str!("../../../tests/p4c/simple_router.json"),
    include_str!("../../../tests/p4c/ecmp_router.json"),
    include_str!("../../../tests/p4c/acl.json"),
    include_str!("../../../tests/p4c/l2_learning.json"),
    include_str!("../../../tests/p4c/many_tables.json"),
    include_str!("../../../tests/p4c/deep_headers.json"),
];

/// `data` as edits of one of our program files: which one, then five bytes an edit (place, what, how).
fn edited(data: &[u8]) -> String {
    let (which, edits) = data.split_first().unwrap_or((&0, &[]));
    let mut text = SAMPLES[usize::from(*which) % SAMPLES.len()].as_bytes().to_vec();
    for edit in edits.chunks_exact(5).take(64) {
        if text.is_empty() {
            break;
        }
        let at = (usize::from(edit[0]) << 16 | usize::from(edit[1]) << 8 | usize::from(edit[2])) % text.len();
        let end = (at + usize::from(edit[4])).min(text.len());
        match edit[3] % 4 {
            0 => text[at] = edit[4],
            1 => drop(text.drain(at..end)),
            2 => text.insert(at, edit[4]),
            _ => {
                let span = text[at..end].to_vec();
                text.splice(at..at, span);
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Edited program files. What is accepted must compile, and do with a packet what the interpreter does.
pub fn p4_json(data: &[u8]) -> u64 {
    let text = edited(data);
    match import(&text) {
        Ok(program) => {
            let mut prng = Prng::new(data.len() as u64);
            // A file may ask for more memory than a fuzzer should spend on it.
            if small(&program) {
                compare(Arc::new(program), &mut prng, 2);
            }
            1
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            1
        }
    }
}

/// Whether a program's arrays are of a size to be made many times a second.
fn small(program: &Program) -> bool {
    let arrays = program.registers.iter().map(|r| r.size).chain(program.counters.iter().map(|c| c.size));
    let tables = program.tables.iter().map(|t| t.max_size);
    arrays.chain(tables).all(|size| size <= 1 << 20)
}

/// Send packets through both engines; panics when they differ.
fn compare(program: Arc<Program>, prng: &mut Prng, count: usize) {
    let options = Options { keep_dead: true, ..Options::default() };
    let mut pair = match Pair::new(Arc::clone(&program), options) {
        Ok(pair) => pair,
        Err(error) => panic!("a program that imports does not compile: {error}"),
    };
    let parsers = program.parsers.len().max(1) as u64;
    let packet = |prng: &mut Prng| {
        if program.parsers.is_empty() {
            return vec![0; prng.below(128) as usize];
        }
        let parser = prng.below(parsers) as usize;
        let packet = packets::structured(&program, parser, prng);
        packets::mutate(packet, prng)
    };
    let samples: Vec<Vec<u8>> = (0..4).map(|_| packet(prng)).collect();
    pair.populate(prng, &samples);
    for _ in 0..count {
        let packet = packet(prng);
        if let Err(mismatch) = pair.packet(&packet, prng) {
            panic!("interpreter and compiled code differ on {packet:02x?}: {mismatch}");
        }
    }
    if let Err(mismatch) = pair.compare_states() {
        panic!("interpreter and compiled code leave different states: {mismatch}");
    }
}

/// Edits of each program.
pub fn json_corpus() -> Vec<Vec<u8>> {
    (0..SAMPLES.len() as u8).map(|which| vec![which, 0, 9, which, 0, b'7', 0, 99, 2, 2, b'1']).collect()
}

/// `data` as a seed: a random program, or one of ours, with random entries, and random packets through both engines.
pub fn p4_engines(data: &[u8]) -> u64 {
    static OURS: OnceLock<Vec<Arc<Program>>> = OnceLock::new();
    let ours = OURS.get_or_init(|| {
        SAMPLES.iter().map(|text| Arc::new(import(text).expect("our own programs import"))).collect()
    });
    let seed = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut prng = Prng::new(seed);
    let program = if prng.chance(0.7) {
        Arc::new(programs::random(&mut prng))
    } else {
        let at = prng.below(ours.len() as u64) as usize;
        Arc::clone(&ours[at])
    };
    compare(program, &mut prng, 16);
    16
}

/// Seeds.
pub fn engines_corpus() -> Vec<Vec<u8>> {
    (0_u8..8).map(|seed| vec![seed]).collect()
}

/// `data` as a packet test.
pub fn stf_text(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    match stf::parse(&text) {
        Ok(lines) => {
            // Lines are numbered in order, and none beyond the text.
            assert!(lines.is_sorted_by_key(|line| line.number));
            assert!(lines.last().is_none_or(|line| line.number as usize <= text.lines().count()));
            black_box(stf::Expectations::of(&lines).outstanding());
            lines.len() as u64
        }
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1);
            1
        }
    }
}

/// Packet tests.
pub fn stf_corpus() -> Vec<Vec<u8>> {
    [
        "add RouterIngress.ipv4_lpm hdr.ipv4.dst_addr:0x0a000000/8 set_next_hop(next_hop:0x0a000001, port:2)\n",
        "packet 0 00112233 445566\nexpect 1 0011**33 $\nwait\n",
        "setdefault forward drop()\nmirroring_add 5 2\nmc_mgrp_create 7\nmc_node_create 1 2 3\nmc_node_associate 7 0\n",
        "add rules 10 src:0x0a**** dst:10.0.0.1&&&0xffffff00 deny() = first\ncheck_counter cnt($first) packets == 3\n",
        "register_write r 3 0xdead\nregister_read r 3\nmeter_set_rates m 0 0.1:10 0.2:20\n# a comment\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}
