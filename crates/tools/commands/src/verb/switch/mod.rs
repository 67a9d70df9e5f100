//! `barewire switch`: run, check, look into, trace, test and command a P4 switch.

mod choose;
pub mod cli;
pub mod compile;
pub mod fmt;
pub mod inspect;
mod kernel;
pub mod lsp;
pub mod p4c;
pub mod run;
pub mod serve;
pub mod simple;
pub mod source;
pub mod test;
pub mod trace;
mod watch;

use crate::console::Console;
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_p4::ir::Program;
use barewire_p4_source::Options;
use barewire_switch::control::ControlError;
use barewire_switch::prepared::{EngineKind, Prepared};
use clap::{Subcommand, ValueEnum};
use std::path::Path;
use std::sync::Arc;

/// What to do with a program or a switch.
#[derive(Subcommand)]
pub enum Switch {
    /// Run a program on ports
    Run(Box<run::Args>),
    /// Check programs; errors have file, line and column
    Check(inspect::CheckArgs),
    /// Compile P4 source: bmv2 JSON for switches, P4Info for controllers
    Compile(compile::Args),
    /// Show a program's parsers, tables, actions, memory and machine code
    Info(inspect::InfoArgs),
    /// Trace a packet through a program: each state, table, key, action and field
    Trace(trace::Args),
    /// Run an STF packet test through the interpreter and the compiled code
    Test(test::Args),
    /// Format P4 source
    Fmt(fmt::Args),
    /// Run a language server for P4 source: errors, outline, definitions, completion, formatting
    Lsp(lsp::Args),
    /// Send commands to a running switch (barewire or bmv2), as p4lang's simple_switch_CLI does
    Cli(cli::Args),
}

/// Runs it.
///
/// # Errors
/// What the verb could not do.
pub fn run(switch: &Switch, console: &Console) -> anyhow::Result<Code> {
    match switch {
        Switch::Run(args) => run::run(args, console),
        Switch::Check(args) => inspect::check(args, console),
        Switch::Compile(args) => compile::run(args, console),
        Switch::Info(args) => inspect::info(args),
        Switch::Trace(args) => trace::run(args, console),
        Switch::Test(args) => test::run(args, console),
        Switch::Fmt(args) => fmt::run(args, console),
        Switch::Lsp(args) => lsp::run(args),
        Switch::Cli(args) => cli::run(args, console),
    }
}

/// Which engine.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Machine code
    Native,
    /// The reference interpreter
    Interpreter,
    /// eBPF in the kernel, machine code for what the kernel cannot do
    Kernel,
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> EngineKind {
        match engine {
            Engine::Native => EngineKind::Native,
            Engine::Interpreter => EngineKind::Interpreter,
            Engine::Kernel => EngineKind::Kernel,
        }
    }
}

/// Whether a program is P4 source, by its name.
fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "p4")
}

/// The text of a program file.
fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// A program from its file, P4 source (`.p4`) or JSON; notes about what was passed over are told.
fn load(path: &Path, options: &Options, console: &Console) -> anyhow::Result<Arc<Program>> {
    if is_source(path) {
        return source::lower(path, options, console).map(Arc::new);
    }
    let beside = path.with_extension("p4");
    if !path.exists() && beside.is_file() {
        let (json, source) = (path.display(), beside.display());
        let failure =
            Failure::new(Code::Failed, format!("{json} does not exist, and its source {source} does"));
        return Err(failure
            .hint(format!(
                "give {source} itself, or make the other: barewire switch compile {source} -o {json}"
            ))
            .into());
    }
    let text = read(path)?;
    let (program, notes) = barewire_p4_formats::import::import_with_notes(&text)
        .map_err(|error| Failure::new(Code::Failed, format!("{}: {error}", path.display())))?;
    for note in notes {
        console.note(&format!("{}: {note}", path.display()));
    }
    Ok(Arc::new(program))
}

/// A program ready to run.
fn prepare(program: &Arc<Program>, engine: EngineKind) -> anyhow::Result<Arc<Prepared>> {
    prepared_by(Prepared::new, program, engine)
}

/// The same without waiting for the machine code of a large program. Whether that came is told when it is known.
fn prepare_deferred(
    program: &Arc<Program>,
    engine: EngineKind,
    console: &Console,
) -> anyhow::Result<Arc<Prepared>> {
    let prepared = prepared_by(Prepared::deferred, program, engine)?;
    if prepared.is_coming() {
        let (waited, console) = (Arc::clone(&prepared), console.clone());
        let tell = move || match waited.wait() {
            Ok(()) => console.note("machine code is ready: it replaces the interpreter"),
            Err(error) => console.note(&format!("no machine code, the interpreter stays: {error}")),
        };
        // Without a thread nobody is told; the program runs all the same.
        let _ = std::thread::Builder::new().name("p4-compiled".to_owned()).spawn(tell);
    }
    Ok(prepared)
}

fn prepared_by(
    make: impl FnOnce(Arc<Program>, EngineKind) -> Result<Prepared, ControlError>,
    program: &Arc<Program>,
    engine: EngineKind,
) -> anyhow::Result<Arc<Prepared>> {
    let prepared = make(Arc::clone(program), engine).map_err(|error| {
        let failure = Failure::new(Code::Failed, error.to_string());
        match engine {
            EngineKind::Kernel => failure.hint("--engine native runs every program in user space"),
            _ => failure,
        }
    })?;
    Ok(Arc::new(prepared))
}

/// Whether a list of words stands for a bmv2 command line: by the name the binary was started under.
pub fn bmv2_name(argv0: &std::ffi::OsStr) -> Option<simple::Target> {
    let name = Path::new(argv0).file_name()?.to_str()?;
    match name.strip_prefix("barewire-").unwrap_or(name) {
        "simple-switch" | "simple_switch" => Some(simple::Target::Simple),
        "simple-switch-grpc" | "simple_switch_grpc" => Some(simple::Target::Grpc),
        "psa-switch" | "psa_switch" => Some(simple::Target::Psa),
        _ => None,
    }
}

/// Whether a list of words stands for a compiler's command line: by the name the binary was started under.
pub fn p4c_name(argv0: &std::ffi::OsStr) -> Option<p4c::Form> {
    let name = Path::new(argv0).file_name()?.to_str()?;
    match name.strip_prefix("barewire-").unwrap_or(name) {
        "p4c" => Some(p4c::Form::Driver),
        "p4c-bm2-ss" => Some(p4c::Form::Simple),
        "p4c-bm2-psa" => Some(p4c::Form::Psa),
        _ => None,
    }
}
