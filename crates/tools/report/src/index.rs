//! An SQLite index of run folders, to find runs by label, table, commit and date without reading them all.
//!
//! The folders are the truth: the index holds nothing that they do not, and [`Index::rebuild`] makes it again from them. An index of
//! another version is told as such, and its remedy is a rebuild; a file that is none is left alone.

use crate::run::{Run, RunError};
use crate::suggest;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params, params_from_iter};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Version of the index, in SQLite's `user_version`.
const INDEX_SCHEMA: u32 = 1;
/// `barewire index` in SQLite's `application_id`, so that no other database is taken for one and emptied.
const APPLICATION_ID: u32 = 0x6277_6978;
/// How long a writer waits for another one.
const BUSY: Duration = Duration::from_secs(5);

const TABLES: &str = "
    CREATE TABLE runs (
        path TEXT PRIMARY KEY,
        label TEXT NOT NULL,
        started_unix_ms INTEGER NOT NULL,
        ended_unix_ms INTEGER,
        commit_id TEXT,
        command TEXT NOT NULL,
        hardware TEXT NOT NULL,
        machine TEXT NOT NULL,
        records INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE run_tables (
        path TEXT NOT NULL REFERENCES runs (path) ON DELETE CASCADE,
        table_id TEXT NOT NULL,
        records INTEGER NOT NULL,
        PRIMARY KEY (path, table_id)
    ) STRICT;
    CREATE INDEX runs_by_time ON runs (started_unix_ms);
    CREATE INDEX run_tables_by_id ON run_tables (table_id);
";

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// SQLite said no.
    #[error("index {path}: {source}", path = .path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    db: Connection,
}

impl Index {
    /// Opens the index at `path`, or makes an empty one.
    ///
    /// # Errors
    /// [`IndexError::Foreign`] for an index of another version, [`IndexError::Other`] for a file that is something else: both are left
    /// as they are. [`IndexError::Sqlite`].
    pub fn open(path: &Path) -> Result<Index, IndexError> {
        let db = Connection::open(path).map_err(|source| sqlite(path, source))?;
        let index = Index { path: path.to_owned(), db };
        index.prepare()?;
        Ok(index)
    }

    /// Makes the index at `path` anew from the run folders in `parent`, whatever index was there before, at a stroke: whoever reads
    /// sees the old one or the new one. A folder that cannot be read is reported and left out.
    ///
    /// # Errors
    /// [`IndexError`]; [`IndexError::Other`] where the file is not an index of any version: it is left as it is.
    pub fn rebuild(path: &Path, parent: &Path) -> Result<(Index, Rebuilt), IndexError> {
        let io = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| IndexError::Io { doing, path, source }
        };
        if path.exists() {
            match Index::open(path) {
                Ok(_) | Err(IndexError::Foreign { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        match fs::remove_file(&part) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io("removing", &part)(e)),
            _ => {}
        }
        let mut done = Rebuilt::default();
        {
            let mut index = Index::open(&part)?;
            for folder in folders(parent)? {
                index.add_folder(folder, &mut done)?;
            }
            index.db.close().map_err(|(_, source)| sqlite(&part, source))?;
        }
        fs::rename(&part, path).map_err(io("writing", path))?;
        Ok((Index::open(path)?, done))
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
        let forgotten = self.forget(|path| is_gone(path) || path.parent() != Some(&here))?;
        let mut done = Rebuilt { forgotten, ..Rebuilt::default() };
        let known: Vec<PathBuf> = self
            .find(&Query::default())?
            .into_iter()
            .filter(|entry| entry.ended_unix_ms.is_some())
            .map(|entry| entry.path)
            .collect();
        for folder in there {
            let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            if !known.contains(&real) {
                self.add_folder(folder, &mut done)?;
            }
        }
        Ok(done)
    }

    fn add_folder(&mut self, folder: PathBuf, done: &mut Rebuilt) -> Result<(), IndexError> {
        match Run::open(&folder) {
            Ok(run) => {
                self.add(&run)?;
                done.indexed += 1;
            }
            Err(error) => done.refused.push((folder, error)),
        }
        Ok(())
    }

    /// Adds a run, or replaces what the index knows of it.
    ///
    /// # Errors
    /// [`IndexError::Sqlite`].
    pub fn add(&mut self, run: &Run) -> Result<(), IndexError> {
        let path = self.path.clone();
        self.insert(run).map_err(|source| sqlite(&path, source))
    }

    fn insert(&mut self, run: &Run) -> rusqlite::Result<()> {
        let m = &run.manifest;
        let folder = run.path.canonicalize().unwrap_or_else(|_| run.path.clone());
        let folder = folder.to_string_lossy();
        let machine = run.fingerprint().map(|f| f.hash()).unwrap_or_default();
        let transaction = self.db.transaction()?;
        transaction.execute("DELETE FROM runs WHERE path = ?1", [&folder])?;
        transaction.execute(
            "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                folder,
                m.label,
                signed(m.started_unix_ms),
                m.ended_unix_ms.map(signed),
                m.commit,
                m.command,
                m.hardware.word(),
                machine,
                signed(run.records.len() as u64),
            ],
        )?;
        for record in &run.records {
            transaction.execute(
                "INSERT INTO run_tables VALUES (?1, ?2, 1)
                 ON CONFLICT (path, table_id) DO UPDATE SET records = records + 1",
                params![folder, record.table],
            )?;
        }
        transaction.commit()
    }

