//! `tidy`: the house rules that neither the compiler nor clippy knows.
//!
//! ```text
//! cargo metadata -> Workspace (workspace.rs) -> crates.rs   floors, circles, lints, forbid, heads, unsafe
//! the tree       -> Tree      (tree.rs)      -> clocks.rs   who reads the time of day
//!                                               files.rs    length, markers, tabs, folder names, machine paths, documents
//!                                               locks.rs    both workspaces have the same versions
//!                                   figures                       what documents claim, against the records
//! ```
//! Every rule yields [`Finding`]s: where, what, and how to mend it.

mod clocks;
mod crates;
mod files;
mod locks;
mod scrub;
#[cfg(test)]
mod tests;
mod tree;
mod workspace;

use std::fmt;
use std::path::Path;

#[cfg(test)]
pub use tree::TextFile;
pub use tree::Tree;
#[cfg(test)]
pub use workspace::Member;
pub use workspace::Workspace;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root.
    pub file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": [{}] {}\n    hint: {}", self.rule, self.reason, self.hint)
    }
}

/// Everything that is wrong with the tree at `root`, sorted.
///
/// # Errors
/// When cargo cannot describe the workspace, or a file cannot be read.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let workspace = Workspace::load(root)?;
    let tree = Tree::load(root)?;
    let mut findings = Vec::new();
    crates::check(&workspace, &tree, &mut findings);
    clocks::check(&tree, &mut findings);
    files::check(&workspace, &tree, &mut findings);
    locks::check(&tree, &mut findings);
    findings.extend(crate::figures::check(&tree, &|commit| crate::figures::age(root, commit)).findings);
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// The task.
pub fn main(args: &[String]) -> anyhow::Result<bool> {
    anyhow::ensure!(args.is_empty(), "tidy takes no options");
    let findings = check(&crate::root())?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy"),
        n => println!("\n{n} findings"),
    }
    Ok(findings.is_empty())
}
