//! Every field of every message beside the reading of another decoder: the Python package sbedecoder, with the exchange's own
//! schemas. It runs where both are there: `BAREWIRE_PYTHON` names a Python that has the package (else `python3` is asked).

mod common;

use barewire_base::{Duration, Instant};
use barewire_feed_emulator::{CaptureWriter, Emulator, EmulatorConfig};
use barewire_feed_handler::{Found, check};
use barewire_testing::{Folder, Needs, shared, skip};
use common::{channel, emulation};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python with the package, and the folder of schemas and captures.
fn oracle() -> Option<(String, PathBuf)> {
    let data = shared("data/cme")?;
    let python = std::env::var("BAREWIRE_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import sbedecoder"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        skip(
            Needs::Python,
            format!("{python} cannot import sbedecoder (BAREWIRE_PYTHON names another Python)"),
        );
        return None;
    }
    Some((python, data))
}

/// Our reading of a capture, one JSON line for each message; how many there are.
fn ours(capture: &Path, lines: &Path) -> u64 {
    let mut out = String::new();
    let counts = check(capture, barewire_sbe::mdp3::schema(), &mut |found| {
        match found {
            Found::Message { frame, json, .. } => {
                writeln!(out, "{{\"frame\":{frame},\"message\":{json}}}").unwrap();
            }
            other => panic!("{}: {other:?}", capture.display()),
        }
        true
    })
    .unwrap();
    std::fs::write(lines, out).unwrap();
    counts.messages
}

/// Compares captures; fields and templates that were compared.
fn compare(python: &str, data: &Path, folder: &Folder, captures: &[PathBuf]) -> (u64, Vec<u16>) {
    let mut command = Command::new(python);
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/other_decoder.py"))
        .arg(data.join("schema"));
    let mut messages = 0;
    for (index, capture) in captures.iter().enumerate() {
        let lines = folder.file(format!("{index}.jsonl"));
        messages += ours(capture, &lines);
        command.arg(capture).arg(lines);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["messages"].as_u64(), Some(messages), "{said}");
    let templates = said["templates"].as_object().unwrap().keys().map(|key| key.parse().unwrap()).collect();
    (said["fields"].as_u64().unwrap(), templates)
}

#[test]
fn the_exchanges_captures_read_the_same() {
    let Some((python, data)) = oracle() else { return };
    let folder = Folder::new("other-decoder-captures");
    let mut captures: Vec<PathBuf> = std::fs::read_dir(data.join("pcap"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pcap"))
        .collect();
    captures.sort();
    let (fields, templates) = compare(&python, &data, &folder, &captures);
    assert!(fields > 600 && templates.len() >= 7, "{fields} fields of templates {templates:?}");
}

#[test]
fn an_emulated_channel_reads_the_same() {
    let Some((python, data)) = oracle() else { return };
    let folder = Folder::new("other-decoder-emulated");
    let config = EmulatorConfig {
        resets: vec![Duration::from_millis(100)],
        weekly_resets: vec![Duration::from_millis(200)],
        weekend: Duration::from_millis(10),
        definition_changes_per_s: 100,
        chunk_entries: 7,
        ..emulation(4)
    };
    let start = Instant::from_nanos(0);
    let mut emulator = Emulator::new(config.clone(), start).unwrap();
    let capture = folder.file("emulated.pcap");
    let mut writer = CaptureWriter::create(&capture, &channel(&config).connections, &emulator).unwrap();
    emulator.next_packets(start + Duration::from_millis(400), &mut |packet| writer.write(packet).unwrap());
    writer.finish().unwrap();
    let (fields, mut templates) = compare(&python, &data, &folder, &[capture]);
    templates.sort_unstable();
    let wanted =
        [4, 12, 30, 37, 39, 46, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 59, 60, 63, 64, 65, 66, 67, 69];
    assert_eq!(templates, wanted, "{fields} fields");
    assert!(fields > 100_000, "{fields} fields");
}
