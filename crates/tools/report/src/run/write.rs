//! Writing a run folder.

use super::manifest::{FileEntry, HardwareClass, Manifest, RUN_SCHEMA};
use super::record::{HistogramRef, Record};
use super::{HISTOGRAMS, MANIFEST, ROWS, RunError};
use crate::utc::folder_stamp;
use barewire_measure::{Histogram, LOG_HEADER};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Characters of a label that a folder's name keeps.
const LABEL_LEN_MAX: usize = 60;

/// What is known when a run begins.
#[derive(Clone, Debug)]
pub struct RunStart {
    /// What its user calls it.
    pub label: String,
    /// Now, in ms since 1970 ([`barewire_measure::realtime_ns`] divided by a million).
    pub started_unix_ms: u64,
    /// Commit of the program, where it is known.
    pub commit: Option<String>,
    /// The command line, redacted.
    pub command: String,
    /// What lies between the ends.
    pub hardware: HardwareClass,
    /// The resolved configuration.
    pub config: Value,
    /// The machine: a [`barewire_measure::Fingerprint`] as JSON.
    pub fingerprint: Value,
}

/// A run folder that is being filled. Rows are on disk when [`add`](RunWriter::add) returns, so that a run that is killed
/// keeps them.
#[derive(Debug)]
pub struct RunWriter {
    path: PathBuf,
    manifest: Manifest,
    rows: FileWriter,
    /// Made with the first histogram.
    histograms: Option<FileWriter>,
    attached: Vec<FileEntry>,
    records: u64,
}

impl RunWriter {
    /// Makes the folder `TIME-LABEL` in `parent` (which is made where it is missing), with a manifest that has no end yet.
    ///
    /// # Errors
    /// [`RunError::Exists`] when there is one of this name; [`RunError::Io`].
    pub fn create(parent: &Path, start: &RunStart) -> Result<RunWriter, RunError> {
        let io = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| RunError::Io { doing, path, source }
        };
        fs::create_dir_all(parent).map_err(io("making", parent))?;
        let path =
            parent.join(format!("{}-{}", folder_stamp(start.started_unix_ms), folder_label(&start.label)));
        fs::create_dir(&path).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => RunError::Exists { path: path.clone() },
            _ => RunError::Io { doing: "making", path: path.clone(), source },
        })?;
        let manifest = Manifest {
            schema: RUN_SCHEMA,
            label: start.label.clone(),
            started_unix_ms: start.started_unix_ms,
            ended_unix_ms: None,
            commit: start.commit.clone(),
            command: start.command.clone(),
            hardware: start.hardware,
            config: start.config.clone(),
            fingerprint: start.fingerprint.clone(),
            caveats: Vec::new(),
            files: Vec::new(),
        };
        let begin = || {
            FileWriter::create(&path, MANIFEST)?.write(manifest_text(&manifest).as_bytes())?;
            FileWriter::create(&path, ROWS)
        };
        let rows = begin().inspect_err(|_| {
            // A folder of a run that never began would be refused by every reader. The first error is the one to tell.
            let _ = fs::remove_dir_all(&path);
        })?;
        Ok(RunWriter { path, manifest, rows, histograms: None, attached: Vec::new(), records: 0 })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a row, with its histograms by name: one for each repetition, those of several machines merged before. They are kept
    /// apart, so that repetitions can be compared, and merge exactly when they are read. What `record.histograms` held is replaced.
    ///
    /// # Errors
    /// [`RunError::Refused`] for a record that could not be read back; [`RunError::Io`], after which the files are as they were before.
    pub fn add(&mut self, mut record: Record, histograms: &[(&str, &Histogram)]) -> Result<(), RunError> {
        record.check().map_err(RunError::Refused)?;
        record.histograms.clear();
        let mut lines = String::new();
        for (name, histogram) in histograms {
            let known = record.histograms.iter().find(|known| known.name == *name);
            let tag = known.map_or_else(|| self.tag(name, &record.histograms), |known| known.tag.clone());
            lines.push_str(&histogram.to_log_line(Some(&tag), 0.0, 0.0));
            lines.push('\n');
            if known.is_none() {
                record.histograms.push(HistogramRef { name: (*name).to_owned(), tag });
            }
        }
        let mut line = serde_json::to_string(&record).map_err(|e| RunError::Refused(e.to_string()))?;
        line.push('\n');
        let mut before = None;
        if !lines.is_empty() {
            let log = self.histogram_log()?;
            before = Some(log.mark());
            log.write(lines.as_bytes())?;
        }
        let written = self.rows.write(line.as_bytes());
        if let (Err(_), Some(before), Some(log)) = (&written, before, &mut self.histograms) {
            // Histograms of a row that is not there would be taken for those of the next one, which has its number.
            log.back_to(before);
        }
        written?;
        self.records += 1;
        Ok(())
    }

    /// A tag of the row that comes, which no other histogram of it has: of names that differ in what a tag cannot hold, too.
    fn tag(&self, name: &str, taken: &[HistogramRef]) -> String {
        let plain = format!("{}.{}", self.records, plain(name, LABEL_LEN_MAX));
        let numbered = (2..).map(|n| format!("{plain}.{n}"));
        let free = |tag: &String| taken.iter().all(|known| known.tag != *tag);
        std::iter::once(plain.clone()).chain(numbered).find(free).unwrap_or(plain)
    }

    /// The log of histograms, which is made with the first one.
    fn histogram_log(&mut self) -> Result<&mut FileWriter, RunError> {
        match &mut self.histograms {
            Some(log) => Ok(log),
            none => {
                let mut log = FileWriter::create(&self.path, HISTOGRAMS)?;
                log.write(LOG_HEADER.as_bytes()).inspect_err(|_| log.remove())?;
                Ok(none.insert(log))
            }
        }
    }

    /// Adds a file of the run's own, such as a log of one host or a Parquet file.
    ///
    /// # Errors
    /// [`RunError::Refused`] for a name with a path in it, [`RunError::Exists`], [`RunError::Io`].
    pub fn attach(&mut self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        if !is_plain_name(name) {
            return Err(RunError::Refused(format!("`{name}` is not a plain file name")));
        }
        let mut file = FileWriter::create(&self.path, name)?;
        file.write(bytes).inspect_err(|_| file.remove())?;
        file.sync().inspect_err(|_| file.remove())?;
        self.attached.push(file.entry());
        Ok(())
    }

    /// What a reader has to know before believing any row; said once however often it is told.
    pub fn caveat(&mut self, text: &str) {
        if self.manifest.caveats.iter().all(|known| known != text) {
            self.manifest.caveats.push(text.to_owned());
        }
    }

    /// Ends the run: the manifest gets its end and the files' checksums, and replaces the first one at a stroke.
    ///
    /// # Errors
    /// [`RunError::Io`]; the rows are on disk all the same.
    pub fn finish(mut self, ended_unix_ms: u64) -> Result<PathBuf, RunError> {
        self.manifest.ended_unix_ms = Some(ended_unix_ms.max(self.manifest.started_unix_ms));
        self.manifest.files = std::iter::once(&self.rows)
            .chain(&self.histograms)
            .map(FileWriter::entry)
            .chain(std::mem::take(&mut self.attached))
            .collect();
        let unfinished = "manifest.json.part";
        let mut file = FileWriter::create(&self.path, unfinished)?;
        file.write(manifest_text(&self.manifest).as_bytes()).inspect_err(|_| file.remove())?;
        for file in std::iter::once(&file).chain(std::iter::once(&self.rows)).chain(&self.histograms) {
            file.sync()?;
        }
        let to = self.path.join(MANIFEST);
        fs::rename(self.path.join(unfinished), &to).map_err(|source| RunError::Io {
            doing: "writing",
            path: to,
            source,
        })?;
        Ok(self.path)
    }
}