    /// The runs that `query` asks for, latest first.
    ///
    /// # Errors
    /// [`IndexError::Sqlite`].
    pub fn find(&self, query: &Query) -> Result<Vec<Entry>, IndexError> {
        self.select(query).map_err(|source| sqlite(&self.path, source))
    }

    fn select(&self, query: &Query) -> rusqlite::Result<Vec<Entry>> {
        use rusqlite::types::Value;
        let mut wheres: Vec<&str> = Vec::new();
        let mut values: Vec<Value> = Vec::new();
        let mut want = |clause, value: Value| {
            wheres.push(clause);
            values.push(value);
        };
        if let Some(label) = &query.label {
            want("label LIKE ? ESCAPE '\\'", Value::Text(format!("%{}%", pattern(label))));
        }
        if let Some(table) = &query.table {
            want("path IN (SELECT path FROM run_tables WHERE table_id = ?)", Value::Text(table.clone()));
        }
        if let Some(commit) = &query.commit {
            want("commit_id LIKE ? ESCAPE '\\'", Value::Text(format!("{}%", pattern(commit))));
        }
        if let Some(machine) = &query.machine {
            want("machine = ?", Value::Text(machine.clone()));
        }
        if let Some(from) = query.from_unix_ms {
            want("started_unix_ms >= ?", Value::Integer(signed(from)));
        }
        if let Some(before) = query.before_unix_ms {
            want("started_unix_ms < ?", Value::Integer(signed(before)));
        }
        let wheres =
            if wheres.is_empty() { String::new() } else { format!("WHERE {}", wheres.join(" AND ")) };
        let limit = query.limit.map_or(-1, i64::from);
        let sql =
            format!("SELECT * FROM runs {wheres} ORDER BY started_unix_ms DESC, path DESC LIMIT {limit}");
        let mut statement = self.db.prepare(&sql)?;
        let mut entries: Vec<Entry> =
            statement.query_map(params_from_iter(values), entry)?.collect::<rusqlite::Result<_>>()?;
        let mut tables =
            self.db.prepare("SELECT table_id, records FROM run_tables WHERE path = ? ORDER BY table_id")?;
        for entry in &mut entries {
            let path = entry.path.to_string_lossy().into_owned();
            entry.tables = tables
                .query_map([path], |r| Ok((r.get(0)?, unsigned(r.get(1)?))))?
                .collect::<rusqlite::Result<_>>()?;
        }
        Ok(entries)
    }

    /// The label nearest to `word`, for a search that found nothing.
    ///
    /// # Errors
    /// [`IndexError::Sqlite`].
    pub fn nearest_label(&self, word: &str) -> Result<Option<String>, IndexError> {
        self.nearest(word, "SELECT DISTINCT label FROM runs")
    }

