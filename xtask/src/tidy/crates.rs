//! Rules about crates: who may depend on whom, and where unsafe code may be.

use super::scrub::{lines_with_word, scrub};
use super::tree::is_below;
use super::workspace::Member;
use super::{Finding, Tree, Workspace};

/// Crates whose subject is unsafe.
const ISLANDS: &[&str] =
    &["frame", "ring", "channel", "packet", "xdp", "dpdk", "bpf", "p4-jit", "ffi", "feed-ffi", "verbs-ffi"];
/// The one kind of integration test that needs `unsafe` anywhere: it replaces the allocator to prove that none is asked.
const ALLOCATOR_TEST: &str = "no_alloc.rs";

/// A floor of the house. Wings of one floor do not see each other.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Floor {
    number: u8,
    wing: &'static str,
}

/// Where a crate in `folder` stands; `None`: nowhere.
fn floor(folder: &str) -> Option<Floor> {
    let mut parts = folder.split('/');
    let at = |number, wing| Some(Floor { number, wing });
    match (parts.next()?, parts.next(), parts.next(), parts.next()) {
        ("crates", Some("ground"), Some(_), None) => at(1, "ground"),
        ("crates", Some("ports"), Some(_), None) => at(2, "ports"),
        ("crates", Some("protocols"), Some(_), None) => at(2, "protocols"),
        ("crates", Some("runtime"), Some(_), None) => at(3, "runtime"),
        ("crates", Some("services"), Some(_), None) => at(4, "services"),
        ("crates", Some("tools"), Some(_), None) => at(5, "tools"),
        // The garden: may look into every room, and nobody builds on it.
        ("fuzz", None, ..) => at(6, "fuzz"),
        ("xtask", None, ..) => at(7, "xtask"),
        // The scaffold: only tests stand on it.
        ("crates", Some("dev"), Some(_), None) => at(8, "dev"),
        _ => None,
    }
}

/// All rules of this file.
pub fn check(workspace: &Workspace, tree: &Tree, findings: &mut Vec<Finding>) {
    for member in &workspace.members {
        arrows(workspace, member, findings);
        lints(tree, member, findings);
        unsafe_code(tree, member, findings);
        heads(tree, member, findings);
        whole(tree, member, findings);
    }
    circles(workspace, findings);
}

fn arrows(workspace: &Workspace, member: &Member, findings: &mut Vec<Finding>) {
    let Some(here) = floor(&member.folder) else {
        findings.push(Finding {
            file: member.manifest(),
            line: 0,
            rule: "floor",
            reason: format!("`{}` stands on no floor of the house", member.name),
            hint: "crates live in crates/{ground,ports,protocols,runtime,services,tools,dev}/NAME",
        });
        return;
    };
    for need in member.needs.iter().filter_map(|name| workspace.member(name)) {
        let Some(there) = floor(&need.folder) else { continue };
        let reason = if there.number > here.number {
            format!(
                "`{}` (floor {}) depends on `{}` (floor {})",
                member.name, here.number, need.name, there.number
            )
        } else if there.number == here.number && there.wing != here.wing {
            format!("`{}` ({}) depends on `{}` ({})", member.name, here.wing, need.name, there.wing)
        } else {
            continue;
        };
        findings.push(Finding {
            file: member.manifest(),
            line: 0,
            rule: "arrow",
            reason,
            hint: "depend downwards only; ports and protocols meet on floor 3; only tests may look anywhere",
        });
    }
}

/// Cargo refuses circles too, but only when it resolves; here they come with a name. Those through what tests need it lets pass until
/// crates are packed: there the one is not published yet that the other asks for.
fn circles(workspace: &Workspace, findings: &mut Vec<Finding>) {
    for start in &workspace.members {
        let found = |reason, hint| Finding { file: start.manifest(), line: 0, rule: "circle", reason, hint };
        if reaches(workspace, &start.needs, &start.name) {
            let reason = format!("`{}` depends on itself through others", start.name);
            findings.push(found(reason, "move what both need to a lower floor"));
        }
        for name in &start.published_for_tests {
            if reaches(workspace, std::slice::from_ref(name), &start.name) {
                let reason = format!("`{}`, which tests need, depends on `{}`", name, start.name);
                findings.push(found(reason, "give the path alone, without a version"));
            }
        }
    }
}

/// Whether members are built from `name`, or published with it.
fn reaches(workspace: &Workspace, from: &[String], name: &str) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    let mut open: Vec<&str> = from.iter().map(String::as_str).collect();
    while let Some(at) = open.pop() {
        if at == name {
            return true;
        }
        if !seen.contains(&at) {
            seen.push(at);
            open.extend(workspace.member(at).into_iter().flat_map(|m| m.needs.iter().map(String::as_str)));
        }
    }
    false
}

