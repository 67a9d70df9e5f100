//! The keeper of a lab: takes it down when the one who made it was killed.

use barewire_lab::{Lab, Programs};
use std::ffi::OsStr;
use std::io::{self, BufRead};
use std::time::Duration;

/// Says to a process that it is the keeper, and of which lab.
pub(crate) const KEEPS: &str = "BAREWIRE_AGENT_KEEPS";
/// Says to the keeper that the lab is down.
pub(super) const DOWN: &str = "down";
/// How long agents may take to clean up by themselves.
const AGENTS_WAIT: Duration = Duration::from_secs(3);

pub(super) fn run(lab: &OsStr) -> io::Result<()> {
    let told = io::stdin().lock().lines().map_while(Result::ok).any(|line| line.trim() == DOWN);
    if told {
        return Ok(());
    }
    std::thread::sleep(AGENTS_WAIT);
    let labs = Lab::new(&Lab::default_folder(), Programs::of_binary(&std::env::current_exe()?));
    labs.down(&lab.to_string_lossy()).map(drop).map_err(io::Error::other)
}
