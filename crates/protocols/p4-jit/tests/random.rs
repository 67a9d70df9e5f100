//! Random programs through the interpreter and through compiled code.

use barewire_base::Prng;
use barewire_p4_jit::Options;
use barewire_p4_jit::differential::{Pair, packets, programs};
use std::sync::Arc;

#[test]
fn random_programs_agree() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let (first, count) = (number("SEED", 1), number("PROGRAMS", 400));
    let mut failures = Vec::new();
    let mut reached = [0; 3];
    for seed in first..first + count {
        let mut prng = Prng::new(seed);
        let program = Arc::new(programs::random(&mut prng));
        // Some with shared actions, some interpreted as a whole.
        let inline_budget = if seed % 3 == 0 { 0 } else { Options::default().inline_budget };
        let function_limit = if seed % 50 == 7 { 20 } else { Options::default().function_limit };
        let options =
            Options { keep_dead: true, verify: true, inline_budget, function_limit, ..Options::default() };
        let mut pair = match Pair::new(Arc::clone(&program), options) {
            Ok(pair) => pair,
            Err(error) => {
                failures.push(format!("seed {seed}: {error}"));
                continue;
            }
        };
        pair.watch();
        let samples: Vec<Vec<u8>> = (0..6).map(|_| packets::structured(&program, 0, &mut prng)).collect();
        pair.populate(&mut prng, &samples);
        for i in 0..40 {
            let packet = packets::mutate(packets::structured(&program, 0, &mut prng), &mut prng);
            if let Err(mismatch) = pair.packet(&packet, &mut prng) {
                if count == 1 {
                    eprintln!("packet {packet:02x?}\n{program:#?}");
                }
                failures.push(format!("seed {seed}, packet {i}: {mismatch}"));
                break;
            }
        }
        if let Some(coverage) = pair.coverage() {
            reached[0] += usize::from(coverage.states.len() > 2);
            reached[1] += usize::from(!coverage.hit.is_empty());
            reached[2] += usize::from(coverage.conditions.len() > 1);
        }
        if let Err(mismatch) = pair.compare_states() {
            failures.push(format!("seed {seed}: {mismatch}"));
        }
    }
    eprintln!(
        "of {count} programs {reached:?} got beyond two states, hit a table, had a condition both ways"
    );
    assert!(
        count < 100 || reached.iter().all(|had| had * 5 > count as usize),
        "too little is reached: {reached:?}"
    );
    for failure in failures.iter().take(12) {
        eprintln!("FAILED {}", failure.chars().take(500).collect::<String>());
    }
    assert!(failures.is_empty(), "{} of {count} programs differ", failures.len());
}
