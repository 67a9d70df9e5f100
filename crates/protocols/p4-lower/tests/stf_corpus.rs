//! Every STF test of v1model from source, through both engines: what lowers, and what gives the packets of its test.

use barewire_p4::ir::Program;
use barewire_p4_lower::lower;
use barewire_p4_source::{Diagnostics, Options, Resolver, SourceMap, parse, types};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::stf;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Folder(PathBuf);

impl Resolver for Folder {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.0.join(path);
        if path.is_file() { std::fs::read(path).map(Some).map_err(|e| e.to_string()) } else { Ok(None) }
    }
}

/// The program, or why there is none; `None` if it is for another architecture.
fn program(folder: &Path, name: &str) -> Option<Result<Program, String>> {
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let source = parse(&mut map, &Folder(folder.to_owned()), &Options::default(), name, &mut found);
    if found.error_count() > 0 {
        return Some(Err("syntax".into()));
    }
    let typed = types::check(&source, &map, &mut found);
    if types::architecture(&typed) != Some("v1model") {
        return None;
    }
    if found.error_count() > 0 {
        return Some(Err("types".into()));
    }
    Some(lower(&source, &typed, &map, name).map_err(|refusal| {
        let line = map.place(refusal.span()).map_or(0, |place| place.line);
        format!("line {line}: {}", refusal.message)
    }))
}

fn run(program: Program, kind: EngineKind, test: &str) -> Result<(), String> {
    let prepared = Prepared::new(Arc::new(program), kind).map_err(|e| format!("prepare: {e}"))?;
    let outcome =
        stf::run(Arc::new(prepared), TargetConfig::default(), test).map_err(|e| format!("run: {e}"))?;
    if outcome.passed() { Ok(()) } else { Err(outcome.wrong.join("; ")) }
}

/// Tests that pass on both engines, at the least.
const PASS_AT_LEAST: usize = 52;

#[test]
fn packets_are_those_of_the_tests() {
    let Some(folder) = barewire_testing::shared("data/p4src/p4_16_samples") else { return };
    let Some(compiled) = barewire_testing::shared("data/p4/p4_16") else { return };
    let mut tests: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus is readable")
        .map(|entry| entry.expect("the corpus is readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "stf"))
        .collect();
    tests.sort();
    let (mut all, mut lowered, mut passed) = (0, 0, 0);
    let mut wrong = Vec::new();
    for test in &tests {
        let stem = test.file_stem().expect("it has a name").to_string_lossy().into_owned();
        // The reference compiler has to have made something of it.
        if !compiled.join(format!("{stem}.json")).is_file() {
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
            Err(why) => wrong.push(format!("{stem}: {why}")),
        }
    }
    println!("v1model from source: {all} tests, {lowered} programs lower, {passed} pass on both engines");
    for line in &wrong {
        println!("wrong: {line}");
    }
    assert!(passed >= PASS_AT_LEAST, "{passed} tests pass, {PASS_AT_LEAST} did before");
}
