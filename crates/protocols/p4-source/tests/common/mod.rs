//! The shared P4 sources, read the way a caller of the crate reads files.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use barewire_p4_source::Resolver;

/// Files below a folder.
pub struct Folder(pub PathBuf);

impl Resolver for Folder {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.0.join(path);
        if !path.is_file() {
            return Ok(None);
        }
        std::fs::read(path).map(Some).map_err(|e| e.to_string())
    }
}

/// One line of `expected.tsv`.
#[derive(Clone, Debug)]
pub struct Sample {
    /// `p4_16_samples/x.p4`
    pub path: String,
    /// Exit code of the reference compiler's front and mid end; none: it crashed.
    pub code: Option<i32>,
    /// Its first error.
    pub error: String,
}

impl Sample {
    /// File and line of a syntax error, if the reference compiler reports one first.
    pub fn syntax_error(&self) -> Option<(&str, u32)> {
        if !self.error.contains("syntax error") {
            return None;
        }
        let (file, rest) = self.error.split_once('(')?;
        let (line, _) = rest.split_once(')')?;
        Some((file, line.parse().ok()?))
    }
}

/// The folder and its samples.
pub fn samples() -> Option<(Folder, Vec<Sample>)> {
    let folder = barewire_testing::shared("data/p4src")?;
    let text = std::fs::read_to_string(folder.join("expected.tsv")).unwrap();
    let line = |line: &str| {
        let mut words = line.split('\t');
        let directory = words.next()?;
        let name = words.next()?;
        let _arch = words.next()?;
        let code = words.next()?.parse().ok().filter(|c| *c >= 0);
        let _backend = words.next();
        let error = words.next().unwrap_or("").to_owned();
        Some(Sample { path: format!("{directory}/{name}"), code, error })
    };
    let samples = text.lines().filter(|l| !l.starts_with('#')).filter_map(line).collect();
    Some((Folder(folder), samples))
}

/// All P4 files below a folder.
pub fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(list) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = list.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "p4") {
            found.push(path);
        }
    }
}
