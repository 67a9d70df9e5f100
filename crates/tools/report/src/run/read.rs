//! Reading a run folder.

use super::manifest::{HardwareClass, MANIFEST_KEYS, Manifest, RUN_SCHEMA};
use super::record::{Record, known_keys, known_word};
use super::write::is_plain_name;
use super::{FILE_BYTES_MAX, HISTOGRAMS, MANIFEST, MANIFEST_BYTES_MAX, ROWS, RunError};
use barewire_measure::{Fingerprint, Histogram};
use rustix::fs::OFlags;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A run folder that was read.
#[derive(Clone, Debug)]
pub struct Run {
    /// The folder.
    pub path: PathBuf,
    /// What the run was.
    pub manifest: Manifest,
    /// Its rows, in the order in which they were written.
    pub records: Vec<Record>,
    /// Lines of the histogram log by tag. Kept as text: a histogram takes 230 KB, its line some hundred bytes.
    histograms: BTreeMap<String, Vec<String>>,
}

impl Run {
    /// Reads the folder at `path`. Everything in it is checked: versions, keys, words, every histogram, checksums of a run that
    /// came to its end. A run that did not may end in the middle of a line, which is left out.
    ///
    /// # Errors
    /// [`RunError`], which says file and line.
    pub fn open(path: &Path) -> Result<Run, RunError> {
        let manifest = manifest(&path.join(MANIFEST), path)?;
        let finished = manifest.ended_unix_ms.is_some();
        let mut files = BTreeMap::new();
        for entry in &manifest.files {
            if !is_plain_name(&entry.name) {
                let what = format!("file name `{}` is not a plain name", entry.name);
                return Err(RunError::Shape { path: path.join(MANIFEST), line: None, what });
            }
            let file = path.join(&entry.name);
            let kept = [ROWS, HISTOGRAMS].contains(&entry.name.as_str());
            let (len, crc32) = if kept {
                let bytes = bytes(&file, FILE_BYTES_MAX)?;
                let sum = (bytes.len() as u64, crc32fast::hash(&bytes));
                files.insert(entry.name.clone(), bytes);
                sum
            } else {
                sum_of(&file, entry.bytes)?
            };
            let crc32 = format!("{crc32:08x}");
            if len != entry.bytes {
                let what = format!("{len} bytes, {} when the run ended", entry.bytes);
                return Err(RunError::Damaged { path: file, what });
            }
            if crc32 != entry.crc32 {
                let what = format!("checksum {crc32}, {} when the run ended", entry.crc32);
                return Err(RunError::Damaged { path: file, what });
            }
        }
        let mut take = |name: &str| match files.remove(name) {
            Some(bytes) => Ok(Some(bytes)),
            // What a finished manifest does not list is not of the run.
            None if finished => Ok(None),
            None => match bytes(&path.join(name), FILE_BYTES_MAX) {
                Err(RunError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
                other => other.map(Some),
            },
        };
        let rows = take(ROWS)?.unwrap_or_default();
        let log = take(HISTOGRAMS)?.unwrap_or_default();
        let records = records(&path.join(ROWS), &rows, finished)?;
        let histograms = histograms(&path.join(HISTOGRAMS), &log, finished)?;
        let run = Run { path: path.to_owned(), manifest, records, histograms };
        run.check_tags()?;
        Ok(run)
    }

    /// Reads only the manifest of the folder at `path`.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn manifest_of(path: &Path) -> Result<Manifest, RunError> {
        manifest(&path.join(MANIFEST), path)
    }

    /// The histogram that `record` calls `name`, all repetitions merged. `None` when it has none.
    pub fn histogram(&self, record: &Record, name: &str) -> Option<Histogram> {
        let mut all = self.repetitions(record, name);
        let mut merged = all.next()?;
        all.for_each(|more| merged.merge(&more));
        Some(merged)
    }

