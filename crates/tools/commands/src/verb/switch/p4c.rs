//! The `p4c` and `p4c-bm2-ss` forms: a link of that name to this binary takes that compiler's words, so that Makefiles
//! and p4-utils find a compiler.

use super::compile::{Job, compile};
use crate::console::Console;
use crate::failure::{Code, Failure};
use barewire_p4_source::MacroOption;
use barewire_text::{Quote, hint, nearest};
use std::path::PathBuf;

/// Which program the name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `p4c`, the driver: JSON goes to a folder
    Driver,
    /// `p4c-bm2-ss`, the compiler for simple_switch: JSON goes to a file
    Simple,
    /// `p4c-bm2-psa`
    Psa,
}

/// What to do.
#[derive(Debug)]
pub enum Action {
    /// Compile.
    Compile(Box<Job>),
    /// Print this.
    Say(String),
}

const OPTIONS: &[&str] = &[
    "-h",
    "--help",
    "-v",
    "--version",
    "-o",
    "-I",
    "-D",
    "-U",
    "-b",
    "--target",
    "-a",
    "--arch",
    "--std",
    "-x",
    "--p4v",
    "--p4runtime-files",
    "--p4runtime-format",
    "--emit-externs",
    "--Wdisable",
    "--Wwarn",
    "--Werror",
    "-g",
    "-c",
];

/// The value of an option: what follows its name or `=`, or the next word.
fn value(name: &str, inline: Option<&str>, words: &mut std::vec::IntoIter<String>) -> Result<String, String> {
    match inline {
        Some(text) => Ok(text.to_owned()),
        None => words.next().ok_or_else(|| format!("{name} needs a value")),
    }
}

/// Reads the words behind the program's name.
///
/// # Errors
/// What is wrong with them, in a line.
pub fn parse(form: Form, words: Vec<String>) -> Result<Action, String> {
    let mut job = Job::default();
    let mut program: Option<PathBuf> = None;
    let mut output: Option<PathBuf> = None;
    let mut undefined = Vec::new();
    if form == Form::Psa {
        job.arch = Some("psa".into());
    }
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ if matches!(word.get(..2), Some("-I" | "-D" | "-U" | "-o")) && word.len() > 2 => {
                (word[..2].to_owned(), Some(word[2..].to_owned()))
            }
            _ => (word.clone(), None),
        };
        let inline = inline.as_deref();
        match name.as_str() {
            "-h" | "--help" => {
                let text = "PROGRAM.p4 [options]\noptions";
                return Ok(Action::Say(format!(
                    "{text}: {}\n`barewire switch compile --help` has the native form",
                    OPTIONS.join(" ")
                )));
            }
            "-v" | "--version" => return Ok(Action::Say(format!("barewire {}", env!("CARGO_PKG_VERSION")))),
            "-o" => output = Some(value(&name, inline, &mut words)?.into()),
            "-I" => job.options.include.push(value(&name, inline, &mut words)?),
            "-D" => job.options.macros.push(MacroOption::Define(value(&name, inline, &mut words)?)),
            "-U" => undefined.push(MacroOption::Undefine(value(&name, inline, &mut words)?)),
            "-b" | "--target" => {
                let target = value(&name, inline, &mut words)?;
                match target.as_str() {
                    "bmv2" | "bmv2-ss-p4org" | "bmv2-v1model-p4org" | "bmv2-p4org" => {}
                    "bmv2-psa-p4org" => job.arch = Some("psa".into()),
                    other => return Err(format!("target {other} is not one of: bmv2")),
                }
            }
            "-a" | "--arch" => {
                let arch = value(&name, inline, &mut words)?;
                match arch.as_str() {
                    "v1model" | "ss" | "psa" => {
                        job.arch = Some(if arch == "psa" { arch } else { "v1model".into() });
                    }
                    other => return Err(format!("architecture {other} is not one of: v1model, psa")),
                }
            }
            "--std" | "-x" | "--p4v" => {
                let version = value(&name, inline, &mut words)?;
                if !matches!(version.as_str(), "p4-16" | "p4_16" | "16" | "1.2") {
                    return Err(format!("{name} {version}: P4-16 is the only language that is read"));
                }
            }
            "--p4runtime-files" | "--p4runtime-file" => {
                let list = value(&name, inline, &mut words)?;
                job.p4info.extend(list.split(',').filter(|path| !path.is_empty()).map(PathBuf::from));
            }
            "--p4runtime-format" => {
                let format = value(&name, inline, &mut words)?;
                if format == "json" {
                    return Err("P4Info is written as text or binary, not as JSON".into());
                }
            }
            "--Wdisable" => {
                let names = inline.unwrap_or("all");
                job.quiet.extend(names.split(',').map(str::to_owned));
            }
            // Which messages are warnings and which errors is not for the caller to say; externs are always written.
            "--emit-externs" | "--Wwarn" | "--Werror" | "-g" | "-c" => {}
            other if other.starts_with('-') && other.len() > 1 => {
                let near = hint("; ", nearest(other, OPTIONS.iter().copied()), Quote::Back);
                return Err(format!("unknown option {other}{near}"));
            }
            _ if program.is_none() => program = Some(word.into()),
            other => return Err(format!("unexpected argument '{other}': the program is already given")),
        }
    }
    job.options.macros.append(&mut undefined);
    job.program = program.ok_or("no program was given: PROGRAM.p4")?;
    let name = job.program.with_extension("json");
    let name = PathBuf::from(name.file_name().unwrap_or_default());
    job.json = match form {
        Form::Driver => Some(output.map_or(name.clone(), |folder| folder.join(&name))),
        // Without -o that compiler only checks.
        Form::Simple | Form::Psa => output,
    };
    Ok(Action::Compile(Box::new(job)))
}

