//! `check`: format, lints and tests of what changed since the branch was made, for the minutes after an edit. `make test` is for all the rest.
//!
//! ```text
//! git diff MERGE-BASE, untracked files -> paths -> crates -> cargo fmt, clippy, test of these
//!                                                         -> cargo check of the crates that are built from them
//!                                      -> tidy, and cargo-deny where it is installed and a manifest changed
//! ```

use crate::tidy::{self, Workspace};
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Branches that work starts from, the first that there is.
const MAIN: &[&str] = &["main", "origin/main", "master"];
/// Crates whose integration tests start daemons, labs and measurements: they take minutes, and `make test` runs them.
const LONG: &[&str] = &["crates/tools/", "crates/services/"];

/// What is to be done about some changed paths.
#[derive(Debug, Default, PartialEq, Eq)]
struct Work {
    /// Crates with changed files.
    crates: BTreeSet<String>,
    /// Of these, the ones whose integration tests all run.
    whole: BTreeSet<String>,
    /// Crates and those of their integration tests that changed themselves.
    tests: BTreeSet<(String, String)>,
    /// Crates that are built from changed ones, directly or not.
    dependents: BTreeSet<String>,
    /// A manifest or the lock file changed.
    manifests: bool,
}

fn work(workspace: &Workspace, paths: &[String]) -> Work {
    let mut work = Work::default();
    for path in paths {
        work.manifests |= path.ends_with("Cargo.toml") || path == "Cargo.lock";
        let below = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let Some(member) = workspace.members.iter().find(|member| below(&member.folder)) else { continue };
        if !path.ends_with(".rs") && !path.ends_with("Cargo.toml") {
            continue;
        }
        work.crates.insert(member.name.clone());
        if !LONG.iter().any(|folder| member.folder.starts_with(folder)) {
            work.whole.insert(member.name.clone());
        } else if let Some(test) = path.strip_prefix(&format!("{}/tests/", member.folder)) {
            // `tests/NAME.rs` and `tests/NAME/...` are of the test NAME; what tests share is of none.
            let name = test.split('/').next().unwrap_or(test).trim_end_matches(".rs");
            if name != "common" {
                work.tests.insert((member.name.clone(), name.to_owned()));
            }
        }
    }
    let mut reached = work.crates.clone();
    loop {
        let more: Vec<String> = workspace
            .members
            .iter()
            .filter(|member| {
                !reached.contains(&member.name) && member.needs.iter().any(|need| reached.contains(need))
            })
            .map(|member| member.name.clone())
            .collect();
        if more.is_empty() {
            break;
        }
        reached.extend(more);
    }
    work.dependents = reached.difference(&work.crates).cloned().collect();
    work
}

/// Paths that differ from where the branch was made, and new ones.
fn changed_paths(root: &Path) -> anyhow::Result<Vec<String>> {
    let git = |args: &[&str]| -> anyhow::Result<Option<String>> {
        let out = Command::new("git").arg("-C").arg(root).args(args).output().context("starting git")?;
        Ok(out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned()))
    };
    let mut base = "HEAD".to_owned();
    for branch in MAIN {
        if let Some(found) = git(&["merge-base", "HEAD", branch])? {
            base = found.trim().to_owned();
            break;
        }
    }
    let differ = git(&["diff", "--name-only", &base])?.context("git diff failed: is this a repository?")?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?.unwrap_or_default();
    let paths: BTreeSet<String> = differ.lines().chain(new.lines()).map(str::to_owned).collect();
    // What was deleted has no crate any more; its crate's other files changed with it.
    Ok(paths.into_iter().collect())
}

/// Runs one command, saying what it is and what came of it. False: it found fault.
fn step(root: &Path, words: &[&str]) -> anyhow::Result<bool> {
    println!("$ {}", words.join(" "));
    let status = Command::new(words[0]).args(&words[1..]).current_dir(root).status();
    let status = status.with_context(|| format!("starting {}", words[0]))?;
    println!("  {}", if status.success() { "good" } else { "failed" });
    Ok(status.success())
}

