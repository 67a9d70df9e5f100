//! Our own STF tests (`tests/stf` of the repository), through both engines. What they expect was checked against bmv2.

use barewire_switch::datapath::TargetConfig;
use barewire_switch::prepared::{EngineKind, prepare};
use barewire_switch::stf;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn tests() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/stf");
    let mut tests: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "stf"))
        .collect();
    tests.sort();
    tests
}

fn run(kind: EngineKind) {
    let tests = tests();
    assert!(tests.len() >= 3, "{tests:?}");
    let mut failed = Vec::new();
    for test in &tests {
        let json = std::fs::read_to_string(test.with_extension("json")).expect("each test has its program");
        let text = std::fs::read_to_string(test).expect("the test is readable");
        let prepared = prepare(&json, kind).unwrap_or_else(|error| panic!("{}: {error}", test.display()));
        match stf::run(Arc::new(prepared), TargetConfig::default(), &text) {
            Ok(outcome) if outcome.passed() => assert!(outcome.received > 0, "{}", test.display()),
            Ok(outcome) => failed.push(format!("{}:\n{}", test.display(), outcome.wrong.join("\n"))),
            Err(error) => failed.push(format!("{}: {error}", test.display())),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn interpreter() {
    run(EngineKind::Interpreter);
}

#[test]
fn native() {
    run(EngineKind::Native);
}
