//! Mutated program files: whatever is done to them, the importer answers, and what it accepts can be run.

use barewire_base::Prng;
use barewire_p4::engine::Engine;
use barewire_p4::interp::Interpreter;
use barewire_p4::ir::Program;
use barewire_p4::phv::{Layout, slot};
use barewire_p4::state::PlainState;
use barewire_p4_formats::import::import;
use barewire_testing::{Needs, find_shared, have_part};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn seeds() -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(list) = std::fs::read_dir(folder) else { return };
        for entry in list.flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "json") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    match have_part(Needs::Shared, find_shared("data/p4")) {
        Some(data) => walk(&data, &mut paths),
        None => println!("only a small program by hand is mutated"),
    }
    paths.sort();
    let mut seeds: Vec<(String, String)> = paths
        .iter()
        .filter_map(|path| Some((path.display().to_string(), std::fs::read_to_string(path).ok()?)))
        .filter(|(_, text)| text.len() < 40_000)
        .collect();
    if seeds.is_empty() {
        seeds.push(("by hand".into(), include_str!("import_common/small.json").into()));
    }
    seeds
}

/// Run what was accepted on a few packets.
fn run(program: Program, prng: &mut Prng) {
    let layout = Layout::of(&program);
    // A mutation may ask for more memory than a test should take.
    let cells: u64 = (program.registers.iter().map(|r| u64::from(r.size)))
        .chain(program.counters.iter().map(|c| u64::from(c.size)))
        .chain(program.meters.iter().map(|m| u64::from(m.size)))
        .sum();
    if cells > 1 << 20 || layout.words > 1 << 16 {
        return;
    }
    let program = Arc::new(program);
    let mut state = PlainState::new(program.clone());
    let mut engine = Interpreter::new(program.clone());
    for _ in 0..2 {
        let mut packet = vec![0; prng.below(120) as usize];
        prng.fill(&mut packet);
        let mut phv = layout.new_phv();
        for parser in 0..program.parsers.len() {
            engine.parse(parser, &mut phv, &packet, &mut state);
        }
        for pipeline in 0..program.pipelines.len() {
            engine.run(pipeline, &mut phv, &packet, &mut state);
        }
        let payload = &packet[(phv.slot(slot::PARSED) as usize).min(packet.len())..];
        for deparser in 0..program.deparsers.len() {
            let len = engine.prepare_deparse(deparser, &mut phv, payload, &mut state);
            let mut out = vec![0; len];
            Engine::<PlainState>::emit(&mut engine, deparser, &phv, &mut out);
        }
    }
}

/// Values as they stand in program files.
const VALUES: [&str; 24] = [
    "null",
    "true",
    "0",
    "1",
    "-1",
    "7",
    "255",
    "4096",
    "4294967295",
    "9223372036854775807",
    "1e99",
    "\"\"",
    "\"0x\"",
    "\"0xffffffffffffffffffff\"",
    "\"-0x1\"",
    "\"default\"",
    "\"$valid$\"",
    "\"scalars\"",
    "[]",
    "{}",
    "[[]]",
    "{\"type\":\"hexstr\",\"value\":\"0x1\"}",
    "{\"type\":\"expression\",\"value\":{\"op\":\"valid\",\"left\":null,\"right\":null}}",
    "{\"type\":\"runtime_data\",\"value\":0}",
];

/// Where the values of a JSON text begin and end, roughly: its tokens that are no punctuation.
fn tokens(text: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let start = at;
        match text[at] {
            b'"' => {
                at += 1;
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(text.len());
                found.push((start, at));
            }
            b'0'..=b'9' | b'-' | b'a'..=b'z' => {
                while at < text.len()
                    && (text[at].is_ascii_alphanumeric() || matches!(text[at], b'-' | b'+' | b'.'))
                {
                    at += 1;
                }
                found.push((start, at));
            }
            _ => at += 1,
        }
    }
    found
}

fn mutate(text: &str, prng: &mut Prng) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=prng.below(3) {
        if bytes.is_empty() {
            break;
        }
        let tokens = tokens(&bytes);
        let pick =
            |prng: &mut Prng| (!tokens.is_empty()).then(|| tokens[prng.below(tokens.len() as u64) as usize]);
        // Names of members must stay strings, or little is left but syntax errors.
        let is_key = |token: (usize, usize)| bytes.get(token.1) == Some(&b':');
        match prng.below(14) {
            // A token becomes another one of the same file: most of these stay JSON.
            0..=5 => {
                if let (Some(to), Some(from)) = (pick(prng), pick(prng))
                    && (bytes[from.0] == b'"' || !is_key(to))
                {
                    let other = bytes[from.0..from.1].to_vec();
                    bytes.splice(to.0..to.1, other);
                }
            }
            6..=10 => {
                if let Some(to) = pick(prng)
                    && !is_key(to)
                {
                    let value = VALUES[prng.below(VALUES.len() as u64) as usize];
                    bytes.splice(to.0..to.1, value.bytes());
                }
            }
            11 => {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] = prng.below(128) as u8;
            }
            12 => {
                let at = prng.below(bytes.len() as u64) as usize;
                let end = (at + prng.below(60) as usize).min(bytes.len());
                if prng.chance(0.5) {
                    bytes.drain(at..end);
                } else {
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
            _ => bytes.truncate(prng.below(bytes.len() as u64) as usize),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn mutated_files_are_answered() {
    let seed = std::env::var("BAREWIRE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x1a90_57e2);
    let rounds: u64 = std::env::var("BAREWIRE_ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(6_000);
    println!("seed {seed} (BAREWIRE_SEED), {rounds} rounds (BAREWIRE_ROUNDS)");
    let seeds = seeds();
    let mut prng = Prng::new(seed);
    let (mut syntax, mut refused, mut accepted) = (0, 0, 0);
    for round in 0..rounds {
        let (name, text) = &seeds[prng.below(seeds.len() as u64) as usize];
        let mutated = mutate(text, &mut prng);
        let mut rest = prng.fork();
        let outcome = std::panic::catch_unwind(move || match import(&mutated) {
            Ok(program) => {
                run(program, &mut rest);
                2
            }
            Err(error) => {
                // Every refusal can be shown, and one that is no syntax error has its place.
                assert!(!error.to_string().is_empty());
                usize::from(error.place().is_some_and(|place| place.at.line > 0))
            }
        });
        match outcome {
            Ok(0) => syntax += 1,
            Ok(1) => refused += 1,
            Ok(_) => accepted += 1,
            Err(_) => panic!("seed {seed}, round {round}: a mutation of {name} panics"),
        }
    }
    println!("{syntax} no JSON, {refused} refused, {accepted} accepted and run");
    assert!(refused > rounds / 10 && accepted > rounds / 50, "the mutations should reach all parts");
}
