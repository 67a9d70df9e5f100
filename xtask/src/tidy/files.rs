//! Rules about files: length, markers of unfinished work, names, machine paths, documents.

use super::scrub::{has_word, scrub};
use super::tree::TextFile;
use super::{Finding, Tree, Workspace};

/// Longest Rust file in lines.
const LINES_MAX: usize = 800;
/// Markers of unfinished work.
const MARKERS: &[&str] = &["todo!(", "unimplemented!(", "dbg!("];
/// A test may be ignored only because another test starts it in a process of its own; its reason says so in these words.
const CHILD_TESTS: &[&str] = &["#[ignore = \"the child of ", "#[ignore = \"the process that "];
/// Names that say nothing.
const VAGUE: &[&str] = &["utils", "common"];
/// Where the files of one machine live, with what may follow: a made-up user of a test, or nothing.
const MACHINE_PATHS: &[(&str, &[&str])] =
    &[("work", &[]), ("root", &[]), ("home", &["alice", "bob", "user", "USER"])];
/// Written by cargo, not by us.
const GENERATED: &[&str] = &["Cargo.lock", "bindings/Cargo.lock"];
/// The documents that name crates, where they exist.
const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CHANGELOG.md"];
/// The one that names all of them.
const MAP: &str = "ARCHITECTURE.md";

/// All rules of this file.
pub fn check(workspace: &Workspace, tree: &Tree, findings: &mut Vec<Finding>) {
    for file in &tree.files {
        if file.is_rust() {
            length(file, findings);
            markers(file, findings);
            tabs(file, findings);
        }
        if !GENERATED.contains(&file.path.as_str()) {
            machine_paths(file, findings);
        }
    }
    vague_names(tree, findings);
    documents(workspace, tree, findings);
}

fn length(file: &TextFile, findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        findings.push(Finding {
            file: file.path.clone(),
            line: 0,
            rule: "length",
            reason: format!("{lines} lines, more than {LINES_MAX}"),
            hint: "split it by subject",
        });
    }
}

fn markers(file: &TextFile, findings: &mut Vec<Finding>) {
    let code = scrub(&file.text);
    for (i, (line, original)) in code.lines().zip(file.text.lines()).enumerate() {
        let mut found = |what: &str, hint| {
            findings.push(Finding {
                file: file.path.clone(),
                line: i + 1,
                rule: "marker",
                reason: format!("`{what}`"),
                hint,
            });
        };
        for marker in MARKERS {
            let whole_word =
                |(at, _): (usize, &str)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if line.match_indices(marker).any(whole_word) {
                found(marker.trim_end_matches('('), "finish it, or take it out");
            }
        }
        if line.contains("#[ignore") && !CHILD_TESTS.iter().any(|child| original.contains(child)) {
            let hint = "make it run, or delete it; a test that another test starts says so: `#[ignore = \"the child of ...\"]`";
            found("#[ignore]", hint);
        }
    }
}

fn tabs(file: &TextFile, findings: &mut Vec<Finding>) {
    for (i, _) in file.text.lines().enumerate().filter(|(_, line)| line.contains('\t')) {
        findings.push(Finding {
            file: file.path.clone(),
            line: i + 1,
            rule: "tab",
            reason: "a tab".to_owned(),
            hint: "indent with spaces; write `\\t` in a literal",
        });
    }
}

/// The machine path that `line` names, if any.
fn machine_path(line: &str) -> Option<String> {
    MACHINE_PATHS.iter().find_map(|(folder, made_up)| {
        let prefix = format!("/{folder}/");
        line.match_indices(&prefix).find_map(|(at, _)| {
            // `net/root/x` and `../root/x` are paths of the tree.
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.*}".contains(c)) {
                return None;
            }
            let rest = &line[at + prefix.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && !"_-.".contains(c)).unwrap_or(rest.len());
            let name = &rest[..end];
            (!name.is_empty() && !made_up.contains(&name)).then(|| format!("{prefix}{name}"))
        })
    })
}

fn machine_paths(file: &TextFile, findings: &mut Vec<Finding>) {
    for (i, line) in file.text.lines().enumerate() {
        if let Some(path) = machine_path(line) {
            findings.push(Finding {
                file: file.path.clone(),
                line: i + 1,
                rule: "machine-path",
                reason: format!("names `{path}`, a path of one machine"),
                hint: "use a path from the repository's root, or a made-up user's (alice, bob)",
            });
        }
    }
}

fn vague_names(tree: &Tree, findings: &mut Vec<Finding>) {
    let files = tree.files.iter().filter_map(|f| f.path.strip_suffix(".rs"));
    for path in tree.folders.iter().map(String::as_str).chain(files) {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        // `tests/common/` is how cargo wants what integration tests share.
        if VAGUE.contains(&name) && !parent.ends_with("/tests") {
            findings.push(Finding {
                file: path.to_owned(),
                line: 0,
                rule: "vague-name",
                reason: format!("`{name}` says nothing"),
                hint: "name it by what is in it",
            });
        }
    }
}

fn documents(workspace: &Workspace, tree: &Tree, findings: &mut Vec<Finding>) {
    for name in DOCUMENTS {
        let Some(file) = tree.file(name) else { continue };
        if *name == MAP {
            for member in workspace.members.iter().filter(|m| m.folder.starts_with("crates/")) {
                if !file.text.lines().any(|line| has_word(line, member.short_name())) {
                    findings.push(Finding {
                        file: file.path.clone(),
                        line: 0,
                        rule: "map",
                        reason: format!("does not mention the crate `{}`", member.short_name()),
                        hint: "say in one line what the crate is",
                    });
                }
            }
        }
        for (i, line) in file.text.lines().enumerate() {
            for (at, _) in line.match_indices("crates/") {
                if line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-/".contains(c)) {
                    continue;
                }
                let rest = &line[at..];
                let stops = |c: char| !c.is_alphanumeric() && !"_-./".contains(c);
                let end = rest.find(stops).unwrap_or(rest.len());
                // `crates/{a,b}` and `crates/*/*` are patterns, not paths.
                if rest[end..].starts_with(['*', '{', '<']) {
                    continue;
                }
                let path = rest[..end].trim_end_matches(['/', '.']);
                let exists = tree.folders.iter().any(|f| f == path) || tree.file(path).is_some();
                if !exists {
                    findings.push(Finding {
                        file: file.path.clone(),
                        line: i + 1,
                        rule: "dead-path",
                        reason: format!("names `{path}`, which is not there"),
                        hint: "follow the move, or take the sentence out",
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::machine_path;

    fn at(folder: &str, rest: &str) -> String {
        format!("see /{folder}/{rest}")
    }

    #[test]
    fn machine_paths_are_told_from_others() {
        for (folder, rest, name) in
            [("home", "carol/x", "carol"), ("work", "main", "main"), ("root", ".ssh/id", ".ssh")]
        {
            assert_eq!(machine_path(&at(folder, rest)), Some(format!("/{folder}/{name}")));
        }
        assert_eq!(machine_path(&at("home", "alice/x")), None);
        assert_eq!(machine_path(&at("home", "\"")), None);
        assert_eq!(machine_path("net/root/x ../root/x a-b/home/x"), None);
        let both = format!("{} {}", at("home", "bob"), at("home", "carol"));
        assert_eq!(machine_path(&both), Some(format!("/{}/carol", "home")));
    }
}
