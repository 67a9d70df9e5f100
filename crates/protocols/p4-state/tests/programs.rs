//! The state of every compiled program beside the repository can be made, with its entries.

use barewire_p4::ir::TableActions;
use barewire_p4_formats::import::import;
use barewire_p4_state::ProgramState;
use std::path::{Path, PathBuf};

fn json_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            json_files(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "json") {
            out.push(path);
        }
    }
}

#[test]
fn every_program_gets_its_entries() {
    let Some(data) = barewire_testing::shared("data/p4") else { return };
    let mut files = Vec::new();
    json_files(&data, &mut files);
    let (mut made, mut entries) = (0, 0);
    for file in &files {
        let Ok(program) = import(&std::fs::read_to_string(file).unwrap()) else { continue };
        let state = ProgramState::with_program_entries(&program);
        for (table, of) in program.tables.iter().zip(&state.tables) {
            let direct = table.source == TableActions::Direct;
            let expected = if direct { table.entries.len() } else { 0 };
            assert_eq!(of.len(), expected, "{}: table {}", file.display(), table.name);
            entries += of.len();
        }
        made += 1;
    }
    eprintln!("{made} of {} programs, {entries} entries", files.len());
    assert!(made > files.len() / 2, "only {made} of {} programs", files.len());
}