/// Runs as that program.
///
/// # Errors
/// What is wrong with the words, or cannot be written.
pub fn run(form: Form, words: Vec<String>, console: &Console) -> anyhow::Result<Code> {
    match parse(form, words).map_err(|e| Failure::new(Code::Usage, e))? {
        Action::Say(text) => {
            crate::console::print(&text)?;
            Ok(Code::Done)
        }
        Action::Compile(job) => compile(&job, |found| Ok(found.clone()), console),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn job(form: Form, text: &str) -> Job {
        match parse(form, words(text)) {
            Ok(Action::Compile(job)) => *job,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_courses_write_is_read() {
        // The tutorials' Makefile, p4-utils, and mininet's own scripts.
        let made = job(
            Form::Simple,
            "--p4v 16 --p4runtime-files build/basic.p4.p4info.txtpb -o build/basic.json basic.p4",
        );
        assert_eq!(made.json, Some("build/basic.json".into()));
        assert_eq!(made.p4info, [PathBuf::from("build/basic.p4.p4info.txtpb")]);
        let made = job(
            Form::Driver,
            "--target bmv2 --arch v1model --std p4-16 -I inc -Iinc2 -DA=1 --p4runtime-files /x/a.txt a/b.p4 -o out",
        );
        assert_eq!(made.json, Some("out/b.json".into()));
        assert_eq!(made.options.include, ["inc", "inc2"]);
        assert_eq!(made.arch.as_deref(), Some("v1model"));
        assert_eq!(job(Form::Driver, "-b bmv2 a/b.p4").json, Some("b.json".into()));
        let made = job(Form::Simple, "--emit-externs --Wdisable=unused,shadow b.p4");
        assert_eq!(made.quiet, ["unused", "shadow"]);
        assert_eq!(made.json, None);
        assert_eq!(job(Form::Psa, "b.p4").arch.as_deref(), Some("psa"));
    }

    #[test]
    fn what_is_not_done_is_refused_by_name() {
        for (text, part) in [
            ("", "no program"),
            ("--std p4-14 a.p4", "P4-16"),
            ("--target ebpf a.p4", "ebpf"),
            ("--p4runtime-fils x a.p4", "--p4runtime-files"),
            ("a.p4 b.p4", "unexpected argument"),
            ("a.p4 -o", "needs a value"),
        ] {
            let error = parse(Form::Simple, words(text)).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
