//! Links: the files and headings that they name, and the built book.

use barewire_testing::{Needs, skip};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Links of these documents that lead nowhere.
pub fn check(root: &Path, pages: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for name in pages {
        let text = fs::read_to_string(root.join(name)).expect("a page");
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        for (line, target) in targets(&text) {
            let mut fault = |why: &str| faults.push(format!("{name}:{line}: `{target}` {why}"));
            if target.starts_with("https://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) =
                target.split_once('#').map_or((target.as_str(), None), |(f, a)| (f, Some(a)));
            let path = if file.is_empty() { PathBuf::from(name) } else { normal(&folder.join(file)) };
            if !root.join(&path).exists() {
                fault("is not there");
                continue;
            }
            if name.starts_with("docs/src/") && !path.starts_with("docs/src") {
                fault("is not in the book, so the built book cannot have it: name the file in code instead");
            }
            if let Some(anchor) = anchor {
                let other = fs::read_to_string(root.join(&path)).unwrap_or_default();
                if !headings(&other).contains(anchor) {
                    fault("names no heading");
                }
            }
        }
    }
    faults
}

/// `a/b/../c` as `a/c`.
fn normal(path: &Path) -> PathBuf {
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    for part in path.iter() {
        match part.to_str() {
            Some("..") => drop(parts.pop()),
            Some(".") => {}
            _ => parts.push(part),
        }
    }
    parts.iter().collect()
}

/// Targets of links and pictures with their lines; fenced code and code in a line have none.
fn targets(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut fenced) = (Vec::new(), false);
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect();
        for part in prose.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((i + 1, target.split(' ').next().unwrap_or_default().to_owned()));
            }
        }
    }
    found
}

/// What links may name after `#`.
fn headings(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    text.lines()
        .filter(|line| {
            fenced ^= line.trim_start().starts_with("```");
            !fenced
        })
        .filter_map(|line| line.strip_prefix('#'))
        .map(|line| slug(line.trim_start_matches('#').trim()))
        .collect()
}

/// As GitHub and mdBook make it of a heading.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Builds the book where mdbook is installed: no warning, and every file that a built page names is there.
pub fn built(root: &Path) {
    let Ok(version) = Command::new("mdbook").arg("--version").output() else {
        return skip(Needs::Tools, "mdbook is not installed (cargo install mdbook)");
    };
    assert!(version.status.success());
    let folder = tempfile::tempdir().expect("a folder");
    let out = Command::new("mdbook")
        .args(["build", "--dest-dir"])
        .arg(folder.path())
        .arg(root.join("docs"))
        .output()
        .expect("mdbook starts");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !said.contains("WARN") && !said.contains("ERROR"), "{said}");
    let (mut faults, mut links) = (Vec::new(), 0);
    walk(folder.path(), &mut |page| {
        let text = fs::read_to_string(page).expect("a page");
        for attribute in ["href=\"", "src=\""] {
            for part in text.split(attribute).skip(1) {
                let target = part.split(['"', '#', '?']).next().unwrap_or_default();
                let is_elsewhere =
                    target.contains("://") || target.starts_with("data:") || target.starts_with("mailto:");
                if target.is_empty() || is_elsewhere {
                    // Nothing that the page needs may come over the network.
                    if attribute == "src=\"" && target.contains("://") {
                        faults.push(format!("{}: loads {target}", page.display()));
                    }
                    continue;
                }
                links += 1;
                let base =
                    if target.starts_with('/') { folder.path() } else { page.parent().expect("a folder") };
                if !base.join(target.trim_start_matches('/')).exists() {
                    faults.push(format!("{}: {target} is not there", page.display()));
                }
            }
        }
    });
    assert!(faults.is_empty() && links > 100, "{links} links\n{}", faults.join("\n"));
}

fn walk(folder: &Path, each: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, each);
        } else if path.extension().is_some_and(|end| end == "html") && !path.ends_with("404.html") {
            each(&path);
        }
    }
}
