//! The files of the repository.

use anyhow::Context as _;
use std::fs;
use std::path::Path;

/// Folders that hold what tools made.
const NOT_OURS: &[&str] = &["target", "node_modules"];
/// Such folders by their whole path.
const NOT_OURS_PATHS: &[&str] = &["fuzz/corpus", "fuzz/artifacts"];
/// Files above this size are data.
const TEXT_MAX: u64 = 4 << 20;

/// One text file.
pub struct TextFile {
    /// Path from the root, with `/`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl TextFile {
    /// Whether it is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Every text file and folder below the root, without `.git`, build output and fuzzing corpora.
pub struct Tree {
    /// Text files, by path.
    pub files: Vec<TextFile>,
    /// Folders, from the root.
    pub folders: Vec<String>,
}

impl Tree {
    /// Reads the tree at `root`.
    ///
    /// # Errors
    /// When a folder or file cannot be read.
    pub fn load(root: &Path) -> anyhow::Result<Tree> {
        let mut tree = Tree { files: Vec::new(), folders: Vec::new() };
        tree.walk(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.folders.sort();
        Ok(tree)
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&TextFile> {
        let at = self.files.binary_search_by(|f| f.path.as_str().cmp(path)).ok()?;
        Some(&self.files[at])
    }

    /// The files below `folder`.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a TextFile> {
        self.files.iter().filter(move |f| is_below(&f.path, folder))
    }

    fn walk(&mut self, folder: &Path, name: &str) -> anyhow::Result<()> {
        let context = || format!("reading {}", folder.display());
        for entry in fs::read_dir(folder).with_context(context)? {
            let entry = entry.with_context(context)?;
            let Ok(own) = entry.file_name().into_string() else { continue };
            let path = if name.is_empty() { own.clone() } else { format!("{name}/{own}") };
            let kind = entry.file_type().with_context(context)?;
            if kind.is_dir() {
                let hidden = own.starts_with('.') && own != ".github" && own != ".cargo";
                let skipped = hidden || NOT_OURS.contains(&own.as_str());
                if !skipped && !NOT_OURS_PATHS.contains(&path.as_str()) {
                    self.walk(&entry.path(), &path)?;
                    self.folders.push(path);
                }
            } else if own == ".git" {
                // In a worktree it is a file that names a folder of this machine.
            } else if kind.is_file() && entry.metadata().is_ok_and(|m| m.len() <= TEXT_MAX) {
                // A file may vanish between the two calls while somebody edits; one that is no UTF-8 is no text.
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    self.files.push(TextFile { path, text });
                }
            }
        }
        Ok(())
    }
}

/// Whether `path` lies in `folder`.
pub fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}