fn manifest_text(manifest: &Manifest) -> String {
    // Keys are strings and numbers whole: nothing that serde_json refuses.
    let mut text = serde_json::to_string_pretty(manifest).unwrap_or_default();
    text.push('\n');
    text
}

/// A place in a file that grows.
struct Mark {
    bytes: u64,
    crc: crc32fast::Hasher,
}

/// A file that is made, never opened again, and summed up as it grows.
#[derive(Debug)]
struct FileWriter {
    name: String,
    path: PathBuf,
    file: File,
    bytes: u64,
    crc: crc32fast::Hasher,
}

impl FileWriter {
    fn create(folder: &Path, name: &str) -> Result<FileWriter, RunError> {
        let path = folder.join(name);
        let file =
            OpenOptions::new().write(true).create_new(true).open(&path).map_err(|source| {
                match source.kind() {
                    ErrorKind::AlreadyExists => RunError::Exists { path: path.clone() },
                    _ => RunError::Io { doing: "making", path: path.clone(), source },
                }
            })?;
        Ok(FileWriter { name: name.to_owned(), path, file, bytes: 0, crc: crc32fast::Hasher::new() })
    }

    /// All of it, or nothing: a disk that is full must leave no half of a line for the next one to follow.
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        if let Err(source) = self.file.write_all(bytes) {
            self.back_to(self.mark());
            return Err(self.io("writing", source));
        }
        self.bytes += bytes.len() as u64;
        self.crc.update(bytes);
        Ok(())
    }

    /// How far it has come.
    fn mark(&self) -> Mark {
        Mark { bytes: self.bytes, crc: self.crc.clone() }
    }

    /// Takes back what was written since. Making a file shorter needs no room; where it cannot be, the reader drops half a line at
    /// the end, which it is as long as nobody writes on.
    fn back_to(&mut self, mark: Mark) {
        let _ = self.file.set_len(mark.bytes).and_then(|()| self.file.seek(SeekFrom::Start(mark.bytes)));
        (self.bytes, self.crc) = (mark.bytes, mark.crc);
    }

    /// Takes it away: nobody has use for a part of it.
    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    fn sync(&self) -> Result<(), RunError> {
        self.file.sync_all().map_err(|source| self.io("writing", source))
    }

    fn io(&self, doing: &'static str, source: std::io::Error) -> RunError {
        RunError::Io { doing, path: self.path.clone(), source }
    }

    fn entry(&self) -> FileEntry {
        let crc32 = format!("{:08x}", self.crc.clone().finalize());
        FileEntry { name: self.name.clone(), bytes: self.bytes, crc32 }
    }
}

/// `label` as the end of a folder's name.
fn folder_label(label: &str) -> String {
    let label = plain(label, LABEL_LEN_MAX);
    if label.is_empty() { "run".to_owned() } else { label }
}

/// Letters, digits, dot, underscore and dash; everything else becomes a dash.
fn plain(text: &str, len_max: usize) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    text.chars().map(keep).take(len_max).collect::<String>().trim_matches(['-', '.']).to_owned()
}

/// Whether `name` names a file in the folder itself.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}
