//! Writes down what was built: the commit, whether the tree was changed, the compiler and its options. No network.

use std::env;
use std::path::Path;
use std::process::Command;

/// Output of a command, trimmed; `None` when it cannot run or fails.
fn output(program: &str, args: &[&str]) -> Option<String> {
    // Without this, `git status` would refresh the index: a lock in a tree that somebody works in, and a new mtime
    // that would run this script for ever.
    let done = Command::new(program).args(args).env("GIT_OPTIONAL_LOCKS", "0").output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_string())
}

fn set(name: &str, value: &str) {
    println!("cargo:rustc-env={name}={}", value.replace(['\n', '\r'], " "));
}

/// The options that change the machine code. The others may name folders of the machine that built.
fn codegen_flags() -> String {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let kept = ["target-cpu=", "target-feature=", "opt-level=", "lto=", "panic=", "codegen-units="];
    let words = flags.split('\x1f').map(|word| word.strip_prefix("-C").unwrap_or(word));
    words.filter(|word| kept.iter().any(|start| word.starts_with(start))).collect::<Vec<_>>().join(" ")
}

fn is_commit(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // A debug binary enters no table: it is not built again for each commit, and says that it does not know.
    let git = output("git", &["rev-parse", "--absolute-git-dir"]).filter(|_| release);
    if let Some(git) = &git {
        for file in ["HEAD", "index"] {
            let path = Path::new(git).join(file);
            if path.exists() {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
    }
    // A release binary must not say "clean" because nobody looked again.
    if release && Path::new("../../ground/base").exists() {
        println!("cargo:rerun-if-changed=../..");
    }

    // An image is built from a tree without its history, and told what it was.
    println!("cargo:rerun-if-env-changed=BAREWIRE_COMMIT");
    let told = env::var("BAREWIRE_COMMIT").ok().filter(|told| is_commit(told));
    let commit = git.as_ref().and_then(|_| output("git", &["rev-parse", "--short=12", "HEAD"])).or(told);
    set("BAREWIRE_GIT_COMMIT", commit.as_deref().unwrap_or("unknown"));
    let changed = commit.filter(|_| git.is_some()).and_then(|_| {
        output("git", &["status", "--porcelain", "--", ":/crates", ":/Cargo.toml", ":/Cargo.lock", ":/xtask"])
    });
    set("BAREWIRE_GIT_DIRTY", changed.map_or("unknown", |lines| if lines.is_empty() { "no" } else { "yes" }));

    let rustc = env::var("RUSTC").ok().and_then(|rustc| output(&rustc, &["--version"]));
    set("BAREWIRE_RUSTC", rustc.as_deref().unwrap_or("unknown"));
    for (name, source) in
        [("BAREWIRE_PROFILE", "PROFILE"), ("BAREWIRE_TARGET", "TARGET"), ("BAREWIRE_OPT_LEVEL", "OPT_LEVEL")]
    {
        set(name, &env::var(source).unwrap_or_else(|_| "unknown".into()));
    }
    set("BAREWIRE_CODEGEN", &codegen_flags());
}
