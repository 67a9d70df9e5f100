//! Every compiled program of the shared test data imports, or is refused with place and reason.

use barewire_p4_formats::import::{ImportError, import_with_notes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files of programs under a folder, in order.
fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(list) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = list.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|e| e == "json") {
            found.push(path);
        }
    }
}

#[test]
fn every_program_imports_or_says_why_not() {
    let Some(data) = barewire_testing::shared("data/p4") else { return };
    let mut paths = Vec::new();
    programs(&data, &mut paths);
    let mut imported: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut must_run: Vec<String> = Vec::new();
    let mut noted: BTreeMap<String, usize> = BTreeMap::new();
    for path in &paths {
        let name = path.strip_prefix(&data).unwrap_or(path).display().to_string();
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let text = std::fs::read_to_string(path).unwrap();
        match import_with_notes(&text) {
            Ok((program, notes)) => {
                *imported.entry(folder).or_default() += 1;
                for note in notes {
                    *noted.entry(note.text).or_default() += 1;
                }
                assert!(!program.headers.is_empty() && !program.pipelines.is_empty(), "{name}");
            }
            Err(error) => {
                let place = error.place().unwrap_or_else(|| panic!("{name} is JSON: {error}"));
                assert!(!place.path.is_empty() && place.at.line > 0, "{name}: {error}");
                // What comes with packet tests must run.
                if !name.starts_with("import/") {
                    must_run.push(format!("{name}: {error}"));
                }
                let reason = match &error {
                    ImportError::Unsupported { what, reason, .. } => format!("{what}: {reason}"),
                    other => other.to_string(),
                };
                refused.entry(reason).or_default().push(name);
            }
        }
    }
    assert!(must_run.is_empty(), "refused though they have packet tests:\n{}", must_run.join("\n"));
    let good: usize = imported.values().sum();
    println!("{} programs, {good} imported: {imported:?}", paths.len());
    for (reason, names) in &refused {
        println!("refused {}: {reason}\n    {}", names.len(), names.join(" "));
    }
    for (note, count) in &noted {
        println!("noted {count}: {note}");
    }
    // The Portable NIC Architecture is refused whole; beside it nine files refer to things they do not declare.
    let others = refused.iter().filter(|(reason, _)| !reason.contains("Portable NIC")).map(|(_, n)| n.len());
    assert!(others.sum::<usize>() <= 9, "too many programs are refused");
}
