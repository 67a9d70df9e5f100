//! `barewire switch compile`: from P4 source to what controllers load.

use super::source::{Read, SourceArgs, WarningArgs, draw, read};
use crate::console::Console;
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use prost::Message as _;
use std::path::{Path, PathBuf};

/// Arguments of `compile`.
#[derive(clap::Args)]
#[command(
    after_help = "P4Info has the ids, names and types that p4c gives, so that controllers and table commands written for its output \
                  go on working. Exit code 1 when the program is refused; nothing is written then."
)]
pub struct Args {
    /// The program: P4 source
    program: PathBuf,
    /// Where P4Info goes: text, or binary when the name ends in `.bin`; p4c's --p4runtime-files means the same
    #[arg(
        long,
        visible_alias = "p4runtime-files",
        value_name = "FILE",
        value_delimiter = ',',
        required = true
    )]
    p4info: Vec<PathBuf>,
    #[command(flatten)]
    warnings: WarningArgs,
    #[command(flatten)]
    source: SourceArgs,
}

/// Compiles a program.
///
/// # Errors
/// A file that cannot be written, or whose kind is not known.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    for path in &args.p4info {
        kind(path)?;
    }
    let Read { map, found, made } =
        read(&args.program, &args.source.options(), |program, typed, _, found| {
            (found.error_count() == 0).then(|| barewire_p4_info::from_source(program, typed, found))
        });
    let info = made.flatten();
    let shown = args.warnings.wanted(&found)?;
    draw(&map, &shown, console);
    let Some(info) = info.filter(|_| shown.error_count() == 0) else { return Ok(Code::Failed) };
    for path in &args.p4info {
        let bytes = match kind(path)? {
            Kind::Text => barewire_p4_info::to_text(&info).into_bytes(),
            Kind::Binary => info.encode_to_vec(),
        };
        std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(Code::Done)
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
