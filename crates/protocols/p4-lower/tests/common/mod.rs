//! The shared sources, and what becomes of them.
#![allow(dead_code, reason = "each test takes its part")]

use barewire_p4::ir::Program;
use barewire_p4_lower::lower;
use barewire_p4_source::{Diagnostics, Options, Resolver, SourceMap, parse, types};
use std::path::{Path, PathBuf};

pub struct Folder(pub PathBuf);

impl Resolver for Folder {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.0.join(path);
        if path.is_file() { std::fs::read(path).map(Some).map_err(|e| e.to_string()) } else { Ok(None) }
    }
}

/// The program, or why there is none; `None` if it is for another architecture than those of the behavioral model.
pub fn program(folder: &Path, name: &str) -> Option<Result<Program, String>> {
    let (mut map, mut found) = (SourceMap::new(), Diagnostics::new());
    let source = parse(&mut map, &Folder(folder.to_owned()), &Options::default(), name, &mut found);
    let first = |found: &Diagnostics| {
        let error = found.iter().find(|d| d.severity == barewire_p4_source::Severity::Error);
        error.map_or(String::new(), |d| d.message.clone())
    };
    if found.error_count() > 0 {
        return Some(Err(format!("syntax: {}", first(&found))));
    }
    let typed = types::check(&source, &map, &mut found);
    if !matches!(types::architecture(&typed), Some("v1model" | "psa")) {
        return None;
    }
    if found.error_count() > 0 {
        return Some(Err(format!("types: {}", first(&found))));
    }
    Some(lower(&source, &typed, &map, name).map_err(|refusal| {
        let line = map.place(refusal.span()).map_or(0, |place| place.at.line);
        format!("line {line}: {}", refusal.message)
    }))
}

/// Samples of an architecture that the reference compiler takes, its back end included: their names without `.p4`.
pub fn samples(folder: &Path, arch: &str) -> Vec<String> {
    let list = std::fs::read_to_string(folder.join("expected.tsv")).expect("the list is readable");
    let mut names = Vec::new();
    for line in list.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        if let ["p4_16_samples", file, of, "0", "0", ..] = columns[..]
            && of == arch
        {
            names.push(file.trim_end_matches(".p4").to_owned());
        }
    }
    names
}
