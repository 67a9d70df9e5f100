//! Where files come from: this crate reads none itself.
use std::collections::BTreeMap;

/// Gives the text of files.
pub trait Resolver {
    /// The bytes of a file; none if there is no such file.
    ///
    /// # Errors
    /// The file is there and cannot be read: why.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String>;
}

/// No files but the built-in ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Resolver for NoFiles {
    fn read(&self, _path: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }
}

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(pub BTreeMap<String, String>);

impl MemoryFiles {
    /// With one file.
    pub fn one(path: impl Into<String>, text: impl Into<String>) -> MemoryFiles {
        MemoryFiles::default().with(path, text)
    }

    /// With one more file.
    #[must_use]
    pub fn with(mut self, path: impl Into<String>, text: impl Into<String>) -> MemoryFiles {
        self.0.insert(path.into(), text.into());
        self
    }
}

impl Resolver for MemoryFiles {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.0.get(path).map(|text| text.clone().into_bytes()))
    }
}

/// The file `name` beside the file `from`, or in the directory `from` if `directory`.
pub(crate) fn join(from: &str, directory: bool, name: &str) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    let folder =
        if directory { from.trim_end_matches('/') } else { from.rsplit_once('/').map_or("", |(d, _)| d) };
    match folder {
        "" if from.starts_with('/') => format!("/{name}"),
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn files_are_beside_files_and_in_directories() {
        assert_eq!(join("a/b.p4", false, "c.p4"), "a/c.p4");
        assert_eq!(join("b.p4", false, "c.p4"), "c.p4");
        assert_eq!(join("/b.p4", false, "c.p4"), "/c.p4");
        assert_eq!(join("a/", true, "c.p4"), "a/c.p4");
        assert_eq!(join("/", true, "c.p4"), "/c.p4");
        assert_eq!(join("a/b.p4", false, "/c.p4"), "/c.p4");
    }
}
