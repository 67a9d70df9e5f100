//! `barewire completions`: what a shell needs to complete our words.

use crate::args::Cli;
use crate::console::print;
use crate::failure::Code;
use clap::CommandFactory;
use clap_complete::Shell;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs it.
///
/// # Errors
/// When stdout does.
pub fn run(args: &Args) -> anyhow::Result<Code> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "barewire", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Code::Done)
}