/// The task.
pub fn main(args: &[String]) -> anyhow::Result<bool> {
    let dry = match args {
        [] => false,
        [one] if one == "--dry-run" => true,
        _ => anyhow::bail!("check takes --dry-run and nothing else"),
    };
    let root = crate::root();
    let workspace = Workspace::load(&root)?;
    let paths = changed_paths(&root)?;
    let work = work(&workspace, &paths);
    println!("{} files changed, in {} crates", paths.len(), work.crates.len());
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let packages = |names: &BTreeSet<String>| -> Vec<String> {
        names.iter().flat_map(|name| ["--package".to_owned(), name.clone()]).collect()
    };
    // As in the Makefile: what `make test` has checked there is not checked again.
    let lints = format!("{}/lints", std::env::var("CARGO_TARGET_DIR").as_deref().unwrap_or("target"));
    let mut steps: Vec<Vec<String>> = Vec::new();
    let mut add = |head: &[&str], middle: Vec<String>, tail: &[&str]| {
        let words = std::iter::once(cargo.as_str()).chain(head.iter().copied()).map(str::to_owned);
        steps.push(words.chain(middle).chain(tail.iter().map(|word| (*word).to_owned())).collect());
    };
    if !work.crates.is_empty() {
        add(&["fmt"], packages(&work.crates), &["--check"]);
        let head = ["clippy", "--quiet", "--all-targets", "--target-dir", &lints];
        add(&head, packages(&work.crates), &["--", "-D", "warnings"]);
        if !work.dependents.is_empty() {
            add(&["check", "--quiet", "--target-dir", &lints], packages(&work.dependents), &[]);
        }
        if !work.whole.is_empty() {
            add(&["test", "--quiet"], packages(&work.whole), &[]);
        }
        for name in work.crates.difference(&work.whole) {
            // Unit tests of libraries and binaries; cargo refuses `--lib` where there is none.
            let has_lib =
                workspace.member(name).is_some_and(|m| m.roots.iter().any(|root| root.ends_with("/lib.rs")));
            let targets: &[&str] = if has_lib {
                &["test", "--quiet", "--lib", "--bins"]
            } else {
                &["test", "--quiet", "--bins"]
            };
            add(targets, packages(&BTreeSet::from([name.clone()])), &[]);
        }
        for (name, test) in &work.tests {
            add(&["test", "--quiet", "--test", test], packages(&BTreeSet::from([name.clone()])), &[]);
        }
    }
    let has_deny =
        Command::new(&cargo).args(["deny", "--version"]).output().is_ok_and(|out| out.status.success());
    if work.manifests && has_deny {
        add(&["deny", "--log-level", "error", "check"], Vec::new(), &[]);
    }
    let mut good = true;
    for words in &steps {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if dry {
            println!("$ {}", words.join(" "));
        } else {
            good &= step(&root, &words)?;
        }
    }
    if !dry {
        good &= tidy::main(&[])?;
    }
    if work.manifests && !has_deny {
        println!("note: cargo-deny is not installed; licences and advisories were not checked");
    }
    for name in work.crates.difference(&work.whole) {
        println!(
            "note: integration tests of {name} that did not change were not run: cargo test --package {name}"
        );
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Member;

    #[test]
    fn paths_name_crates_tests_and_dependents() {
        let member = |name: &str, folder: &str, needs: &[&str]| Member {
            name: name.to_owned(),
            folder: folder.to_owned(),
            roots: vec![],
            published_for_tests: Vec::new(),
            published: true,
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        };
        let workspace = Workspace {
            members: vec![
                member("a", "crates/ground/a", &[]),
                member("b", "crates/services/b", &["a"]),
                member("c", "crates/tools/c", &["b"]),
                member("ab", "crates/ground/ab", &[]),
            ],
        };
        let of = |paths: &[&str]| {
            work(&workspace, &paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
        };
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let ground = of(&["crates/ground/a/src/lib.rs", "README.md"]);
        assert_eq!(
            (&ground.crates, &ground.whole, &ground.dependents),
            (&set(&["a"]), &set(&["a"]), &set(&["b", "c"]))
        );
        let tools = of(&[
            "crates/tools/c/tests/x/main.rs",
            "crates/tools/c/tests/common/mod.rs",
            "crates/services/b/Cargo.toml",
        ]);
        assert_eq!((tools.crates, tools.manifests), (set(&["b", "c"]), true));
        assert!(tools.whole.is_empty());
        assert_eq!(tools.tests, BTreeSet::from([("c".to_owned(), "x".to_owned())]));
        assert_eq!(of(&["docs/src/a.md", "crates/tools/c/testdata/x.json"]), Work::default());
    }
}
