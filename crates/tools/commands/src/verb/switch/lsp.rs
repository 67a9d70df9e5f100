//! `barewire switch lsp`: a language server for editors, over standard input and output.

use super::source::SourceArgs;
use crate::failure::{Code, Failure};
use barewire_switch::source::Files;

/// Arguments.
#[derive(clap::Args)]
#[command(
    after_help = "Editors start it and speak the Language Server Protocol with it. They can add directories and macros in their \
                  initialization options: {\"include\": [\"DIRECTORY\"], \"define\": [\"NAME=VALUE\"]}."
)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// What editors add; there is no other way
    #[arg(long, hide = true)]
    stdio: bool,
}

/// Serves until the editor says that it is done.
///
/// # Errors
/// The editor breaks the protocol.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    barewire_p4_lsp::serve_standard(&Files, &args.source.options())
        .map_err(|error| Failure::new(Code::Failed, format!("the editor: {error}")))?;
    Ok(Code::Done)
}
