//! What each ecosystem's own formatters and linters find in the bindings: nothing. Rust's run with everything else's; warnings of javac, mcs
//! and g++ fail the builds of `bindings.rs`. Where a tool comes from: CONTRIBUTING.md.

use barewire_testing::{Needs, skip_part};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version whose format Java's files have: others differ in places.
const JAVA_FORMAT: &str = "1.28.0";
/// The same for Node's.
const BIOME: &str = "2.6.";

fn folder(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings").join(language).canonicalize().unwrap()
}

/// What a program says of its version; `None`: it is not there.
fn version(command: &mut Command) -> Option<String> {
    let said = command.arg("--version").output().ok().filter(|said| said.status.success())?;
    Some(String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).trim().to_owned())
}

/// One of Node's tools: as `npm install` in the package leaves it, or installed for all.
fn node_tool(name: &str) -> Command {
    let beside = folder("node").join("node_modules/.bin").join(name);
    Command::new(if beside.exists() { beside } else { name.into() })
}

/// Where the types of Node itself are: in the package, or installed for all.
fn node_types() -> Option<PathBuf> {
    let beside = folder("node").join("node_modules/@types");
    let said = Command::new("npm").args(["root", "--global"]).output().ok();
    let for_all = said.map(|s| Path::new(String::from_utf8_lossy(&s.stdout).trim()).join("@types"));
    [Some(beside), for_all].into_iter().flatten().find(|types| types.join("node").exists())
}

/// google-java-format: a program of that name, or the jar that Maven has fetched.
fn java_format() -> Command {
    let name = format!("google-java-format-{JAVA_FORMAT}-all-deps.jar");
    let home = std::env::var_os("HOME").unwrap_or_default();
    let jar = Path::new(&home).join(".m2/repository/com/google/googlejavaformat/google-java-format");
    let jar = jar.join(JAVA_FORMAT).join(name);
    if !jar.exists() {
        return Command::new("google-java-format");
    }
    let mut java = Command::new("java");
    java.arg("-jar").arg(jar);
    java
}

/// All files of a folder and below whose names end so.
fn files(dir: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
}

/// Those of C and C++ that are written by hand.
fn c_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for language in ["c", "cpp"] {
        files(&folder(language), &[".c", ".h", ".cpp", ".hpp"], &mut found);
    }
    let generated = ["barewire.h", "bwfeed.h", "bwverbs.h"];
    found.retain(|f| !generated.iter().any(|name| f.ends_with(name)));
    assert!(found.len() > 10, "{found:?}");
    found
}

fn skip(tool: &str, language: &str, why: &str) {
    skip_part(Needs::Tools, format!("{tool}: {why}; it does not look at {language}'s files"));
}

/// Nothing is found, or said to be left out. `hint`: what mends it.
fn finds_nothing(language: &str, command: &mut Command, hint: &str) {
    let shown = command.get_program().to_string_lossy().into_owned();
    let Ok(out) = command.current_dir(folder(language)).output() else {
        return skip(&shown, language, "not installed");
    };
    let said = String::from_utf8_lossy(&out.stdout);
    let more = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}{more}\nhint: {hint}");
}

#[test]
fn go_is_formatted() {
    let Ok(out) = Command::new("gofmt").args(["-l", "."]).current_dir(folder("go")).output() else {
        return skip("gofmt", "Go", "not installed");
    };
    assert!(out.status.success() && out.stdout.is_empty(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
fn python_is_formatted_and_linted() {
    let tools: [(&str, &[&str], &str); 3] = [
        ("ruff", &["format", "--check", "--quiet", "--no-cache", "python", "tests"], "ruff format"),
        ("ruff", &["check", "--quiet", "--no-cache", "python", "tests", "notebooks"], "ruff check --fix"),
        ("mypy", &["--no-error-summary", "--cache-dir=/dev/null"], "mend the types"),
    ];
    for (tool, words, hint) in tools {
        finds_nothing("python", Command::new(tool).args(words), hint);
    }
}

#[test]
fn c_and_cpp_are_formatted() {
    let hint = "clang-format -i with bindings/.clang-format";
    let words = ["--dry-run", "-Werror", "--style=file"];
    finds_nothing("c", Command::new("clang-format").args(words).args(c_files()), hint);
}

/// Examples, the header for C++, and what tests it: the tests of C do on purpose what must not be done.
#[test]
fn c_and_cpp_are_linted() {
    let jobs: [(&str, &[&str], &[&str]); 2] = [
        ("c", &["examples/echo.c", "examples/books.c"], &["-std=c11", "-D_GNU_SOURCE"]),
        ("cpp", &["examples/echo.cpp", "tests/conformance.cpp"], &["-std=c++17", "-I."]),
    ];
    for (language, sources, words) in jobs {
        let mut tidy = Command::new("clang-tidy");
        tidy.arg("--quiet").args(sources).arg("--").args(words).arg("-I").arg(folder("c"));
        finds_nothing(language, &mut tidy, "bindings/.clang-tidy says what is looked for");
    }
}

#[test]
fn node_is_formatted_and_linted() {
    match version(&mut node_tool("biome")) {
        None => skip("biome", "Node", "not installed"),
        Some(said) if !said.contains(BIOME) => {
            skip("biome", "Node", &format!("{said}, and the files have the format of {BIOME}x"));
        }
        Some(_) => {
            let mut biome = node_tool("biome");
            biome.args(["check", "--error-on-warnings", "."]);
            finds_nothing("node", &mut biome, "biome check --write");
        }
    }
}

#[test]
fn nodes_types_are_those_of_its_programs() {
    let Some(types) = node_types() else {
        return skip("@types/node", "TypeScript", "not installed");
    };
    let mut tsc = node_tool("tsc");
    finds_nothing("node", tsc.arg("--typeRoots").arg(types), "tests/types.ts says what must compile");
}

#[test]
fn java_is_formatted() {
    match version(&mut java_format()) {
        None => skip("google-java-format", "Java", "not installed"),
        Some(said) if !said.contains(JAVA_FORMAT) => {
            skip(
                "google-java-format",
                "Java",
                &format!("{said}, and the files have the format of {JAVA_FORMAT}"),
            );
        }
        Some(_) => {
            let mut found = Vec::new();
            files(&folder("java"), &[".java"], &mut found);
            assert!(found.len() >= 10, "{found:?}");
            let mut format = java_format();
            format.args(["--aosp", "--skip-javadoc-formatting", "--dry-run", "--set-exit-if-changed"]);
            let hint = "google-java-format --aosp --skip-javadoc-formatting --replace";
            finds_nothing("java", format.args(found), hint);
        }
    }
}
