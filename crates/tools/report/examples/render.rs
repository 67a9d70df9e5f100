//! Turns a run folder into its report: `render RUN OUT_DIR [--against OTHER_RUN]`; with `--import LABEL FILE.json...` in front of it,
//! makes a run folder in OUT_DIR of documents that bench verbs printed earlier, and turns that one.

use barewire_report::compare::{Method, compare};
use barewire_report::import;
use barewire_report::report::{Options, Report};
use barewire_report::run::{HardwareClass, Run, RunStart, RunWriter};
use barewire_report::{html, text};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--import", out, label, files @ ..] if !files.is_empty() => {
            let folder = imported(Path::new(out), label, files)?;
            println!("{}", folder.display());
        }
        [run, out] => render(Path::new(run), Path::new(out), None)?,
        [run, out, "--against", other] => render(Path::new(run), Path::new(out), Some(Path::new(other)))?,
        _ => {
            return Err(
                "usage: render RUN OUT_DIR [--against RUN] | render --import RUNS_DIR LABEL FILE.json..."
                    .into(),
            );
        }
    }
    Ok(())
}

fn render(run: &Path, out: &Path, against: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let run = Run::open(run)?;
    let mut report =
        Report::of(&[&run], &Options { title: run.manifest.label.clone(), ..Options::default() });
    if let Some(other) = against {
        report = report.with_comparison(compare(&[&run], &[&Run::open(other)?], Method::default()));
    }
    fs::create_dir_all(out.join("charts"))?;
    fs::write(out.join("report.html"), html::page(&report))?;
    fs::write(out.join("report.md"), text::markdown(&report, "charts"))?;
    fs::write(out.join("report.csv"), text::csv(&[&run]))?;
    for (name, svg) in text::charts(&report) {
        fs::write(out.join("charts").join(name), svg)?;
    }
    println!("{}", out.join("report.html").display());
    Ok(())
}

/// A run folder of documents that were recorded earlier, as of the first of them that says when.
fn imported(parent: &Path, label: &str, files: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
    let mut documents = Vec::new();
    for file in files {
        let document = import::document(&fs::read_to_string(file)?).map_err(|e| format!("{file}: {e}"))?;
        documents.push((file, document));
    }
    let written_ms = documents.iter().filter_map(|(_, d)| d.started_unix_ms).min().unwrap_or(0);
    let mut classes = documents.iter().map(|(_, d)| d.hardware);
    let first = classes.next().unwrap_or(HardwareClass::Unknown);
    let start = RunStart {
        label: label.to_owned(),
        started_unix_ms: written_ms,
        commit: None,
        command: String::new(),
        hardware: if classes.all(|class| class == first) { first } else { HardwareClass::Unknown },
        config: serde_json::Value::Null,
        fingerprint: documents.first().map(|(_, d)| d.fingerprint.clone()).unwrap_or_default(),
    };
    let mut writer = RunWriter::create(parent, &start)?;
    for (file, document) in documents {
        if document.fingerprint.get("machine") != start.fingerprint.get("machine") {
            writer.caveat(&format!("{file} is of another machine than the first document"));
        }
        for row in document.rows {
            row.write(&mut writer)?;
        }
    }
    Ok(writer.finish(written_ms)?)
}
