//! Every program of the shared data through the interpreter and through compiled code.

use barewire_base::Prng;
use barewire_p4::ir::{Node, TableId};
use barewire_p4_formats::import::import;
use barewire_p4_jit::Options;
use barewire_p4_jit::differential::{Pair, packets};
use std::path::PathBuf;
use std::sync::Arc;

fn corpus() -> Option<Vec<PathBuf>> {
    let root = barewire_testing::shared("data/p4")?;
    let mut files = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    if let Ok(only) = std::env::var("ONLY") {
        files.retain(|path| path.to_string_lossy().contains(&only));
    }
    Some(files)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn all(keep_dead: bool, inline_budget: u64, packets_each: u64) {
    let Some(files) = corpus() else { return };
    let seed = number("SEED", 1);
    let (mut compiled, mut refused, mut failures) = (0, 0, Vec::new());
    let mut reached = [(0, 0); 4];
    let mut delegated = std::collections::BTreeMap::<String, usize>::new();
    for path in &files {
        let json = std::fs::read_to_string(path).expect("readable");
        let Ok(program) = import(&json) else {
            refused += 1;
            continue;
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let options = Options { keep_dead, verify: true, inline_budget, ..Options::default() };
        let mut pair = match Pair::new(Arc::new(program), options) {
            Ok(pair) => pair,
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        compiled += 1;
        pair.watch();
        for function in &pair.compiled().report().functions {
            for what in &function.delegated {
                let kind = what.split(['{', '(', ' ']).next().unwrap_or_default().to_owned();
                *delegated.entry(kind).or_default() += 1;
            }
        }
        let mut prng = Prng::new(seed);
        let samples: Vec<Vec<u8>> =
            (0..12).map(|_| packets::structured(pair.program(), 0, &mut prng)).collect();
        'rounds: for round in 0..5 {
            if round > 0 {
                pair.renew();
                pair.populate(&mut prng, &samples);
            }
            for i in 0..packets_each {
                let packet = match samples.get(i as usize) {
                    Some(sample) => sample.clone(),
                    None => packets::mutate(packets::structured(pair.program(), 0, &mut prng), &mut prng),
                };
                if let Err(mismatch) = pair.packet(&packet, &mut prng) {
                    failures.push(format!("{name}: packet {i} of {} bytes: {mismatch}", packet.len()));
                    break 'rounds;
                }
            }
            if let Err(mismatch) = pair.compare_states() {
                failures.push(format!("{name}: {mismatch}"));
                break;
            }
        }
        let program = Arc::clone(pair.program());
        if let Some(coverage) = pair.coverage() {
            let states = program.parsers.iter().map(|parser| parser.states.len()).sum();
            let nodes = || program.pipelines.iter().flat_map(|pipeline| &pipeline.nodes);
            // A table without a key cannot be hit.
            let keyed = |id: &TableId| !program.tables[id.at()].key.is_empty();
            let applied =
                nodes().filter(|node| matches!(node, Node::Table { table, .. } if keyed(table))).count();
            let conditions = nodes().filter(|node| matches!(node, Node::If { .. })).count();
            for (sum, (had, of)) in reached.iter_mut().zip([
                (coverage.states.len(), states),
                (coverage.hit.len(), applied),
                (coverage.actions.len(), program.actions.len()),
                (coverage.conditions.len(), conditions * 2),
            ]) {
                *sum = (sum.0 + had.min(of), sum.1 + of);
            }
        }
    }
    eprintln!("{compiled} programs compared, {refused} refused by the importer, seed {seed}");
    let names = ["parser states", "tables hit", "actions run", "outcomes of conditions"];
    for (name, (had, of)) in names.iter().zip(reached) {
        eprintln!("reached: {had} of {of} {name}");
        assert!(std::env::var("ONLY").is_ok() || had * 4 > of, "too few {name} are reached to say anything");
    }
    eprintln!("interpreted: {delegated:?}");
    for failure in failures.iter().take(60) {
        eprintln!("FAILED {}", failure.chars().take(600).collect::<String>());
    }
    assert!(failures.is_empty(), "{} programs differ", failures.len());
    assert!(compiled > 0 || std::env::var("ONLY").is_ok(), "nothing was compared");
}

#[test]
fn whole_vectors_agree() {
    all(true, Options::default().inline_budget, number("PACKETS", 30));
}

#[test]
fn what_can_be_seen_agrees_without_dead_stores_and_with_shared_actions() {
    all(false, 0, number("PACKETS", 20));
}
