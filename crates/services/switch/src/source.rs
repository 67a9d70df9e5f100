//! Programs from P4-16 source: its files on this machine, and what the switch runs of them.

use barewire_p4::ir::Program;
use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::pp::BYTES_MAX;
use barewire_p4_source::resolve::NoFiles;
use barewire_p4_source::{Diagnostic, Diagnostics, Options, Read, Resolver, Severity};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};

/// Files of the file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Resolver for Files {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        // A device may have no end: one byte more than a program may have is enough to refuse it.
        let up_to_limit = |path: &str| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            File::open(path)?.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match up_to_limit(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// One text under one name, and the files that it includes.
struct Text<'a> {
    name: &'a str,
    text: &'a str,
    others: &'a dyn Resolver,
}

impl Resolver for Text<'_> {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        if path == self.name { Ok(Some(self.text.into())) } else { self.others.read(path) }
    }
}

/// A program that runs here.
#[derive(Clone, Debug)]
pub struct Made {
    /// The program. What it was loaded from, for control planes that ask, is its JSON.
    pub program: Program,
    /// Why it has no form in bmv2 JSON, where it has none; then control planes that ask get nothing.
    pub without_json: Option<String>,
}

/// Reads, checks and lowers a program, and writes its JSON for control planes that ask for it.
pub fn read(files: &dyn Resolver, options: &Options, path: &str) -> Read<Option<Made>> {
    let Read { map, found, made } = barewire_p4_lower::from_source(files, options, path);
    let made = made.map(|program| {
        program.map(|mut program| {
            let without_json = match barewire_p4_formats::export::export_compact(&program) {
                Ok(json) => {
                    program.source = json;
                    None
                }
                Err(why) => Some(why.to_string()),
            };
            Made { program, without_json }
        })
    });
    Read { map, found, made }
}

/// The program in a file.
///
/// # Errors
/// What is wrong with it, drawn at its place.
pub fn load(files: &dyn Resolver, options: &Options, path: &str) -> Result<Made, String> {
    let Read { map, found, made } = read(files, options, path);
    if let Some(made) = made.flatten() {
        return Ok(made);
    }
    let mut errors = Diagnostics::new();
    for diagnostic in found.iter().filter(|d| d.severity == Severity::Error) {
        errors.push(Diagnostic::clone(diagnostic));
    }
    Err(render_all(&map, &errors, Style::Plain))
}

/// The program in a text that includes nothing but the built-in files.
///
/// # Errors
/// What is wrong with it, drawn at its place.
pub fn from_text(name: &str, text: &str) -> Result<Program, String> {
    let files = Text { name, text, others: &NoFiles };
    load(&files, &Options::default(), name).map(|made| made.program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_at_its_place() {
        let why = from_text("a.p4", "#include <core.p4>\nconst bit<8> x = true;\n").unwrap_err();
        assert!(why.contains("a.p4:2"), "{why}");
        let why = from_text("a.p4", "#include \"other.p4\"\n").unwrap_err();
        assert!(why.contains("other.p4"), "{why}");
        assert!(load(&Files, &Options::default(), "/no/such/file.p4").is_err());
    }

    #[test]
    fn a_file_without_an_end_is_too_long() {
        let why = load(&Files, &Options::default(), "/dev/zero").unwrap_err();
        assert!(why.contains("more than 64 MiB"), "{why}");
    }
}
