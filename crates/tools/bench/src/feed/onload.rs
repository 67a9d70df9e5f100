//! The socket engine under Onload: the same command in a process of its own, which `onload` starts.

use super::live::EngineKind;
use super::row::{MEASURES, PARAMS, subject};
use crate::error::BenchError;
use crate::row::Row;
use barewire_report::import;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The program that starts others with their sockets bypassing the kernel.
const ONLOAD: &str = "onload";

/// Options with a value that are not for the child.
const WITH_VALUE: [&str; 7] = ["--engine", "--out", "--schema", "--sbe-tool", "--run", "--label", "--hiccup"];

/// Runs this program's command of `words` again under `onload`, with the engine `socket-spin` alone, and gives its rows under the
/// name of the engine. `command` is what rows say produced them.
///
/// # Errors
/// [`BenchError::Program`] where there is no `onload`, or what it said.
pub fn rows(command: &str, words: impl Iterator<Item = OsString>) -> Result<Vec<Row>, BenchError> {
    let failed = |why: String| BenchError::Program { program: ONLOAD.to_owned(), why };
    let own = std::env::current_exe().map_err(BenchError::io("finding this program's file"))?;
    let output = Command::new(ONLOAD)
        .arg(own)
        .args(child_words(words))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                failed("not installed here; the engine `socket-spin` is the same without it".to_owned())
            }
            _ => failed(e.to_string()),
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let no_document =
        |e: serde_json::Error| failed(format!("{}; its output is no document: {e}", output.status));
    let document = serde_json::from_str(text.trim()).map_err(no_document)?;
    import::rows(document).into_iter().map(|row| named(row, command).map_err(no_document)).collect()
}

/// A row of the child's under the name of the engine.
fn named(row: Map<String, Value>, command: &str) -> Result<Row, serde_json::Error> {
    let values = PARAMS.map(|key| row.get(key).cloned().unwrap_or_default());
    Row::read(subject(&EngineKind::Onload.to_string(), values, command), MEASURES, row)
}

/// The child's words: ours, but one engine and a document on its output only.
fn child_words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        match text.as_ref() {
            "--json" | "--rate" | "--decode" | "--histograms" => {}
            option if WITH_VALUE.contains(&option) => drop(words.next()),
            _ if WITH_VALUE
                .iter()
                .any(|o| text.strip_prefix(o).is_some_and(|rest| rest.starts_with('='))) => {}
            _ => out.push(word),
        }
    }
    out.extend(["--engine", "socket-spin", "--json", "--histograms"].map(OsString::from));
    out
}

#[cfg(test)]
mod tests {
    use super::super::Base;
    use super::*;

    #[test]
    fn rows_of_the_child_are_ours_under_another_name() {
        let theirs = super::super::render::tests::row("socket-spin", Base::Stamp, 5000, 4_567);
        let Value::Object(json) = serde_json::to_value(&theirs).unwrap() else { panic!("no object") };
        let ours = named(json, "barewire bench feed --engine onload").unwrap();
        assert_eq!(ours.subject.params, theirs.subject.params);
        assert_eq!((&ours.values, &ours.runs), (&theirs.values, &theirs.runs));
        assert_eq!(ours.subject.engine.as_deref(), Some("onload"));
        assert_eq!(ours.subject.command, "barewire bench feed --engine onload");
    }

    #[test]
    fn the_child_measures_one_engine_and_writes_no_file() {
        let ours = "bench feed --engine socket,onload --runs 2 --json --out x.json --run=r --gap-us 0 --decode --schema=s --label l";
        let words = child_words(ours.split(' ').map(OsString::from));
        let words: Vec<&str> = words.iter().map(|w| w.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "bench feed --runs 2 --gap-us 0 --engine socket-spin --json --histograms"
        );
    }
}
