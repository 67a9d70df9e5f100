//! An index of run folders, to find runs by label, table, commit and date without reading them all.
//!
//! The folders are the truth: the index holds nothing that they do not, and [`Index::rebuild`] makes it again from them. It is one JSON
//! document, which is replaced at a stroke. An index of another version is told as such, and its remedy is a rebuild; a file that is none is
//! left alone.

use crate::run::{Run, RunError};
use barewire_text::nearest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Version of the document. The first was an SQLite database.
const INDEX_SCHEMA: u64 = 2;
/// The document's key of its version, so that no other file is taken for an index and replaced.
const VERSION_KEY: &str = "barewire_index";

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// An index of another version.
    #[error("{path} is not a run index of version {INDEX_SCHEMA}: {what}; rebuild it from the run folders", path = .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// A file of something else, which a rebuild must not replace either.
    #[error("{path} is not a run index: {what}; it was not changed", path = .path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// The file system said no.
    #[error("{doing} {path}: {source}", path = .path.display())]
    Io {
        /// What was attempted, as a participle.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Which runs to find. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Text that the label contains, whatever its case.
    pub label: Option<String>,
    /// A table id that it has rows of.
    pub table: Option<String>,
    /// Beginning of the commit.
    pub commit: Option<String>,
    /// Hash of the machine's fingerprint.
    pub machine: Option<String>,
    /// Started at this time or later, in ms since 1970.
    pub from_unix_ms: Option<u64>,
    /// Started before this time.
    pub before_unix_ms: Option<u64>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// A run as the index knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its folder.
    pub path: PathBuf,
    /// Its label.
    pub label: String,
    /// Start in ms since 1970.
    pub started_unix_ms: u64,
    /// End; `None` of a run that was killed.
    pub ended_unix_ms: Option<u64>,
    /// Commit.
    pub commit: Option<String>,
    /// Command line.
    pub command: String,
    /// Hardware class, as manifests spell it.
    pub hardware: String,
    /// Hash of the machine's fingerprint; empty when this build does not know its version.
    pub machine: String,
    /// Rows.
    pub records: u64,
    /// Its tables, with their rows.
    pub tables: Vec<(String, u64)>,
}

/// What a rebuild or an update found.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// Runs that were read and put into the index.
    pub indexed: usize,
    /// Runs that were taken out, as their folder is gone.
    pub forgotten: usize,
    /// Folders with a manifest that could not be read, and why.
    pub refused: Vec<(PathBuf, RunError)>,
}

/// The index.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    runs: Vec<Entry>,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Document {
    barewire_index: u64,
    runs: Vec<Entry>,
}

impl Index {
    /// Opens the index at `path`. Where there is none it is empty, and is written when something comes into it.
    ///
    /// # Errors
    /// [`IndexError::Foreign`] for an index of another version, [`IndexError::Other`] for a file that is something else: both are left
    /// as they are. [`IndexError::Io`].
    pub fn open(path: &Path) -> Result<Index, IndexError> {
        let other = |what: &str| IndexError::Other { path: path.to_owned(), what: what.to_owned() };
        let runs = match fs::read(path) {
            Ok(bytes) => {
                let document: Value = serde_json::from_slice(&bytes).map_err(|_| other("no JSON"))?;
                let version = document.get(VERSION_KEY).ok_or_else(|| other("another program's document"))?;
                if version.as_u64() != Some(INDEX_SCHEMA) {
                    return Err(IndexError::Foreign {
                        path: path.to_owned(),
                        what: format!("version {version}"),
                    });
                }
                let broken = |e: serde_json::Error| IndexError::Foreign {
                    path: path.to_owned(),
                    what: format!("not as it was written ({e})"),
                };
                serde_json::from_value::<Document>(document).map_err(broken)?.runs
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(io("reading", path)(source)),
        };
        Ok(Index { path: path.to_owned(), runs })
    }

    /// Makes the index at `path` anew from the run folders in `parent`, whatever index was there before, at a stroke: whoever reads
    /// sees the old one or the new one. A folder that cannot be read is reported and left out.
    ///
    /// # Errors
    /// [`IndexError`]; [`IndexError::Other`] where the file is not an index of any version: it is left as it is.
    pub fn rebuild(path: &Path, parent: &Path) -> Result<(Index, Rebuilt), IndexError> {
        match Index::open(path) {
            Ok(_) | Err(IndexError::Foreign { .. }) => {}
            Err(other) => return Err(other),
        }
        let (mut index, mut done) = (Index { path: path.to_owned(), runs: Vec::new() }, Rebuilt::default());
        for folder in folders(parent)? {
            index.take_in(folder, &mut done);
        }
        index.write()?;
        Ok((index, done))
    }

    /// Brings the index up to the run folders in `parent`: those that it does not know, and those that had not ended, are read; those
    /// that are gone leave it. A run that ended never changes, so the others need no reading.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn update(&mut self, parent: &Path) -> Result<Rebuilt, IndexError> {
        let there = folders(parent)?;
        // A copied folder has a copied index, which names the runs of the folder that it was copied from.
        let here = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
        let forgotten = self.forget(|path| is_gone(path) || path.parent() != Some(&here));
        let mut done = Rebuilt { forgotten, ..Rebuilt::default() };
        for folder in there {
            let real = real(&folder);
            if !self.runs.iter().any(|run| run.path == real && run.ended_unix_ms.is_some()) {
                self.take_in(folder, &mut done);
            }
        }
        // Who may only read the runs can find them as long as nothing is new.
        if done.indexed + done.forgotten > 0 {
            self.write()?;
        }
        Ok(done)
    }

