//! P4 source on this machine: who reads its files, and the arguments of every verb that takes it.

use crate::console::Console;
use crate::failure::{Code, Failure};
use barewire_p4::ir::Program;
use barewire_p4_source::diag::{Style, render_all};
use barewire_p4_source::{
    Diagnostic, Diagnostics, MacroOption, Options, Read, Resolver, Severity, SourceMap, ast, types,
};
use barewire_switch::source::{Files, Made};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Files of the file system, and which of them were asked for.
#[derive(Default)]
pub struct Recorded(RefCell<Vec<PathBuf>>);

impl Recorded {
    /// What was asked for since the last time, whether it was there or not.
    pub fn take(&self) -> Vec<PathBuf> {
        self.0.take()
    }
}

impl Resolver for Recorded {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        self.0.borrow_mut().push(path.into());
        Files.read(path)
    }
}

/// What the preprocessor takes.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// Search this directory for included files
    #[arg(short = 'I', value_name = "DIRECTORY")]
    include: Vec<String>,
    /// Define a macro; -U is applied afterwards
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Undefine a macro
    #[arg(short = 'U', value_name = "NAME")]
    undefine: Vec<String>,
}

impl SourceArgs {
    /// As the preprocessor wants them.
    pub fn options(&self) -> Options {
        let defined = self.define.iter().cloned().map(MacroOption::Define);
        let undefined = self.undefine.iter().cloned().map(MacroOption::Undefine);
        Options { include: self.include.clone(), macros: defined.chain(undefined).collect() }
    }
}

/// The warning of a program that is right, and that the switch cannot run.
pub const CANNOT_RUN: &str = "cannot-run";

/// Which warnings are wanted.
#[derive(clap::Args)]
pub struct WarningArgs {
    /// `no-NAME` disables the warning of that name, `no-all` all of them; each warning shows its name in brackets
    #[arg(short = 'W', value_name = "no-NAME")]
    warnings: Vec<String>,
    /// The same as -W no-NAME
    #[arg(long = "no-warn", value_name = "NAME", value_delimiter = ',')]
    no_warn: Vec<String>,
}

impl WarningArgs {
    /// The messages that are wanted: errors, and warnings that are not switched off.
    ///
    /// # Errors
    /// A name that no warning has.
    pub fn wanted(&self, found: &Diagnostics) -> anyhow::Result<Diagnostics> {
        let mut off: Vec<&str> = Vec::new();
        for word in &self.warnings {
            let Some(name) = word.strip_prefix("no-") else {
                let failure =
                    Failure::new(Code::Usage, format!("-W {word}: what -W takes begins with `no-`"));
                return Err(failure.hint(format!("-W no-{word} switches the warning off")).into());
            };
            off.push(name);
        }
        off.extend(self.no_warn.iter().map(String::as_str));
        for name in &off {
            let known = types::warn::ALL.contains(name) || *name == CANNOT_RUN;
            if *name != "all" && !known && !found.iter().any(|d| d.code == *name) {
                let failure = Failure::new(Code::Usage, format!("unknown warning `{name}`"));
                let all = types::warn::ALL.join(", ");
                return Err(failure.hint(format!("there are: {all}, {CANNOT_RUN}, all")).into());
            }
        }
        let mut shown = Diagnostics::new();
        for diagnostic in found.iter() {
            if diagnostic.severity == Severity::Error
                || !off.iter().any(|name| *name == "all" || *name == diagnostic.code)
            {
                shown.push(Diagnostic::clone(diagnostic));
            }
        }
        Ok(shown)
    }
}

/// Draws messages on standard error; warnings alone not when the console is quiet.
pub fn draw(map: &SourceMap, shown: &Diagnostics, console: &Console) {
    let style = if console.has_color() { Style::Coloured } else { Style::Plain };
    let only_warnings = shown.error_count() == 0;
    if shown.iter().next().is_some() && !(only_warnings && console.is_quiet()) {
        eprint!("{}", render_all(map, shown, style));
    }
}

/// Reads P4 source and checks its types; what could be parsed goes to `then`, which asks `found` whether it was accepted.
pub fn read<T>(
    path: &Path,
    options: &Options,
    then: impl FnOnce(&ast::Program, &types::Typed<'_>, &SourceMap, &mut Diagnostics) -> T,
) -> Read<T> {
    barewire_p4_source::read(&Files, options, &path.to_string_lossy(), then)
}

/// The program that P4 source stands for; what is wrong with it is shown at its place.
///
/// # Errors
/// The source is not accepted, or asks for what is not lowered.
pub fn lower(path: &Path, options: &Options, console: &Console) -> anyhow::Result<Program> {
    lower_with(&Files, path, options, console)
}

/// [`lower`] through another reader of files. What the program was loaded from, for control planes, is its JSON.
///
/// # Errors
/// The source is not accepted, or asks for what is not lowered.
pub fn lower_with(
    files: &dyn Resolver,
    path: &Path,
    options: &Options,
    console: &Console,
) -> anyhow::Result<Program> {
    let Read { map, found, made } = barewire_switch::source::read(files, options, &path.to_string_lossy());
    let Some(Made { program, without_json }) = made.flatten() else {
        draw(&map, &found, console);
        let errors = match found.error_count() {
            1 => "the error".to_owned(),
            n => format!("{n} errors"),
        };
        let text = format!("{} was not loaded, because of {errors} above", path.display());
        return Err(Failure::new(Code::Failed, text).into());
    };
    if let Some(why) = without_json {
        console.note(&format!("{}: clients that ask for its JSON get none: {why}", path.display()));
    }
    Ok(program)
}

/// The P4Info of P4 source that is accepted.
pub fn p4info(path: &Path, options: &Options) -> Option<barewire_p4_info::P4Info> {
    let read = read(path, options, |source, typed, _, found| {
        (found.error_count() == 0).then(|| barewire_p4_info::from_source(source, typed, found))
    });
    read.made.flatten()
}
