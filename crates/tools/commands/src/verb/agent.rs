//! `barewire agent`: what `bench run` starts on each host. Speaks with it over standard input and output.

use crate::failure::Code;
use anyhow::Context as _;

/// Runs it.
///
/// # Errors
/// What keeps the agent from starting.
pub fn run() -> anyhow::Result<Code> {
    barewire_experiment::agent::serve().context("the agent")?;
    Ok(Code::Done)
}