    /// The table id nearest to `word`, for a search that found nothing.
    ///
    /// # Errors
    /// [`IndexError::Sqlite`].
    pub fn nearest_table(&self, word: &str) -> Result<Option<String>, IndexError> {
        self.nearest(word, "SELECT DISTINCT table_id FROM run_tables")
    }

    fn nearest(&self, word: &str, sql: &str) -> Result<Option<String>, IndexError> {
        let all = || -> rusqlite::Result<Vec<String>> {
            self.db.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
        };
        let all = all().map_err(|source| sqlite(&self.path, source))?;
        Ok(suggest::nearest(word, all.iter().map(String::as_str)).map(str::to_owned))
    }

    /// Takes runs out whose folder is gone. Returns how many.
    ///
    /// # Errors
    /// [`IndexError::Sqlite`].
    pub fn forget_missing(&mut self) -> Result<usize, IndexError> {
        self.forget(is_gone)
    }

    fn forget(&mut self, is_gone: impl Fn(&Path) -> bool) -> Result<usize, IndexError> {
        let all = self.find(&Query::default())?.into_iter().map(|entry| entry.path);
        let gone: Vec<PathBuf> = all.filter(|path| is_gone(path)).collect();
        for path in &gone {
            self.db
                .execute("DELETE FROM runs WHERE path = ?1", [path.to_string_lossy()])
                .map_err(|source| sqlite(&self.path, source))?;
        }
        Ok(gone.len())
    }

    /// Checks that the file is ours, or makes the tables in an empty one.
    fn prepare(&self) -> Result<(), IndexError> {
        // What the file is instead, and whether a rebuild may replace it.
        let setup = || -> rusqlite::Result<Option<(String, bool)>> {
            self.db.busy_timeout(BUSY)?;
            self.db.pragma_update(None, "foreign_keys", true)?;
            let id: u32 = self.db.query_row("PRAGMA application_id", [], |r| r.get(0))?;
            let version: u32 = self.db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
            if (id, version) == (APPLICATION_ID, INDEX_SCHEMA) {
                return Ok(None);
            }
            let first: Option<String> =
                self.db.query_row("SELECT name FROM sqlite_schema LIMIT 1", [], |r| r.get(0)).optional()?;
            if id == APPLICATION_ID {
                return Ok(Some((format!("version {version}"), true)));
            }
            if first.is_some() || id != 0 || version != 0 {
                return Ok(Some(("another program's database".to_owned(), false)));
            }
            self.db.execute_batch(&format!(
                "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {INDEX_SCHEMA}; COMMIT;"
            ))?;
            Ok(None)
        };
        match setup() {
            Ok(None) => Ok(()),
            Ok(Some((what, true))) => Err(IndexError::Foreign { path: self.path.clone(), what }),
            Ok(Some((what, false))) => Err(IndexError::Other { path: self.path.clone(), what }),
            Err(source)
                if matches!(
                    source.sqlite_error_code(),
                    Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
                ) =>
            {
                Err(IndexError::Other { path: self.path.clone(), what: "no database".to_owned() })
            }
            Err(source) => Err(sqlite(&self.path, source)),
        }
    }
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

fn sqlite(path: &Path, source: rusqlite::Error) -> IndexError {
    IndexError::Sqlite { path: path.to_owned(), source }
}

/// SQLite's numbers are signed; a time that no clock shows counts as the last one.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// `text` as LIKE reads it literally.
fn pattern(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn entry(row: &rusqlite::Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        path: PathBuf::from(row.get::<_, String>(0)?),
        label: row.get(1)?,
        started_unix_ms: unsigned(row.get(2)?),
        ended_unix_ms: row.get::<_, Option<i64>>(3)?.map(unsigned),
        commit: row.get(4)?,
        command: row.get(5)?,
        hardware: row.get(6)?,
        machine: row.get(7)?,
        records: unsigned(row.get(8)?),
        tables: Vec::new(),
    })
}
