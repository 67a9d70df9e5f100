//! Every STF test of the corpus, through both engines.

use barewire_switch::datapath::TargetConfig;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::stf;
use std::path::PathBuf;
use std::sync::Arc;

/// Tests the runner cannot pass, each with its reason.
const EXPECTED_TO_FAIL: &[(&str, &str)] = &[];

fn run_folder(folder: &str, kind: EngineKind) {
    let Some(corpus) = barewire_testing::shared("data/p4") else { return };
    let mut tests: Vec<PathBuf> = std::fs::read_dir(corpus.join(folder))
        .expect("the corpus is readable")
        .map(|entry| entry.expect("the corpus is readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "stf"))
        .collect();
    tests.sort();
    let mut failed = Vec::new();
    for test in &tests {
        let name = test.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let json = std::fs::read_to_string(test.with_extension("json")).expect("each test has its program");
        let text = std::fs::read_to_string(test).expect("the corpus is readable");
        let outcome = barewire_p4_formats::import::import(&json)
            .map_err(|e| format!("import: {e}"))
            .and_then(|program| Prepared::new(Arc::new(program), kind).map_err(|e| format!("prepare: {e}")))
            .and_then(|p| {
                stf::run(Arc::new(p), TargetConfig::default(), &text).map_err(|e| format!("run: {e}"))
            })
            .and_then(|o| if o.passed() { Ok(()) } else { Err(o.wrong.join("; ")) });
        if let Err(why) = outcome {
            match EXPECTED_TO_FAIL.iter().find(|(known, _)| *known == name) {
                Some((_, reason)) => eprintln!("{name}: fails as known ({reason}): {why}"),
                None => failed.push(format!("{name}: {why}")),
            }
        }
    }
    println!("{folder}, {kind}: {} of {} tests pass", tests.len() - failed.len(), tests.len());
    assert!(failed.is_empty(), "{} of {} tests fail:\n{}", failed.len(), tests.len(), failed.join("\n"));
}

#[test]
fn p4_16_interpreter() {
    run_folder("p4_16", EngineKind::Interpreter);
}

#[test]
fn p4_16_native() {
    run_folder("p4_16", EngineKind::Native);
}

#[test]
fn p4_14_interpreter() {
    run_folder("p4_14", EngineKind::Interpreter);
}

#[test]
fn p4_14_native() {
    run_folder("p4_14", EngineKind::Native);
}

#[test]
fn psa_interpreter() {
    run_folder("psa", EngineKind::Interpreter);
}

#[test]
fn psa_native() {
    run_folder("psa", EngineKind::Native);
}