    fn take_in(&mut self, folder: PathBuf, done: &mut Rebuilt) {
        match Run::open(&folder) {
            Ok(run) => {
                self.insert(&run);
                done.indexed += 1;
            }
            Err(error) => done.refused.push((folder, error)),
        }
    }

    /// Adds a run, or replaces what the index knows of it.
    ///
    /// # Errors
    /// [`IndexError::Io`].
    pub fn add(&mut self, run: &Run) -> Result<(), IndexError> {
        self.insert(run);
        self.write()
    }

    fn insert(&mut self, run: &Run) {
        let m = &run.manifest;
        let mut tables: Vec<(String, u64)> = Vec::new();
        for record in &run.records {
            match tables.iter_mut().find(|(table, _)| *table == record.table) {
                Some((_, records)) => *records += 1,
                None => tables.push((record.table.clone(), 1)),
            }
        }
        tables.sort();
        let entry = Entry {
            path: real(&run.path),
            label: m.label.clone(),
            started_unix_ms: m.started_unix_ms,
            ended_unix_ms: m.ended_unix_ms,
            commit: m.commit.clone(),
            command: m.command.clone(),
            hardware: m.hardware.word().to_owned(),
            machine: run.fingerprint().map(|f| f.hash()).unwrap_or_default(),
            records: run.records.len() as u64,
            tables,
        };
        self.runs.retain(|known| known.path != entry.path);
        self.runs.push(entry);
    }

    /// The runs that `query` asks for, latest first.
    pub fn find(&self, query: &Query) -> Vec<Entry> {
        let is_asked = |run: &&Entry| {
            let small = |text: &str| text.to_lowercase();
            let label = |asked: &String| small(&run.label).contains(&small(asked));
            let table = |asked: &String| run.tables.iter().any(|(table, _)| table == asked);
            let commit =
                |asked: &String| run.commit.as_ref().is_some_and(|own| small(own).starts_with(&small(asked)));
            query.label.as_ref().is_none_or(label)
                && query.table.as_ref().is_none_or(table)
                && query.commit.as_ref().is_none_or(commit)
                && query.machine.as_ref().is_none_or(|asked| run.machine == *asked)
                && query.from_unix_ms.is_none_or(|from| run.started_unix_ms >= from)
                && query.before_unix_ms.is_none_or(|before| run.started_unix_ms < before)
        };
        let mut found: Vec<Entry> = self.runs.iter().filter(is_asked).cloned().collect();
        found.sort_by(|a, b| (b.started_unix_ms, &b.path).cmp(&(a.started_unix_ms, &a.path)));
        found.truncate(query.limit.map_or(usize::MAX, |limit| limit as usize));
        found
    }

    /// The label nearest to `word`, for a search that found nothing.
    pub fn nearest_label(&self, word: &str) -> Option<String> {
        nearest(word, self.runs.iter().map(|run| run.label.as_str())).map(str::to_owned)
    }

    /// The table id nearest to `word`, for a search that found nothing.
    pub fn nearest_table(&self, word: &str) -> Option<String> {
        let tables = self.runs.iter().flat_map(|run| run.tables.iter().map(|(table, _)| table.as_str()));
        nearest(word, tables).map(str::to_owned)
    }

    /// Takes runs out whose folder is gone. Returns how many.
    ///
    /// # Errors
    /// [`IndexError::Io`].
    pub fn forget_missing(&mut self) -> Result<usize, IndexError> {
        let gone = self.forget(is_gone);
        if gone > 0 {
            self.write()?;
        }
        Ok(gone)
    }

    fn forget(&mut self, is_gone: impl Fn(&Path) -> bool) -> usize {
        let before = self.runs.len();
        self.runs.retain(|run| !is_gone(&run.path));
        before - self.runs.len()
    }

    /// Replaces the file: who reads it meanwhile has the old one. Of two writers the last one counts, and what the other one knew is read
    /// again.
    fn write(&self) -> Result<(), IndexError> {
        let mut part = self.path.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        let document = Document { barewire_index: INDEX_SCHEMA, runs: self.runs.clone() };
        let text = serde_json::to_vec(&document).map_err(|e| io("writing", &self.path)(e.into()))?;
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &self.path));
        written.map_err(|source| {
            let _ = fs::remove_file(&part);
            io("writing", &self.path)(source)
        })
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> IndexError {
    let path = path.to_owned();
    move |source| IndexError::Io { doing, path, source }
}

/// The folder's own name, whatever led to it.
fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

fn is_gone(run: &Path) -> bool {
    !run.join(crate::run::MANIFEST).is_file()
}

/// The run folders in `parent`, in the order of their names.
fn folders(parent: &Path) -> Result<Vec<PathBuf>, IndexError> {
    let entries = fs::read_dir(parent).map_err(|source| IndexError::Io {
        doing: "reading",
        path: parent.to_owned(),
        source,
    })?;
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(crate::run::MANIFEST).is_file())
        .collect();
    folders.sort();
    Ok(folders)
}
