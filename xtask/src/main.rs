//! Repository tasks: `cargo run -p xtask -- TASK`. Each task is one module and one row of [`TASKS`].
#![forbid(unsafe_code)]

mod changed;
mod figures;
mod smoke;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

/// What a task gets: the arguments after its name. False: it ran, and found fault.
type Task = fn(&[String]) -> anyhow::Result<bool>;

/// Name, function, one line of help.
const TASKS: &[(&str, Task, &str)] = &[
    ("tidy", tidy::main, "checks the house rules that the compiler does not"),
    (
        "check-figures",
        figures::main,
        "checks the documents' figures against their records; --print shows each",
    ),
    ("check", changed::main, "format, lints and tests of what changed; --dry-run says which"),
    ("fuzz-smoke", smoke::main, "runs the fuzz targets on seeded inputs, without libFuzzer"),
];

/// The exit code for a task that found fault, and for one that could not run.
const FOUND_FAULT: u8 = 1;
const COULD_NOT_RUN: u8 = 2;

/// The repository's root.
fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run` and `cargo test`; the built-in value serves a binary started by hand.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}

fn usage() -> String {
    let mut text = String::from("usage: cargo run -p xtask -- TASK [OPTIONS]\n\ntasks:\n");
    for (name, _, help) in TASKS {
        text += &format!("  {name:<15}{help}\n");
    }
    text
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match args.split_first() {
        None => {
            eprint!("{}", usage());
            return ExitCode::from(COULD_NOT_RUN);
        }
        Some((name, _)) if matches!(name.as_str(), "help" | "-h" | "--help") => {
            print!("{}", usage());
            return ExitCode::SUCCESS;
        }
        Some(split) => split,
    };
    let Some((_, task, _)) = TASKS.iter().find(|(known, ..)| known == name) else {
        eprintln!("error: no task `{name}`\n{}", usage());
        return ExitCode::from(COULD_NOT_RUN);
    };
    match task(rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND_FAULT),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}
