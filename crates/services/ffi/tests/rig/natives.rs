//! What the bindings' own workspace builds, and Python's package as it is installed: for tests here, and of the book's pages.
#![allow(dead_code, reason = "each test file uses its part")]

use barewire_testing::{Needs, skip_part};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of all bindings.
fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|dir| dir.join("bindings/Cargo.toml").exists());
    root.expect("the repository").join("bindings")
}

/// What the bindings' own workspace builds, which nobody needs for anything else; all of it at once, so that its parts agree on the
/// features of what they share. Its first build comes over the network. `None`: not to be had here.
pub fn native(file: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    Some(BUILT.get_or_init(build_natives).as_ref()?.join(file))
}

fn build_natives() -> Option<PathBuf> {
    // Beside the folder of the profile that this test was built with.
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().find(|p| p.ends_with("debug") || p.ends_with("release"));
    let target = profile.unwrap().parent().unwrap().join("bindings");
    let out = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--workspace"])
        .current_dir(folder())
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("failed to download") || said.contains("failed to get") {
        let what =
            "pyo3, jni and napi cannot be had here; the bindings of Python, Java and Node are not tested";
        skip_part(Needs::Tools, what);
        return None;
    }
    assert!(out.status.success(), "{said}");
    Some(target.join("debug"))
}

/// Whether a language's own programs are here, and new enough.
pub fn toolchain(language: &str, programs: &[&[&str]]) -> bool {
    let runs = |words: &&[&str]| {
        Command::new(words[0]).args(&words[1..]).output().is_ok_and(|said| said.status.success())
    };
    let there = programs.iter().all(runs);
    if !there {
        let names: Vec<_> = programs.iter().map(|words| words[0]).collect();
        let names = names.join(", ");
        skip_part(
            Needs::Tools,
            format!("{names}: not installed, or too old; {language}'s binding is not tested"),
        );
    }
    there
}

/// Puts Python's package into `dir`. False: there is no Python of ours here, or its native part cannot be had, which was said.
pub fn python_package(dir: &Path) -> bool {
    let new_enough = "import sys; sys.exit(sys.version_info < (3, 11))";
    if !toolchain("Python", &[&["python3", "-c", new_enough]]) {
        return false;
    }
    let Some(library) = native("lib_native.so") else { return false };
    let package = dir.join("barewire");
    let copied =
        Command::new("cp").arg("-r").arg(folder().join("python/python/barewire")).arg(&package).status();
    assert!(copied.unwrap().success());
    std::fs::copy(library, package.join("_native.abi3.so")).unwrap();
    true
}
