//! What examples that leave a record have in common: words of the command line, workloads in turns, a document or a run folder.
#![allow(dead_code, reason = "each example uses some of it")]

use barewire_base::Duration;
use barewire_bench::row::Row;
use barewire_bench::run::{Workload, interleave};
use barewire_bench::{Control, Head, Results};
use barewire_report::run::HardwareClass;
use serde_json::json;
use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long hiccups of the machine are looked for, for the control rows.
const HICCUP: Duration = Duration::from_millis(300);
/// Exit codes of the command line, too: something failed; a row must not be used.
const FAILED: u8 = 1;
const VOID: u8 = 4;

/// The words of a command line that nobody has taken yet.
pub struct Words(Vec<String>);

impl Words {
    pub fn of_command() -> Words {
        Words(std::env::args().skip(1).collect())
    }

    /// Whether this word is there.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != name);
        self.0.len() < before
    }

    /// The word that follows `name`, if that is there.
    pub fn text(&mut self, name: &str) -> Outcome<Option<String>> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(None) };
        if at + 1 >= self.0.len() {
            return Err(format!("`{name}` needs a value").into());
        }
        let value = self.0.remove(at + 1);
        self.0.remove(at);
        Ok(Some(value))
    }

    /// The same, read, or what is usual.
    pub fn value<T: FromStr<Err: Display>>(&mut self, name: &str, usual: T) -> Outcome<T> {
        let Some(text) = self.text(name)? else { return Ok(usual) };
        text.parse().map_err(|why| format!("`{name} {text}`: {why}").into())
    }

    /// A time in seconds.
    pub fn seconds(&mut self, name: &str, usual: f64) -> Outcome<Duration> {
        let seconds: f64 = self.value(name, usual)?;
        match (0.0..1e6).contains(&seconds) {
            true => Ok(Duration::from_nanos((seconds * 1e9).round() as u64)),
            false => Err(format!("`{name} {seconds}`: expected a number of seconds").into()),
        }
    }

    /// What is left, none of which is an option.
    pub fn rest(self) -> Outcome<Vec<String>> {
        match self.0.iter().find(|word| word.starts_with('-')) {
            Some(word) => Err(format!("unknown option `{word}`").into()),
            None => Ok(self.0),
        }
    }
}

/// What is left behind: a document on standard output, a run folder, or neither.
pub struct Leave {
    pub json: bool,
    folder: Option<PathBuf>,
}

impl Leave {
    /// `--json`, `--run FOLDER`.
    pub fn of(words: &mut Words) -> Outcome<Leave> {
        Ok(Leave { json: words.flag("--json"), folder: words.text("--run")?.map(PathBuf::from) })
    }

    /// Begins: control rows first, where something is left behind.
    pub fn begin(&self) -> Results {
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its figures say nothing; build with --release");
        }
        let mut results = Results::begin();
        if self.json || self.folder.is_some() {
            match Control::measure(HICCUP) {
                Ok(control) => results.set_control(control),
                Err(error) => results.caveat(format!("no control rows: {error}")),
            }
        }
        results
    }

    /// Runs workloads in turns, A B B A, and leaves their rows, once `finish` has said what they are beside each other. Rows are printed as
    /// a table by `shown` where there is no document.
    pub fn measured(
        &self,
        label: &str,
        mut workloads: Vec<Box<dyn Workload>>,
        runs: u32,
        mut results: Results,
        finish: impl FnOnce(&mut [Row]),
        shown: impl FnOnce(&[Row]) -> String,
    ) -> Outcome<ExitCode> {
        workloads.iter().try_for_each(|workload| workload.check())?;
        let tell = &mut |line: String| {
            if runs < 10 {
                eprintln!("{line}");
            }
        };
        let (mut rows, failed) = interleave(&mut workloads, runs, tell, &mut |_| {});
        // Hosts go before anything is printed.
        drop(workloads);
        finish(&mut rows);
        results.add(&rows)?;
        let hardware = HardwareClass::OneMachine;
        if let Some(folder) = &self.folder {
            let config = json!({ "command": results.fingerprint().run.command_line, "runs": runs });
            let head = Head { label: label.to_owned(), config, hardware };
            eprintln!("the record is in {}", results.write(folder, &head)?.display());
        }
        match self.json {
            true => println!("{}", results.document(hardware, false, &[])?),
            false => print!("{}", shown(&rows)),
        }
        for error in &failed {
            eprintln!("error: {error}");
        }
        let void = rows.iter().any(|row| row.void.is_some());
        Ok(ExitCode::from(if !failed.is_empty() { FAILED } else { u8::from(void) * VOID }))
    }
}
