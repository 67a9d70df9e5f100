//! The P4Info of every shared source equals the one that the reference compiler makes of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use barewire_p4_info::{P4Info, from_source, text, to_text};
use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::{Diagnostics, Options, Resolver, SourceMap, parse, types};

/// Samples with another P4Info, and why.
const EXCEPTIONS: &[(&str, &str)] = &[(
    "issue2735-bmv2",
    "the reference compiler loses a register whose type has a name by `typedef`; others that nothing reads it keeps",
)];

struct Files;

impl Resolver for Files {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let path = Path::new(path);
        if !path.is_file() {
            return Ok(None);
        }
        std::fs::read(path).map(Some).map_err(|e| e.to_string())
    }
}

fn ours(path: &Path) -> Result<P4Info, String> {
    let (mut map, mut diags) = (SourceMap::new(), Diagnostics::new());
    let program = parse(&mut map, &Files, &Options::default(), &path.to_string_lossy(), &mut diags);
    let mut info = None;
    if diags.error_count() == 0 {
        let typed = types::check(&program, &map, &mut diags);
        if diags.error_count() == 0 {
            info = Some(from_source(&program, &typed, &mut diags));
        }
    }
    if diags.error_count() > 0 {
        return Err(render_all(&map, &diags, Style::Plain));
    }
    info.ok_or_else(String::new)
}

fn wanted(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            wanted(&path, found);
        } else if path.to_string_lossy().ends_with(".p4info.txtpb") {
            found.push(path);
        }
    }
}

#[test]
fn every_sample_has_the_p4info_of_the_reference_compiler() {
    let Some(folder) = barewire_testing::shared("data/p4src") else { return };
    let exceptions: BTreeMap<&str, &str> = EXCEPTIONS.iter().copied().collect();
    let mut files = Vec::new();
    wanted(&folder, &mut files);
    let only = std::env::var("ONLY").ok();
    let (mut equal, mut same_text, mut incomplete, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy().replace(".p4info.txtpb", "");
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let theirs = std::fs::read_to_string(file).unwrap();
        let info = text::parse(&theirs).unwrap();
        let source = file.with_file_name(format!("{name}.p4"));
        let result = ours(&source);
        if result.as_ref().is_err_and(|text| text.contains("there is no file")) {
            incomplete.push(name);
            continue;
        }
        let same = result.as_ref() == Ok(&info);
        match exceptions.get(&*name) {
            Some(why) => assert!(!same, "{name} is equal now: it is no exception any more ({why})"),
            None if same => {
                equal += 1;
                let written = to_text(result.as_ref().unwrap());
                assert_eq!(
                    text::parse(&written).unwrap(),
                    info,
                    "{name}: what is written is not what is read"
                );
                same_text += usize::from(written == theirs);
            }
            None => match result {
                Ok(info) => {
                    if let Ok(folder) = std::env::var("REPORT") {
                        std::fs::write(format!("{folder}/{name}.ours"), to_text(&info)).unwrap();
                        std::fs::write(format!("{folder}/{name}.theirs"), &theirs).unwrap();
                    }
                    wrong.push(format!("{name}: another P4Info"));
                }
                Err(text) => {
                    wrong.push(format!("{name}: {}", text.lines().take(12).collect::<Vec<_>>().join("\n")))
                }
            },
        }
    }
    println!(
        "{equal} equal ({same_text} to the byte), {} exceptions, {} with include files that are not there, {} wrong",
        EXCEPTIONS.len(),
        incomplete.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
