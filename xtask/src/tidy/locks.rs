//! The rule about lock files: the bindings' workspace builds what it has in common with the main one from the same versions.

use super::{Finding, Tree};

const OURS: &str = "Cargo.lock";
const BINDINGS: &str = "bindings/Cargo.lock";

/// A package as a lock file has it.
struct Locked<'a> {
    line: usize,
    name: &'a str,
    version: &'a str,
}

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let [Some(ours), Some(bindings)] = [OURS, BINDINGS].map(|path| tree.file(path)) else { return };
    let ours: Vec<_> = packages(&ours.text).collect();
    for locked in packages(&bindings.text) {
        let with_its_name = || ours.iter().filter(|other| other.name == locked.name);
        let same_series = |other: &&Locked<'_>| series(other.version) == series(locked.version);
        // Cargo locks one version of a series; of others the bindings' own dependencies may ask.
        let Some(other) = with_its_name().find(same_series).filter(|other| other.version != locked.version)
        else {
            continue;
        };
        findings.push(Finding {
            file: BINDINGS.into(),
            line: locked.line,
            rule: "lock",
            reason: format!(
                "`{}` is {} here and {} in {OURS}: what is packed is not what is tested",
                locked.name, locked.version, other.version
            ),
            hint: "`cargo update --manifest-path bindings/Cargo.toml -p NAME --precise VERSION`",
        });
    }
}

fn packages(text: &str) -> impl Iterator<Item = Locked<'_>> {
    let mut name = None;
    text.lines().zip(1..).filter_map(move |(at, line)| {
        if let Some(found) = value(at, "name") {
            name = Some(found);
            return None;
        }
        Some(Locked { line, version: value(at, "version")?, name: name.take()? })
    })
}

fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')
}

/// What of a version keeps its interface: `1` of `1.2.3`, `0.4` of `0.4.2`, `0.0.7` of `0.0.7`.
fn series(version: &str) -> &str {
    let mut end = 0;
    for part in version.split('.') {
        end += part.len();
        if part != "0" {
            break;
        }
        end += 1;
    }
    &version[..end.min(version.len())]
}

#[cfg(test)]
mod tests {
    use super::super::TextFile;
    use super::*;

    fn lock(packages: &[(&str, &str)]) -> String {
        let package = |(name, version): &(&str, &str)| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
        };
        format!("version = 4\n\n{}", packages.iter().map(package).collect::<String>())
    }

    fn findings(ours: &[(&str, &str)], bindings: &[(&str, &str)]) -> Vec<(usize, String)> {
        let file = |path: &str, of| TextFile { path: path.into(), text: lock(of) };
        let tree = Tree { files: vec![file(OURS, ours), file(BINDINGS, bindings)], folders: Vec::new() };
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.into_iter().map(|finding| (finding.line, finding.reason)).collect()
    }

    #[test]
    fn a_package_of_another_version_is_found_at_its_line() {
        let ours = [("a", "1.2.3"), ("b", "0.4.2"), ("b", "1.0.0")];
        assert_eq!(findings(&ours, &ours), []);
        let found = findings(&ours, &[("a", "1.2.3"), ("b", "0.4.3")]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 9);
        assert!(found[0].1.starts_with("`b` is 0.4.3 here and 0.4.2 in"), "{found:?}");
        assert_eq!(findings(&ours, &[("a", "1.10.0")]).len(), 1);
    }

    #[test]
    fn what_only_the_bindings_need_is_theirs() {
        assert_eq!(
            findings(&[("a", "1.2.3"), ("b", "0.4.2")], &[("c", "7.0.0"), ("a", "2.0.0"), ("b", "0.5.2")]),
            []
        );
    }

    #[test]
    fn a_series_is_what_cargo_takes_for_one() {
        let versions = ["1.2.3", "10.0.0", "0.4.2", "0.0.7", "0.0.0", "0.15.6+wasi"];
        assert_eq!(versions.map(series), ["1", "10", "0.4", "0.0.7", "0.0.0", "0.15"]);
    }
}
