//! P4Info in its text form, as a compiler writes it, of many programs.

use crate::rig::P4INFO;
use barewire_switch_control::p4info::{Index, text};
use std::sync::Arc;

#[test]
fn every_p4info_goes_with_its_program() {
    let Some(root) = barewire_testing::shared("data/p4") else { return };
    let folders = std::fs::read_dir(root).unwrap();
    let mut count = 0;
    for folder in folders.flatten().filter(|folder| folder.path().is_dir()) {
        for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let path = file.path();
            let Some(name) = path.to_str().and_then(|path| path.strip_suffix(".p4info.txtpb")) else {
                continue;
            };
            let info = text::parse(&std::fs::read_to_string(&path).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let json = std::fs::read_to_string(format!("{name}.json")).unwrap();
            let program = match barewire_p4_formats::import::import(&json) {
                Ok(program) => Arc::new(program),
                Err(error) => {
                    eprintln!("{name}: not imported: {error}");
                    continue;
                }
            };
            let index = Index::new(&info, program).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(index.tables.iter().count(), info.tables.len());
            count += 1;
        }
    }
    assert!(count >= 140, "only {count} of 150 were read");
}

#[test]
fn a_text_cut_anywhere_is_refused_or_read_but_never_panics() {
    for end in (0..P4INFO.len()).step_by(7) {
        let _ = text::parse(&P4INFO[..end]);
    }
}
