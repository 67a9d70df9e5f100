//! `switch run --watch`: a program whose files change is compiled again and takes the place of the old one.

use super::source::{Recorded, lower_with};
use super::{is_source, load, prepare};
use crate::console::Console;
use crate::failure;
use barewire_p4_source::Options;
use barewire_switch::control::Switch;
use barewire_switch::prepared::{EngineKind, Prepared};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What tells one state of a file from the next.
type Stamp = Option<(SystemTime, u64)>;

/// The files of a program, as they were when it was read last.
pub struct Watch {
    program: PathBuf,
    options: Options,
    engine: EngineKind,
    files: Vec<(PathBuf, Stamp)>,
}

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

impl Watch {
    /// Reads a program for the first time.
    ///
    /// # Errors
    /// As of any program that is loaded.
    pub fn start(
        program: PathBuf,
        options: Options,
        engine: EngineKind,
        console: &Console,
    ) -> anyhow::Result<(Watch, Arc<Prepared>)> {
        let mut watch = Watch { program, options, engine, files: Vec::new() };
        let prepared = watch.read(console)?;
        Ok((watch, prepared))
    }

    /// Reads the program; whatever comes of it, its files are known afterwards. Their state is taken before they are read: a
    /// change in between is seen the next time.
    fn read(&mut self, console: &Console) -> anyhow::Result<Arc<Prepared>> {
        for (path, before) in &mut self.files {
            *before = stamp(path);
        }
        if !self.files.iter().any(|(path, _)| *path == self.program) {
            self.files.push((self.program.clone(), stamp(&self.program)));
        }
        let program = if is_source(&self.program) {
            let files = Recorded::default();
            let lowered = lower_with(&files, &self.program, &self.options, console);
            for path in files.take() {
                if !self.files.iter().any(|(known, _)| *known == path) {
                    let now = stamp(&path);
                    self.files.push((path, now));
                }
            }
            Arc::new(lowered?)
        } else {
            load(&self.program, &self.options, console)?
        };
        prepare(&program, self.engine)
    }

    /// Runs what the files have become, if one has changed.
    pub fn look(&mut self, switch: &Switch, console: &Console) {
        if self.files.iter().all(|(path, before)| stamp(path) == *before) {
            return;
        }
        let outcome = self.read(console).and_then(|prepared| Ok(switch.commit_prepared(prepared)?));
        match outcome {
            Ok(()) => console.note(&format!("{}: changed; the new program runs", self.program.display())),
            Err(error) => {
                failure::report(&error, console);
                console.note(&format!("{}: the old program keeps running", self.program.display()));
            }
        }
    }
}
