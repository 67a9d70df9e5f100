//! The agent: what runs on each host, starts processes there, tells what they write, and leaves nothing behind.
//!
//! ```text
//! controller ⇄ stdin, stdout (JSON lines) ⇄ worker ──> processes, each a group of its own
//!                                   guardian ──┘   notices when the worker is gone, and when the controller is
//! ```
//! Two processes, so that one is left whichever is killed: the guardian starts the worker, and the kernel tells the worker when the
//! guardian has died. Both are subreapers: what a process starts and leaves stays below them, and is ended with them.

mod family;
mod files;
mod guardian;
mod keeper;
mod lines;
mod outbox;
mod process;
pub mod protocol;
mod slurmd;
mod undo;
mod worker;

pub(crate) use family::{Family, end as end_family};
pub(crate) use guardian::remove_stale;
pub(crate) use keeper::KEEPS;
pub(crate) use lines::{Lines, PIECE_BYTES_MAX};
pub(crate) use undo::FAILED as CLEANUP_FAILED;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, io};

/// Says to a process that it is the worker, and where its scratch folder is.
const WORKER: &str = "BAREWIRE_AGENT_WORKER";
/// Marks what belongs to one run on this machine: a launcher may set it for its agents, and find by it what they left.
pub const RUN_MARK: &str = "BAREWIRE_RUN";

/// Says to a process that it is to end what agents of this [`RUN_MARK`] have left, and nothing else.
pub(crate) const SWEEPS: &str = "BAREWIRE_AGENT_SWEEPS";

/// Says to an agent that it is a job step of Slurm's, and is to look at its node's slurmd: in a job, others may run, too.
pub(crate) const AS_STEP: &str = "BAREWIRE_AGENT_STEP";

/// How long controller and agent may hear nothing of each other before each takes the other for lost: a benchmark that fills the card which
/// carries their connection, too, holds their words up.
pub(crate) const SILENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// What an experiment calls `barewire`: the agent's own binary, of the same commit as the controller's. Anything else is looked up where it
/// runs.
fn program<'a>(named: &'a str, own: &'a str) -> &'a str {
    if named == "barewire" { own } else { named }
}

/// Is the agent, until the controller is done with it or gone. Reads standard input, writes standard output.
///
/// # Errors
/// What keeps it from starting. What goes wrong later is told to the controller.
pub fn serve() -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    ctrlc::set_handler(move || told.store(true, Ordering::Relaxed)).map_err(io::Error::other)?;
    if let Some(mark) = env::var_os(SWEEPS) {
        let ended = end_family(Family::Marked(&format!("{RUN_MARK}={}", mark.to_string_lossy())), &|_| false);
        remove_stale();
        let left = || io::Error::other(format!("{} processes do not end", ended.left));
        return if ended.left == 0 { Ok(()) } else { Err(left()) };
    }
    match (env::var_os(WORKER), env::var_os(KEEPS)) {
        (Some(scratch), _) => worker::run(scratch.as_ref(), &stop),
        (None, Some(lab)) => keeper::run(&lab),
        (None, None) => guardian::run(&stop),
    }
}

/// This process' own command line.
fn own_command() -> io::Result<(OsString, Vec<OsString>)> {
    Ok((env::current_exe()?.into_os_string(), env::args_os().skip(1).collect()))
}
