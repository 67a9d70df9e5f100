//! `barewire switch fmt`: P4 source, laid out in one way.

use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_p4_source::fmt::{FormatError, format};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Arguments.
#[derive(clap::Args)]
#[command(
    after_help = "Files are rewritten in place; `-` formats standard input to standard output. Exit code 1 when a file cannot be \
                  formatted or, with --check, is not formatted; else 0."
)]
pub struct Args {
    /// Write nothing; list the files that are not formatted
    #[arg(long)]
    check: bool,
    /// P4 sources
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Lays out each file.
///
/// # Errors
/// When a file cannot be read, laid out or written.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let mut code = Code::Done;
    for path in &args.files {
        let standard = path.as_os_str() == "-";
        let text = if standard { standard_input()? } else { read(path)? };
        let out = format(&text).map_err(|error| refused(path, &text, &error))?;
        if args.check {
            if out != text {
                print(&format!("{}: not laid out", path.display()))?;
                code = Code::Failed;
            }
        } else if standard {
            if !out.is_empty() {
                print(&out)?;
            }
        } else if out != text {
            std::fs::write(path, out).with_context(|| format!("writing {}", path.display()))?;
            console.tell(&format!("{}: laid out", path.display()));
        }
    }
    Ok(code)
}

fn standard_input() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("reading standard input")?;
    Ok(text)
}

/// The text of a file. One that is not UTF-8 stays as it is.
fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(Code::Failed, format!("{}: byte {at} is not UTF-8 text", path.display())).into()
    })
}

fn refused(path: &Path, text: &str, error: &FormatError) -> Failure {
    let place = match error {
        FormatError::NoEnd(at) | FormatError::Stray(at) => {
            format!(":{}", text[..*at].matches('\n').count() + 1)
        }
        FormatError::Changed(_) => String::new(),
    };
    Failure::new(Code::Failed, format!("{}{place}: {error}", path.display()))
}
