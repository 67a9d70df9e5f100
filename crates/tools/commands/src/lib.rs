//! The verbs of the `barewire` binary, and no logic.
//!
//! A verb reads its arguments, calls a library and prints what that gives: data on stdout, everything else on stderr. An error
//! is printed once, with its causes and a hint, and decides the exit code (`failure`).
#![forbid(unsafe_code)]

mod address;
mod args;
mod console;
#[cfg(test)]
mod documented;
mod failure;
mod screen;
mod signals;
mod verb;

use args::{Cli, Color};
use clap::{ColorChoice, CommandFactory, FromArgMatches};
use console::Console;
use std::ffi::OsString;
use std::process::ExitCode;

/// What `--color` says, before clap has read the command line: its own errors and help texts are to obey it, too.
fn color_of(args: &[OsString]) -> Color {
    let words: Vec<&str> = args.iter().map_while(|a| a.to_str()).collect();
    let value = words.iter().enumerate().find_map(|(i, word)| match word.strip_prefix("--color") {
        Some("") => words.get(i + 1).copied(),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    match value {
        Some("always") => Color::Always,
        Some("never") => Color::Never,
        _ => Color::Auto,
    }
}

/// Version, commit and compiler of this binary.
fn version() -> String {
    let build = barewire_measure::Fingerprint::collect().build;
    let dirty = if build.git_dirty == "yes" { ", changed since" } else { "" };
    format!("{} (commit {}{dirty}; {}; {})", build.version, build.git_commit, build.profile, build.rustc)
}

/// The program: reads the command line of this process, runs its verb, and says how that ended.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let color = color_of(&args);
    // A link named as one of bmv2's programs is that program.
    if let Some(target) = args.first().and_then(|name| verb::switch::bmv2_name(name)) {
        let console = Console::new(Color::Auto, false);
        let words = args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        return match verb::switch::simple::run(target, words, &console) {
            Ok(code) => code.into(),
            Err(error) => failure::report(&error, &console).into(),
        };
    }
    // A link named as one of p4c's programs is that compiler.
    if let Some(form) = args.first().and_then(|name| verb::switch::p4c_name(name)) {
        let console = Console::new(Color::Auto, false);
        let words = args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        return match verb::switch::p4c::run(form, words, &console) {
            Ok(code) => code.into(),
            Err(error) => failure::report(&error, &console).into(),
        };
    }
    let mut command = Cli::command().color(match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    });
    // Looking at the machine takes a moment: only who asks for the version waits for it.
    if args.iter().any(|a| a == "--version" || a == "-V") {
        command = command.version(version());
    }
    let parsed = command.try_get_matches_from(args).and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(mut error) => {
            args::tell_where_it_is(&mut error);
            // Help and version are no errors: clap knows which stream and which code is theirs.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let console = Console::new(color, cli.quiet);
    match verb::run(&cli.verb, &console) {
        Ok(code) => code.into(),
        Err(error) => failure::report(&error, &console).into(),
    }
}