fn lints(tree: &Tree, member: &Member, findings: &mut Vec<Finding>) {
    let path = member.manifest();
    let Some(manifest) = tree.file(&path) else { return };
    let mut section = "";
    let inherits = manifest.text.lines().any(|line| {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.starts_with('[') {
            section = line;
        }
        let bare: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        (section == "[lints]" && bare == "workspace=true") || bare == "lints.workspace=true"
    });
    if !inherits {
        findings.push(Finding {
            file: path,
            line: 0,
            rule: "lints",
            reason: format!("`{}` does not inherit the workspace's lints", member.name),
            hint: "add `[lints]` and `workspace = true`",
        });
    }
}

/// Whether a file may hold unsafe code outside the islands: `sys.rs`, or anything below a folder `sys`.
fn is_sys(path: &str) -> bool {
    path.ends_with("/sys.rs") || path.contains("/sys/")
}

fn unsafe_code(tree: &Tree, member: &Member, findings: &mut Vec<Finding>) {
    if ISLANDS.contains(&member.short_name()) && member.folder.starts_with("crates/") {
        return;
    }
    let mut has_sys = false;
    for file in tree.below(&member.folder).filter(|f| f.is_rust()) {
        if is_sys(&file.path) {
            has_sys |= is_below(&file.path, &format!("{}/src", member.folder));
            continue;
        }
        let tests = format!("{}/tests/{ALLOCATOR_TEST}", member.folder);
        if file.path == tests {
            continue;
        }
        for line in lines_with_word(&scrub(&file.text), "unsafe") {
            findings.push(Finding {
                file: file.path.clone(),
                line,
                rule: "unsafe",
                reason: format!("`unsafe` in `{}`, which is no island", member.name),
                hint: "move it to the crate's `sys` module, or to an island crate",
            });
        }
    }
    let wanted = if has_sys { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
    for root in &member.roots {
        if !root.ends_with("/lib.rs") && !root.ends_with("/main.rs") {
            continue;
        }
        let Some(file) = tree.file(root) else { continue };
        let code = scrub(&file.text);
        let stronger = code.contains("#![forbid(unsafe_code)]");
        if !stronger && !code.contains(wanted) {
            findings.push(Finding {
                file: root.clone(),
                line: 0,
                rule: "forbid",
                reason: format!("`{}` lacks `{wanted}`", member.name),
                hint: "add it below the head; `deny` where a `sys` module allows it again, `forbid` elsewhere",
            });
        }
    }
}

fn heads(tree: &Tree, member: &Member, findings: &mut Vec<Finding>) {
    for root in &member.roots {
        let Some(file) = tree.file(root) else { continue };
        if !file.text.trim_start().starts_with("//!") {
            findings.push(Finding {
                file: root.clone(),
                line: 1,
                rule: "head",
                reason: "the file does not begin with a `//!` head".to_owned(),
                hint: "say what the crate is and what flows through it",
            });
        }
    }
}

/// What reads a file when it is compiled.
const READERS: &[&str] = &["include_str!(", "include_bytes!(", "include!(", "#[path ="];

/// A published crate has what it and its examples are built from within its folder; elsewhere nothing else is there. Its tests may look
/// outside.
fn whole(tree: &Tree, member: &Member, findings: &mut Vec<Finding>) {
    if !member.published {
        return;
    }
    let folders = ["src", "examples"].map(|name| format!("{}/{name}", member.folder));
    for file in folders.iter().flat_map(|folder| tree.below(folder)).filter(|f| f.is_rust()) {
        let code = scrub(&file.text);
        let built = code.find("#[cfg(test)]").unwrap_or(code.len());
        // How far up its own folder is.
        let depth = file.path[member.folder.len()..].split('/').count() - 2;
        for (line, (code, text)) in code[..built].lines().zip(file.text.lines()).enumerate() {
            if !READERS.iter().any(|reader| code.contains(reader)) {
                continue;
            }
            let up = text.split('"').skip(1).step_by(2).map(|path| path.matches("..").count()).max();
            // From the crate's folder every step up leads out of it.
            let allowed = if text.contains("CARGO_MANIFEST_DIR") { 0 } else { depth };
            if up.is_some_and(|up| up > allowed) {
                findings.push(Finding {
                    file: file.path.clone(),
                    line: line + 1,
                    rule: "whole",
                    reason: format!(
                        "`{}` is built from a file outside it, which is not packed with it",
                        member.name
                    ),
                    hint: "link to the file from within the crate: cargo packs what the link leads to",
                });
            }
        }
    }
}
