//! Every STF test of v1model and PSA from source, through both engines: what lowers, and what gives the packets of its test.

mod common;

use barewire_p4::ir::Program;
use barewire_p4_formats::export::export;
use barewire_p4_formats::import::import;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::stf;
use common::program;
use std::path::PathBuf;
use std::sync::Arc;

fn run(program: Program, kind: EngineKind, test: &str) -> Result<(), String> {
    let prepared = Prepared::new(Arc::new(program), kind).map_err(|e| format!("prepare: {e}"))?;
    let outcome =
        stf::run(Arc::new(prepared), TargetConfig::default(), test).map_err(|e| format!("run: {e}"))?;
    if outcome.passed() { Ok(()) } else { Err(outcome.wrong.join("; ")) }
}

/// Tests that pass on both engines, at the least.
const PASS_AT_LEAST: usize = 65;

/// Of these, from the JSON that is written of them.
const WRITTEN_AT_LEAST: usize = 65;

#[test]
fn packets_are_those_of_the_tests() {
    let Some(folder) = barewire_testing::shared("data/p4src/p4_16_samples") else { return };
    let Some(compiled) = barewire_testing::shared("data/p4/p4_16") else { return };
    let psa = barewire_testing::shared("data/p4/psa").expect("it stands beside the others");
    let mut tests: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus is readable")
        .map(|entry| entry.expect("the corpus is readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "stf"))
        .collect();
    tests.sort();
    let (mut all, mut lowered, mut passed, mut written) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for test in &tests {
        let stem = test.file_stem().expect("it has a name").to_string_lossy().into_owned();
        // The reference compiler has to have made something of it.
        let name = format!("{stem}.json");
        if !compiled.join(&name).is_file() && !psa.join(&name).is_file() {
            continue;
        }
        let Some(made) = program(&folder, &format!("{stem}.p4")) else { continue };
        all += 1;
        let made = match made {
            Ok(made) => made,
            Err(why) => {
                println!("{stem}: refused: {why}");
                continue;
            }
        };
        lowered += 1;
        let text = std::fs::read_to_string(test).expect("the corpus is readable");
        let results =
            [EngineKind::Interpreter, EngineKind::Native].map(|kind| run(made.clone(), kind, &text));
        match results.into_iter().collect::<Result<Vec<()>, String>>() {
            Ok(_) => passed += 1,
            Err(why) => {
                wrong.push(format!("{stem}: {why}"));
                continue;
            }
        }
        // The same packets from the JSON that we write of it.
        let again = match export(&made) {
            Ok(json) => import(&json).map_err(|error| format!("our JSON is refused: {error}")),
            Err(why) => {
                println!("{stem}: {why}");
                continue;
            }
        };
        match again.and_then(|again| run(again, EngineKind::Interpreter, &text)) {
            Ok(()) => written += 1,
            Err(why) => panic!("{stem} from our JSON: {why}"),
        }
    }
    println!("{written} of them give the packets of their tests from the JSON that is written of them, too");
    assert!(written >= WRITTEN_AT_LEAST, "{written} programs as JSON, {WRITTEN_AT_LEAST} before");
    println!(
        "v1model and PSA from source: {all} tests, {lowered} programs lower, {passed} pass on both engines"
    );
    for line in &wrong {
        println!("wrong: {line}");
    }
    assert!(passed >= PASS_AT_LEAST, "{passed} tests pass, {PASS_AT_LEAST} did before");
}

/// Programs that the reference compiler takes and that are refused here, with the reason.
const REFUSED: &[(&str, &str)] = &[
    // What they include is not among the shared sources.
    ("arith2-inline-bmv2", "no file `arith-inline-skeleton.p4`"),
    ("constant-in-calculation-bmv2", "no file `arith-inline-skeleton.p4`"),
    ("header-bmv2", "no file `arith-inline-skeleton.p4`"),
    ("ipv6-switch-ml-bmv2", "no file `ml-headers.p4`"),
    ("issue1386", "no file `arith-inline-skeleton.p4`"),
    ("key1-bmv2", "no file `arith-inline-skeleton.p4`"),
    ("stack-bmv2", "no file `arith-inline-skeleton.p4`"),
    ("stack-bvec-bmv2", "no file `arith-inline-skeleton.p4`"),
];

/// Programs that lower and have no form in bmv2 JSON, with the reason.
const UNWRITTEN: &[(&str, &str)] = &[
    ("copyprop1", "applied in two places"),
    ("issue986-1-bmv2", "applied in two places"),
    ("parser-unroll-test1", "that only the packet chooses"),
];

#[test]
fn what_the_reference_compiler_takes_is_lowered() {
    let Some(folder) = barewire_testing::shared("data/p4src") else { return };
    let (mut lowered, mut unwritten, mut wrong) = (0, 0, Vec::new());
    let samples = ["v1model", "psa"].map(|arch| common::samples(&folder, arch));
    for name in samples.concat() {
        let known = REFUSED.iter().find(|(known, _)| *known == name);
        match (program(&folder.join("p4_16_samples"), &format!("{name}.p4")), known) {
            (None, None) => wrong.push(format!("{name}: another architecture")),
            (Some(Err(why)), None) => wrong.push(format!("{name}: {why}")),
            (Some(Err(why)), Some((_, part))) if !why.contains(part) => wrong.push(format!("{name}: {why}")),
            (Some(Ok(made)), None) => {
                lowered += 1;
                let known = UNWRITTEN.iter().find(|(known, _)| *known == name);
                match (export(&made), known) {
                    (Ok(json), None) => {
                        if let Err(error) = import(&json) {
                            wrong.push(format!("{name}: our JSON: {error}"));
                        }
                    }
                    (Err(why), Some((_, part))) if why.to_string().contains(part) => unwritten += 1,
                    (Err(why), _) => wrong.push(format!("{name}: {why}")),
                    (Ok(_), Some((_, part))) => wrong.push(format!("{name}: has a form now ({part})")),
                }
            }
            (Some(Ok(_)), Some((_, part))) => wrong.push(format!("{name}: no longer refused ({part})")),
            (_, Some(_)) => {}
        }
    }
    println!(
        "{lowered} of v1model and PSA lower, {} are refused, {unwritten} of them have no form in JSON",
        REFUSED.len()
    );
    for line in &wrong {
        println!("{line}");
    }
    assert!(wrong.is_empty(), "{} programs", wrong.len());
}