    /// The histograms that `record` calls `name`, one for each repetition, in their order.
    pub fn repetitions<'a>(&'a self, record: &Record, name: &str) -> impl Iterator<Item = Histogram> + 'a {
        let reference = record.histograms.iter().find(|r| r.name == name);
        let lines =
            reference.and_then(|r| self.histograms.get(&r.tag)).map(Vec::as_slice).unwrap_or_default();
        // Each was decoded once already, when the folder was read: none fails here.
        lines.iter().filter_map(|line| Some(Histogram::from_log_line(line).ok()?.1))
    }

    /// The machine, where this build knows the fingerprint's version.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        serde_json::from_value(self.manifest.fingerprint.clone()).ok()
    }

    /// The folder's own name.
    pub fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(|| self.path.display().to_string(), |n| n.to_string_lossy().into_owned())
    }

    /// A record whose histogram is not in the log would lose its curve in silence.
    fn check_tags(&self) -> Result<(), RunError> {
        if self.manifest.ended_unix_ms.is_none() {
            return Ok(());
        }
        for (index, record) in self.records.iter().enumerate() {
            for reference in &record.histograms {
                if !self.histograms.contains_key(&reference.tag) {
                    return Err(RunError::Shape {
                        path: self.path.join(ROWS),
                        line: Some(index as u64 + 1),
                        what: format!("histogram tag `{}` is not in {HISTOGRAMS}", reference.tag),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Opens a file of a run: a folder comes from anywhere, and a pipe in it would be waited for.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::new(ErrorKind::InvalidInput, "no regular file")),
    }
}

fn bytes(path: &Path, max: u64) -> Result<Vec<u8>, RunError> {
    let io = |doing| move |source| RunError::Io { doing, path: path.to_owned(), source };
    let file = open(path).map_err(io("opening"))?;
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(io("reading"))?;
    if bytes.len() as u64 > max {
        return Err(RunError::TooLarge { path: path.to_owned(), max });
    }
    Ok(bytes)
}

/// Length and checksum of a file of any size, of which no more is read than it takes to see that it is longer than `expected`.
fn sum_of(path: &Path, expected: u64) -> Result<(u64, u32), RunError> {
    let io = |doing| move |source| RunError::Io { doing, path: path.to_owned(), source };
    let mut file = open(path).map_err(io("opening"))?.take(expected.saturating_add(1));
    let (mut chunk, mut len, mut crc) = (vec![0; 1 << 16], 0, crc32fast::Hasher::new());
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok((len, crc.finalize())),
            Ok(n) => {
                len += n as u64;
                crc.update(&chunk[..n]);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(io("reading")(e)),
        }
    }
}

fn manifest(path: &Path, folder: &Path) -> Result<Manifest, RunError> {
    let bytes = match bytes(path, MANIFEST_BYTES_MAX) {
        Err(RunError::Io { source, .. }) if source.kind() == ErrorKind::NotFound && folder.is_dir() => {
            return Err(RunError::NoRun { path: folder.to_owned() });
        }
        other => other?,
    };
    let shape = |line: Option<u64>, what: String| RunError::Shape { path: path.to_owned(), line, what };
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|e| shape(Some(e.line() as u64), format!("not JSON: {e}")))?;
    // The version is judged before the shape: another version may well have another shape.
    match value.get("schema").and_then(Value::as_u64) {
        Some(found) if found != u64::from(RUN_SCHEMA) => {
            return Err(RunError::Version { path: path.to_owned(), found });
        }
        Some(_) => {}
        None => return Err(shape(None, "key `schema` with a version number is expected".to_owned())),
    }
    known_keys(&value, &MANIFEST_KEYS).map_err(|what| shape(None, what))?;
    if let Some(word) = value.get("hardware").and_then(Value::as_str) {
        known_word("hardware", word, &HardwareClass::WORDS).map_err(|what| shape(None, what))?;
    }
    serde_json::from_value(value).map_err(|e| shape(None, e.to_string()))
}

/// Lines with their numbers. Without a last line break of a run that was killed, the last one is incomplete and left out.
fn lines(bytes: &[u8], finished: bool) -> impl Iterator<Item = (u64, &[u8])> {
    let whole = match bytes.iter().rposition(|&b| b == b'\n') {
        _ if finished => bytes,
        Some(last) => &bytes[..last],
        None => &[],
    };
    whole
        .split(|&b| b == b'\n')
        .zip(1u64..)
        .map(|(line, number)| (number, line))
        .filter(|(_, l)| !l.is_empty())
}

fn records(path: &Path, bytes: &[u8], finished: bool) -> Result<Vec<Record>, RunError> {
    lines(bytes, finished)
        .map(|(number, line)| {
            std::str::from_utf8(line)
                .map_err(|_| "not UTF-8".to_owned())
                .and_then(Record::from_line)
                .map_err(|what| RunError::Shape { path: path.to_owned(), line: Some(number), what })
        })
        .collect()
}

fn histograms(path: &Path, bytes: &[u8], finished: bool) -> Result<BTreeMap<String, Vec<String>>, RunError> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (number, line) in lines(bytes, finished) {
        // Comments, and the line of column titles.
        if line.starts_with(b"#") || line.starts_with(b"\"") {
            continue;
        }
        let shape = |what: String| RunError::Shape { path: path.to_owned(), line: Some(number), what };
        let text = std::str::from_utf8(line).map_err(|_| shape("not UTF-8".to_owned()))?;
        let (tag, _) = Histogram::from_log_line(text).map_err(|e| shape(e.to_string()))?;
        found.entry(tag.unwrap_or_default()).or_default().push(text.to_owned());
    }
    Ok(found)
}
