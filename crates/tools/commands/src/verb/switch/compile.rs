//! `barewire switch compile`: from P4 source to what switches and controllers load.

use super::source::{SourceArgs, WarningArgs, draw, read};
use crate::console::Console;
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_p4_source::Read;
use barewire_p4_source::{Diagnostic, Diagnostics, Options, Severity, SourceMap, Span, types};
use clap::ValueEnum;
use prost::Message as _;
use std::path::{Path, PathBuf};

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// What the program's own architecture says: bmv2's switches
    Bmv2,
    /// bmv2's psa_switch
    Psa,
}

/// Arguments of `compile`.
#[derive(clap::Args)]
#[command(
    after_help = "The JSON is what simple_switch and `barewire switch run` load. P4Info has the same ids, names and types as p4c's, so \
                  controllers and table commands written for p4c keep working. Under the name p4c or p4c-bm2-ss (a link) this \
                  binary takes those compilers' arguments. Exit code 1 when the program is refused; nothing is written then."
)]
pub struct Args {
    /// The program: P4 source
    program: PathBuf,
    /// Write bmv2 JSON to this file, or into this folder under the program's name
    #[arg(short, long, value_name = "FILE", required_unless_present = "p4info")]
    output: Option<PathBuf>,
    /// Write P4Info to this file: binary if its name ends in `.bin`, else text; p4c's --p4runtime-files is the same
    #[arg(long, visible_alias = "p4runtime-files", value_name = "FILE", value_delimiter = ',')]
    p4info: Vec<PathBuf>,
    /// Target
    #[arg(short = 'b', long, value_enum, default_value = "bmv2")]
    target: Target,
    /// Architecture of the program, if it must be a particular one
    #[arg(long, value_name = "NAME", value_parser = ["v1model", "psa"])]
    arch: Option<String>,
    /// Language version; only P4-16 is supported
    #[arg(long, visible_alias = "p4v", value_name = "VERSION", value_parser = ["p4-16", "p4_16", "16", "p4-14", "p4_14", "14"])]
    std: Option<String>,
    /// Accepted for p4c's sake: externs are always written
    #[arg(long)]
    emit_externs: bool,
    /// As p4c: disable all warnings, or those of one name
    #[arg(long = "Wdisable", value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    disable: Vec<String>,
    #[command(flatten)]
    warnings: WarningArgs,
    #[command(flatten)]
    source: SourceArgs,
}

/// What is to be made of a program.
#[derive(Debug, Default)]
pub struct Job {
    /// P4 source.
    pub program: PathBuf,
    /// Where JSON goes.
    pub json: Option<PathBuf>,
    /// Where P4Info goes.
    pub p4info: Vec<PathBuf>,
    /// The architecture it has to be for.
    pub arch: Option<String>,
    /// Names of warnings that nobody wants; names that there are not do nothing.
    pub quiet: Vec<String>,
    /// What the preprocessor takes.
    pub options: Options,
}

/// Compiles a program.
///
/// # Errors
/// A file that cannot be written, or whose kind is not known.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    if args.std.as_deref().is_some_and(|version| version.ends_with("14")) {
        return Err(Failure::new(Code::Usage, "P4_14 is not read")
            .hint("p4c translates it: `p4test --std p4-14 --pp NEW.p4 OLD.p4`")
            .into());
    }
    let arch = match (args.target, args.arch.as_deref()) {
        (Target::Psa, None | Some("psa")) => Some("psa".to_owned()),
        (Target::Psa, Some(other)) => {
            return Err(Failure::new(Code::Usage, format!("--target psa and --arch {other}")).into());
        }
        (Target::Bmv2, arch) => arch.map(str::to_owned),
    };
    let json = args.output.as_ref().map(|path| json_path(path, &args.program));
    let job = Job {
        program: args.program.clone(),
        json,
        p4info: args.p4info.clone(),
        arch,
        quiet: args.disable.clone(),
        options: args.source.options(),
    };
    compile(&job, |found| args.warnings.wanted(found), console)
}

/// A folder takes the program's name.
pub fn json_path(path: &Path, program: &Path) -> PathBuf {
    let folder = path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/');
    if !folder {
        return path.to_owned();
    }
    path.join(program.with_extension("json").file_name().unwrap_or_default())
}

/// Does a job.
///
/// # Errors
/// A file that cannot be written, or whose kind is not known.
pub fn compile(
    job: &Job,
    wanted: impl FnOnce(&Diagnostics) -> anyhow::Result<Diagnostics>,
    console: &Console,
) -> anyhow::Result<Code> {
    for path in &job.p4info {
        kind(path)?;
    }
    let Read { map, found, made } = read(&job.program, &job.options, |source, typed, map, found| {
        if let Some(arch) = &job.arch
            && found.error_count() == 0
        {
            types::require_architecture(typed, arch, found);
        }
        if found.error_count() > 0 {
            return None;
        }
        let json = match job.json {
            Some(_) => {
                Some(json_of(source, typed, map, &job.program).map_err(|refusal| found.push(*refusal)).ok()?)
            }
            None => None,
        };
        let info = match job.p4info.is_empty() {
            true => None,
            false => Some(barewire_p4_info::from_source(source, typed, found)),
        };
        Some((json, info))
    });
    let mut shown = Diagnostics::new();
    for diagnostic in wanted(&found)?.iter() {
        let off = job.quiet.iter().any(|name| name == "all" || *name == diagnostic.code);
        if diagnostic.severity == Severity::Error || !off {
            shown.push(Diagnostic::clone(diagnostic));
        }
    }
    draw(&map, &shown, console);
    let Some((json, info)) = made.flatten().filter(|_| shown.error_count() == 0) else {
        return Ok(Code::Failed);
    };
    if let (Some(path), Some(json)) = (&job.json, json) {
        write(path, json.as_bytes())?;
    }
    for path in &job.p4info {
        let Some(info) = &info else { break };
        let bytes = match kind(path)? {
            Kind::Text => barewire_p4_info::to_text(info).into_bytes(),
            Kind::Binary => info.encode_to_vec(),
        };
        write(path, &bytes)?;
    }
    Ok(Code::Done)
}

/// The JSON of a checked program.
pub fn json_of<'a>(
    source: &'a barewire_p4_source::ast::Program,
    typed: &'a types::Typed<'a>,
    map: &'a SourceMap,
    path: &Path,
) -> Result<String, Box<Diagnostic>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let program = barewire_p4_lower::lower(source, typed, map, &name)?;
    barewire_p4_formats::export::export(&program).map_err(|error| {
        let span = typed.main.map_or(Span::NONE, |main| typed.symbol(main).span);
        Box::new(Diagnostic::error(types::code::UNSUPPORTED, span, error.to_string()))
    })
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

enum Kind {
    Text,
    Binary,
}

fn kind(path: &Path) -> anyhow::Result<Kind> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("bin" | "pb") => Ok(Kind::Binary),
        Some("json") => {
            let text = format!("{}: P4Info is written as text or binary, not as JSON", path.display());
            Err(Failure::new(Code::Usage, text).hint("end the name in .txtpb or .bin").into())
        }
        _ => Ok(Kind::Text),
    }
}
